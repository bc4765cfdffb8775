let a = b + 1
let b = a * 2
model m {
    input x : f32[a]
    output y = x
}
