# A residual MLP of N blocks: the compile-time and checkpoint benchmarks.
dim B = 32
let N = 100, W = 64
layer residual(x) {
    return x + (linear(relu(linear(layernorm(x) as norm, W) as up), W) as down)
}
model resmlp {
    input x : f32[B, W]
    input y : f32[B, 1]
    repeat N as block { x = residual(x) }
    loss = mean((linear(x, 1) as head - y)^2)
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
