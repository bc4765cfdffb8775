fn f(a, b) { return a + b }
model m {
    input x : f32[2, 3]
    output a = f(x)
    output b = exp()
    output c = exp(x, x)
    output d = sum(x, axis = 0, axis = 1)
    output e = sum(x, over = 0)
    output g = x.dim
    output h = concat(x, x)
    w = param [3] init uniform(1)
    output d = sum(x, dim = 1)
    output e = transpose(x, 0, 1)
    output f = concat(x, x)
    output g = split(x, 2)
    output h = max(x, dim = 1)
}
