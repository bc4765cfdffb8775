# Products in low precision for sm_90a, forward and backward, on the software GPU: the numbers are the host's, to what the
# order of sums allows, there are no findings, wgmma is what multiplies; and ptxas (where present) has nothing to say of
# spills, of wgmma that it serialises or of setmaxnreg that it ignores.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
status=0
fail() { echo "$*"; status=1; }

cat >product.dsl <<'END'
dim M = 64, N = 64, K = 64
model product {
    precision bf16
    x = param [M, K] init normal(1.0)
    g = param [M, N] init normal(1.0)
    h = relu(linear(x, N) as first)
    y = linear(h, N) as second
    loss = mean(y * g)
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >batched.dsl <<'END'
dim B = 3, M = 64, N = 64, K = 64
model batched {
    precision bf16
    x = param [B, M, K] init normal(1.0)
    g = param [B, M, N] init normal(1.0)
    w = param [B, N, K] init normal(0.1)
    y = x @ transpose(w)
    loss = mean(y * g)
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
END

# check MODEL PRECISION WGMMA -D..: at least so many of its products by wgmma
check() {
    model=$1 precision=$2 least=$3
    shift 3
    sed "s/precision bf16/precision $precision/" "$model.dsl" >m.dsl
    what="$model $precision $*"
    "$FUSEC" m.dsl "$@" -o m.ptx --target sm_90a --entry grad || { fail "$what: not compiled"; return; }
    found=$("$FUSEC" m.dsl "$@" -o m.tile --target sm_90a --entry grad && grep -c 'by wgmma' m.tile)
    [ "${found:-0}" -ge "$least" ] || fail "$what: $found products by wgmma, not $least"
    for target in host cuda; do
        arch=
        [ $target = host ] || arch='--arch sm_90a'
        # shellcheck disable=SC2086
        LD_LIBRARY_PATH=$BUILD/ptxsim PTXSIM_SEED=7 "$FUSEC" run m.dsl "$@" --target $target $arch --entry grad --seed 3 \
            --outputs $target.safetensors >log 2>&1 || { fail "$what on $target: $(cat log)"; return; }
        ! grep -q '^ptxsim' log || fail "$what: $(cat log)"
    done
    "$BUILD/compare_safetensors" compare host.safetensors "" cuda.safetensors 0.005 || fail "$what: other numbers"
    command -v ptxas >/dev/null || return
    ptxas -v -arch=sm_90a m.ptx -o m.cubin >log 2>&1 || { fail "$what: ptxas: $(cat log)"; return; }
    ! grep -E 'C75[0-9][0-9]|[1-9][0-9]* bytes spill' log || fail "$what: ptxas complains"
}

check product bf16 5 -D M=256 -D N=128 -D K=192
check product f16 5 -D M=200 -D N=136 -D K=72
check product tf32 2 -D M=96 -D N=96 -D K=64
check batched bf16 3 -D M=64 -D N=96 -D K=64
check batched f16 3 -D B=5 -D M=40 -D N=24 -D K=48
exit $status
