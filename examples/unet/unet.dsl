# U-Net (Ronneberger, Fischer and Brox, 2015) with SAME padding and batch norm: a class for every pixel.
dim B = 4, S = 256                        # images in a batch, pixels a side (a multiple of 16)
let W = 64, channels = 1, classes = 2     # channels of the first level

layer double(x, n) {
    x = relu(batchnorm(conv2d(x, n, 3, bias = false) as conv1) as norm1)
    return relu(batchnorm(conv2d(x, n, 3, bias = false) as conv2) as norm2)
}
# twice the resolution, beside what the way down saw there
layer up(x, skip, n) {
    return double(concat(conv_transpose2d(x, n, 2, stride = 2) as grow, skip, axis = -1), n) as merge
}

model unet {
    input image : f32[B, S, S, channels]
    input mask  : i32[B, S, S] in 0..classes
    d1 = double(image, W) as down1
    d2 = double(max_pool2d(d1, 2), 2 * W) as down2
    d3 = double(max_pool2d(d2, 2), 4 * W) as down3
    d4 = double(max_pool2d(d3, 2), 8 * W) as down4
    x = double(max_pool2d(d4, 2), 16 * W) as bottom
    x = up(x, d4, 8 * W) as up4
    x = up(x, d3, 4 * W) as up3
    x = up(x, d2, 2 * W) as up2
    x = up(x, d1, W) as up1
    logits = conv2d(x, classes, 1) as head
    loss = mean(cross_entropy(logits, mask))
    output loss
    output probability = softmax(logits)
    train loss with adam(lr = hyper 1e-3)
}
