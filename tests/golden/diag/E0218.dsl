# A bounded dimension is known at run time only.
dim S <= 64, T <= 64
model m {
    input x : f32[S, 4]
    input y : f32[T, 4]
    a = x.dim(0) * y.dim(0)
    b = x.dim(0) / 3
    c = x[5]
    d = x[0:3]
    if x.dim(0) > 3 { e = x }
    f = x * x.dim(0) * 0.5
    g = x.dim(0) * 0.5
    h = x[-2]
    k = x[x.dim(0) - 3:]
    l = x[::2]
    r = slice(x, x.dim(0) - 2, 1)
    v = x[1:][::-1]
    u = reverse(x[1:], 0)
    output x
    output y
}
