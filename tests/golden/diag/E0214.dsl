# Subscripts are affine, or reads of integer tensors.
model m {
    input x : f32[8]
    input k : f32[8]
    a[i in 0..3, j in 0..3] = x[i * j]
    b[i in 0..3] = x[i ^ 2]
    c[i in 0..3] = x[k[i]]
    d[i in 0..3] = x[0:2]
    e[i in 0..3] = x[i / 0]
    f[i in 0..3] = x[4 / (i + 1)]
    g[x in 0..8] = 2 * x[x]
    h[i, x in 0..8] = x[i]
    j[i in 0..3] = (x + float(i))[i]
    l[i in 0..3] = x[(1) / 3] + x[i + 7 / 2]
    m[i in 0..3] = float(i) * k[5 / 2] + x[(i - i + 5) / 2] + x[floor_div(5, 2)]
    output x
}
