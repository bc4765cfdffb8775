# A path names one parameter.
layer scale(x) { return x * (param [4] init ones as g) }
model m {
    input x : f32[4]
    a = scale(x) as one
    b = scale(x) as one
    w = param [4] init ones
    v = param [4] init ones as w
    c = scale(x) as w + scale(x) as w
    repeat 2 { d = scale(x) as u + scale(x) as u }
    e = x * (hyper 0.1 as rate) * (hyper 0.2 as rate)
    output x
}
