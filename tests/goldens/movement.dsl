# Everything that moves values: reads by integers, slices with strides, parts written at run-time places, scans.
model movement {
    input x : f32[4, 6]
    input ids : i32[3, 2] in 0..7
    input at : i32[]
    table = param [7, 6] init normal(1.0)
    w = param [4, 6] init normal(1.0)
    rows = table[ids]                                    # [3, 2, 6]
    run = cumsum(w * x, axis = 1)
    back = cumsum(w, axis = 0, reverse = true, exclusive = true)
    products = cumprod(0.5 * w[:, 0:4] + 1, axis = -1)
    some = w[1:4, ..., ::2]                              # [3, 3]
    odd = w[-1, 1:-1]                                    # [4]
    down = reverse(w, axis = 1)[:, 1:6:2]                # [4, 3]
    both = concat(w, x * w, axis = 1)                    # [4, 12]
    edge = pad(w, [[1, 0], [2, 1]], value = 0.5)         # [5, 9]
    window = slice(table, at, 3)                         # [3, 6]
    written = update(table, w[0:2], at)                  # [7, 6]
    a, b, c = split(w, 3, axis = -1)                     # [4, 2] each
    turned = transpose(reshape(w, [2, 2, 6]), [2, 0, 1]) # [6, 2, 2]
    wide = broadcast(odd, [3, 4])
    loss = sum(rows^2) / 2 + sum(run * back) + sum(some^3) + sum(down * x[:, 0:3]) + sum(both[:, 3:9]^2) + sum(edge^2) + sum(window * x[1:4]) + sum(written^2 * table) + sum(a * b / (1 + c^2)) + sum(sin(turned) * turned) + sum(wide * rows[:, 0, 2:])
    output loss
    output rows
    output run
    output back
    output products
    output some
    output down
    output edge
    output window
    output written
    output turned
    train loss with sgd(lr = hyper 0.01)
}
