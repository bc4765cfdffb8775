# What multiplies with float(ids[e] == v), or is chosen by it, is a sum by ids or a lookup, however it is written: no product with
# an indicator is left, forward or backward.  Numbers are those of float64 on every executor, ids outside included.
. "$SRC/tests/support/script.sh"
all_targets
quick_c

# model NAME SCATTERS GATHERS: on stdin what gives y; how many of each the grad entry has
model() {
    { printf 'dim E = 350, V = 200, C = 3, B = 2\nmodel m {\n'
      cat
      printf '    loss = sum(y * y)\n    output y\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n'; } >"$1.dsl"
    "$FUSEC" verify "$1.dsl" --target $targets --rounds 1 --quiet >log 2>&1 || fail "$1: $(cat log)"
    "$FUSEC" "$1.dsl" -o "$1.o" --entry grad --print-after=split 2>&1 | sed -n '/after split, entry grad/,/^}/p' >"$1.graph"
    [ "$(grep -cE ' = scatter(_(arg)?max)? ' "$1.graph")" = "$2" ] && [ "$(grep -c ' = gather ' "$1.graph")" = "$3" ] ||
        fail "$1 has not $2 sums by ids and $3 lookups: $(grep -E ' = (scatter|scatter_max|scatter_argmax|gather|contract|sum) ' "$1.graph")"
    ! grep -E ' = (cast|mul|select) .*\[[0-9,]*(350,[0-9,]*200|200,[0-9,]*350)' "$1.graph" || fail "$1 has something for every row and id"
    echo "$1" >>names
}
ids='    input ids : i32[E] in -3..210'
model sums 1 1 <<END
$ids
    x = param [E, C] init normal(1.0)
    y[i in 0..V, c] = sum[e] float(ids[e] == i) * x[e, c]
END
model chosen 1 1 <<END
$ids
    x = param [E, C] init normal(1.0)
    y[i in 0..V, c] = sum[e] where(i == ids[e], x[e, c], 0.0)
END
model weighted 2 2 <<END # two ids: of an edge's ends
$ids
    input from : i32[E] in 0..V
    w = param [E] init normal(1.0)
    x = param [V, C] init normal(1.0)
    m = x[from]
    y[i in 0..V, c] = sum[e] float(ids[e] == i) * w[e] * m[e, c]
END
model counts 1 0 <<END
$ids
    x = param [V] init normal(1.0)
    n[i in 0..V] = sum[e] float(ids[e] == i)
    y = n * x
END
model histogram 1 0 <<END # terms that are constants
$ids
    x = param [V] init normal(1.0)
    y = x / max(segment_sum(ones [E], ids, V), 1.0)
END
model constants 1 0 <<END
$ids
    x = param [V] init normal(1.0)
    n[i in 0..V] = sum[e] where(ids[e] == i, 0.25, 0.0) * 3.0
    y = n * x
END
model hot 1 1 <<END
$ids
    t = param [V, C] init normal(1.0)
    y = one_hot(ids, V) @ t
END
model turned 1 1 <<END
$ids
    x = param [E, C] init normal(1.0)
    y = transpose(one_hot(ids, V)) @ x
END
model lookup 1 1 <<END # rows are not the table's first axis
$ids
    t = param [C, V] init normal(1.0)
    y[e, c] = sum[v] float(ids[e] == v) * t[c, v]
END
model chain 1 1 <<END # three factors
$ids
    t = param [V, C] init normal(1.0)
    u = param [C, 5] init normal(1.0)
    y[e, k] = sum[v, c] float(ids[e] == v) * t[v, c] * u[c, k]
END
many='    input ids : i32[B, E] in -3..210'
model batched 1 1 <<END # what a read of several axes becomes
$many
    x = param [B, V, C] init normal(1.0)
    y[b, t, c] = x[b, ids[b, t], c]
END
model batched_sums 1 1 <<END
$many
    x = param [B, E, C] init normal(1.0)
    y[b, i in 0..V, c] = sum[e] float(ids[b, e] == i) * x[b, e, c]
END
model batched_apart 1 1 <<END # the sample's axis elsewhere
$many
    t = param [V, B, C] init normal(1.0)
    y[c, e, b] = sum[v] float(v == ids[b, e]) * t[v, b, c]
END
model library 1 1 <<END
$many
    x = param [B, E, C] init normal(1.0)
    y = scatter_add(x, ids, V)
END
model greatest 2 2 <<END # its gradient: the first of the greatest, found by the ids too
$ids
    x = param [E, C] init normal(1.0)
    y = max(segment_max(x, ids, V), -4.0)
END
model least 2 2 <<END
$many
    x = param [B, E] init normal(1.0)
    y[b, i in 0..V] = min(min[e] where(i == ids[b, e], x[b, e], inf), 4.0)
END
model softmax_by_ids 5 5 <<END # of those with an id, as of a graph's edges
$ids
    x = param [E] init normal(1.0)
    m = segment_max(x, ids, V)
    e = exp(x - m[ids])
    y = e / segment_sum(e, ids, V)[ids]
END
model ties 2 2 <<END # to the first of equal ones
$ids
    x = param [E, C] init ones
    w = param [V, C] init normal(1.0)
    y = w * max(segment_max(x, ids, V), -4.0)
END
model infinite 2 2 <<END # -inf among the rows, and rows of nothing else
$ids
    x = param [E] init normal(1.0)
    s = where(mod(iota(E), 3) == 0, -inf, x)
    y = max(segment_max(s, ids, V), -4.0)
END
model total 0 0 <<END # of all rows together: of the ids that are rows
$ids
    x = param [E, C] init normal(1.0)
    y = sum(scatter_add(x, ids, V), axis = 0)
END
model total_of_products 0 0 <<END
$ids
    x = param [E, C] init normal(1.0)
    u = param [C, 5] init normal(1.0)
    y[k] = sum[e, v in 0..V, c] float(ids[e] == v) * x[e, c] * u[c, k]
END
model rows_of_samples 0 0 <<END # how many ids of each sample are rows, and what they add up to
$many
    x = param [B, E] init normal(1.0)
    n[b] = sum[e, v in 0..V] float(ids[b, e] == v)
    y[b] = n[b] + sum[e, v in 0..V] where(v == ids[b, e], x[b, e], 0.0)
END
[ "$(wc -l <names)" = 22 ] || fail "not all models are there"

# what is compared again is computed again: the same gradient, and in low precision
"$FUSEC" verify softmax_by_ids.dsl --target $targets --checkpoint=sqrt --rounds 1 --quiet >log 2>&1 || fail "recomputed: $(cat log)"
sed 's/^model m {/&\n    precision bf16/' softmax_by_ids.dsl >low.dsl
"$FUSEC" verify low.dsl --target $targets --rounds 1 --quiet >log 2>&1 || fail "bf16: $(cat log)"

# a loss picks one element of each row, of logits that need not be in memory; few rows are a product
cat >loss.dsl <<'END'
model m {
    input label : i32[300] in 0..400
    x = param [300, 8] init normal(1.0)
    w = param [8, 400] init normal(1.0)
    loss = mean(cross_entropy(x @ w, label))
    output loss
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" loss.dsl -o loss.o --entry grad --print-after=split 2>&1 | sed -n '/after split, entry grad/,/^}/p' | grep ' = gather ' && fail "a loss looks up its logits"
sed -e 's/V = 200/V = 20/' sums.dsl >few.dsl
"$FUSEC" few.dsl -o few.o --entry grad --print-after=split 2>&1 | grep ' = scatter ' && fail "20 rows are summed by ids"

# the library's order, of 0 1 4 4 1 0, by hand
tensor() { # FILE NAME TYPE: its values
    n=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    span=$(dd if="$1" bs=1 skip=8 count="$n" 2>/dev/null | sed -n 's|.*"'"$2"'":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*|\1 \2|p')
    set -- "$1" "$3" $span
    od -An -v -t "$2" -j $((8 + n + $3)) -N $(($4 - $3)) "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}
cat >order.dsl <<'END'
model m {
    input i : i32[6]
    p = param [6] init zeros
    x = float(mod(i * i, 5)) + p
    y = sort(x)
    z = sort(x, descending = true)
    t, at = top_k(x, 2)
    r = ranks(x)
    g = segment_max(x, i - i / 3 * 3, 4)
    s = segment_sum(x, i - i / 3 * 3, 4)
    loss = sum(y * float(iota(6)))
    output y
    output z
    output t
    output at
    output r
    output g
    output s
    output loss
    train loss with sgd(lr = 0.1)
}
END
head='{"i":{"dtype":"I32","shape":[6],"data_offsets":[0,24]}}'
{ printf "\\$(printf %o ${#head})\\0\\0\\0\\0\\0\\0\\0%s" "$head"; printf '\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0'; } >i.safetensors
for target in host c99 interp; do
    "$FUSEC" run order.dsl --target $target --entry grad --inputs i.safetensors --quiet --outputs o.safetensors >log 2>&1 || fail "order: $(cat log)"
    while read -r name type want; do
        [ "$(tensor o.safetensors "$name" "$type")" = "$want" ] || fail "$target, $name: $(tensor o.safetensors "$name" "$type"), not $want"
    done <<'END'
y f4 0 0 1 1 4 4
z f4 4 4 1 1 0 0
t f4 4 4
at d4 2 3
r d4 0 2 4 5 3 1
g f4 4 1 4 -inf
s f4 4 2 4 0
grad/p f4 0 2 4 5 3 1
END
done

# the greatest of many are searched one after another, with equal ones and -inf in the order that ranks has
cat >greatest.dsl <<'END'
model m {
    p = param [4, 40] init zeros
    i = iota(40, axis = 1, rank = 2)
    j = iota(4, axis = 0, rank = 2)
    a = mod(i * i * 7 + j, 11)
    x = where(j == 3 and i > 1, -inf, float(a)) + p
    t, at = top_k(x, 5)
    n, at_n = top_k(a, 5)
    y = sort(x, descending = true)
    r = ranks(x, descending = true)
    r_n = ranks(a, descending = true)
    place[b, k in 0..5] = r[b, at[b, k]]
    place_n[b, k in 0..5] = r_n[b, at_n[b, k]]
    found[b, k in 0..5] = a[b, at_n[b, k]]
    weight = float(iota(5) + 1)
    of_t = sum(where(t > -inf, t, 0) * weight)
    of_y = sum(where(y[:, 0:5] > -inf, y[:, 0:5], 0) * weight)
    output values = sum(where(t == y[:, 0:5], 0, 1))
    output places = sum(where(place == iota(5), 0, 1)) + sum(where(place_n == iota(5), 0, 1)) + sum(where(found == n, 0, 1))
    output gradients = sum(abs(vjp(of_t, p, 1) - vjp(of_y, p, 1)))
    output some = sum(vjp(of_t, p, 1))
}
END
for target in host c99 interp; do
    "$FUSEC" run greatest.dsl --target $target --entry infer --quiet >log 2>&1 || fail "greatest on $target: $(cat log)"
    [ "$(tr '\n' ' ' <log)" = "values 0 places 0 gradients 0 some 48 " ] || fail "greatest on $target: $(cat log)"
done

# a factor that is infinite where no row has the id is left out by where(), looked up or not
cat >padding.dsl <<'END'
model m {
  x = float(mod(iota(1024), 5)) - 1.5
  ids = mod(iota(1024) * 7, 64)
  t = param [64] init ones
  u = param [64, 3] init ones
  g = param [3] init ones
  xx = x / float(iota(1024) != 1)
  idd = where(iota(1024) == 1, -1, ids)
  s[e] = sum[i] where(idd[e] == i, xx[e] * t[i], 0)
  q[e, c] = sum[i] where(idd[e] == i, xx[e] * u[i, c] * g[c], 0)
  r[c, e] = sum[i] where(idd[e] == i, xx[e] * u[i, c], 0)
  v = sum(where(expand_dims(idd, 1) == iota(64, axis = 1, rank = 2), expand_dims(xx, 1) * t, 0))
  w = sum(scatter_add(xx * u[0, 0], idd, 64))
  output s1 = s[1]
  output q1 = q[1, 2]
  output r1 = r[2, 1]
  output fin = sum(where(s == s, 0.0, 1.0)) + sum(where(q == q, 0.0, 1.0)) + sum(where(r == r, 0.0, 1.0)) + where(v == v, 0.0, 1.0) + where(w == w, 0.0, 1.0)
  output same = abs(v - sum(s)) + abs(v - w) < 0.01
  loss = sum(q) + sum(s)
  train loss with sgd(lr = 0.1)
}
END
for target in host c99 interp; do
    "$FUSEC" run padding.dsl --target $target --entry infer --quiet >log 2>&1 || fail "padding on $target: $(cat log)"
    [ "$(tr '\n' ' ' <log)" = "s1 0 q1 0 r1 0 fin 0 same 1 " ] || fail "padding on $target: $(cat log)"
done
"$FUSEC" padding.dsl --target host --entry infer --print-after=jacobian_gemm -o x.ll 2>&1 | grep -q gather || fail "padding: nothing is looked up"

# a row of numbers is one, however it came to its shape
cat >shaped.dsl <<'END'
model m {
  ids = mod(iota(500) * 7, 300)
  t = param [300, 40] init normal(1.0)
  here = expand_dims(ids, 1) == reshape(iota(300), [1, 300])
  output y = sum(where(expand_dims(here, 2), expand_dims(t, 0), 0), axis = 1)
}
END
"$FUSEC" shaped.dsl --target host --entry infer --print-after=jacobian_gemm -o x.ll 2>&1 | grep -q gather || fail "shaped: nothing is looked up"

# bounded and empty axes, several ids an element
cat >shapes.dsl <<'END'
dim S <= 600
dim Z = 0
model m {
  input x : f32[S, 3]
  input v : f32[S]
  input ids : i32[S] in 0..300
  input e : f32[Z, 3]
  input eids : i32[Z]
  input f : f32[5, 0]
  input fids : i32[5] in 0..4
  input x4 : f32[S, 2, 5]
  input ids2 : i32[S, 4] in 0..70
  wp = param [600, 4, 2] init normal(1.0)
  w[i in 0..S, j, k] = wp[i, j, k]
  output y = scatter_add(x, ids, 300)
  output z = segment_max(v, ids, 300)
  output a = scatter_add(e, eids, 64)
  output b = segment_max(e, eids, 5)
  output c = scatter_add(f, fids, 4)
  output d = segment_sum(x4, ids, 300)
  g = segment_sum(w, ids2, 70)
  output g
  loss = sum(g * g)
  train loss with sgd(lr = 0.1)
}
END
"$FUSEC" verify shapes.dsl -D S=70 --target host,interp --quiet >log 2>&1 || fail "shapes: $(cat log)"

# a bounded axis may be any of those of the ids, and of the others; more axes than stay apart, and none
cat >any_axis.dsl <<'END'
dim S <= 9
model m {
  p = param [3, 9, 6] init normal(1.0)
  x[i, j in 0..S, k] = p[i, j, k]
  input ids : i32[3, S]
  input wide : f32[7, 3, S]
  input few : i32[7] in 0..5
  input square : f32[7, S, S]
  input deep : f32[2, 3, 1, 4, 5]
  input deep_ids : i32[2, 3, 1, 4] in 0..4
  a = segment_sum(x, ids, 7)
  output a
  output b = scatter_add(float(ids), ids, 7)
  output c = segment_sum(wide, few, 5)
  output d = segment_max(square, few, 5)
  output e = segment_max(x, ids, 7)
  output f = scatter_add(x[:, :, 0], ids, 7)
  output g = segment_sum(deep, deep_ids, 4)
  input far : f32[S, 2, 1, 3, 4]
  input far_ids : i32[S, 2, 1, 3] in 0..5
  output h = segment_sum(far, far_ids, 5)
  input hollow : f32[2, 3, 1, 4, 0]
  output k = segment_max(hollow, deep_ids, 4)
  by_hand[v in 0..7, k] = sum[i, j] x[i, j, k] * float(ids[i, j] == v)
  output same = max(abs(by_hand - a))
  loss = sum(a * a)
  train loss with sgd(lr = 0.1)
}
END
for s in 1 4 9; do
    "$FUSEC" verify any_axis.dsl --extent S=$s --target host,c99,interp --rounds=1 --quiet >log 2>&1 || fail "any axis, S=$s: $(cat log)"
done
exit $bad

# ids that are an output in another shape than they are computed in, and that buckets read
cat >shaped.dsl <<'END2'
model m {
    input a : i32[3840] in 0..60
    input b : i32[3840] in 0..60
    input x : f32[30, 128]
    ids = reshape(max(a, b), [30, 128])
    output o = ids
    output y = segment_max(x, ids, 60)
    output z = scatter_add(x, ids, 60)
}
END2
"$FUSEC" verify shaped.dsl --target $targets --rounds 1 --quiet >log 2>&1 || fail "ids that are an output: $(cat log)"
