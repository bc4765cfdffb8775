#!/bin/sh
# Each golden of tests/goldens (an independent framework's float64 numbers, by make_goldens.py there) against every
# executor that runs on this machine: outputs, gradients, and parameters and states after three steps.
#
# Tolerances are shares of a tensor's largest magnitude.  infer: a few roundings of f32.  grad: sums in another order.
# step: what Adam makes of them, m / sqrt(v) of small gradients.
. "$SRC/tests/support/script.sh"
quick_c
[ -x "$BUILD/compare_safetensors" ] || exit 77
tensors=$BUILD/compare_safetensors
targets="host interp"
command -v "${CC:-cc}" >/dev/null && targets="$targets c99"
has_software_gpu && targets="$targets cuda"
failed=0

tolerance() { # entry case
    case $1.$2 in
    *.low*) echo 2e-2 ;; # values between two of bf16 round either way, and so does what follows
    infer.*) echo 1e-5 ;;
    grad.*) echo 3e-5 ;;
    step.*) echo 1e-4 ;;
    esac
}

run() { # case entry target
    golden=$SRC/tests/goldens/$1.safetensors
    model=${1#*.}
    [ "$model" = "$1" ] && model=
    steps=
    [ "$2" = step ] && steps="--steps 3"
    # shellcheck disable=SC2086
    "$FUSEC" run "$SRC/tests/goldens/${1%%.*}.dsl" ${model:+--model "$model"} --entry "$2" $steps --target "$3" \
        --params "$work/params" --inputs "$work/inputs" --outputs "$work/out" 2>"$work/log" &&
        "$tensors" compare "$golden" "$2/" "$work/out" "$(tolerance "$2" "$1")" 2>>"$work/log" && return
    echo "$1 $2 $3:" && sed 's/^/    /' "$work/log"
    failed=1
}

for file in "$SRC"/tests/goldens/*.dsl; do # without --model: all that the file has
    "$FUSEC" check "$file" || failed=1
done

cases=0
for file in "$SRC"/tests/goldens/*.safetensors; do
    name=$(basename "$file" .safetensors)
    "$tensors" extract "$file" param/ "$work/params" && "$tensors" extract "$file" input/ "$work/inputs" || exit 1
    for target in $targets; do
        for entry in infer grad step; do run "$name" "$entry" "$target"; done
    done
    cases=$((cases + 1))
done
[ $cases -ge 16 ] || { echo "only $cases goldens"; exit 1; }
exit $failed
