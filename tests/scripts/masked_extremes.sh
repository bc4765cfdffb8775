#!/bin/sh
# argmax under a mask chooses among what is kept, whatever its values; what is no number stays one in relu; the logsumexp of a
# row with +inf is +inf.
. "$SRC/tests/support/script.sh"

model_of() { # LINE: the definition of best
    cat <<END
model m {
    p = param [1] init normal(1.0)
    n = iota(35, axis = 1, rank = 2) + 3 * iota(8, axis = 0, rank = 2)
    x = mod(n * 7, 11) - 20
    keep = mod(n * n, 5) < 2
    few = n == 17
    never = n < 0
    $1
    output best
    loss = sum(p)
    output loss
    train loss with sgd(lr = 0.1)
}
END
}

same integers 0 --entry infer <<'END'
best = argmax(x, axis = 1, where = keep)
best = argmax(where(keep, x + 100, 0), axis = 1)
END
same floats 0 --entry infer <<'END'
best = argmax(float(x), axis = 0, where = keep)
best = argmax(where(keep, x + 100, 0), axis = 0)
END
same one 0 --entry infer <<'END'
best = argmax(float(x), axis = 1, keep = true, where = few)
best = argmax(float(few), axis = 1, keep = true)
END
same least 0 --entry infer <<'END'
best = argmax(float(x) - 3e38 - 3e38, axis = 1, where = keep)
best = argmax(float(keep), axis = 1)
END
same nothing 0 --entry infer <<'END'
best = argmax(x, axis = 1, where = never)
best = argmax(x * 0, axis = 1)
END

same infinite 0 --entry infer <<'END'
best = clamp(logsumexp(where(few, inf, where(keep, float(x), -inf)), axis = 0), -1e9, 1e9)
best = where(max(int(few), axis = 0) > 0, 1e9, clamp(logsumexp(where(keep, float(x), -inf), axis = 0), -1e9, 1e9))
END

cat >nan.dsl <<'END'
model m {
    p = param [4] init normal(1.0)
    loss = sum(relu(sqrt(p - 100)))
    output loss
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" run nan.dsl --entry step --steps 1 --check-finite >log 2>&1
grep -qi 'finite\|nan' log || fail "relu makes a number of what is none: $(cat log)"
exit $bad
