# A quotient that was rounded down meets a float.
let half = 1 / 2
model m {
    input x : f32[4]
    output y = x * half + x * (3 / 2)
    output z = x ^ 2 * 0.5 * float(3 / 2)
}
