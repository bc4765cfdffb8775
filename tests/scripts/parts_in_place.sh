# What is put together for products to read is written by the kernels of its parts, in place: no copy, no choice among parts, and
# of a chain of concatenations one buffer.  The numbers are those of other executors.
. "$SRC/tests/support/script.sh"
quick_c

cat >dense.dsl <<'END'
model dense {
    x = param [8, 16] init normal(1.0)
    h = x
    repeat 6 as u { h = concat(h, relu(linear(h, 8) as l), axis = -1) }
    loss = mean((linear(h, 1) as head)^2)
    output loss
    train loss with sgd(lr = hyper 0.1)
}
END
sed 's/axis = -1/axis = 1/; s/linear(h, 8)/linear(h, 7)/' dense.dsl >odd.dsl
cat >merge.dsl <<'END'
model merge {
    x = param [2, 8, 8, 4] init normal(1.0)
    skip = relu(conv2d(x, 8, 3) as down)
    up = conv_transpose2d(max_pool2d(skip, 2), 8, 2, stride = 2) as grow
    rows = concat(skip, skip * 2, axis = 0)
    output y = conv2d(concat(up, skip, axis = -1), 4, 3) as out
    output z = conv2d(rows, 4, 3) as other
    output kept = skip
    loss = mean(y^2) + mean(z^2)
    output loss
    train loss with sgd(lr = hyper 0.1)
}
END

# Only x is copied, once, and each concatenation is a beginning of the last one's memory.
for target in host c99 sm_80; do
    "$FUSEC" dense.dsl -o d.tile --target=$target --entry=infer --print-after=place >all.txt || die "dense: $target"
    sed -n '/entry infer/,/^# after/p' all.txt >plan.txt
    [ "$(grep -c '^  k' plan.txt)" = 9 ] || fail "dense, $target: $(grep -c '^  k' plan.txt) kernels, not 9"
    [ "$(grep -c ' in %' plan.txt)" = 7 ] || fail "dense, $target: $(grep -c ' in %' plan.txt) parts in place, not 7"
    at=$(sed -nE 's/^  %.* in %.* at ([0-9]+)$/\1/p' plan.txt | sort -n | tr '\n' ' ')
    [ "$at" = "0 64 96 128 160 192 224 " ] || fail "dense, $target: parts at $at"
    ! grep -q select d.tile || grep select d.tile | grep -qv 'gt\|lt' || fail "dense, $target: chosen among parts"
done
# Rows of 7 floats are no place for accesses of 16 bytes.
"$FUSEC" odd.dsl -o d.tile --target=sm_80 --entry=infer --print-after=place | grep -q ' in %' && fail "odd: in place on a GPU"
"$FUSEC" odd.dsl -o d.tile --entry=infer --print-after=place | grep -q ' in %' || fail "odd: not in place on the host"

executors="host c99"
has_software_gpu && executors="$executors cuda"
for m in dense odd merge; do
    for entry in grad step; do
        "$FUSEC" run $m.dsl --entry=$entry --target=interp --verify --outputs=ref || die "$m: interp"
        for t in $executors; do
            "$FUSEC" run $m.dsl --entry=$entry --target=$t --verify --outputs=out || die "$m: $t"
            "$BUILD/compare_safetensors" compare ref "" out 1e-5 || fail "$m, $entry, $t: differs"
        done
        "$FUSEC" run $m.dsl --entry=$entry --checkpoint=sqrt --verify --outputs=out || die "$m: checkpoint"
        "$BUILD/compare_safetensors" compare ref "" out 1e-5 || fail "$m, $entry: differs with checkpoints"
    done
done
exit $bad
