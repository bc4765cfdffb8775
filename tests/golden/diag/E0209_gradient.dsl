# Nor is a gradient.
optimizer o(p, g) {
    state s = g
    p <- p - s
    s <- 0.5 * s + g
}
model m {
    w = param [3] init ones
    loss = sum(w) * 2
    output loss
    train loss with o()
}
