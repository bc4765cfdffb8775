#!/bin/sh
# run.sh BUILD_DIR [NAME]: prints a benchmark's figures, one per line: name<TAB>value<TAB>unit.
# Without NAME: lists the benchmarks.  `all`: every one.  docs/benchmarks.md says how each figure is measured.
set -eu
build=$1
name=${2:-}
src=$(cd "$(dirname "$0")/.." && pwd)
fusec=$build/fusec
measure=$build/bench/measure
CC=${CC:-cc}
names="compile checkpoint ablation gpt2-host ptxsim"

figure() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# Links DRIVER.c with objects: link OUT DRIVER -DX=Y... OBJECT...
link() {
    out=$1 driver=$2
    shift 2
    "$CC" -O2 -std=gnu11 -I"$src" "$src/bench/$driver.c" "$@" "$build/bench/libbench_model.a" \
        "$build/runtime/libfusec_host.a" -lm -lpthread -o "$out"
}

# time_compile PREFIX FILE OPTIONS...: the two times; leaves MiB in $mib
time_compile() {
    prefix=$1
    shift
    result=$("$measure" 5 "$fusec" "$@" -o "$work/out.ptx")
    mib=${result##* }
    result=${result% *}
    figure "$prefix.seconds" "${result% *}" s
    figure "$prefix.processor_seconds" "${result#* }" s
}

bench_compile() {
    time_compile compile.digits_cnn "$src/examples/digits/cnn.dsl"
    time_compile compile.gpt2 "$src/examples/gpt2/gpt2.dsl"
    figure compile.gpt2.peak_mb "$mib" MiB
    for n in 100 300 1000; do
        time_compile compile.resmlp_$n "$src/bench/resmlp.dsl" -D N=$n
    done
}

# One model under a name of its own, so that two link together: host_object NAME CHECKPOINT BLOCKS BATCH
host_object() {
    sed "s/^model resmlp /model $1 /" "$src/bench/resmlp.dsl" >"$work/$1.dsl"
    "$fusec" "$work/$1.dsl" -D N="$3" -D B="$4" --checkpoint="$2" --entry=step -o "$work/$1.o"
}

bench_checkpoint() {
    for n in 100 1000; do
        host_object stored none $n 256
        host_object recomputed sqrt $n 256
        link "$work/pair" pair -DFIRST=stored -DSECOND=recomputed "$work/stored.o" "$work/recomputed.o"
        result=$("$work/pair" 5)
        figure "checkpoint.resmlp_$n.activation_ratio" "${result% *}" ratio
        figure "checkpoint.resmlp_$n.time_ratio" "${result#* }" ratio
    done
}

bench_ablation() {
    for model in jacobian256 backward256; do
        "$fusec" "$src/bench/jacobian256.dsl" --model=$model -o "$work/$model.o"
    done
    link "$work/jacobian" jacobian "$work/jacobian256.o" "$work/backward256.o"
    figure ablation.jacobian256.speedup "$("$work/jacobian" 3)" ratio
}

bench_gpt2_host() {
    "$fusec" "$src/examples/gpt2/gpt2.dsl" -D B=4 -D T=64 --entry=step -o "$work/gpt2.o"
    link "$work/step" step -DMODEL=gpt2 "$work/gpt2.o"
    # the first loss is that of a uniform guess, ln(50257), and a little more
    result=$("$work/step" --steps 3 --tokens 256 --loss-near 10.82 ${PROFILE:+--profile})
    set -- $result
    figure gpt2_host.step.seconds "$1" s
    figure gpt2_host.step.of_peak "$2" ratio
    figure gpt2_host.step.peak_mb "$3" MiB
}

bench_ptxsim() { "$build/bench/bench_ptxsim" "$build/ptxsim/libcuda.so.1"; }

if [ -z "$name" ]; then
    printf '%s\n' $names all
    exit 0
fi
case " $names all " in
*" $name "*) ;;
*)
    echo "bench: no benchmark '$name'; there are: $names all" >&2
    exit 2
    ;;
esac
cmake --build "$build" --target bench -- --no-print-directory -s >"$build/bench.log" || { cat "$build/bench.log" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ "$name" = all ] || names=$name
for each in $names; do
    case $each in
    compile) bench_compile ;;
    checkpoint) bench_checkpoint ;;
    ablation) bench_ablation ;;
    gpt2-host) bench_gpt2_host ;;
    ptxsim) bench_ptxsim ;;
    esac
done
