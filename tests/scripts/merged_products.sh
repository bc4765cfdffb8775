# Products of one factor run in one kernel: q, k and v, and the gradients of their weights, on every executor and in the
# instructions of each precision.  The numbers are those of kernels of their own, to what the order of sums allows, and
# there are no findings; so are those of which the second factor is shared.  Products that are added go on in one
# another's accumulators, whatever multiplies.
. "$SRC/tests/support/script.sh"

cat >attention.dsl <<'END'
dim T = 64, C = 64
model attention {
    precision f32
    x = param [T, C] init normal(1.0)
    g = param [T, C] init normal(1.0)
    q = linear(x, C) as q
    k = linear(x, C) as k
    v = linear(x, C) as v
    p = softmax(q @ transpose(k) * 0.1)
    loss = mean((p @ v) * g)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >turned.dsl <<'END'
dim T = 48, C = 64
model turned {
    precision f32
    x = param [C, T] init normal(1.0)
    a = param [C, C] init normal(0.1)
    b = param [C, C] init normal(0.1)
    loss = mean(tanh((a @ x) @ transpose(b @ x)))
    output loss
    train loss with sgd(lr = 0.1)
}
END

cat >chain.dsl <<'END'
dim T = 64, C = 64
model chain {
    precision f32
    x = param [T, C] init normal(1.0)
    h = tanh(linear(x, C) as up)
    q = linear(h, C) as q
    k = linear(h, C) as k
    v = linear(h, 2 * C) as v
    p = softmax(q @ transpose(k) * 0.1)
    loss = mean((p @ v)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END

run() { # OUT TARGET OPTIONS
    out=$1; shift
    PTXSIM_SEED=5 "$FUSEC" run m.dsl --entry grad --seed 3 --outputs "$out" --target "$@" >log 2>&1 ||
        { fail "$what: $(cat log)"; return 1; }
    ! grep -q '^ptxsim' log || fail "$what: $(cat log)"
}

# check MODEL PRECISION FAMILIES INSTRUCTION TARGET OPTIONS: so many kernels have several members, and their products are
# by that instruction
check() {
    model=$1 precision=$2 families=$3 by=$4 target=$5
    shift 5
    what="$model $precision on $target $*"
    sed "s/precision f32/precision $precision/" "$model.dsl" >m.dsl
    run alone.safetensors host -fno-family || return
    arch=
    [ $target != cuda ] || arch=$1
    "$FUSEC" m.dsl -o m.tile --target "${arch:-host}" --entry grad || { fail "$what: not compiled"; return; }
    found=$(awk '/^kernel/ { family = 0 } / family$/ { family = 1 } / dot .*'"$by"'/ && family { n++ } END { print n + 0 }' m.tile)
    [ "$found" = "$families" ] || fail "$what: $found products of a family, not $families"
    run together.safetensors $target ${arch:+--arch $arch} || return
    "$BUILD/compare_safetensors" compare alone.safetensors "" together.safetensors 0.01 || fail "$what: other numbers"
}

# chain PRECISION INSTRUCTION TARGET: three products into one result, each in a loop of its own by that instruction
chain() {
    precision=$1 by=$2 target=$3
    what="chain $precision on $target ${4-}"
    sed "s/precision f32/precision $precision/" chain.dsl >m.dsl
    run alone.safetensors host -fno-fuse || return
    "$FUSEC" report m.dsl --target "${4:-$target}" --entry grad | grep -q '3 products added up' || fail "$what: no products are added up"
    "$FUSEC" m.dsl -o m.tile --target "${4:-$target}" --entry grad || { fail "$what: not compiled"; return; }
    awk '/^kernel/ { n = 0 } /^ *%.* dot .*'"$by"'/ { n++ } n == 3 { found = 1 } END { exit !found }' m.tile || fail "$what: not $by"
    run together.safetensors $target ${4:+--arch $4} || return
    "$BUILD/compare_safetensors" compare alone.safetensors "" together.safetensors 0.01 || fail "$what: other numbers"
}

# In as many programs as one product has, the sums of three follow one another: with few tiles kernels of their own are faster.
sed 's/precision f32/precision bf16/' chain.dsl >m.dsl
for rows in 4096 16384; do
    sums=$("$FUSEC" report m.dsl -D T=$rows -D C=1024 --target sm_80 --entry grad | grep -c '3 products added up')
    [ $sums = $((rows / 16384)) ] || fail "$rows rows: $sums sums of three products"
done

check attention f32 2 'over k' host
chain f32 'over k' host
chain bf16 'over k' host
check attention f32 2 'over k' interp
check turned f32 2 'over k' host
has_software_gpu || exit $bad
check attention f32 2 'over k' cuda sm_80
check attention bf16 2 'by mma' cuda sm_80
check attention tf32 2 'by mma' cuda sm_80
check attention bf16 2 'by wgmma' cuda sm_90a
check turned bf16 2 'by mma' cuda sm_80
chain f32 'over k' cuda sm_80
chain tf32 'by mma' cuda sm_80
chain bf16 'by mma' cuda sm_80
chain f16 'by wgmma' cuda sm_90a
chain bf16 'by wgmma' cuda sm_90a
# blocks that stay, in clusters: a ring that goes on from loop to loop and from program to program
cat >chain.dsl <<'END'
model chain {
    precision f32
    x = param [4096, 1024] init normal(1.0)
    h = tanh(x)
    q = linear(h, 64) as q
    k = linear(h, 64) as k
    v = linear(h, 128) as v
    loss = sum(tanh(q) * tanh(k)) + sum(tanh(v))
    output loss
    train loss with sgd(lr = 0.1)
}
END
chain bf16 'by wgmma' cuda sm_90a
awk '/^kernel/ { n = stays = 0 } / persistent/ { stays = 1 } / cluster 2/ { stays *= 2 } / dot / { n++ } n == 3 && stays == 2 { found = 1 } END { exit !found }' m.tile ||
    fail "no sum of three products by blocks that stay, in clusters"
exit $bad
