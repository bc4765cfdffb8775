# Arguments of library functions that mean nothing.
model m {
    x = param [1, 6, 6, 4] init normal(1.0)
    a = conv2d(x, 3, 0) as a
    b = conv2d(x, 3, 3, dilation = 0) as b
    c = conv2d(x, 3, 13, padding = "reflect") as c
    d = conv_transpose2d(x, 3, 0) as d
    e = conv_transpose2d(x, 3, 2, stride = 0) as e
    f = conv_transpose2d(x, 3, 2, padding = -1) as f
    g = conv_transpose2d(x, 3, 2, padding = 20) as g
    h = gelu(x, form = "foo")
    k = top_k(x, 0)
    p = max_pool2d(x, 0)
}
