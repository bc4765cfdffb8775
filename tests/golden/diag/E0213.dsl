# One index, two extents.
dim N = 8, M = 9
model m {
    input x : f32[N]
    input y : f32[M, 4]
    z[i, j] = x[i] * y[i, j]
    output w = sum[r] x[r] * y[r, 0]
}
