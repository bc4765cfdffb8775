# What is computed of all pairs of rows (distances, here) and summed is never in memory, forward or backward: it is larger than what
# it is made from, and made again for each of its sums, whatever is computed once for many of its elements on the way.
. "$SRC/tests/support/script.sh"
all_targets
quick_c

# model NAME: on stdin what makes c [N, M] of u [N, E] and v [M, E]
model() {
    { printf 'dim N = 1024, M = 768, E = 32\nmodel m {\n    input x : f32[N, E]\n    u = x * (param [E] init ones as p)\n'
      printf '    v = param [M, E] init normal(1.0)\n'
      cat
      printf '    loss = mean(logsumexp(-c))\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n'; } >"$1.dsl"
    for target in host c99 sm_80; do
        bytes=$("$FUSEC" report "$1.dsl" --target $target --entry grad | sed -n 's/^  arena //p')
        # c, exp of c, and slices of sums; all pairs of all elements are 100 MB
        [ "$bytes" -le 25000000 ] || fail "$1 on $target: $bytes bytes of arena"
    done
    "$FUSEC" verify "$1.dsl" -D N=301 -D M=203 -D E=17 --target $targets --rounds 1 --quiet >log 2>&1 || fail "$1: $(cat log)"
}
echo '    c[i, j] = sum[k] (u[i, k] - v[j, k])^2' | model squares
echo '    c[i, j] = sum[k] abs(u[i, k] - v[j, k])' | model absolutes
echo '    c = sum((expand_dims(u, 1) - expand_dims(v, 0))^2, axis = -1)' | model broadcasts
exit $bad
