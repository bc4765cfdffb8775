# The full Jacobian of a network of three layers with 256 outputs; and what one backward pass computes per output, with the
# activations of the forward as inputs.  The parameters of both are drawn alike.
dim width = 4096
let n = 256

model jacobian256 {
    input x : f32[1, width]
    a = tanh(linear(x, width) as first)
    b = tanh(linear(a, width) as second)
    y = linear(b, n) as third
    output J = jacobian(y, x)
    output first_activation = a
    output second_activation = b
}

model backward256 {
    input x : f32[1, width]
    input a : f32[1, width]
    input b : f32[1, width]
    input u : f32[1, n]
    p = linear(x, width) as first
    q = linear(a, width) as second
    y = linear(b, n) as third
    output row = vjp(p, x, (1.0 - a * a) * vjp(q, a, (1.0 - b * b) * vjp(y, b, u)))
}
