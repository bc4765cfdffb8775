# An index that is never a whole subscript needs `in`.
model m {
    input x : f32[8]
    y[i] = x[2*i]
    z = sum[r] x[r + 1]
    output x
}
