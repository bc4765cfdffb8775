/* What the shared memory of an sm_90a kernel holds: the staged tiles (ir/tile_stage.h), then barriers. */
#ifndef FUSEC_CODEGEN_NVPTX_HOPPER_LAYOUT_H
#define FUSEC_CODEGEN_NVPTX_HOPPER_LAYOUT_H
#include "ir/tile_stage.h"
#include "ir/tile_tensor_map.h"

enum { HOPPER_MAX_RINGS = 8, HOPPER_RING_STAGES = 6 };

typedef struct HopperRing {
    const Inst *loop; /* NULL: fetched once per program */
    int first;        /* the ring that it goes on with: slots, barriers and what is known of them; its own number: none */
    int slots, n_stages;
    const Inst *stage[HOPPER_RING_STAGES]; /* in textual order */
    int map[HOPPER_RING_STAGES];           /* index of the stage's tensor map */
    StageLayout layout[HOPPER_RING_STAGES];
    int64_t at[HOPPER_RING_STAGES]; /* slot 0 in shared memory */
    int64_t copied;                 /* bytes that arrive per slot */
    int64_t full, empty;            /* their barriers in shared memory, 8 bytes each */
    bool multicast;                 /* some stage is shared by the cluster */
    bool deferred;                  /* all products in the loop are */
} HopperRing;

typedef struct HopperLayout {
    int n_rings, n_maps;
    HopperRing ring[HOPPER_MAX_RINGS];
    int first[FUSEC_MAX_MAPS + 1];    /* map i is that of so many parameters on: one, or one for each member of a family */
    TensorMap map[FUSEC_MAX_MAPS];
    const Inst *copy[FUSEC_MAX_MAPS]; /* the instruction that map i is for */
    int64_t turn;                     /* barriers of the groups that alternate, 8 bytes each */
    int64_t bytes;                    /* all of it */
} HopperLayout;

bool hopper_wanted(const Kernel *k);                                     /* it has a producer */
const char *hopper_layout(Arena *a, const Kernel *k, HopperLayout *out); /* NULL, or why it cannot be */
/* Rows that wgmma cannot read in place (tf32 across the sum) and takes from registers: nothing may be deferred then. */
bool hopper_from_registers(const Inst *stage, const Inst *dot);
bool hopper_deferred(const Inst *loop); /* may the products of the loop's body be deferred? */

#endif
