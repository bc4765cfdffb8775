# fusec check --memory-budget=1K
model m {
    input x : f32[16, 64]
    y = linear(x, 64) as layer
    loss = mean(y * y)
    output loss
    train loss with sgd(lr = 0.1)
}
