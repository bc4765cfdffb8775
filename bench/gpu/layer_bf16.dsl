# A layer in bf16 and its gradients: a short sum, and much to compute after it.
dim M = 8192, N = 3072, K = 768
model layer {
    precision bf16
    input g : f32[M, N]                  # what the gradients are seeded with
    x = param [M, K] init normal(1.0)
    y = gelu(linear(x, N) as up)
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
