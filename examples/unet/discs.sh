#!/bin/sh
# discs.sh N: N noisy 16x16 images of one bright disc each as CSV, 256 pixels, then 256 labels (1 inside the disc).
# The numbers are of its own generator: rand() differs from awk to awk, and some ignore srand().
awk -v n="${1:-512}" '
function uniform() { seed = seed * 16807 % 2147483647; return seed / 2147483647 } # Park and Miller, 1988
BEGIN {
    seed = 1
    for (i = 0; i < n; i++) {
        cx = 4 + 8 * uniform(); cy = 4 + 8 * uniform(); r = 2 + 2.5 * uniform()
        line = ""; mask = ""
        for (y = 0; y < 16; y++) for (x = 0; x < 16; x++) {
            inside = (x - cx)^2 + (y - cy)^2 < r * r
            line = line sprintf("%.3f,", inside + 1.2 * (uniform() + uniform() - 1))
            mask = mask (mask == "" ? "" : ",") inside
        }
        print line mask
    }
}'
