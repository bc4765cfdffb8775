# Norms, statistics that run, reductions of a row, losses.
model norms {
    input x : f32[5, 4, 6]
    input y : f32[5, 4, 6]
    r = rmsnorm(x) as rms
    l = layernorm(x * 3, eps = 1e-3) as ln
    b = batchnorm(x, momentum = 0.3, eps = 1e-4) as bn
    p = softmax(r, axis = 1)
    lse = logsumexp(2 * l, axis = 1)
    ls = log_softmax(b + (param [6] init zeros as shift))
    spread = variance(r * x, axis = [0, 2])
    loss = mse(p * b, y) + mean(huber(3 * (l - y))) + mean(huber(b - y, delta = 0.5)) + 0.1 * mean(lse^2) - 0.2 * mean(ls * y) + sum(spread)
    output loss
    output p
    output lse
    output spread
    train loss with momentum(lr = hyper 0.05, mu = 0.8)
}
