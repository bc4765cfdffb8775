#!/bin/sh
# sweeps.sh BUILD: each test that knows SWEEP_ALL with all of its cases, of which ctest runs a part.  C goes through cc -O2 here.
#
# Ends with `sweeps tests N wrong M`; what a test says stands before.
set -u
build=$1
src=$(cd "$(dirname "$0")/.." && pwd)
export SWEEP_ALL=1 HUNT_CC="${CC:-cc}" FUSEC="$build/fusec" BUILD="$build" SRC="$src"
made=0 wrong=0
for test in $(grep -lw SWEEP_ALL "$src"/tests/scripts/*.sh "$src"/tests/unit/*.c); do
    name=$(basename "$test" .c)
    case $test in
    *.sh) set -- sh "$test" ;;
    *) set -- "$build/tests/test_$name" ;;
    esac
    status=0
    echo "$name"
    (cd "$build/tests" && "$@") </dev/null || status=$?
    made=$((made + 1))
    [ $status = 0 ] || [ $status = 77 ] || wrong=$((wrong + 1))
done
echo "sweeps tests $made wrong $wrong"
[ $wrong = 0 ]
