# A sum of a product is a product with a sum: what is multiplied, by the report, and the values and gradients, which are
# those of the program as written.
. "$SRC/tests/support/script.sh"
quick_c

cat >rows.dsl <<'END'
model rows {
    precision f32
    x = param [256, 64] init normal(1.0)
    w = param [64, 64] init normal(0.1)
    output y = sum(x @ w, axis = 1)
    loss = mean(y^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >written.dsl <<'END'
model written {
    precision f32
    x = param [256, 64] init normal(1.0)
    w = param [64, 64] init normal(0.1)
    y[i] = sum[j, k] x[i, k] * w[j, k]
    output y
    loss = mean(y^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >columns.dsl <<'END'
model columns {
    precision f32
    x = param [256, 64] init normal(1.0)
    s = param [64] init normal(1.0)
    output y = mean((linear(x, 64) as l) * s, axis = 0)
    loss = mean(y^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >pixels.dsl <<'END'
model pixels {
    precision f32
    x = param [2, 32, 32, 16] init normal(1.0)
    output y = mean(conv2d(x, 32, 3, stride = STRIDE, padding = 1) as conv, axis = [1, 2])
    loss = mean(y^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
sed 's/STRIDE/2/; s/pixels/strided/' pixels.dsl >strided.dsl
sed -i 's/STRIDE/1/' pixels.dsl
cat >terms.dsl <<'END'
model terms {                                # terms that are equal, and products of three
    precision f32
    a = param [64] init normal(1.0)
    b = param [64] init normal(1.0)
    c = param [64, 64] init normal(1.0)
    output y = sum[i, j, l in 0..5] a[i] * b[j] * c[i, j]
    loss = y^2
    output loss
    train loss with sgd(lr = 0.1)
}
END

# flops MODEL ENTRY OPTIONS...: in thousands
flops() {
    model=$1 entry=$2
    shift 2
    "$FUSEC" report "$model.dsl" --entry "$entry" "$@" | awk '/^  total/ { print int($2 * 1000); exit }'
}

# check MODEL MOST: so many thousand operations, forward and backward, where two products alone would be more
check() {
    n=$(flops "$1" grad)
    [ "${n:-999999}" -le "$2" ] || fail "$1: ${n:-no} thousand operations, not $2"
    "$FUSEC" run "$1.dsl" --entry grad --seed 3 --target host -fno-canonicalize -fno-jacobian_gemm --outputs=plain.safetensors >log 2>&1 ||
        { fail "$1, as written: $(cat log)"; return; }
    for t in $executors; do
        "$FUSEC" run "$1.dsl" --entry grad --seed 3 --target "$t" --verify --outputs=out.safetensors >log 2>&1 ||
            { fail "$1 on $t: $(cat log)"; continue; }
        "$BUILD/compare_safetensors" compare plain.safetensors "" out.safetensors 1e-4 || fail "$1 on $t: other numbers"
    done
}

executors="host c99 interp"
has_software_gpu && executors="$executors cuda"
check rows 200
check written 200
check columns 200
check pixels 1200
check strided 1200
check terms 100

# What is low is rounded as often as the program says: the product is made.
for low in bf16 f16 tf32; do
    sed "s/precision f32/precision $low/" rows.dsl >low.dsl
    [ "$(flops low infer)" -ge 2000 ] || fail "$low: a product that the program rounds is not made"
done
exit $bad
