#!/bin/sh
# Loops leave out the iterations that a mask makes empty, and no others: on each side of a line, between two, with other slopes, in
# rows that are masked everywhere; a masked value that counts (-1e9 in a maximum, 1 in a sum) keeps them.  C agrees with float64
# (streams.sh runs streams on the others).
. "$SRC/tests/support/script.sh"
quick_c

# row NAME BOUNDS EXPRESSION: BOUNDS of the loop over a row, in C: which of `from` and `to` it has
outputs=
row() {
    cat >"$1.dsl" <<END
dim R = 700, T = 700
model m {
    input x : f32[R, T]
    i, j = iota(R, axis = 0, rank = 2), iota(T, axis = 1, rank = 2)
    output $1 = $3
}
END
    outputs="$outputs
    output $1 = $3"
    "$FUSEC" "$1.dsl" --target=c99 --entry=infer -o x.tile || fail "$1: not compiled"
    has=$(grep -o 'for r.* carry' x.tile | grep -ow 'from\|to' | sort -u | tr '\n' ' ')
    [ "$has" = "${2:+$2 }" ] || fail "$1: bounds '$has', '$2' expected"
}
row most from 'max(where(j > i + 3, x, -inf), axis = 1)'
row least to 'min(where(j + 5 < i, x, inf), axis = 1)'
row band 'from to' 'sum(where(j <= i and i - j < 50, x, 0), axis = 1)'
row beside 'from' 'sum(where(not (j <= i), x, 0), axis = 1)'
row steep to 'sum(float(2 * j <= i) * x, axis = 1)'
row flat from 'max(where(i <= 3 * j - 1000, x, -inf), axis = 1)'
row logs to 'logsumexp(where(j <= i, x, -inf), axis = 1)'
row few to 'sum(where(j < i - 650, x, 0), axis = 1)'
row nothing to 'max(where(j < i - 700, x, -inf), axis = 1)'
row product to 'prod(where(j <= i, 1 + x * 0.01, 1), axis = 1)'
row counts '' 'max(where(j <= i, x, -1e9), axis = 1)'
row adds '' 'sum(where(j <= i, x, 1), axis = 1)'
row either '' 'sum(where(j <= i or j > 600, x, 0), axis = 1)'
row data '' 'sum(where(x > 0.5, x, 0), axis = 1)'
row distance '' 'sum(where(abs(i - j) < 50, x, 0), axis = 1)'
cat >all.dsl <<END
dim R = 700, T = 700
model m {
    input x : f32[R, T]
    i, j = iota(R, axis = 0, rank = 2), iota(T, axis = 1, rank = 2)$outputs
}
END
"$FUSEC" verify all.dsl --target=c99 --rounds=1 >log 2>&1 || fail "rows: $(grep -v ' ok$' log | tail -5)"

# streams: their loops end with the program's rows, or begin there
cat >heads.dsl <<'END'
dim T = 600, W = 200
model heads {
    q = param [2, T, 32] init normal(1.0)
    k = param [2, T, 32] init normal(1.0)
    v = param [2, T, 32] init normal(1.0)
    i, j = iota(T, axis = 0, rank = 2), iota(T, axis = 1, rank = 2)
    o = softmax(where(j <= i and i - j < W, q @ transpose(k), -inf)) @ v
    loss = mean(o^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
# on a GPU the programs with the longest loops begin first, where they differ
sed 's/ and i - j < W//' heads.dsl >causal.dsl
"$FUSEC" causal.dsl --target=sm_80 --entry=grad -o x.tile || fail "causal: not compiled"
grep -q "grid .* slowest [1-9][0-9]* down$" x.tile && grep -q "grid .* slowest [1-9][0-9]*$" x.tile ||
    fail "programs are not numbered by length: $(grep grid x.tile)"
"$FUSEC" heads.dsl --target=sm_80 --entry=infer -o x.tile && grep slowest x.tile && fail "bands are as long as each other"

awk '{ print } /^model/ { print "    precision bf16" }' heads.dsl >low.dsl
for what in 'heads host' 'heads sm_80' 'low sm_80' 'low sm_90a'; do
    set -- $what
    "$FUSEC" "$1.dsl" --target=$2 --entry=grad -o x.tile || fail "$what: not compiled"
    streams=$(grep -c '^kernel @grad_stream' x.tile) both=$(grep -c 'for s from .* to .* carry' x.tile)
    [ "$streams" = 3 ] && [ "$both" = "$streams" ] || fail "$what: $streams streams, $both with both bounds"
done

# heads in groups that share keys: their rows are one dim, and the mask goes by what is left of it; the loop over all of them, of
# the gradients of keys and values, meets each group's band
cat >groups.dsl <<'END'
let T = 512
model groups {
    q = param [2, 4, T, 16] init normal(1.0)
    k = param [2, 1, T, 16] init normal(1.0)
    v = param [2, 1, T, 16] init normal(1.0)
    i, j = iota(T, axis = 0, rank = 2), iota(T, axis = 1, rank = 2)
    o = softmax(where(j <= i and i - j < 100, q @ transpose(k), -inf)) @ v
    loss = mean(o^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
for target in host sm_80; do
    "$FUSEC" groups.dsl --target=$target --entry=grad -o x.tile || fail "groups: not compiled"
    [ "$(grep -c '^kernel @grad_stream' x.tile)" = 4 ] && [ "$(grep -c 'for s from .* to .* carry' x.tile)" = 3 ] ||
        fail "groups on $target: $(grep -c '^kernel @grad_stream' x.tile) streams, $(grep -c 'for s from .* to .* carry' x.tile) with both bounds"
done
for entry in infer grad; do
    for name in groups heads; do
        "$FUSEC" verify $name.dsl --target=host --entry=$entry --rounds=1 >log 2>&1 || fail "$name, $entry: $(tail -3 log)"
    done
done
[ $bad = 0 ] && echo ok
exit $bad
