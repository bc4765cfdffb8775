#!/bin/sh
# Images whose channels are not innermost: tensors inside get another order of dims.  Results, gradients and steps are those
# of the program's order, on the host and on the software GPU; convolutions are fetched in whole sectors.
. "$SRC/tests/support/script.sh"
needs_software_gpu

cat >images.dsl <<'END'
layer conv(x, f, stride) {                # [N, C, H, W]
    k = param [f, x.dim(1), 3, 3] init kaiming
    h = x.dim(2) / stride
    y[n, o, i in 0..h, j in 0..h] = sum[c, r, s] x[n, c, i*stride + r - 1, j*stride + s - 1] * k[o, c, r, s]
    return y
}
layer norm(x) {                           # over all but channels
    gain = param [x.dim(1)] init ones
    m[c] = sum[n, i, j] x[n, c, i, j] / (x.dim(0) * x.dim(2) * x.dim(3))
    d[n, c, i, j] = x[n, c, i, j] - m[c]
    v[c] = sum[n, i, j] d[n, c, i, j] * d[n, c, i, j] / (x.dim(0) * x.dim(2) * x.dim(3))
    y[n, c, i, j] = d[n, c, i, j] * rsqrt(v[c] + 0.001) * gain[c]
    return y
}
model images {
    x = param [2, 8, 12, 12] init normal(1.0)
    g = param [2, 24, 6, 6] init normal(1.0)
    a = relu(norm(conv(x, 16, 1) as first) as n1)
    b = a + conv(a, 16, 1) as second
    c = conv(b, 24, 2) as third
    d[n, o, i in 0..6, j in 0..6] = sum[r in 0..3, s in 0..3] c[n, o, i + r - 1, j + s - 1] * g[n, o, r, s]
    loss = mean(c * g) + mean(d^2)
    output a
    output c
    output loss
    train loss with momentum(lr = 0.01)
}
END
sed 's/^model images {/&\n    precision bf16/' images.dsl >low.dsl

# same MODEL TOLERANCE TARGET..: with the pass and without
same() {
    model=$1 tolerance=$2
    shift 2
    for entry in grad step; do
        for layout in '' -fno-layout; do
            # shellcheck disable=SC2086
            "$FUSEC" run $model.dsl --target "$@" $layout --verify --entry $entry --steps 2 --seed 5 \
                --outputs out$layout.safetensors >log 2>&1 || fail "$model on $*, $entry: $(cat log)"
            ! grep '^ptxsim' log || fail "$model on $*: findings"
        done
        "$BUILD/compare_safetensors" compare out.safetensors "" out-fno-layout.safetensors "$tolerance" || fail "$model on $*, $entry: other numbers"
    done
}
same images 0.0001 host
same images 0.0001 cuda
same low 0.02 cuda --arch sm_90a

# what there is to gain: no convolution moves much more than its threads ask for, and few factors come in pieces
"$FUSEC" low.dsl -o x.tile --target sm_80 --entry infer --print-after=physical_order | grep -q 'transpose' || fail 'nothing is in another order'
"$FUSEC" report low.dsl --target sm_80 --entry infer >with
"$FUSEC" report low.dsl --target sm_80 --entry infer -fno-layout >without
pieces=$(grep -c 'is fetched 2 bytes' with) before=$(grep -c 'is fetched 2 bytes' without)
[ "$pieces" = 0 ] && [ "$before" -gt 2 ] || { fail "$pieces factors come in pieces, $before in the program's order"; cat with without; }

# a single channel is no reason to have images innermost
printf 'model one {\n    input x : f32[64, 12, 12, 1]\n    output y = conv2d(x * 0.3, 4, 3) as c\n}\n' >one.dsl
! "$FUSEC" one.dsl -o x.tile --target host --entry infer --print-after=physical_order | grep 'transpose' || fail 'one channel'
exit $bad
