# A run-time extent below its bound: rows that are not there count nowhere.
dim S <= 9
model bounded {
    input x : f32[S, 4]
    input y : i32[S] in 0..3
    h = layernorm(gelu(linear(x, 6) as up)) as norm
    s = h @ transpose(h) * 0.5
    i, j = iota(S, axis = 0, rank = 2), iota(S, axis = 1, rank = 2)
    a = softmax(where(j <= i, s, -inf)) @ h
    top = max(h, axis = 0)
    loss = mean(cross_entropy(linear(a + top, 3) as head, y))
    output loss
    output a
    output top
    output total = cumsum(h, axis = 0)
    train loss with adam(lr = hyper 1e-2)
}
