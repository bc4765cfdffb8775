# Softmax over rows, with its gradient.
dim R = 16384, C = 4096
model softmax_rows {
    input g : f32[R, C]
    x = param [R, C] init normal(1.0)
    y = softmax(x)
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
