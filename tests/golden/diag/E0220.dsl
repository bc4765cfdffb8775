# Functions refuse what they cannot do, the library's and the user's own.
fn half(n) {
    if mod(n, 2) != 0 { return fail("half needs an even number", n) }
    return n / 2
}
model m {
    input x : f32[2, 8, 8, 3]
    output a = conv2d(x, 4, 3, padding = "foo") as a
    output b = max_pool2d(x, 2, padding = "reflect")
    output c = avg_pool2d(x, 2, padding = 1.5)
    output d = max_pool2d(x, 2, padding = -1)
    output e = max_pool2d(x, 9)
    output f = conv2d(x, 4, 3, stride = 0) as f
    output g = conv2d(x, 4, 3, groups = 2) as g
    output h = conv_transpose2d(x, 4, 3, padding = "same") as h
    output l = conv2d(x[0], 4, 3) as l
    output m = conv2d(x, 4, [3, 5]) as m
    output n = conv_transpose2d(x[0], 4, 3) as n
    output o = max_pool2d(x[0], 2)
    output p = avg_pool2d(x[0], 2)
    output q = self_attention(x, 2) as q
    output r = self_attention(x[0], 2) as r
    output s = groupnorm(x, 2) as s
    output t = cross_entropy(x[0, 0], one_hot(iota(8, axis = 0, rank = 1), 3))
    output i = zeros [half(4), half(5)]
    output j = fail("never")
    output k = fail(3)
}
