# Two layers, one on the other, and the gradients of both.
dim M = 64, N = 64, K = 64
model product {
    precision bf16
    x = param [M, K] init normal(1.0)
    g = param [M, N] init normal(1.0)
    h = relu(linear(x, N) as first)
    y = linear(h, N) as second
    loss = mean(y * g)
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
