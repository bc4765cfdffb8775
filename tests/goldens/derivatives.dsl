# Derivatives as values, in outputs and in a loss that is differentiated again.
dim B = 5

model derivatives {
    input x : f32[B, 6]
    input v : f32[B, 6]
    input image : f32[1, 5, 4, 2]
    h = tanh(linear(x, 9) as hidden)
    y = layernorm(linear(h, 4) as head) as norm
    a = softmax(y @ transpose(y)) @ y
    output wide = jacobian(linear(h, 12) as spread, x, batch = 0)     # by columns: [5, 12, 6]
    output tall = jacobian(y, x, batch = 0)                           # by rows: [5, 4, 6]
    output whole = jacobian(a, y)                                     # [5, 4, 5, 4]
    output pushed = jvp(a, x, v)
    output pulled = vjp(a, x, sin(a))
    e = sum(a * a)
    g = jacobian(e, x)
    output curved = jvp(g, x, v)                                      # a Hessian times a vector
    output bent = jacobian(jacobian(sum(tanh(y[0]) * y[1]), y), y)    # a Hessian
    c = max_pool2d(conv2d(image, 3, 3, stride = 2) as conv, 2, 1)
    output patches = jacobian(mean(c^2, axis = [1, 2]), image)        # [1, 3, 1, 5, 4, 2]
    loss = e + sum((sqrt(sum(g^2, axis = 1) + 0.01) - 1.0)^2) + 0.1 * sum(jvp(y, h, h * h)^2) + mean(c) + 0.01 * sum(linear(h, 1) as rest)
    output loss
    train loss with sgd(lr = hyper 3e-2)
}
