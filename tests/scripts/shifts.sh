# What is subtracted of all terms and cancels has no derivative: no gradient goes through a row's maximum where the result is
# normalized, in whatever way; where it is not, it does.  Numbers are those of finite differences in float64.
. "$SRC/tests/support/script.sh"

# check NAME CANCELS: on stdin what leads from x [7, 9] to y; CANCELS: yes, or no
check() {
    name=$1
    {
        printf 'model m {\n    x = param [7, 9] init normal(1.0)\n    w = param [9, 4] init normal(1.0)\n'
        printf '    m = max(x, axis = -1, keep = true)\n    e = exp(x - m)\n    z = sum(e, axis = -1, keep = true)\n'
        cat
        printf '    loss = mean(y^2 * y)\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n'
    } >$name.dsl
    "$FUSEC" verify $name.dsl --target interp --entry grad --rounds 2 --quiet >log 2>&1 || fail "$name: $(cat log)"
    "$FUSEC" $name.dsl -o m.ptx --target sm_80 --entry grad --print-after=autodiff >graph 2>&1 || die "$name: $(cat graph)"
    # what a maximum passes on goes to the element that is equal to it
    found=no
    sed -n '/entry grad/,$p' graph | grep -qE ' (eq|argmax) .*!bwd| = argmax ' || found=yes
    [ $found = "$2" ] || fail "$name: the maximum's gradient is left out: $found"
}

echo '    y = e / z' | check softmax yes
echo '    y = (e @ w) / z' | check after_product yes
echo '    y = (e / z) @ w' | check before_product yes
echo '    y = log(z) + m' | check logsumexp yes
echo '    y = x - m - log(z)' | check log_softmax yes
echo '    y = (x - m) - log(z)' | check other_bracket yes
echo '    y = e * rsqrt(sum(e^2, axis = -1, keep = true))' | check root_of_squares yes
echo '    y = sqrt(e) / sum(sqrt(e), axis = -1, keep = true)' | check roots yes
echo '    y = where(x > 0.0, e, 0.0) / z' | check masked yes
echo '    y = transpose(e) / reshape(z, [1, 7])' | check transposed yes
echo '    y = e / max(e, axis = -1, keep = true)' | check by_its_maximum no # another maximum passes on
echo '    y = 2.0 ^ (3.0 * (x - m)) / sum(2.0 ^ (3.0 * (x - m)), axis = -1, keep = true)' | check other_base yes
echo '    y = exp(-x + m) / sum(exp(m - x), axis = -1, keep = true)' | check negative yes
echo '    y = e' | check bare no
echo '    y = 1e-12 * (x + 1e9 * m)' | check tiny no
echo '    y = 1e-25 * (1e-25 * m) + x' | check vanishing no
echo '    y = e @ w' | check not_normalized no
echo '    y = e / sum(e^2, axis = -1, keep = true)' | check squares no
echo '    y = e / sum(e, axis = 0, keep = true)' | check by_columns no
echo '    y = e / reshape(sum(transpose(e[0:7, 0:7]), axis = 1), [7, 1])' | check by_other_rows no
echo '    y = e / (z + 1.0)' | check softmax_one no
echo '    y = e / z + 0.1 * m' | check read_again no
echo '    y = 2.0 ^ (x - m) / z' | check two_bases no
echo '    y = tanh(x - m)' | check tanh no
echo '    y = (x - m) / z' | check not_a_power no
echo '    y = e / stop_gradient(z)' | check stopped no
exit $bad
