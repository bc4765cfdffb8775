model norms {
    precision bf16
    x = param [2048, 256] init normal(1.0)
    h = layernorm(tanh(x)) as norm
    loss = mean((linear(h, 256) as a)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
