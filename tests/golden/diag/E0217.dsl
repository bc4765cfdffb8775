# What is parsed but not built yet says so.
model m {
    input x : f32[2, 3]
    input q : f64[2]
    checkpoint { y = x * 2 }
    save x
    recompute x
    w = param [2] init ones
    loss = mean(w)
    output loss
}
