# Tensors on the way to a Jacobian have more axes than there can be.
model m {
    input x : f32[2, 2, 2, 2, 2]
    s = reshape(reshape(x, [32]) @ (param [32, 64] init normal(1.0) as w), [2, 2, 2, 2, 2, 2])
    t = tanh(s) * reverse(s, 0)
    y = reshape(reshape(t, [64]) @ (param [64, 32] init normal(1.0) as v), [2, 2, 2, 2, 2])
    output j = jacobian(y, x)
    output k = jacobian(flatten(y), x)
}
