# Every example's PTX assembles for both architectures, one of them in bf16 too, and no matrix kernel spills registers.
# Skips without ptxas.
command -v ptxas >/dev/null || { echo "skipped: no ptxas here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
awk '{ print } /^model .*{/ { print "    precision bf16" }' "$SRC/examples/chargpt/chargpt.dsl" >"$work/bf16.dsl"
for arch in sm_80 sm_90; do
    for model in digits/mlp digits/cnn ecg/ecg chargpt/chargpt gpt2/gpt2 unet/unet resnet50/resnet50 bf16; do
        program=$SRC/examples/$model.dsl
        [ -e "$program" ] || program=$work/$model.dsl
        "$FUSEC" "$program" --entry step -o "$work/x.ptx" --arch $arch || status=1
        ptxas -v -arch=$arch "$work/x.ptx" -o "$work/x.cubin" >"$work/log" 2>&1 || {
            echo "$model: ptxas refuses the PTX for $arch"
            cat "$work/log"
            status=1
        }
        # "Function properties for NAME", then a line with the spills
        awk -v what="$model, $arch" '
            /Function properties for/ { name = $NF; seen++ }
            /bytes spill stores/ && name ~ /_contract_/ && !/ 0 bytes spill stores, 0 bytes spill loads/ {
                print what ": " name " spills: " $0; bad = 1
            }
            END { if (!seen) { print what ": no kernel seen"; bad = 1 } exit bad }' "$work/log" || status=1
    done
done
exit $status
