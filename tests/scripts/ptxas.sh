# Every example's PTX assembles: in f32 or in one of three low precisions, for one of two architectures, by turns.  With PTXAS_TURN,
# which shifts the precisions, as in ./dev fuzz: in both, for both architectures.  No kernel spills registers or has a stack, and no
# warpgroup's product is serialised.  So do an attention whose heads fit no tile, a layer with much to compute after its sum, and
# small convolutions: the kernels that fill their registers most.  Skips without ptxas.
command -v ptxas >/dev/null || { echo "skipped: no ptxas here"; exit 77; }
. "$SRC/tests/support/script.sh"
tried=0 turn=0
# check PROGRAM ARCH WHAT
check() {
    tried=$((tried + 1))
    "$FUSEC" "$1" --entry step -o "$work/x.ptx" --arch $2 || { fail "$3: not compiled for $2"; return; }
    assembled "$work/x.ptx" $2 "$3"
}
sed 's/D = 64/D = 21/' "$SRC/bench/gpu/attention.dsl" >"$work/attention.dsl"
sed '/^ *precision /d' "$SRC/bench/gpu/layer_bf16.dsl" >"$work/layer.dsl"
cp "$SRC/bench/gpu/conv.dsl" "$work/conv.dsl"
for model in digits/mlp digits/cnn ecg/ecg chargpt/chargpt gpt2/gpt2 unet/unet resnet50/resnet50 attention layer conv; do
    program=$SRC/examples/$model.dsl
    [ -e "$program" ] || program=$work/$model.dsl
    case ${PTXAS_TURN:+4}$((turn % 4)) in
    0) plain=sm_80 matrix= ;;
    1) plain= matrix=sm_80 ;;
    2) plain=sm_90 matrix= ;;
    3) plain= matrix=sm_90a ;;
    *) plain="sm_80 sm_90" matrix="sm_80 sm_90a" ;;
    esac
    for arch in $plain; do check "$program" $arch $model; done
    case $(((turn + ${PTXAS_TURN:-0}) % 3)) in 0) precision=bf16 ;; 1) precision=f16 ;; *) precision=tf32 ;; esac
    awk -v p=$precision '{ print } /^model .*{/ { print "    precision " p }' "$program" >"$work/low.dsl"
    for arch in $matrix; do check "$work/low.dsl" $arch "$model in $precision"; done
    turn=$((turn + 1))
done
# large tiles by threads, in f32, whose epilogues read several tensors as large as the product
cat >"$work/wide.dsl" <<'END'
model wide {
    input x : f32[4096, 1024]
    input r : f32[4096, 2048]
    input s : f32[4096, 2048]
    a = linear(x, 2048) as a
    h = dropout(gelu(a), 0.1) * sigmoid(r) + s * tanh(a) + r
    b = linear(h, 1024) as b
    y = relu(b) + x * exp(b * 0.01)
    loss = mean(silu((linear(y, 2048) as c))) + mean(y)
    output loss
    train loss with adamw(lr = 0.1)
}
END
for arch in sm_80 sm_90; do check "$work/wide.dsl" $arch wide; done
echo "ptxas programs $tried wrong $bad"
exit $bad
