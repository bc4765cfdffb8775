# Every function of one number, extrema, powers, reductions by product and extremum.
model pointwise {
    input x : f32[3, 7]
    w = param [3, 7] init normal(1.0)
    v = param [7] init normal(1.0)
    a = abs(w) + 0.5
    s = exp(0.3 * w) + log(a) + log1p(a) + sqrt(a) + rsqrt(a) + sin(w) * cos(x) + tanh(w) + erf(w) + sigmoid(w) + relu(w) + silu(w)
    g = gelu(w) * gelu(x, form = "tanh") + softplus(w) + gelu(w, form = "tanh")
    f = floor(3 * x) * w + ceil(x) * v + sign(w) * w
    m = max(w, v) * min(w, x) + clamp(w * 2, -1, 1)
    c = where(w > x and not (v < 0), w * v, w / (1 + v^2)) + a^1.5 + w^3 + a^v + 2.0^w
    p = prod(a * 0.7, axis = 1) + max(w, axis = 1) - min(w * v, axis = 1) + max(w * w) - min(v)
    loss = mean(s) + mean(g) + mean(f) + mean(m) + mean(c) + mean(p)
    output loss
    output s
    output g
    output f
    output m
    output c
    output p
    train loss with momentum(lr = hyper 0.1)
}
