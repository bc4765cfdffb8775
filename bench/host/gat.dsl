# Velickovic et al., 2018: attention along the edges of a graph, two layers of four heads.
dim N = 10000, E = 160000

layer attend(x, from, to, heads, width) {
    h = reshape(linear(x, heads * width, bias = false) as project, [N, heads, width])
    a = param [heads, width] init normal(0.1)
    b = param [heads, width] init normal(0.1)
    sent = sum(h * a, axis = -1)
    got = sum(h * b, axis = -1)
    s = sent[from] + got[to]
    s = max(s, 0.2 * s)
    m = segment_max(s, to, N)
    p = exp(s - m[to])
    total = segment_sum(p, to, N)
    y = segment_sum(expand_dims(p, -1) * h[from], to, N)
    return reshape(y / expand_dims(max(total, 1e-9), -1), [N, heads * width])
}

model gat {
    input x : f32[N, 128]
    input from : i32[E] in 0..N
    input to : i32[E] in 0..N
    input label : i32[N] in 0..16
    h = relu(attend(x, from, to, 4, 16) as first)
    h = relu(attend(h, from, to, 4, 16) as second)
    loss = mean(cross_entropy(linear(h, 16) as head, label))
    output loss
    train loss with sgd(lr = 0.1)
}
