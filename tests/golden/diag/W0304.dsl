# A derivative by something that the value is not computed from.
model m {
    input x : f32[3]
    input t : f32[3]
    y = x * 2
    output a = jacobian(y, t)
    output b = jvp(y, x * 2 + 0, ones like x)
    output c = jacobian(y, x)
    output d = t
    w = param [] init zeros              # begins as a number, and is a parameter
    output e = jacobian(y * w, w)
}
