# Shapes and reductions.

fn ceil_div(a, b) { return -floor_div(-a, b) }
fn flatten(x) { return reshape(x, [x.dim(0), -1]) }

fn mean(x, axis = all, keep = false, where = all) {
    if where == all { return sum(x, axis = axis, keep = keep) / float(size(x, axis)) }
    count = sum(float(broadcast(where, x)), axis = axis, keep = keep)
    return sum(x, axis = axis, keep = keep, where = where) / max(count, 1)
}
fn variance(x, axis = all, keep = false, where = all) {
    d = x - mean(x, axis = axis, keep = true, where = where)
    return mean(d^2, axis = axis, keep = keep, where = where)
}

# [B, T, C] -> [B, h, T, C/h] and back
fn to_heads(x, h) { return transpose(reshape(x, [x.dim(0), x.dim(1), h, x.dim(2) / h]), [0, 2, 1, 3]) }
fn from_heads(x) { return reshape(transpose(x, [0, 2, 1, 3]), [x.dim(0), x.dim(2), x.dim(1) * x.dim(3)]) }

# [T, T]: row i may see columns j <= i
fn causal(T) { return iota(T, axis = 1, rank = 2) <= iota(T, axis = 0, rank = 2) }

# ids: i32[..] -> f32[.., n]
fn one_hot(ids, n) { return float(expand_dims(ids, -1) == iota(n, axis = -1, rank = ids.rank + 1)) }
