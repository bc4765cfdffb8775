# Precisions that no target has.
model m {
    precision fp8
    input x : f32[2, 3]
    output y = linear(x, 3) as f
}
