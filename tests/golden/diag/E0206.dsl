# Nothing is defined by itself.
let a = b + 1
let b = a * 2
fn f(x) { return g(x) }
fn g(x) { return f(x) + f(x) }
layer tower(x) { return tower(x) as inner }
model m {
    input x : f32[a]
    output y = f(x)
}
