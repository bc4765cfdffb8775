#!/bin/sh
# --accumulate: after three calls every gradient is three times what one call gives, also where one gradient is another one, is
# computed from another one, or is an output.
. "$SRC/tests/support/script.sh"
quick_c
cd "$work" || exit 1

# numbers FILE: those of a safetensors file of f32
numbers() { od -An -v -w4 -t f4 -j $(($(od -An -N4 -t u4 "$1") + 8)) "$1"; }

# thrice NAME: NAME.dsl on every target
thrice() {
    for target in host c99 interp cuda; do
        [ $target = c99 ] && ! command -v "${CC:-cc}" >/dev/null && continue
        [ $target = cuda ] && ! has_software_gpu && continue
        for n in 1 3; do
            LD_LIBRARY_PATH=$BUILD/ptxsim "$FUSEC" run "$1.dsl" --entry=grad --accumulate --steps=$n --target=$target --quiet \
                --outputs=$n.safetensors >log 2>&1 || { fail "$1 on $target: $(cat log)"; return; }
            numbers $n.safetensors >$n.txt
        done
        paste 1.txt 3.txt | awk -v what="$1 on $target" '{ off = $2 - 3 * $1; size = $1 < 0 ? -$1 : $1; most = size > most ? size : most
            if (off < 0) off = -off
            if (!(off <= 1e-5 * (1 + most))) { print "FAIL: " what ": " $2 " after 3 calls, " $1 " after 1"; bad = 1 } }
            END { if (!NR || most == 0) { print "FAIL: " what ": no gradients"; bad = 1 } exit bad }' || bad=1
    done
}

cat >equal.dsl <<'END'
model equal {
    a = param [3, 2] init normal(0.5)
    b = param [3, 2] init normal(0.5)
    loss = sum(a * 2.0 + b * 2.0)
    train loss with sgd(lr = 0.125)
}
END
cat >norm.dsl <<'END'
model norm {
    x = param [5, 3, 2, 2] init normal(0.5)
    y = batchnorm(x) as n
    loss = sum(y * y * y)
    train loss with sgd(lr = 0.125)
}
END
cat >deep.dsl <<'END'
model deep {
    x = param [7, 8] init normal(0.5)
    h = linear(x, 9) as l
    loss = sum(gelu(linear(h, 4) as m)) + sum(h)
    train loss with sgd(lr = 0.125)
}
END
cat >large.dsl <<'END'
model large {
    w = param [60, 70] init normal(0.05)
    v = param [60, 70] init normal(0.05)
    u = param [70] init normal(0.5)
    y = (w + v + u) @ transpose(w)
    loss = mean(y * y)
    train loss with sgd(lr = 0.125)
}
END
for m in equal norm deep large; do thrice $m; done
exit $bad
