#!/bin/sh
# run.sh BUILD_DIR [NAME]: prints a benchmark's figures, one per line: name<TAB>value<TAB>unit.
# Without NAME: lists the benchmarks.  `all`: every one.  docs/benchmarks.md says how each figure is measured.
set -eu
build=$1
name=${2:-}
src=$(cd "$(dirname "$0")/.." && pwd)
fusec=$build/fusec
measure=$build/bench/measure
blis_skx=0 # what BLIS calls its kernels for AVX-512
CC=${CC:-cc}
names="compile checkpoint ablation gemm conv fusion fusion-host gpt2-host roofline-host resnet50-host ptxsim trust"

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }

figure() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# Links DRIVER.c with objects: link OUT DRIVER -DX=Y... OBJECT...
link() {
    out=$1 driver=$2
    shift 2
    "$CC" -O2 -std=gnu11 -I"$src" -I"$work" "$src/bench/$driver.c" "$@" "$build/bench/libbench_model.a" \
        "$build/runtime/libfusec_host.a" -lm -lpthread -o "$out"
}

# time_compile PREFIX KIND RUNS FILE OPTIONS...: the two times; leaves MiB in $mib, processor time in $processor
time_compile() {
    prefix=$1 kind=$2 runs=$3
    shift 3
    result=$("$measure" "$runs" "$fusec" "$@" -o "$work/out.$kind")
    mib=${result##* }
    result=${result% *}
    processor=${result#* }
    figure "$prefix.seconds" "${result% *}" s
    figure "$prefix.processor_seconds" "$processor" s
}

bench_compile() {
    time_compile compile.digits_cnn ptx 5 "$src/examples/digits/cnn.dsl"
    time_compile compile.gpt2 ptx 5 "$src/examples/gpt2/gpt2.dsl"
    figure compile.gpt2.peak_mb "$mib" MiB
    for n in 100 300 1000; do
        time_compile compile.resmlp_$n ptx 5 "$src/bench/resmlp.dsl" -D N=$n
    done
    for name in sines outputs; do repeated_$name >"$work/$name.dsl"; done
    for as in ptx o c; do
        time_compile compile.resmlp_1000.$as $as 3 "$src/bench/resmlp.dsl" -D N=1000
        least=$processor
        time_compile compile.resmlp_5000.$as $as 1 "$src/bench/resmlp.dsl" -D N=5000
        time_compile compile.resmlp_10000.$as $as 1 "$src/bench/resmlp.dsl" -D N=10000
        figure compile.resmlp_10000_to_1000.$as "$(ratio "$processor" "$least")" ratio
        for name in sines outputs; do time_compile compile.$name.$as $as 1 "$work/$name.dsl"; done
    done
}

# One kernel of 2000 sines, each of the one before.
repeated_sines() {
    printf 'model sines {\n    x = param [64] init normal(1.0)\n    y0 = x\n'
    awk 'BEGIN { for (i = 1; i <= 2000; i++) printf "    y%d = sin(y%d) + x\n", i, i - 1 }'
    printf '    loss = sum(y2000)\n    train loss with sgd(lr = 0.01)\n}\n'
}

repeated_outputs() {
    printf 'model outputs {\n    x = param [64] init normal(1.0)\n'
    awk 'BEGIN { for (i = 1; i <= 4000; i++) printf "    output y%d = sin(x * %d.0)\n", i, i }'
    printf '    loss = sum(x)\n    train loss with sgd(lr = 0.01)\n}\n'
}

# Verification's share of compile time: processor time with it over that without, runs that take turns.
bench_trust() {
    checked= unchecked=
    for round in 1 2 3 4 5; do
        for as in ptx c; do
            model="$src/bench/resmlp.dsl -D N=1000 -o $work/out.$as"
            checked="$checked + $("$measure" 1 "$fusec" $model | cut -d' ' -f2)"
            unchecked="$unchecked + $("$measure" 1 "$fusec" $model -fno-verify | cut -d' ' -f2)"
        done
    done
    figure trust.verify.compile_overhead "$(awk "BEGIN { printf \"%.3f\", ($checked) / ($unchecked) }")" ratio
    sh "$src/tests/hunt.sh" "$build" bench
    sh "$src/tests/mutants/mutants.sh" | grep "^trust" || true
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

# Kernels for AVX-512 where the libraries do not know the processor.
wide_blas() {
    if grep -q avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE=SkylakeX BLIS_ARCH_TYPE=$blis_skx; fi
}

bench_ablation() {
    for model in jacobian256 backward256; do
        "$fusec" "$src/bench/jacobian256.dsl" --model=$model -o "$work/$model.o"
    done
    link "$work/jacobian" jacobian "$work/jacobian256.o" "$work/backward256.o"
    set -- $("$work/jacobian" 5)
    figure ablation.jacobian256.speedup "$1" ratio
    figure ablation.jacobian256.of_peak "$2" ratio
    for model in merged single; do
        off=
        [ $model = merged ] || off=-fno-jacobian-gemm
        sed "s/^model mlp4096 /model $model /" "$src/bench/mlp4096.dsl" >"$work/$model.dsl"
        "$fusec" "$work/$model.dsl" --entry=step $off -o "$work/$model.o"
    done
    link "$work/ablation" ablation "$work/merged.o" "$work/single.o" -ldl
    wide_blas
    set -- $("$work/ablation" 1)
    figure ablation.mlp4096.speedup "$1" ratio
    [ "$2" = - ] || figure ablation.mlp4096.off_vs_blas2 "$2" ratio
}

# product NAME MODEL ROUNDS DIM=SIZE...: leaves seconds, the best library's, its name, share of the peak in $result
product() {
    model=$2 rounds=$3 M=1 N=1 K=1 B=1 options=
    label=$1
    shift 3
    for dim in "$@"; do
        options="$options -D $dim"
        eval "$dim"
    done
    "$fusec" "$src/bench/gemm.dsl" --model="$model" $options --entry=infer -o "$work/$model.o"
    link "$work/gemm" gemm -DMODEL="$model" "$work/$model.o" -ldl
    left=0 right=0
    case $model in *tn | *tt) left=1 ;; esac
    case $model in *nt | *tt) right=1 ;; esac
    echo "$label" >&2
    wide_blas
    threads=${THREADS:-$(nproc)}
    # no spinning in another's turn
    result=$(OMP_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=$threads OPENBLAS_THREAD_TIMEOUT=20 GOMP_SPINCOUNT=10000 \
        "$work/gemm" $M $N $K $B $left $right "$rounds" "$threads")
}

# bf16_product N: factors of bf16 against f32 and against oneDNN
bf16_product() {
    for model in nn nn_bf16; do
        "$fusec" "$src/bench/gemm.dsl" --model=$model -D M="$1" -D N="$1" -D K="$1" --entry=infer -o "$work/$model.o"
    done
    peer=
    ! has_library dnnl || peer="-DONEDNN $src/bench/onednn_matmul.c -ldnnl"
    link "$work/gemm_bf16" gemm_bf16 "$work/nn.o" "$work/nn_bf16.o" $peer
    threads=${THREADS:-$(nproc)}
    set -- "$1" $(OMP_NUM_THREADS=$threads GOMP_SPINCOUNT=10000 "$work/gemm_bf16" "$1" "$1" "$1" 7 "$threads")
    figure "gemm.bf16.$1.vs_f32" "$(echo "$2 $3" | awk '{ printf "%.4f", $2 / $1 }')" ratio
    [ "$4" = - ] || figure "gemm.bf16.$1.vs_onednn" "$(echo "$2 $4" | awk '{ printf "%.4f", $2 / $1 }')" ratio
}

# Over all shapes: the geometric mean and the least of (the best library's time) / (ours)
bench_gemm() {
    for n in 1024 2048 4096; do
        product "gemm.f32.$n" nn 7 M=$n N=$n K=$n
        set -- $result
        figure "gemm.f32.$n.of_peak" "$4" ratio
        [ "$3" = - ] || figure "gemm.f32.$n.vs_best_blas" "$(echo "$1 $2" | awk '{ printf "%.4f", $2 / $1 }')" ratio
    done
    for n in 1024 2048 4096; do bf16_product $n; done
    : >"$work/ratios"
    while read -r label model dims; do
        case $label in '' | '#'*) continue ;; esac
        product "$label" "$model" 7 $dims
        echo "$label $result" | awk '$4 != "-" { printf "%s %.4f %s\n", $1, $3 / $2, $4 }' >>"$work/ratios"
    done <"$src/bench/shapes.txt"
    # a product's library begins and ends with the same arrays
    awk '{ print $1, $2, $3, $2 }' "$work/ratios" >"$work/all"
    if conv_ratios; then awk '{ print "conv." $1, $2, "oneDNN", $4 }' "$work/conv.txt" >>"$work/all"; fi
    sort -k2 -g "$work/all" >&2
    [ -s "$work/all" ] || return 0
    awk -v OFS='\t' '
        { sum += log($2); arrays += log($4) }
        NR == 1 || $2 < least { least = $2 }
        NR == 1 || $4 < least_arrays { least_arrays = $4 }
        END {
            print "gemm.shapes.geomean_vs_best", exp(sum / NR), "ratio"
            print "gemm.shapes.min_vs_best", least, "ratio"
            print "gemm.shapes.geomean_same_arrays", exp(arrays / NR), "ratio"
            print "gemm.shapes.min_same_arrays", least_arrays, "ratio"
        }' "$work/all"
}

# Does the linker find the library?  has_library NAME
has_library() { echo 'int main(void) { return 0; }' | "$CC" -xc - -l"$1" -o "$work/probe" 2>/dev/null; }

# One line of conv_shapes.txt: conv_shape NAME SIZE IN OUT SPAN STRIDE PAD
conv_shape() {
    case $1 in
    depthwise*) model=depthwise depthwise=1 out= ;;
    *) model=conv depthwise=0 out="-D F=$4" ;;
    esac
    "$fusec" "$src/bench/conv.dsl" --model=$model -D H="$2" -D C="$3" $out -D K="$5" -D stride="$6" -D P="$7" -o "$work/$model.o"
    link "$work/conv" conv "$src/bench/onednn.c" -DMODEL=$model "$work/$model.o" -ldnnl
    # no spinning in another's turn
    OMP_NUM_THREADS=${THREADS:-$(nproc)} GOMP_SPINCOUNT=10000 "$work/conv" --rounds 7 ${THREADS:+--threads $THREADS} "$1" 8 "$2" "$3" "$4" "$5" "$6" "$7" \
        $depthwise 2>>"$build/bench.log"
}

# The ratios of all convolutions, as "NAME.PASS ratio gflops arrays" (bench/conv.c), into $work/conv.txt, once; false: no oneDNN.
conv_ratios() {
    [ ! -e "$work/conv.txt" ] || return 0
    if ! has_library dnnl; then
        echo "bench: convolutions are skipped: they are compared with oneDNN (Debian: libdnnl-dev)" >&2
        return 1
    fi
    grep -v '^#' "$src/bench/conv_shapes.txt" | while read -r shape; do conv_shape $shape; done >"$work/ratios.conv"
    mv "$work/ratios.conv" "$work/conv.txt"
}

bench_conv() {
    conv_ratios || return 0
    awk -v OFS='\t' '
        { print "conv." $1 ".vs_onednn", $2, "ratio"; print "conv." $1 ".same_arrays", $4, "ratio" }
        { sum += log($2); arrays += log($4); n++ }
        n == 1 || $2 < least { least = $2 }
        n == 1 || $4 < least_arrays { least_arrays = $4 }
        END {
            if (!n) exit
            print "conv.geomean_vs_onednn", exp(sum / n), "ratio"
            print "conv.min_vs_onednn", least, "ratio"
            print "conv.geomean_same_arrays", exp(arrays / n), "ratio"
            print "conv.min_same_arrays", least_arrays, "ratio"
        }
    ' "$work/conv.txt"
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
    figure gpt2_host.block_of_peak "$4" ratio
    "$fusec" "$src/examples/gpt2/gpt2.dsl" -D B=4 -D T=64 --entry=step --memory-budget=1800M -o "$work/gpt2.o"
    link "$work/less" step -DMODEL=gpt2 "$work/gpt2.o"
    result="$1 $("$work/less" --steps 3 --tokens 256 --loss-near 10.82)"
    set -- $result
    figure gpt2_host.budget.time_ratio "$(ratio "$2" "$1")" ratio
    figure gpt2_host.budget.of_peak "$3" ratio
    figure gpt2_host.budget.peak_mb "$4" MiB
}

# Steps of the examples, the large ones with smaller batches: the kernel that is furthest below its roofline.
bench_roofline_host() {
    for of in 'digits/cnn digits_cnn' 'chargpt/chargpt chargpt' 'unet/unet unet B=1' 'gpt2/gpt2 gpt2 B=4 T=64' 'resnet50/resnet50 resnet50 B=4'; do
        set -- $of
        file=$1 model=$2
        shift 2
        "$fusec" "$src/examples/$file.dsl" ${1:+-D $1} ${2:+-D $2} --entry=step -o "$work/$model.o"
        link "$work/step" step -DMODEL="$model" "$work/$model.o"
        result=$("$work/step" --steps 2 --roofline)
        echo "$model: ${result#* }" >&2
        figure "roofline_host.$model.least" "${result% *}" ratio
    done
}

# PYTHON: an interpreter that has PyTorch
bench_resnet50_host() {
    python=${PYTHON:-python3} threads=${THREADS:-$(nproc)}
    "$fusec" "$src/examples/resnet50/resnet50.dsl" -D B=4 -D S=224 --entry=step -o "$work/resnet50.o"
    link "$work/versus" versus -DMODEL=resnet50 "$work/resnet50.o"
    if "$python" -c 'import torch' 2>/dev/null; then
        peer="$python $src/bench/resnet50_torch.py 4 224 $threads"
    else
        echo "bench: $python has no PyTorch (PYTHON=..): resnet50-host is not compared" >&2
        peer=
    fi
    result=$("$work/versus" --rounds 5 --threads "$threads" --hyper 0.001 $peer)
    figure resnet50_host.step.seconds "${result% *}" s
    [ -z "$peer" ] || figure resnet50_host.step.vs_torch "$(echo "$result" | awk '{ print $2 / $1 }')" ratio
}

# Programs of bench/host beside PyTorch's best way; PYTHON as above.  CASE: one of bench/host/cases.txt alone.
bench_fusion_host() {
    python=${PYTHON:-python3} threads=${THREADS:-$(nproc)}
    if ! "$python" -c 'import torch' 2>/dev/null; then
        echo "bench: $python has no PyTorch (PYTHON=..): fusion-host compares with nothing" >&2
        return 0
    fi
    grep -v '^#' "$src/bench/host/cases.txt" >"$work/cases"
    while read -r case model dims; do
        [ -z "${CASE:-}" ] || [ "$CASE" = "$case" ] || continue
        "$fusec" "$src/bench/host/$model.dsl" ${dims:+-D $dims} --entry=step -o "$work/$model.o" ||
            { echo "bench: $case is not compiled" >&2; continue; }
        link "$work/versus" versus -DMODEL="$model" "$work/$model.o"
        result=$("$work/versus" --rounds 7 --threads "$threads" "$python" "$src/bench/host_torch.py" "$model" "$threads" $dims </dev/null)
        figure "fusion.host.$case.seconds" "${result% *}" s
        figure "fusion.host.$case.vs_torch" "$(echo "$result" | awk '{ printf "%.2f", $2 / $1 }')" ratio
    done <"$work/cases"
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
    gemm) bench_gemm ;;
    conv) bench_conv ;;
    fusion) sh "$src/bench/fusion.sh" "$build" ;;
    fusion-host) bench_fusion_host ;;
    gpt2-host) bench_gpt2_host ;;
    roofline-host) bench_roofline_host ;;
    resnet50-host) bench_resnet50_host ;;
    ptxsim) bench_ptxsim ;;
    trust) bench_trust ;;
    esac
done
