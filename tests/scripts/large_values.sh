# Values that are computed where they are read may have more elements than memory: the terms of sums by ids of a million rows.  What is
# in memory grows with ids and rows, not with their product; what has to be there and is too large is refused at its place.
. "$SRC/tests/support/script.sh"

# arenas FILE MOST: of each entry that `report` told of
arenas() {
    awk -v most="$2" '/^  arena / { n++; if ($2 > most) bad = 1 } END { exit bad || !n }' "$1"
}

# fits NAME MOST: NAME.dsl compiles for each target, its arenas have at most so many bytes
fits() {
    for target in host c99 sm_80; do
        case $target in host) form=o ;; c99) form=c ;; sm_80) form=ptx ;; esac
        "$FUSEC" "$1.dsl" --target $target -o "$1.$form" >log 2>&1 && "$FUSEC" report "$1.dsl" --target $target >report 2>&1 ||
            { fail "$1 on $target: $(cat log report)"; continue; }
        arenas report "$2" || fail "$1 on $target: $(grep '^  arena ' report), at most $2 bytes are expected"
    done
    echo "$1" >>names
}
rows=1000000

# ---- sums by ids, lookups, extremes ----
for columns in 16 128; do
    sed -e "s/, 16\]/, $columns]/; s/^dim R = .*/dim R = $rows/" "$SRC/bench/host/scatter.dsl" >scatter$columns.dsl
    [ "$(grep -c "^dim R = $rows\|, $columns\]" scatter$columns.dsl)" = 3 ] || fail "scatter.dsl is another program"
    fits scatter$columns $((2 * 4 * rows * columns))
done
model() {
    { printf 'dim E = %s, V = %s, C = 16\nmodel m {\n    input ids : i32[E] in 0..V\n' $rows $rows
      cat
      printf '    loss = sum(y * y)\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n'; } >"$1.dsl"
}
model lookup <<'END'
    t = param [V, C] init normal(1.0)
    y[e, c] = sum[v] float(ids[e] == v) * t[v, c]
END
model greatest <<'END'
    x = param [E, C] init normal(1.0)
    y = max(segment_max(x, ids, V), -4.0)
END
fits lookup $((2 * 4 * rows * 16))
fits greatest $((5 * 4 * rows * 16)) # with which of the ids each is from

# two of a million ids for each of the first half of the rows
cat >numbers.dsl <<END
model m {
    ids = iota($rows) / 2
    n = scatter_add(ones [$rows], ids, $rows)
    top = segment_max(float(iota($rows)), ids, $rows)
    t = float(iota($rows)) * 2.0
    found[e] = sum[v] float(ids[e] == v) * t[v]
    output all_of_them = sum(n)
    output most = max(n)
    output least = min(n)
    output last = max(top)
    output second = top[1]
    output value = found[9]
}
END
"$FUSEC" run numbers.dsl --target host --entry infer --quiet >log 2>&1 || fail "numbers: $(cat log)"
[ "$(tr '\n' ' ' <log)" = "all_of_them 1000000 most 2 least 0 last 999999 second 3 value 8 " ] || fail "numbers: $(cat log)"

# ---- all pairs, of which nothing is kept ----
cat >pairs.dsl <<'END'
dim N = 3000000
model m {
    input x : f32[N, 2]
    input z : f32[N]
    near[i, j] = exp(-(x[i, 0] - x[j, 0])^2)
    weight[i] = sum[j] near[i, j] * z[j]
    output mean = weight / sum(near, axis = 1)
    output most = max(near * (1.0 + abs(near)), axis = 1)
    q = param [N, 2] init normal(1.0)
    loss = sum(relu((q * 0.5) @ transpose(x)))
    output loss
    train loss with sgd(lr = 0.1)
}
END
fits pairs $((64 * 4 * 3000000)) # long sums are of slices on a GPU

# ---- what has to be in memory ----
# refused WHAT PLACE FILE OPTION..: for every target
refused() {
    what=$1 place=$2
    shift 2
    for target in host c99 sm_80 sm_90a; do
        case $target in host) form=o ;; c99) form=c ;; *) form=ptx ;; esac
        "$FUSEC" "$@" --target $target -o out.$form >log 2>&1
        status=$?
        [ $status = 1 ] && [ ! -e out.$form ] || fail "$what on $target: status $status"
        grep -q "^$place: error: a tensor .* has to be in memory, and has more than 1099511627776 elements \[E0216\]" log &&
            grep -q '^  *= help: ' log && [ "$(grep -c ': error: ' log)" = 1 ] || fail "$what on $target: $(cat log)"
    done
    echo "$what"
}
cat >scan.dsl <<'END'
dim N = 2000000
model m {
    input x : f32[N]
    w = param [N] init ones
    d[i, j] = exp(x[i] - w[j])
    loss = sum(sqrt(cumsum(d, axis = 0)))
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >product.dsl <<'END'
dim N = 2000000
model m {
    input x : f32[N, 2]
    w = param [N, 2] init ones
    loss = sum(sqrt(1.0 + (x @ transpose(w))^2))
    output loss
    train loss with sgd(lr = 0.1)
}
END
refused "a running sum" scan.dsl:6:21 scan.dsl
refused "a running sum, recomputed" scan.dsl:6:21 scan.dsl --checkpoint=sqrt
refused "a product in a kernel of its own" product.dsl:5:27 product.dsl -fno-fuse
fits product $((8 * 4 * 2000000))

# ---- who evaluates element by element says so ----
for name in scatter16 lookup greatest pairs; do
    "$FUSEC" verify $name.dsl --target host >log 2>&1
    [ $? = 1 ] && grep -q '^fusec: error: the float64 evaluation would take ' log || fail "verify $name: $(cat log)"
done
[ "$(wc -l <names)" = 6 ] || fail "not all programs are there"
exit $bad
