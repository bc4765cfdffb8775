#!/bin/sh
# guard.sh BUILD SEED COUNT FINDS: programs of the second generator with every tensor between guard pages.
#
# Host code on three kinds of processor and emitted C, tensors against the page before them and against the page behind
# (tests/unit/guard.c).  Ends with `guard programs N faults M wrong K`; programs that fail are kept in FINDS.
set -u
build=$1 seed=$2 count=$3 finds=$4
mkdir -p "$finds" && finds=$(cd "$finds" && pwd) || exit 2
work=$(mktemp -d) && cd "$work" || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$build/tests/net" --seed "$seed" --count "$count" --show . >/dev/null || exit 2
status=0
"$build/tests/test_guard" net_*.dsl >log 2>&1 || status=1
cat log
for failed in $(sed -n 's/^^ \(net_[0-9]*\.dsl\): .*/\1/p' log); do
    cp "$failed" "$finds"
done
exit $status
