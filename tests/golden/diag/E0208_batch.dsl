# A batch axis must be the same one of both.
dim B = 4
model m {
    input x : f32[B, 3]
    y = x @ zeros [3, 2]
    a = jacobian(y, x, batch = -1)
    b = jacobian(y, x, batch = 2)
    c = jacobian(sum(y), x, batch = 0)
    d = jacobian(y, x, batch = 1)
    e = jacobian(y, x, batch = 0.5)
    f = jacobian(reshape(x, [B, 1, 1, 3, 1, 1]), reshape(x, [1, 1, 1, B, 3]))
    g = jacobian(zeros [100000, 1000] + x[0, 0], zeros [100000, 2000] + 1.0)
    output k = jacobian(y, x, 0)
    z[j] = jvp(y[j, 0], x, x)
}
