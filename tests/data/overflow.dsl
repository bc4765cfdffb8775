# In f16 the scaled gradient overflows: infinity times 0 is NaN, whose sign depends on the order of operands.
model overflow {
    precision f16
    p = param [7, 8, 5] init normal(0.5)
    input x : f32[5, 5]
    y = (p - cumprod(p, axis = 1)) @ x
    z = rsqrt(y * y + 0.3)
    loss = sum(z)
    output loss
    train loss with sgd(lr = hyper 0.125)
}
