// a comment of another language
model m {
    input x : f32[4]
    y = x ** 2
    y += 1
    z = not (true && false)
    z = true || false
    z = !true
    w = 7 % 2
    z = 1 <> 2
    output y
}
fn f(x) -> f32 { return x }
