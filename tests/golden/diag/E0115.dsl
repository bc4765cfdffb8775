model m {
    input x : f32[4]
    if 1 = 2 { y = x }
    a = b = x
    output z = where(x = 0, x, 1 + (2 = 3))
}
