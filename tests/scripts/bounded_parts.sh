#!/bin/sh
# Subscripts and slices of axes that follow a bounded dimension: what the same elements are in an indexed definition, or as a sum
# of all elements times a mask, in values and gradients, for every kind of value of the dimension.
. "$SRC/tests/support/script.sh"

# model_of: a model with the definitions of parts on stdin
model_of() {
    cat <<'END'
dim S <= 6
model m {
    p = param [6, 3] init normal(1.0)
    q = param [13, 3] init normal(1.0)
    x[i in 0..S, c in 0..3] = p[i, c] * 1.5
    y[i in 0..2*S + 1, c in 0..3] = q[i, c] * 0.5
    w[i in 0..2*S, c in 0..3] = q[i, c] + q[i + 1, c]
    back = float(iota(S, axis = 0, rank = 2) + iota(S, axis = 1, rank = 2) == int(S) - 1)
    upper = float(iota(S + 1, axis = 0, rank = 2) + int(S) == iota(2*S + 1, axis = 1, rank = 2))
    inner = float(2*int(S) - 1 - iota(2*S - 1, axis = 0, rank = 2) == iota(2*S + 1, axis = 1, rank = 2))
END
    cat
    cat <<'END'
    output first
    output last
    loss = sum(sin(first)) + 2*sum(sin(last)) + 3*sum(sin(reversed)) + 4*sum(sin(even)) + 5*sum(sin(odd)) + 6*sum(sin(three)) +
           7*sum(sin(pairs)) + 8*sum(sin(rest)) + 9*sum(sin(most)) + 10*sum(sin(half)) + 11*sum(sin(falling)) +
           12*sum(sin(ends)) + 13*sum(sin(second)) + 14*sum(sin(tail)) + 15*sum(sin(head)) + 16*sum(sin(final))
    output loss
    train loss with sgd(lr = 0.1)
}
END
}

model_of >got.dsl <<'END'
    first = x[0]
    last = x[-1]
    reversed = x[::-1]
    even = y[::2]
    odd = y[1::2]
    three = y[:3]
    pairs = w[1::2]
    rest = x[1:]
    most = x[:-1]
    half = y[S:]
    falling = y[-2:0:-1]
    ends = slice(x, 0, 1) + x[S - 1]
    unused, second = split(w, 2, axis = 0)
    tail = w[-S:]
    head = w[:-S]
    final[c] = x[S - 1, c]
END
model_of >want.dsl <<'END'
    first[c] = x[0, c]
    last[c] = sum[k] x[k, c] * back[0, k]
    reversed[i, c] = sum[k] x[k, c] * back[i, k]
    even[i in 0..S + 1, c] = y[2*i, c]
    odd[i in 0..S, c] = y[2*i + 1, c]
    three[i in 0..3, c] = y[i, c]
    pairs[i in 0..S, c] = w[2*i + 1, c]
    rest[i in 0..S - 1, c] = x[i + 1, c]
    most[i in 0..S - 1, c] = x[i, c]
    half[i, c] = sum[k] y[k, c] * upper[i, k]
    falling[i, c] = sum[k] y[k, c] * inner[i, k]
    ends[i in 0..1, c] = x[0, c] + last[c]
    lower = float(iota(S, axis = 0, rank = 2) + int(S) == iota(2*S, axis = 1, rank = 2))
    second[i, c] = sum[k] w[k, c] * lower[i, k]
    tail = second
    head[i in 0..S, c] = w[i, c]
    final = last
END
for s in 1 2 5 6; do
    same_results "values at S = $s" 1e-6 --entry infer --extent S=$s
    same_results "gradients at S = $s" 1e-6 --entry grad --extent S=$s
done
exit $bad
