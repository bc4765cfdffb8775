#!/bin/sh
# demo.sh BUILD_DIR: trains a network on real data, emits its PTX, runs that on the software GPU, and reports.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
fusec=$build/fusec
model=$here/digits/cnn.dsl
data=$here/digits/digits.csv.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '\n== %s\n' "$*"; }
with_data() { "$fusec" run "$model" --data image="$data":1-64 --data label="$data":65 "$@"; }

say "train: three convolutions on 1500 handwritten digits, tested on 297 others"
with_data --rows 0:1500 --test-rows 1500:1797 --epochs 20 --accuracy probability=label --save "$work/cnn.safetensors"

say "emit: PTX and its launcher, an object for this machine, freestanding C"
"$fusec" "$model" -o "$work/cnn.ptx" --arch sm_90
mkdir "$work/host" "$work/c"
"$fusec" "$model" -o "$work/host/cnn.o"
"$fusec" "$model" -o "$work/c/cnn.c"
(cd "$work" && wc -c cnn.ptx cnn.c cnn.h host/cnn.o host/cnn.h c/cnn.c c/cnn.h | sed '$d')

# Three steps from the trained weights on a small batch: the second and third losses show the update.
steps() {
    with_data --load "$work/cnn.safetensors" -D B=4 --rows 0:4 --steps 3 --target "$1" | sed -n 's/.*  loss \([^ ]*\).*/\1/p'
}
if [ -e "$build/ptxsim/libcuda.so.1" ]; then
    say "prove: three training steps of the PTX on the software GPU, against the host"
    steps host > "$work/host.txt"
    LD_LIBRARY_PATH=$build/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} steps cuda > "$work/gpu.txt"
    paste "$work/host.txt" "$work/gpu.txt" | awk '{
        d = $1 - $2; if (d < 0) d = -d
        if (NF != 2 || d > 1e-4 * $1 + 1e-6) bad = 1
        print "loss on the host " $1 ", on the software GPU " $2
    } END { if (bad || NR != 3) { print "they differ"; exit 1 } print "they agree" }'
fi

say "report: memory and roofline of one training step on an H100"
"$fusec" report "$model" --target sm_90 --entry step | sed -n '/^entry/,$p'
