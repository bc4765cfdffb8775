# Reductions, scans, normalizations, attention, gathers and scatters at sizes of layers.
model rows {
    input x : f32[64, 1000]
    input short : f32[4096, 6]
    input tokens : f32[2, 96, 64]
    input cube : f32[16, 24, 48]
    input ids : i32[2, 96] in 0..500
    input label : i32[64] in 0..1000
    input at : i32 in 0..60
    e = embed(ids, 500, 64)
    output top = softmax(x)
    output down = softmax(x, axis = 0)
    output few = log_softmax(short)
    output norm = layernorm(tokens) as norm
    output rms = (rmsnorm(x) as rms) + 1.0
    output batch = batchnorm(cube) as batch
    output group = groupnorm(cube, 6) as group
    output causal_heads = self_attention(tokens, 4) as causal_heads
    output open_heads = self_attention(tokens + e, 2, mask = none) as open_heads
    output whole = sum(cube)
    output first = sum(cube, axis = 0)
    output inner = mean(cube, axis = 2)
    output outer = max(cube, axis = [0, 2])
    output tallest = argmax(x, axis = 1)
    output best = argmax(short, axis = 0)
    output running = cumsum(x, axis = 1)
    output fall = cumsum(short, axis = 0, reverse = true)
    output factor = cumprod(tanh(tokens), axis = 1, exclusive = true)
    output spread = variance(cube, axis = 1)
    output part = slice(x, at, 4)
    output put = update(x, zeros_like_row(x), at)
    output turned = transpose(cube, [2, 0, 1]) * 2.0
    output sides = concat(short, reverse(short, axis = 0), axis = 1)
    output padded = pad(cube, [[1, 1], [0, 2], [3, 0]])
    output noise = dropout(tokens, 0.1)
    output other_noise = dropout(tokens * 2.0, 0.1) + dropout(sin(tokens), 0.2)
    output two_noises = dropout(tokens * 2.0, 0.1) + dropout(sin(tokens), 0.2)
    table = tanh(cube[0, 0:20, 0:12])
    sent = sin(cube[1, 0:8, 0:12])
    rows = vjp(table[mod(iota(8) * 3, 20)], table, sent)
    output each_column = jacobian(rows, sent, batch = 1)
    loss = mean(cross_entropy(rms, label)) + mean(norm^2) + mean(batch^2) + mean(group^2) + mean(causal_heads^2) +
           mean(open_heads^2) + mean(factor)
    output loss
    train loss with adamw(lr = hyper 0.001) clip_norm 1.0
}
fn zeros_like_row(x) { return slice(x, 0, 1) * 0.0 }
