/* How a processor makes a kernel, decided before there is any code: which values lie in memory (values.h), the order of loops,
 * and the form, the blocks and the start of each product (forms.h), which Tile IR then says (ir/tile.h: HostSchedule).  The Tile
 * IR and the machine are asked, and no LLVM; codegen/host emits what is decided here. */
#ifndef FUSEC_CODEGEN_SCHEDULE_SCHEDULE_H
#define FUSEC_CODEGEN_SCHEDULE_SCHEDULE_H
#include "codegen/schedule/values.h"

enum { SPARE_ROWS = 16 }; /* behind a tile's last row, which a block of a product may write */

typedef struct HostMachine {
    int vector;    /* f32 lanes of a vector register */
    int registers; /* vector registers */
    bool masks;    /* masked vector accesses are cheap */
    bool pairs;    /* multiplies and adds pairs of bf16 faster than floats; it has masks then */
    /* Caches, bytes: a line; what lies between lines of one set of the innermost; a core's innermost and second; a core's part of
     * the outermost. */
    int line, way;
    int64_t l1, l2, l3;
} HostMachine;

/* A kernel on a machine, and what is stored of it.  All of it outlives what is planned from it. */
typedef struct HostPlan {
    const Kernel *k;
    const HostMachine *machine;
    Values *v;
    Arena *arena;
} HostPlan;

HostPlan host_plan(Arena *a, const Kernel *k, const HostMachine *m); /* forms.c */

/* Lines half a way of the innermost cache apart, or whole ways, fall into so few of its sets that few of them stay. */
static inline bool in_few_sets(const HostMachine *m, int64_t bytes) { return bytes && bytes % (m->way / 2) == 0; }

/* ---- blocks.c ---- */
/* What the cast that makes the value has for its operand, if nothing is rounded: bf16 in one type or the other; else
 * the value. */
int bf16_converted(const HostPlan *kp, int value);
/* Its factors are bf16 in f32, and the machine multiplies pairs of them. */
bool dot_in_pairs(const HostPlan *kp, const Inst *dot);

/* ---- order.c ---- */
typedef enum {
    SINK_STORE,  /* inst */
    SINK_KEEP,   /* value -> storage */
    SINK_PACK,   /* value -> pack: f32, or pairs of bf16 */
    SINK_REDUCE, /* inst -> storage */
    SINK_DOT,    /* inst: storage += in[0] * in[1] */
    SINK_READ    /* scalar value -> read */
} SinkKind;

/* What a loop nest evaluates. */
typedef struct LoopSink {
    SinkKind kind;
    const Inst *inst;
    int value, storage;
} LoopSink;

/* Order of the axes of a nest, outermost first; returns their number. */
int loop_order(const HostPlan *kp, const TileType *axes, int n, const LoopSink *sinks, int8_t *order);
/* The same of a nest that packs the value. */
int pack_order(const HostPlan *kp, const TileType *axes, int value, int8_t *order);
/* Does that nest run along an axis of `group` innermost? */
bool packs_along(const HostPlan *kp, const TileType *axes, int value, const TileType *group);
bool sink_reduces(const LoopSink *s);
bool sink_reduces_axis(const LoopSink *s, int axis);

#endif
