model m {
    input x : f32[4]
    y = where(x <-1, x, 0)
    if 3 <-1 { y = x }
    output y
}
