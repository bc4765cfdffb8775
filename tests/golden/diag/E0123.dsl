let a = 0..10
model m {
    input x : f32[4]
    y = x[0..2]
    y = mean(x, axis = 0..-1)
    for_each = [1..3]
    output y
}
