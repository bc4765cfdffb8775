# A product of each of several matrices.
dim B = 3, M = 64, N = 64, K = 64
model batched {
    precision bf16
    x = param [B, M, K] init normal(1.0)
    g = param [B, M, N] init normal(1.0)
    w = param [B, N, K] init normal(0.1)
    y = x @ transpose(w)
    loss = mean(y * g)
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
