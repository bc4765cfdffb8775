/* See micro_side.h. */
#include "codegen/schedule/micro_side.h"

void micro_places(const MicroSide *s, int64_t *first, int64_t *last) {
    const int64_t rows = (s->rows - 1) * s->row, taps = (s->taps - 1) * s->tap;
    *first = (rows < 0 ? rows : 0) + (taps < 0 ? taps : 0);
    *last = (rows > 0 ? rows : 0) + (taps > 0 ? taps : 0);
}

bool micro_next_pair(const MicroSide *s, int64_t place, int64_t *i, int64_t *j) {
    for (;;) {
        if (++*j == s->taps) *j = 0, ++*i;
        if (*i == s->rows) return false;
        if (*i * s->row + *j * s->tap == place) return true;
    }
}

int64_t micro_reads(const MicroSide *s) {
    int64_t first, last, n = 0;
    micro_places(s, &first, &last);
    for (int64_t place = first; place <= last; place++) {
        int64_t i = 0, j = -1;
        n += micro_next_pair(s, place, &i, &j);
    }
    return n;
}
