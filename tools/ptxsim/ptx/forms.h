/* Operands that Inst has no room for, Inst.more: made by the lowering, read by the handlers. */
#pragma once
#include "tools/ptxsim/ptx/ptx.h"

typedef struct Pointer {
    Operand base;  /* BASE_NONE: absent */
    int64_t offset;
    Space space;
} Pointer;

typedef struct CopyForm {
    Pointer to, from;   /* tensor copies: shared memory is `to` or `from`, the other absent */
    Pointer mbarrier;   /* absent: a bulk async-group */
    Pointer map;        /* tensor copies */
    Operand coordinate[5], im2col_offset[3];
    int rank;
    Operand size;       /* bulk; cp.async: source bytes, BASE_NONE: all of `bytes` */
    Operand ignore;     /* cp.async: predicate, or BASE_NONE */
    Operand block_mask; /* .multicast, or BASE_NONE */
    Operand byte_mask;  /* .cp_mask, or BASE_NONE */
    uint32_t bytes;     /* cp.async: 4, 8, 16 */
    uint8_t reduce;     /* ATOMIC_*, 0: copies */
    PtxType type;       /* of reductions and st.async */
    bool store, im2col, no_offsets;
    Operand value[4];   /* st.async, red.async */
    int values;
} CopyForm;

/* Which async-groups an instruction commits or waits for. */
typedef enum GroupKind { GROUP_COPY, GROUP_BULK, GROUP_KINDS } GroupKind;

/* tensormap.replace: Inst.op; of fields with several values, Inst.op2 is the dimension. */
typedef enum MapField {
    MAP_ADDRESS, MAP_RANK, MAP_BOX, MAP_DIM, MAP_STRIDE, MAP_ELEMENT_STRIDE, MAP_TYPE, MAP_INTERLEAVE, MAP_SWIZZLE,
    MAP_FILL, MAP_FIELDS
} MapField;

/* tensormap.cp_fenceproxy: from shared to global memory. */
typedef struct MapCopyForm {
    Pointer to, from;
    uint8_t scope;
} MapCopyForm;

/* Which ordering a fence.proxy or restricted fence adds: Inst.op; of FENCE_ASYNC, Inst.op2 has the spaces: 1 << ProxySpace. */
typedef enum ProxyFence { FENCE_OTHER, FENCE_ASYNC, FENCE_MBARRIER_INIT } ProxyFence;

/* What mbarrier.* instructions need beyond Inst: Inst.more. */
typedef enum MbarrierOp {
    MBARRIER_INIT, MBARRIER_INVAL, MBARRIER_EXPECT_TX, MBARRIER_COMPLETE_TX, MBARRIER_ARRIVE, MBARRIER_ARRIVE_DROP,
    MBARRIER_TEST_WAIT, MBARRIER_TRY_WAIT
} MbarrierOp;

typedef struct MbarrierForm {
    MbarrierOp op;
    Pointer at;
    Operand count;       /* count, txCount, state or parity; BASE_NONE: a count of 1 */
    Operand state;       /* result; BASE_NONE: `_` */
    bool expect_tx, no_complete, relaxed, parity;
} MbarrierForm;
