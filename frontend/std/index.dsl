# Sums and order by index.

# x: [.., C..] of whose leading axes ids: i32[..] has one id for each element -> [n, C..]: row i is the sum, or the greatest, of
# those whose id is i; ids outside 0..n count nowhere.  A row that no id names is 0, or -inf.
fn scatter_add(x, ids, n) { return rows_summed(rows_of(x, ids), ids_of(ids), n) }
fn segment_sum(x, ids, n) { return scatter_add(x, ids, n) }
fn segment_max(x, ids, n) { return rows_greatest(rows_of(x, ids), ids_of(ids), n) }

# Up to three axes of ids stay apart, as a bounded one cannot be merged with others.
fn ids_of(ids) { return if ids.rank > 0 and ids.rank < 4 then ids else reshape(ids, [-1]) }
fn rows_of(x, ids) {
    if x.rank < ids.rank or x.rank > ids.rank + 2 { return fail("x has the axes of ids, then none, one or two", x.rank) }
    if ids.rank > 0 and ids.rank < 4 { return x }
    if x.rank == ids.rank { return reshape(x, [-1]) }
    if x.rank == ids.rank + 1 { return if x.dim(-1) == 0 then reshape(x, [size(ids), 0]) else reshape(x, [-1, x.dim(-1)]) }
    empty = x.dim(-2) * x.dim(-1) == 0
    return if empty then reshape(x, [size(ids), x.dim(-2), x.dim(-1)]) else reshape(x, [-1, x.dim(-2), x.dim(-1)])
}
fn rows_summed(x, ids, n) {
    if x.rank == 1 and ids.rank == 1 { y[i in 0..n] = sum[a] where(ids[a] == i, x[a], 0) }
    if x.rank == 2 and ids.rank == 1 { y[i in 0..n, c] = sum[a] where(ids[a] == i, x[a, c], 0) }
    if x.rank == 3 and ids.rank == 1 { y[i in 0..n, c, d] = sum[a] where(ids[a] == i, x[a, c, d], 0) }
    if x.rank == 2 and ids.rank == 2 { y[i in 0..n] = sum[a, b] where(ids[a, b] == i, x[a, b], 0) }
    if x.rank == 3 and ids.rank == 2 { y[i in 0..n, c] = sum[a, b] where(ids[a, b] == i, x[a, b, c], 0) }
    if x.rank == 4 and ids.rank == 2 { y[i in 0..n, c, d] = sum[a, b] where(ids[a, b] == i, x[a, b, c, d], 0) }
    if x.rank == 3 and ids.rank == 3 { y[i in 0..n] = sum[a, b, e] where(ids[a, b, e] == i, x[a, b, e], 0) }
    if x.rank == 4 and ids.rank == 3 { y[i in 0..n, c] = sum[a, b, e] where(ids[a, b, e] == i, x[a, b, e, c], 0) }
    if x.rank == 5 and ids.rank == 3 { y[i in 0..n, c, d] = sum[a, b, e] where(ids[a, b, e] == i, x[a, b, e, c, d], 0) }
    return y
}
fn rows_greatest(x, ids, n) {
    if x.rank == 1 and ids.rank == 1 { y[i in 0..n] = max[a] where(ids[a] == i, x[a], -inf) }
    if x.rank == 2 and ids.rank == 1 { y[i in 0..n, c] = max[a] where(ids[a] == i, x[a, c], -inf) }
    if x.rank == 3 and ids.rank == 1 { y[i in 0..n, c, d] = max[a] where(ids[a] == i, x[a, c, d], -inf) }
    if x.rank == 2 and ids.rank == 2 { y[i in 0..n] = max[a, b] where(ids[a, b] == i, x[a, b], -inf) }
    if x.rank == 3 and ids.rank == 2 { y[i in 0..n, c] = max[a, b] where(ids[a, b] == i, x[a, b, c], -inf) }
    if x.rank == 4 and ids.rank == 2 { y[i in 0..n, c, d] = max[a, b] where(ids[a, b] == i, x[a, b, c, d], -inf) }
    if x.rank == 3 and ids.rank == 3 { y[i in 0..n] = max[a, b, e] where(ids[a, b, e] == i, x[a, b, e], -inf) }
    if x.rank == 4 and ids.rank == 3 { y[i in 0..n, c] = max[a, b, e] where(ids[a, b, e] == i, x[a, b, e, c], -inf) }
    if x.rank == 5 and ids.rank == 3 { y[i in 0..n, c, d] = max[a, b, e] where(ids[a, b, e] == i, x[a, b, e, c, d], -inf) }
    return y
}

# Where each element of the last axis comes when they are sorted; equal ones stay in order.  Compares each with each.
fn ranks(x, descending = false) {
    n = x.dim(-1)
    a = expand_dims(x, -1)
    b = expand_dims(x, -2)
    before = iota(n, axis = -1, rank = x.rank + 1) < iota(n, axis = -2, rank = x.rank + 1)
    less = if descending then b > a else b < a
    return sum(where(less or (b == a and before), 1, 0), axis = -1)
}

# Along the last axis; the gradient goes where the element came from.  NaN has no place.
fn sort(x, descending = false) { return first_of(x, ranks(x, descending), x.dim(-1)) }

# The k greatest of the last axis, the greatest first, and where they are: [.., k], i32[.., k].  Few of many are searched one after
# another, k times through the axis; others by ranks.
fn top_k(x, k) {
    n = x.dim(-1)
    if k > n { return fail("top_k takes no more than the last axis has", k) }
    if k > 0 and k <= 64 and 8 * k <= n { return greatest(x, k) }
    at = ranks(x, true)
    return first_of(x, at, k), first_of(broadcast(iota(n), x), at, k)
}
fn greatest(x, k) {
    place = iota(x.dim(-1), axis = -1, rank = x.rank)
    v, last = greatest_among(x, x == x)
    at = last
    repeat i in 1..k {
        v, last = greatest_among(x, x < v or (x == v and place > last))
        at = concat(at, last, axis = -1)
    }
    here = expand_dims(at, -1) == expand_dims(place, -2)
    return sum(where(here, expand_dims(x, -2), 0), axis = -1), at
}
fn greatest_among(x, left) {
    v = max(x, axis = -1, keep = true, where = left)
    place = broadcast(iota(x.dim(-1), axis = -1, rank = x.rank), x)
    return v, min(place, axis = -1, keep = true, where = left and x == v)
}
fn first_of(x, at, k) {
    here = expand_dims(at, -2) == iota(k, axis = -2, rank = x.rank + 1)
    return sum(where(here, expand_dims(x, -2), 0), axis = -1)
}
