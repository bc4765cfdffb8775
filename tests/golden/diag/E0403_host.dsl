# fusec check --profile=E0403_host.profile --target=host
model m {
    input x : f32[2, 3]
    output y = x + 1
}
