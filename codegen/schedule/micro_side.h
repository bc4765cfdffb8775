/* What a micro-kernel's block can be (codegen/host/micro.h): the rows and taps of a side, and how much there is room for. */
#ifndef FUSEC_CODEGEN_SCHEDULE_MICRO_SIDE_H
#define FUSEC_CODEGEN_SCHEDULE_MICRO_SIDE_H
#include <stdbool.h>
#include <stdint.h>

enum { MICRO_LINE = 16 }; /* floats of a cache line */
enum { MICRO_ROWS = 32, MICRO_TAPS = 24, MICRO_TERMS = 256, MICRO_LANES = 32 }; /* most of a block */
enum { BLOCK_ROWS = 32, BLOCK_VECTORS = 32 };

/* Row i at tap j reads place i * row + j * tap.  Places in [sure, sure_end) exist, those outside [may, may_end) do not;
 * the others are looked at when it runs. */
typedef struct MicroSide {
    int64_t rows, taps;
    int64_t row, tap;
    int64_t x_row, x_tap, c_row, y_tap; /* elements */
    int64_t sure, sure_end, may, may_end;
} MicroSide;

/* Places that a block reads lie from *first to *last. */
void micro_places(const MicroSide *s, int64_t *first, int64_t *last);
/* Row i and tap j of a side read `place`: the next such pair after (*i, *j), which starts at (0, -1). */
bool micro_next_pair(const MicroSide *s, int64_t place, int64_t *i, int64_t *j);
int64_t micro_reads(const MicroSide *s); /* the number of places */

#endif
