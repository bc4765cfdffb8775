# entries: init infer step
layer averaged(x, rate = 0.1) {
    state mean = zeros [x.dim(-1)]
    if training { mean <- mean + rate * (stop_gradient(mean_of(x)) - mean) }
    return x - mean
}
fn mean_of(x) { return sum(x, axis = 0) / float(size(x, 0)) }
optimizer lookahead(p, g, lr) {
    state slow = p
    fast = p - lr * g
    slow <- 0.5 * slow + 0.5 * fast
    p <- where(mod(step, 5) == 0, slow, fast)
}
dim B <= 4
model states {
    input x : f32[B, 3]
    state calls = 0
    calls <- calls + 1
    w = param [3] init normal(0.5)
    loss = mean((averaged(x) * w)^2)
    output loss
    train loss with lookahead(lr = hyper 0.01)
}
