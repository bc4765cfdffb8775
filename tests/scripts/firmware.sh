#!/bin/sh
# The firmware example trains to the same bits on this computer and on an emulated Cortex-M4 (77: no emulator).
set -e
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
sh "$SRC/examples/firmware/run.sh" "$out"
