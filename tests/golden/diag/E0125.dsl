let a = 1 let b = 2
model m {
    input x : f32[4] output y = x
    y = relu x
    w = linear(x, 8)[0:2] as head
    repeat 2 { y = x } z = y
}
