# Layers.

# x: [.., k] -> [.., n]; w: [k, n], b: [n]
layer linear(x, n, bias = true) {
    w = param [x.dim(-1), n] init kaiming
    if bias { return x @ w + (param [n] init zeros as b) }
    return x @ w
}

# ids: i32[..] -> [.., n]; w: [rows, n]
layer embed(ids, rows, n) {
    w = param [rows, n] init normal(0.02)
    return w[ids]
}

# Training: each element is kept with probability 1 - p and scaled, so that the mean stays.
fn dropout(x, p) {
    if training { return where(uniform(x) >= p, x / max(1 - p, 6e-8), 0) }
    return x
}

# Normalised over all but the last axis; outside training by running statistics (Ioffe and Szegedy, 2015).
layer batchnorm(x, momentum = 0.1, eps = 1e-5) {
    c = x.dim(-1)
    gamma = param [c] init ones
    beta = param [c] init zeros
    state mu = zeros [c]
    state var = ones [c]
    if training {
        m = mean(x, axis = 0..-1)
        d = x - m
        s = mean(d^2, axis = 0..-1)
        mu <- (1 - momentum) * mu + momentum * stop_gradient(m)
        var <- (1 - momentum) * var + momentum * stop_gradient(s)
        return d * rsqrt(s + eps) * gamma + beta
    }
    return (x - mu) * rsqrt(var + eps) * gamma + beta
}

# Normalised over the last axis (Ba, Kiros and Hinton, 2016).
layer layernorm(x, eps = 1e-5) {
    gamma = param [x.dim(-1)] init ones
    beta = param [x.dim(-1)] init zeros
    d = x - mean(x, axis = -1, keep = true)
    return d * rsqrt(mean(d^2, axis = -1, keep = true) + eps) * gamma + beta
}

# Zhang and Sennrich, 2019
layer rmsnorm(x, eps = 1e-5) {
    gamma = param [x.dim(-1)] init ones
    return x * rsqrt(mean(x^2, axis = -1, keep = true) + eps) * gamma
}

# Normalised over all axes but the first and, of the last, one of `groups` equal parts (Wu and He, 2018).
layer groupnorm(x, groups, eps = 1e-5) {
    c = x.dim(-1)
    if mod(c, groups) != 0 { return fail("groupnorm needs channels that divide into the groups", groups) }
    gamma = param [c] init ones
    beta = param [c] init zeros
    g = reshape(x, [x.dim(0), -1, groups, c / groups])
    mu = mean(g, axis = [1, 3], keep = true)
    s = rsqrt(mean((g - mu)^2, axis = [1, 3], keep = true) + eps)
    mu = reshape(broadcast(mu, [x.dim(0), 1, groups, c / groups]), [x.dim(0), c])
    s = reshape(broadcast(s, [x.dim(0), 1, groups, c / groups]), [x.dim(0), c])
    repeat x.rank - 2 { mu, s = expand_dims(mu, 1), expand_dims(s, 1) }
    return (x - mu) * s * gamma + beta
}

# x: [B, T, C]; mask "causal", none, or a boolean tensor that broadcasts to [B, heads, T, T]
layer self_attention(x, heads, mask = "causal") {
    if x.rank != 3 { return fail("self_attention takes sequences [B, T, C]", x) }
    c = x.dim(-1)
    if mod(c, heads) != 0 { return fail("self_attention needs channels that divide into the heads", heads) }
    q, k, v = split(linear(x, 3 * c) as qkv, 3, axis = -1)
    s = to_heads(q, heads) @ transpose(to_heads(k, heads)) * rsqrt(float(c / heads))
    if mask == "causal" {
        s = where(causal(x.dim(1)), s, -inf)
    } else if mask != none {
        s = where(mask, s, -inf)
    }
    return linear(from_heads(softmax(s) @ to_heads(v, heads)), c) as proj
}
