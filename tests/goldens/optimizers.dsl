# One regression, every optimizer and schedule.
fn error(y, target) { return mean((y - target)^2) }

model sgd_plain {
    input x : f32[5, 4]
    input y : f32[5, 3]
    loss = error(linear(x, 3) as fit, y)
    output loss
    train loss with sgd(lr = hyper 0.05)
}
model sgd_clipped {
    input x : f32[5, 4]
    input y : f32[5, 3]
    loss = error(linear(x, 3) as fit, y)
    output loss
    train loss with sgd(lr = hyper 0.05) clip_norm 0.25
}
model momentum_warm {
    input x : f32[5, 4]
    input y : f32[5, 3]
    loss = error(linear(x, 3) as fit, y)
    output loss
    train loss with momentum(lr = warmup_cosine(0.2, 3, 8), mu = 0.7)
}
model adam_plain {
    input x : f32[5, 4]
    input y : f32[5, 3]
    loss = error(linear(x, 3) as fit, y)
    output loss
    train loss with adam(lr = hyper 0.03, beta1 = 0.8, beta2 = 0.95, eps = 1e-6)
}
model adamw_clipped {
    input x : f32[5, 4]
    input y : f32[5, 3]
    loss = error(linear(x, 3) as fit, y)
    output loss
    train loss with adamw(lr = warmup_cosine(hyper 0.03 as peak, 2, 6), decay = 0.2) clip_norm 0.5
}
model adam_part {
    input x : f32[5, 4]
    input y : f32[5, 3]
    loss = error(linear(tanh(linear(x, 4) as low), 3) as fit, y)
    output loss
    train loss with adam(lr = hyper 0.03) only "fit.*", "low.b" clip_norm 0.1
}
