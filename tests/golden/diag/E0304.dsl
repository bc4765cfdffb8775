# Patterns of `only` match something.
layer scale(x) { return x * (param [4] init ones as gain) }
model m {
    input x : f32[4]
    loss = mean(scale(x) as head)
    output loss
    train loss with sgd(lr = 0.1) only "head.*", "head.gian", "tail*"
}
