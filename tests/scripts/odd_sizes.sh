#!/bin/sh
# Products of odd sizes on the software GPU: the numbers are the host's, matrix instructions multiply where rows, columns
# and sums are long enough to pay for their padding, whatever their remainders, and scratch rows are laid out so that they
# are fetched 16 bytes at a time.
. "$SRC/tests/support/script.sh"
quick_c
needs_software_gpu

# check NAME TARGET: results and gradients of NAME.dsl on the host and on the software GPU
check() {
    "$FUSEC" run "$1.dsl" --entry grad --seed 3 --outputs host.safetensors || fail "$1 on the host"
    "$FUSEC" run "$1.dsl" --target cuda --arch "$2" --entry grad --seed 3 --outputs cuda.safetensors >log 2>&1 ||
        fail "$1 on $2: $(cat log)"
    grep '^ptxsim' log && fail "$1 on $2: findings"
    "$BUILD/compare_safetensors" compare host.safetensors "" cuda.safetensors 0.005 || fail "$1 on $2: other numbers"
    "$FUSEC" report "$1.dsl" --target "$2" --entry grad -fno-horizontal >report || fail "$1: no report"
}

model() { # PRECISION ROWS INNER HIDDEN COLUMNS
    cat <<END
model odd {
    precision $1
    x = param [$2, $3] init normal(1.0)
    g = param [$2, $5] init normal(1.0)
    y = linear(tanh(linear(x, $4) as first), $5) as second
    loss = mean(y * g) * 1000
    output y
    output loss
    train loss with sgd(lr = 0.1)
}
END
}

for target in sm_80 sm_90a; do
    for precision in bf16 tf32; do
        # long enough: all six products, none of whose sizes is a multiple of 8
        model $precision 20 33 57 50257 >long.dsl
        check long $target
        [ "$(grep -cE 'contract.* by (wg)?mma ' report)" = 6 ] || { fail "long, $precision on $target:"; cat report; }
        ! grep 'by threads' report || fail "long, $precision on $target: by threads"
        if [ $precision = bf16 ]; then
            grep -q '^    bf16\[20,57\]: rows of 57 laid out as 64,' report || fail "$target: rows of 57 are not padded"
            grep -q ': rows of 50257 laid out as 50264,' report || fail "$target: rows of 50257 are not padded"
            ! grep 'is fetched' report || fail "long, bf16 on $target: padded rows are fetched in pieces"
        fi
        # too short to pay: by threads, and the report says of each why
        model $precision 7 33 1 65 >short.dsl
        check short $target
        products=$(grep -cE '(memory|compute) by threads' report) reasons=$(grep -cE ': by threads, not (wg)?mma: it (has|sums) fewer' report)
        [ "$products" -gt 0 ] && [ "$products" = "$reasons" ] || { fail "short, $precision on $target:"; cat report; }
    done
done

# a factor whose rows begin anywhere: neighbouring threads fetch neighbours, so little more than what is asked for is moved
cat >rows.dsl <<'END'
model rows {
    precision bf16
    input a : bf16[256, 64]
    input b : bf16[64, 501]
    output z = a @ b
}
END
"$FUSEC" report rows.dsl --measured --target sm_80 --entry infer >report || fail 'no counts'
awk '$1 ~ /_contract_/ { seen++; if ($7 > 1.4 * $6) { print "FAIL: " $7 " MB moved for " $6 " asked"; bad = 1 } } END { exit bad || !seen }' \
    report || { cat report; bad=1; }
exit $bad
