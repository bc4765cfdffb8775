let not = 3
fn f(if) { return 1 }
fn repeat(x) { return x }
model m {
    input zeros : f32[4]
    return = 3
    a, emit = 1, 2
    output as
    y[or] = 3
}
