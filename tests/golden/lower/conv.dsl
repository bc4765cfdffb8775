model conv {
    input x : f32[2, 7, 7, 4]
    a = conv2d(x, 6, 3, stride = 2, dilation = 2) as same
    b = conv2d(x, 6, 3, groups = 2, padding = 1, bias = false) as grouped
    c = conv2d(x, 2, 3, padding = "reflect", bias = false) as mirror
    output up = conv_transpose2d(a, 3, 2, stride = 2) as t
    output most = max_pool2d(b, 3, 2, padding = "same")
    output mean = avg_pool2d(c, 2)
}
