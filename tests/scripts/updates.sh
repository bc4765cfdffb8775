#!/bin/sh
# However many parameters the norm of the gradients is taken over, the update of each is one kernel at most: it reads the
# gradient, the parameter and its two moments once, and writes three of them.  The norm itself takes a kernel for about
# every twenty terms.
set -e
. "$SRC/tests/support/script.sh"
cat >deep.dsl <<'DSL'
let n = 3
model deep {
    input x : f32[8, 64]
    h = x
    repeat n as layer { h = tanh(linear(h, 64) as up) }
    loss = mean(h^2)
    output loss
    train loss with adam(lr = hyper 1e-3) clip_norm 1.0
}
DSL
for n in 1 4 9 14 16 20 40; do
    for target in host sm_80; do
        "$FUSEC" report deep.dsl -D n=$n --entry step --target $target -fno-family >report
        maps=$(grep -cE '^  step_(map|bundle)_[0-9]* *update ' report)
        [ "$maps" -ge $n ] && [ "$maps" -le $((2 * n + 1 + n / 20)) ] || { echo "$n layers on $target: $maps kernels update $((2 * n)) parameters"; exit 1; }
        # all wait for the norm: those of one shape run together, as many as a kernel has buffers for
        "$FUSEC" report deep.dsl -D n=$n --entry step --target $target >report
        maps=$(grep -cE '^  step_(map|bundle)_[0-9]* *update ' report)
        [ "$maps" -le $((4 + n / 10)) ] || { echo "$n layers on $target: $maps launches update $((2 * n)) parameters"; exit 1; }
    done
done
echo ok
