# A convolution and its two gradients.
dim B = 2, H = 10, W = 9, C = 64, F = 64, R = 3, STEP = 1, APART = 1
model image {
    precision bf16
    x = param [B, H, W, C] init normal(1.0)
    h = conv2d(x, F, R, stride = STEP, dilation = APART) as first
    loss = mean(h^2)
    output h
    output loss
    train loss with sgd(lr = 0.1)
}
