#!/bin/sh
# hunt.sh BUILD bench [NAME]     every hunt of tests/hunts, or one, with the benchmark's trials and seed 1: figures,
#                                name<TAB>value<TAB>unit
# hunt.sh BUILD fuzz [MINUTES] [SEED] [NAME]   all hunts in turn with fresh seeds, or those from SEED on, for so long (default 5);
#                                one hunt only if NAME is given
#
# Failing cases are kept in BUILD/finds, each made as small as its hunt can: a folder with a program, its inputs, what is right,
# and the command that shows it; beside it the hunt's log.  Exit status 1 if there is any.
set -u
build=$1 mode=$2
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/.." && pwd)
finds=$build/finds
mkdir -p "$finds"
tab=$(printf '\t')
export LD_LIBRARY_PATH="$build/ptxsim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# hunt COMMAND TRIALS SEED LOG: runs it; trials made and failures go to $made and $wrong
hunt() {
    line=$(printf '%s' "$1" | sed "s#{BUILD}#$build#g; s#{SRC}#$src#g; s#{TRIALS}#$2#g; s#{SEED}#$3#g; s#{FINDS}#$finds#g")
    status=0
    sh -c "$line" >"$4" 2>&1 </dev/null || status=$?
    made=$(summary "$4" made) wrong=$(summary "$4" wrong)
    [ "$status" = 0 ] || [ "$status" = 77 ] || [ "${wrong:-0}" -gt 0 ] || wrong=1 # it died, or ended with an error of its own
}

# Each hunt ends with one of these lines.
summary() { # LOG made|wrong
    awk -v what="$2" '
        $1 == "trust.random.programs" { made = $2 } $1 == "trust.random.disagreements" { wrong = $2 }
        $1 == "graphs" && $2 == "programs" { made = $3; wrong = $5 }
        ($1 == "ptxas" || $1 == "streams") && $2 == "programs" { made = $3; wrong = $5 }
        $1 == "schedules" && $2 == "runs" { made = $3; wrong = $5 }
        $1 == "sweeps" && $2 == "tests" { made = $3; wrong = $5 }
        $1 == "forms" && $2 == "cases" { made = $3; wrong = $5 }
        $1 == "guard" && $2 == "programs" { made = $3; wrong = $5 + $7 }
        $1 == "faults" && NF == 2 { made = $2 } $1 == "lost" && NF == 2 { wrong = $2 }
        END { print what == "made" ? made + 0 : wrong + 0 }' "$1"
}

hunts() { grep -v '^#' "$here/hunts"; }

bench() { # NAME
    log=$(mktemp)
    hunts | while read -r name unit bad trials _ command; do
        [ -z "$1" ] || [ "$1" = "$name" ] || continue
        hunt "$command" "$trials" 1 "$log"
        printf 'trust.%s.%s\t%s\t%s\ntrust.%s.%s\t%s\t%s\n' "$name" "$unit" "$made" "$unit" "$name" "$bad" "$wrong" "$unit"
        [ "$wrong" = 0 ] || tail -40 "$log" >&2
    done
    rm -f "$log"
}

fresh_seed() { od -An -N4 -t u4 /dev/urandom | tr -d ' '; }

fuzz() { # MINUTES SEED NAME
    end=$(($(date +%s) + $1 * 60)) seed=$2 bad=0 log=$finds/log
    printf 'hunting for %s minutes, seed %s\n' "$1" "$seed"
    : >"$finds/totals"
    while [ "$(date +%s)" -lt "$end" ]; do
        hunts >"$finds/hunts"
        while read -r name _ _ _ trials command; do
            [ "$(date +%s)" -lt "$end" ] || break
            [ -z "$3" ] || [ "$3" = "$name" ] || continue
            hunt "$command" "$trials" "$seed" "$log"
            printf '%s\t%s\t%s\n' "$name" "$made" "$wrong" >>"$finds/totals"
            if [ "$wrong" != 0 ]; then
                bad=1
                mv "$log" "$finds/$name.$seed.log"
                printf '%s: %s wrong with seed %s: see %s\n' "$name" "$wrong" "$seed" "$finds/$name.$seed.log"
            fi
        done <"$finds/hunts"
        seed=$((seed + 100000))
    done
    awk -F"$tab" '{ made[$1] += $2; wrong[$1] += $3 }
        END { for (name in made) printf "%-14s %8d trials %4d wrong\n", name, made[name], wrong[name] }' "$finds/totals" | sort
    return $bad
}

case $mode in
bench) bench "${3:-}" ;;
fuzz) fuzz "${3:-5}" "${4:-$(fresh_seed)}" "${5:-}" ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
