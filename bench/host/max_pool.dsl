# Windows of 3 x 3 that overlap: an element may be the greatest of four.
model max_pool {
    input u : f32[8, 56, 56, 64]
    x = param [8, 112, 112, 64] init normal(1.0)
    loss = mean(max_pool2d(x, 3, stride = 2, padding = 1) * u)
    output loss
    train loss with sgd(lr = 0.1)
}
