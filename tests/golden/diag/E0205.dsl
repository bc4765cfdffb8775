# Extents are non-negative integers.
dim A = 2.5
dim B = 0 - 3
dim S <= 16
model m {
    input x : f32[4, A]
    input y : f32[B]
    input z : f32[S]
    a = zeros [1 - 3]
    b = ones [z.dim(0) - 20]
    w = param [S, 2] init zeros
    state n = zeros [S]
    e[i in 0..4] = sum[j in 0..i + 1] z[j]
    f[i in 0..9223372036854775807] = z[i]
    output c = iota(-1)
    output d = pad(x, [[-1, 0]])
}
