# Caches that are written in place: an update writes the rows that change and no others, at whatever place, on every target; what else
# reads the old rows does so before.
. "$SRC/tests/support/script.sh"
quick_c

against() { # WHAT [OPTION..]
    what=$1
    shift
    "$FUSEC" verify cache.dsl --quiet --rounds=3 "$@" >log 2>&1 || fail "$what: $(cat log)"
}
written() { # the grids of the kernels that update, by target
    "$FUSEC" cache.dsl --entry infer --target "$1" -o cache.tile || die "$1: not compiled"
    awk '/^kernel/ { name = $2; grid = "" } /^  grid/ { grid = grid " " $4 } /store .* where/ { print name grid }' cache.tile
}

# as many rows as there are, more, fewer and none; starts inside, before, behind
for rows in 0 1 3 8 11; do
    cat >cache.dsl <<END
dim R = $rows
model cache {
    input x : f32[R, 5]
    input at : i32[] in -4..12
    state rows = zeros [8, 5]
    old = rows * 1.0
    rows <- update(rows, x, at)
    output new = sum(rows * rows, axis = 0)
    output before = old
}
END
    against "$rows rows"
    [ $rows != 3 ] || for target in host sm_80; do
        [ "$(written $target | grep -c '0..3 0..5\|0..3$')" = 1 ] || fail "$target: rows that do not change are written: $(written $target)"
    done
done

# run-time extents; two updates of one cache, one of what the other has; computed parts; a part of the old rows elsewhere
cat >cache.dsl <<'END'
dim S <= 6
model cache {
    input x : f32[S, 2, 3]
    input at : i32[] in -2..9
    state a = zeros [9, 2, 3]
    state b = ones [9, 2, 3]
    state c = ones [9, 2, 3]
    state n = 0
    state d = zeros [9, 2, 3]
    state e = zeros [9, 2, 3]
    state g = zeros [9, 2, 3]
    e <- update(e, x * 2, at)
    g <- update(g, x - 1, at)
    n <- n + 1
    a <- update(a, tanh(x) * 2, at + int(n))
    b <- update(b, x + 1, at)
    b <- update(b, reverse(x, 1), int(n))
    c <- update(c, slice(c, at, S) * 0.5 + x, 2)
    d <- update(d, a[1:4], int(n)) + 0.5
    output sums = sum(a * b * c * d + e * g, axis = [1, 2])
    output last = slice(b, at, 3)
}
END
against "run-time extents"
against "run-time extents, nothing over what it was" -fno-overwrite
for target in host c99 sm_80 sm_90a; do
    [ "$(written $target | grep -c '0..S')" -ge 3 ] || fail "$target: rows that do not change are written: $(written $target)"
done

# values of the arena, and their gradients; caches that change places
cat >cache.dsl <<'END'
model cache {
    w = param [6, 4] init normal(1.0)
    p = param [2, 4] init normal(1.0)
    input at : i32[] in -3..8
    state one = zeros [6, 4]
    state two = ones [6, 4]
    h = tanh(w * 2)
    h = update(h, p * p, at)
    h = update(h, sin(p), at + 2)
    one, two = update(two, p, at), update(one, h[1:3], 4)
    one <- one
    two <- two
    loss = sum(h * h) + sum(one * two)
    output loss
    train loss with sgd(lr = 0.1)
}
END
sed -i 's/    one, two = update.*/    u = update(two, p, at)\n    v = update(one, h[1:3], 4)/; s/    one <- one/    one <- u/; s/    two <- two/    two <- v/' cache.dsl
against "gradients"

# a token of a decoder: what it moves does not grow with the cache but by what it reads
cat >cache.dsl <<'END'
dim N = 4096, S <= N
model cache {
    input x  : f32[1, 64]
    input at : i32[] in 0..N
    state keys   = zeros [N, 64]
    state values = zeros [N, 64]
    keys   <- update(keys,   linear(x, 64) as k, at)
    values <- update(values, linear(x, 64) as v, at)
    s = (linear(x, 64) as q) @ transpose(slice(keys, 0, S)) / 8
    output y = softmax(s) @ slice(values, 0, S)
}
END
moved() { "$FUSEC" report cache.dsl --entry infer --target "$1" -D N="$2" | sed -n 's/.*total .*, \([0-9.]*\) MB.*/\1/p'; }
for target in host sm_80; do
    # keys and values are read once: 2 * 64 * 4 bytes for each of 8192 rows
    awk "BEGIN { exit !($(moved $target 12288) - $(moved $target 4096) < 1.1 * 8192 * 512 / 1e6) }" || fail "$target: a token moves $(moved $target 4096) and $(moved $target 12288) MB"
done
exit $bad
