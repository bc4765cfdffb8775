#!/bin/sh
# fusec report: by what every product is multiplied on a GPU, and why by nothing faster.
. "$SRC/tests/support/script.sh"

# report TARGET PRECISION OPTIONS...: of the model on stdin, entry infer, in the file `out`
report() {
    { echo "model m {"; [ "$2" = none ] || echo "    precision $2"; cat; echo "}"; } >m.dsl
    target=$1
    shift 2
    "$FUSEC" report m.dsl --target "$target" --entry infer "$@" >out 2>&1 || { echo "FAIL: $(cat out)"; bad=1; }
}
says() { grep -qE -- "$1" out || { echo "FAIL: not in the report: $1"; sed -n '/^entry/,/total/p' out; bad=1; }; }
silent() { ! grep -E -- "$1" out || { echo "FAIL: in the report: $1"; bad=1; }; }

linear() { printf '    input x : %s[%s, %s]\n    output y = linear(x, %s) as l\n' "$1" "$2" "$3" "$4"; }

linear f32 256 512 512 | report sm_80 bf16
says 'infer_contract_[0-9]+ .* by mma [0-9]+x[0-9]+, m.dsl'
silent ' by threads|not mma|at a time'
linear f32 256 512 512 | report sm_90a bf16
says 'infer_contract_[0-9]+ .* by wgmma [0-9]+x[0-9]+, m.dsl'
silent ' by threads|not wgmma'

linear f32 256 512 512 | report sm_90 bf16
says '^    1 launches multiply by mma: on Hopper --target sm_90a does by wgmma$'

# too small
linear f32 256 512 5 | report sm_80 bf16
says '^    infer_contract_[0-9]+: by threads, not mma: it has fewer than 8 rows or columns$'
linear f32 256 10 512 | report sm_90a f16
says '^    infer_contract_[0-9]+: by threads, not wgmma: it sums fewer than 16$'

# tiles that the result does not fill
linear f32 72 64 40 | report sm_80 bf16
says ' by mma [0-9]+x[0-9]+ \([0-9]+% used\), m.dsl'

# no precision at all: the remedy
linear f32 256 512 512 | report sm_80 none
says '^    1 launches multiply f32 by threads: with `precision tf32`, bf16 or f16 matrix units do$'
linear f32 256 512 512 | report host none
silent 'matrix units'

# machines without matrix units
converted='^    1 launches multiply f16, bf16 or tf32 as f32, after conversion: here low precision saves no time$'
paired='^    1 launches multiply bf16 in pairs, as the processor can, with sums of f32$'
for form in 'bf16 x86-64-v4' 'f16 znver4' 'tf32 znver4'; do
    linear f32 256 512 512 | report host "${form% *}" --triple x86_64-linux-gnu --arch "${form#* }"
    says "$converted"
    silent "$paired"
done
linear f32 256 512 512 | report c99 bf16
says "$converted"

# and those that multiply pairs of bf16
linear f32 256 512 512 | report host bf16 --triple x86_64-linux-gnu --arch znver4
says "$paired"
silent "$converted"

# wgmma takes tf32 along the sum alone
linear f32 256 512 512 | report sm_90a tf32
says ' by wgmma |: by mma, not wgmma: a tf32 factor is not contiguous along the sum$'

# rows that begin anywhere: neither the copy engine nor copies of 16 bytes
linear bf16 256 500 512 | report sm_90a bf16
says ': by mma, not wgmma: the copy engine cannot fetch a factor: rows do not lie at multiples of 16 bytes$'
says ': x is fetched 8 bytes at a time, not 16: '
linear bf16 256 501 512 | report sm_80 bf16
says ': x is fetched 2 bytes at a time, not 16: '

printf '    input x : bf16[256, 64]\n    input w : bf16[64, 501]\n    output y = x @ w\n' | report sm_80 bf16
says ': w is fetched 2 bytes at a time, not 16: '

# the cheapest tile and what its epilogue reads do not fit the shared memory: the next one does
cat <<'END' | report sm_90a bf16
    input x : bf16[4096, 512]
    input w : bf16[512, 4096]
    input a : bf16[4096, 4096]
    input b : bf16[4096, 4096]
    y = (x @ w) * a + b
    output z = y @ transpose(w)
END
says ' by wgmma '
silent 'not wgmma'

# a window with a border
printf '    input x : f32[4, 16, 16, 32]\n    output y = conv2d(x, 64, 3) as c\n' | report sm_90a bf16
says ' by wgmma |: by mma, not wgmma: the copy engine cannot fetch a factor: '

# forms of the host, and what keeps a product from one
arch='--triple x86_64-linux-gnu --arch x86-64-v4'
printf '    input x : f32[4, 16, 16, 32]\n    output y = conv2d(x, 64, 3) as c\n' | report host none $arch
says 'infer_contract_[0-9]+ .*, through a window, m.dsl'
says '^    1 product through a window$'
printf '    input x : f32[4, 16, 16, 32]\n    output y = conv2d(x, 32, 3, groups = 32) as c\n' | report host none $arch
says '^    1 product channel by channel$'
printf '    input x : f32[1, 512]\n    input w : f32[512, 512]\n    output y = x @ transpose(w)\n' | report host none $arch
says '^    1 product as inner products$'
linear f32 256 512 512 | report host none $arch
says '^    1 product in blocks$'
printf '    input x : f32[9, 40]\n    input w : f32[9, 40]\n    y[i] = sum[k] x[i, k] * w[i, k]\n    output y\n' | report host none $arch
says '^    1 product by plain loops, not in blocks: it has a batch axis, of both factors and the result$'
exit $bad
