model m {
    input x : f32[4]
    y = x
        - 1
    y = x * 2
    (y + 1)
    relu(x)
    x + 1
    [1, 2]
    3
    y == x
    output y
}
