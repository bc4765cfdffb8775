#!/bin/sh
# The derivative of a running product is a recurrence that is composed in log2(extent) steps: every extent up to past 16, either
# way, with a zero among the values, is that of finite differences; so is the derivative of a running sum.
. "$SRC/tests/support/script.sh"

tried=0
for scan in cumprod cumsum; do
    for n in 1 2 3 4 5 6 7 8 9 12 15 16 17 18; do
        {
            printf 'model m {\np = param [%s, 2] init normal(0.3)\nw = float(iota(%s, axis = 0, rank = 2) + 1)\n' $n $n
            printf 'x = 1 + p - float(w == 3)\nloss = 0.0'
            for reverse in false true; do
                for exclusive in false true; do
                    printf ' + sum(w * %s(x, axis = 0, reverse = %s, exclusive = %s))' $scan $reverse $exclusive
                done
            done
            printf '\noutput loss\ntrain loss with sgd(lr = 0.1)\n}\n'
        } >scan.dsl
        "$FUSEC" verify scan.dsl --target interp --entry grad >log 2>&1 || fail "$scan of $n: $(cat log)"
        grep -q 'gradients of 1 parameter are those of finite differences' log || fail "$scan of $n: not compared: $(cat log)"
        tried=$((tried + 1))
    done
done
echo "$tried programs"
exit $bad
