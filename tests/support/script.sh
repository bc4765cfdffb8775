# What the test scripts begin with: words in the C locale, a directory of the script's own, $work, which it works in and which
# goes when it ends; and what it says.  `die` ends the script, `fail` does not: it ends with `exit $bad`.
set -u
: "${FUSEC:?the compiler}" "${BUILD:?the build directory}" "${SRC:?the source tree}"
export LC_ALL=C
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
# quick_c: `--target c99` goes through tcc where that is installed, in a sixteenth of the time of cc -O2, unless HUNT_CC says otherwise.
# For scripts that ask for numbers; what cc -O2 makes of emitted C is looked at by c99_random, run_targets.sh and the hunt random.cc.
quick_c() {
    CC=${HUNT_CC:-$(command -v tcc || echo "${CC:-cc}")}
    export CC
}
# A sanitized software GPU or runtime library links only into a sanitized program.
sanitize=
case $(grep '^FUSEC_SANITIZE' "$BUILD/CMakeCache.txt") in *=ON) sanitize='-fsanitize=address,undefined' ;; esac
fail() { echo "FAIL: $*"; bad=1; }
die() { echo "FAIL: $*"; exit 1; }

# in_every_form FILE: the program main.c, which calls the model `m` of FILE by any_form.h, with C, an object and PTX made of it; m.c stays.
in_every_form() {
    for form in c object ptx; do
        case $form in
        c) options="-o m.c" with="m.c" ;;
        object) options="-o object/m.o" with="object/m.o $BUILD/runtime/libfusec_host.a -lpthread" ;;
        ptx) options="-o ptx/m.ptx --target sm_80 --embed" with="ptx/m.c -ldl"
            { has_software_gpu && [ -z "$sanitize" ]; } || continue ;;
        esac
        from=$form
        [ $form != c ] || from=.
        mkdir -p $from
        # shellcheck disable=SC2086
        { "$FUSEC" "$1" $options &&
            "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -O1 $sanitize -I $from -I "$SRC/tests/support" main.c $with -lm -o in_$form; } ||
            { fail "$1 in $form is not made"; continue; }
        ./in_$form || fail "$1 in $form"
    done
}

# same_results WHAT TOLERANCE OPTION..: got.dsl, run with the options, gives on host and interp what want.dsl gives.
same_results() {
    what=$1 tolerance=$2
    shift 2
    for target in host interp; do
        rm -f got.out want.out
        for form in got want; do
            "$FUSEC" run $form.dsl --target $target --quiet --outputs $form.out "$@" >log 2>&1 || fail "$what, $form: $(cat log)"
        done
        "$BUILD/compare_safetensors" compare want.out "" got.out "$tolerance" || fail "$what on $target: other numbers"
    done
    echo "$what"
}

# same NAME TOLERANCE OPTION..: on stdin a definition, then what it should be; `model_of LINE` of the script makes a program of each.
same() {
    read -r got
    read -r want
    model_of "$got" >got.dsl
    model_of "$want" >want.dsl
    same_results "$@"
}

# both_ways PASS PROGRAM ENTRY EXECUTOR [OPTION..]: runs it with the pass and without, into with.safetensors and without.safetensors.
# Not 0 where a run fails, or the software GPU finds something; $what says of what.
both_ways() {
    pass=$1 program=$2 entry=$3 executor=$4
    shift 4
    for way in with without; do
        [ $way = with ] || set -- "$@" -fno-$pass
        PTXSIM_SEED=7 "$FUSEC" run "$program" --entry $entry --seed 6 --outputs $way.safetensors --target $executor "$@" >log 2>&1 &&
            ! grep -q '^ptxsim' log || { fail "$what on $executor, $way $pass: $(cat log)"; return 1; }
    done
}

# kernels TARGET ENTRY: of $name.dsl, a line each: map, row, contract, stream ..; `out` has the whole report.
kernels() {
    if ! cmp -s "$name.dsl" "reported.$1.dsl"; then # one report has all entries
        "$FUSEC" report "$name.dsl" --target="$1" >"reported.$1" 2>&1 || die "$name on $1: $(cat "reported.$1")"
        cp "$name.dsl" "reported.$1.dsl"
    fi
    cp "reported.$1" out
    sed -n "/^entry $2/,/total/p" out | sed -nE 's/^  [a-z]+_([a-z]+)_[0-9]+ .*/\1/p'
}

# A test that needs the software GPU is skipped where that is not built; it is found before a real one.
needs_software_gpu() { has_software_gpu || { echo "skipped: no software GPU"; exit 77; }; }
has_software_gpu() {
    [ -e "$BUILD/ptxsim/libcuda.so.1" ] || return
    LD_LIBRARY_PATH=$BUILD/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
}

# Every executor that runs on this machine, into $targets.
all_targets() {
    targets=host,c99,interp
    ! has_software_gpu || targets=$targets,cuda
}

# assembled FILE ARCH WHAT: ptxas takes the PTX, and says nothing of it that tests/support/ptxas.awk holds against a kernel.
assembled() {
    ptxas -v -arch="$2" "$1" -o "$work/assembled.cubin" >"$work/assembled.log" 2>&1 ||
        { fail "$3: ptxas refuses the PTX for $2: $(cat "$work/assembled.log")"; return; }
    awk -v what="$3, $2" -f "$SRC/tests/support/ptxas.awk" "$work/assembled.log" || bad=1
}
