#!/bin/sh
# mutants.sh [--seed S] [--count N] [--work DIR [--resume]] [--jobs J] [--all]: does the test suite notice one wrong line?
#
# Makes N one-line mutants of passes/, codegen/schedule and codegen/host (mutate.c), builds each in a copy of the tree, and runs the checks of
# `selection` on it until one fails; J at a time, each with a tree of its own.  What does not compile, or compiles to the same
# machine code, is no mutant, and another is drawn.  {SANITIZED} of a check is a build under ASan and UBSan, in which each arena
# block is its own malloc: a read past the end of an array is seen there.  A mutant is noticed by numbers, where a wrong result, a verifier or a crash
# gives it away, or by text, where a golden differs: the selection has what is soon done first, so many of those would be noticed
# by numbers too.  Survivors have to stand in survivors.txt: a mutant's line, as printed after the `|`, another `|`, and the
# reason, which begins with `equivalent:` where no program can tell the mutant from the original.  Those are no faults to be
# noticed and count nowhere (Offutt and Untch, "Mutation 2000"); all others do.  What stands there is not run again, as it would
# pass through every check: with --all it is.
#
# --resume goes on where a run in DIR, with the same seed, count and jobs, was cut short.
#
# Prints a line for each mutant, and at the end
#     trust.mutants.noticed<TAB>SHARE<TAB>ratio           of those that are not equivalent
#     trust.mutants.by_numbers<TAB>SHARE<TAB>ratio        of them too
#     trust.mutants.equivalent<TAB>N<TAB>mutants
#     trust.mutants.made<TAB>N<TAB>mutants
# Exit status 1 if there is a survivor without a reason.
set -u
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/../.." && pwd)
seed=1 count=200 work= jobs=2 resume= all=
while [ $# -gt 0 ]; do
    case $1 in
    --seed) seed=$2; shift 2 ;;
    --count) count=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    --resume) resume=1; shift ;;
    --all) all=1; shift ;;
    *) sed -n '2,26s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT INT TERM
fi
targets="fusec ptxsim cuda_sim compare_safetensors net" # of all checks; a check's own program is built before it runs
tab=$(printf '\t')

say() { printf '%s\n' "$*"; }

# The folders of worker N, and what the checks of the project expect.
enter() {
    at=$work/$1 tree=$work/$1/tree build=$work/$1/build
    export FUSEC="$build/fusec" BUILD="$build" SRC="$tree" LD_LIBRARY_PATH="$build/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# The tree and its build, once.  Files are as new as today: a build that was left with a mutant in it compiles them again.
prepare() {
    mkdir -p "$tree"
    (cd "$src" && git ls-files -z | xargs -0 tar cf - 2>/dev/null) | tar xmf - -C "$tree" || return 1
    cmake -S "$tree" -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null || return 1
    cmake -S "$tree" --preset sanitize -B "$at/sanitized" >/dev/null || return 1
    make_targets && make_sanitized
}

make_sanitized() { make -s -C "$at/sanitized" fusec >"$at/make.log" 2>&1; }

make_targets() { make -s -C "$build" $targets "$@" >"$at/make.log" 2>&1; }

# The unit test that a check runs, if it is one.
program_of() { printf '%s' "$1" | sed -n 's/^{BUILD}\/tests\/\(test_[a-z0-9_]*\).*/\1/p'; }

# The object file of a source, as CMake names it.
object_of() { find "$build/${1%%/*}" -path "*/$(echo "$1" | cut -d/ -f2-).o" | head -1; }

# check COMMAND NAME, a line of the selection: 0 passes.  A mutant that does not end is stopped after ten times what the tree as it is takes.
check() {
    limit=$(grep -F "$tab$2$tab" "$work/limits" 2>/dev/null | cut -f1)
    (cd "$tree/tests/scripts" && timeout "${limit:-300}" sh -c "$1") >"$at/check.log" 2>&1 </dev/null
}

# Runs the selection; sets $noticed to the word in front of the check that fails.  With a FILE, how long each check may take is
# written there.
run_selection() {
    noticed=
    while read -r way command; do
        case $way in '' | \#*) continue ;; esac
        program=$(program_of "$command")
        [ -z "$program" ] || make_targets "$program" || { noticed=$way by="build of $program"; return; }
        case $command in
        *{SANITIZED}*) make_sanitized || { noticed=$way by="build with sanitizers"; return; } ;;
        esac
        name=$command begin=$(date +%s)
        command=$(printf '%s' "$command" | sed "s#{BUILD}#$build#g; s#{SRC}#$tree#g; s#{SANITIZED}#$at/sanitized#g")
        check "$command" "$name" || { noticed=$way by=$command; return; }
        [ -z "${1:-}" ] || printf '%s\t%s\t\n' $((20 + 10 * ($(date +%s) - begin))) "$name" >>"$1"
    done <"$here/selection"
}

reason_of() { grep -F "$1 | " "$here/survivors.txt" 2>/dev/null | head -1; }

# try PLACE KIND OLD NEW: fails if that is no mutant; else sets $word to what became of it: numbers text equivalent known survives
try() {
    file=${1%%:*} rest=${1#*:} word=
    line=${rest%%:*} column=${rest#*:}
    object=$(object_of "$file")
    cp "$tree/$file" "$at/kept.c"
    cp "$object" "$at/kept.o"
    "$work/mutate" apply "$at/kept.c" "$line" "$column" "$3" "$4" >"$tree/$file" || exit 2
    if make_targets && ! cmp -s "$object" "$at/kept.o"; then
        key="$file: $(sed -n "${line}p" "$tree/$file" | sed 's/^ *//')"
        reason=$(reason_of "$key") noticed= by=
        [ -n "$reason" ] && [ -z "$all" ] || run_selection
        word=$noticed
        if [ -z "$noticed" ]; then
            by=
            case $reason in
            *"| equivalent:"*) word=equivalent ;;
            ?*) word=known ;;
            *) word=survives ;;
            esac
        fi
    fi
    cp "$at/kept.c" "$tree/$file"
    [ -n "$word" ]
}

# Every J-th of the places, from the worker's on, until its share of mutants is made.
worker() {
    enter "$1"
    prepare || { say "mutants: the tree as it is does not build:"; tail -20 "$at/make.log"; return 2; }
    if [ "$1" = 1 ]; then
        rm -f "$work/limits" "$work/measured"
        run_selection "$work/measured"
        mv "$work/measured" "$work/limits"
        [ -z "$noticed" ] || { say "mutants: the tree as it is fails: $by"; tail -20 "$at/check.log"; return 2; }
    fi
    share=$(((count + jobs - $1) / jobs)) made=0
    awk -v j="$jobs" -v w="$1" 'NR % j == w % j' "$work/places" >"$at/places"
    while IFS=$tab read -r place kind old new <&3; do
        [ $made -lt "$share" ] || break
        if grep -q "^[a-z]* $place " "$work/before"; then
            made=$((made + 1))
            continue
        fi
        try "$place" "$kind" "$old" "$new" || continue
        made=$((made + 1))
        say "$word $place [$kind '$old' -> '$new'] ${by:-} | $key" | tee -a "$work/results"
    done 3<"$at/places"
}

mkdir -p "$work"
[ -n "$resume" ] || rm -f "$work/results"
cat "$work/results" >"$work/before" 2>/dev/null
"${CC:-cc}" -O1 -D_GNU_SOURCE "$here/mutate.c" -o "$work/mutate" || exit 2
(cd "$src" && "$work/mutate" list "$seed" $((count * 3)) $(git ls-files 'passes/*.c' 'codegen/schedule/*.c' 'codegen/host/*.c')) >"$work/places"
n=1 workers=
while [ $n -le "$jobs" ]; do
    worker $n &
    workers="$workers $!"
    n=$((n + 1))
done
trap 'kill $workers 2>/dev/null; exit 2' INT TERM
for process in $workers; do wait "$process" || { kill $workers 2>/dev/null; exit 2; }; done
[ -s "$work/results" ] || { say "mutants: none could be made"; exit 2; }
awk '{ n[$1]++ } END {
    real = NR - n["equivalent"]
    if (!real) exit 2
    printf "trust.mutants.noticed\t%.3f\tratio\n", (n["numbers"] + n["text"]) / real
    printf "trust.mutants.by_numbers\t%.3f\tratio\n", n["numbers"] / real
    printf "trust.mutants.equivalent\t%d\tmutants\n", n["equivalent"]
    printf "trust.mutants.made\t%d\tmutants\n", NR
    exit n["survives"] > 0
}' "$work/results"
