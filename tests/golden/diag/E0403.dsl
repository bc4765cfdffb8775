# fusec check --profile=E0403.profile --target=sm_80
model m {
    input x : f32[2, 3]
    output y = x + 1
}
