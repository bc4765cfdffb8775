/* Which tile values live in memory, and when instructions are evaluated together.
 *
 * A tile value is by default not stored: it is evaluated inside the loop nest of its consumers (SINKS:
 * store, reduce, dot, stage, yield, the start of a loop-carried value, a condition, a kept value).
 * A value is KEPT, in a buffer on the stack that is filled where the value is defined, when
 *   1. it is the result of a reduce, a dot, a stage, or enters, is carried through, or leaves a loop or an if;
 *   2. it reads memory that a later instruction overwrites before a consumer is evaluated;
 *   3. evaluating it costs more than KEEP_COST and it would be evaluated more than once: by consumers in
 *      different nests, in a loop it does not belong to, or in a nest with axes that it has not.
 * Rule 3 stops where the buffers of the kernel would pass STACK_BYTES; the others do not.
 *
 * Consecutive sinks over the same axes form a GROUP: one loop nest.  A sink joins when it does not read a
 * reduction of the group, and every load of memory that the group stores to comes before the store and
 * is at the very place it stores.  A group is evaluated at its last member.
 *
 * Storage is shared along chains of updates: a loop's start, its carried value and its result; a dot's
 * accumulator and result; an if's start and result; where the older value has no later use.
 *
 * An axis of step 1 that cannot be empty has one lane and is left out of nests and storage (TRIVIAL). */
#ifndef FUSEC_CODEGEN_SCHEDULE_VALUES_H
#define FUSEC_CODEGEN_SCHEDULE_VALUES_H
#include "ir/tile.h"

enum { STACK_BYTES = 256 << 10, KEEP_COST = 8 };

typedef struct Storage {
    DType dtype;
    int n; /* non-trivial axes, outermost first */
    int8_t axis[MAX_TILE_AXES];
    int64_t stride[MAX_TILE_AXES], elements; /* the innermost is padded to whole vectors */
    int n_columns;                           /* dot result: how many trailing axes are columns; 0: not a dot's */
    bool joint; /* dot result: the last axis lies close within the one before, of groups; together they fill vectors */
} Storage;

typedef struct ValueInfo {
    const Inst *def;
    int pos, loop; /* of the definition: position, and that of the innermost FOR around it (-1: none) */
    bool kept;
    int storage;    /* kept: index into Values.storage */
    uint64_t *uses; /* positions of the sinks that evaluate it, one bit each */
} ValueInfo;

typedef struct InstInfo {
    const Inst *inst;
    int end;         /* position of the last instruction inside (its own if it has no body) */
    int loop, block; /* innermost FOR around it; innermost FOR or IF around it; -1: none */
    int group;       /* of sinks that are evaluated in groups; -1 otherwise */
    uint64_t *reads; /* sinks: values evaluated or read for it, one bit each */
} InstInfo;

typedef struct Values {
    Arena *arena;
    const Kernel *k;
    int vector;       /* f32 lanes of a machine vector */
    VEC(InstInfo) at; /* in program order, bodies in place */
    ValueInfo *value;
    VEC(Storage) storage;
    int64_t stack_bytes;
    int votes[MAX_AXES]; /* contiguous accesses along each axis */
} Values;

void values_plan(Values *v, Arena *a, const Kernel *k, int vector);

bool axis_trivial(const Kernel *k, int axis);
/* Every tile has all lanes of its step. */
static inline bool axis_whole(const Kernel *k, int axis) {
    const Axis *x = &k->axes.at[axis];
    return dim_is_fixed(x->extent) && x->extent.bound > 0 && x->extent.bound % x->step == 0;
}
/* Axes of the nest that evaluates sink `i` (STORE: those of value, mask and place; others: of the operand or result).
 */
TileType sink_axes(const Kernel *k, const Inst *i);
bool is_sink(const Values *v, const Inst *i);
/* Element offset of an access = coef * axis + rest; false if the axis occurs elsewhere. */
bool access_affine(const Kernel *k, const Inst *i, int axis, int64_t *coef);
static inline bool bit_get(const uint64_t *b, int i) { return b[i / 64] >> (i % 64) & 1; }
static inline void bit_set(uint64_t *b, int i) { b[i / 64] |= (uint64_t)1 << (i % 64); }
static inline bool same_storage(const Values *v, int a, int b) {
    return v->value[a].kept && v->value[b].kept && v->value[a].storage == v->value[b].storage;
}

#endif
