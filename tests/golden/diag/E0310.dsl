model m {
    input x : f32[2, 3]
    loss = mean(linear(x, 1)^2)
    output loss
    train loss with sgd(lr = 0.1) clip_norm -1
}
