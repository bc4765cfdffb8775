#!/bin/sh
# Known answers of the software GPU at every instruction-set level of its arithmetic; a level that the machine lacks is
# the one below it.
set -eu
for level in baseline v3 v4; do
    for test in ptxsim_convert ptxsim_run; do
        PTXSIM_ISA=$level "$BUILD/tests/test_$test" >"${TMPDIR:-/tmp}/ptxsim_isa.$$" 2>&1 || {
            echo "$test at level $level:"
            cat "${TMPDIR:-/tmp}/ptxsim_isa.$$"
            rm -f "${TMPDIR:-/tmp}/ptxsim_isa.$$"
            exit 1
        }
    done
done
rm -f "${TMPDIR:-/tmp}/ptxsim_isa.$$"
