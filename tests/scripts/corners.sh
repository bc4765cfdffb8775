#!/bin/sh
# Small programs at the edges of what kernels are made for: extents of 0 and 1, single elements on their way through shared
# memory, sums over several short loops, products too large to run, views in tf32, gradients that always overflow.  Every
# form compiles; what runs gives the same results and gradients everywhere.
. "$SRC/tests/support/script.sh"
compiler=${CC:-cc}
quick_c
targets="host interp"
command -v "${CC:-cc}" >/dev/null && targets="$targets c99"
[ -e "$BUILD/ptxsim/libcuda.so.1" ] && targets="$targets sm_80 sm_90a"

call() { # NAME TARGET OPTIONS
    name=$1 target=$2; shift 2
    case $target in
    sm_*) LD_LIBRARY_PATH=$BUILD/ptxsim "$FUSEC" run "$name.dsl" --target cuda --arch "$target" --verify "$@" ;;
    *) "$FUSEC" run "$name.dsl" --target "$target" --verify "$@" ;;
    esac
}

forms() { # NAME: compiles in every form
    for form in "x.o" "x.c" "x.ptx --target sm_80" "x.ptx --target sm_90a"; do
        "$FUSEC" "$1.dsl" -o $form --verify >log 2>&1 || fail "$1 as $form: $(cat log)"
    done
}

agree() { # NAME TOLERANCE [TARGETS]
    forms "$1"
    for t in ${3:-$targets}; do
        call "$1" "$t" --entry grad --outputs "$t.out" >log 2>&1 || fail "$1 on $t: $(cat log)"
        grep '^ptxsim' log && fail "$1 on $t: findings"
        "$BUILD/compare_safetensors" compare host.out "" "$t.out" "$2" || fail "$1 on $t: other numbers"
    done
    echo "$1: ${3:-$targets}"
}

model() { # NAME: what reads p and sums to a loss
    { printf 'model %s {\n' "$1"; cat; printf '    output loss\n    train loss with sgd(lr = 0.1)\n}\n'; } >"$1.dsl"
}

model nothing_between <<'END' # products whose rows, columns and sums are nothing
    p = param [3, 4] init normal(1.0)
    z = linear(gelu(linear(p, 0) as into), 5) as out_of
    w = param [0, 0, 4, 2] init normal(1.0)
    c[i in 0..3, j] = sum[r, s, k] p[i + r, k] * w[r, s, k, j]
    loss = sum(z^2) + sum(c) + sum(p * p) + sum(softmax(linear(p, 0) as none_at_all))
END
agree nothing_between 1e-5

model windows_over_nothing <<'END' # an image without rows, and no images
    p = param [3, 3, 3, 2] init normal(1.0)
    image = param [2, 0, 6, 3] init normal(1.0)
    many = param [0, 6, 6, 3] init normal(1.0)
    y = tanh(convolve(image, p, 2, 6, 2, 1, 1, 1))
    loss = sum(y^2) + sum(convolve(many, p, 6, 6, 1, 1, 1, 1)^2) + sum(p * p)
END
agree windows_over_nothing 1e-5

model ten_axes <<'END' # axes that nothing joins, with programs along the ninth
    p = param [2, 2, 2, 2, 2, 2, 2, 2, 2, 1300] init normal(1.0)
    q = param [2, 2, 1, 2, 1, 2, 1, 2, 1] init normal(1.0)
    s = sum(p, axis = 9)
    y = transpose(s * q, [8, 6, 4, 2, 7, 5, 3, 1, 0])
    z = softmax(p * expand_dims(q, 9))
    loss = sum(y^2) + sum(z * z)
END
agree ten_axes 1e-4

model one_tensor_twice <<'END' # both operands of a product are one tensor, each summed in its own way
    p = param [24, 24] init normal(0.5)
    x = param [7, 7] init normal(0.5)
    w = param [2, 5, 6, 3] init normal(0.5)
    y[n, i in 0..5, j in 0..6] = sum[r in 0..3, s, c] w[n, i + r - 1, s, c] * w[n, r, s + j - 2, c]
    rows = sum(p, axis = 0) + sum(p, axis = 1)
    a = sum(p @ p) + sum((transpose(p) @ p)^2) + sum((p @ transpose(p)) * sum(p, axis = 1, keep = true))
    b = sum(x @ x @ x) + sum((x @ x) * x) + sum(x * x * transpose(x)) + sum(softmax(x @ transpose(x)) @ x)
    loss = 0.01 * (a + b + sum(rows * rows) + sum(y * y))
END
agree one_tensor_twice 1e-4
call one_tensor_twice host --entry grad -fno-canonicalize -fno-jacobian-gemm -fno-fuse --outputs plain.out >log 2>&1 ||
    fail "one_tensor_twice: $(cat log)"
"$BUILD/compare_safetensors" compare host.out "" plain.out 1e-4 || fail "sums over one of two equal operands are those of the other"

model by_samples <<'END' # one sample at a time, a product is a vector times a matrix, walked as it lies
    input x : f32[3, 300]
    h = tanh(linear(x, 130) as into)
    y = tanh(linear(h, 4500) as wide) * 0.1
    z = tanh(linear(y, 7) as out_of)
    loss = 0.1 * sum(z * z) + 0.01 * sum(y @ transpose(y))
END
"$FUSEC" verify by_samples.dsl -fno-jacobian-gemm --target host,interp --rounds 1 --quiet >log 2>&1 || fail "by_samples: $(cat log)"
"$FUSEC" by_samples.dsl -fno-jacobian-gemm -o by.tile --entry grad
[ "$(grep -c 'for sample' by.tile)" = 3 ] || fail "by_samples: $(grep -c 'for sample' by.tile) weights' gradients add up sample by sample"

model far_strides <<'END' # which no rewrite may multiply by a divisor
    input x : f32[9]
    input k : f32[3]
    p = param [3] init ones
    y[i in 0..4] = sum[n] x[(i * 274877906944 + n) / 3] * k[n]
    z[i in 0..6] = sum[n] x[(i + n * 274877906944) / 3] * k[n] * p[n]
    loss = sum(y) + sum(z)
END
"$FUSEC" verify far_strides.dsl --target host,interp --rounds 1 --quiet >log 2>&1 || fail "far_strides: $(cat log)"

model after_another_kernel <<'END' # what does not fit beside the sums of one product joins another kernel as if never tried
    v = param [5, 5] init normal(0.5)
    p = param [1, 1, 2, 2] init normal(0.5)
    q = param [2] init normal(0.5)
    s = param [5, 5] init normal(0.5)
    z = p @ q
    y[i in 0..5] = -(max[j in 0..5] s[j, j]) * max(z[i, i, (2 - i) / 2], v[i, 2*i + 2])
    h = v
    repeat 2 as block { h = tanh(linear(h, 5) as up) + s }
    loss = mean(y) + sum(h)
END
agree after_another_kernel 1e-5

model read_past_the_end <<'END' # what an index reads past the end of is 0, and so is its gradient: other shapes than the whole
    p = param [3] init normal(0.5)
    q = param [1, 1] init normal(0.5)
    v[i in 0..17] = 0.5 * p[i]
    u[i in 0..4, j in 0..6] = q[j, -i] * q[i, i + j]
    z[i in 0..8] = u[0, i] * p[(3*i - 2) / 4]
    loss = 0.1 * sum(v) + 0.1 * sum(concat(u, zeros [2, 6], u, axis = 0)) + sum(z)
END
agree read_past_the_end 1e-6
call read_past_the_end interp --entry grad -fno-canonicalize -fno-jacobian-gemm --outputs plain.out >log 2>&1 ||
    fail "read_past_the_end: $(cat log)"
"$BUILD/compare_safetensors" compare host.out "" plain.out 1e-6 || fail "the gradient of what is read past the end"

model one_element <<'END' # rows of one element in f16
    precision f16
    p = param [2, 9, 12] init normal(0.3)
    o = linear(p, 5) as g
    loss = mean((linear(concat(p, o, axis = -1), 1) as o)^2) + mean(linear(p + (linear(o, 1) as n), 3) as r)
END
agree one_element 5e-3

model one_pixel <<'END' # windows of which all but one element lie outside: the pixel is chosen by a mask and by what it is
    p = param [2, 1, 1, 3] init normal(1.0)
    h = max_pool2d(conv2d(p, 8, 1) as mix, 3, stride = 1, padding = 1)
    loss = sum(h^2) + sum(avg_pool2d(relu(h), 3, stride = 1, padding = 1))
END
agree one_pixel 1e-5

model views_in_tf32 <<'END' # products of what is read at strides and diagonals
    precision tf32
    p = param [14, 12] init normal(1.0)
    q = param [5, 3, 4] init normal(1.0)
    v[i in 0..6, r in 0..3] = p[2*i + r, 1]
    d[i in 0..6, j in 0..6] = p[i + 1, i + j]
    loss = sum((d @ v)^2) + sum((v[0:5] @ q)^2)
END
agree views_in_tf32 5e-3

model unread_loop <<'END' # a summed loop that nothing is read along: as often as it has steps
    p = param [64, 96] init uniform(0.5, 1.0)
    a = param [64] init uniform(0.5, 1.0)
    b = param [96] init uniform(0.5, 1.0)
    y = sum[i, j, l in 0..5] a[i] * b[j] * p[i, j]
    loss = y
END
agree unread_loop 1e-5
call unread_loop host --entry grad -fno-jacobian-gemm --outputs plain.out >log 2>&1 || fail "unread_loop: $(cat log)"
"$BUILD/compare_safetensors" compare host.out "" plain.out 1e-5 || fail "a loop that nothing is read along is lost"

model small_maps <<'END' # a convolution of maps of 2 x 2 whose weights are read where they lie
    p = param [32, 2, 2, 256] init normal(1.0)
    y = conv2d(relu(p), 1024, 3) as c
    loss = mean(y^2)
END
agree small_maps 1e-4 "host c99"

model too_large_to_run <<'END' # and yet there is a plan
    p = param [4, 8] init normal(1.0)
    loss = mean((linear(tanh(linear(p, 2147483647) as up), 8) as down)^2)
END
forms too_large_to_run
"$FUSEC" report too_large_to_run.dsl --target sm_90a >log 2>&1 || fail "no report: $(cat log)"

model overflows <<'END' # in f16, whatever the loss is scaled by
    precision f16
    p = param [8, 8] init constant(30)
    loss = sum(((p @ p) * 60000) @ p) * 60000
END
for t in $targets; do
    call overflows "$t" --entry grad >log 2>&1 && grep -q '^loss scale: 32768, 1 step skipped' log ||
        fail "gradients overflow on $t, and nothing says so: $(cat log)"
    call overflows "$t" --entry step --steps 31 >log 2>&1 && fail "$t goes on below the least loss scale"
    grep -q 'at the least loss scale; use precision bf16' log || fail "$t: $(cat log)"
done

# Subscripts that move from a bound known at run time by different steps: GCC 12 makes nothing of such loops where they are signed.
for y in 'z[:S][::-1] * z[::-2]' 'table[m[:S][::-1]] * table[m[:2*S][::-2]]' 'table[m[:S][::-1]] + table[m[:2*S][::-2]]' \
    'table[m[:2*S:2]] * table[m[:2*S][::-2]]' 'table[m[:S]] * table[m[2*S::2]]' 'table[m[:S][::-1]] - table[m[:2*S:2]] - table[m[:2*S][::-2]]'; do
    cat >moving.dsl <<END
dim S <= 7
model moving {
    input m : i32[4*S] in 0..9
    input table : f32[9, 4]
    input z : f32[2*S, 4]
    output y = $y
}
END
    CC=$compiler "$FUSEC" verify moving.dsl --target=host,c99 --rounds 4 >log 2>&1 || fail "$y: $(cat log)"
done

model many_parts <<END # a concat of more tensors than a kernel takes
    p = param [300, 3] init normal(1.0)
$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "    q%d = exp(p[%d:%d] * 0.1)\n", i, i, i + 1 }')
    z = concat($(awk 'BEGIN { for (i = 0; i < 300; i++) printf "q%d, ", i }')axis = 0)
    loss = sum(z * z) + sum(z[1:] * z[:-1])
END
agree many_parts 1e-5

# sums over indices that no factor has, in every precision; more greatest values of one tensor than a kernel has axes for; an empty
# product of constants, sample by sample
for precision in f32 bf16 f16 tf32; do
    cat >free.dsl <<END
model free {
    precision $precision
    a = param [33, 20] init normal(1.0)
    b = param [20, 40] init normal(1.0)
    c = param [7] init normal(1.0)
    d[i, j] = sum[l in 0..5, m] a[i, m] * b[m, j]
    e = sum[l in 0..5, m] c[m] * c[m]
    f[v in 0..9] = sum[l in 0..64, m] c[m] * c[m]
    g[i] = sum[l in 0..5, k in 0..3, m] a[i, m] * a[i, m]
    h[i] = sum[m, l in 0..5] a[i, m] * b[m, l / 2]
    output d
    output e
    output f
    output g
    output h
}
END
    "$FUSEC" verify free.dsl --rounds=1 --quiet >log 2>&1 || fail "free sums in $precision: $(cat log)"
done
cat >greatest.dsl <<'END'
dim N = 9
model greatest {
    p = param [2, N, 3] init normal(1.0)
    ys = scan v over p axis 1, h = 0.0 {
        h = h + sum(max(v, axis = 0))
        emit min(v, axis = 0)
    }
    loss = h + sum(sin(ys))
    output loss
    train loss with sgd(lr = 0.1)
}
END
for n in 8 9 30; do
    "$FUSEC" verify greatest.dsl -D N=$n --rounds=1 --quiet >log 2>&1 || fail "$n greatest values: $(cat log)"
done
cat >none.dsl <<'END'
model none {
    input b : f32[0, 1]
    output y = (zeros [1, 0]) @ b
}
END
"$FUSEC" verify none.dsl -fno-jacobian_gemm --rounds=1 --quiet >log 2>&1 || fail "an empty product: $(cat log)"

# forward nodes behind the first backward one, which reads what is recomputed with them
cat >lines.dsl <<'END'
model lines {
    input x : f32[17, 1]
    n = batchnorm(x * (param [1] init ones as w)) as c
    d = jvp(n, x, 1.0)
    loss = mean(concat(d, d, axis = 0) @ (param [1, 1] init ones as p))
    other = mean(n * n)
    train loss with sgd(lr = 0.1) only "p", "w"
    train other with sgd(lr = 0.1) only "c.gamma"
}
END
"$FUSEC" verify lines.dsl --checkpoint=sqrt --rounds=1 --quiet >log 2>&1 || fail "two lines, recomputed: $(cat log)"
# a product that reads a tensor and the sum of it: that cannot be taken in the product's own loop
for sum in 'sum(x, axis = 1) @ x' 'transpose(x[0]) @ sum(x, axis = 1)' 'x[1] @ broadcast(sum(x[1], axis = 0), [4, 4])'; do
    printf 'model own {\n    x = param [4, 4, 4] init normal(1.0)\n    y = %s\n    output y\n    loss = variance(y)\n    train loss with sgd(lr = 0.1)\n}\n' "$sum" >own.dsl
    "$FUSEC" verify own.dsl --rounds=1 --quiet >log 2>&1 || fail "a product with the $sum: $(cat log)"
done

# of a dropout of all nothing is left, and its gradient is 0; an image is mirrored by up to all but its own element
printf 'model none {\n    x = param [6] init normal(1.0)\n    loss = sum(dropout(x, 1.0))\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n' >none.dsl
for target in host c99; do
    "$FUSEC" run none.dsl --target $target --entry grad --outputs none.safetensors >log 2>&1 || fail "dropout(x, 1): $(cat log)"
    [ "$(tail -c 24 none.safetensors | od -An -v -tx4 | tr -d ' 0\n')" = '' ] || fail "dropout(x, 1) on $target: a gradient that is not 0"
done
printf 'model far {\n    x = param [1, 6, 6, 2] init normal(1.0)\n    loss = mean((conv2d(x, 3, 11, padding = "reflect") as c)^2)\n    train loss with sgd(lr = 0.1)\n}\n' >far.dsl
"$FUSEC" verify far.dsl --rounds=1 --quiet >log 2>&1 || fail "an image mirrored as far as it goes: $(cat log)"

# an expression that both sweeps have is one node, of the backward sweep where that has it first
cat >empty.dsl <<'END'
model empty {
    a = param [] init normal(0.5)
    p = param [2] init normal(0.5)
    q = param [] init normal(0.5)
    h = p
    repeat 1 { h = tanh(linear(h, 2) as up) + p }
    r = param [1] init normal(0.5)
    input c : f32[1]
    y[i in 0..8, j in 0..5] = min((sum[k in 0..5, l in 0..1] ((float(mod(k, 3)) + p[0]) + abs(p[j]))), max(max((float(j) + r[j]), p[j]), (-max(c[i - j - 1], p[j]))))
    input b : f32[2, 1, 1]
    hollow = param [0] init normal(0.5)
    w = param [2, 1] init normal(0.5)
    z = h @ w
    v = jacobian(hollow, b) >= q
    loss = (a + mean(y, axis = all, keep = false)) + mean(z, axis = 0, keep = false)
    output v
    output loss
    train loss with sgd(lr = 0.125)
}
END
"$FUSEC" verify empty.dsl --checkpoint=sqrt --rounds=1 --quiet >log 2>&1 || fail "a comparison behind the backward sweep: $(cat log)"
exit $bad
