# The first line of a body is at fault, not the brace above it.
fn f(x) {
    let D = 3
    return x
}
model m {
 input x: f32[3]
 output y = f(x)
}
