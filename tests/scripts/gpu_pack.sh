#!/bin/sh
# The pack for a machine with a GPU, made and run on the software GPU; damaged expectations and kernels must be found.
run=$BUILD/gpu/fusec_gpu_run
[ -x "$FUSEC" ] && [ -x "$run" ] && [ -x "$BUILD/gpu/fusec_gpu_expect" ] && [ -e "$BUILD/ptxsim/libcuda.so.1" ] || exit 77
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; cat "$work"/out/summary.txt 2>/dev/null; exit 1; }

(unset LD_LIBRARY_PATH; sh "$SRC/bench/gpu.sh" "$BUILD" --pack "$work/pack" --software) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
LD_LIBRARY_PATH=$BUILD/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

sh "$work/pack/run.sh" "$work/out" --software >"$work/log" 2>&1 || { cat "$work/log" "$work/out/check.txt"; exit 1; }
grep -q '^correct: 10 of 10$' "$work/out/summary.txt" || fail "not every case ran"
[ "$(grep -c '"unit": "relative_error"' "$work/out/software.json")" -ge 30 ] || fail "figures are missing"

# another system: the launcher and the models are built from the pack's sources
rm "$work/pack/bin/fusec_gpu_run"
awk '$1 == "gemm_odd"' "$work/pack/cases.txt" >"$work/one" && mv "$work/one" "$work/pack/cases.txt"
sh "$work/pack/run.sh" "$work/out" --software >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q '^correct: 1 of 1$' "$work/out/summary.txt" || fail "the sources do not build"
cp "$run" "$work/pack/bin/"

gunzip -r "$work/pack"
# numbers of another model: the tensor and the kernels that make it are named
cp "$work/pack/expect/gemm_odd/grad.numbers" "$work/whole"
"$run" check "$work/pack" sm_90 gemm_odd >/dev/null 2>&1 || fail "the case does not pass by itself"
head -c 3000 "$work/whole" >"$work/pack/expect/gemm_odd/grad.numbers"
"$run" check "$work/pack" sm_90 gemm_odd >/dev/null 2>"$work/log" && fail "a truncated file passed"
grep -q damaged "$work/log" || fail "a truncated file is not named: $(cat "$work/log")"
head -c -4 "$work/whole" >"$work/pack/expect/gemm_odd/grad.numbers"
printf '\000\000\200\100' >>"$work/pack/expect/gemm_odd/grad.numbers"
"$run" check "$work/pack" sm_90 gemm_odd >/dev/null 2>"$work/log" && fail "a wrong gradient passed"
grep -q 'FAIL gemm_odd sm_90 grad: grad/[ab]: .*kernels that touch it: [a-z]' "$work/log" || fail "a wrong gradient is not named: $(cat "$work/log")"
cp "$work/whole" "$work/pack/expect/gemm_odd/grad.numbers"

# PTX that does not assemble
echo 'nonsense' >>"$work/pack/sm_90/gemm_odd/model.ptx"
sh "$work/pack/run.sh" "$work/out" --software >"$work/log" 2>&1 && fail "broken PTX passed"
grep -q '^FAIL gemm_odd on sm_90: it does not run' "$work/out/summary.txt" || fail "broken PTX is not reported"
# a folder of other things stays as it is
mkdir "$work/mine" && echo x >"$work/mine/file"
sh "$SRC/bench/gpu.sh" "$BUILD" --pack "$work/mine" --software >/dev/null 2>&1 && fail "a folder with other files was taken"
[ -e "$work/mine/file" ] || fail "a file of the user's is gone"
