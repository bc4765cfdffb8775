# Products with few rows, columns or terms on the host: which micro-kernels they are made of, and that their numbers are
# the interpreter's, with vectors of any width.
. "$SRC/tests/support/script.sh"

# product LEFT RIGHT ROWS COLUMNS TERMS: with _t a factor is stored transposed
product() {
    rows=$3 columns=$4 terms=$5
    a="[$rows, $terms]" b="[$terms, $columns]" x=a y=b
    [ "$1" = n ] || a="[$terms, $rows]" x="transpose(a)"
    [ "$2" = n ] || b="[$columns, $terms]" y="transpose(b)"
    cat >thin.dsl <<END
model thin {
    a = param $a init normal(1.0)
    b = param $b init normal(1.0)
    bias = param [$columns] init normal(1.0)
    output p = $x @ $y
    output q = relu($x @ tanh($y) + bias)
}
END
}

numbers() { # what the product is, in words
    "$FUSEC" run thin.dsl --entry=infer --seed 5 --target=interp --outputs want.safetensors >/dev/null || die "$1: not interpreted"
    for arch in native $archs; do
        "$FUSEC" run thin.dsl --entry=infer --seed 5 --target=host --arch=$arch --outputs host.safetensors >/dev/null ||
            fail "$1, $arch: does not run"
        "$BUILD/compare_safetensors" compare host.safetensors "" want.safetensors 1e-5 || fail "$1, $arch: other numbers"
    done
}

# form WORDS FUNCTION: the first product calls it, with AVX-512
form() {
    "$FUSEC" thin.dsl --triple=x86_64-linux-gnu --arch=x86-64-v4 --entry=infer -o thin.ll || die "$1: is not compiled"
    grep -q "call .*@fusec\.$2" thin.ll || fail "$1: not made of $2 but of $(grep -o '@fusec[^(]*(' thin.ll | sort -u | tr '\n' ' ')"
}

archs=
case $(uname -m) in x86_64) archs="x86-64" && grep -q avx2 /proc/cpuinfo && archs="x86-64 x86-64-v3" ;; esac

product n t 7 129 51 && form "7 rows of 51 terms" inner_7x2 && numbers "7 rows"
product n t 2 64 300 && form "2 rows of 300 terms" inner_2x8 && numbers "2 rows"
product t t 7 100 12 && numbers "7 rows that lie apart"
product n n 513 3 128 && form "3 columns" inner_3x8 && numbers "3 columns"
product n n 513 7 33 && form "7 columns" inner_7x2 && numbers "7 columns"
product t n 513 2 64 && form "2 columns, rows side by side" 'block_[a-z_]*2x' && numbers "2 columns"
product t t 300 5 65 && numbers "5 columns, both apart"
product n n 513 7 3 && form "3 terms" 'block_[a-z_]*masked' && numbers "3 terms"
product n n 515 10 20 && form "20 terms" 'block_[a-z_]*masked' && numbers "20 terms"
product n n 100 33 20 && form "20 terms, two vectors" 'block_[a-z_]*masked' && numbers "20 terms, two vectors"
product n n 4 4 5000 && form "4 by 4" 'block_[a-z_]*4x16' && numbers "4 by 4"
product n n 2 2 1000 && numbers "2 by 2"
product t n 1 3 1000 && numbers "1 by 3"
exit $bad
