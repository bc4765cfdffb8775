# Precision bf16: attention, a norm, gelu and a residual; three steps of momentum.
let T = 5, C = 8, H = 2

model low {
    precision bf16
    input x : f32[2, T, C]
    input y : f32[2, T, 3]
    h = relu(linear(x, C) as enter)
    q, k, v = split(linear(layernorm(h) as norm, 3 * C) as qkv, 3, axis = -1)
    s = to_heads(q, H) @ transpose(to_heads(k, H)) * rsqrt(float(C / H))
    p = softmax(where(causal(T), s, -inf))
    h = h + linear(from_heads(p @ to_heads(v, H)), C) as proj
    h = h + linear(gelu(linear(h, 16) as up), C) as down
    z = linear(h, 3) as head
    loss = mse(z, y)
    output loss
    output z
    train loss with momentum(lr = hyper 1e-2)
}
