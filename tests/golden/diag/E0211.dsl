# As many values as names.
fn two(x) { return x, x + 1 }
model m {
    input x : f32[4]
    a, b = x
    c, d, e = two(x)
    f = two(x)
    g, h = x, x, x
    i = two(x) + 1
    output x
}
