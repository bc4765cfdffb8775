#!/bin/sh
# The software GPU against what real GPUs make of every instruction: tests/golden/ptxsim/hardware-sm_NN.txt, which
# ./dev gpu stores where there is one (docs/gpu.md, "Calibration").  Skipped until there is such a file.
. "$SRC/tests/support/script.sh"
needs_software_gpu
calibrate=$BUILD/gpu/fusec_gpu_calibrate
vectors=${VECTORS:-$SRC/tests/golden/ptxsim}
[ -x "$calibrate" ] || { echo "skipped: not built"; exit 77; }
found=''
for file in "$vectors"/hardware-sm_*.txt; do
    [ -e "$file" ] || continue
    found=1 arch=${file##*/hardware-}
    arch=${arch%.txt}
    # the software GPU is one of two devices; what only one side runs is said, and not compared
    case $arch in sm_8*) arch=sm_80 ;; *) arch=sm_90 ;; esac
    echo "== ${file##*/}, beside the software GPU as $arch"
    PTXSIM_DEVICE=$arch "$calibrate" --compare "$file" 2>/dev/null || bad=1
done
[ -n "$found" ] || { echo "skipped: no vectors of a real GPU in tests/golden/ptxsim yet; ./dev gpu on a machine with one stores them"; exit 77; }
exit $bad
