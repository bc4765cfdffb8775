# ResNet-50 (He et al., 2015), in its 1.5 form: the stride sits in the 3x3 convolution.
dim B = 32, S = 224                       # images in a batch, pixels a side
let W = 64, channels = 3, classes = 1000  # channels after the stem, of the image

layer conv_norm(x, n, k, stride = 1) { return batchnorm(conv2d(x, n, k, stride = stride, bias = false) as conv) as norm }

# 1x1 down to n channels, 3x3, 1x1 up to 4n; the shortcut is projected where the shape changes
layer bottleneck(x, n, stride) {
    y = relu(conv_norm(x, n, 1) as a)
    y = relu(conv_norm(y, n, 3, stride = stride) as b)
    y = conv_norm(y, 4 * n, 1) as c
    if stride != 1 or x.dim(3) != 4 * n { x = conv_norm(x, 4 * n, 1, stride = stride) as shortcut }
    return relu(x + y)
}

layer stage(x, n, blocks, stride) {
    x = bottleneck(x, n, stride) as first
    repeat blocks - 1 as block { x = bottleneck(x, n, 1) }
    return x
}

model resnet50 {
    input image : f32[B, S, S, channels]
    input label : i32[B] in 0..classes
    x = relu(conv_norm(image, W, 7, stride = 2) as stem)
    x = max_pool2d(x, 3, stride = 2, padding = "same")
    x = stage(x, W, 3, 1) as layer1
    x = stage(x, 2 * W, 4, 2) as layer2
    x = stage(x, 4 * W, 6, 2) as layer3
    x = stage(x, 8 * W, 3, 2) as layer4
    logits = linear(mean(x, axis = [1, 2]), classes) as fc
    loss = mean(cross_entropy(logits, label))
    output loss
    output probability = softmax(logits)
    train loss with momentum(lr = hyper 0.1)
}
