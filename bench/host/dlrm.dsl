# Naumov et al., 2019: dense features, eight tables, products of all pairs, a click or none.
dim B = 2048, R = 100000
model dlrm {
    input dense : f32[B, 13]
    input ids : i32[8, B] in 0..R
    input click : i32[B] in 0..2
    x = relu(linear(relu(linear(relu(linear(dense, 512) as bottom1), 256) as bottom2), 16) as bottom3)
    tables = param [8, R, 16] init normal(0.01)
    e[b, t, c] = tables[t, ids[t, b], c]
    vectors = concat(expand_dims(x, 1), e, axis = 1)
    pairs = reshape(vectors @ transpose(vectors), [B, 81])
    h = relu(linear(relu(linear(concat(x, pairs, axis = 1), 512) as top1), 256) as top2)
    z = reshape(linear(h, 1) as top3, [B])
    loss = mean(max(z, 0) - z * float(click) + log(1 + exp(-abs(z))))
    output loss
    train loss with sgd(lr = 0.1)
}
