model m {
    input x : f32[4]
    loss = mean(linear(x, 1) as head)
    output loss
    train loss with sgd(lr = 0.1) only "head.w" clip_norm 1.0 only "head.b" clip_norm 2.0
}
