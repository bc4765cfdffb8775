#!/bin/sh
# mutants.sh [--seed S] [--count N] [--work DIR]: does the test suite notice one wrong line?
#
# Makes N one-line mutants of passes/ and codegen/host (mutate.c), builds each in a copy of the tree, and runs the checks of
# `selection` on it until one fails.  What does not compile, or compiles to the same machine code, is no mutant, and another
# is drawn.  A mutant is noticed by numbers, where a wrong result, a verifier or a crash gives it away, or by text, where only
# a golden differs.  Survivors have to stand in survivors.txt: a mutant's line, as printed after the `|`, another `|`, and the
# reason, which begins with `equivalent:` where no program can tell the mutant from the original.  Those are no faults to be
# noticed and count nowhere (Offutt and Untch, "Mutation 2000"); all others do.
#
# Prints a line for each mutant, and at the end
#     trust.mutants.noticed<TAB>SHARE<TAB>ratio           of those that are not equivalent
#     trust.mutants.by_numbers<TAB>SHARE<TAB>ratio
#     trust.mutants.equivalent<TAB>N<TAB>mutants
#     trust.mutants.made<TAB>N<TAB>mutants
# Exit status 1 if there is a survivor without a reason.
set -u
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/../.." && pwd)
seed=1 count=200 work=
while [ $# -gt 0 ]; do
    case $1 in
    --seed) seed=$2; shift 2 ;;
    --count) count=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    *) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT INT TERM
fi
tree=$work/tree build=$work/build
targets="fusec ptxsim cuda_sim compare_safetensors net" # of all checks; a check's own program is built before it runs
export FUSEC="$build/fusec" BUILD="$build" SRC="$tree" LD_LIBRARY_PATH="$build/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

say() { printf '%s\n' "$*"; }

# The tree and its build, once; `mutate` outside of both.  Files are as new as today: a build that was left with a mutant in it
# compiles them again.
prepare() {
    mkdir -p "$tree"
    (cd "$src" && git ls-files -z | xargs -0 tar cf - 2>/dev/null) | tar xmf - -C "$tree" || return 1
    cmake -S "$tree" -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null || return 1
    make_targets || return 1
    "${CC:-cc}" -O1 -D_GNU_SOURCE "$here/mutate.c" -o "$work/mutate"
}

make_targets() { make -s -j2 -C "$build" $targets "$@" >"$work/make.log" 2>&1; }

# The unit test that a check runs, if it is one.
program_of() { printf '%s' "$1" | sed -n 's/^{BUILD}\/tests\/\(test_[a-z0-9_]*\).*/\1/p'; }

# The object file of a source, as CMake names it.
object_of() { find "$build/${1%%/*}" -path "*/$(echo "$1" | cut -d/ -f2-).o" | head -1; }

# check LINE of the selection: 0 passes
check() { (cd "$tree/tests/scripts" && timeout 300 sh -c "$1") >"$work/check.log" 2>&1 </dev/null; }

# Runs the selection; sets $noticed to the word in front of the check that fails.
run_selection() {
    noticed=
    while read -r way command; do
        case $way in '' | \#*) continue ;; esac
        program=$(program_of "$command")
        [ -z "$program" ] || make_targets "$program" || { noticed=$way by="build of $program"; return; }
        command=$(printf '%s' "$command" | sed "s#{BUILD}#$build#g; s#{SRC}#$tree#g")
        check "$command" || { noticed=$way by=$command; return; }
    done <"$here/selection"
}

reason_of() { grep -F "$1 | " "$here/survivors.txt" 2>/dev/null | head -1; }

prepare || { say "mutants: the tree as it is does not build:"; tail -20 "$work/make.log"; exit 2; }
run_selection
[ -z "$noticed" ] || { say "mutants: the tree as it is fails: $by"; tail -20 "$work/check.log"; exit 2; }

tab=$(printf '\t')
made=0 numbers=0 text=0 equivalent=0 bad=0
(cd "$src" && "$work/mutate" list "$seed" $((count * 3)) $(git ls-files 'passes/*.c' 'codegen/host/*.c')) >"$work/sites"
while IFS=$tab read -r place kind old new <&3; do
    [ $made -lt "$count" ] || break
    file=${place%%:*} rest=${place#*:}
    line=${rest%%:*} column=${rest#*:}
    object=$(object_of "$file")
    cp "$tree/$file" "$work/kept.c"
    cp "$object" "$work/kept.o"
    "$work/mutate" apply "$work/kept.c" "$line" "$column" "$old" "$new" >"$tree/$file" || exit 2
    if make_targets; then
        if ! cmp -s "$object" "$work/kept.o"; then
            made=$((made + 1))
            run_selection
            key="$file: $(sed -n "${line}p" "$tree/$file" | sed 's/^ *//')"
            case $noticed in
            numbers) numbers=$((numbers + 1)) ;;
            text) text=$((text + 1)) ;;
            *)
                case $(reason_of "$key") in
                *"| equivalent:"*) equivalent=$((equivalent + 1)) noticed="is equivalent" ;;
                ?*) noticed="survives, as is known" ;;
                *) noticed=SURVIVES bad=1 ;;
                esac
                by=
                ;;
            esac
            say "$made $place [$kind '$old' -> '$new'] $noticed ${by:-} | $key"
        fi
    fi
    cp "$work/kept.c" "$tree/$file"
done 3<"$work/sites"
awk -v n=$made -v by=$numbers -v text=$text -v same=$equivalent 'BEGIN {
    if (n == same) exit 1
    printf "trust.mutants.noticed\t%.3f\tratio\n", (by + text) / (n - same)
    printf "trust.mutants.by_numbers\t%.3f\tratio\n", by / (n - same)
    printf "trust.mutants.equivalent\t%d\tmutants\n", same
    printf "trust.mutants.made\t%d\tmutants\n", n
}' || { say "mutants: none could be made"; exit 2; }
exit $bad
