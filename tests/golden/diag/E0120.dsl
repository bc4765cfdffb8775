let a = max(1, b = 2, 3)
model m {
    input x : f32[4]
    output y = mean(axis = 0, x)
}
