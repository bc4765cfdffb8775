# A loop's label is no counter; what tensors do not have.
model m {
    input x : f32[4, 6]
    y = x[0]
    repeat 3 as i { y = y + x[i] }
    output y
}
