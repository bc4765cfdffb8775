#!/bin/sh
# Updates in place where products walk a parameter in another shape: a convolution by one point, rows of a sequence.  They go with the
# kernel that has the gradient; what is read at other elements than are written is computed aside.
. "$SRC/tests/support/script.sh"
quick_c
all_targets

# kernels FILE PATTERN TARGET: kernels of a step whose line in the report has it
kernels() { "$FUSEC" report "$1" --target "$3" --entry step | grep -c "^  [a-z]*_[a-z]*_[0-9]* .*$2"; }
right() { "$FUSEC" verify "$1" --target $targets --rounds 2 --quiet >log 2>&1 || fail "$1: $(cat log)"; }

for optimizer in 'sgd(lr = 0.1)' 'momentum(lr = 0.1)' 'adamw(lr = 0.01, decay = 0.1)'; do
    cat >point.dsl <<END_DSL
model point {
    input x : f32[4, 6, 6, 16]
    loss = mean(conv2d(x, 24, 1)^2)
    output loss
    train loss with $optimizer
}
END_DSL
    cat >rows.dsl <<END_DSL
model rows {
    input u : f32[2, 8, 32]
    x = param [2, 8, 32] init normal(1.0)
    loss = mean((linear(layernorm(x) as n, 48) as up)^2) + sum(x * u)
    output loss
    train loss with $optimizer
}
END_DSL
    for model in point rows; do
        right $model.dsl
        for target in host c99 sm_80; do
            [ "$(kernels $model.dsl ' update ' $target)" = 0 ] || fail "$model, $optimizer, $target: a kernel for the update alone"
        done
    done
done

# p and w each read in the kernel that updates the other: one is copied over when both have been read
cat >cycle.dsl <<'END_DSL'
model cycle {
    p = param [1, 1, 2] init normal(0.5)
    y = self_attention(p, 2, mask = "causal") as c
    loss = sum(y)
    output loss
    train loss with adam(eps = 0.01, lr = 0.125)
}
END_DSL
right cycle.dsl

# new values in two shapes, read again in a third, the caller's, put together, of another's elements, in another order
cat >shapes.dsl <<'END_DSL'
model shapes {
    input x : f32[6, 8]
    p = param [2, 3, 8] init normal(1.0)
    state a = zeros [6, 8]
    state b = ones [48]
    state c = ones [2, 24]
    state d = ones [4, 12]
    state e = ones [12, 4]
    new = a * 0.5 + x
    other = reshape(new, [3, 16]) + reshape(b, [3, 16])
    turned = reshape(transpose(d) + e, [48])
    if training {
        a <- new
        b <- reshape(new, [48]) + 1
        c <- reshape(other, [2, 24]) - reshape(a, [2, 24])
        d <- reshape(turned, [4, 12]) * 0.5
        e <- reshape(concat(reshape(other, [48])[0:24], reshape(new, [48])[24:48], axis = 0), [12, 4])
    }
    output y = reshape(other, [48])
    loss = sum(reshape(p, [6, 8]) * new)^2 + mean(reshape(p, [48])^2 * turned) + sum(c * d[0, 0])
    output loss
    train loss with momentum(lr = 0.01)
}
END_DSL
right shapes.dsl

# programs at one edge of a product's grid alone write the sum over a factor: the others read the old value
cat >edge.dsl <<'END_DSL'
model edge {
    input x : f32[64, 600]
    input g : f32[64, 80]
    state S = ones [600, 80]
    state s = ones [80]
    old = s
    S <- transpose(x) @ g + old
    s <- old * 0.5 + sum(g, axis = 0)
}
END_DSL
cat >layer.dsl <<'END_DSL'
model layer_by_hand {
    input x : f32[64, 600]
    input y : f32[64, 80]
    state w = zeros [600, 80]
    state b = zeros [80]
    e = x @ w + b - y
    w <- 0.9 * w - 0.01 * transpose(x) @ e + 0.01 * b
    b <- b - 0.01 * sum(e, axis = 0)
    output loss = mean(e^2)
}
END_DSL
cat >value.dsl <<'END_DSL'
model value {
    input x : f32[64, 600]
    input g : f32[64, 80]
    input h : f32[80, 40]
    state S = ones [600, 80]
    w = param [80] init ones
    t = tanh(sum(h, axis = 1) * w)
    S <- transpose(x) @ g + t
    u = exp(t + sum(g, axis = 0))
    loss = sum((u @ h)^2) + sum(u)
    output loss
    train loss with sgd(lr = 0.01)
}
END_DSL
for model in edge layer value; do right $model.dsl; done
exit $bad
