#!/bin/sh
# jacobian(y, x, batch = 0) where the entries of the batch meet or change place on the way: it is the derivative of y's sum over
# the batch, whichever way it was computed (passes/derive/independent.c).  Judged by jacobian(sum(y, axis = 0), x), without a batch.
. "$SRC/tests/support/script.sh"

# case_of NAME: on stdin what leads from x, [4, 6], to y, [4, n]
case_of() {
    {
        printf 'model m {\n    x = param [4, 6] init normal(1.0)\n'
        cat
        # more columns than x has, so that it takes less work to go by x's
        printf '    z = concat(y, sin(y), y * y, exp(-y * y), y * sin(y), axis = 1)\n'
    } >body
    { cat body && printf '    output J = jacobian(z, x, batch = 0)\n}\n'; } >got.dsl
    { cat body && printf '    output J = transpose(jacobian(sum(z, axis = 0), x), [1, 0, 2])\n}\n'; } >want.dsl
    same_results "$1" 2e-5
}

case_of apart <<'END' # few columns in the middle, so that it is a product of two Jacobians
    y = exp(linear(0.1 * reshape(sum(x, axis = 1), [4, 1]), 6) as f)
END
case_of slices_of_rows <<'END' # along other axes, from a start known at run time
    h = transpose(tanh(linear(x, 3) as f))
    y = transpose(slice(h, iota(3)[1], 2))
END
case_of updates_of_rows <<'END'
    part = transpose(x[:, 0:2] * x[:, 2:4])
    y = transpose(sin(update(transpose(x * x), part, iota(5)[3])))
END
case_of slices_of_the_batch <<'END'
    h = tanh(linear(x, 2) as f)
    y = concat(slice(h, iota(3)[1], 3), h[0:1], axis = 0)
END
case_of gathers_from_the_batch <<'END'
    h = sin(linear(x, 2) as f)
    y = h[mod(iota(4) * iota(4), 3)]
END
case_of gathers_from_columns <<'END'
    h = transpose(x * x)
    y = transpose(h[mod(iota(5) * 2, 6)])
END
case_of merged <<'END' # two entries in a row, and rows of two entries
    h = linear(reshape(x, [2, 12]), 6) as f
    r = tanh(linear(reshape(x, [8, 3]), 3) as g)
    y = sin(reshape(h, [4, 3])) * r[0:4]
END
case_of split_rows <<'END'
    y = reshape(tanh(linear(reshape(x, [4, 2, 3]), 2) as f), [4, 4])
END
case_of reversed <<'END'
    h = sin(linear(x, 2) as f)
    y = reverse(h, 0) * h
END
case_of added_up <<'END'
    h = sin(linear(x, 2) as f)
    y = cumsum(h, axis = 0) * h
END
case_of normalized <<'END'
    h = linear(x, 3) as f
    y = (h - mean(h, axis = 0)) * rsqrt(variance(h, axis = 0) + 0.1)
END
exit $bad
