# Sums over the rows of what a product's kernel computes on a GPU, by matrix instructions or by threads, are taken in it, tile
# by tile, and finished by a small kernel, unless they are of a factor of a later product, whose kernel takes them whole: bias gradients of layers that follow one another, of whole tiles and of others, of
# values that are rounded and of such that are kept nowhere else.  The numbers are those of kernels of their own, and there
# are no findings.  Sums that another kernel reads again, or that would need another large tensor, stay apart.
. "$SRC/tests/support/script.sh"

cat >layers.dsl <<'END'
dim M = 512, W = 256
model layers {
    precision f32
    x = param [M, 128] init normal(1.0)
    h = gelu(linear(x, W) as a, form = "tanh")
    h = relu(linear(h, W) as b)
    loss = mean((linear(h, 128) as c)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >norms.dsl <<'END'
model norms {
    precision bf16
    x = param [2048, 256] init normal(1.0)
    h = layernorm(tanh(x)) as norm
    loss = mean((linear(h, 256) as a)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END

# sums FILE BY: sums of tiles that are stored by kernels whose products are written so
sums() { awk -v by="$2" '/^kernel/ { n = 0 } $0 ~ " dot .*" by { n = 1 } /store .*\[@/ && n { sums++ } END { print sums + 0 }' "$1"; }

run() { # OUT TARGET OPTIONS
    out=$1; shift
    PTXSIM_SEED=7 "$FUSEC" run m.dsl --entry grad --seed 3 --outputs "$out" --target "$@" $sizes >log 2>&1 ||
        { fail "$what: $(cat log)"; return 1; }
    ! grep -q '^ptxsim' log || fail "$what: $(cat log)"
}

# check PRECISION BY ARCH OPTIONS: three biases.  What is multiplied in f32 is summed by the product that reads it, what is rounded before
# by the one that makes it.
check() {
    precision=$1 by=$2 arch=$3 tiles=3
    [ $precision != f32 ] || tiles=0
    shift 3
    sizes=$*
    what="layers in $precision for $arch $sizes"
    sed "s/precision f32/precision $precision/" layers.dsl >m.dsl
    "$FUSEC" m.dsl -o m.tile --target $arch --entry grad --verify $sizes || { fail "$what: not compiled"; return; }
    found=$(sums m.tile "$by")
    [ "$found" = "$tiles" ] || fail "$what: $found sums of tiles, not $tiles"
    found=$("$FUSEC" report m.dsl --target $arch --entry grad $sizes | sed -n 's/.*, with \([0-9]*\) sums* over a factor.*/\1/p' | awk '{ n += $1 } END { print n + 0 }')
    [ "$found" = $((3 - tiles)) ] || fail "$what: $found sums over factors, not $((3 - tiles))"
    run alone.safetensors host -fno-fuse || return
    run together.safetensors cuda --arch $arch || return
    [ $precision = f32 ] && tolerance=1e-5 || tolerance=0.01
    "$BUILD/compare_safetensors" compare alone.safetensors "" together.safetensors $tolerance || fail "$what: other numbers"
}

sed "s/precision f32/precision bf16/" layers.dsl >m.dsl
"$FUSEC" report m.dsl --target sm_80 --entry grad | grep -q ', with 1 sum over its tiles' || fail "no sum over tiles is reported"
for target in host; do
    "$FUSEC" m.dsl -o m.tile --target $target --entry grad || fail "layers for $target: not compiled"
    [ "$(sums m.tile .)" = 0 ] || fail "layers for $target: sums of tiles without matrix instructions"
done
"$FUSEC" norms.dsl -o m.tile --target sm_80 --entry grad
[ "$(sums m.tile 'by mma')" = 1 ] || fail "norms: the bias alone is summed in a product's kernel"
launches=$("$FUSEC" report "$SRC/examples/gpt2/gpt2.dsl" --target sm_80 --entry step | sed -n 's/^entry step: \([0-9]*\) launches/\1/p')
[ "${launches:-999}" -le 320 ] || fail "GPT-2's step takes $launches launches"
# one block of it, whose last sum over rows waits for no kernel: what is computed again behind it does not wait for that
sed '/^model gpt2/,$d' "$SRC/examples/gpt2/gpt2.dsl" >block.dsl
cat >>block.dsl <<'END'
model block {
    input u : f32[B, T, C]
    x = param [B, T, C] init normal(1.0)
    loss = sum((block(x) as h) * u)
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" report block.dsl --target sm_80 --entry grad >log || die "no report of a block"
[ "$(grep -c ', with 3 sums over its tiles' log)" = 1 ] || fail "a norm's gradients are not in one kernel: $(grep row log)"
# a mean is summed in the kernel of the product whose values are normalised, although their variance reads them once more; where the
# other sum does not wait for it, both read them together.  A convolution by one point is such a product.
cat >points.dsl <<'END'
model points {
    input x : f32[4, 32, 16, 64]
    y = relu(batchnorm(conv2d(x, 64, 1, bias = false) as conv) as norm)
    loss = mean(y^2)
    output loss
    train loss with momentum(lr = 0.1)
}
END
cat >two.dsl <<'END'
model two {
    input x : f32[2048, 64]
    input g : f32[2048, 64]
    y = x @ (param [64, 64] init normal(0.1) as w)
    output a = sum(y, axis = 0)
    output b = sum(y * g, axis = 0)
}
END
"$FUSEC" report points.dsl --target sm_80 --entry step >log && grep -q 'contract_0 .*with 1 sum over its tiles' log || fail "points: $(cat log)"
"$FUSEC" report two.dsl --target sm_80 --entry infer >log && ! grep -q 'contract_0 .*over its tiles' log || fail "two: $(cat log)"
has_software_gpu || exit $bad
for model in points two; do
    "$FUSEC" verify $model.dsl --target cuda --rounds 1 --quiet >log 2>&1 || fail "$model: $(cat log)"
done
check f32 "over k : f32" sm_80
check f32 "over k : f32" sm_90 -D M=500 -D W=200
check bf16 "by mma" sm_80
check tf32 "by mma" sm_80
check bf16 "by wgmma" sm_90a
check f16 "by wgmma" sm_90a
check tf32 "by wgmma" sm_90a
check f16 "by mma" sm_80 -D M=500 -D W=200
check bf16 "by wgmma" sm_90a -D M=500 -D W=200
exit $bad
