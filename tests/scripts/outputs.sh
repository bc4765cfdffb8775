#!/bin/sh
# Where outputs go, and what signals leave behind: links, pipes, modes, interruptions in LLVM, in the C compiler and in
# training.  What failing calls leave behind is tests/unit/faults.c.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
fail() { echo "FAIL: $*"; bad=1; }
mkdir scratch
export TMPDIR="$dir/scratch"

cat >m.dsl <<'M'
model m {
    input x : f32[4]
    output y = x * 2
}
M
"$FUSEC" m.dsl -o plain.c || fail "a plain file"
sed 's/plain\.h/NAME.h/' plain.c >want.c

# ---- links ----
mkdir far
echo old >far/real.c
ln -s far/real.c link.c
"$FUSEC" m.dsl -o link.c || fail "a link"
[ -L link.c ] || fail "the link is gone"
sed 's/link\.h/NAME.h/' far/real.c | cmp -s - want.c || fail "what the link points to is not the output"
ln -s far/none.c dangling.c
"$FUSEC" m.dsl -o dangling.c || fail "a link to nothing"
[ -L dangling.c ] && [ -f far/none.c ] || fail "a link to nothing: what it points to was not made"
ln -s loop.c loop.c
"$FUSEC" m.dsl -o loop.c 2>err && fail "a link to itself is written"
grep -q 'loop.c' err || fail "a link to itself: no message"

# ---- modes ----
(umask 027 && "$FUSEC" m.dsl -o mode.c) || fail "modes"
[ "$(ls -l mode.c | cut -c1-10)" = -rw-r----- ] || fail "mode of a file under umask 027: $(ls -l mode.c)"
chmod 600 mode.c
"$FUSEC" m.dsl -o mode.c || fail "a file of mode 0600"
[ "$(ls -l mode.c | cut -c1-10)" = -rw------- ] || fail "a replaced file's mode: $(ls -l mode.c)"

# ---- two outputs, one file ----
for there in no yes; do
    rm -f far/one far/two
    [ $there = no ] || echo old >far/one
    ln -sf far/one two.c
    ln -sf ../"${dir##*/}"/far/one two.h
    [ $there = yes ] || ln -sf far/one two.h
    "$FUSEC" m.dsl -o two.c 2>err && fail "two outputs in one file ($there)"
    grep -q 'error: cannot write two.h: it is the same file as two.c' err || fail "two outputs in one file: $(cat err)"
    [ $there = no ] || [ "$(cat far/one)" = old ] || fail "two outputs in one file: what was there is lost"
done

# ---- what is no file ----
mkfifo pipe.c
cat pipe.c >through.c &
"$FUSEC" m.dsl -o pipe.c || fail "a pipe"
wait
[ -p pipe.c ] || fail "the pipe is gone"
sed 's/pipe\.h/NAME.h/' through.c | cmp -s - want.c || fail "a pipe is written something else"
ln -s /dev/stdout screen.c
"$FUSEC" m.dsl -o screen.c | sed 's/screen\.h/NAME.h/' | cmp -s - want.c || fail "standard output is written something else"
if [ -w /dev/full ]; then
    ln -s /dev/full full.c
    "$FUSEC" m.dsl -o full.c 2>err && fail "a full disk goes unnoticed"
    grep -q 'error: cannot write full.c' err || fail "a full disk, and not a word"
    [ -e full.h ] && fail "a full disk, and half of the files"
fi

# ---- signals ----
left() { [ -z "$(find "$dir" -name '.fusec-*' -o -path '*/scratch/*')" ] || fail "$1: temporary files are left"; }
# much longer to compile than the signal waits
{
    echo 'model big {'
    echo '    input x : f32[64, 64]'
    echo '    h0 = x'
    i=0
    while [ $i -lt 8000 ]; do
        echo "    h$((i + 1)) = h$i + tanh(linear(h$i, 64) as l$i)"
        i=$((i + 1))
    done
    echo "    output loss = mean(h$i ^ 2)"
    echo '    train loss with sgd(lr = 0.1)'
    echo '}'
} >big.dsl
# whoever runs this may ignore signals, and then fusec does too
defaults="env --default-signal=INT,TERM,HUP"
$defaults true 2>/dev/null || defaults=
# ended NAME SIGNAL STATUS COMMAND..: it is interrupted, ends by the signal, and what was there is there
ended() {
    name=$1 signal=$2 status=$3
    shift 3
    timeout --preserve-status -k 20 -s "$signal" 0.7 $defaults "$@" >out 2>err
    got=$?
    [ $got -eq 0 ] && [ -z "$defaults" ] && return
    [ $got -eq "$status" ] || fail "$name: status $got, not $status: $(cat err)"
    left "$name"
}
for kind in o ptx c; do
    echo old >"big.$kind"
    ended "SIGINT, .$kind" INT 130 "$FUSEC" big.dsl -o "big.$kind"
    [ "$(cat "big.$kind")" = old ] || fail "SIGINT, .$kind: the old file is gone"
done
ended "SIGTERM, .o" TERM 143 "$FUSEC" big.dsl -o big.o
ended "SIGHUP, .o" HUP 129 "$FUSEC" big.dsl -o big.o
cat >sleeper <<'S'
#!/bin/sh
sleep 30 &
echo $! >"$SLEEPER"
wait
S
chmod +x sleeper
export SLEEPER="$dir/sleeper.pid"
ended "SIGTERM in the C compiler" TERM 143 env CC="$dir/sleeper" "$FUSEC" run m.dsl --target=c99 --inputs=none
[ -s "$SLEEPER" ] || fail "the C compiler was not started"
# a dead process stays in the list until someone asks for it
case $(ps -o stat= -p "$(cat "$SLEEPER")") in
'' | Z*) ;;
*) fail "the C compiler goes on without fusec" ;;
esac
i=0
while [ $i -lt 64 ]; do printf '0,' && i=$((i + 1)); done | sed 's/,$//' >row
i=0
while [ $i -lt 64 ]; do cat row && i=$((i + 1)); done >x.csv
ended "SIGINT before training" INT 130 "$FUSEC" run big.dsl --data x=x.csv --save s.safetensors
[ -e s.safetensors ] && fail "interrupted before training, and something is saved"
[ $bad -eq 0 ] && echo ok
# a model may have the name of a C function, type or object, and its header stand behind any of the C library's
# ---- what is read is not replaced ----
refused() { # FILE COMMAND..: which reads FILE and would write it
    kept=$1 before=$(cksum <"$1")
    shift
    "$FUSEC" "$@" >log 2>&1 && fail "$*: $kept was to be replaced"
    grep -q ": this command reads it; name another file" log || fail "$*: $(cat log)"
    [ "$(cksum <"$kept")" = "$before" ] || fail "$*: $kept is gone"
}
cp m.dsl same.c && cp m.dsl same.h && ln -s ../m.dsl far/same.c
refused same.c same.c -o same.c
refused same.h same.h -o same.c
refused m.dsl m.dsl -o far/same.c
ln m.dsl other.c && "$FUSEC" m.dsl -o other.c || fail "another name of the program's file"
grep -q '^model m' m.dsl || fail "the program is gone by another name"
cp same.c linked.c && ln linked.c kept.c
refused linked.c linked.c -o linked.c
printf 'fn twice(x) { return x * 2 }\n' >used.h
printf 'use "used.h"\nmodel m {\n    input x : f32[4]\n    output y = twice(x)\n}\n' >used.dsl
refused used.h used.dsl -o used.c
printf 'model m {\n    input x : f32[1, 2]\n    w = param [2] init ones\n    loss = mean(x @ w)\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n' >train.dsl
printf '1,2\n3,4\n' >rows.csv
refused train.dsl run train.dsl --data x=rows.csv --steps 1 --save train.dsl
refused rows.csv run train.dsl --data x=rows.csv --steps 1 --save rows.csv
"$FUSEC" run train.dsl --data x=rows.csv --steps 1 --save once.st --quiet >log 2>&1 || fail "--save: $(cat log)"
"$FUSEC" run train.dsl --data x=rows.csv --steps 1 --load once.st --save once.st --quiet >log 2>&1 || fail "weights over those that were loaded: $(cat log)"

for name in free printf FILE stderr dlopen exp y1; do
    printf 'model %s {\n    input x : f32[2]\n    output y = x * 2\n}\n' $name >named.dsl
    for kind in c o ptx; do
        rm -f named.c named.h
        "$FUSEC" named.dsl -o named.$kind || fail "a model $name as $kind"
        printf '#include <dlfcn.h>\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include "named.h"\nint main(void) { return 0; }\n' >main.c
        for c in main.c named.c; do
            [ ! -f $c ] || cc -std=c99 -c $c -o x.o 2>log || fail "a model $name as $kind: $c does not compile: $(cat log)"
        done
    done
done
exit $bad
