# fusec check --target sm_90a --profile E0403_gpu.profile
model m {
    input x : f32[2, 3]
    output y = x + 1
}
