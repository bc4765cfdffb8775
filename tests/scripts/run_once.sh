#!/bin/sh
# fusec run on given numbers: values worked out by hand, on every target; weights, extents, wanted outputs.
set -e
. "$SRC/tests/support/script.sh"

# file NAME DTYPE SHAPE BYTES [NAME DTYPE SHAPE BYTES ..] > x.safetensors; BYTES as printf escapes, one per byte
file() {
    header= data= at=0
    while [ $# -gt 0 ]; do
        n=$(printf "$4" | wc -c)
        header="$header${header:+,}\"$1\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[$at,$((at + n))]}"
        data=$data$4 at=$((at + n))
        shift 4
    done
    header="{$header}"
    n=${#header}
    printf "\\$(printf %o $((n % 256)))\\$(printf %o $((n / 256)))\\0\\0\\0\\0\\0\\0%s$data" "$header"
}
# tensor FILE NAME [od TYPE]: its values on one line
tensor() {
    n=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    span=$(dd if="$1" bs=1 skip=8 count="$n" 2>/dev/null | sed -n 's|.*"'"$2"'":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*|\1 \2|p')
    [ -n "$span" ] || { echo "no tensor $2 in $1"; return; }
    set -- "$1" "${3:-f4}" $span
    od -An -v -t "$2" -j $((8 + n + $3)) -N $(($4 - $3)) "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}
expect() { [ "$2" = "$3" ] || { echo "$1: expected '$2', got '$3'"; exit 1; }; }

cat > m.dsl <<'END'
dim B <= 4
model m {
    input x : f32[B, 2]
    input t : f32[B, 1]
    state calls = zeros [1]
    if training { calls <- calls + 1 }
    y = linear(x, 1) as f
    loss = mean((y - t)^2)
    output loss
    output y
    train loss with sgd(lr = hyper 0.25)
}
END
file x U8 '[1,2]' '\001\002' t I8 '[1,1]' '\001' > i.safetensors
file f.w U8 '[2,1]' '\001\001' f.b I32 '[1]' '\0\0\0\0' > p.safetensors

targets="host interp"
command -v "${CC:-cc}" >/dev/null && targets="$targets c99"
has_software_gpu && targets="$targets cuda"
for t in $targets; do
    run() { "$FUSEC" run m.dsl --target "$t" --params p.safetensors --inputs i.safetensors --outputs o.safetensors "$@"; }
    run --entry infer
    expect "$t loss" 4 "$(tensor o.safetensors loss)"
    expect "$t y" 3 "$(tensor o.safetensors y)"
    run --entry grad
    expect "$t grad f.w" "4 8" "$(tensor o.safetensors grad/f.w)"
    expect "$t grad f.b" 4 "$(tensor o.safetensors grad/f.b)"
    run --entry grad --steps 3 --accumulate
    expect "$t accumulated" "12 24" "$(tensor o.safetensors grad/f.w)"
    run --entry step
    expect "$t param f.w" "0 -1" "$(tensor o.safetensors param/f.w)"
    expect "$t param f.b" -1 "$(tensor o.safetensors param/f.b)"
    expect "$t state" 1 "$(tensor o.safetensors state/calls)"
    expect "$t loss before the update" 4 "$(tensor o.safetensors loss)"
    run --entry step --steps 2 --hyper lr=0
    expect "$t lr 0" "1 1" "$(tensor o.safetensors param/f.w)"
    expect "$t two steps" 2 "$(tensor o.safetensors state/calls)"
    run --entry infer --want y
    expect "$t unwanted" "no tensor loss in o.safetensors" "$(tensor o.safetensors loss)"
    run --entry infer --want loss
    expect "$t loss alone" 4 "$(tensor o.safetensors loss)"
    expect "$t unwanted too" "no tensor y in o.safetensors" "$(tensor o.safetensors y)"
done

# extents follow the inputs; what is wanted alone needs no more than it reads
file x U8 '[3,2]' '\001\002\003\004\005\006' > x.safetensors
"$FUSEC" run m.dsl --params p.safetensors --inputs x.safetensors --want y --outputs o.safetensors
expect "three rows" "3 7 11" "$(tensor o.safetensors y)"
# what is not given comes from the seed: the same for one seed, another for another
init() { "$FUSEC" run m.dsl --inputs i.safetensors --entry step --hyper lr=0 --outputs "$1" --seed "$2"; tensor "$1" param/f.w; }
expect "one seed" "$(init a.safetensors 1)" "$(init b.safetensors 1)"
[ "$(init a.safetensors 1)" != "$(init b.safetensors 2)" ] || { echo "the seed does nothing"; exit 1; }
# without --outputs the scalars are shown
expect shown "loss 4" "$("$FUSEC" run m.dsl --params p.safetensors --inputs i.safetensors)"

# a bounded dimension that no input shows
cat > s.dsl <<'END'
dim S <= 8
model s {
    input n : f32[]
    output y = sum(iota(S)) + int(n)
}
END
file n U8 '[]' '\001' > n.safetensors
"$FUSEC" run s.dsl --inputs n.safetensors --extent S=4 --outputs o.safetensors
expect "extent 4" 7 "$(tensor o.safetensors y d4)"
echo ok
