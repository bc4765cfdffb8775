# Enough layers for --checkpoint=sqrt to recompute some.
dim B = 4
model deep {
    input x : f32[B, 8]
    repeat 6 as block { x = x + linear(tanh(linear(x, 8) as up), 8) as down }
    loss = mean(x^2)
    output loss
    train loss with sgd(lr = hyper 1e-2)
}
