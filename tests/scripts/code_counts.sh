#!/bin/sh
# What is decided for speed changes no number, and tests are not timed: a tile's size, an operand that is packed or not, a
# prefetch, a cluster.  So the code of the examples, at their own sizes, and of layers of many shapes (tests/data/code) is held
# to tests/golden/code: of the Tile IR of each target its kernels, instructions and the checksum of its text; of the host's LLVM
# IR how many instructions there are of each kind, of each kernel of the layers too, and its checksum; of the report its
# checksum, with recomputation too.  So are programs of the second generator, whose extents are small and odd.  LLVM IR is made of
# each program for one of four processors by turns, and every fifth of the generator's programs is taken; SWEEP_ALL=1, as in
# ./dev fuzz, and UPDATE=1: all.  A change that is meant is taken over with UPDATE=1, and its diff is part of the commit; STOP=1
# ends at the first that differs.
. "$SRC/tests/support/script.sh"
golden=$SRC/tests/golden/code
all=${SWEEP_ALL:-}${UPDATE:-}

# Another LLVM's counts are no one's mistake: golden/llvm says whose they are.
llvm=$("$FUSEC" --version | sed -n 's/.*LLVM //p')
[ -z "${UPDATE:-}" ] || echo "$llvm" >"$golden/llvm"
theirs=$(cat "$golden/llvm")

kind() { # TARGET: options; the host's Tile IR is for a processor
    echo "--target=$1"
    [ "$1" != host ] || echo "--triple=x86_64-pc-linux-gnu --arch=x86-64-v4"
}

tile() { # PROGRAM TARGET [PRECISION]
    awk -v p="${3:-}" '{ print } p && /^model .*{/ { print "    precision " p }' "$1" >x.dsl
    "$FUSEC" x.dsl $(kind "$2") -o x.tile 2>log || fail "$1 as Tile IR for $2: $(cat log)"
    awk -v what="$2${3:+ in $3}" '/^kernel/ { kernels++ } /^ *(%[0-9]+ =|store)/ { made++ }
        END { printf "%s: %d kernels, %d instructions, ", what, kernels, made }' x.tile
    cksum <x.tile | cut -d' ' -f1
}

report() { # PROGRAM OPTIONS..: the checksum of its report
    program=$1
    shift
    "$FUSEC" report "$program" "$@" >log 2>&1 || fail "report $program $*: $(cat log)"
    echo "report $*: $(sed "s#$SRC/##g" log | cksum | cut -d' ' -f1)"
}

code() { # PROGRAM ARCH FILE: its LLVM IR
    case $2 in cortex*) triple=aarch64-linux-gnu ;; *) triple=x86_64-pc-linux-gnu ;; esac
    "$FUSEC" "$1" --triple=$triple --arch="$2" -o "$3" 2>log || fail "$1 as LLVM IR for $2: $(cat log)"
}

counts() { # ARCH FILE: opcode, or what is called, and how often, in all kernels
    awk '/^define/ { inside = 1; next } /^}/ { inside = 0 } !inside || !/^  / { next }
        { line = $0; sub(/^ *(%[^ ]+ = )?((tail|musttail|notail) )?/, "", line); split(line, word, " "); what = word[1]
          if (what == "call" && match(line, /@[a-zA-Z0-9_.]+/)) what = "call " substr(line, RSTART + 1, RLENGTH - 1)
          if (what ~ /^[a-z]/ && what !~ /fusec\.|^call [a-z0-9_]*\.(init|infer|grad|step)_/) n[what]++ }
        END { for (w in n) printf "    %s %d\n", w, n[w] }' "$2" | sort >sorted
    echo "$1: $(cksum <"$2" | cut -d' ' -f1)"
    cat sorted
}

kernels() { # FILE: how many instructions each has
    awk '/^define/ { match($0, /@[^(]+/); name = substr($0, RSTART + 1, RLENGTH - 1); n = 0; next }
        /^}/ { printf "    %s %d\n", name, n } /^  / { n++ }' "$1"
}

compare() { # NAME FORM
    if [ -n "${UPDATE:-}" ]; then
        cp "$1.$2" "$golden/$1.$2"
    elif [ "$2" = tiles ] || [ "$llvm" = "$theirs" ]; then
        # of the golden what was made: parts by their first word, which stands at the beginning of a line
        awk 'NR == FNR { if (/^[^ ]/) made[$1] = 1; next } /^[^ ]/ { on = $1 in made } on' "$1.$2" "$golden/$1.$2" >expected
        diff -u expected "$1.$2" || fail "$1: other code; if it is meant, run this with UPDATE=1"
    fi
    [ $bad = 0 ] || [ -z "${STOP:-}" ] || exit 1
}

archs=
[ -z "$all" ] || archs='x86-64-v4 x86-64-v3 x86-64 cortex-a76'
for program in tests/data/code/products tests/data/code/windows tests/data/code/rows tests/data/code/mixed examples/digits/mlp examples/digits/cnn \
    examples/ecg/ecg examples/chargpt/chargpt examples/unet/unet examples/gpt2/gpt2 examples/resnet50/resnet50; do
    name=${program##*/} program=$SRC/$program.dsl
    {
        for target in host c99 sm_80 sm_90a; do tile "$program" $target; done
        for precision in bf16 tf32; do for target in sm_80 sm_90a; do tile "$program" $target $precision; done; done
        tile "$program" host bf16
        for target in c99 sm_90a; do report "$program" --target=$target; done
        report "$program" --target=c99 --checkpoint=sqrt
    } >"$name.tiles"
    case $all$archs in '' | x86-64-v4) archs=x86-64-v3 ;; x86-64-v3) archs=cortex-a76 ;; cortex-a76) archs=x86-64 ;; x86-64) archs=x86-64-v4 ;; esac
    for arch in $archs; do
        code "$program" $arch x.ll
        counts $arch x.ll
        case $program in */data/*) kernels x.ll ;; esac
    done >"$name.counts"
    compare "$name" tiles
    compare "$name" counts
done

# Of low precision, where a processor multiplies pairs of bf16.
for name in products windows rows mixed; do
    awk '{ print } /^model .*{/ { print "    precision bf16" }' "$SRC/tests/data/code/$name.dsl" >x.dsl
    code x.dsl znver4 x.ll
    { counts znver4 x.ll; kernels x.ll; } >"$name-bf16.counts"
    compare "$name-bf16" counts
done

# tiles_of PROGRAM: the checksum of its Tile IR for each kind of target
tiles_of() {
    printf '%s' "$1"
    for target in host c99 sm_90a; do
        "$FUSEC" "$1" $(kind $target) -o x.tile 2>log || fail "$1 as Tile IR for $target: $(cat log)"
        printf ' %s' "$(cksum <x.tile | cut -d' ' -f1)"
    done
    echo
}

"$BUILD/tests/net" --seed 3 --count 150 --show . >log || fail "the second generator: $(cat log)"
for program in net_*.dsl; do
    number=${program#net_} number=${number%.dsl}
    [ -z "$all" ] && [ $((number % 5)) != 0 ] || tiles_of "$program"
done >net.tiles
compare net tiles
for program in net_?.dsl net_[34]?.dsl; do
    printf '%s' "$program"
    for arch in x86-64-v4 x86-64-v3; do
        code "$program" $arch x.ll
        printf ' %s' "$(cksum <x.ll | cut -d' ' -f1)"
    done
    echo
done >net.counts
compare net counts
[ "$llvm" = "$theirs" ] || echo "LLVM IR not compared: the counts are LLVM $theirs's"
exit $bad
