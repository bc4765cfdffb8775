# Pointwise functions and softmax.

fn relu(x) { return max(0, x) } # NaN stays; the gradient at 0 is 0
fn silu(x) { return x * sigmoid(x) }

# form "erf": x times the normal distribution function; "tanh": Hendrycks and Gimpel's approximation
fn gelu(x, form = "erf") {
    if form == "tanh" { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x^3))) }
    if form == "erf" { return 0.5 * x * (1 + erf(x * 0.7071067811865476)) }
    return fail("gelu has the forms \"erf\" and \"tanh\"", form)
}
# |x| written with `where`, whose derivative at 0 is 1: that of softplus is then 1/2 there, as everywhere sigmoid(x).
fn softplus(x) { return max(x, 0) + log1p(exp(where(x >= 0, -x, x))) }
fn logsigmoid(x) { return -softplus(-x) }
fn leaky_relu(x, slope = 0.01) { return where(x > 0, x, slope * x) }
fn elu(x, alpha = 1) { return where(x > 0, x, alpha * (exp(min(x, 0)) - 1)) }
# Box and Muller: of two uniform numbers; 1 - u is never 0.
fn gaussian(x) { return sqrt(-2 * log(1 - uniform(x))) * cos(6.283185307179586 * uniform(x)) }
fn clamp(x, lo, hi) { return min(max(x, lo), hi) }

# The maximum cancels, so that no exponent overflows; a row that is -inf everywhere has maximum -inf,
# raised here to a number from which -inf can be subtracted: its sum is 0, and so is its softmax.
fn row_max(x, axis) { return stop_gradient(max(max(x, axis = axis, keep = true), -3e38)) }

fn softmax(x, axis = -1) {
    e = exp(x - row_max(x, axis))
    return e / max(sum(e, axis = axis, keep = true), 1e-30)
}
fn log_softmax(x, axis = -1) {
    z = x - row_max(x, axis)
    return z - log(sum(exp(z), axis = axis, keep = true))
}
# A row with +inf has sum +inf: from 3e38 on, exponents are not cancelled whole.
fn logsumexp(x, axis = -1, keep = false) {
    m = min(row_max(x, axis), 3e38)
    s = m + log(sum(exp(x - m), axis = axis, keep = true))
    if keep { return s }
    return sum(s, axis = axis)
}
