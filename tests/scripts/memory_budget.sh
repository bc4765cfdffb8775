# --memory-budget: an entry takes no more, as far as values can be computed again; the numbers are those of a plan that keeps them, and
# where nothing has to be computed again it is that plan.  What cannot be kept is refused, with the least that was reached.  Executors
# and budgets take turns; SWEEP_ALL=1, as in ./dev fuzz: each with each.
. "$SRC/tests/support/script.sh"
quick_c

# lm TOKENS: on stdin definitions of tokens and targets, [TOKENS].  Tied weights; the norm of all gradients decides every update.
lm() {
    cat <<END
let V = 2003, C = 32
dim T = $1
layer block(x) { return x + linear(gelu(linear(layernorm(x) as norm, 4 * C) as up), C) as down }
model lm {
$(cat)
    wte = param [V, C] init normal(0.02)
    x = wte[tokens]
    repeat 24 as h { x = block(x) }
    loss = mean(cross_entropy((layernorm(x) as ln) @ transpose(wte), targets))
    output loss
    train loss with adamw(lr = 0.01) clip_norm 0.5
}
END
}
printf 'input tokens : i32[T] in 0..V\ninput targets : i32[T] in 0..V\n' | lm 6 >lm.dsl
printf 'tokens = mod(min(int(iota(T, axis = 0, rank = 1)), 4) * (V - 1), V)\ntargets = mod(tokens, 5)\n' | lm 8 | sed 's/let V = 2003, C = 32/let V = 5003, C = 64/; s/repeat 24/repeat 12/' >steps.dsl
cat >mlp.dsl <<'END'
# What the backward reads is most of the memory.
dim B = 256, C = 32
model mlp {
    input x : f32[B, C]
    h = x
    repeat 12 as layers { h = h + tanh(linear(h, C) as inner) }
    loss = mean(h * h)
    output loss
    train loss with sgd(lr = 0.05)
}
END
cat >cnn.dsl <<'END'
dim B = 2, S = 8
model cnn {
    input x : f32[B, S, S, 3]
    h = x
    repeat 4 as stage { h = silu(batchnorm(conv2d(h, 16, 3, bias = false) as conv) as norm) }
    loss = mean(h^2)
    output loss
    train loss with momentum(lr = 0.1)
}
END

report_of() { "$FUSEC" report "$@" 2>log || { fail "report $*: $(cat log)" >&2; return 1; }; }
peak() { awk '/^  peak / { print $2 }'; }
fixed() { awk '/^  (parameters|states|gradients)/ { sum += $NF } END { print sum }'; }

# within MODEL ENTRY EXECUTOR TARGET SHARE [ALSO]: with that percentage of the arena it compiles, takes no more, and agrees with float64
within() {
    report_of $1.dsl --target $4 --entry $2 >plain || return
    whole=$(peak <plain) base=$(fixed <plain)
    budget=$((base + (whole - base) * $5 / 100))
    report_of $1.dsl --target $4 --entry $2 --memory-budget=$budget >less || return
    grep -q '^    within the budget, ' less || fail "$1, $2 on $4: the report does not say what is computed again"
    [ "$(peak <less)" -le $budget ] || fail "$1, $2 on $4: $(peak <less) bytes, with a budget of $budget"
    "$FUSEC" verify $1.dsl --target $3 --entry $2 --memory-budget=$budget --rounds 1 --quiet ${6-} >log 2>&1 || fail "$1, $2 on $3 within $5 %: $(cat log)"
}
if [ "${SWEEP_ALL:-}" ]; then
    for m in lm mlp cnn; do
        for share in 85 70; do
            for target in host c99; do within $m step $target $target $share; done
            [ $m = lm ] || within $m grad interp host 85
            has_software_gpu && within $m step cuda sm_80 $share --arch=sm_80
            has_software_gpu && within $m step cuda sm_90a $share --arch=sm_90a
        done
    done
fi
within lm step host host 80
within lm step c99 c99 45
within mlp grad host host 45
within mlp step c99 c99 25
within cnn grad interp host 85
if has_software_gpu; then
    within lm step cuda sm_80 60 --arch=sm_80
    within mlp grad cuda sm_90a 45 --arch=sm_90a
fi

# A budget that it keeps anyway changes nothing: artifacts are equal to the byte.
for m in lm mlp cnn; do
    "$FUSEC" $m.dsl --target c99 -o plain.c && "$FUSEC" $m.dsl --target c99 --memory-budget=1G -o ample.c || fail "$m: does not compile"
    sed 's/ample/plain/g' ample.c | cmp -s plain.c - || fail "$m: an ample budget changes the code"
done

# Three steps go the same way.  Tokens are the first row, the last ones, and one several times; the rows that they add to are made in
# chunks, each of which takes the tokens of its own, the last with fewer rows.
"$FUSEC" run steps.dsl --seed 3 --steps 3 --quiet --outputs plain.safetensors >log 2>&1 || fail "three steps: $(cat log)"
for target in host c99; do
    budget=$(report_of steps.dsl --target $target --entry step | awk '/^  (parameters|states)/ { s += $2 } /^  arena/ { a = $2 } END { print s + int(0.7 * a) }')
    report_of steps.dsl --target $target --entry step --memory-budget=$budget --print-after=chunk >chunked
    grep ' = scatter ' chunked | grep -qv ' rows 5003 ' || fail "$target: no rows of a scatter are made in chunks: $(grep ' = scatter ' chunked)"
    "$FUSEC" run steps.dsl --target $target --seed 3 --steps 3 --quiet --memory-budget=$budget --outputs less.safetensors >log 2>&1 || fail "three steps on $target within $budget: $(cat log)"
    "$BUILD/compare_safetensors" compare plain.safetensors "" less.safetensors 1e-4 || fail "three steps on $target: other parameters"
done

# refused WHAT PATTERN ARGUMENT..: with that exit status and text, and no file
refused() {
    what=$1 status=$2 text=$3
    shift 3
    rm -f x.o
    "$FUSEC" "$@" -o x.o >log 2>&1
    [ $? = "$status" ] || fail "$what: exit status"
    grep -q "$text" log || fail "$what: $(cat log)"
    [ ! -e x.o ] || fail "$what: a file is written"
}
refused "too little" 1 "entry step takes [0-9]* bytes at least, more than the memory budget of 81920 \[E0502\]" mlp.dsl --entry=step --memory-budget=80K
refused "less than the parameters" 1 "more than the memory budget of 1000 " mlp.dsl --memory-budget=1000
for size in 0 -1 abc 5X 1.5.2G "" 1e30 3KM; do
    refused "a size '$size'" 2 "a size is needed, such as 512K, 300M or 1.5G\|the number is too large\|needs a value\|takes" mlp.dsl --memory-budget=$size
done
exit $bad
