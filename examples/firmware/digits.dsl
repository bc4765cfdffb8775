# The digits MLP, sized for a microcontroller: 64 -> 32 -> 10, a batch of 16 in one step.
dim B = 16

model digits {
    input image : f32[B, 64]
    input label : i32[B] in 0..10
    x = relu(linear(image, 32) as hidden)
    logits = linear(x, 10) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output logits
    train loss with sgd(lr = hyper 0.1)
}
