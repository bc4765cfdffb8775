/* Warpgroup matrix instructions: wgmma.mma_async and its fence, groups and waits.
 *
 * A wgmma.mma_async is one operation of four warps.  Each warp brings its part when it gets there: its accumulators
 * move out of the registers, which are poisoned, and A's fragments are noted.  When the fourth warp has come the
 * operation is issued (async.h): it reads its shared operands in the async proxy with what all four warps have seen,
 * and lands when the schedule says so, in order within its warpgroup.  wgmma.wait_group brings the accumulators back.
 * Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". */
#pragma once
#include "tools/ptxsim/exec/async.h"
#include "tools/ptxsim/exec/exec_matrix.h"

enum { GROUP_WARPS = 4, GROUP_ROWS = 64, WARP_ROWS = 16, CHUNK = 16 /* bytes that swizzles keep together */ };

/* Accumulators of one warp in flight: one operation, or several of one shape one after another. */
typedef struct WgmmaSum {
    const OperandList *list;
    uint8_t *registers; /* of the frame; NULL: it is gone */
    uint32_t *sum;      /* the panel of matrix.h */
    PtxType type;
    uint32_t shape;
    int pending;     /* operations not waited for */
    uint32_t fences; /* that its warp had executed before the last of them */
    struct WgmmaSum *next;
} WgmmaSum;

struct WarpGroup;
/* One wgmma.mma_async. */
typedef struct WgmmaOp {
    struct WarpGroup *group;
    uint64_t number; /* in its warpgroup */
    const Inst *inst;
    uint64_t desc_a, desc_b;
    bool accumulate; /* scale-d */
    bool refused;    /* an operand does not lie in shared memory: nothing is computed */
    bool computed;
    uint32_t arrived; /* warps, a bit each */
    int held;         /* warps that have not waited for it */
    AsyncOp *async;   /* NULL until all have arrived */
    WgmmaSum *sum[GROUP_WARPS];
    uint32_t *fragments[GROUP_WARPS]; /* A from registers: 4 of 32 lanes */
    struct WgmmaOp *next;
} WgmmaOp;

typedef struct WarpGroup {
    WgmmaOp *first;    /* oldest */
    uint32_t *scratch; /* room for panels */
    Time *least;       /* room for a clock */
} WarpGroup;

typedef struct WgmmaFlight {
    WgmmaOp *op;
    WgmmaSum *sum;
    uint32_t group; /* wgmma-group: commits before it was issued */
} WgmmaFlight;

/* What is known of one register, by its offset / SLOT_BYTES. */
enum { SLOT_BYTES = 64 };
typedef struct WgmmaSlot {
    uint32_t touched; /* fences + 1 at the last access by another instruction; 0: never */
    uint32_t used;    /* the same of the last wgmma that had it as accumulator, ... */
    uint32_t shape;   /* ... and its shape */
    bool sum_flies;
    uint8_t fragment_flies;
} WgmmaSlot;

/* One warp's part. */
typedef struct WgmmaWarp {
    uint64_t number; /* of its next operation */
    uint32_t fences, commits;
    uint32_t wait_below; /* groups that a suspended wait waits for */
    WgmmaFlight *flight; /* oldest first */
    int flights, room;
    WgmmaSum *sums, *spare;
    const uint8_t *registers; /* of the frame that `slot` describes */
    WgmmaSlot *slot;
} WgmmaWarp;

/* NULL without memory, the cluster stuck; `slot` describes the current frame's registers. */
WgmmaWarp *wgmma_warp(Warp *);

/* A warp waits for every operation that it has issued, committed or not; ... */
void wgmma_await_all(Warp *);
/* ... what it waits for is back in the registers, or false: another warp has not come there yet. */
bool wgmma_land_awaited(Warp *);
void wgmma_explain(const Warp *, char *note, size_t room);

/* wgmma_watch.c: checks the registers of an operation that a warp takes part in; `joined`: accumulators in flight that
 * it goes on with. */
void wgmma_check_registers(Warp *, const MatrixForm *, const WgmmaSum *joined);
/* The accumulators take off, or are back after the operation with so many fences before. */
void wgmma_mark_sum(WgmmaWarp *, const MatrixForm *, bool flies, uint32_t fences);
void wgmma_mark_fragments(WgmmaWarp *, const MatrixForm *, bool flies);

/* wgmma_operand.c */
static inline uint32_t wgmma_shape(const MatrixForm *f) { return (uint32_t)f->n << 8 | f->k; }
/* Checks a descriptor's fields; makes a finding. */
void wgmma_check_descriptor(Warp *, char which, uint64_t descriptor, bool trans);
/* Marks what the operation reads; false: out of bounds. */
bool wgmma_read_operands(Warp *, const AsyncOp *, const WgmmaOp *);
/* Computes: sums += A * B of all four warps. */
void wgmma_compute(Block *, WgmmaOp *);
/* Words of `scratch` that this needs. */
enum { WGMMA_SCRATCH = 3 * 256 * 32 };
