# Causal attention, with the gradients of queries, keys and values.
dim B = 4, H = 16, T = 1024, D = 64
model causal_attention {
    input g : f32[B, H, T, D]
    q = param [B, H, T, D] init normal(1.0)
    k = param [B, H, T, D] init normal(1.0)
    v = param [B, H, T, D] init normal(1.0)
    p = softmax(where(causal(T), q @ transpose(k) * rsqrt(float(D)), -inf))
    y = p @ v
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
