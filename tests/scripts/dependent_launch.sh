#!/bin/sh
# Programmatic dependent launch: from sm_90 on every kernel waits for those that it follows before it touches global memory, and says
# that others may come.  The software GPU finds what does not.  SWEEP_ALL=1, as in ./dev fuzz: of the large examples too.
. "$SRC/tests/support/script.sh"

# waits FILE: every entry of the PTX waits, in front of all branches and of all of global memory
waits() {
    awk '/^\.visible \.entry/ { match($0, /entry [^(]*/); name = substr($0, RSTART + 6, RLENGTH - 6); state = "begins"; entries++ }
        /griddepcontrol\.wait/ { if (state == "begins") state = "waits" }
        /griddepcontrol\.launch_dependents/ { if (state == "waits") state = "launches" }
        state == "begins" && (/(ld|st|atom|red)[a-z.:]*\.global/ || /cp\.async/ || /(^|[ \t])bra/) && !/fence|commit|wait_group/ { print name ": " $0; bad = 1 }
        /^}/ { if (state != "launches" && state != "") { print name ": " state; bad = 1 } state = "" }
        END { if (!entries) print "no kernel"; exit bad || !entries }' "$1"
}

for model in digits/cnn chargpt/chargpt ${SWEEP_ALL:+gpt2/gpt2 unet/unet}; do
    for arch in sm_90 sm_90a; do
        "$FUSEC" "$SRC/examples/$model.dsl" --target $arch -o m.ptx || die "$model for $arch"
        case $arch in sm_90a) ;; *) waits m.ptx >log || fail "$model for $arch: $(head -n 3 log)" ;; esac
        [ "$(grep -c '\.entry' m.ptx)" = "$(grep -c 'griddepcontrol.wait' m.ptx)" ] || fail "$model for $arch: not every kernel waits once"
        [ "$(grep -c 'dependent = 1' m.c)" = "$(grep -c '\.entry' m.ptx)" ] || fail "$model for $arch: the manifest does not say so"
    done
    "$FUSEC" "$SRC/examples/$model.dsl" --target sm_80 -o m.ptx || die "$model for sm_80"
    ! grep -q griddepcontrol m.ptx || fail "$model for sm_80: it has no such instruction"
done
exit $bad
