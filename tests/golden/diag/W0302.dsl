# Parameters and inputs that nothing reads.
model m {
    input x : f32[4]
    input spare : f32[4]
    w = param [4] init ones
    v = param [4] init ones
    loss = mean(x * w)
    output loss
    train loss with sgd(lr = 0.1)
}
