# What has no derivative, and factors that do not fit.
model m {
    input x : f32[4, 3]
    input i : i32[4]
    y = x * 2
    a = jacobian(y, 2)
    b = jacobian(3.0, x)
    c = jacobian(float(i), i)
    d = jacobian(argmax(x, axis = 1), x)
    e = jvp(y, x, ones [3])
    f = jvp(y, x, true)
    g = vjp(sum(y), x, y)
    h = vjp(y, x, i)
    output y
}
