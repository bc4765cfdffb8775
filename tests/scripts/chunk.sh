# What is large only between products is made in chunks of its rows: less memory, the same numbers but for the rounding of sums over
# rows; not where something else needs all of it, nor where rows are not independent.
. "$SRC/tests/support/script.sh"

# program LOSS: on stdin more definitions
program() {
    cat >m.dsl <<END
dim R = 1280
let V = 2003, C = 260
model m {
    x = param [R, C] init normal(1.0)
    w = param [V, C] init normal(0.05)
    b = param [V] init normal(0.1)
    labels = mod(int(iota(R, axis = 0, rank = 1)) * 7, V)
$(cat)
    loss = $1
    output loss
    train loss with sgd(lr = 0.1)
}
END
}

# check WHAT SHARE EXECUTOR..: the arena of grad is at most SHARE of that without chunks; gradients are the same.  SHARE 1: no chunks
check() {
    what=$1 share=$2
    shift 2
    for target in "$@"; do
        for option in "" -fno-chunk; do
            "$FUSEC" report m.dsl --target $target --entry grad $option >report$option 2>&1 || { fail "$what on $target: $(cat report$option)"; return; }
            "$FUSEC" run m.dsl --entry grad --seed 6 --outputs "g$option.safetensors" --target $target $option >log 2>&1 ||
                { fail "$what on $target $option: $(cat log)"; return; }
        done
        awk -v s=$share '/^  arena / { a[FILENAME] = $2 }
            END { exit !(s < 1 ? a["report"] <= s * a["report-fno-chunk"] : a["report"] == a["report-fno-chunk"]) }' report report-fno-chunk ||
            fail "$what on $target: $(grep '^  arena ' report), without chunks $(grep '^  arena ' report-fno-chunk)"
        "$BUILD/compare_safetensors" compare g-fno-chunk.safetensors "" g.safetensors 1e-5 || fail "$what on $target: other gradients"
    done
    echo "$what"
}

echo 'h = tanh(x)' | program 'mean(cross_entropy(h @ transpose(w), labels))'
check "cross-entropy" 0.85 host c99
program 'mean(cross_entropy(x @ transpose(w) + b, labels))' </dev/null
check "with a bias" 0.85 host
program 'sum(where(mod(labels, 3) == 0, 0.0, cross_entropy(x @ transpose(w), labels))) / sum(where(mod(labels, 3) == 0, 0.0, 1.0))' </dev/null
check "rows left out" 0.85 host
echo 'z = 20 * tanh((x @ transpose(w)) / 20)' | program 'mean(cross_entropy(z, labels)) + 0.001 * mean(logsumexp(z) ^ 2) - 0.1 * mean(log_softmax(z))'
check "capped, smoothed, with a z-loss" 0.85 host
printf 'e = w[labels]\nz = (x + e) @ transpose(w)\n' | program 'mean(cross_entropy(z, labels))'
check "tied weights" 0.9 host
echo 'z = dropout(x @ transpose(w), 0.2)' | program 'sum(sigmoid(z) * 0.01) + mean(z * z)'
check "dropout" 0.85 host
echo 'z = reshape(x, [8, R / 8, C]) @ transpose(w)' | program 'mean(cross_entropy(reshape(z, [R, V]), labels))'
check "a batch of rows" 0.85 host
# both dims are normalized: no rows are independent
echo 'z = x @ transpose(w)' | program 'mean(cross_entropy(z, labels)) + mean(logsumexp(transpose(z)))'
check "both ways" 1 host
# the caller wants all of it
printf 'z = x @ transpose(w)\noutput z\n' | program 'mean(cross_entropy(z, labels))'
check "an output" 1 host

# In bf16, and for the second derivative.
printf 'precision bf16\n' | program 'mean(cross_entropy(x @ transpose(w), labels))'
for option in "" -fno-chunk; do
    "$FUSEC" report m.dsl --target host --entry grad $option | sed -n 's/^  arena //p' >arena$option
done
[ "$(cat arena)" -lt "$(cat arena-fno-chunk)" ] || fail "bf16: arena $(cat arena), $(cat arena-fno-chunk) without chunks"
"$FUSEC" verify m.dsl --target host --rounds 1 -D R=1080 >log 2>&1 || fail "bf16: $(cat log)"

# Sizes of the gpt2 example, which no machine here could run: no value has as many elements as its logits.
arena() { "$FUSEC" report "$1" --target $2 --entry step | sed -n 's/^  arena //p'; }
awk '{ print } /^model .*{/ { print "    precision bf16" }' "$SRC/examples/gpt2/gpt2.dsl" >low.dsl
for target in sm_80 sm_90a; do
    [ "$(arena "$SRC/examples/gpt2/gpt2.dsl" $target)" -le 4500000000 ] || fail "gpt2: arena $(arena "$SRC/examples/gpt2/gpt2.dsl" $target)"
    [ "$(arena low.dsl $target)" -le 2400000000 ] || fail "gpt2 in bf16: arena $(arena low.dsl $target)"
done
exit $bad
