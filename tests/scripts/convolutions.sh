#!/bin/sh
# Convolutions of odd shapes on the host: forward, input gradient and kernel gradient are one bilinear form, so that
# <conv(x, w), u> = <x, input gradient> = <w, kernel gradient>; and the interpreter gives the same numbers.
# Every third shape of each kind; SWEEP_ALL=1, as in ./dev fuzz: all.
set -e
. "$SRC/tests/support/script.sh"
cat >conv.dsl <<'DSL'
dim B = 2, H = 9, W = 9, C = 5, F = 7, K = 3, stride = 1, P = 1, D = 1, G = 8
let O = floor_div(H + 2 * P - D * (K - 1) - 1, stride) + 1
let Q = floor_div(W + 2 * P - D * (K - 1) - 1, stride) + 1

model conv {
    x = param [B, H, W, C] init normal(1.0)
    w = param [K, K, C, F] init normal(1.0)
    u = param [B, O, Q, F] init normal(1.0)
    y = convolve(x, w, O, Q, P, P, stride, D)
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}

model merged {                               # the image is a matrix product's rows
    image = param [B, H, W, 3] init normal(1.0)
    m = param [3, C] init normal(1.0)
    w = param [K, K, C, F] init normal(1.0)
    u = param [B, O, Q, F] init normal(1.0)
    x = image @ m
    y = convolve(x, w, O, Q, P, P, stride, D)
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}

model depthwise {
    x = param [B, H, W, C] init normal(1.0)
    w = param [K, K, C] init normal(1.0)
    u = param [B, O, Q, C] init normal(1.0)
    y[n, h in 0..O, v in 0..Q, c] = sum[r, s] x[n, h*stride + r*D - P, v*stride + s*D - P, c] * w[r, s, c]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}

model apart {                                # the two elements of a group, which X has beside each other, outermost
    x = param [H, W, C * 2] init normal(1.0)
    w = param [K, K, C] init normal(1.0)
    u = param [2, O, Q, C] init normal(1.0)
    y[q in 0..2, h in 0..O, v in 0..Q, c] = sum[r, s] x[h*stride + r*D - P, v*stride + s*D - P, 2*c + q] * w[r, s, c]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}

model grouped {
    x = param [B, H, W, G, C] init normal(1.0)
    w = param [K, K, C, G, F] init normal(1.0)
    u = param [B, O, Q, G * F] init normal(1.0)
    y = convolve_groups(x, w, O, Q, P, P, stride, D)
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}

model activated {                            # what follows the product reads it from a tile
    x = param [B, H, W, C] init normal(1.0)
    w = param [K, K, C] init normal(1.0)
    b = param [C] init normal(1.0)
    u = param [B, O, Q, C] init normal(1.0)
    y[n, h in 0..O, v in 0..Q, c] = sum[r, s] x[n, h*stride + r*D - P, v*stride + s*D - P, c] * w[r, s, c]
    z = y * b
    output forward = sum(z * u)
    output by_input = sum(vjp(z, x, u) * x)
    output by_kernel = sum(vjp(z, w, u) * w)
}

model volume {                               # three sliding subscripts
    x = param [B, 4, H, W, 16] init normal(1.0)
    w = param [2, K, K, 16] init normal(1.0)
    u = param [B, 3, O, Q, 16] init normal(1.0)
    y[n, d in 0..3, h in 0..O, v in 0..Q, c] =
        sum[q, r, s] x[n, d + q, h*stride + r - P, v*stride + s - P, c] * w[q, r, s, c]
    output forward = sum(y * u)
    output by_input = sum(vjp(y, x, u) * x)
    output by_kernel = sum(vjp(y, w, u) * w)
}
DSL
# factors of bf16, which some processors multiply in pairs
sed -n '/^model conv /,/^}/p' conv.dsl | sed 's/.*{$/model low {\n    precision bf16/' >low.dsl
cat low.dsl >>conv.dsl

turn=0
# the next shape is one that is left out here
left_out() {
    turn=$((turn + 1))
    [ -z "${SWEEP_ALL:-}" ] && [ $((turn % 3)) != 1 ]
}

# The three numbers of every target are one, to 1e-4 of the first.
check() {
    ! left_out || return 0
    : >numbers
    for t in host interp; do
        "$FUSEC" run conv.dsl --model="$@" --target $t >$t.out || { echo "$* fails on $t"; exit 1; }
        awk '$1 ~ /^(forward|by_input|by_kernel)$/ { print $NF }' $t.out >>numbers
    done
    awk 'NR == 1 { first = $1; size = first < 0 ? -first : first }
         { d = $1 - first; if (d < 0) d = -d; if (!(d <= 1e-4 * size)) bad = 1 }
         END { exit bad || NR != 6 }' numbers || { echo "$*: not one number:"; cat numbers; exit 1; }
}

check conv
check conv -D stride=2
check conv -D stride=2 -D H=10 -D W=13 -D F=20
check conv -D stride=3 -D H=11 -D C=17
check conv -D stride=2 -D K=1 -D P=0
check conv -D stride=3 -D K=1 -D P=0 -D H=8
check conv -D D=2 -D P=2 -D C=16 -D F=32
check conv -D P=0 -D K=4 -D W=30 -D F=40
check conv -D K=7 -D stride=2 -D P=3 -D C=3 -D H=16 -D W=16
check conv -D C=1 -D F=1
check conv -D C=96 -D F=70 -D H=5 -D W=33
check conv -D P=4 -D H=3 -D W=4 -D C=16       # windows that lie beyond the border
check conv -D P=5 -D H=4 -D stride=2 -D D=2 -D F=32
check conv -D C=32 -D F=48 -D H=7 -D W=7
# rows of a block that have a term at some taps alone: one block of each image row and two, taps apart, steps, many images
check conv -D C=64 -D F=32 -D H=7 -D W=7
check conv -D C=48 -D F=32 -D H=6 -D W=28 -D B=1
check conv -D C=32 -D F=32 -D K=5 -D P=4 -D D=2 -D H=9 -D W=14
check conv -D C=32 -D F=64 -D stride=2 -D H=14 -D W=14 -D B=8
check conv -D C=32 -D F=32 -D K=4 -D stride=3 -D P=2 -D W=19
check merged
check merged -D stride=2 -D F=33 -D C=32
check depthwise
check depthwise -D C=40 -D W=30
check depthwise -D C=32 -D stride=2 -D H=12
check depthwise -D C=70 -D D=2 -D P=2
check depthwise -D C=16 -D K=5 -D P=2 -D H=6 -D W=6
check apart -D C=32 -D H=20 -D W=20 -D P=0
check apart -D C=16 -D H=9 -D W=12
# whole vectors of channels, read where they lie: borders on every side, blocks of two sizes, taps unrolled and not
check depthwise -D C=16 -D H=7 -D W=7
check depthwise -D C=48 -D H=23 -D W=37
check depthwise -D C=32 -D P=0 -D H=5 -D W=11
check depthwise -D C=32 -D P=4 -D H=4 -D W=5
check depthwise -D C=16 -D K=7 -D P=3 -D H=8 -D W=19
check depthwise -D C=16 -D D=3 -D P=3 -D W=26
check depthwise -D C=16 -D stride=3 -D K=5 -D P=1 -D H=13 -D W=17
check depthwise -D C=16 -D K=1 -D P=0
check depthwise -D C=256 -D H=14 -D W=14
# pixels a half way of a cache apart, and ways: two vectors of channels at once, in blocks of two sizes
check depthwise -D B=1 -D C=512 -D H=8 -D W=13
check depthwise -D B=1 -D C=1024 -D H=7 -D W=5
check depthwise -D B=1 -D C=512 -D stride=2 -D H=7 -D W=10
check depthwise -D B=1 -D C=512 -D K=5 -D P=2 -D H=6 -D W=7
# ... and small enough to be copied closer together: borders, windows beyond them, dilation
check depthwise -D B=2 -D C=1024 -D H=7 -D W=7
check depthwise -D B=3 -D C=1024 -D P=4 -D H=4 -D W=5
check depthwise -D B=1 -D C=512 -D P=0 -D H=6 -D W=8
check depthwise -D B=1 -D C=1024 -D D=2 -D P=2 -D H=7 -D W=6
check depthwise -D B=1 -D C=1024 -D K=5 -D stride=2 -D P=2 -D H=7 -D W=6
# ... and images that come from memory: two vectors of channels along a row of pixels
check depthwise -D B=2 -D C=256 -D stride=2 -D H=64 -D W=67
# programs of all channels, and of many
check depthwise -D B=8 -D C=512 -D H=9 -D W=8
check depthwise -D B=4 -D C=640 -D H=14 -D W=13
check activated -D B=8 -D C=576 -D H=11 -D W=11
# groups: narrower than a vector, by lanes of several; of one element; too many for their results; not of whole vectors
check grouped
check grouped -D C=4 -D F=4 -D H=14 -D W=14
check grouped -D C=8 -D F=8 -D G=32 -D stride=2 -D H=12
check grouped -D C=3 -D F=4 -D P=4 -D H=4 -D W=5
check grouped -D C=1 -D F=2 -D D=2 -D P=2
check grouped -D C=2 -D F=1 -D G=48 -D W=11
check grouped -D C=6 -D F=8 -D K=5 -D P=2 -D W=17
check grouped -D C=9 -D F=2
check grouped -D C=4 -D F=4 -D G=6 -D B=1
check grouped -D C=16 -D F=16 -D G=2
check activated -D B=2 -D C=1024 -D H=5 -D W=5
check activated -D C=32
check activated -D C=16 -D K=5 -D stride=2 -D P=2 -D W=21
check volume
check volume -D stride=2 -D H=7
# 1x1: places of images are one axis again, whose sum in slices is a plain product, read where the images lie
check conv -D B=2 -D H=24 -D W=24 -D C=48 -D F=64 -D K=1 -D P=0

# In bf16 each of the three is the interpreter's, and that of code which multiplies pairs, where this machine can run it.
archs=native
if grep 'avx512_bf16' /proc/cpuinfo | grep -q avx512_vbmi2; then archs="native znver4"; else echo "skipped: pairs of bf16, this processor has none"; fi
check_low() {
    ! left_out || return 0
    for arch in interp $archs; do
        case $arch in interp) on="--target interp" ;; *) on="--target host --arch $arch" ;; esac
        # shellcheck disable=SC2086
        "$FUSEC" run conv.dsl --model=low "$@" $on >out || { echo "$* fails on $arch"; exit 1; }
        awk '$1 ~ /^(forward|by_input|by_kernel)$/ { print $NF }' out >$arch.numbers
        paste -d ' ' $arch.numbers interp.numbers | awk '
            { d = $1 - $2; if (d < 0) d = -d; s = $2 < 0 ? -$2 : $2; if (!(d <= 1e-4 * s)) bad = 1 }
            END { exit bad || NR != 3 }' || { echo "in bf16, $*, $arch: not the same:"; paste $arch.numbers interp.numbers; exit 1; }
    done
}
check_low -D C=16 -D F=32
check_low -D C=16 -D F=24 -D stride=2 -D H=10 -D W=13
check_low -D C=64 -D F=48 -D H=14 -D W=14 -D B=8
check_low -D C=3 -D F=16 -D K=7 -D P=3 -D stride=2 -D H=16
check_low -D C=32 -D F=40 -D D=2 -D P=2
check_low -D C=64 -D F=32 -D K=1 -D P=0

product() {
    cat >product.dsl <<'DSL'
model product {
    input x : f32[8, 28, 28, 128]
    input u : f32[8, 28, 28, 512]
    g[c, f] = sum[n, h, v] u[n, h, v, f] * x[n, h, v, c]
    output dw = g
}
DSL
    "$FUSEC" product.dsl --entry=infer -o product."$@"
}
product tile
grep -q 'grid . in 0..128 step 128' product.tile && grep -q 'grid . in 0..512 step 256' product.tile ||
    { echo "a 1x1 kernel gradient has not the tiles of a product:"; cat product.tile; exit 1; }
product ll --arch=x86-64-v4
grep -q '^define .*fusec.block_[a-z_]*copied_12x' product.ll || { echo "a 1x1 kernel gradient copies its images first"; exit 1; }

# few rows have tiles of few columns, which are turned once for all rows
cat >turned.dsl <<'DSL'
model turned {
    input a : f32[392, 2048]
    input b : f32[512, 2048]
    output c = a @ transpose(b)
}
DSL
"$FUSEC" turned.dsl --entry=infer -o turned.tile
grep -q 'grid . in 0..392 step 392' turned.tile && grep -q 'grid . in 0..512 step 64' turned.tile ||
    { echo "tiles of a product with a turned factor:"; cat turned.tile; exit 1; }

# functions whose rows of an image lie $3 elements apart, of sums or of results made at once ($4 = fresh_); of a small image
# the former read a copy, W pixels of 128 channels, the latter and those of a greater one the image where it lies
depthwise_rows() {
    "$FUSEC" conv.dsl --model=depthwise -D C="$1" -D H="$2" -D W="$2" -D B=4 --arch=x86-64-v4 --entry=infer -o depthwise.ll
    grep -c "^define .*fusec.channels_${4:-}$3_" depthwise.ll || true
}
[ "$(depthwise_rows 1024 7 896)" -gt 0 ] && [ "$(depthwise_rows 1024 7 7168)" = 0 ] &&
    [ "$(depthwise_rows 1024 7 896 fresh_)" = 0 ] && [ "$(depthwise_rows 1024 7 7168 fresh_)" -gt 0 ] &&
    [ "$(depthwise_rows 1024 14 14336)" -gt 0 ] || { echo "copies of images with cache-set conflicts"; exit 1; }

# a program of either product with overlapping windows has all channels: memory is walked as it lies
"$FUSEC" conv.dsl --model=depthwise -D C=640 -D H=14 -D W=13 -D B=4 --entry=infer -o depthwise.tile
whole=$(awk '/grid . in 0..640 /{ step = $NF } / = dot / && step == 640 { n++ } END { print n + 0 }' depthwise.tile)
[ "$whole" = 2 ] || { echo "channels in parts"; exit 1; }

# each of the three products has the lanes of several groups, whichever way the kernel lies
cat >lanes.dsl <<'DSL'
dim C = 4, F = 4, G = 32, stride = 1
let O = floor_div(13, stride) + 1
model last {
    input x : f32[2, 14, 14, G * C]
    input w : f32[3, 3, C, G * F]
    input u : f32[2, O, O, G * F]
    y = convolve_groups(reshape(x, [2, 14, 14, G, C]), reshape(w, [3, 3, C, G, F]), O, O, 1, 1, stride, 1)
    output forward = y
    output by_input = vjp(y, x, u)
    output by_kernel = vjp(y, w, u)
}
model first {
    input x : f32[2, 14, 14, G, C]
    input w : f32[G, F, C, 3, 3]
    input u : f32[2, O, O, G, F]
    y[n, h in 0..O, v in 0..O, g, f] = sum[r, s, c] x[n, h*stride + r - 1, v*stride + s - 1, g, c] * w[g, f, c, r, s]
    output forward = y
    output by_input = vjp(y, x, u)
    output by_kernel = vjp(y, w, u)
}
DSL
products_by_groups() {
    "$FUSEC" lanes.dsl "$@" --arch=x86-64-v4 --entry=infer -o lanes.ll
    sed -n '/^define .*infer_contract/,/^}/p' lanes.ll | awk '/^define/ { seen = 0 } /call .*fusec.groups/ { n += !seen; seen = 1 } END { print n + 0 }'
}
[ "$(products_by_groups --model=last)" = 3 ] && [ "$(products_by_groups --model=last -D C=8 -D F=8 -D stride=2)" = 3 ] &&
    [ "$(products_by_groups --model=last -D C=2 -D F=4)" = 3 ] && [ "$(products_by_groups --model=first)" -ge 2 ] ||
    { echo "groups narrower than vectors have not their lanes together"; exit 1; }

# images that come from memory are asked for in time, small ones are not
depthwise_asks() {
    "$FUSEC" conv.dsl --model=depthwise -D C=128 -D H="$1" -D W="$1" -D B=8 -o depthwise.ll
    sed -n '/^define .*fusec.channels/,/^}/p' depthwise.ll | grep -c 'call .*prefetch' || true
}
# ... and the sums of their kernel's gradient are of two vectors of channels, of others' one
depthwise_pairs() {
    "$FUSEC" conv.dsl --model=depthwise -D C=128 -D H="$1" -D W="$1" -D B=8 --arch=x86-64-v4 --entry=infer -o depthwise.ll
    grep -c '^define .*fusec.channels_.*x32[.(]' depthwise.ll || true
}
[ "$(depthwise_pairs 56)" -gt 0 ] && [ "$(depthwise_pairs 14)" = 0 ] || { echo "vectors of images from memory"; exit 1; }
[ "$(depthwise_asks 56)" -gt 0 ] && [ "$(depthwise_asks 14)" = 0 ] || { echo "prefetches of images"; exit 1; }

# kernel gradients in three dimensions, of few columns and many terms, are multiplied in blocks, of two vectors where there are so many
cat >deep.dsl <<'DSL'
dim C = 48, F = 48, S = 32
let O = S - 2
model deep {
    input x : f32[1, S, S, S, C]
    input w : f32[3, 3, 3, C, F]
    input u : f32[1, O, O, O, F]
    y[n, d in 0..O, h in 0..O, v in 0..O, f] = sum[r, s, t, c] x[n, d + r, h + s, v + t, c] * w[r, s, t, c, f]
    output dw = vjp(y, w, u)
}
DSL
for shape in "48 48 x48" "3 64 x32" "32 16 x16" "5 9 x16"; do
    set -- $shape
    "$FUSEC" deep.dsl -D C="$1" -D F="$2" --arch=x86-64-v4 -o deep.ll
    grep -q "^define .*fusec.window_.*$3[.(]" deep.ll || { echo "kernel gradient of $1 to $2 channels: not in blocks of $3"; exit 1; }
done

# rows of a product that stay in the innermost cache are read where they lie, unless they fall into the same sets of it
cat >rows.dsl <<'DSL'
dim K = 1024
model rows {
    input a : f32[16, K]
    input b : f32[K, 512]
    output c = a @ b
}
DSL
for shape in "1024 no" "512 no" "1000 yes" "520 yes" "3000 no"; do
    set -- $shape
    "$FUSEC" rows.dsl -D K="$1" --arch=x86-64-v4 --entry=infer -o rows.ll
    lies=no
    ! grep -q '^define .*fusec.block_away_[a-z_]*12x' rows.ll || lies=yes
    [ $lies = "$2" ] || { echo "rows of $1 elements stay where they lie: $lies"; exit 1; }
done
echo ok
