# GPT-2, 124M parameters (Radford et al., 2019): learned positions, pre-norm blocks, tied output weights.
# Parameter paths are those of the published weights, short of transposition: h.3.attn.qkv.w is [768, 2304].
dim B = 8, T = 1024                       # override: fusec -D T=64
let V = 50257, C = 768, H = 12, L = 12

layer attention(x) {
    q, k, v = split(linear(x, 3 * C) as qkv, 3, axis = -1)
    s = to_heads(q, H) @ transpose(to_heads(k, H)) * rsqrt(float(C / H))
    p = softmax(where(causal(T), s, -inf))
    return linear(from_heads(p @ to_heads(v, H)), C) as proj
}

layer block(x) {
    x = x + attention(layernorm(x) as ln_1) as attn
    return x + linear(gelu(linear(layernorm(x) as ln_2, 4 * C) as fc, form = "tanh"), C) as proj
}

model gpt2 {
    input tokens  : i32[B, T] in 0..V
    input targets : i32[B, T] in 0..V
    wte = param [V, C] init normal(0.02)
    x = wte[tokens] + (param [T, C] init normal(0.01) as wpe)
    repeat L as h { x = block(x) }
    loss = mean(cross_entropy((layernorm(x) as ln_f) @ transpose(wte), targets))
    output loss
    train loss with adamw(lr = hyper 6e-4, decay = 0.1) clip_norm 1.0
}
