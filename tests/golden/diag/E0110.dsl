fn f(x) {
    if true {
        y = x
    return y
}

fn g(x) {
    y = max(x, 1
    z = y
    return z
}

model m {
    input x : f32[4]
    output y = f(g(x)
