#!/bin/sh
# Host code for NEON, run by an emulator: products in every orientation, convolutions with both gradients and training
# steps in f32, bf16 and f16 give this machine's numbers, to 1e-4 of the larger of 1 and the number; in bf16 and f16,
# where sums in another order may round the other way, to 2e-3.
set -e
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
. "$SRC/tests/support/script.sh"

# library NAME COMPILER: the runtime and the driver, for one machine
library() {
    mkdir "$1"
    for c in "$SRC"/runtime/common/*.c "$SRC"/runtime/host/*.c "$SRC/bench/model.c"; do
        $2 -O1 -std=gnu11 -I"$SRC" -c "$c" -o "$1/$(basename "$c" .c).o" || die "$2 fails on $c"
    done
}
library here "${CC:-cc}"
library neon aarch64-linux-gnu-gcc

# outputs NAME COMPILER RUNNER MODEL FILE OPTIONS...: what the model gives, in NAME.out
outputs() {
    name=$1; compiler=$2; runner=$3; model=$4; shift 4
    "$FUSEC" "$@" --model="$model" -o "$model.o" || die "$model: no object ($*)"
    $compiler -O1 -std=gnu11 -I"$SRC" -I. -DMODEL="$model" "$SRC/tests/tools/dump_outputs.c" "$model.o" "$name"/*.o -lm -lpthread \
        -o "$name/run" || die "$model: does not link ($*)"
    $runner "$name/run" >"$name.out" || die "$model: exit status $? ($*)"
}

agree() { # TOLERANCE MODEL FILE OPTIONS...
    tolerance=$1; shift
    outputs here "${CC:-cc}" "" "$@"
    outputs neon aarch64-linux-gnu-gcc "qemu-aarch64 -L /usr/aarch64-linux-gnu" "$@" --triple aarch64-linux-gnu
    paste -d ' ' here.out neon.out | awk -v most="$tolerance" '
        { e = $3 - $6; if (e < 0) e = -e; s = $3 < 0 ? -$3 : $3; if (s < 1) s = 1
          if ($2 != $5 || NF != 6 || !(e <= most * s)) { print "differs: " $0; exit bad = 1 } }
        END { exit bad || NR == 0 }' || die "$* differs"
}

for model in nn nt tn tt; do agree 1e-4 $model "$SRC/bench/gemm.dsl" -D M=37 -D N=131 -D K=67; done
for model in batch_nn batch_nt batch_tn; do agree 1e-4 $model "$SRC/bench/gemm.dsl" -D M=19 -D N=21 -D K=67 -D B=3; done
agree 1e-4 nn "$SRC/bench/gemm.dsl" -D M=1 -D N=300 -D K=500
agree 1e-4 nn "$SRC/bench/gemm.dsl" -D M=300 -D N=1 -D K=500
for model in conv depthwise; do
    agree 1e-4 $model "$SRC/bench/conv.dsl" -D B=2 -D H=9 -D C=20 -D F=33
    agree 1e-4 $model "$SRC/bench/conv.dsl" -D B=2 -D H=9 -D C=20 -D F=33 -D stride=2
done
agree 1e-4 digits_cnn "$SRC/examples/digits/cnn.dsl" -D B=4
gpt="-D L=1 -D B=1 -D T=32"
agree 1e-4 chargpt "$SRC/examples/chargpt/chargpt.dsl" $gpt
for precision in bf16 f16; do
    sed "s/^model chargpt {/&\n    precision $precision/" "$SRC/examples/chargpt/chargpt.dsl" >low.dsl
    grep -q "precision $precision" low.dsl || die "the model is not in $precision"
    agree 2e-3 chargpt low.dsl $gpt
done
echo ok
