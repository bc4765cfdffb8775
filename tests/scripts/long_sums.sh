# Sums of many terms: as accurate as short ones, whichever axis they go along.  A running sum of f32 would be off by up to
# 4e-4 at 1e6 terms of 0.1, and ends at 2^24 where all are 1.  Lengths lie on both sides of where sums begin to be
# compensated, and of the blocks that they are added in.
. "$SRC/tests/support/script.sh"
quick_c
cd "$work" || exit 1
cat >m.dsl <<'END'
dim N = 8192
let C = 3
model sums {
    x = param [N, C] init constant(0.1)
    w = param [C, N] init constant(0.1)
    image = param [1, N, 1, C] init constant(0.1)
    k = param [3, 1, C, 2] init constant(1.0)
    table = param [3, C] init constant(1.0)
    output outer = mean(x, axis = 0)[1]
    output inner = mean(w, axis = 1)[2]
    output all_of_it = mean(x)
    output gram = (transpose(x) @ x)[0, 1] / float(N) * 10.0
    output dot = (w @ x)[1, 2] / float(N) * 10.0
    y[c] = sum[n] x[n, c]
    output indexed = y[0] / float(N)
    output prefix = cumsum(x, axis = 0)[-1, 0] / float(N)
    output prefix_inner = cumsum(w, axis = 1)[0, -1] / float(N)
    output suffix = cumsum(w, axis = 1, reverse = true)[0, 0] / float(N)
    output masked = mean(w, axis = 1, where = w > 0.05)[0]
    output window = mean(avg_pool2d(image, 1)) 
    c = convolve(image, k, N, 1, 1, 0, 1, 1)
    loss = mean(c) / 0.1
    output kernel = vjp(mean(c), k, 1.0)[1, 0, 0, 0] * 2.0
    output scattered = vjp(mean(table[iota(N) / N]) * float(C) / 10.0, table, 1.0)[0, 1]
    output loss
    train loss with sgd(lr = 0.0)
}
END

# accurate TARGET N: every output but the loss is 0.1, as nearly as docs/numerics.md says of a lane's 512 terms, and of a
# product's 2048
accurate() {
    LD_LIBRARY_PATH=$BUILD/ptxsim "$FUSEC" run m.dsl --entry infer --quiet -D N="$2" --target "$1" >out 2>log || { fail "N=$2 on $1: $(cat log)"; return; }
    awk -v what="N=$2 on $1" '$1 != "loss" && NF == 2 { n++; off = $2 / 0.1 - 1; if (off < 0) off = -off
        tolerance = $1 ~ /^(gram|dot|kernel)$/ ? 2e-5 : 5e-6
        if (!(off <= tolerance)) { print "FAIL: " $1 ", " what ": off by " off; bad = 1 } }
        END { if (n < 13) { print "FAIL: " what ": " n " results"; bad = 1 } exit bad }' out || bad=1
}

targets="host"
command -v "${CC:-cc}" >/dev/null && targets="$targets c99"
for t in $targets; do
    for n in 1 63 64 65 511 512 513 2048 2049 4097 8193 16385 131073 1000003; do accurate $t $n; done
done
for n in 65 8193 20011; do accurate interp $n; done
[ -e "$BUILD/ptxsim/libcuda.so.1" ] && for n in 65 8193; do accurate cuda $n; done

# products of few rows and columns, whose slices end where no block does
{
    echo "dim N = 1000003"
    echo "model narrow {"
    for c in 1 2 3 5 6; do echo "    x$c = param [N, $c] init constant(0.1)"; done
    for a in 1 2 3 5; do
        for b in 2 3 6; do
            echo "    p_${a}_$b = transpose(x$a) @ x$b / float(N) * 10.0"
            echo "    output most_${a}_$b = max(p_${a}_$b)"
            echo "    output least_${a}_$b = min(p_${a}_$b)"
        done
    done
    echo "}"
} >narrow.dsl
for n in 250007 1000003; do
    for t in $targets; do
        "$FUSEC" run narrow.dsl --entry infer --quiet -D N=$n --target $t >out 2>log || fail "narrow, N=$n on $t: $(cat log)"
        awk -v what="N=$n on $t" 'NF == 2 { n++; off = $2 / 0.1 - 1; if (off < 0) off = -off
            if (!(off <= 5e-6)) { print "FAIL: " $1 ", " what ": off by " off; bad = 1 } }
            END { if (n != 24) { print "FAIL: " what ": " n " results"; bad = 1 } exit bad }' out || bad=1
    done
done

# products by plain loops of vectors of columns, on both sides of how many terms one f32 adds of those
cat >wide.dsl <<'END'
dim N = 1000003
model wide {
    precision bf16
    a = param [N, 16] init constant(0.8046875)
    b = param [N, 16] init constant(0.6953125)
    p[c] = sum[n] a[n, c] * b[n, c]
    output most = max(p) / float(N) / 0.55950927734375
    output least = min(p) / float(N) / 0.55950927734375
}
END
for n in 2048 2049 32768 32769 131072 1000003; do
    "$FUSEC" run wide.dsl --entry infer --quiet -D N=$n >out 2>log || fail "wide, N=$n: $(cat log)"
    awk -v what="N=$n" 'NF == 2 { n++; off = $2 - 1; if (off < 0) off = -off
        if (!(off <= 2e-5)) { print "FAIL: wide, " $1 ", " what ": off by " off; bad = 1 } }
        END { if (n != 2) { print "FAIL: " what ": " n " results"; bad = 1 } exit bad }' out || bad=1
done

# of as many as an extent says when the model is called: in slices, as if that were fixed
cat >bounded.dsl <<'END'
dim S <= 100000
model bounded {
    a = param [100000, 4] init constant(0.1)
    b = param [100000, 5] init constant(0.1)
    x[i in 0..S, c] = a[i, c]
    y[i in 0..S, c] = b[i, c]
    z = transpose(x) @ y / float(S) * 10.0
    output first = z[0, 0]
    output last = z[3, 4]
    output mean_of_it = mean(x)
    output column = mean(y, axis = 0)[2]
}
END
with_gpu=$targets
[ -e "$BUILD/ptxsim/libcuda.so.1" ] && with_gpu="$targets cuda"
for t in $with_gpu; do
    for s in 1 799 800 801 50001 100000; do
        LD_LIBRARY_PATH=$BUILD/ptxsim "$FUSEC" run bounded.dsl --entry infer --quiet --extent S=$s --target "$t" >out 2>log || fail "S=$s on $t: $(cat log)"
        awk '{ n++; off = $2 / 0.1 - 1; if (!(off < 2e-5 && off > -2e-5)) bad = 1 } END { exit bad || n != 4 }' out || fail "S=$s on $t: $(cat out)"
    done
done
# a product of threads, of more terms than one running sum should have: in slices that are short enough
cat >product.dsl <<'END'
dim N = 300000
model product {
    a = param [N, 4] init constant(0.1)
    b = param [N, 5] init constant(0.1)
    z = transpose(a) @ b / float(N) * 10.0
    output first = z[0, 0]
    output last = z[3, 4]
}
END
for t in $with_gpu; do
    LD_LIBRARY_PATH=$BUILD/ptxsim "$FUSEC" run product.dsl --entry infer --quiet --target "$t" >out 2>log || fail "product on $t: $(cat log)"
    awk '{ n++; off = $2 / 0.1 - 1; if (!(off < 2e-5 && off > -2e-5)) bad = 1 } END { exit bad || n != 2 }' out || fail "product on $t: $(cat out)"
done
"$FUSEC" product.dsl -D N=16000000 --target sm_80 --entry infer -o b.tile && grep -q 'loop k in 0\.\.[0-9]\{1,5\} ' b.tile || fail "slices too long: $(cat b.tile)"
printf 'model square {\n    input a : f32[1000000, 1024]\n    input b : f32[1000000, 1024]\n    output c = transpose(a) @ b\n}\n' >square.dsl
for t in sm_80 sm_90a; do # whose tiles alone keep a GPU busy
    "$FUSEC" square.dsl --target $t -o b.tile && grep -q 'loop k in 0\.\.[0-9]\{1,5\} ' b.tile || fail "$t: slices too long: $(cat b.tile)"
done
# and by matrix instructions, whose rings of copies find nothing to fetch in most slices
cat >low.dsl <<'END'
dim S <= 20000
model low {
    precision bf16
    a = param [20000, 40] init normal(1.0)
    b = param [20000, 56] init normal(1.0)
    x[i in 0..S, c] = a[i, c] * 1.5
    y[i in 0..S, c] = b[i, c] * 0.5
    output c = transpose(x) @ y
}
END
"$FUSEC" low.dsl --target sm_90 --entry infer -o b.tile && grep -q 'for k to S - .* ahead' b.tile || fail "no ring by S: $(cat b.tile)"
for s in 1 130 9999; do
    [ "$with_gpu" = "$targets" ] || LD_LIBRARY_PATH=$BUILD/ptxsim "$FUSEC" verify low.dsl --extent S=$s --target cuda,host --rounds=1 --quiet >log 2>&1 || fail "bf16, S=$s: $(cat log)"
done
"$FUSEC" bounded.dsl --target sm_80 --entry infer -o b.tile && grep -q 'for k to S - ' b.tile || fail "a product by S goes on past it: $(cat b.tile)"

# what a compensated product is added with finds room on the stack, however many rows and columns it has
for rows in 700 4096 50000; do
    printf 'model wide {\n    input a : f32[%s, 200000]\n    input b : f32[200000, 3000]\n    output c = a @ b\n}\n' $rows >wide.dsl
    "$FUSEC" wide.dsl -o wide.ll 2>log || fail "wide product of $rows rows: $(cat log)"
done

# infinities stay what they are
cat >inf.dsl <<'END'
model infinite {
    x = iota(100000)
    output up = sum(where(x == 7, inf, 1.0))
    output down = sum(where(x == 70000, -inf, 1.0))
    output neither = sum(where(x == 7, inf, where(x == 90000, -inf, 1.0)))
    output last = cumsum(where(x == 7, inf, 1.0))[-1]
}
END
for t in $targets; do
    "$FUSEC" run inf.dsl --entry infer --quiet --target $t >out 2>log || fail "inf on $t: $(cat log)"
    tr -d '-' <out | tr '\n' ' ' | grep -q '^up inf down inf neither nan last inf *$' || fail "inf on $t: $(cat out)"
done

# the mean of 5e7 ones is 1
printf 'model ones_of_it {\n    output m = mean(ones [50000000])\n    u = uniform([50000000])\n    output n = mean(float(u >= 0.0))\n}\n' >ones.dsl
for t in $targets; do
    "$FUSEC" run ones.dsl --entry infer --quiet --target $t >out 2>log || fail "ones on $t: $(cat log)"
    [ "$(tr '\n' ' ' <out)" = "m 1 n 1 " ] || fail "ones on $t: $(cat out)"
done
exit $bad
