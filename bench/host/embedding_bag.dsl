# 125,000 bags of 8 ids into R rows of 16; the gradient is dense.
dim R = 10000
model embedding_bag {
    input ids : i32[125000, 8] in 0..R
    input u : f32[125000, 16]
    table = param [R, 16] init normal(1.0)
    loss = mean(sum(table[ids], axis = 1) * u)
    output loss
    train loss with sgd(lr = 0.1)
}
