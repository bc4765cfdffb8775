#!/bin/sh
# sanitized.sh FUSEC SRC: compiles the layers of tests/data/code for every kind of target with a FUSEC built under sanitizers.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in "$2"/tests/data/code/*.dsl; do
    for target in host c99 sm_90a; do
        "$1" "$program" --target=$target -o "$work/x.tile"
        "$1" report "$program" --target=$target >/dev/null
    done
    awk '{ print } /^model .*{/ { print "    precision bf16" }' "$program" >"$work/low.dsl"
    for arch in x86-64-v4 x86-64 znver4; do
        "$1" "$program" --triple=x86_64-pc-linux-gnu --arch=$arch -o "$work/x.ll"
        "$1" "$work/low.dsl" --triple=x86_64-pc-linux-gnu --arch=$arch -o "$work/x.ll"
    done
done
