# Indexed definitions: sums and extrema of products over affine reads.
model indexed {
    input x : f32[2, 9, 3]
    input m : f32[5, 5]
    input at : i32[4] in 0..9
    k = param [3, 3, 2] init normal(0.5)
    w = param [5, 5] init normal(0.5)
    u = param [12] init normal(0.5)
    conv[n, i in 0..5, f] = sum[r, c] x[n, 2*i + r - 1, c] * k[r, c, f]
    corr[s in 0..7] = sum[i] u[i] * u[i + s - 3]
    diag[i] = w[i, i] * m[i, 4 - i]
    trace = sum(diag)
    band[i in 0..5, j in 0..5] = sum[t in 0..2] w[i + t, j] * w[i, j + t]
    pool[n, i in 0..4, c] = max[r in 0..3] x[n, 2*i + r, c] * u[2*i + r]
    low[i in 0..5] = min[r in 0..4] u[2*i + r]
    picked[n, i, c] = x[n, at[i], c] * u[at[i]]
    folded[n, j in 0..9, c] = sum[i in 0..5] conv[n, i, 0] * x[n, (j + c) / 2, c] * u[i]
    up[j in 0..9] = sum[i in 0..12] u[i] * u[(j + 3*i) / 4]
    quad[n] = sum[a in 0..3, b in 0..3] x[n, a, b] * k[b, a, 0] * x[n, a + 1, b]
    loss = sum(conv^2) + sum(corr * corr) + trace^2 + sum(tanh(band)) + sum(pool^2) + sum(low^3) + sum(sin(picked)) + 0.1 * sum(folded^2) + sum(quad) + sum(up)
    output loss
    output conv
    output corr
    output band
    output pool
    output low
    output picked
    output folded
    output up
    output quad
    train loss with sgd(lr = hyper 0.003)
}
