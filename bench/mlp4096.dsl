# An MLP of two layers, forward and backward: what jacobian_gemm is worth, and per-sample products beside BLAS 2.
dim B = 512, width = 4096

model mlp4096 {
    input x : f32[B, width]
    input t : f32[B, width]
    h = tanh(linear(x, width) as first)
    y = linear(h, width) as second
    loss = mean((y - t) * (y - t))
    output loss
    train loss with sgd(lr = hyper 0.1)
}
