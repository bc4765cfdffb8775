#!/bin/sh
# sh run.sh RESULTS [--part check|speed|tune] [--save FILE.tar.gz] [--tune] [--profile FILE] [--software] [--seconds N]
# Runs the pack this file lies in on the GPU of this machine, in two parts of at most N (540) seconds each, three with --tune:
#   tune   tiles of matrix products, into profile.txt; what follows is of kernels with the fastest
#   check  the device; every case's numbers; drawn programs; memory, races and barriers of small cases; every instruction
#          beside the software GPU
#   speed  times; times of a peer framework in the same run, and its float64 as the judge of large cases; counters of the
#          slowest kernels
# Every case is a process of its own with a time limit, and what it found is written before the next.  Into RESULTS go
#   GPU.json         [{"name", "value", "unit", "commit", "date", "driver"}]
#   hardware-sm_NN.txt  what the GPU makes of every instruction, to be kept; calibration.txt, calibration-full.txt
#   summary.txt      what passed, what failed; check.txt, sanitizer.txt, times.txt, peers.txt, ncu.txt, device.txt
# --save: all of RESULTS in one file too, made anew after every step.
# --tune: part tune before all else.  --profile: the profile.txt of an earlier run instead.
# --software: the software GPU (found as libcuda.so.1 through LD_LIBRARY_PATH): numbers and instructions only.
# Exit status: 0 if every check passed, 1 if one failed.
set -u
out='' software='' tune='' profile='' seconds=540 parts='check speed' save=''
usage='usage: sh run.sh RESULTS [--part check|speed|tune] [--save FILE.tar.gz] [--tune] [--profile FILE] [--software] [--seconds N]'
wrong() { echo "$usage" >&2; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
    --software) software=1 parts=check ;;
    --tune) tune='tune ' ;;
    --seconds | --part | --save | --profile)
        [ $# -gt 1 ] || wrong
        case $1 in --seconds) seconds=$2 ;; --part) parts=$2 ;; --save) save=$2 ;; --profile) profile=$2 ;; esac
        shift
        ;;
    -*) wrong ;;
    *) out=$1 ;;
    esac
    shift
done
case $parts in check | speed | 'check speed') parts=$tune$parts ;; tune) ;; *) wrong ;; esac
[ -n "$out" ] || wrong
[ -z "$profile" ] || { [ -r "$profile" ] && profile=$(cd "$(dirname "$profile")" && pwd)/${profile##*/}; } || { echo "$profile: there is no such profile" >&2; exit 2; }
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
case $save in '' | /*) ;; *) save=$(pwd)/$save ;; esac
cd "$(dirname "$0")" && here=$(pwd) || exit 2
work=$(mktemp -d) || exit 2
dump=$work/dump
trap 'rm -rf "$work" "$dump"' EXIT
start=$(date +%s)
failures=0
jobs=$(nproc 2>/dev/null || echo 2)
[ "$jobs" -le 16 ] || jobs=16

left() { echo $((seconds - $(date +%s) + start)); }
# limit N: N seconds, or what is left, or nothing (false)
limit() {
    n=$(left)
    [ "$n" -gt 2 ] || return 1
    [ "$n" -lt "$1" ] || n=$1
    echo "$n"
}
# COMMAND... of several at once: sh "$work/until" N COMMAND... takes N seconds, and none goes on past END, which at_once SECONDS SCRIPT sets.
# (timeout around xargs would leave them running: each timeout is a process group of its own.)
at_once() { END=$(($(date +%s) + $1)) xargs -P "$jobs" -L 1 sh "$2" <"$work/list"; }
# within N COMMAND...: a process that takes no notice of the end of its time is killed
within() { timeout -k 5 "$@"; }
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }
fail() { failures=$((failures + 1)); say "FAIL $*"; }
# cases LETTER [LETTER]: by use, those of the second letter first
cases() {
    awk -v use="$1" -v first="${2:-}" '$4 ~ use { if (first != "" && $4 !~ first) rest = rest $1 "\n"; else print $1 } END { printf "%s", rest }' cases.txt
}
entries() { awk -v name="$1" '$1 == name { gsub(",", " ", $3); print $3 }' cases.txt; }

cat >"$work/until" <<'END_UNTIL'
n=$((END - $(date +%s)))
[ $n -gt 0 ] || exit 125
[ $n -lt "$1" ] || n=$1
shift
exec timeout -k 5 "$n" "$@"
END_UNTIL

: >"$out/summary.txt"
figures=$out/figures.txt # name<TAB>value<TAB>unit...
: >"$figures"

# ---- the device, and a program that runs on this system -----------------------------------------------------------------
gpu=software driver=software capability=9.0
if [ -z "$software" ]; then
    nvidia-smi >"$out/device.txt" 2>&1
    query() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }
    gpu=$(query name) driver=$(query driver_version) capability=$(query compute_cap)
    [ -n "$capability" ] || { fail "nvidia-smi names no GPU here (device.txt); --software runs what the software GPU can"; exit 1; }
    { nvidia-smi -q -d CLOCK,POWER,PERFORMANCE; uname -a; } >>"$out/device.txt" 2>&1
fi
file=$(printf '%s' "${gpu:-gpu}" | tr '[:upper:] ' '[:lower:]-' | sed 's/^nvidia-//; s/[^a-z0-9._-]//g').json
commit=$(cat commit) date=$(date -u +%Y-%m-%dT%H:%M:%SZ)

json() {
    awk -F '\t' -v commit="$commit" -v date="$date" -v driver="$driver" '
        BEGIN { print "[" }
        NF >= 3 && $2 ~ /^[-+0-9.eE]+$/ {
            printf "%s {\"name\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"commit\": \"%s\", \"date\": \"%s\", \"driver\": \"%s\"}", n++ ? ",\n" : "", $1, $2, $3, commit, date, driver }
        END { print "\n]" }' "$figures" >"$work/json" && mv "$work/json" "$out/$file"
}
# what there is by now
step() {
    json
    [ -z "$save" ] || { tar -czf "$work/save" -C "$out" . && cp "$work/save" "$save"; }
}

best=sm_90 archs='sm_90 sm_80'
case $capability in
[0-8].*) best=sm_80 archs=sm_80 ;;
9.0) best=sm_90a archs='sm_90a sm_80' ;; # what sm_90 has of its own, and no other
esac
[ -z "$software" ] || best=sm_90a archs='sm_90a sm_90'

run=$here/bin/fusec_gpu_run pack=$work/pack
mkdir "$pack" && cp -r sm_* expect cases.txt "$pack/" && gunzip -r "$pack" || { fail "the pack cannot be unpacked into $pack"; exit 1; }
# NAME-TILE computes what NAME does
for name in $(cases a); do cp -r "$pack/expect/${name%%-*}" "$pack/expect/$name"; done
if [ "$("$run" --version 2>/dev/null)" != "fusec_gpu_run 1" ]; then
    # built on another kind of system: build all of it here
    run=$work/fusec_gpu_run
    cc -O2 -Isrc -o "$run" src/bench/gpu/*.c src/runtime/common/*.c src/runtime/cuda/*.c -lm -ldl || { fail "no compiler builds the launcher"; exit 1; }
    while read -r name _; do
        for d in "$pack"/sm_*/"$name"; do
            [ ! -e "$d/model.c" ] || cc -O0 -shared -fPIC -o "$d/model.so" "$d/model.c" -ldl || fail "$d cannot be built"
        done
    done <"$pack/cases.txt"
fi
calibrate=$here/bin/fusec_gpu_calibrate
if [ "$("$calibrate" --version 2>/dev/null)" != "fusec_gpu_calibrate 1" ]; then
    calibrate=$work/fusec_gpu_calibrate
    cc -O2 -D_GNU_SOURCE -Isrc -o "$calibrate" src/bench/gpu/calibrate/*.c -lm -ldl || { calibrate=; fail "no compiler builds fusec_gpu_calibrate"; }
fi
say "device: $gpu, driver $driver, commit $commit"
RUN=$run PACK=$pack WORK=$work OUT=$out BEST=$best FIGURES=$figures
FUSEC_CUBIN=1 # where the pack has one; under the sanitizer the driver compiles
export RUN PACK WORK OUT BEST FIGURES FUSEC_CUBIN

# ---- tiles as they are measured here ------------------------------------------------------------------------------------
TILES=4 # of each instruction and schedule: the driver takes up to a second to compile one
unpack_compiler() {
    fusec=$work/fusec
    [ -x "$fusec" ] || { [ -e bin/fusec.gz ] && gunzip -c bin/fusec.gz >"$fusec" && chmod +x "$fusec" && "$fusec" --version >/dev/null 2>&1; } ||
        { fail "the pack has no compiler that runs here: $1"; return 1; }
}
# flags CASE NAME=VALUE...: those of the compiler
flags() {
    for e in $(entries "$1"); do printf ' --entry %s' "$e"; done
    shift
    for o in "$@"; do printf ' -D %s' "$o"; done
}
measure_tiles() {
    unpack_compiler "no tiles are measured" || return
    rm -f "$out/profile.txt" "$out/tune.txt"
    while read -r name oracle used use source options; do
        case $use in *m*) ;; *) continue ;; esac
        n=$(limit 120) || { say "no time left to measure tiles of $name"; continue; }
        # shellcheck disable=SC2046,SC2086
        within "$n" "$fusec" tune "models/${source##*/}" --profile "$out/profile.txt" --target $best --tiles $TILES $(flags "$name" $options) >>"$out/tune.txt" 2>&1 </dev/null ||
            fail "tiles of $name: status $? (tune.txt)"
        step
    done <cases.txt
    measured=$(grep -c '^product ' "$out/profile.txt" 2>/dev/null)
    say "tiles measured: ${measured:-0} products"
    printf 'tune.products\t%d\tproducts\n' "${measured:-0}" >>"$figures"
    [ "${measured:-0}" -gt 0 ] && take_profile
    step
}
# Kernels of the cases whose tiles are measured, compiled again by the profile; what cannot be stays as it was packed.
cat >"$work/again" <<'END_AGAIN'
to=$1 source=$2
shift 2
mkdir -p "$to.new" && "$FUSEC" "models/${source##*/}" -o "$to.new/model.ptx" --target $BEST --profile "$OUT/profile.txt" "$@" &&
    cc -O1 -shared -fPIC -o "$to.new/model.so" "$to.new/model.c" -ldl && rm "$to"/model.* && mv "$to.new"/model.* "$to" && exit 0
rm -rf "$to.new"
echo "$to" >>"$WORK/not_again"
END_AGAIN
take_profile() {
    unpack_compiler "no tiles are taken from the profile" || return
    awk -v pack="$pack/$best" '$4 ~ /m/ { flags = ""; n = split($3, e, ","); for (i = 1; i <= n; i++) flags = flags " --entry " e[i]
        for (i = 6; i <= NF; i++) flags = flags " -D " $i; print pack "/" $1, $5 flags }' cases.txt >"$work/list"
    FUSEC=$fusec xargs -P "$jobs" -L 1 sh "$work/again" <"$work/list" >>"$out/tune.txt" 2>&1
    [ ! -e "$work/not_again" ] || fail "not compiled by the profile (tune.txt): $(sed 's/.*\///' "$work/not_again" | tr '\n' ' ')"
}

# ---- every case against its expected numbers --------------------------------------------------------------------------
# check ARCH CASE USE: a process each, since an error leaves a context unusable; a kernel that fails is then named.
cat >"$work/check" <<'END_CHECK'
arch=$1 name=$2 seconds=30 at=$WORK/check.$1.$2
case $3 in *t*) seconds=90 ;; esac
sh "$WORK/until" $seconds "$RUN" check "$PACK" "$arch" "$name" >"$at.out" 2>"$at.err"
status=$?
for e in $(awk -v name="$name" '$1 == name { gsub(",", " ", $3); print "init " $3 }' "$PACK/cases.txt"); do
    [ $status = 3 ] || break
    sh "$WORK/until" 20 "$RUN" locate "$PACK" "$arch" "$name" "$e" 2>>"$at.err" || break
done
cat "$at.out" >>"$FIGURES"
cat "$at.out" "$at.err" >>"$OUT/check.txt"
echo "$status" >"$at.status"
END_CHECK

correct() {
    awk -v archs="$archs" '$2 == "float64" || $2 == "host" { n++; name[n] = $1; use[n] = $4 }
        END { k = split(archs, a, " "); for (j = 1; j <= k; j++) for (i = 1; i <= n; i++) if (!index(use[i], "a")) print a[j], name[i], use[i]
              for (i = 1; i <= n; i++) if (index(use[i], "a") && a[1] == "sm_90a") print a[1], name[i], use[i] }' cases.txt >"$work/list"
    : >"$out/check.txt"
    n=$(limit 260) && at_once "$n" "$work/check"
    good=0 bad=$failures
    while read -r arch name use; do
        at=$work/check.$arch.$name
        case $(cat "$at.status" 2>/dev/null) in
        0) good=$((good + 1)) ;;
        1) fail "$name on $arch: numbers differ (check.txt)" ;;
        124 | 137) fail "$name on $arch: out of time" ;;
        '' | 125) fail "$name on $arch: no time left to run it" ;;
        *) fail "$name on $arch: it does not run (check.txt): $(head -n 1 "$at.err")" ;;
        esac
    done <"$work/list"
    say "correct: $good of $(wc -l <"$work/list")"
    printf 'check.passed\t%d\tcases\ncheck.failed\t%d\tcases\n' "$good" $((failures - bad)) >>"$figures"
    step
}

# ---- drawn programs, by the compiler in the pack, beside a float64 evaluation that shares nothing with it ----------------
DRAWN=5 # by a process
cat >"$work/draw" <<'END_DRAW'
at=$WORK/drawn.$1
sh "$WORK/until" 90 "$WORK/net" --fusec "$WORK/fusec" --target cuda --seed "$1" --count "$2" >"$at" 2>&1
echo "status $?" >>"$at"
END_DRAW
draw() {
    [ -e bin/fusec.gz ] && [ -e bin/net.gz ] || { say "the pack has no compiler: no programs are drawn"; return; }
    gunzip -c bin/net.gz >"$work/net" && chmod +x "$work/net"
    unpack_compiler "no programs are drawn" || return
    n=$(limit 100) || { say "no time left to draw programs"; return; }
    first=$(date +%s) processes=$((200 * jobs))
    [ -z "$software" ] || first=1 processes=4
    awk -v first="$first" -v n="$processes" -v drawn=$DRAWN 'BEGIN { for (i = 0; i < n; i++) print first + i * drawn, drawn }' >"$work/list"
    at_once "$n" "$work/draw"
    cat "$work"/drawn.* >"$out/drawn.txt"
    # a process that ended neither by itself nor with its time is a failure, whatever it counted
    awk -F '\t' '$1 == "trust.random.programs" { made += $2 } $1 == "trust.random.disagreements" { wrong += $2 }
        /^status/ && !/^status (0|1|124|125|137)$/ { wrong++ } /^status (124|125|137)$/ { cut++ }
        END { print made + 0, wrong + 0, cut + 0 }' "$out/drawn.txt" >"$work/drawn"
    read -r made wrong cut <"$work/drawn"
    printf 'drawn.programs\t%d\tprograms\ndrawn.wrong\t%d\tprograms\n' "$made" "$wrong" >>"$figures"
    say "drawn programs: $made from seed $first on, $wrong wrong"
    [ "$wrong" = 0 ] && [ $((made + cut)) -gt 0 ] || fail "drawn programs (drawn.txt)"
    step
}

# ---- memory, races, barriers, uninitialised reads ------------------------------------------------------------------------
cat >"$work/sanitize" <<'END_SANITIZE'
tool=$1 name=$2 at=$WORK/sanitizer.$1.$2
sanitized() { sh "$WORK/until" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "$RUN" check "$PACK" $BEST "$name" >"$at" 2>&1; }
sanitized
status=$?
# initcheck misses writes now and then: of tensors whose every number is right it has said that nobody wrote them
[ $tool.$status != initcheck.9 ] || { sanitized; status=$?; }
{ echo "== $tool $name: status $status"; [ $status = 0 ] || head -c 20000 "$at"; } >>"$OUT/sanitizer.txt"
echo $status >"$at.status"
END_SANITIZE

sanitize() {
    command -v compute-sanitizer >/dev/null || { say "no compute-sanitizer here"; return; }
    n=$(limit 160) || { say "no time left for the sanitizer"; return; }
    for tool in memcheck racecheck synccheck initcheck; do cases '[sz]' | sed "s/^/$tool /"; done >"$work/list"
    : >"$out/sanitizer.txt"
    (unset FUSEC_CUBIN; at_once "$n" "$work/sanitize")
    good=0
    while read -r tool name; do
        status=$(cat "$work/sanitizer.$tool.$name.status" 2>/dev/null)
        case $status in
        0) good=$((good + 1)) ;;
        9) fail "$tool finds faults in $name (sanitizer.txt)" ;;
        124 | 125 | 137 | '') say "$tool of $name: out of time" ;;
        *) fail "$tool of $name: status $status (sanitizer.txt)" ;;
        esac
    done <"$work/list"
    say "sanitizer: $good of $(wc -l <"$work/list") clean"
    printf 'sanitizer.clean\t%d\truns\nsanitizer.runs\t%d\truns\n' "$good" "$(wc -l <"$work/list")" >>"$figures"
    step
}

# ---- every instruction, beside what the software GPU makes of it ---------------------------------------------------------
# A difference is something to learn from, not a failure of the pack; for the software GPU it is one.
calibration() {
    reference=calibration/sm_$(printf '%s' "$capability" | tr -d .).txt
    [ -e "$reference" ] || reference=calibration/sm_90.txt
    [ -n "$calibrate" ] && n=$(limit 90) || { say "no time left to calibrate"; return; }
    within $((n + 5)) "$calibrate" --seconds "$n" --write "$out/hardware-%s.txt" --compare "$reference" --table "$out/calibration.txt" \
        --full "$out/calibration-full.txt" 2>"$work/calibration"
    status=$?
    cat "$work/calibration" >>"$out/calibration.txt"
    tail -n 1 "$work/calibration" | sed 's/^/instructions: /' | tee -a "$out/summary.txt"
    sed -n 's/^compared: /instructions compared: /p' "$out/calibration.txt" | tee -a "$out/summary.txt"
    sed -n 's/^compared: \([0-9]*\); the same: \([0-9]*\) .*; within what is allowed: \([0-9]*\); different: \([0-9]*\)$/calibration.compared\t\1\tinstructions\ncalibration.same\t\2\tinstructions\ncalibration.within\t\3\tinstructions\ncalibration.different\t\4\tinstructions/p' "$out/calibration.txt" >>"$figures"
    case $status in
    0) ;;
    1) [ -z "$software" ] && say "instructions differ (calibration.txt)" || fail "instructions differ (calibration.txt)" ;;
    *) fail "the calibration did not run: status $status (calibration.txt)" ;;
    esac
    step
}

# ---- times, one process after another ---------------------------------------------------------------------------------
measure_times() {
    : >"$out/times.txt"
    for name in $(cases t m); do
        n=$(limit 40) || { say "no time left for the times of $name"; continue; }
        within "$n" "$run" time "$pack" $best "$name" >"$work/time" 2>>"$out/times.txt" || fail "times of $name: status $?"
        cat "$work/time" >>"$out/times.txt"
        cat "$work/time" >>"$figures"
        json
    done
    step
}

# ---- a peer framework: its times, and its float64 as the judge of the large cases -----------------------------------
measure_peers() {
    n=$(limit 270) && python3 -c 'import torch' 2>/dev/null || { say "no PyTorch here, or no time left: no peers"; return; }
    df -P /dev/shm 2>/dev/null | awk 'END { exit !($4 > 16e6) }' && dump=$(mktemp -d /dev/shm/fusec.XXXXXX)
    # shellcheck disable=SC2086
    within "$n" python3 -u peers.py --run "$run" --pack "$pack" --arch $best --dump "$dump" --times "$out/times.txt" --seconds "$((n - 5))" >"$out/peers.txt" 2>"$work/peers.err" ||
        fail "peers.py: status $? (peers.txt)"
    grep "$(printf '\t')" "$out/peers.txt" >>"$figures"
    grep -q '^FAIL' "$out/peers.txt" && fail "$(grep -c '^FAIL' "$out/peers.txt") large tensors differ from the peer's float64 (peers.txt)"
    sed -n 's/^ratio\.//p' "$out/peers.txt" | awk -F '\t' '{ printf "our speed over the peer'"'"'s: %-44s %.3f\n", $1, 1 / $2 }' | tee -a "$out/summary.txt"
    cat "$work/peers.err" >>"$out/peers.txt"
    step
}

# ---- counters of the kernels that take the longest -----------------------------------------------------------------------
counters() {
    command -v ncu >/dev/null || { say "no ncu here"; return; }
    : >"$out/ncu.txt"
    # the slowest kernel of each model, then of those: two products by matrix instructions, the slowest two others
    awk -F '\t' '$1 ~ /\.kernel\./ { split($1, p, "."); k = $1; sub(/^.*\.kernel\./, "", k); if ($2 > t[p[1]]) { t[p[1]] = $2; line[p[1]] = p[1] " " p[3] " " k } }
        END { for (m in t) print t[m], line[m] }' "$out/times.txt" | sort -rn | awk '/_bf16/ ? low++ < 2 : other++ < 2' >"$work/slowest"
    while read -r ms name entry kernel; do
        n=$(limit 45) || { say "no time left for the counters of $kernel"; continue; }
        echo "== $name $entry $kernel: $ms ms" >>"$out/ncu.txt"
        within "$n" ncu --clock-control none --kernel-name "$kernel" --launch-count 1 --set full "$run" once "$pack" $best "$name" "$entry" >>"$out/ncu.txt" 2>&1 ||
            say "ncu on $kernel: status $?"
    done <"$work/slowest"
    step
}

[ -z "$profile" ] || { [ "$profile" -ef "$out/profile.txt" ] || cp "$profile" "$out/profile.txt"; take_profile; }
for part in $parts; do
    case $part in
    tune) measure_tiles ;;
    check)
        correct
        draw
        calibration
        [ -n "$software" ] || sanitize
        [ -n "$software" ] || nvidia-smi >>"$out/device.txt" 2>&1
        ;;
    speed)
        measure_times
        measure_peers
        counters
        ;;
    esac
    say "$part: done in $(($(date +%s) - start)) s, $failures failures"
    start=$(date +%s)
done
step
[ $failures = 0 ]
