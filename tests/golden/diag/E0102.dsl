let a = "no end
let b = "a quote \" inside"
model m {
    input x : f32[4]
    output y = gelu(x, form = "erf)
}
