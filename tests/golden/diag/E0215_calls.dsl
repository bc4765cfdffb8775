layer owner(x) { return x * (param [4] init ones as g) }
fn pure(x) { return owner(x) }
fn with_param(x) { return x * (param [4] init ones as g) }
model m {
    input x : f32[4]
    a = pure(x)
    b = with_param(x)
    c = relu(x) as r
    d = sgd(x, x, 1)
    e[i] = softmax(x[i])
    f[i] = owner(x[i])
    output x
}
