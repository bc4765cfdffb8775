# Equal maps and rows run in one launch: updates of all weights of one shape, the sums of their squares, what finishes slices.
# The numbers are those of launches of their own, bit for bit, on every executor that has a grid; what memory is held for it is small.
. "$SRC/tests/support/script.sh"

cat >deep.dsl <<'END'
dim B = 33, C = 40
model deep {
    x = param [B, C] init normal(1.0)
    repeat 5 as h { x = layernorm(x + gelu(linear(x, C) as fc)) as norm }
    loss = mean(x^2 * x)
    output loss
    train loss with adamw(lr = 0.01) CLIP
}
END
# a value that waits for all, of one kind for each: what is equal comes in groups that depend on each other
cat >groups.dsl <<'END'
dim N = 70, M = 300
model groups {
    a = param [N, M] init normal(1.0)
    b = param [N, M] init normal(1.0)
    c = param [N, M] init normal(1.0)
    d = param [N, M] init normal(1.0)
    s = exp(mean(a^2)) + exp(mean(b^2))
    t = exp(mean((c * s)^2)) + exp(mean((d * s)^2))
    loss = mean((a + b) * (c + d)) * t
    output loss
    train loss with adamw(lr = 0.01) CLIP
}
END

launches() { "$FUSEC" report "$1" --target "$2" --entry step ${3-} | sed -n 's/^entry step: \([0-9]*\) launches/\1/p'; }
arena() { "$FUSEC" report "$1" --target "$2" --entry step ${3-} | sed -n 's/^  arena //p'; }

# check MODEL CLIP EXECUTOR TARGET MOST [OPTION]: at most so many launches, fewer than without; the same new parameters
check() {
    what="$1 '$2' on $3 $4"
    sed "s/CLIP/$2/" "$1.dsl" >m.dsl
    together=$(launches m.dsl "$4") alone=$(launches m.dsl "$4" -fno-family)
    [ "$together" -le "$5" ] || fail "$what: $together launches, not $5"
    [ "$together" -lt "$alone" ] || fail "$what: $together launches, $alone without families"
    both_ways family m.dsl step $3 ${6-} || return
    cmp -s with.safetensors without.safetensors || fail "$what: other numbers"
}

for target in host interp; do
    check deep 'clip_norm 1.0' $target host 40
    check deep '' $target host 32
done
gpt2=$SRC/examples/gpt2/gpt2.dsl
for target in host sm_80 sm_90a; do
    n=$(launches "$gpt2" $target) most=320
    [ $target != sm_80 ] || most=332
    [ "$n" -le $most ] || fail "gpt2 on $target: $n launches a step"
    awk -v a="$(arena "$gpt2" $target)" -v b="$(arena "$gpt2" $target -fno-family)" 'BEGIN { exit !(a <= 1.01 * b) }' ||
        fail "gpt2 on $target: families take memory"
done
has_software_gpu || exit $bad
for arch in sm_80 sm_90a; do
    check deep 'clip_norm 1.0' cuda $arch 45 --arch=$arch
    check deep '' cuda $arch 37 --arch=$arch
    check groups 'clip_norm 1.0' cuda $arch 20 --arch=$arch
done
exit $bad
