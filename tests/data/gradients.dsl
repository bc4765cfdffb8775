# Small models whose gradients are compared with finite differences (tests/unit/model_gradients.c).
dim B = 2
dim S <= 5

model mlp {
    input x : f32[B, 3]
    input y : f32[B, 2]
    h = gelu(linear(x, 5) as up)
    loss = mean(mse(linear(h, 2) as down, y))
    output loss
    train loss with sgd(lr = hyper 1e-2)
}

model cnn {
    input image : f32[B, 7, 7, 2]
    input label : i32[B] in 0..5
    x = relu(batchnorm(conv2d(image, 3, 3, stride = 2) as c1) as bn)
    x = max_pool2d(x, 2)
    x = conv_transpose2d(x, 3, 3, 2) as up
    loss = mean(cross_entropy(linear(flatten(x), 5) as head, label))
    output loss
    train loss with adam(lr = hyper 1e-3)
}

model gpt {
    input tokens : i32[B, 5] in 0..7
    input targets : i32[B, 5] in 0..7
    table = param [7, 8] init normal(0.02)
    x = table[tokens] + (param [5, 8] init normal(0.02) as position)
    x = x + self_attention(layernorm(x) as ln, 2) as att
    x = x + linear(gelu(linear(rmsnorm(x) as rn, 12) as up), 8) as down
    loss = mean(cross_entropy(x @ transpose(table), targets))
    output loss
    train loss with adamw(lr = hyper 1e-3) clip_norm 1.0
}

model bounded {                                      # a batch of run-time size, masked mean
    input x : f32[S, 4]
    input label : i32[S] in 0..3
    h = silu(linear(x, 6) as up)
    loss = mean(cross_entropy(linear(h, 3) as head, label))
    output loss
    train loss with sgd(lr = hyper 1e-2)
}

model written {                                      # indexed definitions: dilation, products, max
    input x : f32[B, 9]
    k = param [3] init normal(0.5)
    m = param [9, 9] init normal(0.5)
    y[b, i in 0..9] = sum[r] x[b, i + 2*r - 2] * k[r]
    z[b, i in 0..4] = max[r in 0..3] y[b, 2*i + r]
    q[b] = sum[i, j in 0..9] y[b, i] * m[i, j] * y[b, j]
    loss = sum(z^2) + sum(q)
    output loss
    train loss with sgd(lr = hyper 1e-2)
}

model values {                                       # derivatives that the program asks for, by an input and in between
    input q : f32[3, 6]
    h = tanh(linear(q, 16) as hidden)
    p = linear(h, 3) as hand
    output p
    output J = jacobian(p, q, batch = 0)
    output Jh = jacobian(p, h, batch = 0)
    output Jv = jvp(p, q, ones like q)
    output Jt = vjp(p, h, ones like p)
}

model examples {                                     # each example's own gradients: by copies of the weights, moved
    input x : f32[3, 5]
    w = param [4, 5] init kaiming
    each = transpose(broadcast(w, [3, 4, 5]))
    y[b, j] = sum[k] x[b, k] * each[b, k, j]
    u = reshape(param [4, 2] init kaiming as u, [8])
    z = y @ reshape(u, [4, 2])
    output g = vjp(sum(z^2), each, 1.0)
    output J = jacobian(z, u)
}
