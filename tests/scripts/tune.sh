#!/bin/sh
# fusec tune on the software GPU: what the profile has, that it grows in a fixed order, that compiles follow it, and what
# is said where it does not fit.
. "$SRC/tests/support/script.sh"
needs_software_gpu
on() { PTXSIM_DEVICE=$1; export PTXSIM_DEVICE; shift; "$@"; }
# says TEXT COMMAND..: it fails and the text is in what it prints
says() {
    text=$1
    shift
    "$@" >out 2>&1 && fail "no error: $*"
    grep -qF -- "$text" out || { fail "$*"; echo "  expected: $text"; cat out; }
}

cat >a.dsl <<'END'
model a {
    precision bf16
    x = param [64, 32] init normal(1.0)
    output y = relu(linear(x, 48) as l)
}
END
sed 's/^model a/model b/; s/48/40/; s/relu/gelu/' a.dsl >b.dsl

# ---- what is written ----
on sm_80 "$FUSEC" tune a.dsl --profile a.profile --entry infer >log 2>&1 || { fail "tune: $(cat log)"; exit 1; }
cat >head <<'END'
fusec-profile 1
gpu A100-SXM4-40GB (ptxsim sm_80)
capability 8.0
END
head -n 3 a.profile | diff head - || fail 'the first lines'
[ "$(sed -n '6,7p' a.profile)" = "$(printf 'target sm_80\ntimer counts')" ] || fail 'target and timer'
grep -q 'no time of its own' log || fail 'it does not say that the software GPU has no time'
[ "$(grep -c '^product 64x48x32 batch 1 bf16 kn reads ' a.profile)" = 1 ] || fail 'the product'
tiles=$(grep -c '^MATRIX_TILE(MMA,' "$SRC/passes/kernel/matrix_tiles.def")
times=$(sed -n '8s/.* of //p' a.profile | tr ' ' '\n' | grep -cE '^mma:[0-9]+x[0-9]+:[0-9]+x[0-9]+=[0-9]+\.[0-9]{3}$')
[ "$times" = "$tiles" ] || fail "$times of $tiles tiles have a figure"

# ---- two tiles: those that are first by the cost model, its choice among them ----
on sm_80 "$FUSEC" tune a.dsl --profile two.profile --entry infer --tiles 2 >log 2>&1 || fail "tune --tiles: $(cat log)"
[ "$(sed -n '8s/.* of //p' two.profile | tr ' ' '\n' | grep -c '=')" = 2 ] || fail 'not two tiles'
modelled=$("$FUSEC" report a.dsl --target sm_80 --entry infer | sed -n 's/.*by mma \([0-9x]*\).*/\1/p')
sed -n '8s/.* of //p' two.profile | grep -q "mma:$modelled:" || fail "the cost model's $modelled is not among the first two"

# ---- twice the same; another model adds to it, in order ----
cp a.profile again.profile
on sm_80 "$FUSEC" tune a.dsl --profile again.profile --entry infer >log 2>&1 || fail "tune again: $(cat log)"
cmp a.profile again.profile || fail 'not the same again'
on sm_80 "$FUSEC" tune b.dsl --profile again.profile --entry infer >log 2>&1 || fail "tune b: $(cat log)"
[ "$(wc -l <again.profile)" = 9 ] || fail 'the second product is not added'
sed -n '8p' a.profile >line
sed -n '9p' again.profile | cmp - line || fail 'the first product is not kept, after the new one'

# ---- compiles follow it ----
sed '8s/-> [^ ]*/-> mma:16x64:16x16/' again.profile | sed '9s/-> [^ ]*/-> mma:32x64:16x32/' >chosen.profile
"$FUSEC" a.dsl -o a.tile --target sm_80 --profile chosen.profile 2>/dev/null || fail 'no compile with a profile'
grep -q 'grid m in 0..64 step 32' a.tile && grep -q 'grid n in 0..48 step 64' a.tile || fail "not the profile's tile: $(grep grid a.tile)"
"$FUSEC" report a.dsl --target sm_80 --profile chosen.profile --entry infer >report 2>err
grep -q 'by mma 32x64 (profile)' report || fail 'the report does not say which tile is from the profile'
grep -q '^    1 of 1 launches have tiles from chosen.profile, the others by the cost model$' report || fail 'the report does not count'
sed '9d' chosen.profile >part.profile
"$FUSEC" report a.dsl --target sm_80 --profile part.profile --entry infer >report 2>err
grep -q '^    0 of 1 launches have tiles from part.profile, the others by the cost model$' report || fail 'a product that was not measured'
for how in host 'cuda --profile chosen.profile'; do
    # shellcheck disable=SC2086
    on sm_80 "$FUSEC" run a.dsl --target $how --seed 3 --outputs "${how%% *}.safetensors" >log 2>&1 || fail "run: $(cat log)"
done
"$BUILD/compare_safetensors" compare host.safetensors "" cuda.safetensors 0.01 || fail 'other numbers with a profile'

# ---- Hopper: tiles of programs that multiply by turns are measured too, N of them beside N of the others, and taken ----
on sm_90 "$FUSEC" tune a.dsl --profile turns.profile --entry infer --tiles 2 --target sm_90a >log 2>&1 || fail "tune for sm_90a: $(cat log)"
turns=$(sed -n '8s/.* of //p' turns.profile | tr ' ' '\n' | grep -cE '^wgmma:[0-9]+x[0-9]+:[0-9]+x[0-9]+:2=[0-9]+\.[0-9]{3}$')
others=$(sed -n '8s/.* of //p' turns.profile | tr ' ' '\n' | grep -cE '^wgmma:[0-9]+x[0-9]+:[0-9]+x[0-9]+=[0-9]+\.[0-9]{3}$')
[ "$turns $others" = '2 2' ] || fail "$turns tiles by turns, $others others"
sed -i '8s/-> [^ ]*/-> wgmma:64x128:64x128:2/' turns.profile
"$FUSEC" report a.dsl --target sm_90a --profile turns.profile --entry infer >report 2>err
grep -q 'by wgmma 64x128 by turns (profile)' report || fail 'not the tile of the profile by turns'

cat >c.dsl <<'END'
model c {
    precision bf16
    x = param [256, 128] init normal(1.0)
    a = gelu(linear(x, 128) as l)
    output y = relu(a + linear(a, 128) as m)
}
END
on sm_90 "$FUSEC" tune c.dsl --profile c.profile --entry infer --tiles 2 --target sm_90a >log 2>&1 || fail "tune c: $(cat log)"
sed -i 's/-> [^ ]*/-> wgmma:64x128:64x128:2/' c.profile
"$FUSEC" c.dsl -o c.tile --target sm_90a --profile c.profile --entry infer 2>err
[ "$(grep -c ' alternate 2 ' c.tile)" = 2 ] || fail "not both products by turns: $(grep threads c.tile)"
for how in host 'cuda --arch sm_90a --profile c.profile'; do
    # shellcheck disable=SC2086
    on sm_90 "$FUSEC" run c.dsl --target $how --seed 3 --outputs "${how%% *}.safetensors" >log 2>&1 || fail "run: $(cat log)"
    ! grep '^ptxsim' log || fail 'findings by turns'
done
"$BUILD/compare_safetensors" compare host.safetensors "" cuda.safetensors 0.01 || fail 'other numbers by turns'

# ---- what does not fit ----
sed 's/^gpu .*/gpu A800/' chosen.profile >other.profile
on sm_80 "$FUSEC" run a.dsl --target cuda --profile other.profile >log 2>&1 || fail "a profile of another GPU is a warning: $(cat log)"
grep -qF 'fusec: warning: other.profile was measured on A800, this is A100-SXM4-40GB (ptxsim sm_80)' log || fail 'no word of another GPU'
cp other.profile before
says 'the profile has measurements of gpu A800, this would add some of A100-SXM4-40GB (ptxsim sm_80) [E0403]' \
    on sm_80 "$FUSEC" tune a.dsl --profile other.profile
cmp -s other.profile before || fail 'a profile that was refused is changed'
says 'the profile is for target sm_80, this compile for sm_90a [E0403]' "$FUSEC" a.dsl -o a.ptx --target sm_90a --profile a.profile
says 'the profile is for target sm_80, this compile for host [E0403]' "$FUSEC" a.dsl -o a.o --profile a.profile
says 'a.dsl:1:1: error: this is no profile of fusec [E0402]' "$FUSEC" report a.dsl --target sm_80 --profile a.dsl
says 'cannot' on sm_80 "$FUSEC" tune a.dsl --profile none/a.profile --entry infer
says 'tune: --profile FILE is needed' on sm_80 "$FUSEC" tune a.dsl
says 'tune: tiles are measured on a GPU: --target sm_80, sm_90 or sm_90a, not host' on sm_80 "$FUSEC" tune a.dsl --profile n --target host
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    says 'tune: this machine has no GPU to measure on' env LD_LIBRARY_PATH= "$FUSEC" tune a.dsl --profile n
fi

# ---- tiles that do not run ----
PTXSIM_FAIL=cuModuleLoadDataEx:2 on sm_80 "$FUSEC" tune a.dsl --profile f.profile --entry infer >log 2>&1 || fail "a tile that is refused: $(cat log)"
grep -q ' mma:128x256:64x64=refused ' f.profile || fail 'the tile that was refused has no word'
grep -q 'mma:128x256:64x64: refused: ' log || fail 'nothing is said of the tile that was refused'
exit $bad
