/* The order of a loop nest's axes: which is innermost. */
#include "codegen/schedule/schedule.h"
#include <string.h>

bool sink_reduces(const LoopSink *s) { return s->kind == SINK_REDUCE || s->kind == SINK_DOT; }

bool sink_reduces_axis(const LoopSink *s, int axis) {
    for (int o = 0; o < s->inst->n_over; o++)
        if (s->inst->over[o] == axis) return true;
    return false;
}

typedef struct AxisScore {
    int contiguous;
    int64_t stride; /* in the first access that has the axis */
} AxisScore;

static void score(AxisScore *s, int weight, int64_t coef) {
    if (coef == 1) s->contiguous += weight;
    if (s->stride == 0) s->stride = coef < 0 ? -coef : coef;
}

static void score_access(const HostPlan *kp, const Inst *i, int weight, AxisScore *s) {
    for (int x = 0; x < kp->k->axes.n; x++) {
        int64_t coef;
        if (access_affine(kp->k, i, x, &coef)) score(&s[x], weight, coef);
    }
}

static void score_storage(const HostPlan *kp, int storage, int weight, AxisScore *s) {
    const Storage *m = &kp->v->storage.at[storage];
    for (int i = 0; i < m->n; i++) score(&s[m->axis[i]], weight, m->stride[i]);
}

/* Everything that value reads in this nest. */
static void score_value(const HostPlan *kp, int value, bool *seen, AxisScore *s) {
    const ValueInfo *info = &kp->v->value[value];
    if (seen[value]) return;
    seen[value] = true;
    if (info->kept) score_storage(kp, info->storage, 1, s);
    if (info->kept || !info->def) return;
    if (info->def->kind == TI_LOAD) score_access(kp, info->def, 1, s);
    for (int n = 0; n < info->def->n_in; n++) score_value(kp, info->def->in[n], seen, s);
}

/* Is some load of the kernel contiguous along the axis? */
static bool loads_along(const HostPlan *kp, const Block *b, int axis) {
    int64_t coef;
    for (int i = 0; i < b->n; i++) {
        const Inst *inst = b->at[i];
        if (inst->kind == TI_LOAD && access_affine(kp->k, inst, axis, &coef) && coef == 1) return true;
        if (loads_along(kp, &inst->body, axis)) return true;
    }
    return false;
}

/* Does some load of rows that an index picks take one element of each along the axis, or pick another for each? */
static bool picked_apart(const HostPlan *kp, const Block *b, int axis) {
    for (int i = 0; i < b->n; i++) {
        const Inst *inst = b->at[i];
        const bool picks = inst->kind == TI_LOAD && subscripts_gather(inst);
        int64_t coef;
        if (picks && (!access_affine(kp->k, inst, axis, &coef) || (coef != 0 && coef != 1))) return true;
        if (picked_apart(kp, &inst->body, axis)) return true;
    }
    return false;
}

enum { VECTOR = 8 }; /* elements: of a short one */

/* How good an axis is as the innermost: a summed one that is contiguous in memory, unless it is shorter than a vector
 * (the window of a pooling) or a table's rows would be read across; then another one that is contiguous; then that
 * window. */
static int worth_as_inner(const HostPlan *kp, int axis, bool summed) {
    if (!loads_along(kp, &kp->k->body, axis)) return 0;
    if (!summed) return 2;
    return kp->k->axes.at[axis].extent.bound < VECTOR || picked_apart(kp, &kp->k->body, axis) ? 1 : 3;
}

/* A nest that sums: the order of its additions must follow from the sum and from what the kernel reads, not from what
 * else it keeps or stores, so that a value recomputed from the same reads is the same to the bit.  Axes stand as the
 * kernel names them; innermost is the last of the best.  Where nothing is read along any, what is summed was computed here: then
 * lanes are sums, not terms of one, of few terms: each is added by itself, and of 128 times 0.1 the sum is 1e-6 off. */
static int sum_order(const HostPlan *kp, const TileType *axes, int n, const LoopSink *sinks, int8_t *order) {
    enum { FEW_TERMS = 128 };
    int count = 0, best = -1, most = 0, beside = -1;
    int64_t terms = 1;
    for (int i = 0; i < axes->n_axes; i++) {
        const int axis = axes->axis[i];
        bool summed = false;
        if (axis_trivial(kp->k, axis)) continue;
        for (int k = 0; k < n; k++) summed |= sink_reduces(&sinks[k]) && sink_reduces_axis(&sinks[k], axis);
        const int worth = worth_as_inner(kp, axis, summed);
        if (worth && worth >= most) best = count, most = worth;
        if (!summed && kp->k->axes.at[axis].step >= VECTOR) beside = count;
        if (summed) terms *= kp->k->axes.at[axis].step;
        order[count++] = (int8_t)axis;
    }
    if (best < 0 && terms <= FEW_TERMS) best = beside;
    if (best >= 0) {
        const int8_t inner = order[best];
        memmove(order + best, order + best + 1, (size_t)(count - 1 - best));
        order[count - 1] = inner;
    }
    return count;
}

int loop_order(const HostPlan *kp, const TileType *axes, int n, const LoopSink *sinks, int8_t *order) {
    AxisScore s[MAX_AXES] = {0};
    bool *seen = ARENA_ARRAY(kp->arena, bool, kp->k->types.n + 1);
    for (int i = 0; i < n; i++)
        if (sink_reduces(&sinks[i])) return sum_order(kp, axes, n, sinks, order);
    for (int i = 0; i < n; i++)
        if (sinks[i].kind == SINK_STORE) score_access(kp, sinks[i].inst, 4, s);
    for (int i = 0; i < n; i++) {
        const Inst *inst = sinks[i].inst;
        if (sinks[i].kind == SINK_KEEP && inst) /* defined here: its own operands */
            for (int o = 0; o < inst->n_in; o++) score_value(kp, inst->in[o], seen, s);
        if (sinks[i].kind == SINK_KEEP && inst && inst->kind == TI_LOAD)
            score_access(kp, inst, 1, s);
        else if (sinks[i].kind == SINK_KEEP || sinks[i].kind == SINK_PACK)
            score_value(kp, sinks[i].value, seen, s);
        else
            for (int o = 0; inst && o < inst->n_in; o++) score_value(kp, inst->in[o], seen, s);
        if (sinks[i].kind == SINK_KEEP) score_storage(kp, sinks[i].storage, 1, s);
    }
    int count = 0;
    for (int i = 0; i < axes->n_axes; i++) {
        if (axis_trivial(kp->k, axes->axis[i])) continue;
        int at = count++;
        for (; at > 0 && s[order[at - 1]].stride < s[axes->axis[i]].stride; at--) order[at] = order[at - 1];
        order[at] = axes->axis[i];
    }
    int best = count - 1;
    for (int i = count - 1; i >= 0; i--)
        if (s[order[i]].contiguous > s[order[best]].contiguous) best = i;
    if (count) {
        const int8_t inner = order[best];
        memmove(order + best, order + best + 1, (size_t)(count - 1 - best));
        order[count - 1] = inner;
    }
    return count;
}

int pack_order(const HostPlan *kp, const TileType *axes, int value, int8_t *order) {
    return loop_order(kp, axes, 1, &(LoopSink){.kind = SINK_PACK, .value = value}, order);
}

bool packs_along(const HostPlan *kp, const TileType *axes, int value, const TileType *group) {
    int8_t order[MAX_TILE_AXES];
    const int n = pack_order(kp, axes, value, order);
    return n > 0 && tile_type_has(group, order[n - 1]);
}
