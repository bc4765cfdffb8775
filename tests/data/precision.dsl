# What low precision needs: gradients that are zero in f16 unless the loss is scaled, gradients that overflow when it is.
dim B = 8

model faint {                            # gradients around 1e-10
    precision f16
    input x : f32[B, 4]
    input y : f32[B, 1]
    h = tanh(linear(x, 16) as up)
    error = mean((linear(h, 1) as down - y)^2)
    scaled = 1e-9 * error
    output loss = error
    train scaled with adam(lr = hyper 0.02, eps = 1e-24)
}

model loud {                             # gradients of some thousand, times the first loss scale past 65504
    precision f16
    input x : f32[B, 4]
    input y : f32[B, 1]
    state calls = zeros []
    calls <- calls + 1
    h = relu(batchnorm(linear(x, 16) as up) as norm)
    loss = mean((linear(h, 1) as down - y)^2) * 1000
    output loss
    train loss with momentum(lr = hyper 1e-6)
}

optimizer creep(p, g, lr) { p <- p + lr + 0 * g }

model creeping {                         # an update of a quarter of the last place: lost, if it were rounded to nearest
    precision bf16 weights bf16
    input x : f32[B, 4]
    up = param [32, 64] init ones
    down = param [32, 64] init constant(-1)
    output loss = sum(x @ zeros [4, 1]) + (mean(up) + mean(down)) * 0.5
    train loss with creep(lr = hyper 0.001953125)
}

model sown {                             # random first values, which are drawn in f32 and rounded
    precision bf16 weights bf16
    input x : f32[B, 4]
    a = linear(x, 24) as kaiming
    b = x @ (param [4, 24] init uniform(-2, 2) as flat)
    output loss = mean(a * b)
    train loss with sgd(lr = 0.1)
}

model sown_in_f32 {
    input x : f32[B, 4]
    a = linear(x, 24) as kaiming
    b = x @ (param [4, 24] init uniform(-2, 2) as flat)
    output loss = mean(a * b)
    train loss with sgd(lr = 0.1)
}
