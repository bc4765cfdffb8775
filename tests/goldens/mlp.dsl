# Two hidden layers, a classifier, three steps of Adam.
model mlp {
    input x : f32[6, 7]
    input label : i32[6] in 0..3
    h = relu(linear(x, 9) as l1)
    h = tanh(linear(h, 5, bias = false) as l2)
    logits = linear(h, 3) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output probability = softmax(logits)
    train loss with adam(lr = hyper 1e-2)
}
