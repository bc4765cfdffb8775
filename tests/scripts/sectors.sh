# Products, convolutions with their gradients, attention, and sums in f32, without tensor cores: what threads of a warp ask for together
# lies in whole sectors, and no two of them meet in a bank of shared memory.
. "$SRC/tests/support/script.sh"
needs_software_gpu
cat >"$work/images.dsl" <<'END'
dim B = 2, H = 16, W = 16, C = 64, F = 64
model images {
    x = param [B, H, W, C] init normal(1.0)
    h = relu(conv2d(x, F, 3) as first)
    y = conv2d(h, F, 3, stride = 2) as second
    z = conv2d(y, 128, 1) as third
    loss = mean(z * z)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >"$work/rows.dsl" <<'END'
dim M = 96, N = 128, K = 64
model rows {
    x = param [M, K] init normal(1.0)
    w = param [N, K] init normal(0.1)
    h = relu(linear(x, N) as first)
    y = x @ transpose(w) + linear(layernorm(h) as norm, N) as second
    z = transpose(y) @ h
    loss = mean(z * z) + mean(softmax(y) * h)
    output loss
    train loss with sgd(lr = 0.1)
}
END
# streams: products that make values and products that sum them, forward and backward
cat >"$work/attention.dsl" <<'END'
dim H = 30, T = 256, D = 64
model attention {
    q = param [H, T, D] init normal(1.0)
    k = param [H, T, D] init normal(1.0)
    v = param [H, T, D] init normal(1.0)
    y = softmax(where(causal(T), q @ transpose(k) * rsqrt(float(D)), -inf)) @ v
    loss = mean(y * y)
    output loss
    train loss with sgd(lr = 0.1)
}
END
# tiles of 128 rows, columns or both
cat >"$work/large.dsl" <<'END'
dim M = 1152, N = 2304, K = 32
model large {
    x = param [M, K] init normal(1.0)
    w = param [K, N] init normal(0.1)
    g = param [M, N] init normal(0.1)
    y = x @ w
    loss = mean(y * g)
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" "$work/large.dsl" -o "$work/large.tile" --target sm_80 --entry infer && sed -n '/infer_contract/,/^$/p' "$work/large.tile" >"$work/tiles"
# look_at MODEL ENTRY LEAST: of at least LEAST kernels
look_at() {
    model=$1 entry=$2
    LD_LIBRARY_PATH=$BUILD/ptxsim "$BUILD/ptxsim/ptxsim" stat --gpu sm_80 -o "$work/table" -- "$FUSEC" run "$work/$model.dsl" --target cuda \
        --arch sm_80 --entry $entry --outputs "$work/$entry.safetensors" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    # asked over moved (but where a row's one number is stored), and the share of passes that are conflicts
    awk -v model=$model -v least=$3 '
        /^thread instructions/ { exit }
        /^(grad|infer)_/ { seen++ }
        /^(grad|infer)_/ && $5 > 0.004 && $7 < (/_row_/ ? 95 : 99) { print model ": " $1 " uses " $7 "% of its sectors"; bad = 1 }
        /^(grad|infer)_/ && $9 > 0 { print model ": " $1 ": " $9 "% of its passes are bank conflicts"; bad = 1 }
        END { if (seen < least) { print model ": " seen + 0 " kernels seen"; bad = 1 } exit bad }' "$work/table" || bad=1
}
look_at images grad 10
look_at rows grad 10
look_at attention grad 4
[ "$(sed '/^thread instructions/q' "$work/table" | grep -c '^grad_stream')" = 3 ] || { echo "attention: no streams"; bad=1; }
for entry in grad infer; do
    look_at large $entry 2
    "$FUSEC" run "$work/large.dsl" --entry $entry --outputs "$work/host.safetensors" >/dev/null &&
        "$BUILD/compare_safetensors" compare "$work/host.safetensors" "" "$work/$entry.safetensors" 1e-5 || bad=1
done
grep -q 'i in 0..1152 step 128' "$work/tiles" && grep -q 'j in 0..2304 step 128' "$work/tiles" || { echo "large: no tile of 128 x 128"; bad=1; }
exit $bad
