# What is large only between products is made in chunks of its rows: less memory, the same numbers but for the rounding of sums over
# rows; not where something else needs all of it, nor where rows are not independent.
. "$SRC/tests/support/script.sh"
quick_c

# program LOSS: on stdin more definitions.  Code for C makes chunks of few elements, code for this machine of a million.
small='R = 405, V = 151, C = 12' large='R = 2560, V = 2003, C = 257' sizes=$small
program() {
    cat >m.dsl <<END
dim $sizes
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

# check WHAT SHARE EXECUTOR..: the arena of grad is at most SHARE of that without chunks, in C, where there would be a stream instead,
# of one tensor of logits; gradients are the same.  SHARE 1: no chunks
check() {
    what=$1 share=$2
    shift 2
    for target in "$@"; do
        for option in "" -fno-chunk; do
            "$FUSEC" report m.dsl --target $target --entry grad $option >report$option 2>&1 || { fail "$what on $target: $(cat report$option)"; return; }
        done
        both_ways chunk m.dsl grad $target || return
        awk -v s=$share -v logits=$((405 * 151 * 4)) -v of=$target '/^  arena / { a[FILENAME] = $2 }
            END { exit !(s < 1 ? a["report"] <= s * (of == "c99" ? logits : a["report-fno-chunk"]) : a["report"] == a["report-fno-chunk"]) }' \
            report report-fno-chunk ||
            fail "$what on $target: $(grep '^  arena ' report), without chunks $(grep '^  arena ' report-fno-chunk)"
        "$BUILD/compare_safetensors" compare without.safetensors "" with.safetensors 1e-5 || fail "$what on $target: other gradients"
    done
    echo "$what"
}

echo 'h = tanh(x)' | program 'mean(cross_entropy(h @ transpose(w), labels))'
check "cross-entropy" 0.5 c99
sizes='R = 405, V = 151, C = 37' # the factors together are as large as a quarter of the product, one of them twice is not
echo 'h = tanh(x)' | program 'mean(cross_entropy(h @ transpose(w), labels))'
check "large factors" 1 c99
sizes=$small
program 'mean(cross_entropy(x @ transpose(w) + b, labels))' </dev/null
check "with a bias" 0.5 c99
program 'sum(where(mod(labels, 3) == 0, 0.0, cross_entropy(x @ transpose(w), labels))) / sum(where(mod(labels, 3) == 0, 0.0, 1.0))' </dev/null
check "rows left out" 0.5 c99
echo 'z = 20 * tanh((x @ transpose(w)) / 20)' | program 'mean(cross_entropy(z, labels)) + 0.001 * mean(logsumexp(z) ^ 2) - 0.1 * mean(log_softmax(z))'
check "capped, smoothed, with a z-loss" 0.5 c99
printf 'e = w[labels]\nz = (x + e) @ transpose(w)\n' | program 'mean(cross_entropy(z, labels))'
check "tied weights" 0.5 c99
echo 'z = dropout(x @ transpose(w), 0.2)' | program 'sum(sigmoid(z) * 0.01) + mean(z * z)'
check "dropout" 0.5 c99
echo 'z = reshape(x, [5, 81, C]) @ transpose(w)' | program 'mean(cross_entropy(reshape(z, [R, V]), labels))'
check "a batch of rows" 0.5 c99
printf 'h = layernorm(x) as n\nz = h @ transpose(w)\n' | program 'mean(cross_entropy(z, labels)) + mean(z * z)'
check "after a norm" 0.6 c99
# along each row one element after the other, with factors or terms that are no rows of the region's
cat <<'END' | program 'mean(s * s) + mean(sin(t))'
z = x @ transpose(w)
g = broadcast(sigmoid(b), [R, V])
s = scan zi over z axis 1, gi over g axis 1, h = zeros [R] {
    h = gi * h + zi
    emit h
}
t = scan zi over z axis 1, gi over g axis 1, h = zeros [R] {
    h = sigmoid(zi) * h + gi
    emit h
}
END
infer_arena() { "$FUSEC" report m.dsl --target c99 --entry infer "$@" 2>&1 | sed -n 's/^  arena //p'; }
[ "$(infer_arena)" -le $(($(infer_arena -fno-chunk) / 4)) ] || fail "linear scans: arena $(infer_arena), $(infer_arena -fno-chunk) without chunks"
"$FUSEC" verify m.dsl --target c99 --rounds 1 --quiet >log 2>&1 || fail "linear scans: $(cat log)"
# both dims are normalized: no rows are independent
echo 'z = x @ transpose(w)' | program 'mean(cross_entropy(z, labels)) + mean(logsumexp(transpose(z)))'
check "both ways" 1 c99
# the caller wants all of it
printf 'z = x @ transpose(w)\noutput z\n' | program 'mean(cross_entropy(z, labels))'
check "an output" 1 c99
# what else the region reads is as large, and in memory all the same
printf 'z = (layernorm(x) as n) @ transpose(w)\ny = param [R, V] init normal(1.0)\nm0 = param [V, 5] init normal(0.3)\noutput red = mean(z, axis = 1)\n' |
    program 'mean((softmax(z) @ m0)^2) + mean(variance(z, axis = 1)) - mean(y * logsigmoid(z) + (1 - y) * logsigmoid(-z))'
check "beside something as large" 1 c99
printf 'z = x @ transpose(w)\nc = concat(broadcast(b, [R, V]), broadcast(b, [R, V]), axis = 1)\n' |
    program 'mean(sigmoid(concat(z, z, axis = 1)) * c)'
check "beside a concatenation of what is given" 1 c99
sizes=$large
program 'mean(cross_entropy(x @ transpose(w) + b, labels))' </dev/null
check "on this machine" 0.5 host
printf 'precision bf16\n' | program 'mean(cross_entropy(x @ transpose(w), labels))'
for option in "" -fno-chunk; do
    "$FUSEC" report m.dsl --target host --entry grad $option 2>/dev/null | sed -n 's/^  arena //p' >arena$option
done
awk -v a="$(cat arena)" -v b="$(cat arena-fno-chunk)" 'BEGIN { exit !(a < 0.6 * b) }' || fail "bf16: arena $(cat arena), $(cat arena-fno-chunk) without chunks"

# Against float64, in bf16 too, and with recomputation.
sizes=$small
for low in "" "precision bf16"; do
    printf 'h = layernorm(x) as n\nh = h + linear(gelu(linear(h, C) as up), C) as down\n%s\n' "$low" | program 'mean(cross_entropy(h @ transpose(w), labels))'
    for option in "" --checkpoint=sqrt; do
        "$FUSEC" verify m.dsl --target c99,interp --rounds 1 $option >log 2>&1 || fail "$low $option: $(cat log)"
    done
done

# Sizes of the gpt2 example, which no machine here could run: no value has as many elements as its logits.
arena() { "$FUSEC" report "$1" --target $2 --entry step | sed -n 's/^  arena //p'; }
awk '{ print } /^model .*{/ { print "    precision bf16" }' "$SRC/examples/gpt2/gpt2.dsl" >low.dsl
for target in sm_80 sm_90a; do
    [ "$(arena "$SRC/examples/gpt2/gpt2.dsl" $target)" -le 4500000000 ] || fail "gpt2: arena $(arena "$SRC/examples/gpt2/gpt2.dsl" $target)"
    [ "$(arena low.dsl $target)" -le 2400000000 ] || fail "gpt2 in bf16: arena $(arena low.dsl $target)"
done
exit $bad
