# A million ids into R rows of 16; the gradient is dense.
dim R = 10000
model gather {
    input ids : i32[1000000] in 0..R
    input u : f32[1000000, 16]
    table = param [R, 16] init normal(1.0)
    loss = mean(table[ids] * u)
    output loss
    train loss with sgd(lr = 0.1)
}
