/* Figures of one launch, gathered where Launch.profile is set: how often each instruction ran, for how many threads, and
 * which memory was touched.  What follows from the instructions alone (kinds, operations) is worked out at the end. */
#pragma once
#include "tools/ptxsim/exec/footprint.h"
#include "tools/ptxsim/ptx/ptx.h"

/* By Function.number plus the instruction's index: the difference to the instruction before, so that a run of them costs
 * two entries. */
typedef struct Tally {
    int64_t warps, lanes;
} Tally;

typedef struct Profile {
    const Function *functions; /* of the module */
    Tally *tally;
    size_t count;
    Footprint *footprint;
} Profile;

/* False without memory.  `memory` does not change while the profile is in use. */
bool profile_begin(Profile *, const Module *, const DeviceMemory *memory);
void profile_end(Profile *);
/* A cluster's own, to be given back with profile_merge; NULL without memory. */
Tally *profile_tally(const Profile *);
void profile_merge(Profile *, Tally *); /* frees it; NULL is nothing */

static inline void tally_run(Tally *t, int32_t first, int32_t end, int64_t lanes) {
    t[first].warps++;
    t[first].lanes += lanes;
    t[end].warps--;
    t[end].lanes -= lanes;
}
/* Lanes that a guard switched off. */
static inline void tally_off(Tally *t, int32_t at, int64_t lanes) {
    t[at].lanes -= lanes;
    t[at + 1].lanes += lanes;
}

enum { MATRIX_SHAPES = 24 };
typedef struct MatrixShape {
    char name[40];
    uint64_t instructions, flops; /* instructions of warps */
} MatrixShape;

typedef struct Figures {
    Counters count;
    uint64_t warps[MIX_COUNT], threads[MIX_COUNT];
    MatrixShape matrix[MATRIX_SHAPES];
    int shapes;
} Figures;
/* *to: `count` of the launch and what the profile adds to it; false when the host had no memory for it. */
bool profile_figures(const Profile *, const Counters *count, Figures *to);
void figures_add(Figures *to, const Figures *);
