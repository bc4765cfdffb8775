# One matrix product and both its gradients as they stand within a network in bf16: what comes from the layer before, what goes to
# the one after it and the gradients of both lie in memory as bf16, that of the weights as f32.
dim M = 4096, N = 4096, K = 4096, R = 4
model linear {
    precision bf16
    input g : f32[M, R]                  # what the gradients are seeded with
    e = param [M, R] init normal(1.0)
    before = param [R, K] init normal(1.0)
    w = param [K, N] init normal(1.0)
    after = param [N, R] init normal(1.0)
    h = layernorm(e @ before) as norm_x @ w
    y = layernorm(h) as norm_y @ after
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
