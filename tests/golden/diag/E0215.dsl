# Statements and calls where they cannot stand.
layer owner(x) { return x * (param [4] init ones as g) }
fn pure(x) { return owner(x) }
fn keeps(x) {
    state s = zeros [4]
    return x
}
layer early(x) {
    repeat 2 { return x }
    output x
    emit x
    return x
}
model m {
    input x : f32[4]
    repeat 2 { input y : f32[4] }
    return x
    output x
}
