# Each extent is within bounds, the loops all together are not.
model m {
    x = param [65536, 65536] init ones
    y[i, j] = sum[k, l] x[i, k] * x[l, j] * x[k, l]
    loss = sum(y)
    output loss
    train loss with sgd(lr = 0.1)
}
