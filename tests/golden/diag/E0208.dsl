# Axes and constant indices out of range.
model m {
    input x : f32[4, 3]
    input i : i32[2] in 4..4
    a = sum(x, axis = 2)
    b = sum(x, axis = [0, -2])
    c = x[4]
    d = x[0, 1, 2]
    e = x.dim(2)
    f = x[::0]
    g = transpose(x, [0, 0])
    h = slice(x, 3, 2)
    k[n in 1..3] = x[n, 0]
    output l = x[..., ...]
}
