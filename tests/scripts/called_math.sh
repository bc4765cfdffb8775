#!/bin/sh
# Many sines: long functions become functions that are called, not inlined, and give what inlined ones give, on every target and
# vector width.
. "$SRC/tests/support/script.sh"
cd "$work" || exit 1

# chain N: N sines, cosines and powers of each other
chain() {
    {
        printf 'model chain {\n    x = param [37] init uniform(0.5, 1.5)\n    y0 = x\n'
        awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "    y%d = sin(y%d) + 0.5 * cos(x * %d.0) + x ^ (y%d * 0.125)\n", i + 1, i, i, i }'
        printf '    loss = mean(y%d)\n    output loss\n    train loss with sgd(lr = 0.001)\n}\n' "$1"
    } >chain.dsl
}

value() { LD_LIBRARY_PATH=$BUILD/ptxsim "$FUSEC" run chain.dsl --steps=2 --quiet "$@" 2>log || head -3 log; }

for n in 3 200; do
    chain $n
    right=$(value --target interp | sed 's/loss //')
    for target in host cuda "host --arch=x86-64" "host --arch=x86-64-v3"; do
        case $target in
        cuda) has_software_gpu || continue ;;
        *x86*) [ "$(uname -m)" = x86_64 ] || continue ;;
        esac
        value --target $target >out
        awk -v right="$right" -v what="$n on $target" '{ off = $2 - right; if (off < 0) off = -off
            if ($1 == "loss" && off <= 1e-5 * right) good = 1 } { text = text $0 }
            END { if (!good) { print "FAIL: " what ": " text ", not " right; exit 1 } }' out || bad=1
    done
    "$FUSEC" chain.dsl -o chain.ll || fail "chain.ll of $n"
    calls=$(grep -c 'define internal.*@fusec_sin' chain.ll)
    if [ $n = 3 ]; then [ "$calls" = 0 ] || fail "few sines are inlined: $calls functions"
    else [ "$calls" -ge 1 ] || fail "many sines are called"; fi
    "$FUSEC" chain.dsl -o chain.ptx || fail "chain.ptx of $n"
done
command -v ptxas >/dev/null && { ptxas -arch=sm_90a chain.ptx -o chain.cubin || fail "ptxas"; }
exit $bad
