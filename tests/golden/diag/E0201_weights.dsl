# Weights without a master are f32 or bf16.
model m {
    precision f16 weights f16
    input x : f32[2, 3]
    output y = linear(x, 3) as f
}
