# The mean cross entropy of rows of logits, with its gradient.
dim R = 16384, C = 4096
model cross_entropy_rows {
    input label : i32[R] in 0..C
    x = param [R, C] init normal(1.0)
    loss = mean(cross_entropy(x, label))
    output loss
    train loss with sgd(lr = hyper 1e-3)
}
