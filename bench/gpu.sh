#!/bin/sh
# ./dev gpu [--pack] [DIR] [--software]
#   Packs kernels, launchers, expected numbers and run.sh into DIR (build/gpu-pack) for a machine with an NVIDIA GPU.
#   Without --pack, where there is such a GPU, runs them and keeps the results.
#   --software: only the small cases, which the software GPU can run.
# ./dev gpu --keep RESULTS...
#   Keeps what run.sh wrote there, folders or .tar.gz: figures in bench/results/GPU.json, the GPU's instructions in tests/golden/ptxsim.
# sh bench/gpu.sh BUILD_DIR ARGS
set -eu
usage='usage: ./dev gpu [--pack] [DIR] [--software], or ./dev gpu --keep RESULTS...'
say() { printf '%s\n' "$*" >&2; }
root=$(cd "$(dirname "$0")/.." && pwd)
given=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- results --------------------------------------------------------------------------------------------------------
# Of a figure that stands in several, the last one counts.
keep() {
    found=''
    mkdir -p "$root/bench/results" "$work/kept"
    for from in "$@"; do
        if [ -f "$from" ]; then
            rm -rf "$work/in" && mkdir "$work/in" && tar -xzf "$from" -C "$work/in" || return 1
            from=$work/in
        fi
        for f in "$from"/*.json; do
            [ -e "$f" ] || continue
            grep '^ {"name"' "$f" | sed 's/,$//' >>"$work/kept/${f##*/}" || true
        done
        for f in "$from"/hardware-sm_*.txt; do [ ! -e "$f" ] || cp "$f" "$root/tests/golden/ptxsim/"; done
    done
    for f in "$work"/kept/*.json; do
        [ -e "$f" ] || continue
        found=1
        awk -F '"' '{ if (!($4 in line)) name[++n] = $4; line[$4] = $0 }
            END { print "["; for (i = 1; i <= n; i++) print line[name[i]] (i < n ? "," : ""); print "]" }' "$f" >"$root/bench/results/${f##*/}"
        say "kept: bench/results/${f##*/}, $(grep -c '"name"' "$root/bench/results/${f##*/}") figures"
    done
    [ -n "$found" ] || { say "no figures (*.json) in $*"; return 1; }
}
if [ "${1:-}" = --keep ]; then
    shift
    [ $# -gt 0 ] || { say "$usage"; exit 2; }
    keep "$@"
    exit
fi

# ---- what is asked ----------------------------------------------------------------------------------------------------
build=$(cd "$given" 2>/dev/null && pwd) || { say "$given is not built: ./dev build first"; exit 1; }
cd "$root"
pack=$root/build/gpu-pack
only_pack='' only=''
while [ $# -gt 0 ]; do
    case $1 in
    --pack) only_pack=1 ;;
    --software) only=s ;;
    -*) say "$usage"; exit 2 ;;
    *) case $1 in /*) pack=$1 ;; *) pack=$root/$1 ;; esac ;;
    esac
    shift
done
archs='sm_80 sm_90 sm_90a' devices='sm_80 sm_90'
[ -z "$only" ] || archs='sm_90 sm_90a' devices=sm_90
cc=${CC:-cc}

# A folder that holds anything but a pack is not touched.
if [ -e "$pack" ] && [ ! -e "$pack/cases.txt" ] && [ -n "$(ls -A "$pack")" ]; then
    say "$pack is not empty and is no pack: name another folder"
    exit 1
fi
rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/expect" "$pack/models" "$pack/calibration" "$pack/src/bench/gpu/calibrate" "$pack/src/runtime/common" "$pack/src/runtime/cuda"

cp bench/gpu/run.sh bench/gpu/peers.py "$pack/"
cp bench/gpu/main.c bench/gpu/model.c bench/gpu/check.c bench/gpu/speed.c bench/gpu/numbers.c bench/gpu/numbers.h bench/gpu/runner.h "$pack/src/bench/gpu/"
cp runtime/common/*.[ch] "$pack/src/runtime/common/"
cp runtime/cuda/*.[ch] "$pack/src/runtime/cuda/"
cp bench/gpu/calibrate/*.[ch] bench/gpu/calibrate/*.def "$pack/src/bench/gpu/calibrate/"
cp "$build/gpu/fusec_gpu_run" "$build/gpu/fusec_gpu_calibrate" "$pack/bin/"
{ git rev-parse HEAD 2>/dev/null || echo unknown; } >"$pack/commit"
# the compiler, which measures tiles there, and what draws programs for it
if cmake --build "$build" --target fusec_alone -- --no-print-directory -s >"$work/log" 2>&1; then
    gzip -c "$build/gpu/fusec_alone" >"$pack/bin/fusec.gz"
    [ ! -x "$build/tests/net" ] || gzip -c "$build/tests/net" >"$pack/bin/net.gz"
else
    say "the pack has no compiler, and can measure no tiles nor draw programs: LLVM's archives and libzstd.a (Debian: libzstd-dev) are needed"
fi

# What the software GPU makes of every instruction, for each device that it has.
for device in $devices; do
    PTXSIM_DEVICE=$device LD_LIBRARY_PATH=$build/ptxsim "$build/gpu/fusec_gpu_calibrate" --write "$pack/calibration/%s.txt" 2>"$work/log" ||
        { cat "$work/log" >&2; exit 1; }
done

# ---- the cases -----------------------------------------------------------------------------------------------------------
# in_precision PRECISION MODEL: the model in it, whatever it says itself
in_precision() {
    awk -v p="$1" '/^ *precision / { next } { print } /^model .*{/ { print "    precision " p }' "$2"
}
grep -v '^#' bench/gpu/cases.txt | while read -r name oracle entries use model options; do
    [ -f "$model" ] || continue
    case $use in *"$only"*) ;; *) continue ;; esac
    case $use in *m*) cp "$model" "$pack/models/" ;; esac
    case $options in
    precision=*)
        precision=${options%% *}
        mkdir -p "$pack/models/$name"
        in_precision "${precision#*=}" "$model" >"$pack/models/$name/${model##*/}"
        model=models/$name/${model##*/} options=${options#"$precision"}
        ;;
    esac
    echo "$name $oracle $entries $use $model $options"
done >"$pack/cases.txt"

flags_of() {
    echo "$1" | sed 's/^/--entry /; s/,/ --entry /g'
    shift
    for o in "$@"; do echo "-D $o"; done
}

# manifest_alone FOLDER: model.so without the runtime, which the launcher has
echo '{ global: *_manifest; local: *; };' >"$work/exports"
manifest_alone() {
    "$cc" -O0 -shared -fPIC -fdata-sections -ffunction-sections -Wl,--gc-sections -Wl,--version-script="$work/exports" -s \
        -o "$1/model.so" "$1/model.c" -ldl 2>/dev/null
}

# compile NAME ARCH ENTRIES MODEL PROFILE [NAME=VALUE ...]: PTX, the manifest as model.so; where there is an assembler, a
# cubin of what runs on one kind of GPU alone (the driver compiles the others' PTX, for whatever GPU there is)
compile() {
    dir=$pack/$2/$1 arch=$2 entries=$3 source=$4 profile=$5
    shift 5
    mkdir -p "$dir"
    # shellcheck disable=SC2046
    "$build/fusec" "$source" -o "$dir/model.ptx" --arch "$arch" ${profile:+--profile "$profile"} $(flags_of "$entries" "$@") || return 1
    sed -n 's/^extern const fusec_manifest \(.*\)_manifest;$/\1/p' "$dir/model.h" | head -n 1 >"$dir/prefix"
    manifest_alone "$dir" || "$cc" -O1 -shared -fPIC -o "$dir/model.so" "$dir/model.c" -ldl || return 1
    [ -z "$only" ] && [ "$arch" = sm_90a ] && command -v ptxas >/dev/null || return 0
    timeout 120 ptxas -arch="$arch" -o "$dir/model.cubin" "$dir/model.ptx" || { rm -f "$dir/model.cubin"; return 1; }
}

# profiles FOLDER ENTRIES MODEL [NAME=VALUE ...]: FOLDER/tiles, those that one of the model's products may have, and a profile
# for each, in which a product that has not this tile keeps its own
profiles() {
    to=$1 entries=$2 source=$3
    shift 3
    mkdir -p "$to"
    # of the small cases one tile is a case: the two that the cost model puts first are enough to choose from
    # shellcheck disable=SC2046
    LD_LIBRARY_PATH=$build/ptxsim "$build/fusec" tune "$source" --profile "$to/all" --target sm_90a ${only:+--tiles=2} $(flags_of "$entries" "$@") >"$to/log" 2>&1 ||
        { cat "$to/log" >&2; return 1; }
    sed -n 's/^product .* of //p' "$to/all" | tr ' ' '\n' | sed -n 's/=[0-9.]*$//p' | sort -u >"$to/tiles"
    [ -z "$only" ] || sed -i 1q "$to/tiles"
    while read -r tile; do
        awk -v tile="$tile" 'index($0, " " tile "=") { sub(/-> [^ ]*/, "-> " tile) } { print }' "$to/all" >"$to/$(echo "$tile" | tr : -)"
    done <"$to/tiles"
}

bad() { say "$*"; : >"$work/bad"; }

# pack_case NAME ORACLE ENTRIES USE MODEL [NAME=VALUE ...]: kernels for every architecture, and what they must compute
pack_case() {
    name=$1 oracle=$2 all=$3 use=$4 listed=$5 model=$5
    shift 5
    [ -f "$model" ] || model=$pack/$model
    for a in $archs; do
        # what low precision has of its own is not for sm_90
        case $a$use in sm_90[xz]*) [ -n "$only" ] || continue ;; esac
        compile "$name" "$a" "$all" "$model" '' "$@" || bad "$name: failed for $a"
    done
    case $oracle in
    float64 | host)
        mkdir -p "$pack/expect/$name"
        "$build/gpu/fusec_gpu_expect" "$pack/expect/$name" "$oracle" "$all" "$model" "$@" || bad "$name: no expected numbers"
        ;;
    esac
    case $use in *k*) ;; *) return 0 ;; esac
    profiles "$work/$name" "$all" "$model" "$@" || { bad "$name: its tiles are not known"; return 0; }
    tr : - <"$work/$name/tiles" | while read -r tile; do
        compile "$name-$tile" sm_90a "$all" "$model" "$work/$name/$tile" "$@" || bad "$name: failed with $tile"
        dir=$pack/sm_90a/$name-$tile
        rm "$dir/model.c" "$dir/model.h"
        [ ! -e "$dir/model.cubin" ] || rm "$dir/model.ptx"
        echo "$name-$tile $oracle $all xa $listed $*" >>"$work/more"
    done
}

: >"$work/more"
jobs=$(nproc 2>/dev/null || echo 1) running=0
while read -r name oracle entries use model options; do
    say "packing $name"
    # shellcheck disable=SC2086
    pack_case "$name" "$oracle" "$entries" "$use" "$model" $options </dev/null &
    running=$((running + 1))
    [ $running -lt "$jobs" ] || { wait; running=0; }
done <"$pack/cases.txt"
wait
[ ! -e "$work/bad" ] || exit 1
sort "$work/more" >>"$pack/cases.txt"

gzip -9 -r "$pack"/sm_* "$pack/expect"

say "packed: $pack, $(du -sm --apparent-size "$pack" | cut -f 1) MB"
[ -z "$only_pack" ] || exit 0
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
    say "There is no NVIDIA GPU here.  Copy the folder to a machine that has one (a driver is all it needs) and run"
    say "    sh run.sh RESULTS"
    say "there, then here ./dev gpu --keep RESULTS.  docs/gpu.md says more."
    exit 0
fi
status=0
rm -rf "$root/build/gpu-results"
sh "$pack/run.sh" "$root/build/gpu-results" || status=$?
keep "$root/build/gpu-results"
exit $status
