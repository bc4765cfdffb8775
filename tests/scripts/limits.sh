#!/bin/sh
# Programs of absurd size and places that fail: refused in a word, in bounded time and memory, never a crash.
. "$SRC/tests/support/script.sh"
nm "$FUSEC" 2>/dev/null | grep -q __asan_init || ulimit -v 4000000 # the sanitizer's shadow is larger
command -v timeout >/dev/null || timeout() { shift; "$@"; }

# ends STATUSES NAME COMMAND...: in 20 s, with one of the statuses, and a word on stderr where it is not 0
ends() {
    want=$1 name=$2
    shift 2
    timeout 20 "$@" >out 2>err
    got=$?
    case " $want " in *" $got "*) ;; *) fail "$name: exit status $got, expected $want: $(head -c 300 err)" ;; esac
    [ "$got" -eq 0 ] || [ -s err ] || fail "$name: status $got and not a word"
    grep -E 'runtime error:|Sanitizer' err && fail "$name: undefined behaviour"
    [ "$(wc -c <err)" -lt 200000 ] || fail "$name: $(wc -c <err) bytes of messages"
}

many() { # N TEXT: the text N times, no line end
    awk -v n="$1" -v t="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s", t }'
}
checks() { # NAME, on stdin the program: refused
    cat >"$1.dsl"
    ends 1 "$1" "$FUSEC" check "$1.dsl"
}
passes() { # NAME: accepted
    cat >"$1.dsl"
    ends 0 "$1" "$FUSEC" check "$1.dsl"
}
model() { printf 'model m {\n    input x : f32[4]\n%s\n    output y\n}\n' "$1"; }

# ---- depth ----
model "    y = $(many 60000 '(')x$(many 60000 ')')" | checks parentheses
model "    y = $(many 60000 '-')x" | checks minuses
model "    y = x$(many 60000 ' ^ 2')" | checks powers
model "    y = x$(many 30000 ' + x')" | checks sums
model "    y = $(many 30000 'exp(')x$(many 30000 ')')" | checks calls
model "    y = $(many 60000 '[')x" | checks brackets
{ many 60000 'model m { '; echo; } | checks models
model "$(many 20000 'if true { ') y = x $(many 20000 '}')" | checks ifs
model "$(many 20 'repeat 1000 as a { ') x = x + 1 $(many 20 '}') y = x" | checks repeats
{ for i in $(seq 1 3000); do echo "fn f$i(x) { return f$((i + 1))(x) }"; done
    echo 'fn f3001(x) { return x }'; model '    y = f1(x)'; } | checks call_chain

# ---- counts ----
model '    repeat 1000000000 { x = x + 1 }
    y = x' | checks repeat_count
model '    repeat 4611686018427387904 { x = x + 1 }
    y = x' | checks repeat_huge
model '    repeat 100000 { repeat 100000 { x = x } }
    y = x' | checks repeat_empty
{ echo 'fn f0(x) { return x + 1 }'
    for i in $(seq 1 60); do echo "fn f$i(x) { return f$((i - 1))(f$((i - 1))(x)) }"; done; model '    y = f60(x)'; } | checks doubling
{ echo 'fn f(x) { return g(x) }'; echo 'fn g(x) { return f(x) }'; model '    y = f(x)'; } | checks recursion
{ echo 'layer l(x) { return l(x) as again }'; model '    y = l(x)'; } | checks layer_recursion
echo "let a = $(many 100000 9)" | checks digits
echo "let a = 9223372036854775807 * 9223372036854775807" | checks product
echo "let a = 2 ^ 1000000000" | checks power
echo "dim A = -9223372036854775807 - 3" | checks negative
model "    y = x + \"$(many 1000000 z)\"" | checks string
model "    $(many 1000000 z) = x" | checks name
model '    y = broadcast(x, [4611686018427387904, 4611686018427387904, 4])' | checks broadcast
model '    y = reshape(x, [-9223372036854775807, 2])' | checks reshape
printf 'model m {\n    input x : f32[4611686018427387904]\n    output y = x + x\n}\n' | checks extent
printf 'model m {\n    input x : f32[2147483647, 2147483647, 2147483647]\n    output y = x + x\n}\n' | checks extents
printf 'model m {\n    w = param [3000000000, 3000000000] init zeros\n    output y = sum(w)\n}\n' | checks parameter
printf 'model m {\n    input x : f32[%s1]\n    output y = x\n}\n' "$(many 100000 '1,')" | checks rank
model '    y[i in 0..9000000000000000000] = sum[r in 0..9000000000000000000] x[0] * x[0]' | checks indices
model "    y$(printf '[i'; many 5000 ', i'; printf ']') = x[i]" | checks subscripts
{ many 200000 'fn f(x) { return q }
'; } | checks same_name
{ many 5000 'let a = b
'; } | checks many_errors
{ seq 1 1000000 | sed 's/.*/# &/'; model '    y = x'; } | passes million_lines
{ many 3000000 ' '; model '    y = x'; } | passes wide

printf 'model m {\n    input x : f32[8589934592]\n    output y = exp(x)\n}\n' >long.dsl
ends 0 long_c "$FUSEC" long.dsl -o long.c
for form in o ptx; do
    ends 1 "long_$form" "$FUSEC" long.dsl -o "long.$form"
    grep -q '^long.dsl:3:16: error: an axis of 8589934592 elements' err || fail "long_$form: $(cat err)"
done

# ---- files that use each other ----
echo 'use "b.dsl"' >a.dsl
{ echo 'use "a.dsl"'; model '    y = x'; } >b.dsl
ends '0 1' use_cycle "$FUSEC" check b.dsl
echo 'use "self.dsl"' >self.dsl
ends '0 1' use_self "$FUSEC" check self.dsl
for i in $(seq 1 2000); do echo "use \"u$((i + 1)).dsl\"" >"u$i.dsl"; done
ends 1 use_chain "$FUSEC" check u1.dsl
echo 'use "."' | checks use_directory
echo "use \"$(many 100000 a)\"" | checks use_name

# ---- places that cannot be read or written ----
model '    y = x * 2' >good.dsl
ends 0 good "$FUSEC" good.dsl -o good.c
ends 1 no_file "$FUSEC" check none.dsl
ends 1 directory "$FUSEC" check .
ends 1 name_too_long "$FUSEC" check "$(many 5000 n).dsl"
ends 1 empty_name "$FUSEC" check ''
ends 1 endless timeout 10 "$FUSEC" check /dev/zero
ends '0 1' nothing "$FUSEC" check /dev/null
if [ "$(id -u)" != 0 ]; then
    cp good.dsl secret.dsl && chmod 0 secret.dsl
    ends 1 unreadable "$FUSEC" check secret.dsl
fi
for kind in c ptx o ll graph tile; do
    ends 1 "no_directory_$kind" "$FUSEC" good.dsl -o "none/m.$kind"
    mkdir "d.$kind"
    ends 1 "directory_$kind" "$FUSEC" good.dsl -o "d.$kind"
done
[ -z "$(find d.* -type f)" ] || fail "files in the directories that were outputs"
[ -z "$(find . -name '.fusec-*')" ] || fail "temporary files are left: $(find . -name '.fusec-*')"
if [ -w /dev/full ]; then
    for command in "report good.dsl" "check --print-after=all good.dsl" "--help" "--passes"; do
        # shellcheck disable=SC2086
        timeout 20 "$FUSEC" $command >/dev/full 2>err
        [ $? -eq 1 ] || fail "$command: a full disk goes unnoticed"
        [ -s err ] || fail "$command: a full disk, and not a word"
    done
fi
for command in "report good.dsl" "check good.dsl" "good.dsl -o closed.c" "--help"; do
    # shellcheck disable=SC2086
    timeout 20 "$FUSEC" $command >&- 2>err
    [ $? -le 2 ] || fail "$command: closed stdout: $(head -c 300 err)"
    # shellcheck disable=SC2086
    timeout 20 "$FUSEC" $command >&- 2>&- <&-
    [ $? -le 2 ] || fail "$command: all streams closed"
done
cmp -s good.c closed.c || { sed 's/closed/good/g' closed.c | cmp -s - good.c || fail "a closed stdout changes the output"; }
(ulimit -f 1; trap '' XFSZ; timeout 20 "$FUSEC" good.dsl -o big.ptx >out 2>err; [ $? -eq 1 ]) || fail "a file that may not grow"
[ ! -e big.ptx ] || fail "half an output is left"
exit $bad
