# Optimizers and schedules.

optimizer sgd(p, g, lr) { p <- p - lr * g }

optimizer momentum(p, g, lr, mu = 0.9) {
    state m = zeros like p
    m <- mu * m + g
    p <- p - lr * m
}

# Kingma and Ba, 2015
optimizer adam(p, g, lr, beta1 = 0.9, beta2 = 0.999, eps = 1e-8) {
    state m = zeros like p
    state v = zeros like p
    m <- beta1 * m + (1 - beta1) * g
    v <- beta2 * v + (1 - beta2) * g^2
    p <- p - lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
}

# Loshchilov and Hutter, 2019: decay apart from the gradient
optimizer adamw(p, g, lr, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01) {
    state m = zeros like p
    state v = zeros like p
    m <- beta1 * m + (1 - beta1) * g
    v <- beta2 * v + (1 - beta2) * g^2
    p <- p - lr * ((m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps) + decay * p)
}

# Rises to `peak` over `warmup` steps, then falls along a cosine to 0 at `total`.
fn warmup_cosine(peak, warmup, total) {
    t = clamp((step - float(warmup)) / float(max(total - warmup, 1)), 0, 1)
    return peak * where(step < float(warmup), step / float(max(warmup, 1)), 0.5 * (1 + cos(3.141592653589793 * t)))
}
