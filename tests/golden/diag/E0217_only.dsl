model m {
    w = param [2, 4] init ones
    loss = mean(w)
    output loss
    train loss with sgd(lr = 0.1) only "w"[..., 0:2]
}
