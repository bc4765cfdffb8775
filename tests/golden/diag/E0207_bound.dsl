# Names that are bound twice, or not to be bound.
fn f(x, x) { return x }
model m {
    input x : f32[4]
    step = 2
    y[i] = sum[i] x[i]
    output y
}
