#!/bin/sh
# The documents are true: every ```dsl block of README.md and docs/*.md is compiled, every function of the library stands
# in docs/language.md, every pass in docs/architecture.md, every option in docs/fusec.1, and links lead to files that exist.
#
# The words after ```dsl say what a block is:
#   (none)      a program; without a `model` line it is top-level definitions, and a model that copies its input is added
#   body        statements of a model, which has the inputs x: f32[4, 8], image: f32[2, 8, 8, 3], ids: i32[4] in 0..8
#   error CODE  a program that must be refused with CODE
# Diagnostics name the line of the document.  Whole programs of README.md are emitted in the three forms as well.
. "$SRC/tests/support/script.sh"
blocks=0

# One file LINE.KIND.CODE.dsl per block, its text on the lines where the document has it.
extract() { # DOCUMENT DIRECTORY
    awk -v to="$2" '
        function blank(n) { for (; n > 0; n--) printf "\n" > file }
        !inside && /^```dsl/ {
            kind = $2 == "" ? "program" : $2; code = $3 == "" ? "-" : $3
            inside = 1; text = ""; model = 0; first = NR
            next
        }
        inside && /^```/ {
            inside = 0
            file = to "/" first "." kind "." code ".dsl"
            if (kind == "body") {
                blank(first - 4)
                printf "model body {\ninput x : f32[4, 8]\ninput image : f32[2, 8, 8, 3]\n" > file
                printf "input ids : i32[4] in 0..8\n%soutput same = x\n}\n", text > file
            } else {
                blank(first)
                printf "%s", text > file
                if (!model) printf "model copy {\ninput x : f32[1]\noutput same = x\n}\n" > file
            }
            close(file)
            next
        }
        inside { text = text $0 "\n"; if ($0 ~ /^model /) model = 1 }
        END { if (inside) { print "FAIL line " first ": the block is not closed"; exit 1 } }
    ' "$1"
}

check() { # DOCUMENT FILE
    at=$(basename "$2" .dsl)
    line=${at%%.*} kind=${at#*.} code=${at##*.}
    kind=${kind%.*}
    blocks=$((blocks + 1))
    "$FUSEC" check "$2" >"$work/out" 2>&1
    status=$?
    case $kind in
    error)
        if [ "$status" -ne 1 ] || ! grep -q "\[$code\]" "$work/out"; then
            fail "$1:$line: expected the error $code"
            cat "$work/out"
        fi ;;
    program | body)
        if [ "$status" -ne 0 ]; then
            fail "$1:$line: does not compile"
            cat "$work/out"
        fi ;;
    *) fail "$1:$line: no kind of block is called '$kind'" ;;
    esac
}

emit() { # DOCUMENT FILE
    for suffix in o c ptx; do
        (cd "$work" && "$FUSEC" "$2" -o "emitted.$suffix") >"$work/out" 2>&1 && continue
        fail "$1: .$suffix is not emitted"
        cat "$work/out"
    done
}

cd "$SRC" || exit 1
for document in README.md docs/*.md; do
    blocks_of=$work/$(basename "$document" .md)
    mkdir "$blocks_of"
    extract "$document" "$blocks_of" || bad=1
    for program in "$blocks_of"/*.dsl; do
        [ -f "$program" ] || continue
        check "$document" "$program"
        case $document:$program in README.md:*.program.-.dsl) emit "$document" "$program" ;; esac
    done
    # [text](path), but for addresses and places in the same document
    for link in $(grep -o '](\([^)#:]*\))' "$document" | sed 's/^](//; s/)$//'); do
        [ -e "$(dirname "$document")/$link" ] || fail "$document: $link does not exist"
    done
done
# What README.md shows of a report is what its program gives on a processor with AVX-512; `run` prints its peak.
awk '/^```/ && inside { exit } inside { print } /^```dsl/ { inside = 1 }' README.md >"$work/line.dsl"
awk '/^    \$ fusec report line.dsl/ { inside = 1; next } inside && !/^    / { exit } inside { print substr($0, 5) }' README.md >"$work/shown"
(cd "$work" && "$FUSEC" report line.dsl --entry=step --triple=x86_64-linux-gnu --arch=x86-64-v4 >reported) || fail "README.md: no report of its program"
diff "$work/shown" "$work/reported" || fail "README.md: the report is another one"
grep -q "^    memory: $(sed -n 's/^  peak //p' "$work/shown") bytes " README.md || fail "README.md: run prints another peak"

[ "$blocks" -ge 12 ] || fail "only $blocks blocks were found"

functions=$(sed -n 's/^    {"\([a-z_0-9]*\)", .*/\1/p' frontend/lower_builtin.c frontend/lower_move.c
            sed -n 's/^\(fn\|layer\|optimizer\) \([a-z_0-9]*\)(.*/\2/p' frontend/std/*.dsl)
for name in $functions; do
    grep -q "\`$name(" docs/language.md || fail "docs/language.md: the function $name is not described"
done
for name in $(grep '\*lib\* |$' docs/language.md | cut -d'|' -f2 | grep -o '`[a-z_0-9]*(' | tr -d '`('); do
    printf '%s\n' "$functions" | grep -qx "$name" || fail "docs/language.md: there is no function $name"
done
for pass in $("$FUSEC" --passes | sed 's/ .*//'); do
    grep -q "\`$pass\`" docs/architecture.md || fail "docs/architecture.md: the pass $pass is not described"
done
# The man page and --help know the same options.
help_flags=$("$FUSEC" --help | sed -n 's/^  -\(fno-\)PASS.*/\1/p; s/^  -\([-a-zA-Z]*\)[ =,].*/\1/p; s/^  -\([-a-zA-Z]*\)$/\1/p' | grep -v '^fno-PASS$')
for flag in $help_flags -version; do
    grep -q "Fl $flag\( \|\$\)" docs/fusec.1 || fail "docs/fusec.1: the option -$flag is not described"
done
for flag in $(sed -n 's/^\.It Fl \([-a-zA-Z]*\).*/\1/p' docs/fusec.1) -help; do
    "$FUSEC" --help | grep -q "^  -$flag" || fail "docs/fusec.1: there is no option -$flag"
done
# Findings that fail no launch stand in the table of the software GPU.
for kind in $(sed -n 's/^REPORT(.*, "\([a-z-]*\)", [0-9]*, REPORT, .*/\1/p' tools/ptxsim/exec/report.def); do
    grep -q "^| \`$kind\` | report |" docs/software-gpu.md || fail "docs/software-gpu.md: $kind is not described"
done
exit $bad
