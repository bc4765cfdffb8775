# An unnamed instance whose paths are taken is named after its layer.
layer scale(x) { return x * (param [4] init ones as g) }
model m {
    input x : f32[4]
    output y = scale(scale(scale(x)))
}
