# Activations that a backward kernel computes again from what it reads anyway are not kept: the arena is smaller, no kernel is added,
# and the gradients are those with all of them kept, on every executor: for each activation and norm on the host and on two others by
# turns; SWEEP_ALL=1, as in ./dev fuzz: on all.
. "$SRC/tests/support/script.sh"
quick_c

cat >mlp.dsl <<'END'
dim B = 48, C = 64
layer swoosh(u) { return u * sigmoid(1.7 * u) + 0.1 * tanh(u) }
layer block(x) { return linear(ACT(linear(x, 4 * C) as up), C) as down }
model mlp {
    x = param [B, C] init normal(1.0)
    repeat 4 as h { x = x + block(NORM(x)) }
    loss = mean(x^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >cnn.dsl <<'END'
dim B = 4, S = 16
model cnn {
    x = param [B, S, S, 3] init normal(1.0)
    repeat 4 as h { x = relu(batchnorm(conv2d(x, 16, 3, bias = false) as conv) as norm) }
    loss = mean(x^2)
    output loss
    train loss with sgd(lr = 0.1)
}
END

of() { sed -n "s/^$1 \([0-9]*\).*/\1/p"; }

# check SHARE EXECUTOR TARGET [OPTION]: m.dsl's arena is at most SHARE of that with all kept, in no more launches; the gradients agree
check() {
    for option in "" -fno-rematerialize; do
        "$FUSEC" report m.dsl --target $3 --entry grad -fno-horizontal $option >report$option || { fail "$what on $3: no report"; return; }
    done
    awk -v a="$(of '  arena' <report)" -v b="$(of '  arena' <report-fno-rematerialize)" -v s=$1 'BEGIN { exit !(a <= s * b) }' ||
        fail "$what on $3: arena $(of '  arena' <report), $(of '  arena' <report-fno-rematerialize) with all kept"
    [ "$(of 'entry grad:' <report)" -le "$(of 'entry grad:' <report-fno-rematerialize)" ] || fail "$what on $3: more launches"
    both_ways rematerialize m.dsl grad $2 ${4-} || return
    "$BUILD/compare_safetensors" compare with.safetensors "" without.safetensors 1e-5 || fail "$what on $2: other gradients"
}

turn=0
# everywhere SHARE
everywhere() {
    turn=$((turn + 1))
    now=${SWEEP_ALL:+all}
    now=${now:-$turn}
    check $1 host host
    case $now in *[02468]) ;; *) check $1 interp host ;; esac
    case $now in *[13579]) ;; *) check $1 c99 c99 ;; esac
    [ -n "$simulated" ] || return
    case $now in *[1256]) ;; *) check $1 cuda sm_80 --arch=sm_80 ;; esac
    case $now in *[03478]) ;; *) check $1 cuda sm_90a --arch=sm_90a ;; esac
}

simulated=
has_software_gpu && simulated=yes
for act in relu gelu silu swoosh; do
    for norm in layernorm rmsnorm; do
        what="$act after $norm"
        sed "s/ACT/$act/; s/NORM/$norm/" mlp.dsl >m.dsl
        everywhere 0.9
    done
done
what="batch norms"
cp cnn.dsl m.dsl
everywhere 0.85

# In bf16 too.
what="gelu in bf16"
sed 's/ACT/gelu/; s/NORM/layernorm/; s/model mlp {/&\n    precision bf16/' mlp.dsl >m.dsl
[ -z "$simulated" ] || check 0.9 cuda sm_80 --arch=sm_80

# Sizes of the examples, which no machine here could run.
arena() { "$FUSEC" report "$SRC/examples/$1.dsl" --target sm_80 --entry step $2 | of '  arena'; }
[ "$(arena gpt2/gpt2 '')" -le 4950000000 ] || fail "gpt2: arena $(arena gpt2/gpt2 '')"
[ "$(arena unet/unet '')" -le 1040000000 ] || fail "unet: arena $(arena unet/unet '')"
# with sqrt less than with what costs nothing
[ "$(arena gpt2/gpt2 --checkpoint=sqrt)" -lt "$(arena gpt2/gpt2 '')" ] || fail "gpt2: sqrt keeps $(arena gpt2/gpt2 --checkpoint=sqrt)"
exit $bad
