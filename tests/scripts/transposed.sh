#!/bin/sh
# Transposed convolutions in one to three dimensions, channels outside and inside: forward and both gradients are one
# bilinear form, <y, u> = <x, dx> = <w, dw>, on the host and in the interpreter; tables that an index picks rows of as well.
# What is counted for a kernel's gradient is its terms, not a stride's share of the places.
set -e
. "$SRC/tests/support/script.sh"
cat >transposed.dsl <<'DSL'
dim B = 2, C = 6, F = 20, H = 5, W = 7, K = 3, stride = 2, P = 1, D = 1, more = 1
let O = (H - 1) * stride - 2 * P + D * (K - 1) + more + 1
let Q = (W - 1) * stride - 2 * P + D * (K - 1) + more + 1

model outside {                              # [N, C, H, W]
    x = param [B, C, H, W] init normal(1.0)
    w = param [C, F, K, K] init normal(1.0)
    u = param [B, F, O, Q] init normal(1.0)
    y[n, f, h in 0..O, v in 0..Q] =
        sum[c, r, s] x[n, c, (h + P - r*D) / stride, (v + P - s*D) / stride] * w[c, f, r, s]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
model inside {
    x = param [B, H, W, C] init normal(1.0)
    w = param [K, K, C, F] init normal(1.0)
    u = param [B, O, Q, F] init normal(1.0)
    y[n, h in 0..O, v in 0..Q, f] =
        sum[r, s, c] x[n, (h + P - r*D) / stride, (v + P - s*D) / stride, c] * w[r, s, c, f]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
model line {
    x = param [B, C, W] init normal(1.0)
    w = param [C, F, K] init normal(1.0)
    u = param [B, F, Q] init normal(1.0)
    y[n, f, v in 0..Q] = sum[c, s] x[n, c, (v + P - s*D) / stride] * w[c, f, s]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
model volume {                               # a kernel of 2 x K x K
    x = param [B, 3, H, W, C] init normal(1.0)
    w = param [2, K, K, C, F] init normal(1.0)
    u = param [B, 6, O, Q, F] init normal(1.0)
    y[n, d in 0..6, h in 0..O, v in 0..Q, f] =
        sum[q, r, s, c] x[n, (d - q) / 2, (h + P - r*D) / stride, (v + P - s*D) / stride, c] * w[q, r, s, c, f]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
model volume_outside {
    x = param [B, C, 3, H, W] init normal(1.0)
    w = param [C, F, 2, K, K] init normal(1.0)
    u = param [B, F, 6, O, Q] init normal(1.0)
    y[n, f, d in 0..6, h in 0..O, v in 0..Q] =
        sum[c, q, r, s] x[n, c, (d - q) / 2, (h + P - r*D) / stride, (v + P - s*D) / stride] * w[c, f, q, r, s]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
model depthwise {
    x = param [B, C, H, W] init normal(1.0)
    w = param [C, K, K] init normal(1.0)
    u = param [B, C, O, Q] init normal(1.0)
    y[n, c, h in 0..O, v in 0..Q] = sum[r, s] x[n, c, (h + P - r*D) / stride, (v + P - s*D) / stride] * w[c, r, s]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
model experts {                              # two rows of the table for each row of x
    x = param [B*H, C] init normal(1.0)
    w = param [4, C, F] init normal(1.0)
    u = param [B*H, 2, F] init normal(1.0)
    e = mod(iota(B*H*2) * 7, 5)              # 4 is no row
    t = w[reshape(e, [B*H, 2])]
    y[n, k, f] = sum[c] x[n, c] * t[n, k, c, f]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
DSL

# The three numbers of both targets are one, to 1e-4 of the first or of what rounding leaves of many.
check() {
    : >numbers
    for t in host interp; do
        "$FUSEC" run transposed.dsl --model="$@" --target $t >$t.out || { echo "$* fails on $t"; exit 1; }
        awk '$1 ~ /^(forward|by_input|by_kernel)$/ { print $NF }' $t.out >>numbers
    done
    awk 'NR == 1 { first = $1; size = first < 0 ? -first : first; if (size < 10) size = 10 }
         { d = $1 - first; if (d < 0) d = -d; if (!(d <= 1e-4 * size)) bad = 1 }
         END { exit bad || NR != 6 }' numbers || { echo "$*: not one number:"; cat numbers; exit 1; }
}
for m in outside inside line volume volume_outside depthwise; do
    check $m
    check $m -D K=4 -D C=17 -D more=0             # as many taps in each class
    check $m -D stride=3 -D D=2 -D K=4
    check $m -D stride=5 -D D=2 -D P=1 -D W=9     # taps apart, places without any
    check $m -D stride=4 -D D=2 -D K=4            # one class in two
    check $m -D stride=2 -D D=2 -D H=3
    check $m -D stride=1 -D P=0 -D more=0
    check $m -D K=2 -D P=0 -D more=0 -D C=32 -D F=36
done
check outside -D B=1 -D C=32 -D F=40 -D H=9 -D W=20 # blocks that are turned in registers, and what is left of them
check outside -D B=1 -D C=33 -D F=18 -D H=17 -D W=34 -D K=4 -D more=0
check volume_outside -D B=1 -D C=32
check experts
check experts -D C=64 -D F=70 -D H=9

# kernels' gradients: 2 K^2 operations for each pair of channels and element of the image, and the sums around them
"$FUSEC" report transposed.dsl --model=inside --entry=infer -D C=32 -D F=32 -D H=20 -D W=20 -D stride=3 >report
awk '$1 ~ /contract/ { all += $3 } END { exit !(all > 0 && all < 3.5 * 2 * 9 * 32 * 32 * 2 * 400 / 1e6) }' report ||
    { echo "more is counted than there are terms:"; cat report; exit 1; }
# a table's rows are multiplied by a micro-kernel
cat >experts.dsl <<'DSL'
model experts {
    input x : f32[64, 64]
    input w : f32[4, 64, 64]
    input e : i32[64, 2] in 0..4
    t = w[e]
    y[n, k, f] = sum[c] x[n, c] * t[n, k, c, f]
    output y
}
DSL
"$FUSEC" experts.dsl --arch=x86-64-v4 --entry=infer -o experts.ll
grep -q '^define .*fusec.block' experts.ll || { echo "rows of a table are read element by element"; exit 1; }
# a single image whose channels are outside: its result's are columns, not classes of places
cat >one.dsl <<'DSL'
model one {
    input x : f32[1, 64, 8, 8]
    input w : f32[64, 32, 3, 3]
    y[n, f, h in 0..15, v in 0..15] = sum[c, r, s] x[n, c, (h + 1 - r) / 2, (v + 1 - s) / 2] * w[c, f, r, s]
    output y
}
DSL
"$FUSEC" one.dsl --entry=infer -o one.tile
grep -q '^kernel.*contract.*,32\] out' one.tile || { echo "columns are classes of places"; grep '^kernel' one.tile; exit 1; }
