# A small GPT that predicts the next byte of a text.
dim B = 16, T = 64                        # sequences in a batch, bytes in a sequence
let C = 96, H = 4, L = 3                  # channels, heads, layers
let steps = 400                           # what the learning rate is planned for

layer block(x) {
    x = x + self_attention(layernorm(x) as ln_1, H) as attn
    return x + linear(gelu(linear(layernorm(x) as ln_2, 4 * C) as up), C) as down
}

model chargpt {
    input tokens  : i32[B, T] in 0..128
    input targets : i32[B, T] in 0..128   # the same, one byte later
    wte = param [128, C] init normal(0.05)
    x = wte[tokens] + (param [T, C] init normal(0.05) as wpe)
    repeat L as h { x = block(x) }
    logits = (layernorm(x) as ln_f) @ transpose(wte)
    loss = mean(cross_entropy(logits, targets))
    output loss
    output probability = softmax(logits)
    train loss with adamw(lr = warmup_cosine(3e-3, 20, steps), decay = 0.01) clip_norm 1.0
}
