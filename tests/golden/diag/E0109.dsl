model m {
    input x : f32[4]
    if max(1, 2 {
        y = x +
    }
    output z = relu(x
}
layer wrong(x, n = [1, 2 {
    return x
}
let a = ) 3
