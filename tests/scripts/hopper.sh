# Products in low precision for sm_90a, forward and backward, on the software GPU: the numbers are the host's, to what the
# order of sums allows, there are no findings, wgmma is what multiplies; and ptxas (where present) has nothing to say of
# spills, of wgmma that it serialises or of setmaxnreg that it ignores.
. "$SRC/tests/support/script.sh"
needs_software_gpu

# assembles WHAT: m.ptx, where there is an assembler
assembles() { ! command -v ptxas >/dev/null || assembled m.ptx sm_90a "$1"; }

# check MODEL PRECISION WGMMA -D..: of bench/gpu/low; at least so many of its products by wgmma
check() {
    model=$1 precision=$2 least=$3
    shift 3
    sed "s/precision bf16/precision $precision/" "$SRC/bench/gpu/low/$model.dsl" >m.dsl
    what="$model $precision $*"
    "$FUSEC" m.dsl "$@" -o m.ptx --target sm_90a --entry grad || { fail "$what: not compiled"; return; }
    found=$("$FUSEC" m.dsl "$@" -o m.tile --target sm_90a --entry grad && grep -c 'by wgmma' m.tile)
    [ "${found:-0}" -ge "$least" ] || fail "$what: $found products by wgmma, not $least"
    for target in host cuda; do
        arch=
        [ $target = host ] || arch='--arch sm_90a'
        # shellcheck disable=SC2086
        PTXSIM_SEED=7 "$FUSEC" run m.dsl "$@" --target $target $arch --entry grad --seed 3 \
            --outputs $target.safetensors >log 2>&1 || { fail "$what on $target: $(cat log)"; return; }
        ! grep -q '^ptxsim' log || fail "$what: $(cat log)"
    done
    "$BUILD/compare_safetensors" compare host.safetensors "" cuda.safetensors 0.005 || fail "$what: other numbers"
    case $model in
    image | deep | signal) grep -q '\.im2col' m.ptx || fail "$what: no copy of a window" ;;
    esac
    assembles "$what"
}

cat >layer.dsl <<'END'
dim M = 8192, N = 3072, K = 768
model layer {
    precision bf16
    x = param [M, K] init normal(1.0)
    output y = ACTIVATION(linear(x, N) as first)
}
END
# schedule TEXT ACTIVATION K: who multiplies, by the report
schedule() {
    sed "s/ACTIVATION/$2/" layer.dsl >m.dsl
    "$FUSEC" report m.dsl -D K=$3 --target sm_90a --entry infer >report || { fail "layer $2 $3"; return; }
    grep -q "$1" report || fail "$2 after a sum of $3 is not multiplied '$1': $(grep wgmma report)"
}
# Much to do after a short sum: two groups by turns.  After a long one, or with nothing to do: all warps on one tile.
schedule ' by wgmma 128x128 by turns,' gelu 768
"$FUSEC" m.dsl -o m.tile --target sm_90a --entry infer && "$FUSEC" m.dsl -o m.ptx --target sm_90a --entry infer
grep -q '^  threads 128 alternate 2 producer 128 registers 232:40 persistent dependent$' m.tile || fail "not by turns: $(grep threads m.tile)"
grep -q 'mapa\.shared::cluster' m.ptx || fail 'the layer has no clusters'
! grep 'mbarrier\.arrive\.release\.cluster' m.ptx || fail 'between products a warp waits for all that it has stored'
! grep 'cvt\.rn\.bf16\.f32' m.ptx || fail 'bf16 is rounded by itself'
! grep 'barrier\.cluster\.arrive\.release\.aligned' m.ptx || fail 'a kernel waits for all of memory before it begins'
assembles layer
# A layer with gradients.  What little is computed of a value in memory before its next function is computed again, conversions or not;
# of its results each but the last leaves before the next is computed; a number is loaded before the sums; relu keeps its result alone.
cat >m.dsl <<'END'
model pair {
    precision bf16
    x = param [256, 64] init normal(1.0)
    h = ACTIVATION(linear(x, 256) as first)
    loss = mean((linear(h, 64) as second)^2)
    train loss with sgd(lr = 0.1)
}
END
# pair ACTIVATION: its kernels
pair() { sed "s/ACTIVATION/$1/" m.dsl >pair.dsl && "$FUSEC" pair.dsl -o m.tile --target sm_90a --entry grad || fail "pair of $1"; }
pair gelu
awk '/^kernel/ { sums = stores = 0; outs = gsub(/ out[,)]/, "") } /by wgmma/ { sums = 1 } /by tma$/ && /store/ { stores++ }
     / = erf / && !seen++ { right = outs == 2 && stores == 1 } /load %accumulate/ { before += !sums; after += sums } END { exit !(right && before && !after) }' m.tile ||
    fail "results, stores or numbers: $(cat m.tile)"
pair relu
awk '/^kernel/ { outs = gsub(/ out[,)]/, "") } / = max / && !seen++ { right = outs == 1 } END { exit !right }' m.tile || fail "relu keeps what it is made from: $(cat m.tile)"
schedule ' by wgmma 128x256,' gelu 8192
# What is read after the sums in parts of sectors is fetched before the loop, while the other group has its turn.
cat >m.dsl <<'END'
model residual {
    precision bf16
    x = param [8192, 768] init normal(1.0)
    a = gelu(linear(x, 768) as first)
    output y = gelu(a + linear(a, 768) as second)
}
END
"$FUSEC" m.dsl -o m.tile --target sm_90a --entry infer && "$FUSEC" m.dsl -o m.ptx --target sm_90a --entry infer
awk '/^kernel/ { turns = fetched = 0 } / alternate 2 / { turns = 1 } / by async 16 / { fetched = 1 } / for k ahead / && turns && fetched { found = 1 } END { exit !found }' m.tile ||
    fail "not fetched before its turn: $(cat m.tile)"
assembles residual
schedule ' by wgmma 128x256,' '' 768

# A result by the copy engine, then one of odd rows by threads, staged where the engine may still read.
cat >aside.dsl <<'END'
dim M = 33, N = 33, K = 31
model aside {
    precision bf16
    p = param [M, K] init normal(1.0)
    b = param [K, N] init normal(1.0)
    q = param [M, N] init normal(1.0)
    loss = sum((q + p @ b)^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
# aside PRECISION -D..
aside() {
    sed "s/precision bf16/precision $1/" aside.dsl >m.dsl
    what="aside $*"
    shift
    for seed in 1 2; do
        PTXSIM_SEED=$seed "$FUSEC" verify m.dsl "$@" --target cuda --arch sm_90a --entry grad --rounds 1 --quiet >log 2>&1 || fail "$what: $(cat log)"
        ! grep '^ptxsim' log || fail "$what: findings"
    done
}
aside bf16
aside f16 -D M=65 -D N=63 -D K=16
aside bf16 -D M=129 -D N=35
aside bf16 -D M=1025 -D N=129 -D K=64
"$FUSEC" aside.dsl -o m.tile --target sm_90a --entry grad
awk '/^kernel/ { tma = 0 } /store .* by tma$/ { tma = 1 } /store .* by threads/ && tma { found = 1 } END { exit !found }' m.tile || fail "no result is stored by threads after one by tma"

check product bf16 5 -D M=256 -D N=128 -D K=192
check product f16 5 -D M=200 -D N=136 -D K=72
check product tf32 4 -D M=96 -D N=96 -D K=64
check product tf32 4 -D M=200 -D N=136 -D K=72
check batched tf32 2 -D M=64 -D N=96 -D K=64
check batched bf16 3 -D M=64 -D N=96 -D K=64
check batched f16 3 -D B=5 -D M=40 -D N=24 -D K=48
check image bf16 3
check image f16 3 -D B=3 -D H=7 -D W=16 -D C=128 -D F=192
check image bf16 3 -D H=15 -D W=12 -D STEP=2
check image bf16 3 -D H=15 -D W=14 -D STEP=2 -D R=1
check image bf16 3 -D H=13 -D W=11 -D APART=2 -D R=5
check image bf16 3 -D C=32 -D F=32
check image f16 2 -D H=7 -D C=48 -D F=16 -D R=5
check image bf16 2 -D H=15 -D W=14 -D STEP=2 -D C=16
check image tf32 1 -D C=32 -D F=32
check image tf32 1 -D C=16 -D F=16
check deep bf16 8
check deep bf16 8 -D H=6 -D W=8
check signal bf16 3
exit $bad
