#!/bin/sh
# The online rule of streams and their limits: what may be summed with reductions of the same dim, and what may not.  Judged by
# float64, and by the same program without fusion.
. "$SRC/tests/support/script.sh"
quick_c

# term NAME STREAMS TERM: tanh of the sum of TERM times v, made of p, what a softmax divides, and z, which it divides by
term() {
    name=$1
    {
        printf 'model m {\n    q = param [16, 131, 8] init normal(1.0)\n    v = param [16, 131, 8] init normal(1.0)\n'
        printf '    s = q @ transpose(q)\n    near = abs(iota(131, axis = 1, rank = 3) - iota(131, axis = 2, rank = 3)) < 50\n'
        printf '    p = exp(s - max(s, axis = -1, keep = true))\n    z = sum(p, axis = -1, keep = true)\n'
        printf '    output o = tanh((%s) @ v)\n}\n' "$3"
    } >$name.dsl
    [ "$(kernels host infer | grep -c stream)" = "$2" ] || fail "$name: streams: $(kernels host infer | tr '\n' ' ')"
    "$FUSEC" verify $name.dsl --target host,interp --entry infer --rounds 1 --quiet >log 2>&1 || fail "$name: $(cat log)"
}
term divided 1 'where(near, p / z, 0.0)'
term multiplied 1 'where(near, p * sqrt(z), 0.0)'
term twice_divided 1 'where(near, p / z / sqrt(z), 0.0)'
term not_a_factor 2 'where(near, tanh(p - 0.01 * z) / z, 0.0)'
term added 1 '(p + z) / z'

# a sum over rows and columns
name=sums
cat >sums.dsl <<'END2'
model m {
    q = param [16, 131, 8] init normal(1.0)
    v = param [16, 131, 8] init normal(1.0)
    s = q @ transpose(q)
    p = softmax(s)
    output o = tanh(p @ v)
    output total = tanh(sum(sum(s^2, axis = 2), axis = 1))
}
END2
! kernels host infer | grep -q contract || fail "sums over two dims keep the scores in memory: $(kernels host infer | tr '\n' ' ')"
"$FUSEC" verify sums.dsl --target host,interp --entry infer --rounds 1 --quiet >log 2>&1 || fail "sums: $(cat log)"

# Shifts that are no maximum of what is shifted: in parts of a row the exponential is not what it is in the end, infinite here.
shifted() { # NAME SHIFT
    # c is about 200
    name=$1
    {
        printf 'model m {\n    q = param [16, 131, 8] init normal(1.0)\n    v = param [16, 131, 8] init normal(1.0)\n'
        printf '    c = 0.001 * tanh(q @ transpose(q)) + 200.0\n    last = iota(131, axis = 2, rank = 3) == 130\n'
        printf '    output o = tanh(exp(c - (%s)) @ v)\n}\n' "$2"
    } >$name.dsl
    "$FUSEC" verify $name.dsl --target host,c99,interp --entry infer --rounds 1 --quiet >log 2>&1 || fail "$name: $(cat log)"
}
shifted mean 'mean(c, axis = -1, keep = true)'
shifted other 'max(where(last, c, 0.0), axis = -1, keep = true)'
shifted twice 'max(c, axis = -1, keep = true) + 0.5 * (max(where(last, c, 0.0), axis = -1, keep = true) - 200.0)'
shifted masked 'where(last, 0.0, max(c, axis = -1, keep = true))'
shifted half '0.5 * (max(c, axis = -1, keep = true) + 200.0)'

# scores that are all -inf up to some place: what is no number before it does not count after it; where there is no such place, it is
{
    printf 'model m {\n    q = param [16, 131, 8] init normal(1.0)\n    v = param [16, 131, 8] init normal(1.0)\n'
    printf '    at = iota(131, axis = 2, rank = 3)\n    row = iota(131, axis = 1, rank = 3)\n'
    printf '    s = where(at >= row * 2, q @ transpose(q), -inf)\n    p = exp(s - max(s, axis = -1, keep = true))\n'
    printf '    o = (p @ v) / sum(p, axis = -1, keep = true)\n    output n = where(o == o, tanh(o), 7.0)\n}\n'
} >late.dsl
name=late
[ "$(kernels host infer | grep -c stream)" = 1 ] || fail "late: not one stream"
for target in interp host c99; do
    for way in '' -fno-fuse; do
        "$FUSEC" run late.dsl --target $target $way --entry infer --seed 3 --outputs out$way.safetensors >log 2>&1 || fail "late, $target: $(cat log)"
    done
    "$BUILD/compare_safetensors" compare out.safetensors "" out-fno-fuse.safetensors 1e-5 >log 2>&1 || fail "late, $target: other numbers $(cat log)"
done

# columns of many dims
{
    printf 'model m {\n    q = param [16, 131, 8] init normal(1.0)\n    p = softmax(q @ transpose(q))\n'
    for x in a b c d e; do printf '    %s[h, i, c, d] = sum[j] p[h, i, j] * (param [16, 4, 131, 4] init normal(1.0) as v%s)[h, c, j, d]\n' $x $x; done
    printf '    output y = sum(a * b * c * d * e, axis = 0)\n}\n'
} >columns.dsl
name=columns
[ "$(kernels host infer | grep -c stream)" -gt 1 ] || fail "columns of more dims than a tensor has are of one stream"
"$FUSEC" verify columns.dsl --target host --entry infer --rounds 1 --quiet >log 2>&1 || fail "columns: $(cat log)"

# with nothing to gain, as without streams: little values, columns that do not stay in registers, values that something else reads
while read -r heads output; do
    {
        printf 'model m {\n    q = param [%s, 131, 8] init normal(1.0)\n    v = param [%s, 131, 300] init normal(1.0)\n' $heads $heads
        printf '    p = softmax(q @ transpose(q))\n    output o = %s\n}\n' "$output"
    } >apart.dsl
    name=apart
    [ "$(kernels host infer | grep -c stream)" = 0 ] || fail "streamed: $output of $heads heads"
done <<'END2'
4 tanh(p @ q)
16 tanh(p @ v)
16 p
END2
# more products than a kernel of all reductions has axes for, and than a kernel of one has
many() { # PRODUCTS
    name=many$1
    awk -v n="$1" 'BEGIN {
        print "model m {"
        for (i = 0; i < n; i++) printf "    q%d = param [5, 232, 4] init normal(1.0)\n", i
        print "    v = param [5, 232, 8] init normal(1.0)"
        for (i = 0; i < n; i++) printf "%stanh(q%d @ transpose(q%d))", i ? " + " : "    s = ", i, (i + 1) % n
        print "\n    output o = softmax(s) @ v\n}"
    }' >$name.dsl
    "$FUSEC" verify $name.dsl --target host --entry infer --rounds 1 --quiet >log 2>&1 || fail "$name: $(cat log)"
}
many 14
[ "$(kernels host infer | grep -c stream)" -gt 1 ] || fail "sums of 14 products are of one stream"
many 40
[ "$(kernels host infer | grep -c contract)" -gt 1 ] || fail "40 products are of one kernel"

# The backward of exp(x - m) / z: one number of each row is kept for it, and no element is divided.  With -fno-exponents two, and it is.
divisions() { # OPTION: of elements, in the kernels that make scores again
    "$FUSEC" logs.dsl -o m.tile --target sm_80 --entry grad $1 && awk '/^kernel/ { n = /_stream_/ && !/_stream_0/ } n && / = div .*\[.*s:/ { d++ } END { print d + 0 }' m.tile
}
kept() { "$FUSEC" report logs.dsl --target sm_80 --entry grad $1 | sed -n 's/.*saved for the backward \([0-9]*\).*/\1/p'; }
logs() { # NAME DIVISIONS NUMBERS WEIGHTS: of scores s; divisions by other than the sum, numbers of each row that are kept
    {
        printf 'model m {\n    q = param [4, 512, 32] init normal(1.0)\n    v = param [4, 512, 32] init normal(1.0)\n'
        printf '    s = where(causal(512), q @ transpose(v) * 0.2, -inf)\n'
        printf '    loss = mean(((%s) @ v)^2)\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n' "$4"
    } >logs.dsl
    [ "$(divisions '')" = "$2" ] && [ "$(divisions -fno-exponents)" -gt "$2" ] || fail "$1: $(divisions '') and $(divisions -fno-exponents) divisions of elements"
    [ "$(kept '')" -le $((4 * 512 * 4 * $3)) ] || fail "$1: $(kept '') bytes are kept, $(kept -fno-exponents) without"
    # rowsum(dP * P) is still rowsum(dO * O), in both precisions
    for low in f32 bf16; do
        sed "s/^model m {/model m {\n    precision $low/" logs.dsl >low.dsl
        n=$("$FUSEC" report low.dsl --target sm_80 --entry grad | grep -c '^  grad_stream_')
        [ "$n" -le "$("$FUSEC" report low.dsl --target sm_80 --entry grad -fno-exponents | grep -c '^  grad_stream_')" ] || fail "$1 in $low: $n streams"
    done
    sed -i 's/512/70/g' logs.dsl
    "$FUSEC" verify logs.dsl --target host,c99,interp --entry grad --rounds 1 --quiet >log 2>&1 || fail "$1: $(cat log)"
}
logs softmax 0 1 'softmax(s)'
logs dropped 5 2 'dropout(softmax(s), 0.1)'
logs base2 0 1 '2.0 ^ (s - max(s, axis = -1, keep = true)) / sum(2.0 ^ (s - max(s, axis = -1, keep = true)), axis = -1, keep = true)'
logs tempered 0 1 'exp(0.3 * (s - max(s, axis = -1, keep = true))) / sum(exp(0.3 * (s - max(s, axis = -1, keep = true))), axis = -1, keep = true)'
logs unshifted 0 1 'exp(s) / sum(exp(s), axis = -1, keep = true)'

# Two softmaxes whose products share a factor: what the backward computes of one's rows waits for a stream that makes the other's values.
shared() { # NAME LOSS: of products z and y
    name=$1
    {
        printf 'model m {\n    q = param [2, 131, 8] init normal(1.0)\n    w = param [2, 131, 8] init normal(1.0)\n    k = param [2, 131, 8] init normal(1.0)\n'
        printf '    z = q @ transpose(k)\n    y = w @ transpose(k)\n    a = %s\n' "$2"
        printf '    loss = mean((a @ w)^2)\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n'
    } >$name.dsl
    "$FUSEC" $name.dsl -o m.ptx --target sm_80 --entry grad >log 2>&1 && "$FUSEC" $name.dsl -o m.c --entry grad >log 2>&1 || fail "$name is not compiled: $(cat log)"
    "$FUSEC" verify $name.dsl --target host,interp --entry grad --rounds 1 --quiet >log 2>&1 || fail "$name: $(cat log)"
}
shared product 'softmax(z) * softmax(y)'
shared difference 'softmax(z) - 0.5 * softmax(y)'
shared again 'softmax(z) + softmax(z + q[:, :, 0:1] @ transpose(w[:, :, 1:2]))'
shared by_sign 'softmax(where(y > 0.0, z, -inf)) + softmax(z + y)'
exit $bad
