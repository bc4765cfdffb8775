# Products, convolutions with their gradients, and sums in f32, without tensor cores: what threads of a warp ask for together
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
for model in images rows; do
    LD_LIBRARY_PATH=$BUILD/ptxsim "$BUILD/ptxsim/ptxsim" stat --gpu sm_80 -o "$work/table" -- "$FUSEC" run "$work/$model.dsl" --target cuda \
        --arch sm_80 --entry grad >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    # asked over moved (but where a row's one number is stored), and the share of passes that are conflicts
    awk -v model=$model '
        /^thread instructions/ { exit }
        /^grad_/ { seen++ }
        /^grad_/ && $5 > 0.004 && $7 < (/_row_/ ? 95 : 99) { print model ": " $1 " uses " $7 "% of its sectors"; bad = 1 }
        /^grad_/ && $9 > 0 { print model ": " $1 ": " $9 "% of its passes are bank conflicts"; bad = 1 }
        END { if (seen < 10) { print model ": " seen + 0 " kernels seen"; bad = 1 } exit bad }' "$work/table" || bad=1
done
exit $bad
