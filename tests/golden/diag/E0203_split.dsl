# A part of a split that is no size.
model m {
    input x : f32[4, 3]
    a, b = split(x, [-1, 4], axis = 1)
    output a
}
