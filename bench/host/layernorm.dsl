model layernorm {
    input u : f32[4096, 1024]
    x = param [4096, 1024] init normal(1.0)
    loss = mean(layernorm(x) as norm * u)
    output loss
    train loss with sgd(lr = 0.1)
}
