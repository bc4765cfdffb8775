#!/bin/sh
# fusion.sh BUILD: what fused kernels move and execute, counted on the software GPU: name<TAB>value<TAB>unit.
#
#   fusion.NAME.DIR.bytes_over_bound   distinct bytes of each launch, in sectors of 32, which memory has to move, over those of each
#                                      input read once and each output written once; the worst of f32 and bf16, sm_80 and sm_90a
#   fusion.NAME.DIR.moved_over_bound   the same of all that warps asked for: what caches serve besides (a scale that every row reads)
#   fusion.NAME.DIR.instructions       warp instructions an element, times 32: f32, sm_80
#   fusion.attention_1024.moved_mb, .launches    causal attention with its gradients, [12, 1024, 64], all in bf16, sm_80
#   fusion.attention_1024.grad.moved_mb, .launches   the same as entry grad, whose gradients are f32
#   fusion.gpt2_block.DIR.kernels      of one block of examples/gpt2 (B = 8, T = 1024), sm_80: launches of infer, and how many more a
#                                      step with its gradients, for a given gradient of the result, and AdamW has; also in bf16
#   fusion.gpt2.step.launches, .arena_gb   of the whole example, as `fusec report` has them; also in bf16
#
# DIR is fwd (entry infer) or bwd (entry grad, all gradients).  Rows are 4096 of 1024 elements.
set -eu
build=$1
fusec=$build/fusec
rows=4096 columns=1024
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export LD_LIBRARY_PATH="$build/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

figure() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# Zeros of f32 under the name u: what is counted does not depend on them.  zeros ELEMENTS SHAPE
zeros() {
    bytes=$((4 * $1))
    header=$(printf '{"u":{"dtype":"F32","shape":[%s],"data_offsets":[0,%s]}}' "$2" "$bytes")
    { printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0"; printf %s "$header"; head -c $bytes /dev/zero; } >u.safetensors
}

none() { printf '\002\0\0\0\0\0\0\0{}' >u.safetensors; }

# model NAME DIR DTYPE: y of x, or gradients for u; what y is made of is as large as x, but for parameters of a row
model() {
    echo "dim R = $rows, C = $columns"
    echo "model m {"
    [ "$3" = f32 ] || echo "    precision bf16 weights bf16"
    echo "    x = param [R, C] init normal(1.0)"
    given="[R, C]"
    case $1 in
    softmax) echo "    y = softmax(x)" ;;
    layernorm) echo "    y = layernorm(x) as n" ;;
    rmsnorm) echo "    y = rmsnorm(x) as n" ;;
    cross_entropy)
        echo "    y = cross_entropy(x, iota(R, axis = 0, rank = 1) / $((rows / columns))"")"
        given="[R]" ;;
    gelu_bias_dropout_residual)
        echo "    r = param [R, C] init normal(1.0)"
        echo "    b = param [C] init zeros"
        echo "    y = r + where(uniform([R, C]) < 0.9, gelu(x + b) / 0.9, 0.0)" ;;
    esac
    if [ "$2" = fwd ]; then
        echo "    output o : $([ "$1" = cross_entropy ] && echo f32 || echo "$3") = y"
    else
        echo "    input u : f32$given"
        echo "    loss = sum(y * u)"
        echo "    train loss with sgd(lr = 0.1)"
    fi
    echo "}"
}

# Bytes of what is as large as x, inputs and outputs: bound NAME DIR BYTES_OF_AN_ELEMENT.  u and gradients are f32.
bound() {
    large=$((rows * columns))
    case $1.$2 in
    cross_entropy.fwd) echo $((large * $3)) ;;
    cross_entropy.bwd) echo $((large * ($3 + 4))) ;;
    gelu*.fwd) echo $((large * 3 * $3)) ;;
    gelu*.bwd) echo $((large * ($3 + 4 + 4 + 4))) ;; # x and u; of x and r
    *.fwd) echo $((large * 2 * $3)) ;;
    *.bwd) echo $((large * ($3 + 4 + 4))) ;;
    esac
}

# counted ENTRY ARCH: runs m.dsl; sectors moved, distinct ones, warp instructions and launches of the entry's kernels
counted() {
    LC_ALL=C "$build/ptxsim/ptxsim" stat --json -o counts.json --gpu "${2%a}" -- "$fusec" run m.dsl --target=cuda --arch "$2" --entry "$1" \
        --inputs u.safetensors --quiet >log 2>&1 || { cat log >&2; exit 1; }
    awk -v entry="\"$1_" -F'[:,]' '
        $1 ~ /"name"/ { ours = index($2, entry) }
        ours && $1 ~ /^ *"(load|store)_sectors"/ { sectors += $2 }
        ours && $1 ~ /^ *"unique_(load|store)_sectors"/ { distinct += $2 }
        ours && $1 ~ /^ *"warp_instructions"/ { warps += $2 }
        ours && $1 ~ /^ *"launches"/ { launches += $2 }
        END { if (!launches) exit 1; print sectors, distinct, warps, launches }' counts.json
}

# greater RATIO SECTORS BOUND
greater() { awk -v w="$1" -v s="$2" -v b="$3" 'BEGIN { x = 32 * s / b; printf "%.3f", (x > w ? x : w) }'; }

for name in softmax layernorm rmsnorm cross_entropy gelu_bias_dropout_residual; do
    for direction in fwd bwd; do
        entry=infer
        [ $direction = fwd ] || entry=grad
        worst=0 moved=0
        for dtype in f32 bf16; do
            width=4
            [ $dtype = f32 ] || width=2
            model $name $direction $dtype >m.dsl
            case $name.$direction in
            *.fwd) none ;;
            cross_entropy.*) zeros $rows $rows ;;
            *) zeros $((rows * columns)) $rows,$columns ;;
            esac
            for arch in sm_80 sm_90a; do
                set -- $(counted $entry $arch)
                least=$(bound $name $direction $width)
                worst=$(greater "$worst" "$2" "$least") moved=$(greater "$moved" "$1" "$least")
                [ $dtype.$arch = f32.sm_80 ] && executed=$(awk -v w="$3" -v e=$((rows * columns)) 'BEGIN { printf "%.1f", 32 * w / e }')
            done
        done
        figure "fusion.$name.$direction.bytes_over_bound" "$worst" ratio
        figure "fusion.$name.$direction.moved_over_bound" "$moved" ratio
        figure "fusion.$name.$direction.instructions" "$executed" instructions
    done
done

attention() {
    cat <<'END'
model m {
    precision bf16 weights bf16
    q = param [12, 1024, 64] init normal(1.0)
    k = param [12, 1024, 64] init normal(1.0)
    v = param [12, 1024, 64] init normal(1.0)
    s = where(causal(1024), q @ transpose(k) * rsqrt(64.0), -inf)
    loss = mean((softmax(s) @ v)^2)
END
    for line in "$@"; do echo "    $line"; done
    echo "}"
}
none
attention 'output dq : bf16 = vjp(loss, q, 1.0)' 'output dk : bf16 = vjp(loss, k, 1.0)' 'output dv : bf16 = vjp(loss, v, 1.0)' >m.dsl
set -- $(counted infer sm_80)
figure fusion.attention_1024.moved_mb "$(awk -v s="$1" 'BEGIN { printf "%.1f", 32e-6 * s }')" MB
figure fusion.attention_1024.launches "$4" launches
attention 'train loss with sgd(lr = 0.1)' >m.dsl
set -- $(counted grad sm_80)
figure fusion.attention_1024.grad.moved_mb "$(awk -v s="$1" 'BEGIN { printf "%.1f", 32e-6 * s }')" MB
figure fusion.attention_1024.grad.launches "$4" launches

# ---- examples/gpt2, from reports -----------------------------------------------------------------------------------------
src=$(cd "$(dirname "$0")/.." && pwd)
gpt2=$src/examples/gpt2/gpt2.dsl
{ sed '/^model gpt2/,$d' "$gpt2"; cat "$src/bench/gpt2_block.dsl"; } >block.dsl
# low PROGRAM: the same in bf16
low() { awk '{ print } /^model .*{/ { print "    precision bf16" }' "$1"; }
launches() { "$fusec" report "$1" --target sm_80 | sed -n "s/^entry $2: \([0-9]*\) launches/\1/p"; }
for dtype in f32 bf16; do
    name=gpt2
    if [ $dtype = f32 ]; then
        cp "$gpt2" whole.dsl
        cp block.dsl one.dsl
    else
        name=gpt2_bf16
        low "$gpt2" >whole.dsl
        low block.dsl >one.dsl
    fi
    forward=$(launches one.dsl infer) all=$(launches one.dsl step)
    figure "fusion.${name}_block.fwd.kernels" "$forward" kernels
    figure "fusion.${name}_block.bwd.kernels" $((all - forward)) kernels
    figure "fusion.$name.step.launches" "$(launches whole.dsl step)" launches
    figure "fusion.$name.step.arena_gb" "$("$fusec" report whole.dsl --target sm_80 --entry step | awk '/^  arena / { printf "%.3f", $2 / 1e9 }')" GB
done
