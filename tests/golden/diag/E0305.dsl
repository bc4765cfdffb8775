# `<-` changes states of the same body.
optimizer wrong(p, g, lr) {
    m = zeros like p
    m <- m + g
    p <- p - lr * m
}
model m {
    input x : f32[4]
    w = param [4] init ones
    x <- x + 1
    w <- w * 2
    loss = mean(w * x)
    output loss
    train loss with wrong(lr = 0.1)
}
