# Parameters and hyperparameters have names.
model m {
    input x : f32[4]
    y = x * (param [4] init ones)
    z = x * hyper 0.5
    output y
}
