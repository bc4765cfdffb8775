# Each parameter is trained by one line.
model m {
    x = param [4] init ones
    y = param [4] init ones
    loss = mean(x * y)
    train loss with sgd(lr = 0.1) only "x"
    train loss with sgd(lr = 0.2) only "y", "x"
    train loss with sgd(lr = 0.3)
    train loss with sgd(lr = 0.4)
}
