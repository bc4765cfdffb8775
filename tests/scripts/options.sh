#!/bin/sh
# No option is passed over: where it says nothing it is refused, with the places where it can be used, and it is taken in
# exactly those.  --arch decides what code is made, or is refused.
. "$SRC/tests/support/script.sh"

# ---- every option of the table at every place ----
# The program is not there, so that an option that is taken ends in another error.
place() { # PLACE: the words of a command line
    case $1 in
    -o*) echo "none.dsl $1" ;;
    *--data) echo "run none.dsl --data x=none.csv" ;;
    *) echo "${1#fusec } none.dsl" ;;
    esac
}
cat >places <<'END'
-o FILE.graph
-o FILE.tile
-o FILE.ll
-o FILE.o
-o FILE.c
-o FILE.ptx
-o FILE.cubin
fusec check
fusec report
fusec run
fusec run --data
fusec tune
fusec verify
END
sample() { # FLAG, as --help has it: with a value
    case $1 in
    -o) ;; # which is the place
    --passes) ;;
    *-D) echo "-D A=1" ;;
    -fno-) echo "-fno-fuse" ;;
    --entry=*) echo "--entry=step" ;;
    --checkpoint=*) echo "--checkpoint=sqrt" ;;
    --print-after=*) echo "--print-after=fuse" ;;
    --data=*) echo "--data=x=x.csv" ;;
    --hyper=* | --extent=*) echo "${1%%=*}=a=1" ;;
    --*=*) echo "${1%%=*}=1" ;;
    *) echo "$1" ;;
    esac
}
"$FUSEC" --help | sed -n 's/^  \(-[^ ]*\).*/\1/p' >flags
[ "$(wc -l <flags)" -gt 30 ] || die "options are not found in --help"
tried=0
while read -r flag; do
    option=$(sample "$flag")
    case $flag in --help* | -o) continue ;; --data*) grep -v 'fusec run' places >these ;; *) cp places these ;; esac
    [ "$option" ] || continue
    : >taken
    offered=
    while read -r where; do
        tried=$((tried + 1))
        "$FUSEC" $(place "$where") $option >out 2>err
        status=$?
        if grep -q "says nothing about \`$where\`; leave it out, or use it with: " err; then
            [ $status = 2 ] || fail "$option, $where: exit status $status"
            offered=$(sed -n 's/.*use it with: //p' err | sed 's/, /\n/g')
        elif grep -q 'unknown option\|says nothing\|takes no value\|is needed$' err; then
            fail "$option, $where: $(cat err)"
        else
            echo "$where" >>taken
        fi
    done <these
    [ -s taken ] || case $flag in --data*) ;; *) fail "$option is taken nowhere" ;; esac
    [ ! "$offered" ] || [ "$flag" != "${flag#--data}" ] || [ "$(cat taken)" = "$offered" ] ||
        fail "$option is taken where: $(cat taken); offered: $offered"
done <flags
[ "$(ls FILE.* 2>/dev/null)" ] && fail "refused, and written: $(ls FILE.*)"

# ---- --arch ----
cat >m.dsl <<'END'
model m {
    input x : f32[16, 64]
    output y = linear(x, 64) as a
}
END
says() { # STATUS WORDS COMMAND..
    want=$1 words=$2
    shift 2
    "$FUSEC" "$@" >out 2>err
    got=$?
    [ $got = "$want" ] || fail "$*: exit status $got: $(cat err)"
    case $(cat err) in *"$words"*) ;; *) fail "$*: $(cat err)" ;; esac
}
for arch in sm_80 sm_90 sm_90a; do
    says 0 '' m.dsl -o m.ptx --arch $arch
    grep -qx ".target $arch" m.ptx || fail "$arch: $(grep '^.target' m.ptx)"
    says 0 '' m.dsl -o m.ll --arch $arch
    grep -q "target-cpu\"=\"$arch\"\|nvptx64" m.ll || fail "$arch: no code for it in m.ll"
    says 0 '' m.dsl -o m.tile --arch $arch
    says 0 '' m.dsl -o n.tile --target $arch
    cmp -s m.tile n.tile || fail "$arch: --arch and --target differ in m.tile"
    says 0 '' report m.dsl --arch $arch
    grep -q "^model m for $arch$" out || fail "report: $(head -n 1 out)"
    says 2 "a .o file is not made for target $arch" m.dsl -o n.o --arch $arch
    says 2 '`-o FILE.c`; leave it out' m.dsl -o n.c --arch $arch
    says 2 "--arch znver4: for a GPU it is sm_80, sm_90 or sm_90a" m.dsl -o n.ptx --target $arch --arch znver4
done
says 2 '--arch sm_80 and --target sm_90 differ: leave one out' m.dsl -o n.ptx --arch sm_80 --target sm_90
says 2 '--arch sm_80 and --target host differ: leave one out' m.dsl -o n.tile --arch sm_80 --target host
says 2 '--arch sm_80 and --target sm_90 differ: leave one out' report m.dsl --measured --arch sm_80 --target sm_90
says 2 '--arch fast: for a GPU it is sm_80, sm_90 or sm_90a' m.dsl -o n.ptx --arch fast
says 2 '--arch fast: no machine code is made here for target c99; leave it out' report m.dsl --target c99 --arch fast
says 2 'no processor `fast` is known for' report m.dsl --arch fast
says 1 'no processor `fast` is known for' m.dsl -o n.o --arch fast
says 2 '--triple aarch64-linux-gnu: code for sm_90 is not for a processor' m.dsl -o n.ll --target sm_90 --triple aarch64-linux-gnu
says 2 '--arch says nothing about c99' run m.dsl --target c99 --arch native
# code for a processor that has more than this one is made, and not run
for arch in haswell skylake-avx512; do
    case $(uname -m):$arch in
    x86_64:haswell) grep -qw avx2 /proc/cpuinfo || says 1 'this machine has no avx' run m.dsl --entry infer --target host --arch $arch ;;
    x86_64:*) grep -qw avx512vl /proc/cpuinfo || says 1 "this machine has no avx512f, which code for $arch uses" run m.dsl --entry infer --target host --arch $arch ;;
    esac
done
for name in n.*; do
    [ "$name" = n.tile ] || fail "refused, and written: $name"
done

# ---- options that say something together only ----
says 2 '--threads: a compile uses them for --selftest only' m.dsl -o n.o --threads 2
says 2 '--threads says nothing about interp' run m.dsl --target interp --threads 2
says 2 '--accumulate adds up gradients: --entry grad' run m.dsl --accumulate
says 2 '--want chooses among the outputs of --entry infer' run m.dsl --entry step --want y
says 2 '--steps, --epochs and --save are for training' run m.dsl --data x=x.csv --entry infer --epochs 2
says 2 '--rows or --test-rows' run m.dsl --data x=x.csv --entry infer --rows 0:1 --test-rows 1:2
says 2 '--accuracy is measured on --test-rows A:B' run m.dsl --data x=x.csv --accuracy y=x
says 2 '--outputs are those of --test-rows A:B' run m.dsl --data x=x.csv --outputs y.safetensors
echo "$tried options at places"
exit $bad
