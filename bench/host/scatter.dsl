# A million rows of 16 added up in R rows, by their ids.
dim R = 10000
model scatter {
    input ids : i32[1000000] in 0..R
    input u : f32[R, 16]
    x = param [1000000, 16] init normal(1.0)
    loss = mean(scatter_add(x, ids, R) * u)
    output loss
    train loss with sgd(lr = 0.1)
}
