# Samples of the record, one per line -> one line per beat: 64 values (every third sample from 63 before the R peak to
# 126 after it: 525 ms; millivolts, mean 0), then 1 if the beat is wide, 0 if not.
#
# Beats are found by the slope's energy (after Pan and Tompkins, 1985).  Wide means 42 ms or more at half height: the
# clinical sign of a beat that starts in the ventricles.
{ x[n++] = $1 }
function slope(i, d) { d = x[i + 2] - x[i - 2]; return d < 0 ? -d : d }
END {
    width = 30                                                  # samples: 83 ms
    for (i = 2; i < n - 2; i++) {
        s += slope(i)
        if (i >= width + 2) s -= slope(i - width)
        energy[i] = s
        if (s > peak[int(i / 3600)]) peak[int(i / 3600)] = s    # of each 10 s
    }
    for (i = 2; i < n - 2; i++) {
        if (energy[i] < 0.4 * peak[int(i / 3600)]) continue
        best = i
        for (j = i; j < i + 90 && j < n - 2; j++) if (energy[j] > energy[best]) best = j
        r = best - 50
        for (j = r; j < best + 10; j++) if (x[j] > x[r]) r = j
        if (r >= 63 && r + 126 < n) print_beat(r)
        i = best + 72                                           # nothing follows within 200 ms
    }
}
function print_beat(r, k, mean, line, top, wide) {
    mean = wide = 0
    line = ""
    for (k = 0; k < 64; k++) mean += x[r - 63 + 3 * k] / 64
    top = x[r] - mean
    for (k = 0; k < 64; k++) {
        line = line sprintf("%.3f,", (x[r - 63 + 3 * k] - mean) / 200)
        wide += x[r - 63 + 3 * k] - mean > top / 2
    }
    print line (wide >= 5)
}
