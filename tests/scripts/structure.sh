#!/bin/sh
# The rules of the house that no compiler checks: which way the includes point, what the passes may know, what a
# committed file may hold.  Each rule is first shown a tree that breaks it.
. "$SRC/tests/support/script.sh"

# Lines that break RULE in the tree TREE: FILE:LINE:TEXT.  Each rule prints nothing in a sound tree.
sources() { find "$@" -name '*.[chly]' -o -name '*.def' | sort; }

includes() { # PATTERN DIRECTORY...: the includes that match
    pattern=$1
    shift
    sources "$@" | xargs grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]($pattern)" /dev/null
}

rule_codegen_sees_no_graph() { includes '(ir/|\.\./)*graph\.h|passes/|frontend/|tools/' codegen; }

rule_llvm_stays_in_codegen() { includes 'llvm' ir passes frontend runtime tools; }

rule_schedule_sees_no_code() { includes "llvm|codegen/(host|llvm|nvptx|c99|artifact|math)/" codegen/schedule; }

rule_runtime_stands_alone() {
    sources runtime | xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' /dev/null | grep -vE '"runtime/'
}

rule_ptx_reader_sees_no_executor() { includes 'tools/ptxsim/(exec|driver|command)/' tools/ptxsim/ptx; }

rule_ir_is_below_all() { includes 'passes/|frontend/|codegen/|tools/|runtime/(host|cuda|bare)/' ir; }

rule_passes_and_frontend_are_apart() {
    includes 'frontend/(ast|lower|check|tokens|value)|codegen/(host|nvptx|c99|llvm|artifact)/|tools/' passes
    includes 'passes/|codegen/|tools/' frontend
}

rule_no_library_names() { # of functions that frontend/std/*.dsl defines, as C strings
    names=$(sed -nE 's/^(fn|layer|optimizer|schedule) +([A-Za-z_0-9]+).*/\2/p' frontend/std/*.dsl | sort -u | paste -sd '|' -)
    [ -n "$names" ] || echo "frontend/std:0: no definitions found"
    sources passes frontend ir codegen | xargs grep -nE "\"($names)\"" /dev/null
}

rule_no_machine_paths() { # /tmp itself is a place that every machine has
    git ls-files -z | xargs -0 grep -nIE '(^|[^A-Za-z0-9_.])/(work|root|home|Users|mnt|workspace)/[A-Za-z0-9_]' /dev/null
}

rule_nothing_left_open() {
    sources ir passes frontend codegen runtime tools bench | xargs grep -nwE 'TODO|FIXME|XXX|HACK' /dev/null
}

rule_diagnostics_have_goldens() {
    for code in $(sed -n 's/^DIAG(\([EW][0-9]*\),.*/\1/p' frontend/diag.def); do
        cat tests/golden/diag/*.txt | grep -q "\[$code\]" || echo "frontend/diag.def:0:$code has no golden in tests/golden/diag"
    done
}

rule_rooms_of_passes_point_one_way() { # a room sees those before it
    seen='[a-z_]+\.' # what lies in no room
    for room in rewrite algebra precision derive kernel plan memory module; do
        seen="$seen|$room/"
        [ ! -d "passes/$room" ] || sources "passes/$room" | xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"passes/' /dev/null |
            grep -vE "\"passes/($seen)"
    done
}

rule_passes_have_files() { # one pass, one file: every name of the table has its .c
    for pass in $(sed -nE 's/^[A-Z_]+\(([a-z_]+),.*/\1/p' passes/passes.def); do
        [ -n "$(find passes -name "$pass.c")" ] || echo "passes/passes.def:0:$pass has no $pass.c"
    done
}

rule_rooms_of_passes_have_a_page() { # which says what each file is there for
    find passes -mindepth 2 -name '*.c' | sort | while read -r file; do
        grep -q "\`$(basename "$file")\`" passes/README.md || echo "$file:1:passes/README.md does not name it"
    done
}

rule_benchmarks_exist() { # that a comment names as where a constant is from
    find ir passes codegen -name '*.[ch]' -o -name '*.def' 2>/dev/null | sort | xargs grep -Hno '\./dev bench [a-z0-9-]*' | while IFS=: read -r file line what; do
        grep -q "^    ${what##* })" "$SRC/bench/run.sh" || echo "$file:$line:bench/run.sh has no ${what##* }"
    done
}

rule_functions_are_called() { # what a header declares is used by more than its definition; names made from a table apart
    find ir passes codegen frontend tools tests -name '*.[chly]' -o -name '*.def' 2>/dev/null | sort | xargs awk '
        FILENAME ~ /^(ir|passes|codegen|frontend|tools\/fusec)\/.*\.h$/ && /^[a-zA-Z].*[ *][a-z_0-9]+\(.*[;,]$/ && !/^(static|typedef)/ {
            name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
            if (name !~ /^(pass|rule)_/) at[name] = FILENAME ":" FNR
        }
        { line = $0; gsub(/[^a-zA-Z_0-9]+/, " ", line); n = split(line, word, " "); for (i = 1; i <= n; i++) uses[word[i]]++ }
        END { for (name in at) if (uses[name] < 3) print at[name] ":" name " is not called" }'
}

rule_names_of_types_are_of_one_in_a_folder() {
    sources ir passes codegen frontend runtime tools | grep '\.[ch]$' | xargs awk '
        /^} [A-Z][A-Za-z0-9]*;/ || (/^typedef .*;/ && !/\(\*/) {
            name = $0; sub(/;.*/, "", name); sub(/.*[ *]/, "", name)
            if (name !~ /^[A-Z][A-Za-z0-9]*$/ || (/^typedef struct/ && $3 == name)) next # said before it is defined
            folder = FILENAME; sub(/\/[^\/]*$/, "", folder)
            if ((folder, name) in at) print FILENAME ":" FNR ":" name " is also at " at[folder, name]
            at[folder, name] = FILENAME ":" FNR
        }'
}

rule_functions_are_short() { # at most 50 lines, of ten at most one over 20
    sources ir passes codegen frontend runtime tools | grep '\.c$' | xargs awk '
        FNR == 1 { begin = 0 }
        /^[A-Za-z].*\{$/ && /\)/ && !/=/ { begin = FNR }
        /^}/ && begin {
            if (FNR - begin - 1 > 50) print FILENAME ":" begin ":a function of " FNR - begin - 1 " lines"
            n++; longer += FNR - begin - 1 > 20; begin = 0
        }
        END { if (10 * longer > n) print "all:0:" longer " of " n " functions have more than 20 lines" }'
}

# A tree that breaks each rule: what its file holds.
bad_codegen_sees_no_graph() { mkdir -p codegen/host && echo '#include "ir/graph.h"' >codegen/host/x.c; }
bad_llvm_stays_in_codegen() { mkdir -p ir passes frontend runtime tools && echo '#include <llvm-c/Core.h>' >passes/x.c; }
bad_schedule_sees_no_code() { mkdir -p codegen/schedule && echo "#include \"codegen/host/nest.h\"" >codegen/schedule/x.c; }
bad_runtime_stands_alone() { mkdir -p runtime/host && echo '#include "ir/dtype.h"' >runtime/host/x.h; }
bad_ptx_reader_sees_no_executor() {
    mkdir -p tools/ptxsim/ptx && echo '#include "tools/ptxsim/exec/exec.h"' >tools/ptxsim/ptx/x.c
}
bad_ir_is_below_all() { mkdir -p ir && echo '#include "passes/pass.h"' >ir/x.c; }
bad_passes_and_frontend_are_apart() { mkdir -p passes frontend && echo '#include "passes/pass.h"' >frontend/x.c; }
bad_no_library_names() {
    mkdir -p passes frontend/std ir codegen
    echo 'fn softmax(x) { return x }' >frontend/std/a.dsl
    echo 'if (!strcmp(name, "softmax")) fuse();' >passes/x.c
}
bad_no_machine_paths() {
    git init -q . && printf 'cd /%s/someone/project\n' home >x.sh && git add x.sh
}
bad_nothing_left_open() {
    mkdir -p ir passes frontend codegen runtime tools bench && printf '/* TO%s: later */\n' DO >ir/x.c
}
bad_diagnostics_have_goldens() {
    mkdir -p frontend tests/golden/diag && echo 'DIAG(E0999, "x")' >frontend/diag.def && : >tests/golden/diag/a.txt
}
bad_rooms_of_passes_point_one_way() {
    mkdir -p passes/algebra && echo '#include "passes/plan/together.h"' >passes/algebra/x.c
}
bad_names_of_types_are_of_one_in_a_folder() {
    mkdir -p ir passes codegen frontend runtime tools && echo 'typedef VEC(int) Ids;' >ir/x.c && printf 'typedef struct Ids {\n    int n;\n} Ids;\n' >ir/y.c
}
bad_functions_are_short() {
    mkdir -p ir passes codegen frontend runtime tools && { echo 'int x(void) {'; yes '    f();' | head -51; echo '}'; } >ir/x.c
}
bad_functions_are_called() { mkdir -p ir && echo 'int unused(void);' >ir/x.h && echo 'int unused(void) { return 1; }' >ir/x.c; }
bad_rooms_of_passes_have_a_page() { mkdir -p passes/plan && echo 'No page.' >passes/README.md && : >passes/plan/x.c; }
bad_benchmarks_exist() { mkdir -p passes && echo '/* Its constants are from `./dev bench luck`. */' >passes/x.c; }
bad_passes_have_files() { mkdir -p passes && sed -n '/^GRAPH_PASS(/{p;q;}' "$SRC/passes/passes.def" >passes/passes.def; }

for rule in $(sed -n 's/^rule_\([a-z_]*\)().*/\1/p' "$0"); do
    if [ "$rule" = no_machine_paths ] && ! git -C "$SRC" rev-parse >/dev/null 2>&1; then
        echo "note: no git, or not a checkout of it: committed files are not searched"
        continue
    fi
    mkdir "$work/$rule"
    if [ -z "$(cd "$work/$rule" && "bad_$rule" && "rule_$rule" 2>&1 | grep -E '^[^ ]+:[0-9]+:')" ]; then
        echo "FAIL $rule: a tree that breaks it passes"
        bad=1
    fi
    broken=$(cd "$SRC" && "rule_$rule" 2>&1)
    if [ -n "$broken" ]; then
        printf 'FAIL %s:\n%s\n' "$rule" "$broken"
        bad=1
    fi
done
exit $bad
