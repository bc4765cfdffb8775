#!/bin/sh
# Axes without elements, in every place that an op has: what does not depend on them is computed all the same, a bias's gradient
# beside a product over no features above all.  Against the float64 evaluation, with an extent of 0, and with S - 1 at S = 1.
. "$SRC/tests/support/script.sh"
quick_c
targets=host,interp,c99
has_software_gpu && targets=$targets,cuda

tried=0
try() { # SYMBOLIC OPTION..: the lines of a model on stdin, N the extent
    symbolic=$1
    shift
    {
        if [ "$symbolic" = 1 ]; then echo 'dim S <= 6'; fi
        echo 'model m {'
        if [ "$symbolic" = 1 ]; then sed 's/\<N\>/S - 1/g'; else sed 's/\<N\>/0/g'; fi
        printf 'output loss\ntrain loss with momentum(lr = 0.1)\n}\n'
    } >m.dsl
    "$FUSEC" verify m.dsl --target "$targets" "$@" >log 2>&1 || fail "$(cat m.dsl log)"
    grep -q '[1-9][0-9]* elements compared, 0 undecided' log || fail "not decided: $(cat m.dsl log)"
    tried=$((tried + 1))
}
fixed() { cat >lines; try 0 <lines; }
both() { cat >lines; try 0 <lines; try 1 --extent S=1 <lines; try 1 <lines; }

fixed <<'DSL'
input x : f32[4, N]
loss = sum((linear(x, 3) as head)^2)
DSL
fixed <<'DSL'
input x : f32[4, N]
h = relu(linear(x, 3) as up)
loss = mean((linear(h, 2) as down)^2)
DSL
fixed <<'DSL'
input x : f32[4, 5]
w = param [5, N] init normal(1.0)
b = param [N] init normal(1.0)
loss = sum((x @ w + b)^2) + sum(b)
DSL
fixed <<'DSL'
input x : f32[4, N]
w = param [N, 3] init normal(1.0)
v = param [N, 2] init normal(1.0)
b = param [3] init ones
c = param [2] init ones
loss = sum((x @ w + b)^2) + sum((x @ v + c)^3)
DSL
fixed <<'DSL'
input x : f32[4, N]
g = param [N] init ones
loss = sum((x * g)^2) + sum(exp(sum(x, axis = 1))) + sum(softmax(x * g, axis = 1)) + sum(cumsum(x * g, axis = 1)^2)
DSL
fixed <<'DSL'
input x : f32[2, 4, 4, N]
loss = sum((conv2d(x, 2, k = 3) as conv)^2)
DSL
both <<'DSL'
input x : f32[N, 4]
loss = sum((linear(x, 3) as head)^2)
DSL
both <<'DSL'
input x : f32[N, 4, 5]
w = param [5, 3] init normal(1.0)
b = param [3] init ones
loss = sum((x @ w + b)^2) + sum(exp(b))
DSL
both <<'DSL'
input x : f32[4, N]
w = param [4, 3] init normal(1.0)
y = transpose(x, [1, 0]) @ w
loss = sum(y^2) + sum(exp(sum(w, axis = 0)))
DSL
both <<'DSL'
input x : f32[2, N, 3]
w = param [3, 3] init normal(1.0)
a = softmax((x @ w) @ transpose(x, [0, 2, 1]), axis = 2)
loss = sum((a @ x)^2) + sum(w)
DSL
both <<'DSL'
input x : f32[4, N]
p = param [4, 3] init normal(1.0)
g = param [4] init ones
y = concat(x, p, axis = 1)
loss = sum(y^2) + sum(max(concat(x, reshape(g, [4, 1]), axis = 1), axis = 1)^2)
DSL
both <<'DSL'
input x : f32[N]
t = param [5, 3] init normal(1.0)
k = int(x * 0)
loss = sum(t[k]^2) + sum(t)
DSL
both <<'DSL'
input x : f32[N]
p = param [5] init normal(1.0)
q = param [4] init normal(1.0)
y[i, j] = p[i] * x[j]
z[i, j] = x[i] * q[j]
loss = sum(y^2) + sum(exp(p)) + sum((y @ z)^2) + sum(exp(sum(z, axis = 0) + q))
DSL
echo "$tried programs"
exit $bad
