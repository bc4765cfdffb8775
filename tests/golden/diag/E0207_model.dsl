model m {
    input x : f32[4]
    input x : f32[4]
    loss = mean(x)
    output loss
    output loss
    train loss with sgd(lr = 0.1)
}
