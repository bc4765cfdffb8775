# fusec check --profile=none.profile
model m {
    input x : f32[2, 3]
    output y = x + 1
}
