# A multilayer perceptron on handwritten digits: 64 pixels (0..16) to one of ten classes.
dim B <= 32

model digits_mlp {
    input image : f32[B, 64]
    input label : i32[B] in 0..10
    x = relu(linear(image / 16, 64) as hidden)
    x = relu(linear(x, 32) as hidden2)
    logits = linear(x, 10) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output probability = softmax(logits)
    train loss with adam(lr = hyper 2e-3)
}
