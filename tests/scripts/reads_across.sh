# Kernels that read along another axis than they write, or walk it: a tile has lanes of both, so that what a program reads of a cache
# line, or a sector, is read while it is there; the numbers are the interpreter's.
. "$SRC/tests/support/script.sh"
quick_c

# program SHAPE EXPRESSION
program() { printf 'model m {\n    x = param [%s] init normal(1.0)\n    output y = %s\n}\n' "$1" "$2" >m.dsl; }

# tile TARGET GRID..: those lines are in the Tile IR
tile() {
    target=$1
    shift
    "$FUSEC" m.dsl --target=$target --entry=infer -o m.tile || die "$(cat m.dsl): is not compiled for $target"
    for grid in "$@"; do
        grep -q "grid $grid\( \|$\)" m.tile || fail "$(cat m.dsl) for $target: no grid $grid, but $(grep grid m.tile | tr '\n' ' ')"
    done
}

numbers() {
    "$FUSEC" run m.dsl --entry infer --seed 3 --target interp --outputs want.safetensors >/dev/null || die "$(cat m.dsl): not interpreted"
    for target in host c99 $cuda; do
        "$FUSEC" run m.dsl --entry infer --seed 3 --target $target --outputs got.safetensors >log 2>&1 || fail "$(cat m.dsl) on $target: $(cat log)"
        "$BUILD/compare_safetensors" compare want.safetensors "" got.safetensors 1e-5 || fail "$(cat m.dsl) on $target: other numbers"
    done
}
cuda=
! has_software_gpu || cuda=cuda

program 2000,1000 'transpose(x)' && tile host 'i in 0..1000 step 32' 'j in 0..2000 step 64' && tile sm_80 'i in 0..1000 step 32' 'j in 0..2000 step 32'
program 700,700 'x + transpose(x)' && tile host 'i in 0..700 step 32' 'j in 0..700 step 64' && numbers
program 6,50,200 'transpose(x, [2, 0, 1])' && tile host 'i in 0..200 step 32' 'l in 0..50 step 50' && numbers
program 4,30,30,65 'exp(transpose(x, [0, 3, 1, 2]))' && tile host 'j in 0..65 step 32' && numbers
program 5000,3 'transpose(x)' && tile host 'i in 0..3 step 3' 'j in 0..5000 step 682' && numbers
program 3,5000 'transpose(x)' && numbers
program 129,257 'transpose(x)' && numbers
program 300,200 'transpose(x, [0, 1])' && tile host 'j in 0..200 step 200'

program 4000,1000 'x * x[:, 0:1]' && tile host 'j in 0..1000 step 1000' # a number of each row
program 600,600 'gelu(sin(x) * cos(x) * tanh(transpose(x)))' && tile sm_80 'i in 0..600 step 32' 'j in 0..600 step 8' && numbers # an element a thread

program 2000,1000 'cumsum(x)' && tile host 'i in 0..2000 step 16'
program 2000,1024 'cumsum(x)' && tile host 'i in 0..2000 step 8'
program 64,1024 'cumsum(x)' && tile sm_80 'i in 0..64 step 32' && numbers
program 37,90 'cumsum(x)' && tile sm_80 'i in 0..37 step 32' && numbers
program 100,300 'cumsum(x, axis = 0)' && tile host 'j in 0..300 step 256' && numbers
program 5,40,7 'cumsum(x, axis = 1, reverse = true)' && tile host 'i in 0..5 step 5' 'l in 0..7 step 7' && numbers
program 33,20 'cumprod(x)' && numbers
exit $bad
