#!/bin/sh
# MODEL_STACK_BYTES of the C form holds: what every function of MODEL.h takes of the stack is measured by filling one with a
# pattern, for the examples in small and for models of large tiles, many inputs, and many launches, as gcc and clang compile
# them.  Their self-tests pass on the way.  Each set of flags for one or two models; SWEEP_ALL=1, as in ./dev fuzz: every model under
# every set.
. "$SRC/tests/support/script.sh"
command -v gcc >/dev/null || { echo "skipped: no gcc"; exit 77; }
all=${SWEEP_ALL:-}

# measure MODEL "COMPILER FLAGS".. (DIR/MODEL.c is there)
measure() {
    model=$1
    macro=$(echo "$model" | tr a-z A-Z)
    defines="-DMODEL=$model -DMACRO=$macro"
    grep -q "} ${model}_hyper;" "$model.h" && defines="$defines -DHYPER"
    for entry in infer grad derive; do
        grep -q " ${model}_$entry(" "$model.h" && defines="$defines -D$(echo $entry | tr a-z A-Z)"
    done
    shift
    for how; do
        # shellcheck disable=SC2086
        $how -std=c11 -w -ffp-contract=off $defines -I. "$SRC/tests/tools/stack_use.c" "$model.c" -Wl,-z,now -o use ||
            { fail "$model, $how: not compiled"; continue; }
        ./use >log || fail "$model, $how: $(tr '\n' ';' <log)"
        sort -k2 -n log | awk -v what="$model, $how" '
            $1 == "bound" { bound = $2; next } { most = $2; who = $1 }
            END { printf "%s: %d of %d (%s)\n", what, most, bound, who }'
    done
}
emit() { # FILE OPTIONS..
    "$FUSEC" "$@" --selftest || die "$*"
}

wide= # flags of wide vectors that this machine runs
grep -qw avx2 /proc/cpuinfo 2>/dev/null && wide='-mavx2 -mfma'
grep -qw avx512vl /proc/cpuinfo 2>/dev/null && wide512='-mavx512f -mavx512vl -mavx512bw -mavx512dq' || wide512=
[ "$(uname -m)" = x86_64 ] || wide= wide512=

x=$SRC/examples
# large tiles: rows that are kept, attention, sums; and a dropout
cat >tiles.dsl <<'END'
model tiles {
    input x : f32[4, 2000]
    input label : i32[4] in 0..2000
    h = dropout(softmax(x * 2.0, axis = 1) + tanh(x), 0.1)
    y = layernorm(linear(h, 200) as f) as n
    loss = mean(cross_entropy(linear(y, 2000) as g + cumsum(x, axis = 1), label))
    output loss
    train loss with adamw(lr = hyper 0.1)
}
END
awk 'BEGIN {
    print "model many {"
    for (i = 0; i < 40; i++) printf "    input x%d : f32[3]\n", i
    for (i = 0; i < 40; i++) printf "    w%d = param [3] init ones\n    y%d = sin(x%d + w%d)\n    output y%d\n", i, i, i, i, i
    printf "    loss = sum(y0"; for (i = 1; i < 40; i++) printf " + y%d * y%d", i, i - 1; print ")"
    print "    output loss\n    train loss with sgd(lr = hyper 0.1)\n}" }' >many.dsl
cat >deep.dsl <<'END'
model deep {
    input x : f32[4, 8]
    input y : f32[4, 8]
    h = x
    repeat 60 { h = tanh(linear(h, 8) as layer) + h }
    loss = mse(h, y)
    output loss
    train loss with adamw(lr = hyper 0.001)
}
END
emit "$x/firmware/digits.dsl" -o digits.c
emit "$x/ecg/ecg.dsl" -o ecg.c
emit "$x/chargpt/chargpt.dsl" -D B=2 -D T=8 -D L=1 -o chargpt.c
emit tiles.dsl -o tiles.c
emit many.dsl -o many.c
emit deep.dsl -o deep.c
clang=
command -v clang >/dev/null && clang=clang
measure digits 'gcc -O0' 'gcc -O2' ${wide512:+"gcc -O3 $wide512"} ${clang:+'clang -O2'}
measure tiles 'gcc -O1' 'gcc -O3' 'gcc -Os' ${wide:+"gcc -O3 $wide"} ${clang:+'clang -O0'}
measure many 'gcc -O0' 'gcc -O2' 'gcc -Os' ${wide512:+"gcc -O3 $wide512"}
measure deep 'gcc -O3'
measure chargpt 'gcc -O0'
measure ecg "gcc -O3 $wide" "gcc -O3 $wide512"
if [ "$all" ]; then
    emit "$x/digits/cnn.dsl" -D B=2 -o digits_cnn.c
    emit "$x/gpt2/gpt2.dsl" -D B=2 -D T=8 -D V=32 -D C=32 -D H=2 -D L=1 -o gpt2.c
    emit "$x/unet/unet.dsl" -D B=1 -D S=16 -D W=4 -o unet.c
    emit "$x/resnet50/resnet50.dsl" -D B=2 -D S=8 -D W=8 -D channels=1 -D classes=10 -o resnet50.c
    for name in digits tiles many deep digits_cnn ecg chargpt gpt2 unet resnet50; do
        measure $name 'gcc -O0' 'gcc -O1' 'gcc -O2' 'gcc -O3' 'gcc -Os' "gcc -O3 $wide" "gcc -O3 $wide512"
        measure $name 'clang -O0' 'clang -O1' 'clang -O2' 'clang -O3' "clang -O3 $wide512"
    done
fi

# the firmware on an emulated Cortex-M4
if command -v arm-none-eabi-gcc >/dev/null && command -v qemu-system-arm >/dev/null; then
    cp digits.c model.c
    cp digits.h model.h
    sed -i 's/"digits.h"/"model.h"/' model.c
    for level in -O0 -Os -O3; do
        arm-none-eabi-gcc -std=c99 -w -ffreestanding -ffp-contract=off $level -I. -I"$x/firmware" -mcpu=cortex-m4 -mthumb \
            -mfloat-abi=hard -mfpu=fpv4-sp-d16 -nostartfiles -T "$x/firmware/mps2.ld" "$SRC/tests/tools/stack_use_board.c" \
            "$x/firmware/startup.c" model.c -o board.elf || { fail "board, $level"; continue; }
        qemu-system-arm -M mps2-an386 -display none -monitor none -serial none -chardev stdio,id=out \
            -semihosting-config enable=on,target=native,chardev=out -kernel board.elf </dev/null >log
        [ "$(grep -c ' ok ' log)" = 5 ] || fail "board, $level: $(tr '\n' ';' <log)"
        echo "board, $level: $(tr '\n' ';' <log)"
    done
else
    echo "no arm-none-eabi-gcc or qemu-system-arm: not measured there"
fi
exit $bad
