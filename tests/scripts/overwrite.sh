# A value goes over what its kernel reads last: less memory, the same bits, on every executor; not where another kernel reads the old
# value later, where it is read at other elements, or where it is the caller's.
. "$SRC/tests/support/script.sh"
quick_c

cat >vocabulary.dsl <<'END'
dim B = 24, V = 1003
model vocabulary {
    x = param [B, 32] init normal(1.0)
    w = param [V, 32] init normal(0.3)
    labels = int(iota(B, axis = 0, rank = 1)) * 7
    loss = mean(cross_entropy(x @ transpose(w), labels))
    output loss
    train loss with sgd(lr = 0.1)
}
END
cat >chain.dsl <<'END'
dim B = 40, C = 200
model chain {
    x = param [B, C] init normal(1.0)
    a = linear(x, C) as first
    b = softmax(a)
    c = b * (b - row_max(b, -1)) + transpose(reshape(b, [C, B]))
    d = linear(tanh(c) + c, C) as second
    loss = mean(softmax(d) * d)
    output loss
    output again = d
    train loss with sgd(lr = 0.1)
}
END

cat >rows.dsl <<'END'
dim V = 1003, C = 32
model rows {
    w = param [V, C] init normal(1.0)
    ids = mod(int(iota(90, axis = 0, rank = 1)), 80) * 7
    h = w @ (param [C, C] init normal(0.3) as mix)
    output y = transpose(tanh(h + scatter_add(tanh(w[ids]), ids, V))) @ w
}
END

# check MODEL EXECUTOR TARGET SHARE [OPTION]: the arena of grad, of rows that of infer, is at most SHARE of that without; the bits are the same
check() {
    what="$1 on $2 $3" entry=grad
    [ $1 != rows ] || entry=infer
    for option in "" -fno-overwrite; do
        "$FUSEC" report "$1.dsl" --target $3 --entry $entry $option | sed -n 's/^  arena //p' >"arena$option"
    done
    both_ways overwrite "$1.dsl" $entry $2 ${5-} || return
    awk -v a="$(cat arena)" -v b="$(cat arena-fno-overwrite)" -v s=$4 'BEGIN { exit !(a <= s * b) }' ||
        fail "$what: arena $(cat arena), $(cat arena-fno-overwrite) without"
    cmp -s with.safetensors without.safetensors || fail "$what: other numbers"
}

for model in vocabulary chain rows; do
    share=0.6
    [ $model != chain ] || share=1
    check $model host host $share
    check $model interp host $share
    check $model c99 c99 $share
done
has_software_gpu || exit $bad
for model in vocabulary chain rows; do
    share=0.6
    [ $model != chain ] || share=1
    check $model cuda sm_80 $share --arch=sm_80
    check $model cuda sm_90a $share --arch=sm_90a
done
exit $bad
