/* Kernels for sm_90a: one warpgroup's thread fetches tiles by the copy engine into rings of shared memory, the others
 * compute on them with the matrix units.
 *
 *   - threads 0 .. threads-1, or several such groups, compute; the first of the `producer` threads behind them fetches.
 *     Both walk the same programs and loops.
 *   - A RING holds the tiles that one loop's body (or a program) fetches together, in slots that are used by turns. Per
 *     slot there are two mbarriers: FULL (one arrival, and the bytes that are to come) and EMPTY (one arrival per
 *     computing warp of every block that the slot's tiles are shared with).  Loops one after the other whose tiles have
 *     the same sizes go on with one ring.
 *   - A product that only adds to what its loop carries is DEFERRED: the matrix units work one iteration behind, and
 *     a slot is given back when the iteration after it has been issued.
 *   - GROUPS of computing threads may alternate: each takes every n-th of the block's programs, whose tiles lie in the
 *     ring in the order of the programs.  Loops that fetch are gone through by one group at a time, in that order: it has
 *     the matrix units while the others are before and after theirs.  Per group there is an mbarrier TURN, on which the
 *     group before it arrives when it has issued its last product.
 *
 * Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Asynchronous copy", "mbarrier",
 * "setmaxnreg". */
#ifndef FUSEC_CODEGEN_NVPTX_HOPPER_H
#define FUSEC_CODEGEN_NVPTX_HOPPER_H
#include "codegen/nvptx/hopper_layout.h"
#include "codegen/nvptx/simt.h"

typedef struct RingState {
    LLVMValueRef slot, phase; /* i32 variables: which slot is next, how often (mod 2) all have been used */
} RingState;

typedef struct Hopper {
    HopperLayout layout;
    RingState ring[HOPPER_MAX_RINGS];
    LLVMValueRef memory; /* i32: the first byte of shared memory */
    LLVMValueRef map[FUSEC_MAX_MAPS]; /* the parameters */
    LLVMValueRef rank;         /* i32: which block of the cluster; NULL without clusters */
    LLVMValueRef warpgroup;    /* i32: of the computing thread, the same in a warp */
    LLVMValueRef lane;         /* i32: thread within the warp */
    int waited;                /* rings whose slot is known to be full, as bits */
    LLVMValueRef block_thread; /* i32: of all threads of the block */
    LLVMValueRef group;        /* i32: of those that alternate, the same in a warp; NULL: there is one */
    LLVMValueRef turn;         /* i32 variable: the phase of the group's next turn */
    const Inst *first, *last;  /* of the program's loops that fetch, which are one turn */
} Hopper;

/* ---- hopper.c ------------------------------------------------------------------------------------------------ */
/* The whole body of the kernel. */
void hopper_kernel(Simt *s);
void hopper_parameters(Simt *s, int first); /* the kernel's parameters from `first` on are its tensor maps */

LLVMValueRef hopper_map(const Simt *s, int n); /* the layout's map n, of the program's member */

/* ---- hopper_groups.c ------------------------------------------------------------------------------------------ */
void hopper_threads(Simt *s);      /* the thread's number in its group, where there are several */
void hopper_groups_begin(Simt *s); /* by all threads, before the roles part */
void hopper_groups_init(Simt *s);  /* their barriers, by one thread */
/* i32: which program a group begins with, and from which to which it goes on, when one group's are `first` and `step`. */
void hopper_groups_walk(Simt *s, LLVMValueRef *first, LLVMValueRef *step);
void hopper_loop_begin(Simt *s, const Inst *loop); /* before a loop */
/* When all products of a loop have been issued: the turn is the next group's, if the loop is the turn's last and `where` (i1,
 * NULL: always). */
void hopper_turn_ends(Simt *s, const Inst *loop, LLVMValueRef where);

/* ---- hopper_ring.c -------------------------------------------------------------------------------------------- */
void hopper_rings_begin(Simt *s);                 /* variables and barriers; by all threads, before the roles part */
void hopper_fetch_program(Simt *s);               /* the fetching thread's part of one program */
void hopper_stage(Simt *s, const Inst *i);        /* the others: the tile is there */
LLVMValueRef hopper_tile(Simt *s, const Inst *i); /* i32: its address */
void hopper_skip(Simt *s, LLVMValueRef programs); /* the slots that so many (i32) programs of other groups use */
bool hopper_fetches(const Block *b);
void hopper_body_end(Simt *s, const Inst *loop);  /* before a loop's next iteration; loop NULL: the program's end */
void hopper_loop_done(Simt *s, const Inst *loop); /* after a loop */

/* i32 per dimension: where a panel of the program's tile begins, for this iteration. */
void hopper_coordinates(Simt *s, const TensorMap *m, int panel, LLVMValueRef *dim);

/* ---- hopper_dot.c ---------------------------------------------------------------------------------------------- */
void hopper_dot(Simt *s, const Inst *i);
/* Closes the group of what has been issued. */
void hopper_dot_commit(Simt *s);
/* Waits until at most `pending` groups are at work.  The accumulators that the loop carries pass through: values[c] is
 * what holds carry c here. */
void hopper_dot_wait(Simt *s, const Inst *loop, const int *values, int pending);

/* ---- hopper_store.c -------------------------------------------------------------------------------------------- */
/* STAGE of n registers, slot[] of a tile that is held as accumulators are; false: it is not, or they are no whole
 * matrices. */
bool hopper_stage_registers(Simt *s, const Inst *stage, const int *slot, int n);
bool hopper_over_leaving(const Simt *s, const Inst *stage); /* it lies where a STORE by tma, in this tile or the one before, may still read */
void hopper_store(Simt *s, const Inst *i);            /* STORE by tma */
void hopper_stores_read(Simt *s);                     /* the tiles on their way out may be overwritten */
void hopper_stores_done(Simt *s);                     /* all is in memory */

/* ---- hopper_asm.c: one instruction each ------------------------------------------------------------------------ */
LLVMValueRef hopper_asm(const Emit *e, LLVMTypeRef type, const char *text, const char *constraints, int n,
                        LLVMValueRef *args);
LLVMValueRef hopper_i32(const Emit *e, int64_t v);
LLVMValueRef hopper_add(const Emit *e, LLVMValueRef x, int64_t by);
LLVMValueRef hopper_register(const Emit *e, const char *name); /* "%ctaid.x" */
void hopper_barrier_init(const Emit *e, LLVMValueRef at, int arrivals);
void hopper_barrier_expect(const Emit *e, LLVMValueRef at, int64_t bytes);
void hopper_barrier_wait(const Emit *e, LLVMValueRef at, LLVMValueRef phase);
void hopper_barrier_arrive(const Emit *e, LLVMValueRef at, LLVMValueRef where); /* if where */
void hopper_barrier_arrive_at(const Emit *e, LLVMValueRef at, LLVMValueRef rank,
                              LLVMValueRef where); /* of a block of the cluster */
/* dim[] i32, 0 innermost; mask NULL: into this block alone. */
void hopper_copy_in(const Emit *e, Arena *a, LLVMValueRef to, LLVMValueRef map, int rank, LLVMValueRef *dim,
                    LLVMValueRef barrier, LLVMValueRef mask);
/* Pixels under a window: tap[] i16, one for each dimension but channels and images. */
void hopper_copy_window(const Emit *e, Arena *a, LLVMValueRef to, LLVMValueRef map, int rank, LLVMValueRef *dim,
                        LLVMValueRef *tap, LLVMValueRef barrier);
void hopper_copy_out(const Emit *e, Arena *a, LLVMValueRef map, int rank, LLVMValueRef *dim, LLVMValueRef from);

#endif
