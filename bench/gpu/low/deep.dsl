# Three convolutions, the windows of one element among them.
dim B = 2, H = 7, W = 7, C = 64
model deep {
    precision bf16
    x = param [B, H, W, C] init normal(1.0)
    h = relu(conv2d(relu(conv2d(x, C, 1) as first), C, 3) as second)
    y = conv2d(h, C, 1) as third
    loss = mean(y^2)
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
