# Convolutions of every kind, pooling, batch statistics, AdamW.
model cnn {
    input image : f32[2, 11, 10, 2]
    input label : i32[2] in 0..4
    x = relu(conv2d(image, 4, 3, stride = 2) as same2)              # [2, 6, 5, 4]
    x = conv2d(x, 6, 3, dilation = 2, groups = 2, bias = false) as grouped  # [2, 6, 5, 6]
    x = batchnorm(x) as bn
    x = max_pool2d(x, 3, stride = 2, padding = "same")              # [2, 3, 3, 6]
    x = silu(conv2d(x, 5, 2, padding = 1, bias = false) as padded)  # [2, 4, 4, 5]
    x = avg_pool2d(x, 3, stride = 1, padding = "same")
    x = conv2d(x, 4, 3, padding = "reflect") as mirrored            # [2, 4, 4, 4]
    x = avg_pool2d(x, 2) + conv2d(x, 4, 3, padding = "valid") as inner
    x = dropout(x, 0.0)
    logits = linear(flatten(x), 4) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output logits
    train loss with adamw(lr = hyper 3e-3, decay = 0.1)
}
