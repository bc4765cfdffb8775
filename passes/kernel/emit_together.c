/* One kernel for a product and what goes with it: sums over its operands, taken in its loops by the programs at one edge
 * of the grid, and further products that are added up from its value on. */
#include "passes/kernel/emitter.h"
#include "passes/algebra/slice_sums.h"
#include <string.h>

/* Programs that differ only along axes that the sum has not would all take the same one: is this the first of them? */
static int is_first(Emitter *e, const PlanNode *pn) {
    int first = -1;
    for (int d = 0; d < e->pk->p->rank; d++) {
        bool own = e->p_axis[d] < 0;
        for (int i = 0; i < pn->node->shape->rank; i++) own |= pn->axis[i] == d;
        if (own) continue;
        const int least = emit_scalar_of(e, OP_RMIN, tile_index(&e->b, e->p_index[d])), zero = emit_i32(e, 0);
        first = emit_and(e, first, emit_op(e, OP_EQ, DT_BOOL, least, zero));
    }
    return first < 0 ? tile_const(&e->b, DT_BOOL, 1) : first;
}

/* The first product; its value before it is rounded. */
static int emit_main(Emitter *e) {
    const PlanKernel *pk = e->pk;
    Node *n = pk->nodes.at[0].node;
    const Index *idx[MAX_RANK];
    LoopSums fused = {0};
    for (int i = 0; i < pk->nodes.n; i++) {
        const PlanNode *pn = &pk->nodes.at[i];
        if (pn->part != PART_SUM) continue;
        emit_place_of(e, pn, idx);
        fused.node[fused.n] = pn;
        fused.here[fused.n] = is_first(e, pn);
        fused.value[fused.n++] = emit_full_over(e, pn->node, idx, -1, 0);
    }
    Node sums = *n;
    sums.dtype = DT_F32;
    const int start = emit_full_over(e, &sums, e->p_index, -1, 0), product = emit_product(e, n, e->p_index, start, &fused);
    emit_remember(e, n, e->p_index, -1, emit_converted(e, product, n->dtype));
    for (int i = 0; i < fused.n; i++) {
        emit_place_of(e, fused.node[i], idx);
        emit_remember(e, fused.node[i]->node, idx, -1, fused.value[i]);
    }
    return product;
}

void emit_together(Emitter *e) {
    const PlanKernel *pk = e->pk;
    int sums = emit_main(e);
    const Node *last = pk->nodes.at[0].node; /* whose value `sums` is */
    for (int i = 0; i < pk->nodes.n; i++) {
        const PlanNode *pn = &pk->nodes.at[i];
        if (pn->part != PART_ONTO) continue;
        Node *other = pn->into->in[pn->into->in[0] == pn->node];
        const int start = other == last ? sums : emit_converted(e, emit_value(e, other, e->p_index, -1), DT_F32);
        tile_sums(e->context->target, pn->node, e->size.k);
        sums = emit_product(e, pn->node, e->p_index, start, NULL);
        last = pn->into;
        emit_remember(e, last, e->p_index, -1, emit_converted(e, sums, last->dtype));
    }
}

static bool same_side(const PlanNode *a, const PlanNode *b) {
    return a->node->shape->rank == b->node->shape->rank && memcmp(a->axis, b->axis, (size_t)a->node->shape->rank) == 0;
}

static bool is_side(const PlanNode *pn) { return pn->part == PART_SUM || pn->part == PART_AFTER_SUM; }

/* All values of a side, then all its stores. */
static void emit_side(Emitter *e, const PlanNode *side) {
    const PlanKernel *pk = e->pk;
    const Index *idx[MAX_RANK];
    int *value = ARENA_ARRAY(e->arena, int, pk->nodes.n);
    emit_place_of(e, side, idx);
    for (int i = 0; i < pk->nodes.n; i++) {
        const PlanNode *pn = &pk->nodes.at[i];
        if (is_side(pn) && pn->stored && same_side(pn, side)) value[i] = emit_value(e, pn->node, idx, -1);
    }
    for (int i = 0; i < pk->nodes.n; i++) {
        const PlanNode *pn = &pk->nodes.at[i];
        if (is_side(pn) && pn->stored && same_side(pn, side)) emit_store(e, pn->node, idx, value[i]);
    }
}

void emit_sides(Emitter *e) {
    const PlanKernel *pk = e->pk;
    for (int i = 0; i < pk->nodes.n; i++) {
        const PlanNode *side = &pk->nodes.at[i];
        bool seen = side->part != PART_SUM;
        for (int j = 0; j < i && !seen; j++) seen = is_side(&pk->nodes.at[j]) && same_side(&pk->nodes.at[j], side);
        if (seen) continue;
        Branch here = emit_if(e, is_first(e, side), 0, NULL);
        emit_side(e, side);
        emit_endif(e, &here, NULL, NULL);
    }
}

/* ---- sums over tiles -------------------------------------------------------------------------------------------------- */
/* The axis of which a slice is one tile. */
static int slices_axis(const Emitter *e, const Node *n, int *dim) {
    int64_t length;
    slices_summed(n, dim, &length);
    const Index *x = e->p_index[*dim];
    return x->n == 1 && x->term[0].atom.kind == ATOM_AXIS ? x->term[0].atom.id : -1;
}

int emit_slices(Emitter *e, const Node *n) {
    int dim;
    const int axis = slices_axis(e, n, &dim), v = emit_converted(e, emit_value(e, n->in[0]->in[0], e->p_index, -1), DT_F32);
    return emit_reduce_over(e, OP_SUM, v, 1, &axis);
}

void emit_store_slices(Emitter *e, const Node *n, int value) {
    const Index *idx[MAX_RANK];
    int dim;
    const int axis = slices_axis(e, n, &dim);
    idx[0] = axis < 0 ? index_const(e->arena, 0) : index_tile(e->k, axis);
    for (int d = 0; d < n->in[0]->in[0]->shape->rank; d++)
        if (d != dim) idx[d < dim ? d + 1 : d] = e->p_index[d];
    emit_store(e, n, idx, value);
}
