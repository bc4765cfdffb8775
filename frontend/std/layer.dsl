# Layers.

# x: [.., k] -> [.., n]; w: [k, n], b: [n]
layer linear(x, n, bias = true) {
    w = param [x.dim(-1), n] init kaiming
    if bias { return x @ w + (param [n] init zeros as b) }
    return x @ w
}
