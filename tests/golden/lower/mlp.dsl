# entries: init infer grad step
dim B = 4
model mlp {
    input x : f32[B, 8]
    input y : i32[B] in 0..3
    h = relu(linear(x, 6) as l1)
    logits = linear(h, 3, bias = false) as l2
    loss = mean(cross_entropy(logits, y))
    output loss
    output p = softmax(logits)
    train loss with momentum(lr = hyper 0.1) only "l2.*", "*.b" clip_norm 1.0
}
