# A strided convolution along one axis.
dim B = 3, T = 40, C = 64, F = 64
model signal {
    precision bf16
    x = param [B, T, C] init normal(1.0)
    w = param [5, C, F] init normal(0.1)
    h[n, t in 0..T / 2, f] = sum[r, c] x[n, 2*t + r - 2, c] * w[r, c, f]
    loss = mean(h^2)
    output h
    output loss
    train loss with sgd(lr = 0.1)
}
