/* One kernel under construction for SIMT: registers per thread, shared memory, barriers. */
#ifndef FUSEC_CODEGEN_NVPTX_SIMT_H
#define FUSEC_CODEGEN_NVPTX_SIMT_H
#include "codegen/llvm/emit.h"
#include "ir/tile_spread.h"
#include "ir/tile_stage.h"

enum { SPACE_GLOBAL_PTR = 1, SPACE_SHARED_PTR = 3 };

/* What follows from how one axis is spread. */
typedef struct AxisSpread {
    int regs;         /* elements per thread */
    int vector;       /* neighbouring elements in the low registers */
    unsigned threads; /* thread bits */
    bool exact;       /* every lane of every tile lies inside the extent */
} AxisSpread;

/* Where an element is: per axis, which register (home) or which offset in the tile (elsewhere). */
typedef struct Coords {
    int reg[MAX_AXES];
    LLVMValueRef offset[MAX_AXES]; /* i32, lane within the tile; NULL: home, register reg[] */
    int beyond[MAX_AXES];          /* a constant, to be added to offset[]; where both are not 0 they have no bit in common */
} Coords;

/* The thread's number and what follows from it. */
typedef struct SimtThread {
    LLVMValueRef number, lane[MAX_AXES];
} SimtThread;

/* Registers that one access fills, along an axis; width 0: not yet known. */
typedef struct LoadRun {
    int width, axis;
} LoadRun;

typedef struct Simt {
    const Emit *e;
    const Kernel *k, *launch; /* the kernel; the bundle that it is of, or itself */
    Arena *arena;
    LLVMValueRef fn, thread; /* i32, of those that work on one program */
    int64_t before;          /* programs of the bundle's kernels before this one */
    LLVMValueRef *buffer, *sym;
    AxisSpread axis[MAX_AXES];
    LLVMValueRef base[MAX_AXES], extent[MAX_AXES]; /* i64 */
    LLVMValueRef lane[MAX_AXES];                   /* i32 offset of register 0 in the tile */
    struct Hopper *hopper;   /* NULL: all threads do the same */
    bool failed;             /* the schedule asks for what there is no code for */
    bool *only;              /* kernel_staged_only */
    const Inst **def;        /* by value */
    LLVMValueRef **reg;      /* by value, home registers; NULL where not in registers */
    LoadRun *load_run;       /* by value of a LOAD */
    LLVMValueRef *shared;    /* by value of a STAGE: its array */
    int n_shared;
    StagePlan plan;          /* of a kernel with stated layouts, whose tiles lie in `dynamic`; else dynamic == NULL */
    LLVMValueRef dynamic, dynamic_address; /* the array; i32 */
    LLVMValueRef *place;     /* by value: i32 offset of the tile being read, in bytes */
    LLVMValueRef *run;       /* by value of a LOAD: neighbours loaded together, in memory form, while elements of a run are evaluated */
    int run_at;              /* which of them */
    bool *fetched;           /* by value of a STAGE: the loop around fills it */
    /* since the last barrier of the path being emitted */
    bool shared_read, shared_written;
    bool around; /* threads may be in the iteration, or the program, before */
    bool in_group; /* simt_run writes a tile while it reads others: no barriers within */
    bool old_read; /* global memory has been read */
} Simt;

/* ---- simt_coords.c: registers and places ------------------------------------------------------------ */
int simt_slots(const Simt *s, const TileType *t);
const int *simt_all_slots(const Simt *s, const TileType *t); /* 0, 1, .. */
void simt_coords(const Simt *s, const TileType *t, int slot, Coords *c); /* home coordinates of a register */
int simt_slot(const Simt *s, const TileType *t, const Coords *c);
LLVMValueRef simt_lane(const Simt *s, const Spread *p); /* i32: the element of register 0 within the tile */
/* From here on the thread's number is one of which the compiler does not know that it is the same in every iteration: what
 * follows from it for dozens of elements would be kept in registers that there are not.  Gives what simt_thread_back
 * takes. */
SimtThread simt_thread_again(Simt *s);
void simt_thread_back(Simt *s, const SimtThread *before);
LLVMValueRef simt_offset(const Simt *s, const Coords *c, int axis); /* i32, within the tile */
LLVMValueRef simt_axis_index(const Simt *s, const Coords *c, int axis); /* i64, along the axis */
/* i1: the lanes lie inside their extents; NULL: always. */
LLVMValueRef simt_inside(const Simt *s, const Coords *c, const TileType *axes);
/* One of n values, by the member that the program belongs to; the first if there are none to choose from. */
LLVMValueRef simt_of_member(const Simt *s, int n, LLVMValueRef const *values);
/* i32: of the groups of threads that alternate, the thread's; NULL: there is one. */
LLVMValueRef simt_group(const Simt *s);
LLVMValueRef simt_and(const Simt *s, LLVMValueRef a, LLVMValueRef b); /* NULL is true */

/* ---- simt_memory.c ------------------------------------------------------------------------------------- */
LLVMValueRef simt_load(Simt *s, const Inst *i, const Coords *c);
LLVMValueRef simt_load_run(Simt *s, const Inst *i, const Coords *c, int width); /* a vector, in memory form */
bool simt_load_registers(Simt *s, const Inst *i, int slot); /* all of the run that has the register; false: there is none */
void simt_bucket(Simt *s, const Inst *i); /* bucket.c; by 32 threads */
void simt_store(Simt *s, const Inst *i);
void simt_store_slots(Simt *s, const Inst *i, const int *slot, int n); /* of the registers over simt_store_axes */
TileType simt_store_axes(const Simt *s, const Inst *i);
bool simt_loads_old(const Simt *s, const Inst *i, int buffer); /* it is a load of what is, or may be, this buffer */
/* Each element that the store overwrites is loaded by the thread that stores it, and by no other. */
bool simt_same_thread(const Simt *s, const Inst *load, const Inst *store);
bool simt_reads_old(const Simt *s, int buffer); /* the kernel loads what is, or may be, this buffer */
LLVMValueRef simt_address(Simt *s, const Inst *i, const Coords *c); /* of a LOAD's or STORE's element */
/* i1: this thread is the one of its copies that writes; NULL: there are no copies. */
LLVMValueRef simt_first_copy(const Simt *s, const TileType *t);
LLVMValueRef simt_asm(const Emit *e, LLVMTypeRef type, const char *text, const char *constraints, int n, LLVMValueRef *args);

/* ---- stage.c: shared memory --------------------------------------------------------------------------------- */
LLVMValueRef simt_shared_array(Simt *s, LLVMTypeRef element, int64_t n);
void simt_barrier(Simt *s);
void simt_before_read(Simt *s); /* of shared memory: a barrier if one is due */
void simt_before_write(Simt *s, bool own); /* likewise; own: the array is this instruction's alone */
void stage_open(Simt *s);                                   /* at the function's beginning */
void simt_stage(Simt *s, const Inst *i);
void stage_begin(Simt *s, const Inst *i); /* the tile may be written from here on */
void stage_registers(Simt *s, const Inst *i, const int *slot, int n); /* those registers of its value */
LLVMValueRef simt_staged(Simt *s, int value, const Coords *c); /* reads what STAGE kept */
/* The same of n neighbours along the axis that is contiguous there, from c on; n: how many a thread's registers are, of a tile
 * without a stated layout. */
void simt_staged_run(Simt *s, int value, const Coords *c, int n, LLVMValueRef *out);
int simt_staged_width(const Simt *s, int value);
void stage_store(Simt *s, const Inst *i);                      /* STORE by threads */
/* i32, in elements: the place of the element at offset[axis] (i32) of a tile. */
LLVMValueRef stage_element(const Simt *s, const StageLayout *l, LLVMValueRef const *offset);
void stage_select(Simt *s, int value, LLVMValueRef slot); /* of a planned tile: i32, NULL: 0 */
bool stage_rounds(const Simt *s, int value); /* f32 was copied: what reads it rounds it to the tile's tf32 */
LLVMValueRef stage_address(const Simt *s, int value);     /* i32, of the selected slot */
void stage_copy(Simt *s, const Inst *i);                  /* BY_ASYNC into the selected slot, neither committed nor awaited */
void stage_commit(Simt *s);
void stage_wait(Simt *s, int pending); /* until at most so many groups of this thread's copies are under way */
void stage_fill(Simt *s, const Inst *i);                  /* by the threads that compute, into the selected slot */
/* The same in two halves: what a thread moves, in stage_fill_count registers; and its store into the selected slot. */
int stage_fill_count(const Simt *s, const Inst *i);
void stage_fill_values(Simt *s, const Inst *i, LLVMValueRef *v);
void stage_fill_store(Simt *s, const Inst *i, LLVMValueRef const *v);

/* ---- stage_walk.c -------------------------------------------------------------------------------------------- */
/* Thread t's n-th run of `width` elements of a tile that all threads walk together, `fast` axis first. */
typedef struct StageWalk {
    int n, order[MAX_TILE_AXES], width, runs; /* axes, slowest first */
    int part;   /* runs of the fast axis that are walked before the other axes, the rest after them; 0: all */
    bool apart; /* rows 0, 2, 1, 3 instead of 0, 1, 2, 3: see half_rows */
} StageWalk;
StageWalk stage_walk(const Simt *s, const TileType *t, int fast, int width);
StageWalk stage_fill_walk(const Simt *s, const Inst *i); /* of a STAGE */
/* Coordinates of the run that begins at run `from` + thread; i1: there is one (NULL: always). */
LLVMValueRef stage_walk_at(const Simt *s, const StageWalk *w, int from, Coords *c);

/* ---- pipeline.c ---------------------------------------------------------------------------------------------- */
void pipeline_loop(Simt *s, const Inst *i); /* FOR with `ahead` */
void simt_loop_bounds(Simt *s, const Inst *loop, LLVMValueRef *first, LLVMValueRef *end); /* emit_loop_bounds() */

/* ---- mma.c ----------------------------------------------------------------------------------------------------- */
void mma_dot(Simt *s, const Inst *i); /* DOT by mma */

/* ---- simt_reduce.c --------------------------------------------------------------------------------------- */
void simt_reduce(Simt *s, const Inst *i);
/* The same in parts: before, for those registers of what is summed, and after all of them. */
void simt_reduce_begin(Simt *s, const Inst *i);
void simt_reduce_slots(Simt *s, const Inst *i, const int *slot, int n);
void simt_reduce_end(Simt *s, const Inst *i);
bool simt_store_met(Simt *s, const Inst *i); /* STORE of a sum whose parts have met in shared memory; false: it is none */
void simt_dot(Simt *s, const Inst *i);

/* ---- simt_run.c ---------------------------------------------------------------------------------------------- */
void simt_run(Simt *s, const Block *b, int from, int to); /* a block_run */

/* ---- simt.c ------------------------------------------------------------------------------------------------- */
LLVMValueRef simt_value(Simt *s, int value, const Coords *c); /* at home or, for what feeds shared memory, anywhere */
LLVMValueRef simt_index(Simt *s, const Index *x, const Coords *c); /* i64 */
void simt_instruction(Simt *s, const Inst *i);
void simt_evaluate_slot(Simt *s, const Inst *i, int slot); /* one register of s->reg[i->result] */
void simt_block(Simt *s, const Block *b);
/* Number `within` of a group's programs, whose tiles come first: at[0] is the number without the tile, at[1] the tile.  The
 * group has `group` tiles, or the `left` ones, where these are fewer: of fixed extents no number has to be divided by another. */
void simt_within_group(const Emit *e, LLVMValueRef within, LLVMValueRef tiles, LLVMValueRef left, int group, LLVMValueRef at[2]);
void simt_program(Simt *s, LLVMValueRef program); /* i32: places the grid's axes at that program */
/* Loop-carried values, one phi per register: made at the builder's position, given values from an edge. */
void simt_phis(Simt *s, const Inst *i, const int *values, LLVMValueRef **phi);
void simt_incoming(Simt *s, const Inst *i, LLVMValueRef **phi, const int *values, LLVMBasicBlockRef *from);
bool simt_kernel(const Emit *e, const Kernel *k, Arena *arena);
/* For the kernels that this one follows, where it may begin before they end; before it touches global memory. */
void simt_wait_for_others(const Simt *s);

#endif
