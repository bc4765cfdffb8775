#!/bin/sh
# Every diagnostic has a program that provokes it: tests/golden/diag/NAME.dsl, or NAME.sh which prints one, with what
# `fusec check` says about it in NAME.txt; its first line may have options, `# fusec check --profile NAME.profile`.  UPDATE=1 rewrites the .txt files.  A code of diag.def that no .txt
# file shows fails the test.
. "$SRC/tests/support/script.sh"

check() { # NAME: its program is $work/run/NAME.dsl
    options=$(sed -n '1s/^# fusec check //p' "$work/run/$1.dsl") # words without spaces in them
    # shellcheck disable=SC2086
    (cd "$work/run" && "$FUSEC" check $options "$1.dsl") >"$work/out" 2>&1
    status=$?
    if [ "$status" -gt 1 ]; then
        echo "FAIL $1: exit status $status"
        bad=1
    fi
    if grep -q ': error: ' "$work/out"; then want=1; else want=0; fi
    if [ "$status" -ne "$want" ] && [ "$status" -le 1 ]; then
        echo "FAIL $1: exit status $status, expected $want"
        bad=1
    fi
    if [ -n "${UPDATE:-}" ]; then
        cp "$work/out" "$SRC/tests/golden/diag/$1.txt"
    elif ! diff -u "$SRC/tests/golden/diag/$1.txt" "$work/out"; then
        echo "FAIL $1: the diagnostics changed"
        bad=1
    fi
}

mkdir "$work/run"
cp "$SRC"/tests/golden/diag/*.dsl "$SRC"/tests/golden/diag/*.profile "$work/run"
for generator in "$SRC"/tests/golden/diag/*.sh; do
    sh "$generator" >"$work/run/$(basename "$generator" .sh).dsl" || exit 1
done
for program in "$work"/run/*.dsl; do
    name=$(basename "$program" .dsl)
    check "$name"
done
for code in $(sed -n 's/^DIAG(\([EW][0-9]*\),.*/\1/p' "$SRC/frontend/diag.def"); do
    if ! cat "$SRC"/tests/golden/diag/*.txt | grep -q "\[$code\]"; then
        echo "FAIL $code: no golden file under tests/golden/diag shows it"
        bad=1
    fi
done
exit $bad
