#!/bin/sh
# coverage.sh ROOT [PATTERN]: which lines and branches of the compiler and the runtime the test suite reaches.
#
# Builds the tree with gcc's counters, runs the tests (or those whose names match PATTERN), and prints, from gcovr,
#     coverage.ROOM.lines<TAB>SHARE<TAB>ratio
#     coverage.ROOM.branches<TAB>SHARE<TAB>ratio
# for each room, then the lines and branches never taken, file by file, into build/coverage/uncovered.txt.
# Exit status 1 where a room is below its bound: lines of passes/ and codegen/ 0.95, branches 0.85; of runtime/common and
# runtime/host every line.  A failing test fails it too.
set -eu
root=$1 pattern=${2:-}
build=$root/build/coverage
command -v gcovr >/dev/null || { echo "coverage: gcovr is missing: apt-get install gcovr" >&2; exit 2; }
cd "$root"
# What tests link with the runtime, which counts, needs the counters' library.
mkdir -p "$build"
printf '#!/bin/sh\nexec %s "$@" -lgcov\n' "${CC:-cc}" >"$build/cc"
chmod +x "$build/cc"
[ -f "$build/Makefile" ] ||
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$build/cc" \
        "-DCMAKE_C_FLAGS=-O1 --coverage -fprofile-update=atomic" >/dev/null
cmake --build "$build" -j "$(nproc)" -- --no-print-directory -s
find "$build" -name '*.gcda' -delete
bad=0
# Where writes fail on purpose the counters' own are lost too: those tests run last, and theirs go elsewhere.
failing='^(faults|limits\.sh|outputs\.sh)$'
tests() { (cd "$build" && ctest -j "$(nproc)" --timeout 5400 --output-on-failure "$@") >>"$build/tests.log" 2>&1 || bad=1; }
: >"$build/tests.log"
tests -E "$failing" ${pattern:+-R "$pattern"}
[ -n "$pattern" ] || GCOV_PREFIX=$build/thrown_away tests -R "$failing"
[ $bad = 0 ] || tail -30 "$build/tests.log"

# share ROOM KIND: as gcovr has it, 0 to 1.  Branches that gcc makes of assertions and of unreachable code are left out.
gcovr -r . --object-directory "$build" --exclude-unreachable-branches --exclude-throw-branches \
    -f 'ir/' -f 'frontend/' -f 'passes/' -f 'codegen/' -f 'runtime/' -f 'tools/' --csv "$build/files.csv" \
    --txt "$build/uncovered.txt" >/dev/null
gcovr -r . --object-directory "$build" --exclude-unreachable-branches --exclude-throw-branches \
    -f 'passes/' -f 'codegen/' --txt-metric branch --txt "$build/branches.txt" >/dev/null 2>&1 || true

room() { # ROOM LEAST_LINES LEAST_BRANCHES
    awk -F, -v room="$1" -v lines="$2" -v branches="$3" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        index($at["filename"], room "/") == 1 {
            lt += $at["line_total"]; lc += $at["line_covered"]; bt += $at["branch_total"]; bc += $at["branch_covered"] }
        END {
            if (!lt) { print "coverage: no counters in " room; exit 1 }
            printf "coverage.%s.lines\t%.4f\tratio\n", room, lc / lt
            printf "coverage.%s.branches\t%.4f\tratio\n", room, bt ? bc / bt : 1
            if (lc < lines * lt || bc < branches * bt) { printf "coverage: %s is below %s of lines, %s of branches\n", room, lines, branches; exit 1 }
        }' "$build/files.csv" || bad=1
}
room passes 0.95 0.85
room codegen 0.95 0.85
room runtime/common 1 0
room runtime/host 1 0
room runtime/cuda 0 0
room ir 0 0
room frontend 0 0
room tools/fusec 0 0
room tools/ptxsim 0 0
exit $bad
