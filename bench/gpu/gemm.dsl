# One matrix product and both its gradients, in f32.
dim M = 1024, N = 1024, K = 1024
model gemm {
    input g : f32[M, N]                  # what the gradients are seeded with
    a = param [M, K] init normal(1.0)
    b = param [K, N] init normal(1.0)
    y = a @ b
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
