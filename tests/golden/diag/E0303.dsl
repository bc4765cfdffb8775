# The loss is one float.
dim B = 4
model m {
    input x : f32[B, 8]
    w = param [8] init ones
    loss = (x @ w)^2
    output loss
    train loss with sgd(lr = 0.1)
}
