#!/bin/sh
# Every C file has no warning under clang either: the build's own commands, checked without making code; of those of tests every
# third, SWEEP_ALL=1, as in ./dev fuzz: all.
clang=$(command -v clang-19 || command -v clang) || { echo "skipped: no clang here"; exit 77; }
database=$BUILD/compile_commands.json
[ -s "$database" ] || { echo "no $database"; exit 1; }
. "$SRC/tests/support/script.sh"

# one shell command per line, the compiler replaced, JSON's escapes undone
commands() {
    sed -n 's/^ *"command": "\(.*\)",*$/\1/p' "$1" | awk -v all="${SWEEP_ALL:-}" '!/\/tests\// || all || ++n % 3 == 1' | sed -e 's/\\\(.\)/\1/g' \
        -e "s|^[^ ]*|$clang -fsyntax-only -Wno-unknown-warning-option|" -e 's/ -o [^ ]*\.o / /'
}
check() { # DATABASE: two at a time; xargs fails if one does
    cd "$BUILD" && commands "$1" | tr '\n' '\0' | xargs -0 -P 2 -n 1 sh -c
}

# a file that clang warns of and gcc does not
printf 'int main(void) { _Bool a = 1, b = 0; return (a == 1) & (b = 1) ? 0 : &"x"[0] == "x" + 1; }\n' >"$work/x.c"
printf '[{\n  "command": "/usr/bin/cc -Wall -Wextra -Werror -o x.o -c %s/x.c",\n}]\n' "$work" >"$work/bad.json"
check "$work/bad.json" >/dev/null 2>&1 && { echo "a warning of clang goes unnoticed"; exit 1; }
[ "$(commands "$database" | wc -l)" -gt 100 ] || { echo "too few commands in $database"; exit 1; }
check "$database"
