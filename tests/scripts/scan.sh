# scan: the sums, products and recurrences that can be written without it, in values and gradients, along every axis; several sequences
# and values, scans in scans, one round and none; parameters are those of one body.
. "$SRC/tests/support/script.sh"
quick_c

cat >ends <<'END'
    output y
    output z
    output a
    output b
    output c
    output d
    output sums
    output rows
    loss = sum(sin(a)) + mean(b) + sum(cos(c) * d) + sum(sums^2) + mean(rows) + sum(y * y) + sum(sin(z))
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >got.dsl <<'END'
dim T = 7
layer cell(v, h, n) { return tanh((linear(v, n) as in) + (linear(h, n) as back)) }
model m {
    x = param [3, T, 4] init normal(1.0)
    k = param [3, T, 4] init normal(0.5)
    a = scan v over x axis 1, s = zeros [3, 4] {
        s = s + v
        emit s
    }
    b = scan v over k axis -1, s = ones [3, T] {
        emit s
        s = s * (v + 1.5)
    }
    c, d = scan v over x, u over k axis 0, s = zeros [T, 4] {
        w = v * u
        s = 0.5 * s + w
        emit s, w
    }
    scan v over x axis 1, sums = zeros [3, 4] { sums = sums + sin(v) }
    rows = scan r over x, total = zeros [4] {
        q = scan v over r, s = zeros [4] {
            s = s + v * v
            emit s
        }
        total = total + q[-1]
        emit q + total
    }
    y = scan v over x axis 1, h = zeros [3, 5] {
        h = cell(v, h, 5) as rnn
        emit h
    }
    z = scan v over x axis 1, u over y axis 1, h = zeros [3, 5] {
        w = linear(v, 3) as outer
        scan o over transpose(v), p = zeros [3, 3] { p = linear(p + expand_dims(o, 1), 3) as inner }
        h = cell(w + p, h + u, 5) as deep
        emit h
    }
END
cat ends >>got.dsl

# the same, round by round, of parameters with the same names
{
    cat <<'END'
dim T = 7
layer pair(k, n) {
    w = param [k, n] init kaiming
    return w, (param [n] init zeros as b)
}
layer two(k, n) {
    w, b = pair(k, n) as in
    v, c = pair(n, n) as back
    return w, b, v, c
}
fn cell(v, h, w, b, w2, b2) { return tanh(v @ w + b + h @ w2 + b2) }
model m {
    x = param [3, T, 4] init normal(1.0)
    k = param [3, T, 4] init normal(0.5)
    a = cumsum(x, axis = 1)
    b = transpose(cumprod(k + 1.5, axis = -1, exclusive = true), [0, 1, 2])
    d = x * k
    c = concat(d[0:1], d[1:2] + 0.5*d[0:1], d[2:3] + 0.5*d[1:2] + 0.25*d[0:1], axis = 0)
    sums = sum(sin(x), axis = 1)
    rows = cumsum(x * x, axis = 1) + expand_dims(cumsum(sum(x * x, axis = 1), axis = 0), 1)
    w1, b1, w2, b2 = two(4, 5) as rnn
    o1, o2 = pair(4, 3) as outer
    i1, i2 = pair(3, 3) as inner
    w3, b3, w4, b4 = two(3, 5) as deep
    h = zeros [3, 5]
    g = zeros [3, 5]
END
    y='' z=''
    for t in 0 1 2 3 4 5 6; do
        echo "    h = cell(x[:, $t], h, w1, b1, w2, b2)"
        echo "    h$t = expand_dims(h, 1)"
        echo "    p = zeros [3, 3]"
        for i in 0 1 2 3; do echo "    p = (p + x[:, $t, $i:$((i + 1))]) @ i1 + i2"; done
        echo "    g = cell(x[:, $t] @ o1 + o2 + p, g + h, w3, b3, w4, b4)"
        echo "    g$t = expand_dims(g, 1)"
        y="$y h$t," z="$z g$t,"
    done
    echo "    y = concat($y axis = 1)"
    echo "    z = concat($z axis = 1)"
    cat ends
} >want.dsl
same_results "values" 1e-5 --entry infer
same_results "gradients" 2e-4 --entry grad
same_results "recomputed" 2e-4 --entry grad --checkpoint=sqrt
"$FUSEC" verify got.dsl --quiet --rounds=1 >log 2>&1 || fail "against float64: $(cat log)"

# names of the body that are no carries begin each round as they are outside
cat >got.dsl <<'END'
model scope {
    x = param [4] init normal(1.0)
    n = 1
    q = 5.0
    k = zeros [3]
    a, b, c, d = scan v over x, h = 0.0 {
        n = n + 1
        r = q * v
        q = v
        emit v * 0 + n, r, k, h
        k = v * ones [2]
        if n == 2 { h = h + (param [4] init ones as w)[n] }
    }
    output a
    output b
    output c
    output d
    output e = n + q
    loss = sum(a) + sum(b) + sum(d)
    train loss with sgd(lr = 0.1)
}
END
cat >want.dsl <<'END'
model scope {
    x = param [4] init normal(1.0)
    w = param [4] init ones
    output a = x * 0 + 2
    output b = 5 * x
    output c = zeros [4, 3]
    output d = w[2] * float(iota(4))
    output e = 6.0
    loss = sum(a) + sum(b) + sum(d)
    train loss with sgd(lr = 0.1)
}
END
same_results "scope" 1e-6 --entry grad

# one round and none
for n in 0 1; do
    cat >few.dsl <<END
dim T = $n
model few {
    input x : f32[2, T, 3]
    y, z = scan v over x axis 1, h = ones [2, 4] {
        h = h + linear(v, 4) as l
        emit h, sum(v, axis = 1)
    }
    output y
    output z
    output h
    output last = v
    loss = sum(h) + sum(y)
    train loss with sgd(lr = 0.1)
}
END
    # without a round there is no last place of x
    [ $n = 1 ] || sed -i '/last = v/d' few.dsl
    "$FUSEC" verify few.dsl --quiet --target host,interp >log 2>&1 || fail "$n rounds: $(cat log)"
    "$FUSEC" few.dsl -o few.c 2>log || fail "$n rounds: $(cat log)"
done

# Of a carry that is linear in itself products too are computed for all rounds at once.  Of another a round takes a product, what
# follows it, and the sum beside; compiling goes on with many.
kernels_of() { # PROGRAM
    "$FUSEC" $1.dsl --entry infer --target sm_80 -o $1.tile || fail "300 rounds, $1: not compiled"
    grep -c ^kernel $1.tile
}
sed "s/dim T = 1/dim T = 300/" few.dsl >linear.dsl
n=$(kernels_of linear)
[ "$n" -ge 3 ] && [ "$n" -le 30 ] || fail "$n kernels of 300 linear rounds"
sed "s/h = h + linear(v, 4) as l/h = tanh(h + linear(concat(v, h, axis = 1), 4) as l)/" linear.dsl >long.dsl
n=$(kernels_of long)
[ "$n" -ge 300 ] && [ "$n" -le 700 ] || fail "$n kernels of 300 rounds"
exit $bad
