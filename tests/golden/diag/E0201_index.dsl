# The body of a reduction ends before + and -.
model m {
    input x : f32[4]
    output y = sum[r] x[r] + x[r]
}
