# Instances that are shared, repeats that count and emit, several `train` lines: the same as what can be written without them.
. "$SRC/tests/support/script.sh"
quick_c

# a layer applied again: its parameters, its states as they are by then, in layers, repeats and scans
cat >got.dsl <<'END'
layer norm(x) {
    gamma = param [x.dim(-1)] init uniform(0.5, 1.5)
    state mean_of = zeros [x.dim(-1)]
    mean_of <- 0.5 * mean_of + mean(x, axis = 0)
    return (x - mean_of) * gamma
}
layer net(x, n) {
    h = tanh(norm(linear(x, n) as up) as first)
    h = tanh(linear(h, n) as mid)
    h = tanh(linear(h, n) sharing mid)
    return linear(h, 2) as down
}
layer twice(x) {
    h = linear(x, 2) as one
    return linear(h, 2) sharing one
}
model m {
    a = sin(float(reshape(iota(15), [5, 3])))
    b = cos(float(reshape(iota(15), [5, 3])))
    u = net(a, 4) as enc
    v = net(b, 4) sharing enc
    w = linear(u, 2) as out
    repeat 3 { w = tanh(linear(w, 2) sharing out) }
    y = scan x over concat(u, v, axis = 0), h = zeros [2] {
        h = tanh((linear(x + h, 2) as cell) + (twice(x) as t))
        h = linear(h, 2) sharing cell
        h = twice(h) sharing t
        emit h
    }
    output y
    output w
    loss = mean((u - v)^2) + sum(sin(w)) + sum(y)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >want.dsl <<'END'
layer linear(k, n) {
    w = param [k, n] init kaiming
    return w, (param [n] init zeros as b)
}
layer norm(n) {
    gamma = param [n] init uniform(0.5, 1.5)
    state mean_of = zeros [n]
    return gamma
}
layer of_net(k, n) {
    w1, b1 = linear(k, n) as up
    gamma = norm(n) as first
    w2, b2 = linear(n, n) as mid
    w3, b3 = linear(n, 2) as down
    return w1, b1, gamma, w2, b2, w3, b3
}
layer of_twice(n) {
    w, b = linear(n, n) as one
    return w, b
}
fn net(x, mu, w1, b1, gamma, w2, b2, w3, b3) {
    u = x @ w1 + b1
    nu = 0.5 * mu + mean(u, axis = 0)
    h = tanh((u - nu) * gamma)
    return tanh(tanh(h @ w2 + b2) @ w2 + b2) @ w3 + b3, nu
}
model m {
    a = sin(float(reshape(iota(15), [5, 3])))
    b = cos(float(reshape(iota(15), [5, 3])))
    w1, b1, gamma, w2, b2, w3, b3 = of_net(3, 4) as enc
    u, first = net(a, zeros [4], w1, b1, gamma, w2, b2, w3, b3)
    v, second = net(b, first, w1, b1, gamma, w2, b2, w3, b3)
    w4, b4 = linear(2, 2) as out
    w = u @ w4 + b4
    w = tanh(tanh(tanh(w @ w4 + b4) @ w4 + b4) @ w4 + b4)
    w5, b5 = linear(2, 2) as cell
    w6, b6 = of_twice(2) as t
    y = scan x over concat(u, v, axis = 0), h = zeros [2] {
        h = tanh((x + h) @ w5 + b5 + ((x @ w6 + b6) @ w6 + b6))
        h = h @ w5 + b5
        h = (h @ w6 + b6) @ w6 + b6
        emit h
    }
    output y
    output w
    loss = mean((u - v)^2) + sum(sin(w)) + sum(y)
    output loss
    train loss with sgd(lr = 0.1)
}
END
for entry in infer grad; do same_results "sharing, $entry" 1e-5 --entry $entry --seed 3; done
"$FUSEC" verify got.dsl --quiet --rounds=1 >log 2>&1 || fail "sharing, against float64: $(cat log)"
paths() { "$FUSEC" report "$1.dsl" | sed -n '/^parameters/,/^outputs/p'; }
paths got >log
paths want | diff - log || fail "other parameters and states"

# a repeat that counts, and emits
cat >ends <<'END'
    output skips
    output sizes
    output a
    output q
    output last
    loss = sum(sin(skips)) + sum(q^2)
    output loss
    train loss with sgd(lr = 0.1)
}
layer mix(x) {
    w = param [4, 4] init constant(0.3)
    return tanh(x @ w + (param [4] init zeros as b))
}
fn total(h) {
    s = 0.0
    repeat i in 0..4 { s = s + h[0, i] }
    return s
}
fn later(t, n) { return pad(t, [[0, 0], [n, 0], [0, 0]])[:, :16] }
END
cat >got.dsl <<'END'
let first = 1
model m {
    x = sin(float(reshape(iota(128), [2, 16, 4])))
    h = x
    skips, sizes = repeat i in first..first + 3 as block {
        h = h + later(mix(h) as mix, 2^i)
        emit mean(h, axis = 1), float(i)
    }
    a = repeat 2 { emit total(h) }
    repeat j in 0..2 {
        p = scan v over x axis 1, s = zeros [2, 4] {
            s = s + float(j) * v
            emit s
        }
        q = repeat k in 0..3 { emit p[:, k] * float(i + j) }
    }
    last = float(i)
END
cat ends >>got.dsl
cat >want.dsl <<'END'
layer three(x) {
    repeat 1 as none { x = x }
    a = x + later(mix(x) as m1, 2)
    b = a + later(mix(a) as m2, 4)
    h = b + later(mix(b) as m3, 8)
    return a, b, h
}
model m {
    x = sin(float(reshape(iota(128), [2, 16, 4])))
    u, v, h = three(x) as block
    skips = concat(mean(u, axis = 1), mean(v, axis = 1), mean(h, axis = 1), axis = 0)
    skips = reshape(skips, [3, 2, 4])
    sizes = 1.0 + float(iota(3))
    a = sum(h[0, :4], axis = 0) * ones [2, 4]
    q = transpose(cumsum(x, axis = 1)[:, :3], [1, 0, 2]) * 4.0
    last = 3.0
END
cat ends >>want.dsl
same_results "repeats" 1e-5 --entry infer
"$FUSEC" verify got.dsl --quiet --rounds=1 >log 2>&1 || fail "repeats, against float64: $(cat log)"
[ "$(paths got | grep -c '^  block\.[123]\.mix\.[wb] ')" = 6 ] || fail "paths of a repeat that counts: $(paths got)"

# each line trains its own by its own loss; without `only` the rest
cat >head <<'END'
layer mlp(x, n) { return linear(relu(linear(x, 16) as up), n) as down }
model m {
    real = sin(float(reshape(iota(32), [8, 4])))
    noise = cos(float(reshape(iota(24), [8, 3])))
    fake = mlp(noise, 4) as g
    on_real = mlp(real, 1) as d
    on_fake = mlp(fake, 1) sharing d
    loss_d = mean(softplus(-on_real) + softplus(on_fake))
    loss_g = mean(softplus(-on_fake))
    output loss_d
    output loss_g
END
steps() { # FILE LINE..: new parameters of a program with these lines
    file=$1
    shift
    { cat head; printf '    %s\n' "$@"; echo "}"; } >one.dsl
    "$FUSEC" run one.dsl --target $target --entry step --seed 4 --outputs "$file" --quiet >log 2>&1 || fail "$*: $(cat log)"
}
d='train loss_d with adam(lr = 0.01) only "d.*" clip_norm 0.1' g='train loss_g with sgd(lr = 0.1) only "g.*"'
for target in host interp; do
    steps both.out "$d" "$g"
    steps rest.out "$g" 'train loss_d with adam(lr = 0.01) clip_norm 0.1'
    "$BUILD/compare_safetensors" compare both.out "" rest.out 0 || fail "the rest is not what no other line selects"
    steps d.out "$d"
    steps g.out "$g"
    for line in d g; do
        for file in both $line; do "$BUILD/compare_safetensors" extract $file.out param/$line. $file.part || fail "$file.out: no parameters"; done
        "$BUILD/compare_safetensors" compare both.part "" $line.part 1e-6 || fail "$line alone on $target: other numbers"
    done
done
for options in "" --check-finite "-D half=true"; do
    { echo "let half = false"; cat head; printf '    %s\n' "$d" "$g"; echo "}"; } >one.dsl
    sed -i 's/^layer mlp(x, n) {.*/layer mlp(x, n) {\n    if half { precision f16 }\n    return linear(relu(linear(x, 16) as up), n) as down\n}/' one.dsl
    "$FUSEC" verify one.dsl $options --quiet --rounds=1 >log 2>&1 || fail "two lines, $options, against float64: $(cat log)"
done
exit $bad
