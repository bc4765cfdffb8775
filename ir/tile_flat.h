/* An access as an element offset: a stride per axis, and what is left of quotients and remainders.  Subscripts of
 * folded axes (m / T, m mod T) whose parts follow each other in memory are one stride. */
#ifndef FUSEC_IR_TILE_FLAT_H
#define FUSEC_IR_TILE_FLAT_H
#include "ir/tile.h"

typedef struct FlatAccess {
    int64_t stride[MAX_AXES], constant;
    struct {
        const Atom *atom;
        int64_t coef;
    } divided[2 * MAX_RANK]; /* DIV and MOD atoms without their other half */
    int n_divided;
} FlatAccess;

/* false: a run-time extent or a value stands in a subscript, or too many quotients. */
bool access_flatten(const Kernel *k, const Inst *access, FlatAccess *f);
bool index_is_nothing(const Index *x); /* 0 everywhere, quotients and remainders of one number taken together */

#endif
