#!/bin/sh
# NVIDIA's assembler takes every kernel of the calibration for sm_90a, and refuses for sm_80 those that the software GPU
# refuses as an sm_80 device, and no others.  Skips without ptxas.
. "$SRC/tests/support/script.sh"
needs_software_gpu
calibrate=$BUILD/gpu/fusec_gpu_calibrate
command -v ptxas >/dev/null || { echo "skipped: no ptxas here"; exit 77; }
[ -x "$calibrate" ] || { echo "skipped: not built"; exit 77; }
"$calibrate" --ptx sm_90a >"$work/x.ptx" || exit 1
ptxas -O0 -arch=sm_90a -o "$work/x.cubin" "$work/x.ptx" >"$work/log" 2>&1
if [ $? != 0 ]; then
    grep -q 'Unsupported .version' "$work/log" && { echo "skipped: ptxas does not know this version of PTX"; exit 77; }
    grep error "$work/log" | head -n 20
    exit 1
fi

"$calibrate" --ptx sm_80 >"$work/x.ptx" || exit 1
ptxas -O0 -arch=sm_80 -o "$work/x.cubin" "$work/x.ptx" >"$work/log" 2>&1 && { echo "ptxas takes wgmma for sm_80?"; exit 1; }
# "FILE, line N; error : ..." to the name in the last comment before line N
sed -n 's/.*, line \([0-9]*\); error.*/\1/p' "$work/log" | sort -n >"$work/lines"
awk 'NR == FNR { bad[$1]; next } /^\/\/ / { name = $2 } FNR in bad { print name }' "$work/lines" "$work/x.ptx" | sort -u >"$work/assembler"
LD_LIBRARY_PATH=$BUILD/ptxsim PTXSIM_DEVICE=sm_80 "$calibrate" 2>"$work/log" || exit 1
sed -n 's/^skipped \([^ ]*\): .*/\1/p' "$work/log" | sort -u >"$work/software"
diff "$work/assembler" "$work/software" || { echo "< ptxas refuses for sm_80; > the software GPU does"; exit 1; }
