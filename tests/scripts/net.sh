#!/bin/sh
# Random programs with an oracle of their own (tests/net), a sample on every target that runs on this machine, and the oracle against
# PyTorch's numbers.  NET_COUNT is how many programs, NET_SEED the first; a longer sweep is
#
#   build/release/tests/net --seed 1000 --count 20000 --target host --finds FOLDER
. "$SRC/tests/support/script.sh"
net=$BUILD/tests/net
[ -x "$net" ] || exit 77

sample() { # target count [option]
    "$net" --fusec "$FUSEC" --target "$1" --seed "${NET_SEED:-1}" --count "${NET_COUNT:-$2}" ${3:-} >"$work/log" 2>&1 && return
    fail "$1" && cat "$work/log"
}

"$net" --goldens "$SRC/tests/net/goldens.txt" >"$work/log" || { fail goldens; cat "$work/log"; }
"$net" --scans --goldens "$SRC/tests/net/goldens_scans.txt" >"$work/log" || { fail "goldens of scans"; cat "$work/log"; }
sample host 40
sample host 20 --far
sample host 20 --scans
sample host 15 --layers
sample interp 30 --far
sample interp 80
sample interp 60 --scans
sample interp 30 --layers
quick_c
command -v "${CC:-cc}" >/dev/null && { sample c99 20; sample c99 10 --far; sample c99 10 --scans; sample c99 10 --layers; }
has_software_gpu && { sample cuda 40; sample cuda 20 --far; sample cuda 20 --scans; sample cuda 15 --layers; }
exit $bad
