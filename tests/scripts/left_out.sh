#!/bin/sh
# A term with a read outside is left out, also where that read is (in) a subscript: of what is summed, multiplied, and gathered.
# Judged by the same sum over the terms that are left, in values and gradients.
. "$SRC/tests/support/script.sh"

# model_of LINE: a model with that definition of s
model_of() {
    cat <<END
model m {
    b = param [3] init normal(1.0)
    c = param [4] init normal(1.0)
    m = param [4, 3] init normal(1.0)
    ids = mod(iota(2) + 1, 2) + 1
    both[i in 0..2, j in 0..2] = ids[i] + 0 * ids[j]
    $1
    loss = sum(s) + 0.0 * (sum(b) + sum(c) + sum(m))
    output loss
    train loss with sgd(lr = 0.1)
}
END
}

same gathered 1e-6 --entry grad <<'END'
s = sum[r in 0..3] b[ids[r - 1]]
s = sum[r in 1..3] b[ids[r - 1]]
END
same gathered_backwards 1e-6 --entry grad <<'END'
s = sum[r in 0..3] b[ids[1 - r]]
s = sum[r in 0..2] b[ids[1 - r]]
END
same multiplied 1e-6 --entry grad <<'END'
s = sum[r in 0..4] b[ids[r - 1]] * c[r]
s = sum[r in 1..3] b[ids[r - 1]] * c[r]
END
same not_exact 1e-6 --entry grad <<'END'
s = sum[r in 0..4] b[ids[r / 2]] * c[r]
s = b[ids[0]] * c[0] + b[ids[1]] * c[2]
END
same not_exact_gathered 1e-6 --entry grad <<'END'
s = sum[r in 0..2] b[(ids[r] + 1) / 2] * c[r]
s = sum[r in 0..2] where(ids[r] == 1, b[1], 0.0) * c[r]
END
same not_exact_inside 1e-6 --entry grad <<'END'
s = sum[r in 0..4] b[(ids[r / 2] + 1) / 2] * c[r]
s = sum[r in 0..2] where(ids[r] == 1, b[1], 0.0) * c[2 * r]
END
same not_exact_alone 1e-6 --entry grad <<'END'
s[r in 0..2] = b[ids[r] / 2] * c[r]
s[r in 0..2] = where(ids[r] == 2, b[1], 0.0) * c[r]
END
same floored 1e-6 --entry grad <<'END'
s = sum[r in 0..2] b[floor_div(ids[r], 2)] * c[r]
s = sum[r in 0..2] where(ids[r] == 2, b[1], b[0]) * c[r]
END
same along_results 1e-6 --entry grad <<'END'
s[i in 0..3] = sum[r in 0..2] b[ids[i - 1]] * c[r]
s[i in 0..2] = sum[r in 0..2] b[ids[i]] * c[r]
END
same of_two_axes 1e-6 --entry grad <<'END'
s = sum[r in 0..3, q in 0..3] b[both[r, q]]
s = sum[r in 0..2, q in 0..2] b[both[r, q]]
END
same twice 1e-6 --entry grad <<'END'
s = sum[r in 0..3] b[ids[ids[r]]]
s = sum[r in 1..2] b[ids[ids[r]]]
END
same two_subscripts 1e-6 --entry grad <<'END'
s = sum[r in 0..3] m[ids[r - 1], ids[r]] * c[r]
s = sum[r in 1..2] m[ids[r - 1], ids[r]] * c[r]
END
same shared_index 1e-6 --entry grad <<'END'
s = sum[r in 0..4] m[r, ids[r - 1]] * c[r]
s = sum[r in 1..3] m[r, ids[r - 1]] * c[r]
END
same in_a_function 1e-6 --entry grad <<'END'
s = sum[r in 0..4] exp(b[ids[r - 1]]) * c[r]
s = sum[r in 1..3] exp(b[ids[r - 1]]) * c[r]
END
same in_a_maximum 1e-6 --entry grad <<'END'
s = max[r in 0..4] b[ids[r - 1]] * c[r]
s = max[r in 1..3] b[ids[r - 1]] * c[r]
END

# The least and the greatest integer are what minima and maxima of none are.
cat >least.dsl <<'END'
model least {
    a = iota(8) - 3
    x = iota(8) * 5
    output some = min(a, where = x > 7)
    output not_one = min(a, where = x > 70)
    output empty = min(a[3:3])
    output most = max(a, where = x > 70)
    output right = min(a, where = x > 70) == 2147483647 and max(a[3:3]) == -2147483647 - 1 and min(a, where = x > 7) == -1
}
END
"$FUSEC" verify least.dsl --target host,interp --quiet >log 2>&1 || fail "least: $(cat log)"
"$FUSEC" run least.dsl >log 2>&1 && grep -q 'right.*\(true\|1\)' log || fail "least: $(cat log)"
exit $bad
