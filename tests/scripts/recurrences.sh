# Scans whose carries are linear in themselves are one prefix each, with as many launches for any number of rounds: against the same
# rounds by `repeat`, which is unrolled, in values and gradients, and against float64.  What is not linear, or rounded at each step,
# stays as it is.
. "$SRC/tests/support/script.sh"
quick_c

T=23
cat >inputs <<END
dim T = $T
model m {
    x = param [3, T, 4] init normal(1.0)
    f = sigmoid(param [3, T, 4] init normal(1.0) as gate)
    w = param [4] init normal(0.5)
    h0 = param [3, 4] init normal(1.0)
    k = param [T, 5] init normal(1.0)
    u = param [3, T, 4, 2] init normal(0.5)
    v = param [3, T, 2] init normal(0.5)
END
cat >ends <<'END'
    output a
    output b
    output c
    output d
    output e
    output g
    output p
    output q
    output r
    output last = bl + dl
    loss = sum(sin(a)) + mean(b * b) + sum(cos(c) * a) + sum(d) + sum(e * e) + sum(sin(g)) + sum(p * b) + sum(q * q) + sum(r * x) + sum(bl * dl)
    output loss
    train loss with sgd(lr = 0.1)
}
END
{
    cat inputs
    cat <<'END'
    a = scan fi over f axis 1, xi over x axis 1, h = zeros [3, 4] {
        h = fi * h + xi
        emit h
    }
    b = scan fi over f axis 1, xi over x axis 1, h = h0 {
        h = (1 - fi) * h + fi * xi
        emit h
    }
    bl = h
    c, before = scan xi over x axis -2, h = h0 {
        emit xi * h, h
        h = where(xi > 0, h, 0.5 * h) - xi / 2
    }
    d = scan xi over x axis 1, s = zeros [3, 4], h = ones [3, 4] {
        s = s + xi
        h = h / (1 + w * w) - s / 3
        emit h * s
    }
    dl = h - s
    e = scan ki over k[::-1], h = ones [5] {
        h = ki - h * 0.5
        h = -(h - 0.25 * (ki - h))
        emit h
    }
    g = scan ki over k[:, 0], h = 0.5 {
        h = h * sin(ki) - (ki - h * 0.25)
        emit h
    }
    p = scan xi over x axis 1, h = h0 {
        emit h
        h = xi
    }
    q = scan xi over x axis 1, ui over u axis 1, vi over v axis 1, s = zeros [3, 4, 2] {
        s = exp(-ui * ui) * s + expand_dims(xi, -1) * expand_dims(vi, 1)
        emit sum(s * expand_dims(vi, 1), axis = -1) + w * xi
    }
    r = scan xi over x axis 1, s = zeros [3, 4], h = h0 {
        s = 0.5 * s + xi
        h = h * h * 0.1 + s
        emit h
    }
    c = c + before
END
    cat ends
} >got.dsl
{
    cat inputs
    cat <<'END'
    h = zeros [3, 4]
    a = repeat i in 0..T {
        h = f[:, i] * h + x[:, i]
        emit h
    }
    h = h0
    b = repeat i in 0..T {
        h = (1 - f[:, i]) * h + f[:, i] * x[:, i]
        emit h
    }
    bl = h
    h = h0
    c = repeat i in 0..T {
        now = h
        h = where(x[:, i] > 0, h, 0.5 * h) - x[:, i] / 2
        emit (x[:, i] * now) + now
    }
    s = zeros [3, 4]
    h = ones [3, 4]
    d = repeat i in 0..T {
        s = s + x[:, i]
        h = h / (1 + w * w) - s / 3
        emit h * s
    }
    dl = h - s
    h = ones [5]
    e = repeat i in 0..T {
        h = k[T - 1 - i] - h * 0.5
        h = -(h - 0.25 * (k[T - 1 - i] - h))
        emit h
    }
    h = 0.5
    g = repeat i in 0..T {
        h = h * sin(k[i, 0]) - (k[i, 0] - h * 0.25)
        emit h
    }
    h = h0
    p = repeat i in 0..T {
        now = h
        h = x[:, i]
        emit now
    }
    s = zeros [3, 4, 2]
    q = repeat i in 0..T {
        s = exp(-u[:, i] * u[:, i]) * s + expand_dims(x[:, i], -1) * expand_dims(v[:, i], 1)
        emit sum(s * expand_dims(v[:, i], 1), axis = -1) + w * x[:, i]
    }
    s = zeros [3, 4]
    h = h0
    r = repeat i in 0..T {
        s = 0.5 * s + x[:, i]
        h = h * h * 0.1 + s
        emit h
    }
    a = transpose(a, [1, 0, 2])
    b = transpose(b, [1, 0, 2])
    c = transpose(c, [1, 0, 2])
    d = transpose(d, [1, 0, 2])
    p = transpose(p, [1, 0, 2])
    q = transpose(q, [1, 0, 2])
    r = transpose(r, [1, 0, 2])
END
    cat ends
} >want.dsl
same_results "values" 1e-5 --entry infer
same_results "gradients" 2e-4 --entry grad
same_results "recomputed" 2e-4 --entry grad --checkpoint=sqrt
"$FUSEC" verify got.dsl --quiet --rounds=1 --target=host,c99,cuda >log 2>&1 || fail "against float64: $(cat log)"
"$FUSEC" verify got.dsl --quiet --rounds=1 --target=host -D T=8 >log 2>&1 || fail "against float64, T = 8: $(cat log)"

# Carries of every rank, along an axis that some of them do not have.
cat >got.dsl <<'END'
dim T = 11
model m {
    x = param [3, 4, T] init normal(1.0)
    y, z, w = scan xi over x axis -1, a = 0.0, b = zeros [3], c = zeros [3, 4], d = ones [1, 4] {
        a = 0.5 * a + sum(xi)
        b = 0.3 * b + sum(xi, axis = 1) * a
        c = c * sigmoid(xi) + a - expand_dims(b, 1)
        d = d * 0.9 + sum(c, axis = 0, keep = true)
        emit c * d, xi * a, c + expand_dims(b, 1)
    }
    output y
    output z
    output w
    loss = mean(y * y) + mean(sin(z)) + mean(w * y) + a + sum(d * d)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >want.dsl <<'END'
dim T = 11
model m {
    x = param [3, 4, T] init normal(1.0)
    a = 0.0
    b = zeros [3]
    c = zeros [3, 4]
    d = ones [1, 4]
    y, z, w = repeat i in 0..T {
        xi = x[:, :, i]
        a = 0.5 * a + sum(xi)
        b = 0.3 * b + sum(xi, axis = 1) * a
        c = c * sigmoid(xi) + a - expand_dims(b, 1)
        d = d * 0.9 + sum(c, axis = 0, keep = true)
        emit c * d, xi * a, c + expand_dims(b, 1)
    }
    y = transpose(y, [1, 2, 0])
    z = transpose(z, [1, 2, 0])
    w = transpose(w, [1, 2, 0])
    output y
    output z
    output w
    loss = mean(y * y) + mean(sin(z)) + mean(w * y) + a + sum(d * d)
    output loss
    train loss with sgd(lr = 0.1)
}
END
same_results "ranks" 1e-5 --entry infer
same_results "ranks, gradients" 2e-4 --entry grad

# Derivatives in the body, by a carry, or by what feeds one.
cat >got.dsl <<'END'
model m {
    x = param [9, 2] init normal(1.0)
    h0 = param [2] init normal(1.0)
    y, z = scan c over x, h = h0 {
        next = 0.5 * c * h + c
        emit vjp(next, h, 1.0), vjp(next^2, c, 1.0)
        h = next
    }
    w = scan c over x, h = h0 {
        h = c * h
        emit h
    }
    output y
    output z
    output d = jacobian(w[-1], h0)
    v = scan c over x, h = h0, g = zeros [2] {
        h = 0.5 * c * h + c
        g = g * 0.9 + h
        emit sin(h) + g
    }
    output e = vjp(v, h, 1.0)
    output f = vjp(g * h, h, 1.0)
    loss = sum(y * z) + sum(w[3:]^2)
    train loss with sgd(lr = 0.1)
}
END
cat >want.dsl <<'END'
model m {
    x = param [9, 2] init normal(1.0)
    h0 = param [2] init normal(1.0)
    h = h0
    y, z = repeat i in 0..9 {
        c = x[i]
        next = 0.5 * c * h + c
        emit 0.5 * c, 2 * next * (0.5 * h + 1)
        h = next
    }
    h = h0
    w = repeat i in 0..9 {
        h = x[i] * h
        emit h
    }
    output y
    output z
    output d = where(iota(2, axis = 0, rank = 2) == iota(2, axis = 1, rank = 2), prod(x, axis = 0), 0)
    h = h0
    g = zeros [2]
    repeat i in 0..9 {
        h = 0.5 * x[i] * h + x[i]
        g = g * 0.9 + h
    }
    output e = cos(h) + 1
    output f = h + g
    loss = sum(y * z) + sum(w[3:]^2)
    train loss with sgd(lr = 0.1)
}
END
same_results "derivatives" 1e-5 --entry infer
same_results "derivatives, gradients" 2e-4 --entry grad

# By what is reshaped again, as a last value is where it is emitted.
reshaped() {
    cat <<END
model reshaped {
    x = param [2, 3] init normal(1.0)
    b = reshape(x, [6])
    output d = $1
}
END
}
reshaped 'vjp(sum(reshape(b, [3, 2])^2), b, 1.0)' >got.dsl
reshaped '2 * b' >want.dsl
same_results "a derivative by what is reshaped again" 1e-6

# What is emitted of a carry that is a matrix, before its update and after, is computed for all rounds at once, along whatever axis
# the sequences go: as many launches for 64 rounds as for 24.
while read -r axis dims emitted; do
    cat >state.dsl <<END
dim T = 24
model state {
    r = param [$dims, 6] init normal(1.0)
    k = param [$dims, 6] init normal(1.0)
    w = param [$dims, 6] init uniform(0.2, 0.9)
    y = scan rt over r axis $axis, kt over k axis $axis, wt over w axis $axis, s = zeros [2, 3, 6, 6] {
        old = s
        s = expand_dims(wt, -1) * s + expand_dims(kt, -1) * expand_dims(rt, -2)
        emit $emitted
    }
    loss = mean(y^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
    "$FUSEC" verify state.dsl -D T=9 --target host,c99 --quiet --rounds=1 >log 2>&1 || fail "$emitted: $(cat log)"
    launches=$("$FUSEC" report state.dsl --target=host | grep launches$)
    [ "$launches" = "$("$FUSEC" report state.dsl -D T=64 --target=host | grep launches$)" ] || fail "$emitted: more launches for more rounds"
done <<'END'
2 2,3,T sum(expand_dims(rt, -1) * old, axis = -2)
2 2,3,T sum(expand_dims(rt, -1) * s, axis = -1)
2 2,3,T reshape(expand_dims(rt, -2) @ old, [2, 3, 6])
0 T,2,3 reshape(s @ expand_dims(rt, -1), [2, 3, 6])
END

# A large carry of which the rounds leave one value is not in memory for all of them.
cat >large.dsl <<'END'
model large {
    input x : f32[64, 4]
    input k : f32[2048, 2048]
    scan xi over x, h = zeros [2048, 2048] { h = 0.9 * h + sum(xi) * k }
    output y = sum(h)
}
END
arena=$("$FUSEC" report large.dsl --target=host | sed -n 's/^  arena //p')
[ "$arena" -le 67108864 ] || fail "a carry of 16 MiB: arena $arena"

# Many rounds that are nothing but an output.
cat >left.dsl <<'END'
model m {
    input x : f32[2, 30, 3]
    y = scan xi over x axis 1, h = zeros [2, 3] {
        h = tanh(h + xi)
        emit h
    }
    output y
}
END
"$FUSEC" verify left.dsl --quiet --rounds=1 --target=host,c99,cuda >log 2>&1 || fail "an output of 30 rounds: $(cat log)"

# What is replaced is forgotten, if it is infinite or no number too.
cat >body <<'END'
dim T = 150
model m {
    x = param [T, 3] init normal(1.0)
END
{
    cat body
    echo '    f = scan xi over x, h = -inf * ones [3] { h = where(xi > 0.8, xi, h)
        emit max(h, -5) }
    g = scan xi over x, h = zeros [3] { h = where(xi > 0.3, xi, h * 1e30)
        emit where(abs(h) < 1e3, h, 7) }'
    cat >ends <<'END'
    output f
    output g
    loss = sum(f) + sum(sin(x) * g)
    output loss
    train loss with sgd(lr = 0.1)
}
END
    cat ends
} >got.dsl
{
    cat body
    echo '    h = -inf * ones [3]
    f = repeat i in 0..T { h = where(x[i] > 0.8, x[i], h)
        emit max(h, -5) }
    h = zeros [3]
    g = repeat i in 0..T { h = where(x[i] > 0.3, x[i], h * 1e30)
        emit where(abs(h) < 1e3, h, 7) }'
    cat ends
} >want.dsl
same_results "forgotten" 1e-6 --entry infer
"$FUSEC" verify got.dsl --quiet --rounds=1 --target=c99,cuda >log 2>&1 || fail "forgotten: $(cat log)"

# A state-space layer as a body that says all of it: no launch more with more rounds, but for sums that need slices.
cat >ssm.dsl <<'END'
dim T = 64
model ssm {
    input x : f32[2, T, 8]
    a = param [8, 4] init normal(0.5)
    dt = softplus(linear(x, 8) as dt)
    y = scan xi over x axis 1, di over dt axis 1, bi over (linear(x, 4) as b) axis 1, ci over (linear(x, 4) as c) axis 1, h = zeros [2, 8, 4] {
        h = exp(-expand_dims(di, -1) * exp(a)) * h + expand_dims(di * xi, -1) * expand_dims(bi, 1)
        emit sum(h * expand_dims(ci, 1), axis = -1)
    }
    loss = mean(y^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
launches() { "$FUSEC" report ssm.dsl -D T="$1" --target=sm_80 | sed -n 's/^entry grad: \([0-9]*\) launches/\1/p'; }
few=$(launches 64) many=$(launches 512)
[ "$few" -le 28 ] && [ "$many" -le $((few + 12)) ] || fail "a state-space layer takes $few launches for 64 rounds, $many for 512"
"$FUSEC" verify ssm.dsl --quiet --rounds=1 --target=host,c99,cuda -D T=19 >log 2>&1 || fail "state space: $(cat log)"

# On a GPU long scans of few rows go in chunks.
cat >long.dsl <<'END'
dim T = 300
model long {
    input x : f32[T, 3]
    p = param [T, 3] init normal(0.5)
    f = sigmoid(p)
    y = scan fi over f, xi over x * p, h = ones [3] {
        h = fi * h + xi
        emit h
    }
    z = scan fi over f[::-1], xi over p[::-1], h = 0.5 * ones [3] {
        h = fi * h + xi
        emit h
    }
    a = cumsum(p, axis = 0)
    b = cumsum(p * x, axis = 0, reverse = true, exclusive = true)
    c = cumsum(p, axis = 0, exclusive = true)
    d = cumsum(sin(p), axis = 0, reverse = true)
    e = cumprod(1 + 0.01 * p, axis = 0)
    i = cumsum(int(x * 3), axis = 0)
    output y
    output z
    output a
    output b
    output c
    output d
    output e
    output i
    loss = mean(y * y) + mean(sin(z)) + mean(a * b) + mean(c * d) + mean(e)
    output loss
    train loss with sgd(lr = 0.1)
}
END
for t in 127 129 300; do
    "$FUSEC" verify long.dsl -D T=$t --rounds=1 --quiet --target=cuda >log 2>&1 || fail "$t elements one after the other: $(cat log)"
done
"$FUSEC" ssm.dsl -D T=2048 --entry=infer -o long.tile --target=sm_80 || fail "no Tile IR"
! grep -q 'loop t in 0\.\.2048' long.tile || fail "2048 rounds one after the other"

# What is rounded to bf16 at each step is no prefix in f32; carries that need each other are none either, and have more
# parts than one kernel has tensors.
cat >rounded.dsl <<'END'
model m {
    precision bf16
    x = param [16, 4] init normal(1.0)
    y = scan xi over (x @ (param [4, 4] init normal(1.0) as w)), h = zeros [4] {
        h = 0.5 * h + xi
        emit h
    }
    output y
    loss = sum(y * y)
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" verify rounded.dsl --quiet --rounds=1 --target=host,c99,cuda >log 2>&1 || fail "rounded: $(cat log)"
"$FUSEC" rounded.dsl -o rounded.graph --entry=infer && ! grep -q ' scan ' rounded.graph || fail "a prefix of what is rounded at each step"
cat >coupled.dsl <<'END'
dim T = 90
dim N = 3
model m {
    input x : f32[2, T, N]
    a = sigmoid(x * (param [N] init normal(1.0) as w))
    ids, ys = scan ai over a axis 1, xi over x axis 1, h = zeros [2, N], g = zeros [2, N] {
        next = ai * h - g * 0.5 + xi
        g = ai * g * 0.5 + h * 0.25
        h = next
        emit int(h * 4), h
    }
    output ids
    loss = mean(ys^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
"$FUSEC" verify coupled.dsl --quiet --rounds=1 --target=host,c99,cuda >log 2>&1 || fail "coupled: $(cat log)"
for kind in o c ptx; do "$FUSEC" coupled.dsl -D T=300 -o coupled.$kind || fail "300 rounds of coupled carries, .$kind"; done

# The rounds of a backward have one kernel for all, whatever of them is emitted.
cat >rnn.dsl <<'END'
dim T = 24
model rnn {
    input x : f32[4, T, 8]
    y = scan xi over x axis 1, h = zeros [4, 16] {
        h = tanh((linear(xi, 16) as in) + h @ (param [16, 16] init normal(0.2) as w))
        emit h
    }
    loss = mean(y[:, -1]^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
kernels() { "$FUSEC" rnn.dsl -D T="$1" -o rnn.ptx --entry=grad && grep -c '\.entry' rnn.ptx; }
few=$(kernels 24) many=$(kernels 96)
[ "$many" -le $((few + 4)) ] || fail "the backward of 24 rounds has $few kernels, of 96 $many"
