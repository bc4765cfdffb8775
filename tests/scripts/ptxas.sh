# Every example's PTX assembles, in f32 for two architectures and in every low precision for those with matrix kernels of
# their own; no kernel spills registers, and no warpgroup's product is serialised.  So does an attention whose heads fit no tile.
# Skips without ptxas.
command -v ptxas >/dev/null || { echo "skipped: no ptxas here"; exit 77; }
. "$SRC/tests/support/script.sh"
# check PROGRAM ARCH WHAT
check() {
    "$FUSEC" "$1" --entry step -o "$work/x.ptx" --arch $2 || bad=1
    ptxas -v -arch=$2 "$work/x.ptx" -o "$work/x.cubin" >"$work/log" 2>&1 || {
        echo "$3: ptxas refuses the PTX for $2"
        cat "$work/log"
        bad=1
    }
    # "Function properties for NAME", then a line with the spills
    awk -v what="$3, $2" '
        /Function properties for/ { name = $NF; seen++ }
        /bytes spill stores/ && !/ 0 bytes spill stores, 0 bytes spill loads/ {
            print what ": " name " spills: " $0; bad = 1
        }
        /C7508|C751[0-9]/ { print what ": " $0; bad = 1 }
        END { if (!seen) { print what ": no kernel seen"; bad = 1 } exit bad }' "$work/log" || bad=1
}
sed 's/D = 64/D = 21/' "$SRC/bench/gpu/attention.dsl" >"$work/attention.dsl"
for model in digits/mlp digits/cnn ecg/ecg chargpt/chargpt gpt2/gpt2 unet/unet resnet50/resnet50 attention; do
    program=$SRC/examples/$model.dsl
    [ -e "$program" ] || program=$work/$model.dsl
    for arch in sm_80 sm_90; do check "$program" $arch $model; done
    for precision in bf16 f16 tf32; do
        awk -v p=$precision '{ print } /^model .*{/ { print "    precision " p }' "$program" >"$work/low.dsl"
        for arch in sm_80 sm_90a; do check "$work/low.dsl" $arch "$model in $precision"; done
    done
done
exit $bad
