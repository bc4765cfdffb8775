# Windowed causal self-attention between norms, both forms of gelu, tied embeddings, ignored labels.
let T = 9, C = 8, V = 11, H = 2, W = 4

layer attend(x) {
    q, k, v = split(linear(x, 3 * C) as qkv, 3, axis = -1)
    i, j = iota(T, axis = 0, rank = 2), iota(T, axis = 1, rank = 2)
    s = to_heads(q, H) @ transpose(to_heads(k, H)) * rsqrt(float(C / H))
    p = softmax(where(j <= i and i - j < W, s, -inf))
    return linear(from_heads(p @ to_heads(v, H)), C) as proj
}
model attention {
    input tokens : i32[2, T] in 0..V
    input targets : i32[2, T] in 0..V
    table = param [V, C] init normal(0.02)
    x = table[tokens] + (param [T, C] init normal(0.02) as position)
    x = x + attend(layernorm(x) as ln1) as att
    x = x + linear(gelu(linear(layernorm(x) as ln2, 12) as up), C) as down
    x = x + self_attention(rmsnorm(x) as ln3, H) as full
    x = x + linear(gelu(linear(x, 12) as up2, form = "tanh"), C) as down2
    logits = (layernorm(x) as ln_f) @ transpose(table)
    each = cross_entropy(logits, targets, ignore = 0)
    loss = mean(each, where = targets != 0)
    output loss
    output each
    train loss with sgd(lr = hyper 0.1) clip_norm 1.0
}
