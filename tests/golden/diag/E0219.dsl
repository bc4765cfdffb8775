# A call needs a value.
fn nothing(x) { y = x }
fn sometimes(x, when) {
    if when { return x }
}
model m {
    input x : f32[4]
    a = nothing(x)
    b = sometimes(x, true) + sometimes(x, false)
    output x
}
