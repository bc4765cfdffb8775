# What an instance that is shared must have, and be.
layer norm(x, shift = true) {
    g = param [x.dim(-1)] init ones
    if shift { return x * g + (param [x.dim(-1)] init zeros as b) }
    return x * g
}
layer mean_of(x, states = 1, n = 3) {
    repeat states {
        state mu = zeros [n]
        mu <- mu + x
    }
    return x + sum(param [2] init ones as w)
}
fn plain(x) { return x + 1 }
model m {
    input x : f32[3]
    input y : f32[4]
    a = norm(x) as full
    b = norm(x, shift = false) as scale
    c = mean_of(x) as first
    d = norm(y) sharing full
    e = norm(x, shift = false) sharing full
    f = norm(x) sharing scale
    g = mean_of(x, states = 2) sharing first
    h = mean_of(x, n = 1) sharing first
    i = mean_of(x) sharing full
    j = norm(x) sharing ful
    k = plain(x) sharing full
    l = relu(x) sharing full
    output l
}
