# Derivatives as values.
dim B = 8
model arm {
    input q : f32[B, 6]
    p = linear(tanh(linear(q, 5) as hidden), 3) as hand
    output J = jacobian(p, q, batch = 0)
    output whole = jacobian(q, q)
    output Jv = jvp(p, q, ones like q)
    output uJ = vjp(p, q, p)
}
