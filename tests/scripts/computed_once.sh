# What gets memory, and what is computed where it is read: no value goes through memory that ends in one place, windows are
# not written out and their gradient is an image, what is dear is not computed at every window; sums go along memory.  The
# numbers are those of the interpreter.
. "$SRC/tests/support/script.sh"
quick_c

cat >loss.dsl <<'END'
model loss {                                 # the difference is read twice, by one sum
    p = param [32, 512] init normal(1.0)
    t = param [32, 512] init normal(1.0)
    output y = mse(p, t)
}
END
cat >pool.dsl <<'END'
model pool {                                 # the greatest of overlapping windows, and where it stands
    x = param [2, 12, 12, 8] init normal(1.0)
    u = param [2, 5, 5, 8] init normal(1.0)
    y = max_pool2d(x, 3, stride = 2)
    loss = sum(y^2 * u)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >dear.dsl <<'END'
model dear {
    x = param [1, 32, 32, 8] init normal(1.0)
    output y = max_pool2d(tanh(x), 3, stride = 1)
}
END
cat >scan.dsl <<'END'
model scan {                                 # not so long that it goes in chunks
    x = param [64, 100] init normal(1.0)
    output y = cumsum(where(x > 0, x, 0), axis = 1)
    output z = cumsum(exp(x), axis = 1)
}
END
cat >groups.dsl <<'END'
model groups {
    x = param [2, 16, 16, 32] init normal(1.0)
    output y = groupnorm(x, 8) as g
}
END
cat >chosen.dsl <<'END'
model chosen {                               # the gradient of a minimum, which a convolution's gradients read
    x = param [2, 8, 10, 10, 4] init normal(1.0)
    u = param [2, 8, 8, 6] init normal(1.0)
    k = param [3, 3, 4, 6] init normal(1.0)
    y[n, d, h in 0..8, w in 0..8, f] = sum[r, s, c] x[n, d, h + r, w + s, c] * k[r, s, c, f]
    loss = sum(min(y, axis = 1)^2 * u)
    output loss
    train loss with sgd(lr = 0.1)
}
END

cat >pooled.dsl <<'END'
model pooled {                               # what products read of a pooling's gradient: an image, not windows
    x = param [2, 9, 10, 4] init normal(1.0)
    u = param [2, 4, 5, 6] init normal(1.0)
    k = param [3, 3, 4, 6] init normal(1.0)
    loss = sum(max_pool2d(convolve(x, k, 9, 10, 1, 1, 1, 1), 2) * u)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >heads.dsl <<'END'
model heads {                                # what follows a product is computed with it, though its axes are turned and joined
    p = param [2, 4, 8, 8] init normal(1.0)
    v = param [2, 4, 8, 8] init normal(1.0)
    r = param [2, 4, 8, 1] init normal(1.0)
    w = param [32, 16] init normal(1.0)
    output y = reshape(transpose(p @ v / (abs(r) + 1), [0, 2, 1, 3]), [16, 32]) @ w
}
END

# plan MODEL ENTRY TARGET: kernels and buffers into plan.txt, the kernels themselves into all.tile
plan() {
    "$FUSEC" "$1.dsl" -o all.tile --entry="$2" --target="$3" --print-after=place >all.txt || die "$1: $3"
    sed -n "/entry $2/,\$p" all.txt >plan.txt
}
for target in host c99 sm_80; do
    plan loss infer $target
    grep -q 'arena 65536 bytes' plan.txt && fail "loss, $target: the difference is written"
    plan pool grad $target
    grep -q 'arena 14400 bytes' plan.txt && fail "pool, $target: windows are written"
    plan dear infer $target
    [ "$(grep -c '^  k' plan.txt)" = 2 ] || fail "dear, $target: tanh is computed in each window"
    plan scan infer $target
    [ "$(grep -c '^  k' plan.txt)" = 3 ] || fail "scan, $target: not a sum of what is chosen, and one of exponentials before it"
    plan chosen grad $target
    [ "$(grep -c 'arena 24576 bytes' plan.txt)" = 2 ] || fail "chosen, $target: the gradient of the minimum is not kept"
    plan heads infer $target
    [ "$(grep -c '^  k' plan.txt)" = 2 ] || fail "heads, $target: the quotient has a kernel of its own"
    plan pooled grad $target
    awk '/^kernel/ { product = /contract/ } product && / = load .* mod / { bad = 1 } END { exit bad }' all.tile ||
        fail "pooled, $target: products find their place in a window by division"
done
plan groups infer host # [2, 256, 8, 4]: over pixels first
grep -q '^kernel.*f32\[2,8,4\] out' all.tile || fail "groups: summed group by group"
plan loss infer host   # the innermost axis is the last one
grep -q 'load %p\[r, .*r_1\]' all.tile || fail "loss: summed across memory"

executors="host c99"
has_software_gpu && executors="$executors cuda"
check() { # MODEL ENTRY
    "$FUSEC" run "$1.dsl" --entry="$2" --target=interp --verify --outputs=ref || die "$1: interp"
    for t in $executors; do
        "$FUSEC" run "$1.dsl" --entry="$2" --target="$t" --verify --outputs=out || die "$1: $t"
        "$BUILD/compare_safetensors" compare ref "" out 1e-5 || fail "$1, $2, $t: differs"
    done
}
check loss infer
check pool grad
check dear infer
check scan infer
check groups infer
check chosen grad
check pooled grad
check heads infer
exit $bad
