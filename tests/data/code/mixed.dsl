# What layers seldom have and the compiler decides about: conditions read off their result, factors of sums in another order,
# long epilogues, wide borders, chains of Jacobians, operands read backwards, parts of bounded dims.
let S = 1024
dim B <= 24
model mixed {
    input x : f32[48, 64]
    input t : f32[6, 9, 14]
    input f : f32[6, 9]
    input some : f32[B, 16]
    input broad : f32[1, 6, 7, 320]
    input s0 : f32[S, S]
    input s1 : f32[S, S]
    input s2 : f32[S, S]
    input border : f32[1, 40, 40, 16]
    input line : f32[2, 500, 8]
    input tall : f32[4098, 64]
    input outer_t : f32[4096, 512]
    input long : f32[64, 8192]
    p4 = param [4, 6] init normal(1.0)
    p5 = param [3, 6] init normal(1.0)
    p12 = param [12, 5] init normal(1.0)
    w = param [64, 32] init kaiming
    # conditions
    hidden = x @ (param [64, 64] init kaiming as hidden_w)
    gate = where(hidden > 0.0, hidden, 0.0)
    input edge : bf16[48, 32]
    output gated = tanh(gate @ w)
    bent = tanh(x)
    output straight = bent @ w + edge
    output over = where(bent > 0.25, 1.0, 0.0)
    clipped = where(x < 0.5, 0.5, x)
    # a factor that a sum does not read, of dims in another order
    moved[j, i] = sum[k] t[i, j, k] * f[i, j]
    scaled = t * reshape(f, [6, 9, 1])
    moved3[j, i] = sum[k] scaled[i, j, k]
    output moved
    output moved3
    # an epilogue of very many steps
    deep = tanh(x @ w)
    output poly = polynomial(deep, f[0, 0], 40)
    # products that are added up, which pays in one kernel or in one for each
    output added = tanh(s0 @ s1 + s1 @ s2)
    output more = deep @ (param [32, 64] init kaiming as more_a) + x @ (param [64, 64] init kaiming as more_b)
    # windows
    output broad3 = conv2d(broad, 24, 3) as broad3
    output borders = conv2d(border, 16, 21, groups = 16) as borders
    k = param [31, 8] init kaiming
    far[b, at in 0..520, c] = sum[s] line[b, at + s - 25, c] * k[s, c]
    output far
    back[b, at in 0..500, c] = sum[s in 0..7] line[b, 499 - at - s, c] * k[s, c]
    output back
    output backwards = reverse(x, axis = 1) @ w
    output mirrored = transpose(reverse(x, axis = 0)) @ hidden
    # Jacobians, dense, through a narrow middle, of each sample
    p = param [20] init normal(1.0)
    narrow = tanh((param [3, 20] init kaiming as narrow_w) @ p)
    wide = (param [30, 3] init kaiming as wide_w) @ sin(narrow)
    output through = jacobian(wide, p)
    middle8 = sin((param [8, 20] init kaiming as middle8_w) @ p)
    output through8 = jacobian((param [30, 8] init kaiming as wide8_w) @ middle8, p)
    middle14 = sin((param [14, 20] init kaiming as middle14_w) @ p)
    output through14 = jacobian((param [30, 14] init kaiming as wide14_w) @ middle14, p)
    middle19 = sin((param [19, 20] init kaiming as middle19_w) @ p)
    output through19 = jacobian((param [30, 19] init kaiming as wide19_w) @ middle19, p)
    q = tanh(x @ w)
    output samples = jacobian(q @ (param [32, 5] init kaiming as samples_w), q, batch = 0)
    crossed[a, i, j] = sin(p4[i, j]) * p5[a, j]
    tallest = max(crossed, axis = 0)
    output tallest_rows = jacobian(concat(tallest, sin(tallest), tallest * tallest, exp(-tallest * tallest), axis = 1), p4, batch = 0)
    # sums of as many dims as a tensor may have; of tiles of a window along outer rows; three products that are too small alone
    p10 = param [2, 3, 2, 3, 2, 2, 2, 2, 2, 72] init normal(1.0)
    flat10[j] = sum[a, b, c, d, e, g, h, i, n, k in 0..12, l in 0..2, m in 0..3] p10[a, b, c, d, e, g, h, i, n, 6*k + 3*l + m] * p12[k, j]
    output flat10
    outer[i in 0..4096, j] = sum[s, c] tall[i + s, c] * (param [3, 64, 512] init kaiming as outer_k)[s, c, j]
    output outer_sum = sum(outer * outer_t, axis = 1)
    output outer_rows = softmax(outer)
    output outer_columns = sum(outer * outer_t, axis = 0)
    output three = (long @ (param [8192, 256] init kaiming as three_a)) * (long @ (param [8192, 256] init kaiming as three_b)) +
                   long @ (param [8192, 256] init kaiming as three_c)
    # bounded dims
    output most = max(some, axis = 0)
    output squares = sum(some * some, axis = 1)
    output joined = concat(some, some * 2.0, axis = 1)
    output middle = some[0:1, 2:9] + some[0:1, 3:10]
    output products = some @ (param [16, 24] init kaiming as products_w)
    loss = mean(gated) + mean(clipped^2) + mean(moved^2) + mean(moved3^2) + mean(poly^2) + mean(broad3^2) + mean(borders^2) +
           mean(far^2) + mean(back^2) + mean(backwards^2) + mean(samples^2) + mean(products^2)
    train loss with adamw(lr = hyper 0.001)
}
fn polynomial(x, at, steps) {
    y = x
    c = at
    repeat steps {
        y = y * x * 0.5 + c
        c = c * 0.75
    }
    return y
}
