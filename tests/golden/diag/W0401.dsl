# fusec check --profile=W0401.profile --target=sm_90a
model m {
    input x : f32[2, 3]
    output y = x + 1
}
