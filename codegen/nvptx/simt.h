/* One kernel under construction for SIMT: registers per thread, shared memory, barriers. */
#ifndef FUSEC_CODEGEN_NVPTX_SIMT_H
#define FUSEC_CODEGEN_NVPTX_SIMT_H
#include "codegen/llvm/emit.h"
#include "ir/tile_spread.h"

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
} Coords;

typedef struct Simt {
    const Emit *e;
    const Kernel *k;
    Arena *arena;
    LLVMValueRef fn, thread; /* i32 */
    LLVMValueRef *buffer, *sym;
    AxisSpread axis[MAX_AXES];
    LLVMValueRef base[MAX_AXES], extent[MAX_AXES]; /* i64 */
    LLVMValueRef lane[MAX_AXES];                   /* i32 offset of register 0 in the tile */
    bool *only;              /* kernel_staged_only */
    const Inst **def;        /* by value */
    LLVMValueRef **reg;      /* by value, home registers; NULL where not in registers */
    LLVMValueRef *shared;    /* by value of a STAGE: its array */
    int n_shared;
    /* since the last barrier of the path being emitted */
    bool shared_read, shared_written;
    bool old_read; /* global memory has been read */
} Simt;

/* ---- simt_coords.c: registers and places ------------------------------------------------------------ */
int simt_slots(const Simt *s, const TileType *t);
void simt_coords(const Simt *s, const TileType *t, int slot, Coords *c); /* home coordinates of a register */
int simt_slot(const Simt *s, const TileType *t, const Coords *c);
LLVMValueRef simt_lane(const Simt *s, const Spread *p); /* i32: the element of register 0 within the tile */
LLVMValueRef simt_offset(const Simt *s, const Coords *c, int axis); /* i32, within the tile */
LLVMValueRef simt_axis_index(const Simt *s, const Coords *c, int axis); /* i64, along the axis */
/* i1: the lanes lie inside their extents; NULL: always. */
LLVMValueRef simt_inside(const Simt *s, const Coords *c, const TileType *axes);
LLVMValueRef simt_and(const Simt *s, LLVMValueRef a, LLVMValueRef b); /* NULL is true */

/* ---- simt_memory.c ------------------------------------------------------------------------------------- */
LLVMValueRef simt_load(Simt *s, const Inst *i, const Coords *c);
void simt_store(Simt *s, const Inst *i);
void simt_stage(Simt *s, const Inst *i);
LLVMValueRef simt_staged(Simt *s, int value, const Coords *c); /* reads what STAGE kept */
LLVMValueRef simt_shared_array(Simt *s, LLVMTypeRef element, int64_t n);
void simt_barrier(Simt *s);
void simt_before_read(Simt *s), simt_before_write(Simt *s); /* of shared memory: a barrier if one is due */

/* ---- simt_reduce.c --------------------------------------------------------------------------------------- */
void simt_reduce(Simt *s, const Inst *i);
void simt_dot(Simt *s, const Inst *i);

/* ---- simt.c ------------------------------------------------------------------------------------------------- */
LLVMValueRef simt_value(Simt *s, int value, const Coords *c); /* at home or, for what feeds shared memory, anywhere */
LLVMValueRef simt_index(Simt *s, const Index *x, const Coords *c); /* i64 */
void simt_block(Simt *s, const Block *b);
bool simt_kernel(const Emit *e, const Kernel *k, Arena *arena);

#endif
