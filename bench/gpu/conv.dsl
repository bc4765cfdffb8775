# Convolutions of every kind: strided, dilated, grouped, depthwise, transposed; and all their gradients.
dim N = 2, H = 7, W = 9, C = 24
model conv {
    input x : f32[N, H, W, 3]
    h = conv2d(x, C, 3, stride = 2) as strided
    h = tanh(conv2d(h, C, 3, groups = C) as depthwise)
    h = tanh(conv2d(h, C, 3, groups = 3, dilation = 2) as grouped)
    y = conv_transpose2d(h, 5, 3, stride = 2) as transposed
    loss = mean(y^2)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-2)
}
