#!/bin/sh
# The pack for a machine with a GPU, made and run on the software GPU; damaged expectations and kernels must be found.
. "$SRC/tests/support/script.sh"
needs_software_gpu
run=$BUILD/gpu/fusec_gpu_run
[ -x "$run" ] && [ -x "$BUILD/gpu/fusec_gpu_expect" ] || { echo "skipped: not built"; exit 77; }
fail() { echo "$*"; cat "$work"/out/summary.txt 2>/dev/null; exit 1; }

(unset LD_LIBRARY_PATH; sh "$SRC/bench/gpu.sh" "$BUILD" --pack "$work/pack" --software) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
sh "$work/pack/run.sh" "$work/out" --software --save "$work/out.tar.gz" >"$work/log" 2>&1 || { cat "$work/log" "$work/out/check.txt"; exit 1; }
grep -q '^correct: 31 of 31$' "$work/out/summary.txt" || fail "not every case ran"
[ "$(grep -c '"unit": "relative_error"' "$work/out/software.json")" -ge 30 ] || fail "figures are missing"
[ ! -e "$work/pack/bin/net.gz" ] || grep -q '^drawn programs: [1-9][0-9]* from seed 1 on, 0 wrong$' "$work/out/summary.txt" || fail "no programs were drawn"

# the part of low precision, and the case of one tile that is not the cost model's
for name in product_f16 image_bf16 gemm_bf16_tiles-; do
    grep -q "\"check.$name[a-z0-9-]*\.sm_90a\.grad\"" "$work/out/software.json" || fail "$name was not checked"
done
cmp -s "$work/pack/sm_90a/gemm_bf16_tiles/model.ptx.gz" "$work"/pack/sm_90a/gemm_bf16_tiles-*/model.ptx.gz && fail "a tile's case is the cost model's"

# one file has all that was found; what is kept of two runs is the later figure, and what only one has
root=$work/root && mkdir -p "$root/bench" "$root/tests/golden/ptxsim" "$work/later" && cp "$SRC/bench/gpu.sh" "$root/bench/"
printf '[\n {"name": "check.passed", "value": 7, "unit": "cases"},\n {"name": "new", "value": 1, "unit": "ms"}\n]\n' >"$work/later/software.json"
sh "$root/bench/gpu.sh" none --keep "$work/out.tar.gz" "$work/later" >"$work/log" 2>&1 || fail "results are not kept: $(cat "$work/log")"
kept=$root/bench/results/software.json
[ "$(grep -c '"name"' "$kept")" = $(($(grep -c '"name"' "$work/out/software.json") + 1)) ] && [ "$(grep -c '"check.passed", "value": 7' "$kept")" = 1 ] &&
    [ "$(grep -c ',$' "$kept")" = $(($(grep -c '"name"' "$kept") - 1)) ] || fail "kept: $(cat "$kept")"
cmp "$root/tests/golden/ptxsim/hardware-sm_90.txt" "$work/out/hardware-sm_90.txt" || fail "the vectors are not kept"
sh "$root/bench/gpu.sh" none --keep "$root/tests" >"$work/log" 2>&1 && fail "a folder without figures was kept"
sh "$root/bench/gpu.sh" none --pack "$work/never" >"$work/log" 2>&1 && fail "packed without a build"
grep -q 'none is not built: ./dev build first' "$work/log" || fail "no build: $(cat "$work/log")"

# every instruction against itself: no difference; one vector altered: the instruction is named, its results are kept
grep -q '^instructions compared: 1[0-9]*; the same: 1[0-9]* (0 but for NaNs); within what is allowed: 0; different: 0$' "$work/out/summary.txt" ||
    fail "the calibration differs from itself"
cmp "$work/out/hardware-sm_90.txt" "$work/pack/calibration/sm_90.txt" || fail "two calibrations are not the same"
[ "$(wc -c <"$work/out/hardware-sm_90.txt")" -lt 300000 ] || fail "the vectors are too large to keep"
calibrate=$BUILD/gpu/fusec_gpu_calibrate
# altered NAME PROGRAM: what the comparison says when awk has changed the instruction's line (4: hash, 6: groups, 7: values)
altered() {
    awk -v name="$1" "\$1 == name { $2 } { print }" "$work/out/hardware-sm_90.txt" >"$work/altered"
    cmp -s "$work/altered" "$work/out/hardware-sm_90.txt" && fail "$1 is not there to be altered"
    "$calibrate" --compare "$work/altered" --full "$work/full" >"$work/table" 2>/dev/null
    echo "status $?" >>"$work/table"
}
altered fma.rn.f32 '$4 = "0123456789abcdef"; $6 = "0000" substr($6, 5)'
grep -q '^fma.rn.f32 *exact *1 of 8 groups differ (0)' "$work/table" && grep -q 'different: 1$' "$work/table" && grep -q '^status 1$' "$work/table" ||
    fail "an altered result is not reported: $(cat "$work/table")"
[ "$(grep -c ' in .* out ' "$work/full")" = 512 ] || fail "the results of what differs are not kept"
# an approximation: one unit in the last place is allowed, twice the value is not; a sum likewise
altered ex2.approx.f32 '$4 = "0123456789abcdef"; $7 = "3f800001" substr($7, 9)'
grep -q '^ex2.approx.f32 *approx *1 ULP' "$work/table" && grep -q 'within what is allowed: 1; different: 0$' "$work/table" && grep -q '^status 0$' "$work/table" ||
    fail "a close approximation is not taken: $(cat "$work/table")"
altered ex2.approx.f32 '$4 = "0123456789abcdef"; $7 = "40000000" substr($7, 9)'
grep -q '^ex2.approx.f32 *approx .* 1 BEYOND what is allowed' "$work/table" && grep -q '^status 1$' "$work/table" ||
    fail "a wrong approximation is not reported: $(cat "$work/table")"
altered mma.m16n8k16.f32.f16.f16/unit '$4 = "0123456789abcdef"; $7 = "7f800000" substr($7, 9)'
grep -q '^mma.m16n8k16.f32.f16.f16/unit *sum .* 1 not finite in one only' "$work/table" || fail "a wrong sum is not reported: $(cat "$work/table")"
# a kernel that faults costs itself alone, beside those that every device calls illegal; a module that is refused is taken apart
illegal=$(grep -c '^[^ ]* failed ' "$work/out/hardware-sm_90.txt")
[ "$illegal" -gt 0 ] || fail "no instruction is illegal"
PTXSIM_FAIL=launch:1000 "$calibrate" --compare "$work/out/hardware-sm_90.txt" >"$work/table" 2>"$work/log"
[ "$(grep -c '^failed ' "$work/log")" = $((illegal + 1)) ] && grep -q ", 0 skipped, $((illegal + 1)) failed, 0 not reached\$" "$work/log" && grep -q ' runs there only: ' "$work/table" ||
    fail "a fault is not contained: $(tail -n 3 "$work/log")"
PTXSIM_FAIL=load:4 "$calibrate" --compare "$work/out/hardware-sm_90.txt" >/dev/null 2>"$work/log" || fail "a refused module differs"
grep -q ", 0 skipped, $illegal failed, 0 not reached\$" "$work/log" || fail "a refused module is not taken apart"
# what a device does not have is named
PTXSIM_DEVICE=sm_80 "$calibrate" --only wgmma.m64n8k16 >/dev/null 2>"$work/log"
grep -q '^skipped wgmma.m64n8k16.*CUDA_ERROR_INVALID_PTX' "$work/log" || fail "wgmma is not refused by name on sm_80"
head -n 100 "$work/altered" | cut -c 1-40 >"$work/short"
"$calibrate" --compare "$work/short" >/dev/null 2>"$work/log"
[ $? = 3 ] && grep -q 'is no calibration' "$work/log" || fail "damaged vectors were taken"

sh "$work/pack/run.sh" "$work/never" --profile "$work/never" >"$work/log" 2>&1
[ $? = 2 ] && grep -q "never: there is no such profile" "$work/log" || fail "a profile that is not there was taken"
# no GPU: one line says so
mkdir "$work/none" && printf '#!/bin/sh\nexit 9\n' >"$work/none/nvidia-smi" && chmod +x "$work/none/nvidia-smi"
PATH=$work/none:$PATH sh "$work/pack/run.sh" "$work/never" >"$work/log" 2>&1 && fail "it ran without a GPU"
[ "$(cat "$work/log")" = 'FAIL nvidia-smi names no GPU here (device.txt); --software runs what the software GPU can' ] ||
    fail "no GPU: $(cat "$work/log")"

# tiles are measured by the compiler in the pack, and the kernels made anew hold
cp "$work/pack/cases.txt" "$work/cases"
if [ -e "$work/pack/bin/fusec.gz" ]; then
    awk '$1 == "gemm_bf16_tiles"' "$work/cases" >"$work/pack/cases.txt"
    sh "$work/pack/run.sh" "$work/tuned" --software --tune >"$work/log" 2>&1 || { cat "$work/log" "$work/tuned/tune.txt"; exit 1; }
    grep -q '^tiles measured: 3 products$' "$work/tuned/summary.txt" && [ "$(grep -c '^product .*wgmma:.*mma:' "$work/tuned/profile.txt")" = 3 ] ||
        fail "tiles are not measured: $(cat "$work/tuned/tune.txt")"
    grep -q '^correct: 2 of 2$' "$work/tuned/summary.txt" || fail "kernels compiled by the profile are wrong"
    # another call takes what this one measured
    sh "$work/pack/run.sh" "$work/again" --software --profile "$work/tuned/profile.txt" >"$work/log" 2>&1 || { cat "$work/log" "$work/again/tune.txt"; exit 1; }
    grep -q '^correct: 2 of 2$' "$work/again/summary.txt" && grep -q 'the profile has no times' "$work/again/tune.txt" || fail "the profile is not taken"
    echo damaged >"$work/profile"
    printf '#!/bin/sh\nprintf "trust.random.programs\\t3\\ntrust.random.disagreements\\t1\\n"\nexit 1\n' | gzip >"$work/pack/bin/net.gz"
    sh "$work/pack/run.sh" "$work/again" --software --profile "$work/profile" >"$work/log" 2>&1 && fail "a damaged profile was taken"
    grep -q '^drawn programs: 12 from seed 1 on, 4 wrong$' "$work/again/summary.txt" && grep -q '^FAIL drawn programs' "$work/again/summary.txt" ||
        fail "drawn programs that differ are not named"
    grep -q '^FAIL not compiled by the profile (tune.txt): gemm_bf16_tiles' "$work/again/summary.txt" && grep -q '^correct: 2 of 2$' "$work/again/summary.txt" ||
        fail "a damaged profile is not named, or the kernels in the pack are gone"
    rm "$work/pack/bin/fusec.gz"
else
    echo "LLVM's archives are missing: tiles are not measured"
fi
sh "$work/pack/run.sh" "$work/tuned" --software --tune >"$work/log" 2>&1 && fail "a pack without a compiler tunes"
grep -q '^FAIL the pack has no compiler' "$work/tuned/summary.txt" || fail "a pack without a compiler does not say so"
cp "$work/cases" "$work/pack/cases.txt"

# another system: the launcher and the models are built from the pack's sources
rm "$work/pack/bin/fusec_gpu_run" "$work/pack/bin/fusec_gpu_calibrate"
awk '$1 == "gemm_odd"' "$work/pack/cases.txt" >"$work/one" && mv "$work/one" "$work/pack/cases.txt"
sh "$work/pack/run.sh" "$work/out" --software >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q '^correct: 2 of 2$' "$work/out/summary.txt" || fail "the sources do not build"
grep -q '^instructions compared: .*different: 0$' "$work/out/summary.txt" || fail "the calibration's sources do not build"
cp "$run" "$calibrate" "$work/pack/bin/"

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
grep -q '^correct: 1 of 2$' "$work/out/summary.txt" && grep -q '^instructions compared: ' "$work/out/summary.txt" || fail "broken PTX stopped the rest"
sh "$work/pack/run.sh" "$work/out" --software --part all >"$work/log" 2>&1
[ $? = 2 ] && grep -q '^usage: ' "$work/log" || fail "an unknown part was taken"
# a folder of other things stays as it is
mkdir "$work/mine" && echo x >"$work/mine/file"
sh "$SRC/bench/gpu.sh" "$BUILD" --pack "$work/mine" --software >/dev/null 2>&1 && fail "a folder with other files was taken"
[ -e "$work/mine/file" ] || fail "a file of the user's is gone"
