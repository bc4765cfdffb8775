# The gradient of a lookup: ids are put into buckets once, whoever adds up by them, and rows add what lies in theirs.  Numbers are
# those of float64 on every executor, for ids of several dims, many of one row, none of most, and outside; work grows with rows
# plus ids, not with their product.
. "$SRC/tests/support/script.sh"

# model NAME: on stdin what makes `ids`, and y
model() {
    { printf 'dim V = 300, N = 400, C = 5\nmodel m {\n'
      cat
      printf '    loss = mean(y^2)\n    output y\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n'; } >"$work/$1.dsl"
    echo "$1" >>"$work/names"
}
model plain <<'END'
    t = param [V, C] init normal(1.0)
    input ids : i32[N] in 0..V
    y = tanh(t[ids])
END
model grid <<'END' # beyond the rows too, and a row's own dims
    t = param [V, C] init normal(1.0)
    u = param [V, 3] init normal(1.0)
    input ids : i32[20, 21] in 0..350
    y = t[ids] * sum(u[ids], axis = -1, keep = true)
END
model skewed <<'END' # half of them one row; outside on both sides
    t = param [V, C] init normal(1.0)
    u = param [V, 3] init normal(1.0)
    input a : i32[N] in 0..V
    ids = where(a < 150, 7, a * 2 - 320)
    y = t[ids] * sum(u[ids], axis = -1, keep = true)
END
model strided <<'END' # positions of a transpose
    t = param [V, C] init normal(1.0)
    input a : i32[40, 17] in 0..V
    y = t[transpose(a)] * 0.5
END
model precise <<'END' # added up in f32
    precision bf16
    t = param [V, C] init normal(1.0)
    input ids : i32[N] in 0..V
    y = t[ids] * 3.0
END
model scalars <<'END' # a row is one number
    u = param [V, 3] init normal(1.0)
    s = param [V] init normal(1.0)
    input ids : i32[N] in 0..V
    y = s[ids] * sum(u[ids], axis = -1)
END
model crowded <<'END' # many to a row: of a vector of places some are beyond it
    t = param [2000, C] init normal(1.0)
    s = param [2000] init normal(1.0)
    input a : i32[2000] in 0..100
    y = segment_sum(t, a, 90) * expand_dims(segment_sum(s, a, 90), 1)
END
model crowded_low <<'END' # and added up in f32
    precision bf16
    t = param [50, 40, 3] init normal(1.0)
    input a : i32[50, 40] in 0..100
    y = segment_sum(t, a, 90)
END
all_targets
while read -r name; do
    "$FUSEC" verify "$work/$name.dsl" --target $targets --rounds 1 --quiet >"$work/log" 2>&1 || fail "$name: $(cat "$work/log")"
    for target in host c99 sm_80; do
        "$FUSEC" "$work/$name.dsl" -o "$work/$name.tile" --target $target --entry grad || { fail "$name: no code for $target"; continue; }
        [ "$(grep -c '^  bucket ' "$work/$name.tile")" = 1 ] || fail "$name, $target: not one kernel makes buckets"
    done
done <"$work/names"
for name in crowded crowded_low; do
    for target in host sm_80; do
        "$FUSEC" "$work/$name.dsl" -o "$work/$name.tile" --target $target --entry infer
        grep -q '^  loop b in 0..2000 step [248]' "$work/$name.tile" || fail "$name, $target: one place at a time"
    done
done
[ "$(wc -l <"$work/names")" = 8 ] || fail "not all models are there"

# the update is in the kernel that has the gradient, unless the old table is read for it in other rows
sed 's/sgd(lr = 0.1)/sgd(lr = hyper 0.1)/' "$work/plain.dsl" >"$work/update.dsl"
sed 's/y = tanh(t\[ids\])/y = t[ids] * t[ids]/' "$work/update.dsl" >"$work/again.dsl"
for name in update again; do
    "$FUSEC" verify "$work/$name.dsl" --target $targets --entry step --rounds 1 --quiet >"$work/log" 2>&1 || fail "$name: $(cat "$work/log")"
    "$FUSEC" "$work/$name.dsl" -o "$work/$name.tile" --target host --entry step
done
[ "$(grep -c '^kernel @step_scatter.*%lr: ' "$work/update.tile")" = 1 ] || fail "the update of a table has a kernel of its own"

# rows 0 and 1 by a truth: GCC 12.2 reads at -1 where it vectorises that
cat >"$work/truths.dsl" <<'END'
model m {
    input by : bool[4000]
    t = param [2] init normal(1.0)
    y = t[where(by, 1, 0)] + t[int(where(by, 0.0, 1.0))]
    loss = mean(y^2)
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" verify "$work/truths.dsl" --target $targets --rounds 1 --quiet >"$work/log" 2>&1 || fail "truths: $(cat "$work/log")"

# few ids and rows are compared: a kernel more would cost more
"$FUSEC" "$work/plain.dsl" -o "$work/few.tile" --target host --entry grad -D N=20 -D V=30 && ! grep -q '^  bucket ' "$work/few.tile" ||
    fail "20 ids of 30 rows are put into buckets"

# four times the ids and the rows: no more than five times the instructions of the bucket's and the scatter's kernels
work_of() { # FACTOR
    cat >"$work/large.dsl" <<END
dim V = $((2000 * $1)), N = $((1000 * $1)), C = 64
model m {
    t = param [V, C] init normal(1.0)
    g = param [N, C] init normal(1.0)
    loss = sum(t[iota(N) * 7 - iota(N) * 7 / V * V] * g)
    output loss
    train loss with sgd(lr = 0.1)
}
END
    LD_LIBRARY_PATH=$BUILD/ptxsim "$BUILD/ptxsim/ptxsim" stat --gpu sm_80 -o "$work/table" -- "$FUSEC" run "$work/large.dsl" --target cuda \
        --arch sm_80 --entry grad --outputs "$work/large.safetensors" >"$work/log" 2>&1 || { cat "$work/log" >&2; return; }
    awk '/^thread instructions/ { exit } /^grad_(bucket|scatter)_/ { n += $3; kernels++ } END { if (kernels == 2) printf "%d", 1000 * n }' "$work/table"
}
if has_software_gpu; then
    small=$(work_of 1) large=$(work_of 4)
    [ -n "$small" ] && [ -n "$large" ] && [ "$large" -le $((5 * small)) ] || fail "work of 1 and 4: ${small:-none}, ${large:-none}"
fi
exit $bad
