# Scores that are only reduced over one of their dims are never in memory, forward or backward, however attention is written:
# masked, shifted, in base 2, without a maximum, normalized by the user, the other way round, by indices, with grouped heads.  There
# is one kernel forward and no product apart.  Numbers are those of float64, on every executor; odd extents fill no tile.
#
# Each model's gradients are checked on this machine and on one executor more or none, by turns, of a batch of one on that one alone, two of
# eight; a sixth's values alone, and a third of those in low precision; STREAMS_ALL=1, as in ./dev fuzz: all of them on all.
. "$SRC/tests/support/script.sh"
quick_c

# model NAME: on stdin what leads from q, k and v to o
model() {
    {
        printf 'let T = 131\nlet H = 16\nmodel m {\n'
        for x in q k v; do printf '    %s = param [H, T, 8] init normal(1.0)\n' $x; done
        cat
        printf '    output o\n    loss = mean(o^2)\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n'
        cat <<'LIB'
fn scores(q, k) {
    return 0.35 * (q @ transpose(k))
}
fn behind() {
    return iota(T, axis = 1, rank = 3) - iota(T, axis = 2, rank = 3)
}
LIB
    } >"$1.dsl"
    echo "$1" >>names # a pipe's model is written by a shell of its own
}

echo '    o = softmax(scores(q, k)) @ v' | model plain
echo '    o = softmax(where(behind() >= 0, scores(q, k), -inf)) @ v' | model causal
echo '    o = softmax(where(behind() >= 1, scores(q, k), -inf)) @ v' | model nothing_seen # by row 0
echo '    o = softmax(where(behind() >= 0, scores(q, k), -1e9)) @ v' | model filled
echo '    o = softmax(where(behind() >= 0 and behind() < 40, scores(q, k), -inf)) @ v' | model sliding
echo '    o = softmax(30.0 * tanh(scores(q, k) / 30.0)) @ v' | model soft_cap
echo '    o = softmax(scores(q, k) - 0.1 * float(behind())) @ v' | model alibi
echo '    o = dropout(softmax(scores(q, k)), 0.1) @ v' | model dropped
model base2 <<'END2'
    t = scores(q, k) * 1.44269504
    p = 2.0 ^ (t - max(t, axis = -1, keep = true))
    o = (p @ v) / sum(p, axis = -1, keep = true)
END2
model unshifted <<'END2'
    p = exp(scores(q, k))
    o = (p @ v) / sum(p, axis = -1, keep = true)
END2
model normalized <<'END2'
    s = scores(q, k)
    p = exp(s - max(s, axis = -1, keep = true))
    w = p / sum(p, axis = -1, keep = true)
    o = w @ v
END2
model reordered <<'END2'
    s = k @ transpose(q) * 0.35
    p = exp(s - max(s, axis = 1, keep = true))
    o = transpose(p / sum(p, axis = 1, keep = true)) @ v
END2
model indexed <<'END2'
    s[h, i, j] = sum[d] q[h, i, d] * k[h, j, d] * 0.35
    m[h, i] = max[j] s[h, i, j]
    e[h, i, j] = exp(s[h, i, j] - m[h, i])
    z[h, i] = sum[j] e[h, i, j]
    o[h, i, d] = (sum[j] e[h, i, j] * v[h, j, d]) / z[h, i]
END2
model padded <<'END2'
    input here : f32[H, T]
    o = softmax(where(reshape(here, [H, 1, T]) > 0.0, scores(q, k), -inf)) @ v
END2
model grouped <<'END2'
    kk = param [4, T, 8] init normal(1.0)
    s = 0.35 * (reshape(q, [4, 4, T, 8]) @ transpose(reshape(kk, [4, 1, T, 8])))
    o = reshape(softmax(s) @ reshape(kk, [4, 1, T, 8]), [H, T, 8]) + k + v
END2
# with masks of indices, which are the same for all heads of a group
while read -r name masked; do
    model grouped_$name <<END2
    kk = param [4, T, 8] init normal(1.0)
    i = iota(T, axis = 0, rank = 2)
    j = iota(T, axis = 1, rank = 2)
    s = 0.35 * (reshape(q, [4, 4, T, 8]) @ transpose(reshape(kk, [4, 1, T, 8])))
    o = reshape(softmax($masked) @ reshape(kk, [4, 1, T, 8]), [H, T, 8]) + k + v
END2
done <<'END2'
causal where(causal(T), s, -1e9)
sliding where(j <= i and i - j < 40, s, -inf)
alibi where(causal(T), 30.0 * tanh(s / 30.0) - 0.1 * float(i - j), -inf)
END2
model biased <<'END2'
    b = param [T, T] init normal(1.0)
    o = softmax(scores(q, k) + b) @ v
END2
model tempered <<'END2'
    t = param [1] init ones
    o = softmax(scores(q, k) * t[0]) @ v
END2
model square <<'END2' # both factors of products are as large as the scores
    w = param [H, T, T] init normal(1.0)
    p = softmax(scores(q, k))
    o = p @ w + w @ p + mean(v)
END2
model logs <<'END2'
    o = logsumexp(scores(q, k), axis = -1) + v[:, :, 0]
END2
model least <<'END2'
    s = scores(q, k)
    p = exp(min(s, axis = -1, keep = true) - s)
    o = (p @ v) / sum(p, axis = -1, keep = true)
END2
model placed <<'END2' # scores by what stands there and by where it stands
    at = param [H, T, 8] init normal(1.0)
    r = param [H, T, 8] init normal(1.0)
    o = softmax(scores(q, k) + scores(at, r)) @ v
END2
model two_values <<'END2'
    w = param [H, T, 8] init normal(1.0)
    p = softmax(scores(q, k))
    o = (p @ v) * tanh(p @ w)
END2

turn=0
checked() { # of $name: its kernels, and its numbers on some executors
    for target in host c99 sm_80; do
        [ $name = square ] || [ "$(kernels $target infer | grep -c stream)" = 1 ] || fail "$name on $target: not one stream, $(kernels $target infer | tr '\n' ' ')"
        [ $name = square ] || ! kernels $target grad | grep -q contract || fail "$name on $target: a product apart, $(kernels $target grad | tr '\n' ' ')"
    done
    turn=$((turn + 1))
    case ${STREAMS_ALL:+4}$((turn % 4)) in 0) more=,c99 ;; 1) more=,interp ;; 2) more=,cuda ;; 3) more= ;; *) more=,c99,interp,cuda ;; esac
    has_software_gpu || more=,c99,interp
    targets=host$more
    case ${STREAMS_ALL:-}$name$more in *_1H,* | *_H1,*) targets=${more#,} ;; esac
    : >log
    [ -z "${STREAMS_ALL:-}" ] && [ $((turn % 6)) != 0 ] ||
        "$FUSEC" verify $name.dsl --target host --entry infer --rounds 1 --quiet >log 2>&1 || fail "$name: $(cat log)"
    "$FUSEC" verify $name.dsl --target $targets --entry grad --rounds 1 --quiet >>log 2>&1 || fail "$name, gradients: $(cat log)"
    ! grep -q ' 0 elements' log || fail "$name: nothing compared"
}
for name in $(cat names); do checked; done
[ $turn = 25 ] || fail "$turn models of 25"

# A batch of one, one head: products read it at one place, along no loop.
for of in plain causal alibi base2; do
    for shape in '1, H' 'H, 1'; do
        name=${of}_$(echo "$shape" | tr -d ', ')
        sed "s/\[H, T, 8\]/[$shape, T, 8]/; s/axis = 2, rank = 3/axis = 3, rank = 4/; s/axis = 1, rank = 3/axis = 2, rank = 4/" $of.dsl >$name.dsl
        case ${STREAMS_ALL:+all}$name in all* | plain_1H | causal_H1) checked ;; esac
    done
done

# Products of 16 bits are multiplied by matrix instructions.  Columns of 5, 8 and 80 fill no tile of theirs, rows of 5 no word.
low() { # NAME PRECISION DEPTH T H
    sed "s/^let T = 131/let T = $4/; s/^let H = 16/let H = $5/; s/T, 8\]/T, $3]/; s/^model m {/&\n    precision $2/" $1.dsl >low.dsl
    name=low
    [ "$(kernels sm_80 infer | grep -c stream)" = 1 ] || fail "$1 in $2: not one stream"
    ! kernels sm_80 grad | grep -q contract || fail "$1 in $2: a product apart"
    ! grep -q 'stream.*by threads' out || fail "$1 in $2, by threads: $(grep 'by threads' out)"
    low_turn=$((${low_turn:-0} + 1))
    [ -z "${STREAMS_ALL:-}" ] && [ $((low_turn % 3)) != 1 ] && return
    ! has_software_gpu || "$FUSEC" verify low.dsl --target cuda --entry grad --rounds 1 --quiet >log 2>&1 || fail "$1 in $2: $(cat log)"
}
low plain f16 8 197 16
low causal bf16 80 400 4
low nothing_seen bf16 8 197 16
low sliding f16 5 197 16
low dropped bf16 8 197 16
low grouped f16 8 197 16
low padded bf16 8 197 16
low logs f16 8 197 16
low placed bf16 8 197 16
low two_values f16 8 197 16
low base2 bf16 8 197 16
low causal_1H bf16 8 197 16
low causal_H1 f16 8 197 16
# heads between rows and columns, as tensors of [batch, time, head, depth] have them
sed -n '1,3p' plain.dsl >between.dsl
cat >>between.dsl <<'END2'
    q = param [T, H, 8] init normal(1.0)
    k = param [T, H, 8] init normal(1.0)
    v = param [T, H, 8] init normal(1.0)
    s[i, h, j] = sum[d] q[i, h, d] * k[j, h, d]
    p = softmax(0.35 * s)
    o[i, h, d] = sum[j] p[i, h, j] * v[j, h, d]
    loss = mean(o^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END2
low between bf16 8 197 16
# Results that are outputs: alone, read by more, and gradients as outputs.
for kind in param input; do
    for name in q k v w; do
        [ $kind = param ] && echo "    $name = param [8, 300, 16] init normal(1.0)" || echo "    input $name : f32[8, 300, 16]"
    done >$kind.in
done
for kind in param input; do
    { echo "model m {"; cat $kind.in; echo '    o = softmax(where(causal(300), q @ transpose(k) * 0.25, -inf)) @ v'; echo '    output o'; } >$kind.dsl
done
{ cat input.dsl; echo "}"; } >alone.dsl
{ cat input.dsl; for x in q k v; do echo "    output d$x = vjp(o, $x, w)"; done; echo "}"; } >given.dsl
{ cat param.dsl; echo '    loss = sum(o * w)'; echo '    output loss'; echo '    train loss with sgd(lr = 0.1)'; echo "}"; } >trained.dsl
for case in 'alone infer' 'given infer' 'trained grad'; do
    set -- $case
    name=$1
    for target in host c99 sm_80; do
        ! kernels $target $2 | grep -q contract || fail "outputs, $1 on $target: a product apart, $(kernels $target $2 | tr '\n' ' ')"
        [ $1 != alone ] || [ "$(kernels $target infer | tr '\n' ' ')" = 'stream ' ] || fail "outputs, $1 on $target: not one kernel"
    done
    targets=host
    ! has_software_gpu || targets=host,cuda
    "$FUSEC" verify $1.dsl --target $targets --rounds 1 --quiet >log 2>&1 || fail "outputs, $1: $(cat log)"
done
# of factors whose rows shared memory has no room for there are kernels of their own
sed "s/^let T = 131/let T = 1024/; s/T, 8\]/T, 160]/; s/^model m {/&\n    precision bf16/" plain.dsl >wide.dsl
name=wide
! kernels sm_80 grad | grep -q stream || fail "rows of 160 in a stream: $(kernels sm_80 grad | tr '\n' ' ')"
# Memory grows with the rows, heads and batches, not with their squares, whichever of them are one.
cat >grows.dsl <<'END'
dim B = 1, H = 1, T = 512
model m {
    q = param [B, H, T, 32] init normal(1.0)
    k = param [B, H, T, 32] init normal(1.0)
    v = param [B, H, T, 32] init normal(1.0)
    w = param [B, H, T, 32] init normal(1.0)
    loss = sum(softmax(where(causal(T), q @ transpose(k) * 0.25, -inf)) @ v * w)
    output loss
    train loss with sgd(lr = 0.1)
}
END
arena() { "$FUSEC" report grows.dsl --target "$1" --entry $2 -D B=$3 -D H=$4 -D T=$5 | sed -n 's/^  arena //p'; }
for target in host c99 sm_80 sm_90a; do
    for of in '1 1' '1 3' '2 1' '2 3'; do
        for T in 640 2048; do
            set -- $of
            bytes=$(arena $target grad $1 $2 $T)
            # the output, its rows' sums and what the loss sums
            [ "$bytes" -le $(($1 * $2 * T * 32 * 4 * 5 / 4 + 4096)) ] || fail "attention of $1 x $2 x $T on $target: $bytes bytes of arena"
        done
    done
done
# Values that a product reads which is one itself, and a sum as well, are not multiplied again for each of that one's elements.
cat >nested.dsl <<'END'
model nested {
    input x : f32[8192, 8]
    a = tanh(x @ (param [8, 256] init normal(0.3) as wa))
    s = a @ (param [256, 1024] init normal(0.1) as wb)
    loss = mean(logsumexp(s)) + mean(logsumexp(a))
    output loss
    train loss with sgd(lr = 0.1)
}
END
for target in host c99 sm_80; do
    "$FUSEC" nested.dsl --target=$target --entry=infer -o nested.tile || fail "nested on $target"
    awk '/ = for / { if (++depth > most) most = depth } /^ *}/ { depth-- } END { exit !(most > 0 && most <= 2) }' nested.tile ||
        fail "nested on $target: a product in the loops of another, in those of a third"
done

# On a processor the gradients are one kernel where there are programs for its cores without the rows: their tiles take turns in
# adding to what sums over them, and a mask shortens the loop within as it does a program's.  What waits for a sum over the whole row
# (of weights without a shift) is not of that kernel.
turns() { # HEADS TARGET KERNELS: of plain and causal attention, and of one that waits
    for name in plain causal; do
        sed "s/^let H = .*/let H = $1/; s/^let T = .*/let T = 400/" $name.dsl >turns.dsl
        "$FUSEC" turns.dsl --target=$2 --entry=grad -o turns.tile || fail "turns, $name"
        [ "$(grep -c '^kernel.*stream' turns.tile)" = $3 ] || fail "turns, $name of $1 heads on $2: $(grep -c '^kernel.*stream' turns.tile) streams, not $3"
        [ $3 = 3 ] || [ $name = plain ] || grep -q 'for s from [0-9*]*@j ' turns.tile || fail "turns, causal on $2: all columns for each tile of rows"
    done
}
turns 16 host 2
turns 12 host 2
turns 2 host 3
turns 16 c99 2
turns 16 sm_80 3
cat >waits.dsl <<'END2'
model m {
    x = param [8, 200, 4] init normal(1.0)
    w = param [8, 4, 200] init normal(1.0)
    v = param [8, 200, 8] init normal(1.0)
    e = exp(tanh(x @ w))
    loss = sum(tanh((e / sum(e, axis = 2, keep = true)) @ v)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END2
"$FUSEC" verify waits.dsl --target host,c99 --rounds 1 --quiet >log 2>&1 || fail "waits: $(cat log)"
"$FUSEC" waits.dsl --target=host --entry=grad -o waits.tile || fail "waits is not compiled"
grep -q stream waits.tile || fail "waits: no stream"
# rows of a stream are those of its products, whose columns it walks: the tiles are matrices, not vectors by matrices
cat >bilinear.dsl <<'END2'
model m {
    x = param [512, 64] init normal(1.0)
    b = param [64, 64, 32] init normal(0.1)
    y[n, k] = sum[i, j] x[n, i] * b[i, j, k] * x[n, j]
    output y
}
END2
"$FUSEC" bilinear.dsl --target=host --entry=infer -o bilinear.tile || fail "bilinear is not compiled"
grep -q 'stream' bilinear.tile && grep -q 'dot .* by blocks' bilinear.tile || fail "bilinear: $(grep 'kernel\|dot' bilinear.tile)"
# rows and columns are one tensor; both gradients are of it
cat >same.dsl <<'END2'
model m {
    x = param [8, 200, 8] init normal(1.0)
    y = param [8, 200, 8] init normal(1.0)
    loss = mean((softmax(0.35 * (x @ transpose(x))) @ y)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END2
"$FUSEC" report same.dsl --target host --entry grad >log 2>&1 && grep -q 'stream.*, with 1 product over its rows, in turn' log || fail "same: $(cat log)"
"$FUSEC" verify same.dsl --target host,c99,interp --rounds 1 --quiet >log 2>&1 || fail "same: $(cat log)"

echo "streams programs $turn wrong $bad"
exit $bad
