# Sums and order by index.

# x: [.., C..] of whose leading axes ids: i32[..] has one id for each element -> [n, C..]: row i is the sum, or the greatest, of
# those whose id is i; ids outside 0..n count nowhere.  A row that no id names is 0, or -inf.
fn scatter_add(x, ids, n) { return by_row(x, ids, n, rows_summed(rows_of(x, ids), reshape(ids, [-1]), n)) }
fn segment_sum(x, ids, n) { return scatter_add(x, ids, n) }
fn segment_max(x, ids, n) { return by_row(x, ids, n, rows_greatest(rows_of(x, ids), reshape(ids, [-1]), n)) }

fn rows_of(x, ids) {
    if x.rank < ids.rank or x.rank > ids.rank + 2 { return fail("x has the axes of ids, then none, one or two", x.rank) }
    each = if x.rank == ids.rank then 1 else if x.rank == ids.rank + 1 then x.dim(-1) else x.dim(-2) * x.dim(-1)
    return if each == 0 then reshape(x, [size(ids), 0]) else reshape(x, [-1, each])
}
fn rows_summed(x, ids, n) {
    y[i in 0..n, c] = sum[e] where(ids[e] == i, x[e, c], 0)
    return y
}
fn rows_greatest(x, ids, n) {
    y[i in 0..n, c] = max[e] where(ids[e] == i, x[e, c], -inf)
    return y
}
fn by_row(x, ids, n, y) {
    if x.rank == ids.rank { return reshape(y, [n]) }
    if x.rank == ids.rank + 1 { return y }
    return reshape(y, [n, x.dim(-2), x.dim(-1)])
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

# The k greatest of the last axis, the greatest first, and where they are: [.., k], i32[.., k].
fn top_k(x, k) {
    if k > x.dim(-1) { return fail("top_k takes no more than the last axis has", k) }
    at = ranks(x, true)
    return first_of(x, at, k), first_of(broadcast(iota(x.dim(-1)), x), at, k)
}
fn first_of(x, at, k) {
    here = expand_dims(at, -2) == iota(k, axis = -2, rank = x.rank + 1)
    return sum(where(here, expand_dims(x, -2), 0), axis = -1)
}
