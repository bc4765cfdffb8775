#!/bin/sh
# What is decided for speed changes no number, and tests are not timed: a tile's size, an operand that is packed or not, a
# prefetch, a cluster.  So the code of the examples, at their own sizes, is held to tests/golden/code: of the Tile IR of each
# target its kernels, instructions and the checksum of its text; of the host's LLVM IR how many instructions there are of each
# kind.  A change that is meant is taken over with UPDATE=1, and its diff is part of the commit.
. "$SRC/tests/support/script.sh"
golden=$SRC/tests/golden/code

# Another LLVM's counts are no one's mistake: golden/llvm says whose they are.
llvm=$("$FUSEC" --version | sed -n 's/.*LLVM //p')
[ -z "${UPDATE:-}" ] || echo "$llvm" >"$golden/llvm"
theirs=$(cat "$golden/llvm")

tile() { # PROGRAM TARGET [PRECISION]
    awk -v p="${3:-}" '{ print } p && /^model .*{/ { print "    precision " p }' "$SRC/examples/$1.dsl" >x.dsl
    "$FUSEC" x.dsl --target="$2" -o x.tile 2>log || fail "$1 as Tile IR for $2: $(cat log)"
    awk -v what="$2${3:+ in $3}" '/^kernel/ { kernels++ } /^ *(%[0-9]+ =|store)/ { made++ }
        END { printf "%s: %d kernels, %d instructions, ", what, kernels, made }' x.tile
    cksum <x.tile | cut -d' ' -f1
}

counts() { # PROGRAM ARCH: opcode, or what is called, and how often, in all kernels
    "$FUSEC" "$SRC/examples/$1.dsl" --triple=x86_64-pc-linux-gnu --arch="$2" -o x.ll 2>log || fail "$1 as LLVM IR for $2: $(cat log)"
    echo "$2:"
    awk '/^define/ { inside = 1; next } /^}/ { inside = 0 } !inside || !/^  / { next }
        { line = $0; sub(/^ *(%[^ ]+ = )?((tail|musttail|notail) )?/, "", line); split(line, word, " "); what = word[1]
          if (what == "call" && match(line, /@[a-zA-Z0-9_.]+/)) what = "call " substr(line, RSTART + 1, RLENGTH - 1)
          if (what ~ /^[a-z]/ && what !~ /fusec\.|^call [a-z0-9_]*\.(init|infer|grad|step)_/) n[what]++ }
        END { for (w in n) printf "    %s %d\n", w, n[w] }' x.ll | sort
}

for program in digits/mlp digits/cnn ecg/ecg chargpt/chargpt unet/unet gpt2/gpt2 resnet50/resnet50; do
    name=${program#*/}
    {
        for target in host c99 sm_80 sm_90a; do tile "$program" $target; done
        for precision in bf16 tf32; do for target in sm_80 sm_90a; do tile "$program" $target $precision; done; done
    } >"$name.tiles"
    for arch in x86-64-v4 x86-64-v3; do counts "$program" "$arch"; done >"$name.counts"
    for form in tiles counts; do
        if [ -n "${UPDATE:-}" ]; then
            cp "$name.$form" "$golden/$name.$form"
        elif [ $form = counts ] && [ "$llvm" != "$theirs" ]; then
            continue
        else
            diff -u "$golden/$name.$form" "$name.$form" || fail "$program: other code; if it is meant, run this with UPDATE=1"
        fi
    done
done
[ "$llvm" = "$theirs" ] || echo "LLVM IR not compared: the counts are LLVM $theirs's"
exit $bad
