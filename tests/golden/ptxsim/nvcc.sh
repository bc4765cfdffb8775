#!/bin/sh
# Makes cooperative.ptx again, where there is a CUDA toolkit: nvcc.sh [NVCC].  Comments that name its build go.
set -eu
cd "$(dirname "$0")"
"${1:-nvcc}" -ptx -arch=sm_80 -Wno-deprecated-declarations cooperative.cu -o cooperative.ptx.new
sed '/^\/\//d' cooperative.ptx.new >cooperative.ptx
rm cooperative.ptx.new
