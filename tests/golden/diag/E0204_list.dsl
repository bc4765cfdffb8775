model m {
    input x : f32[3]
    output y = [1, 2, 3] * x
}
