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

# Along the last axis: where each element comes when they are sorted, where the first, the second, .. stand, and they themselves; equal
# ones stay in order, NaN is more than any number, and the gradient goes where an element came from.  Of a short axis each is compared
# with each.
fn ranks(x, descending = false) {
    if is_long(x) { return along_rows(counting_sort(rows_in_order(x, descending), size(x)), x) }
    return ranks_by_comparison(x, descending)
}
fn argsort(x, descending = false) {
    if is_long(x) { return along_rows(rows_in_order(x, descending), x) }
    return first_of(broadcast(iota(x.dim(-1)), x), ranks_by_comparison(x, descending), x.dim(-1))
}
fn sort(x, descending = false) {
    if is_long(x) { return reshape(reshape(x, [-1])[rows_in_order(x, descending)], x) }
    return first_of(x, ranks_by_comparison(x, descending), x.dim(-1))
}
fn is_long(x) {
    if not is_integer(size(x)) { return false }
    return x.dim(-1) >= 512 and size(x) <= 500000000
}
# Of positions in all rows those in each.
fn along_rows(at, x) { return reshape(mod(at, x.dim(-1)), x) }
# Positions of the first row's elements in order, then of the second's: a radix sort, least significant digit first (Knuth, vol. 3,
# 5.2.5), of digits of 11, 11 and 10 bits, and the row.
fn rows_in_order(x, descending) {
    key = sort_key(reshape(x, [-1]))
    key = if descending then -1 - key else key
    order = counting_sort(mod(key, 2048), 2048)
    order = by_digit(order, mod(floor_div(key, 2048), 2048), 2048)
    order = by_digit(order, floor_div(key, 4194304) + 512, 1024)
    rows = floor_div(size(x), x.dim(-1))
    return if rows == 1 then order else by_digit(order, floor_div(iota(size(x)), x.dim(-1)), rows)
}
fn by_digit(order, digit, n) { return order[counting_sort(digit[order], n)] }
# An integer that is less for what is less: floats are in the order of their bits, the negative ones in the reverse of it.
fn sort_key(x) {
    if not is_float(x) { return int(x) }
    b = bits(where(x == 0, 0.0, x))
    return where(x == x, where(b < 0, -1 - (b + 2147483647), b), 2147483647)
}

fn ranks_by_comparison(x, descending) {
    n = x.dim(-1)
    key = sort_key(x)
    a = expand_dims(key, -1)
    b = expand_dims(key, -2)
    before = iota(n, axis = -1, rank = x.rank + 1) < iota(n, axis = -2, rank = x.rank + 1)
    less = if descending then b > a else b < a
    return sum(where(less or (b == a and before), 1, 0), axis = -1)
}

# The k greatest of the last axis, the greatest first, and where they are: [.., k], i32[.., k].  Few of many are searched one after
# another, k times through the axis; others are the first in order.
fn top_k(x, k) {
    n = x.dim(-1)
    if k < 1 or k > n { return fail("top_k takes at least one, and no more than the last axis has", k) }
    if k > 0 and k <= 64 and 8 * k <= n { return at_places(x, greatest(sort_key(x), k)) }
    if is_long(x) { return sort(x, descending = true)[..., 0:k], argsort(x, descending = true)[..., 0:k] }
    at = ranks_by_comparison(x, true)
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
    return at
}
fn at_places(x, at) {
    here = expand_dims(at, -1) == expand_dims(iota(x.dim(-1), axis = -1, rank = x.rank), -2)
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
