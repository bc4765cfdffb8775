# What is parsed but not built yet says so.
layer last(xs) {
    ys = scan x over xs axis 1, h = zeros [2] {
        h = h + x
        emit h
    }
    return ys
}
model m {
    input x : f32[2, 3]
    input q : f64[2]
    checkpoint { y = x * 2 }
    save x
    recompute x
    z = last(x)
    w = param [2] init ones
    loss = mean(w)
    output loss
}
