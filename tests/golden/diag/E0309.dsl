# An optimizer changes its parameter.
optimizer idle(p, g, lr) { q = p - lr * g }
model m {
    w = param [4] init ones
    loss = mean(w)
    output loss
    train loss with idle(lr = 0.1)
}
