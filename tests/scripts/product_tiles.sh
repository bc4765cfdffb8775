#!/bin/sh
# Tiles of products on the host: even shares for machines of 2 and 4 cores, and nothing split that is small.
. "$SRC/tests/support/script.sh"

cat >alone.dsl <<'END'
dim M = 8, N = 8, K = 8
model alone {
    input a : f32[M, K]
    b = param [K, N] init uniform(-1.0, 1.0)
    output y = a @ b
}
END

# tiles FILE M N K: "programs rows columns" of the first kernel of infer
tiles() {
    "$FUSEC" "$1.dsl" -D M=$2 -D N=$3 -D K=$4 --entry=infer --print-after=tile -o "$1.o" >text || fail "$1 $2 $3 $4"
    awk '/after tile, entry infer/ { here = 1 }
         here && /^  grid/ { split($4, end, "[.][.]"); n = end[2]; step[++d] = $6; programs = (programs ? programs : 1) * int((n + $6 - 1) / $6) }
         here && /store/ { print programs, step[1], step[2]; exit }' text
}

# Idle cores cost at most an eighth, on each of the machines.
for shape in "1024 1024 1024" "511 513 509" "333 777 1001" "256 768 3072" "129 2047 511" "700 700 700"; do
    set -- $shape
    set -- "$shape" $(tiles alone $shape)
    for cores in 2 4; do
        [ $((($2 + cores - 1) / cores * cores * 8)) -le $(($2 * 9)) ] || fail "$1: $2 programs on $cores cores"
    done
    [ "$2" -ge 4 ] && [ "$2" -le 16 ] || fail "$1: $2 programs"
done
[ "$(tiles alone 511 513 509)" = "8 128 288" ] || fail "rows that do not divide: $(tiles alone 511 513 509)"
[ "$(tiles alone 32 32 32)" = "1 32 32" ] || fail "a small product is split: $(tiles alone 32 32 32)"

# Alone in its kernel a product has tiles of twice the rows, where many programs are left: what is added needs the stack.
sed 's/alone/fused/; s/a @ b/relu(a @ b)/' alone.dsl >fused.dsl
[ "$(tiles alone 4096 4096 256)" = "32 1024 512" ] || fail "alone: $(tiles alone 4096 4096 256)"
[ "$(tiles fused 4096 4096 256)" = "64 512 512" ] || fail "fused: $(tiles fused 4096 4096 256)"
[ "$(tiles alone 2048 2048 256)" = "16 512 512" ] || fail "for few cores: $(tiles alone 2048 2048 256)"

# A large matrix for few rows is read in its order, a few k at a time.
sums() { awk '/after tile, entry infer/ { here = 1 } here && $1 == "loop" { print $6; exit }' text; }
for shape in "8 4096 4096 8" "3 3072 768 8" "12 2048 512 8" "13 4096 512 256" "2 4096 512 256" "8 1024 512 256"; do
    set -- $shape
    tiles alone $1 $2 $3 >/dev/null
    [ "$(sums)" = $4 ] || fail "$1 x $2, $3 terms: $(sums) at a time, not $4"
done
exit $bad
