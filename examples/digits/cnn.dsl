# A small convolutional network on handwritten digits: three convolutions with batch norm.
dim B = 50
let epochs = 20                          # what the learning rate is planned for: 30 batches of 50 each

layer conv_block(x, n) { return relu(batchnorm(conv2d(x, n, 3, bias = false) as conv) as norm) }

model digits_cnn {
    input image : f32[B, 8, 8, 1]
    input label : i32[B] in 0..10
    x = conv_block(image / 16, 16) as c1                 # pixels are 0..16
    x = conv_block(x, 32) as c2
    x = max_pool2d(x, 2)
    x = conv_block(x, 64) as c3
    x = dropout(mean(x, axis = [1, 2]), 0.1)             # nothing at inference
    logits = linear(x, 10) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output probability = softmax(logits)
    train loss with adamw(lr = warmup_cosine(4e-3, 30, 30 * epochs), decay = 0.05)
}
