#!/bin/sh
# Gradients of what goes row by row: one kernel walks the rows, with all that is written of them and the sums over rows, slice by
# slice, for the parameters; on every target with several cores.  Norms, dropout, a bias; written by the user as well as by the
# library.  Numbers against float64.
. "$SRC/tests/support/script.sh"
quick_c
has_software_gpu

# passes SUMS MB: of the kernels of grad, one moves more than so many MB, and takes SUMS sums over its rows
passes() {
    for target in host sm_80 sm_90a; do
        "$FUSEC" report $name.dsl --target=$target --entry=grad >out || fail "$name on $target: no report"
        large=$(grep "^  grad_" out | awk -v least="$2" '$4 > least' | wc -l)
        [ "$large" = 1 ] || fail "$name on $target: $large kernels walk the rows: $(grep '^  grad_' out)"
        grep -q "with $1 sums\{0,1\} over its tiles" out || fail "$name on $target: not $1 sums over rows: $(grep '^  grad_' out)"
    done
}

# rows NAME SUMS [ROWS COLUMNS]: on stdin the model's lines up to y, of x and u; without sizes x is [1024, 96], 0.4 MB
rows() {
    name=$1
    { echo "dim R = ${3:-1024}, C = ${4:-96}"; echo "model m {"; echo "    x = param [R, C] init normal(1.0)"; cat
      echo "    input u : f32[R, C]"; echo "    loss = sum(y * u)"; echo "    train loss with sgd(lr = 0.1)"; echo "}"; } >$name.dsl
    passes "$2" 0.2
    "$FUSEC" verify $name.dsl --rounds 1 --quiet >log 2>&1 || fail "$name: $(cat log)"
    sed '/^model/a\
    precision bf16 weights bf16' $name.dsl >low.dsl
    "$FUSEC" verify low.dsl --entry grad --rounds 1 --quiet >log 2>&1 || fail "$name in bf16: $(cat log)"
}
rows layernorm 2 <<'END'
    y = layernorm(x) as n
END
rows rmsnorm 1 <<'END'
    y = rmsnorm(x) as n
END
rows absolute 2 <<'END'
    g = param [C] init ones
    b = param [C] init zeros
    y = x / (mean(abs(x), axis = -1, keep = true) + 0.1) * (1.5 + g) + b
END
rows dropped 1 <<'END'
    b = param [C] init zeros
    y = 0.5 * x + where(uniform([R, C]) < 0.9, gelu(x + b) / 0.9, 0.0)
END
rows gated 2 <<'END'
    g = param [C] init ones
    t = param [C] init ones
    y = softmax(x * t) * g
END
# more than 2048 elements: twice the threads, and the last of them have none; exactly a tile; of odd length
rows long 2 64 2500 <<'END'
    y = layernorm(x) as n
END
rows whole 2 64 1024 <<'END'
    y = layernorm(x) as n
END
rows odd 1 512 127 <<'END'
    y = rmsnorm(x) as n
END

# heads that are kept: a sum for each
name=heads
cat >heads.dsl <<'END'
model m {
    x = param [1024, 6, 64] init normal(1.0)
    g = param [6, 64] init ones
    input u : f32[1024, 6, 64]
    y = x * rsqrt(mean(x^2, axis = -1, keep = true) + 1e-5) * g
    loss = sum(y * u)
    train loss with sgd(lr = 0.1)
}
END
passes 1 0.9
"$FUSEC" verify heads.dsl --rounds 1 --quiet >log 2>&1 || fail "heads: $(cat log)"

# nothing to be gained, or no slices of one length: as many kernels as it takes, and the same numbers
name=prime
sed 's/1024/1021/' heads.dsl >prime.dsl
"$FUSEC" verify prime.dsl --rounds 1 --quiet >log 2>&1 || fail "prime: $(cat log)"

# nothing in a dimension
sed 's/, 6, 64/, 0, 64/; s/\[6, 64/[0, 64/' heads.dsl >empty.dsl
"$FUSEC" verify empty.dsl --rounds 1 --quiet >log 2>&1 || fail "empty: $(cat log)"

# a square: what is read at the row is no read at the columns, over which something else may be written
cat >square.dsl <<'END'
model m {
    input x : f32[129, 6]
    c = param [129] init zeros
    d = param [129, 1] init zeros
    b = param [129, 129] init normal(1.0)
    a = exp(log_softmax(b + c + d))
    loss = mean(sin(a @ x))
    output loss
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" verify square.dsl --target interp --arch sm_80 --rounds 1 --quiet >log 2>&1 || fail "square: $(cat log)"

# an update in place: x is read for the sums before it is overwritten
name=inplace
sed 's/sgd/adam/' layernorm.dsl >inplace.dsl
"$FUSEC" verify inplace.dsl --entry step --rounds 2 --quiet >log 2>&1 || fail "inplace: $(cat log)"
exit $bad
