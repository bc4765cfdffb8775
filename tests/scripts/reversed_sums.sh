#!/bin/sh
# Sums over reversed rows, short and long, beside rows that are not, at the levels that the C compiler is used at.
. "$SRC/tests/support/script.sh"
cd "$work" || exit 1
cat >m.dsl <<'END'
dim R = 4
dim C = 2
model reversed {
    x = param [R, C] init uniform(1.0, 2.0)
    output plain = sum(x)
    output rows = sum(reverse(x, 1))
    output scaled = sum(reverse(x, 1) * 2.0) / 2.0
    output columns = sum(reverse(x, 0))
    output both = sum(reverse(reverse(x, 0), 1))
    output beside = sum(reverse(x, 1) + x) / 2.0
}
END
for size in "2 2" "4 2" "5 3" "9 2" "8 4" "3 700" "700 3"; do
    for target in host interp c99; do
        [ $target = c99 ] && ! command -v "${CC:-cc}" >/dev/null && continue
        "$FUSEC" run m.dsl --entry infer --quiet -D R="${size% *}" -D C="${size#* }" --target $target >out 2>log ||
            fail "$size on $target: $(cat log)"
        awk -v what="[$size] on $target" 'NR == 1 { plain = $2 } { off = $2 / plain - 1; if (off < 0) off = -off
            if (!(off < 1e-6)) { print "FAIL: " what ": " $0 " of " plain; bad = 1 } } END { exit bad || NR != 6 }' out || bad=1
    done
done
exit $bad
