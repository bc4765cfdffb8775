# Transposed convolutions: strides that overlap, that leave holes, with padding.
model transposed {
    input x : f32[2, 4, 3, 3]
    a = gelu(conv_transpose2d(x, 4, 3, 2, padding = 1) as over)
    b = conv_transpose2d(a, 2, 2, 3, bias = false) as holes
    loss = mean((b - 0.5)^2) + mean(a)
    output loss
    output a
    output b
    train loss with adam(lr = hyper 5e-3)
}
