# Causal attention of 8 heads with its gradients; T from 512 to 8192.
dim T = 1024
model attention {
    q = param [8, T, 64] init normal(1.0)
    k = param [8, T, 64] init normal(1.0)
    v = param [8, T, 64] init normal(1.0)
    s = where(causal(T), q @ transpose(k) * rsqrt(64.0), -inf)
    loss = mean((softmax(s) @ v)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
