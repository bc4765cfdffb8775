# Axes and constant indices out of range.
model m {
    input x : f32[4, 3]
    input i : i32[2] in 4..4
    a = sum(x, axis = 2)
    input wide : i32[2] in 0..2147483649
    p = expand_dims(x, [0, 3])
    b = sum(x, axis = [0, -2])
    c = x[4]
    d = x[0, 1, 2]
    e = x.dim(2)
    f = x[::0]
    g = transpose(x, [0, 0])
    h = slice(x, 3, 2)
    k[n in 1..3] = x[n, 0]
    m[n in 0..2] = x[n, -1] + x[n, 3] + x[n - n - 1, 2 - 3]
    o[n in 0..2] = float(n) * x[-1, 0] * sum(x[0, -1:])
    q[n in 0..2] = sum[j] x[n, j] * x[0, -2]
    output l = x[..., ...]
}
