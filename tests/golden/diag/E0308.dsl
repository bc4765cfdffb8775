# Declarations are the same in every entry.
model m {
    input x : f32[4]
    w = param [4] init ones
    loss = mean(x * w)
    if training {
        v = param [4] init ones
        loss = loss + mean(v)
    } else {
        u = param [4] init ones
        loss = loss - mean(u)
    }
    output loss
    train loss with sgd(lr = 0.1)
}
