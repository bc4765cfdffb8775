#!/bin/sh
# discs.sh N: N noisy 16x16 images of one bright disc each as CSV, 256 pixels, then 256 labels (1 inside the disc).
awk -v n="${1:-512}" 'BEGIN {
    srand(1)
    for (i = 0; i < n; i++) {
        cx = 4 + 8 * rand(); cy = 4 + 8 * rand(); r = 2 + 2.5 * rand()
        line = ""; mask = ""
        for (y = 0; y < 16; y++) for (x = 0; x < 16; x++) {
            inside = (x - cx)^2 + (y - cy)^2 < r * r
            line = line sprintf("%.3f,", inside + 1.2 * (rand() + rand() - 1))
            mask = mask (mask == "" ? "" : ",") inside
        }
        print line mask
    }
}'
