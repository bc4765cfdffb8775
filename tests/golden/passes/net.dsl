# Every kind of kernel: a product with an epilogue, a convolution, rows, a map, a scatter, a scan; odd sizes.
dim B = 3, S <= 5
model net {
    input ids : i32[B, S] in 0..7
    input image : f32[B, 6, 6, 2]
    input label : i32[B] in 0..4
    words = sum(embed(ids, 7, 5), axis = 1)
    x = max_pool2d(relu(conv2d(image, 3, 3) as conv), 2)
    x = concat(flatten(x), words, axis = -1)
    x = layernorm(dropout(linear(x, 8) as up, 0.25)) as norm
    logits = linear(cumsum(x, axis = -1), 4) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output probability = softmax(logits)
    train loss with adam(lr = hyper 1e-3)
}
