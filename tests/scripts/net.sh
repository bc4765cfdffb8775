#!/bin/sh
# Random programs with an oracle of their own (tests/net), a sample on every target that runs on this machine, and the oracle against
# PyTorch's numbers.  NET_COUNT is how many programs, NET_SEED the first; SWEEP_ALL=1, as in ./dev fuzz: twice as many, and there are
# hunts with fresh seeds; a longer sweep is
#
#   build/release/tests/net --seed 1000 --count 20000 --target host --finds FOLDER
. "$SRC/tests/support/script.sh"
net=$BUILD/tests/net
[ -x "$net" ] || exit 77

times=1
[ -z "${SWEEP_ALL:-}" ] || times=2
sample() { # target count [option]
    "$net" --fusec "$FUSEC" --target "$1" --seed "${NET_SEED:-1}" --count "${NET_COUNT:-$(($2 * times))}" ${3:-} >"$work/log" 2>&1 && return
    fail "$1" && cat "$work/log"
}

"$net" --goldens "$SRC/tests/net/goldens.txt" >"$work/log" || { fail goldens; cat "$work/log"; }
"$net" --scans --goldens "$SRC/tests/net/goldens_scans.txt" >"$work/log" || { fail "goldens of scans"; cat "$work/log"; }
sample host 20
sample host 10 --far
sample host 10 --scans
sample host 8 --layers
sample interp 15 --far
sample interp 40
sample interp 30 --scans
sample interp 15 --layers
quick_c
command -v "${CC:-cc}" >/dev/null && { sample c99 10; sample c99 5 --far; sample c99 5 --scans; sample c99 5 --layers; }
has_software_gpu && { sample cuda 20; sample cuda 10 --far; sample cuda 10 --scans; sample cuda 8 --layers; }
exit $bad
