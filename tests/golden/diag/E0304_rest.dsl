# A `train` line that trains nothing.
model m {
    x = param [4] init ones
    y = param [4] init ones
    loss = mean(x * y)
    train loss with sgd(lr = 0.1) only "*"
    train loss with sgd(lr = 0.2)
}
