#!/bin/sh
# sh run.sh RESULTS [--software] [--tune] [--seconds N]
# Runs the pack this file lies in on the GPU of this machine, in at most N (480) seconds: the device, correctness,
# every instruction against the software GPU, times, times of a peer framework, memory and race checks, counters of the slowest kernels.  Writes into RESULTS:
#   GPU.json         [{"name", "value", "unit", "commit", "date", "driver"}], written anew after every step
#   hardware-sm_NN.txt  what the GPU makes of every instruction, to be kept; calibration.txt, calibration-full.txt
#   summary.txt      what passed, what failed; check.txt, sanitizer.txt, times.txt, peers.txt, ncu.txt, device.txt
# --tune: first of all, measures tiles of matrix products (profile.txt); what follows is of kernels with the fastest.
# --software: the software GPU (found as libcuda.so.1 through LD_LIBRARY_PATH): correctness and instructions only.
# Exit status: 0 if every check passed, 1 if one failed.
set -u
out='' software='' tune='' seconds=480
usage='usage: sh run.sh RESULTS [--software] [--tune] [--seconds N]'
while [ $# -gt 0 ]; do
    case $1 in
    --software) software=1 ;;
    --tune) tune=1 ;;
    --seconds) seconds=$2; shift ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) out=$1 ;;
    esac
    shift
done
[ -n "$out" ] || { echo "$usage" >&2; exit 2; }
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
cd "$(dirname "$0")" && here=$(pwd) || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
start=$(date +%s)
failures=0
jobs=$(nproc 2>/dev/null || echo 2)
[ "$jobs" -le 6 ] || jobs=6

left() { echo $((seconds - $(date +%s) + start)); }
# limit N: N seconds, or what is left, or nothing (false)
limit() {
    n=$(left)
    [ "$n" -gt 2 ] || return 1
    [ "$n" -lt "$1" ] || n=$1
    echo "$n"
}
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }
fail() { failures=$((failures + 1)); say "FAIL $*"; }
cases() { awk -v use="$1" 'index($4, use) { print $1 }' cases.txt; }
entries() { awk -v name="$1" '$1 == name { gsub(",", " ", $3); print $3 }' cases.txt; }

: >"$out/summary.txt"
: >"$work/figures" # name<TAB>value<TAB>unit...

# ---- the device, and a program that runs on this system -----------------------------------------------------------------
gpu=software driver=software capability=9.0
if [ -z "$software" ]; then
    nvidia-smi >"$out/device.txt" 2>&1
    gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
    uname -a >>"$out/device.txt"
fi
file=$(printf '%s' "${gpu:-gpu}" | tr '[:upper:] ' '[:lower:]-' | sed 's/^nvidia-//; s/[^a-z0-9._-]//g').json
commit=$(cat commit) date=$(date -u +%Y-%m-%dT%H:%M:%SZ)

json() {
    awk -F '\t' -v commit="$commit" -v date="$date" -v driver="$driver" '
        BEGIN { print "[" }
        NF >= 3 && $2 ~ /^[-+0-9.eE]+$/ {
            printf "%s {\"name\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"commit\": \"%s\", \"date\": \"%s\", \"driver\": \"%s\"}", n++ ? ",\n" : "", $1, $2, $3, commit, date, driver }
        END { print "\n]" }' "$work/figures" >"$out/$file.new" && mv "$out/$file.new" "$out/$file"
}

best=sm_90 archs='sm_90 sm_80'
case $capability in
[0-8].*) best=sm_80 archs=sm_80 ;;
9.0) best=sm_90a archs='sm_90a sm_80' ;; # what sm_90 has of its own, and no other
esac
[ -z "$software" ] || best=sm_90a archs='sm_90a sm_90'

run=$here/bin/fusec_gpu_run pack=$work/pack
mkdir "$pack" && cp -r sm_* expect cases.txt "$pack/" && gunzip -r "$pack" || { fail "the pack cannot be unpacked into $pack"; exit 1; }
if [ "$("$run" --version 2>/dev/null)" != "fusec_gpu_run 1" ]; then
    # built on another kind of system: build all of it here
    run=$work/fusec_gpu_run
    cc -O2 -Isrc -o "$run" src/bench/gpu/*.c src/runtime/common/*.c src/runtime/cuda/*.c -lm -ldl || { fail "no compiler builds the launcher"; exit 1; }
    for d in "$pack"/sm_*/*; do cc -O1 -shared -fPIC -o "$d/model.so" "$d/model.c" -ldl || fail "$d cannot be built"; done
fi
calibrate=$here/bin/fusec_gpu_calibrate
if [ "$("$calibrate" --version 2>/dev/null)" != "fusec_gpu_calibrate 1" ]; then
    calibrate=$work/fusec_gpu_calibrate
    cc -O2 -D_GNU_SOURCE -Isrc -o "$calibrate" src/bench/gpu/calibrate/*.c -lm -ldl || { calibrate=; fail "no compiler builds fusec_gpu_calibrate"; }
fi
say "device: $gpu, driver $driver, commit $commit"

# ---- tiles as they are measured here ------------------------------------------------------------------------------------
TILES=6 # of each instruction and schedule: the driver takes up to a second to compile one
# tune CASE SOURCE NAME=VALUE...: measures into profile.txt, compiles again by it
tune() {
    name=$1 source=models/${2##*/} flags=
    shift 2
    for o in "$@"; do flags="$flags -D $o"; done
    for e in $(entries "$name"); do flags="$flags --entry $e"; done
    n=$(limit 120) || { say "no time left to measure tiles of $name"; return 0; }
    timeout "$n" "$fusec" tune "$source" --profile "$out/profile.txt" --target $best --tiles $TILES $flags >>"$out/tune.txt" 2>&1 ||
        { fail "tiles of $name: status $? (tune.txt)"; return 0; }
    to=$pack/$best/$name
    rm -f "$to"/model.*
    "$fusec" "$source" -o "$to/model.ptx" --target $best --profile "$out/profile.txt" $flags >>"$out/tune.txt" 2>&1 &&
        cc -O1 -shared -fPIC -o "$to/model.so" "$to/model.c" -ldl 2>>"$out/tune.txt" || fail "$name is not compiled by the profile (tune.txt)"
}
if [ -n "$tune" ] && [ -e bin/fusec.gz ] && gunzip -c bin/fusec.gz >"$work/fusec" && chmod +x "$work/fusec" && "$work/fusec" --version >/dev/null 2>&1; then
    fusec=$work/fusec
    rm -f "$out/profile.txt" "$out/tune.txt"
    while read -r name oracle entries use source options; do
        case $use in *m*) tune "$name" "$source" $options </dev/null ;; esac
    done <cases.txt
    measured=$(grep -c '^product ' "$out/profile.txt" 2>/dev/null)
    say "tiles measured: ${measured:-0} products"
    printf 'tune.products\t%d\tproducts\n' "${measured:-0}" >>"$work/figures"
elif [ -n "$tune" ]; then
    fail "the pack has no compiler that runs here: no tiles are measured"
fi

# ---- every case against its expected numbers --------------------------------------------------------------------------
# check ARCH CASE: a process each, since an error leaves a context unusable; a kernel that fails is then named.
cat >"$work/check" <<'END_CHECK'
arch=$1 name=$2
timeout "$CHECK_SECONDS" "$RUN" check "$PACK" "$arch" "$name" >"$WORK/check.$arch.$name.out" 2>"$WORK/check.$arch.$name.err"
status=$?
echo "$status" >"$WORK/check.$arch.$name.status"
[ $status = 3 ] || exit 0
for e in $(awk -v name="$name" '$1 == name { gsub(",", " ", $3); print "init " $3 }' "$PACK/cases.txt"); do
    timeout 30 "$RUN" locate "$PACK" "$arch" "$name" "$e" 2>>"$WORK/check.$arch.$name.err" || exit 0
done
END_CHECK
RUN=$run PACK=$pack WORK=$work BEST=$best CHECK_SECONDS=90
export RUN PACK WORK BEST CHECK_SECONDS

checked() { awk '$2 == "float64" || $2 == "host" { print $1 }' cases.txt; }
for arch in $archs; do checked | sed "s/^/$arch /"; done >"$work/list"
n=$(limit 150) && timeout "$n" xargs -P "$jobs" -L 1 sh "$work/check" <"$work/list"
: >"$out/check.txt"
good=0
while read -r arch name; do
    at=$work/check.$arch.$name
    cat "$at.out" "$at.err" >>"$out/check.txt" 2>/dev/null
    cat "$at.out" >>"$work/figures" 2>/dev/null
    case $(cat "$at.status" 2>/dev/null) in
    0) good=$((good + 1)) ;;
    1) fail "$name on $arch: numbers differ (check.txt)" ;;
    124) fail "$name on $arch: out of time" ;;
    '') fail "$name on $arch: no time left to run it" ;;
    *) fail "$name on $arch: it does not run (check.txt): $(head -n 1 "$at.err")" ;;
    esac
done <"$work/list"
say "correct: $good of $(wc -l <"$work/list")"
printf 'check.passed\t%d\tcases\ncheck.failed\t%d\tcases\n' "$good" "$failures" >>"$work/figures"
json

# ---- every instruction, beside what the software GPU makes of it ---------------------------------------------------------
# A difference is something to learn from, not a failure of the pack; for the software GPU it is one.
reference=calibration/sm_$(printf '%s' "$capability" | tr -d .).txt
[ -e "$reference" ] || reference=calibration/sm_90.txt
if [ -n "$calibrate" ] && n=$(limit 90); then
    timeout $((n + 5)) "$calibrate" --seconds "$n" --write "$out/hardware-%s.txt" --compare "$reference" --table "$out/calibration.txt" \
        --full "$out/calibration-full.txt" 2>"$work/calibration"
    status=$?
    cat "$work/calibration" >>"$out/calibration.txt"
    tail -n 1 "$work/calibration" | sed 's/^/instructions: /' | tee -a "$out/summary.txt"
    sed -n 's/^compared: /instructions compared: /p' "$out/calibration.txt" | tee -a "$out/summary.txt"
    sed -n 's/^compared: \([0-9]*\); the same: \([0-9]*\) .*; within what is allowed: \([0-9]*\); different: \([0-9]*\)$/calibration.compared\t\1\tinstructions\ncalibration.same\t\2\tinstructions\ncalibration.within\t\3\tinstructions\ncalibration.different\t\4\tinstructions/p' "$out/calibration.txt" >>"$work/figures"
    case $status in
    0) ;;
    1) [ -z "$software" ] && say "instructions differ (calibration.txt)" || fail "instructions differ (calibration.txt)" ;;
    *) fail "the calibration did not run: status $status (calibration.txt)" ;;
    esac
    json
else
    say "no time left to calibrate"
fi
[ -z "$software" ] || exit $((failures > 0))

# ---- times, one process after another ---------------------------------------------------------------------------------
FUSEC_CUBIN=1
export FUSEC_CUBIN
: >"$out/times.txt"
for name in $(cases t); do
    n=$(limit 40) || { say "no time left for the times of $name"; continue; }
    timeout "$n" "$run" time "$pack" $best "$name" >"$work/time" 2>>"$out/times.txt" || fail "times of $name: status $?"
    cat "$work/time" >>"$out/times.txt"
    cat "$work/time" >>"$work/figures"
done
json

# ---- a peer framework: its times, and its float64 as the judge of the large cases -----------------------------------
dump=$work/dump
df -P /dev/shm 2>/dev/null | awk 'END { exit !($4 > 16e6) }' && dump=$(mktemp -d /dev/shm/fusec.XXXXXX) && trap 'rm -rf "$work" "$dump"' EXIT
if n=$(limit 150) && python3 -c 'import torch' 2>/dev/null; then
    timeout "$n" python3 -u peers.py --run "$run" --pack "$pack" --arch $best --dump "$dump" --times "$out/times.txt" --seconds "$((n - 5))" >"$work/peers" 2>"$work/peers.err" ||
        fail "peers.py: status $? (peers.txt)"
    cat "$work/peers" "$work/peers.err" >"$out/peers.txt"
    grep "$(printf '\t')" "$work/peers" >>"$work/figures"
    grep -q '^FAIL' "$work/peers" && fail "$(grep -c '^FAIL' "$work/peers") large tensors differ from the peer's float64 (peers.txt)"
    json
else
    say "no PyTorch here, or no time left: no peers"
fi

# ---- memory, races, barriers, uninitialised reads ------------------------------------------------------------------------
unset FUSEC_CUBIN
if n=$(limit 110) && command -v compute-sanitizer >/dev/null; then
    cat >"$work/sanitize" <<'END_SANITIZE'
tool=$1 name=$2
timeout "$SANITIZE_SECONDS" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "$RUN" check "$PACK" $BEST "$name" >"$WORK/sanitizer.$tool.$name" 2>&1
echo $? >"$WORK/sanitizer.$tool.$name.status"
END_SANITIZE
    SANITIZE_SECONDS=60
    export SANITIZE_SECONDS
    for tool in memcheck racecheck synccheck initcheck; do cases s | sed "s/^/$tool /"; done >"$work/list"
    timeout "$n" xargs -P "$jobs" -L 1 sh "$work/sanitize" <"$work/list"
    : >"$out/sanitizer.txt"
    good=0
    while read -r tool name; do
        at=$work/sanitizer.$tool.$name
        status=$(cat "$at.status" 2>/dev/null)
        { echo "== $tool $name: status ${status:-none}"; [ "$status" = 0 ] || head -c 20000 "$at"; } >>"$out/sanitizer.txt" 2>/dev/null
        case $status in
        0) good=$((good + 1)) ;;
        9) fail "$tool finds faults in $name (sanitizer.txt)" ;;
        124 | '') say "$tool of $name: out of time" ;;
        *) fail "$tool of $name: status $status (sanitizer.txt)" ;;
        esac
    done <"$work/list"
    say "sanitizer: $good of $(wc -l <"$work/list") clean"
    printf 'sanitizer.clean\t%d\truns\nsanitizer.runs\t%d\truns\n' "$good" "$(wc -l <"$work/list")" >>"$work/figures"
    json
else
    say "no compute-sanitizer here, or no time left"
fi

# ---- counters of the kernels that take the longest -----------------------------------------------------------------------
FUSEC_CUBIN=1
export FUSEC_CUBIN
if command -v ncu >/dev/null; then
    : >"$out/ncu.txt"
    # the slowest kernel of each model, then the two slowest of those: case, entry, kernel
    awk -F '\t' '$1 ~ /\.kernel\./ { split($1, p, "."); k = $1; sub(/^.*\.kernel\./, "", k); if ($2 > t[p[1]]) { t[p[1]] = $2; line[p[1]] = p[1] " " p[3] " " k } }
        END { for (m in t) print t[m], line[m] }' "$out/times.txt" | sort -rn | head -n 2 >"$work/slowest"
    while read -r ms name entry kernel; do
        n=$(limit 45) || { say "no time left for the counters of $kernel"; continue; }
        echo "== $name $entry $kernel: $ms ms" >>"$out/ncu.txt"
        timeout "$n" ncu --clock-control none --kernel-name "$kernel" --launch-count 1 --set full "$run" once "$pack" $best "$name" "$entry" >>"$out/ncu.txt" 2>&1 ||
            say "ncu on $kernel: status $?"
    done <"$work/slowest"
else
    say "no ncu here"
fi
say "done in $(($(date +%s) - start)) s, $failures failures"
json
[ $failures = 0 ]
