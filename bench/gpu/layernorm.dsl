# Layer norm over rows, with the gradients of the rows, the gain and the shift.
dim R = 16384, C = 4096
model layernorm_rows {
    input g : f32[R, C]
    x = param [R, C] init normal(1.0)
    y = layernorm(x) as norm
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
