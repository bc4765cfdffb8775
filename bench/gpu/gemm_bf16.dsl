# One matrix product and both its gradients, in bf16.
dim M = 4096, N = 4096, K = 4096
model gemm {
    precision bf16
    input g : f32[M, N]                  # what the gradients are seeded with
    a = param [M, K] init normal(1.0)
    b = param [K, N] init normal(1.0)
    y = a @ b
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
