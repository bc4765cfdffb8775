# fusec verify: right programs agree on every target that is here; a compiler with one line wrong is found out, and what is
# wrong is named: the kernel, the pass, or autodiff.
. "$SRC/tests/support/script.sh"
cd "$work" || exit 1
export LD_LIBRARY_PATH="$BUILD/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cat >m.dsl <<'END'
dim N = 7
dim C = 5
model m {
    input x : f32[N, 6]
    input ids : i32[N] in 0..C
    w = param [6, 4] init normal(1.0)
    e = param [C, 4] init normal(1.0)
    h = min(x @ w, 0.5)
    y = sin(h) + e[ids]
    z = -(y - softmax(h))
    loss = mean(z * z) + 0.125 * sum(h @ transpose(h))
    output z
    output loss
    train loss with adam(lr = 0.01)
}
END
cat >wide.dsl <<'END'
dim B <= 9
model wide {
    input x : f32[B, 3]
    w = param [3, 3] init normal(1.0)
    state seen = 0.5 * w
    seen <- 0.75 * seen + 0.25 * w
    y = dropout(relu(x @ w @ w), 0.25)
    output mask = y > 0.5
    output y
    loss = sum(y * y) / float(B)
    train loss with momentum(lr = 0.1)
}
END
cat >low.dsl <<'END'
model low {
    precision bf16
    input x : f32[9, 8]
    w = param [8, 8] init normal(0.5)
    y = softmax(tanh(x @ w) @ w)
    output y
    loss = mean(y * x)
    output loss
    train loss with sgd(lr = 0.5)
}
END

# agrees FILE OPTION..: exit status 0, every target named
agrees() {
    "$FUSEC" verify "$@" >out 2>log || fail "$*: $(cat log out)"
    grep -q '^host: agrees, [1-9]' out || fail "$*: $(cat out)"
}
agrees m.dsl
for t in interp c99; do grep -q "^$t: \(agrees, [1-9]\|skipped\)" out || fail "m.dsl on $t: $(cat out)"; done
grep -q 'gradients of 2 parameters are those of finite differences' out || fail "no finite differences: $(cat out)"
grep -q '^ *grad *host *gradient e  *error [0-9.e-]*  *bound [0-9.e-]*' out || fail "no line for a gradient: $(cat out)"
agrees m.dsl -D N=1 -D C=2 --seed 3 --rounds 1 --quiet
grep -q '^ ' out && grep -v 'finite differences' out | grep '^ ' && fail "--quiet is not"
agrees wide.dsl --target host,interp --rounds 3 --quiet
agrees low.dsl --target host,interp --quiet

# a loss that turns within a step of the differences, and one within any: neither is autodiff's fault
for f in '1e7 * p' '(10.0 * p)^9'; do
    printf 'model turns {\n    p = param [3] init normal(1.0)\n    loss = sum(sin(%s))\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n' "$f" >turns.dsl
    agrees turns.dsl --target host --quiet
done
grep -q 'not compared .*: of 1 parameters: the loss turns within the shortest step, or the step is lost' out || fail "turns: $(cat out)"
# a step that is lost in its parameter, and differences that agree with anything
for loss in 'sum(sin(param [1] init constant(1e27) as p))' 'sum(sin((param [3] init ones as p) * 1e9))'; do
    printf 'model m {\n    loss = %s\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n' "$loss" >lost.dsl
    "$FUSEC" verify lost.dsl --rounds 1 --quiet >out 2>&1 || fail "$loss: $(cat out)"
    grep -q 'not compared .*: of 1 parameters' out || fail "$loss is compared: $(cat out)"
done

# what cannot be verified is said before anything runs
"$FUSEC" verify m.dsl -D N=200000 >out 2>&1 && fail "verified in no time"
grep -q 'smaller sizes (-D NAME=VALUE)' out || fail "too large: $(cat out)"
"$FUSEC" verify m.dsl --target host,moon >out 2>&1
[ $? = 2 ] || fail "a target that is none: $(cat out)"
"$FUSEC" verify m.dsl --target host,c99,interp --hyper=moon=1 >out 2>&1
[ $? = 2 ] && [ "$(wc -l <out)" = 1 ] || fail "a hyperparameter that is none is said once: $(cat out)"

# mutant FILE SED [HEADER]: fusec with one line of FILE, or of the table that it includes, changed
mutant() {
    mkdir -p "$work/$(dirname "${3:-$1}")"
    sed "$2" "$SRC/${3:-$1}" >"$work/${3:-$1}"
    cmp -s "$SRC/${3:-$1}" "$work/${3:-$1}" && fail "no such line in ${3:-$1}: $2"
    source=$SRC/$1
    [ -n "${3:-}" ] || source=$work/$1
    link=$(sed "s#-o \.\./fusec #-o $work/wrong $work/wrong.o #" "$BUILD/tools/CMakeFiles/fusec.dir/link.txt")
    flags=$(sed -n 's/^C_FLAGS = //p' "$BUILD/tools/CMakeFiles/fusec.dir/flags.make")
    ${CC:-cc} $flags -O1 -D_GNU_SOURCE -I"$work" -I"$SRC" -I"$BUILD" -c "$source" -o wrong.o && (cd "$BUILD/tools" && $link)
}

# blamed TARGETS PATTERN: the mutant says so, with exit status 1
blamed() {
    "$work/wrong" verify m.dsl --quiet --target "$1" >out 2>&1
    status=$?
    [ $status = 1 ] || fail "exit status $status for $2"
    grep -q "$2" out || fail "not blamed, $2: $(cat out)"
}
# equal sums, each rounded by itself, cancel but for that
cat >cancels.dsl <<'END'
model cancels {
    x = param [1000] init normal(1.0)
    w = param [300, 8] init normal(1.0)
    output a = sum(x) - sum(x[::-1])
    output b = sum(w, axis = 0) - sum(w[::-1], axis = 0)
}
END
agrees cancels.dsl --target host,interp

# what overflows f16 makes 0 times infinity of other parts of the sum: not decided, and no fault
cat >overflows.dsl <<'END'
model overflows {
    precision f16
    input x : f32[2, 2]
    k, v = split(linear(x, 4) as a, 2, axis = -1)
    h = x @ transpose(k) @ v
    loss = 0.1 * sum(h^2)
    output loss
    train loss with sgd(lr = 0.01)
}
END
"$FUSEC" verify overflows.dsl --target host --seed 2 >out 2>&1 || fail "what overflows is called wrong: $(cat out)"
grep -q ' [1-9][0-9]* undecided, 0 wrong' out || fail "nothing overflows: $(cat out)"

# equal values, of which a product reads one: that one is rounded
cat >equal.dsl <<'END'
model equal {
    precision bf16
    input x : f32[3, 4]
    a = softmax(x)
    b = softmax(x)
    output z = transpose(a) @ a
    output o = b
}
END
"$FUSEC" verify equal.dsl --target host,interp >out 2>&1 || fail "what a product rounds is another's: $(cat out)"

# boolean tensors at any subscript
cat >booleans.dsl <<'END'
model booleans {
    input x : f32[5, 5]
    b = x > 0.0
    before[i in 0..5, j in 0..5] = b[i - 1, j]
    halves[i in 0..5, j in 0..5] = b[i / 2, j]
    diagonal[i in 0..5] = b[i, i]
    outside[i in 0..9] = b[i, 2]
    output before
    output halves
    output diagonal
    output y = where(outside, 1.0, 2.0)
}
END
"$FUSEC" verify booleans.dsl --target host,interp >out 2>&1 || fail "a boolean tensor, subscripted: $(cat out)"

# data of one's own: shapes give the extents, and what the files have is what is computed with
cat >own.dsl <<'END'
dim S <= 16
model m {
    input x : f32[S]
    input i : i32[2] in 0..3
    p = param [3] init ones
    state n = zeros []
    n <- n + sum(p[i])
    y = x * sum(p) + n
    output y
}
END
tensor() { # NAME TYPE COUNT OCTAL: a safetensors file of one vector of 4-byte elements, all alike
    head=$(printf '{"%s":{"dtype":"%s","shape":[%s],"data_offsets":[0,%d]}}' "$1" "$2" "$3" $((4 * $3)))
    printf "\\$(printf %o ${#head})\\0\\0\\0\\0\\0\\0\\0%s" "$head"
    k=0
    while [ $k -lt "$3" ]; do printf "$4"; k=$((k + 1)); done
}
nan='\0\0\300\177' one='\0\0\200\77'
tensor x F32 5 "$one" >x.safetensors
tensor x F32 5 "$nan" >nan.safetensors
tensor i I32 2 '\3\0\0\0' >i.safetensors
tensor p F32 3 "$nan" >p.safetensors
tensor p F32 4 "$one" >four.safetensors
own() { "$FUSEC" verify own.dsl --target host,interp --entry infer --rounds 1 "$@" >out 2>&1; }
own --inputs x.safetensors && grep -q '^host: agrees, 10 elements' out || fail "an input of one's own, of 5 elements: $(cat out)"
own --check-finite || fail "random numbers: $(cat out)"
own --check-finite --inputs nan.safetensors && fail "an input that is no number is not looked at: $(cat out)"
own --check-finite --params p.safetensors && fail "a parameter that is no number is not looked at: $(cat out)"
refused() { # MESSAGE OPTION..
    message=$1
    shift
    own "$@" && fail "taken: $*"
    grep -q "$message" out || fail "not '$message': $(cat out)"
}
refused 'element 0 is 3, outside its declared range 0..3' --inputs i.safetensors
refused 'p has shape \[4\], the model has \[3\]' --params four.safetensors
refused 'the model has no parameter x' --params x.safetensors
refused 'm has no input p' --inputs p.safetensors
refused 'S is 4 in --extent but 5' --inputs x.safetensors --extent S=4

if command -v "${CC:-cc}" >/dev/null; then
    mutant codegen/c99/expr.c 's/"fusec_min", C99_MIN/"fusec_max", C99_MAX/' &&
        blamed host,c99 'the first wrong kernel: [a-z]*_contract_[0-9]* (launch [0-9]* of [0-9]*, m.dsl:8): '
    grep -q '^host: agrees' out || fail "host is wrong where C is: $(cat out)"
    grep -q '^c99: WRONG, [1-9]' out || fail "C is not: $(cat out)"
    mutant passes/rewrite/patterns.c 's/"neg(sub(a, b))", "sub(b, a)"/"neg(sub(a, b))", "sub(a, b)"/' passes/rewrite/rules.def &&
        blamed host 'the pass canonicalize made a wrong graph: .*output z'
    mutant passes/derive/jacobian.c '/^DERIVATIVE(SIN,/s/cos(a)/y/' passes/derive/derivatives.def &&
        blamed interp 'autodiff: the gradient of w along a random direction is .*, finite differences say'
fi
exit $bad
