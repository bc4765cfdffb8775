#!/bin/sh
# ./dev gpu [--pack] [DIR] [--software]
#   Packs kernels, launchers, expected numbers and run.sh into DIR (build/gpu-pack) for a machine with an NVIDIA GPU.
#   Without --pack, where there is such a GPU, runs them and writes bench/results/GPU.json.
#   --software: only the small cases, which the software GPU can run.
# sh bench/gpu.sh BUILD_DIR ARGS
set -eu
build=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
src=$(pwd)
pack=$src/build/gpu-pack
only_pack='' only=''
while [ $# -gt 0 ]; do
    case $1 in
    --pack) only_pack=1 ;;
    --software) only=s ;;
    -*) echo "usage: ./dev gpu [--pack] [DIR] [--software]" >&2; exit 2 ;;
    *) case $1 in /*) pack=$1 ;; *) pack=$src/$1 ;; esac ;;
    esac
    shift
done
archs='sm_80 sm_90 sm_90a' devices='sm_80 sm_90'
[ -z "$only" ] || archs='sm_90 sm_90a' devices=sm_90
cc=${CC:-cc}

say() { printf '%s\n' "$*" >&2; }

# A folder that holds anything but a pack is not touched.
if [ -e "$pack" ] && [ ! -e "$pack/cases.txt" ] && [ -n "$(ls -A "$pack")" ]; then
    say "$pack is not empty and is no pack: name another folder"
    exit 1
fi
rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/expect" "$pack/calibration" "$pack/src/bench/gpu/calibrate" "$pack/src/runtime/common" "$pack/src/runtime/cuda"

cp bench/gpu/run.sh bench/gpu/peers.py "$pack/"
cp bench/gpu/main.c bench/gpu/model.c bench/gpu/check.c bench/gpu/speed.c bench/gpu/numbers.c bench/gpu/numbers.h bench/gpu/runner.h "$pack/src/bench/gpu/"
cp runtime/common/*.[ch] "$pack/src/runtime/common/"
cp runtime/cuda/*.[ch] "$pack/src/runtime/cuda/"
cp bench/gpu/calibrate/*.[ch] bench/gpu/calibrate/*.def "$pack/src/bench/gpu/calibrate/"
cp "$build/gpu/fusec_gpu_run" "$build/gpu/fusec_gpu_calibrate" "$pack/bin/"
{ git rev-parse HEAD 2>/dev/null || echo unknown; } >"$pack/commit"
# the compiler, which measures tiles there
if cmake --build "$build" --target fusec_alone -- --no-print-directory -s >"$pack/log" 2>&1; then
    gzip -c "$build/gpu/fusec_alone" >"$pack/bin/fusec.gz"
    mkdir -p "$pack/models"
else
    say "the pack has no compiler, and can measure no tiles: LLVM's archives and libzstd.a (Debian: libzstd-dev) are needed"
fi
rm "$pack/log"
grep -v '^#' bench/gpu/cases.txt | while read -r name oracle entries use model options; do
    [ -f "$model" ] || continue
    case $use in *"$only"*) ;; *) continue ;; esac
    echo "$name $oracle $entries $use $model $options"
done >"$pack/cases.txt"

# compile NAME ARCH ENTRIES MODEL [NAME=VALUE ...]: PTX, the manifest as model.so, a cubin where there is an assembler
compile() {
    dir=$pack/$2/$1 arch=$2 model=$4
    flags=$(echo "$3" | sed 's/^/--entry /; s/,/ --entry /g')
    shift 4
    for o in "$@"; do flags="$flags -D $o"; done
    mkdir -p "$dir"
    "$build/fusec" "$model" -o "$dir/model.ptx" --arch "$arch" $flags || return 1
    sed -n 's/^extern const fusec_manifest \(.*\)_manifest;$/\1/p' "$dir/model.h" | head -n 1 >"$dir/prefix"
    "$cc" -O1 -shared -fPIC -o "$dir/model.so" "$dir/model.c" -ldl || return 1
    [ -z "$only" ] && command -v ptxas >/dev/null || return 0
    timeout 120 ptxas -arch="$arch" -o "$dir/model.cubin" "$dir/model.ptx" || { rm -f "$dir/model.cubin"; return 1; }
}

# What the software GPU makes of every instruction, for each device that it has.
for device in $devices; do
    PTXSIM_DEVICE=$device LD_LIBRARY_PATH=$build/ptxsim "$build/gpu/fusec_gpu_calibrate" --write "$pack/calibration/%s.txt" 2>"$pack/calibration/log" ||
        { cat "$pack/calibration/log" >&2; exit 1; }
done
rm "$pack/calibration/log"

bad=0
while read -r name oracle entries use model options; do
    say "packing $name"
    for arch in $archs; do
        compile "$name" "$arch" "$entries" "$model" $options || { say "$name: failed for $arch"; bad=1; }
    done
    case $use in
    *m*) [ ! -d "$pack/models" ] || cp "$model" "$pack/models/" ;;
    esac
    case $oracle in
    float64 | host)
        mkdir -p "$pack/expect/$name"
        "$build/gpu/fusec_gpu_expect" "$pack/expect/$name" "$oracle" "$entries" "$model" $options || { say "$name: no expected numbers"; bad=1; }
        ;;
    esac
done <"$pack/cases.txt"
[ $bad = 0 ] || exit 1

gzip -9 -r "$pack"/sm_* "$pack/expect"

say "packed: $pack, $(du -sm "$pack" | cut -f 1) MB"
[ -z "$only_pack" ] || exit 0
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
    say "There is no NVIDIA GPU here.  Copy the folder to a machine that has one (a driver is all it needs) and run"
    say "    sh run.sh RESULTS"
    say "there; it takes up to 8 minutes.  RESULTS/GPU.json belongs into bench/results/, RESULTS/hardware-*.txt into"
    say "tests/golden/ptxsim/.  docs/gpu.md says more."
    exit 0
fi
status=0
rm -rf "$src/build/gpu-results"
sh "$pack/run.sh" "$src/build/gpu-results" || status=$?
mkdir -p bench/results
cp "$src"/build/gpu-results/*.json bench/results/
cp "$src"/build/gpu-results/hardware-sm_*.txt tests/golden/ptxsim/ 2>/dev/null || true
exit $status
