# Arguments: too many, missing, unknown, given twice.
fn f(a, b = 1) { return a + b }
model m {
    input x : f32[2, 3]
    output a = f(x, 1, 2)
    output b = f(x, c = 2)
    output c = softmax(x, axes = 1)
}
