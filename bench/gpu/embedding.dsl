# Rows of a table by index, and the table's gradient.
dim R = 16384, C = 768, V = 50257
model embedding_rows {
    input token : i32[R] in 0..V
    input g : f32[R, C]
    table = param [V, C] init normal(1.0)
    y = table[token]
    loss = sum(y * g)
    output y
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
