#!/bin/sh
# Every example compiles to every form, and trains, small: its loss falls.  Tile IR and LLVM IR at full size are made by code_counts.sh;
# SWEEP_ALL=1, as in ./dev fuzz: here too.
set -e
. "$SRC/tests/support/script.sh"
x=$SRC/examples

forms() { # DIR/NAME: full size; what LLVM makes of the large ones is for the benchmarks
    name=$(basename "$1")
    for suffix in graph c ${SWEEP_ALL:+tile ll}; do
        "$FUSEC" "$x/$1.dsl" -o "$work/$name.$suffix" || die "$name.$suffix"
        [ -s "$work/$name.$suffix" ] || die "$name.$suffix is empty"
    done
    [ -s "$work/$name.h" ] || die "$name.h is missing"
}
small() { # DIR/NAME OPTIONS: a small one, by every code generator
    name=$(basename "$1"); model=$x/$1.dsl; shift
    "$FUSEC" "$model" "$@" -o "$work/$name.o" || die "$name.o"
    "$FUSEC" "$model" "$@" -o "$work/$name.ll" || die "$name.ll"
    "$FUSEC" "$model" "$@" -o "$work/$name.ptx" --arch sm_80 || die "$name.ptx"
    grep -q '^\.target sm_80' "$work/$name.ptx" || die "$name.ptx is not for sm_80"
}
falls() { # DIR/NAME FACTOR OPTIONS: the last loss printed is below FACTOR times the first
    name=$1; factor=$2; shift 2
    "$FUSEC" run "$x/$name.dsl" "$@" > "$work/log" || die "$name does not train"
    sed -n 's/^step.*  loss \([^ ]*\).*/\1/p' "$work/log" | awk -v f="$factor" 'NR == 1 { a = $1 } { z = $1 }
        END { print NR, a, z; exit !(NR > 1 && z < f * a) }' || die "$name: the loss does not fall: $(cat "$work/log")"
}

for m in digits/mlp digits/cnn ecg/ecg chargpt/chargpt gpt2/gpt2 resnet50/resnet50 unet/unet; do forms $m; done
gpt="-D B=4 -D T=32 -D V=128 -D C=32 -D H=4 -D L=2"
resnet="-D B=50 -D S=8 -D W=4 -D channels=1 -D classes=10"
unet="-D B=8 -D S=16 -D W=4"
small digits/mlp
small digits/cnn
small ecg/ecg
small chargpt/chargpt -D L=1
small gpt2/gpt2 $gpt
small unet/unet $unet

digits="--data image=$x/digits/digits.csv.gz:1-64 --data label=$x/digits/digits.csv.gz:65"
text=$SRC/LICENSE
[ -e /usr/share/common-licenses/GPL-3 ] && text=/usr/share/common-licenses/GPL-3
sequence="--data tokens=$text --data targets=$text:+1"
falls digits/mlp 0.2 $digits --rows 0:1500 --epochs 5
falls digits/cnn 0.2 $digits --rows 0:1500 --epochs 4
falls resnet50/resnet50 0.9 $resnet --hyper lr=0.02 $digits --rows 0:1500 --epochs 3
falls gpt2/gpt2 0.8 $gpt --hyper lr=3e-3 $sequence --steps 60
falls chargpt/chargpt 0.8 -D L=1 -D C=32 $sequence --steps 60
sh "$x/unet/discs.sh" 100 > "$work/discs.csv"
falls unet/unet 0.9 $unet --data image="$work/discs.csv":1-256 --data mask="$work/discs.csv":257-512 --epochs 4
sh "$x/ecg/beats.sh" "$work"
falls ecg/ecg 0.1 --data beat="$work/train.csv":1-64 --data wide="$work/train.csv":65 --epochs 20

# the accuracy that the README promises
got=$("$FUSEC" run "$x/digits/cnn.dsl" $digits --rows 0:1500 --test-rows 1500:1797 --epochs 20 --accuracy probability=label --quiet |
    sed -n 's/.*accuracy \([0-9]*\).*/\1/p')
[ "$got" -ge 95 ] || die "digits: accuracy $got%"
echo ok
