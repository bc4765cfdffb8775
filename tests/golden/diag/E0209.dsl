# Constants are needed here.
model m {
    input x : f32[4]
    input n : i32[]
    if x > 0 { y = x }
    repeat n { z = x }
    a = sum(x, axis = n)
    b = if n > 0 then x else 0
    w = param [2] init normal(n)
    c[i] = if i > 0 then x[i] else 1
    output x
}
