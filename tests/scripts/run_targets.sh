#!/bin/sh
# Three training steps of small versions of the examples: host code, emitted C, the interpreter and, where the software
# GPU is built, emitted PTX give the same losses, to 1e-4 of the first; in bf16 and f16 to 2e-3,
# in one of the two by turns; SWEEP_ALL=1, as in ./dev fuzz: in both.
set -e
. "$SRC/tests/support/script.sh"
x=$SRC/examples
targets="host interp"
command -v "${CC:-cc}" >/dev/null && targets="$targets c99"
has_software_gpu && targets="$targets cuda"

agree_in() { # FILE NAME TOLERANCE OPTIONS
    file=$1; name=$2; tolerance=$3; shift 3
    for t in $targets; do
        "$FUSEC" run "$file" "$@" --steps 3 --target "$t" > "$t.out" || { echo "$name fails on $t"; exit 1; }
        sed -n 's/^step.*  loss \([^ ]*\).*/\1/p' "$t.out" > "$t.loss"
        paste host.loss "$t.loss" | awk -v most=$tolerance 'NR == 1 { scale = $1 } { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d <= most * scale)) bad = 1 }
            END { exit bad || NR != 3 }' || { echo "$name: host and $t differ:"; paste host.loss "$t.loss"; exit 1; }
    done
    echo "$name: $(echo $(cat host.loss)) on $targets"
}

agree() { # NAME OPTIONS
    name=$1; shift
    agree_in "$x/$name.dsl" "$name" 1e-4 "$@"
}

# The same in a precision: a value that lies between two of the dtype may round differently, and what follows from it.  The
# losses must be near those in f32 as well.
precisions='bf16 f16'
agree_low() { # NAME OPTIONS
    example=$1; shift
    [ -n "${SWEEP_ALL:-}" ] || case $precisions in bf16) precisions=f16 ;; *) precisions=bf16 ;; esac
    "$FUSEC" run "$x/$example.dsl" "$@" --steps 3 | sed -n 's/^step.*  loss \([^ ]*\).*/\1/p' > f32.loss
    for precision in $precisions; do
        sed "s/^model [a-z0-9_]* {/&\n    precision $precision/" "$x/$example.dsl" > low.dsl
        grep -q "^    precision $precision" low.dsl
        (quick_c; agree_in low.dsl "$example in $precision" 2e-3 "$@")
        paste f32.loss host.loss | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 0.02 * $1)) bad = 1; if (d) differs = 1 }
            END { exit bad || !differs || NR != 3 }' || { echo "$example: f32 and $precision:"; paste f32.loss host.loss; exit 1; }
    done
}

sh "$x/unet/discs.sh" 8 > discs.csv
sh "$x/ecg/beats.sh" .
sequence="--data tokens=$SRC/README.md --data targets=$SRC/README.md:+1"
tr -dc '\1-\77' < "$SRC/README.md" > text64
digits="--data image=$x/digits/digits.csv.gz:1-64 --data label=$x/digits/digits.csv.gz:65"
agree digits/mlp -D B=8 $digits
agree digits/cnn -D B=4 $digits
agree gpt2/gpt2 -D B=2 -D T=8 -D V=256 -D C=16 -D H=2 -D L=2 $sequence
agree unet/unet -D B=1 -D S=16 -D W=2 --data image=discs.csv:1-256 --data mask=discs.csv:257-512
agree ecg/ecg -D B=4 --data beat=train.csv:1-64 --data wide=train.csv:65
agree_low digits/mlp -D B=8 $digits
agree_low digits/cnn -D B=4 $digits
agree_low gpt2/gpt2 -D B=2 -D T=8 -D V=64 -D C=16 -D H=2 -D L=1 --data tokens=text64 --data targets=text64:+1
# Steps that overflow in f16 are skipped alike everywhere; CUDA tells of them when it is waited for.
for t in $targets; do
    "$FUSEC" run "$SRC/tests/data/precision.dsl" --model loud --data x="$x/digits/digits.csv.gz:4-7" \
        --data y="$x/digits/digits.csv.gz:65" --steps 24 --target "$t" > loud.out || { echo "loud fails on $t"; exit 1; }
    sed -n 's/^loss scale/loud: loss scale/p' loud.out > "$t.skips"
    grep -q ' [1-9][0-9]* steps* skipped' "$t.skips" && cmp -s host.skips "$t.skips" || { echo "loud on $t:"; cat host.skips "$t.skips"; exit 1; }
done
cat host.skips
# So small, a network of 53 normalisations amplifies the last bits of most images until losses differ; not of these.
agree resnet50/resnet50 -D B=2 -D S=16 -D W=2 -D channels=1 -D classes=10 --hyper lr=0.001 --data image=discs.csv:1-256 --data label=discs.csv:300 --rows 4:8
# the partial last batch of a bounded dimension: 8 + 3 rows, twice
agree digits/mlp -D B=8 $digits --rows 0:11
echo ok
