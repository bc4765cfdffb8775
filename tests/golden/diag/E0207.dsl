# Names that are defined twice.
dim N = 4
let N = 5
fn f(x) { return x }
layer f(x) { return x }
let inf = 3
model m {
    input x : f32[N]
    output x
}
model m {
    input x : f32[N]
}
