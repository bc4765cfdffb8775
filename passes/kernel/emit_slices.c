/* Sums over rows, taken by the programs that walk them: a slice of rows a program, one tile after the other. */
#include "passes/kernel/emitter.h"
#include "passes/kernel/tile_size.h"
#include <assert.h>

void emit_slices_axis(Emitter *e, const char *name) {
    const PlanKernel *pk = e->pk;
    e->slices_axis = kernel_axis(e->k, name, AXIS_GRID, dim_fixed(pk->p->dim[pk->sliced - 1].bound / pk->slice), 1);
}

/* A tile's rows have lanes of their own, each of which adds up its own rows: they are added up at the end. */
void emit_slice_axis(Emitter *e) {
    const PlanKernel *pk = e->pk;
    const int d = pk->sliced - 1, rows = e->size.p[d];
    e->p_axis[d] = kernel_axis(e->k, "s", AXIS_LOOP, dim_fixed(pk->slice / rows), 1);
    e->rows_axis = rows > 1 ? kernel_axis(e->k, "t", AXIS_SPAN, dim_fixed(rows), rows) : -1;
    const Index *tile = index_add(e->k, index_scale(e->k, index_axis(e->k, e->slices_axis), pk->slice),
                                  index_scale(e->k, index_axis(e->k, e->p_axis[d]), rows));
    e->p_index[d] = rows > 1 ? index_add(e->k, tile, index_axis(e->k, e->rows_axis)) : tile;
}

/* Of the slice's sums, whose dims are the slice and then those of what is summed but its rows. */
static void sums_place(const Emitter *e, const PlanNode *pn, const Index **idx) {
    const Index *summed[MAX_RANK];
    int kept = 0;
    emit_place_of(e, pn, summed);
    idx[kept++] = index_axis(e->k, e->slices_axis);
    for (int d = 0; d < pn->node->shape->rank; d++)
        if (pn->axis[d] != e->pk->sliced - 1) idx[kept++] = summed[d];
}

/* What is read at the same place in all rows is read once: scalars, and what has the row's dims alone, as long as a thread has
 * registers for them beside the sums. */
static void read_before(Emitter *e, int sums) {
    const int each = tile_row_registers(e->context->target, e->pk->r);
    int taken = sums * each;
    for (int i = 0; i < e->pk->reads.n; i++) {
        Node *n = e->pk->reads.at[i];
        const bool of_row = n->shape->rank && shape_same(n->shape, e->pk->r) && taken + each <= ROW_SLICE_REGISTERS;
        if (of_row) taken += each;
        if (of_row || n->shape->rank == 0) emit_value(e, n, e->r_index, -1);
    }
}

/* A tile of zeros over the axes of n at idx, but for the loop's. */
static int zero_over(Emitter *e, const Node *n, const Index *const *idx, int loop) {
    TileType all = {0}, kept = {.dtype = DT_F32};
    for (int d = 0; d < n->shape->rank; d++) index_axes(e->k, idx[d], &all);
    for (int i = 0; i < all.n_axes; i++)
        if (all.axis[i] != loop) kept.axis[kept.n_axes++] = all.axis[i];
    return tile_full(&e->b, kept, 0);
}

void emit_slices_begin(Emitter *e, SliceSums *s) {
    const PlanKernel *pk = e->pk;
    const int loop = e->p_axis[pk->sliced - 1], room = 2 * pk->nodes.n;
    assert(e->size.row_span);
    *s = (SliceSums){.node = ARENA_ARRAY(e->arena, const PlanNode *, pk->nodes.n)};
    s->carry = ARENA_ARRAY(e->arena, int, room);
    s->next = ARENA_ARRAY(e->arena, int, room);
    s->result = ARENA_ARRAY(e->arena, int, room);
    s->is_long = emit_sum_is_long(e, 1, &loop, false);
    for (int i = 0; i < pk->nodes.n; i++)
        if (pk->nodes.at[i].part == PART_SLICES) s->node[s->n++] = &pk->nodes.at[i];
    read_before(e, s->n);
    for (int i = 0; i < s->n; i++) {
        const Index *idx[MAX_RANK];
        emit_place_of(e, s->node[i], idx);
        s->carry[i] = s->carry[s->n + i] = zero_over(e, s->node[i]->node->in[0]->in[0], idx, loop);
    }
    int *start = arena_dup(e->arena, s->carry, sizeof(int) * (size_t)room);
    nest_begin(e, &s->nest, 1, &loop, s->n * (1 + s->is_long), start, s->carry);
}

void emit_slices_add(Emitter *e, SliceSums *s) {
    const int loop = e->p_axis[e->pk->sliced - 1];
    for (int i = 0; i < s->n; i++) {
        const Index *idx[MAX_RANK];
        Node *x = s->node[i]->node->in[0]->in[0];
        emit_place_of(e, s->node[i], idx);
        const int v = emit_reduce_over(e, OP_SUM, emit_converted(e, emit_value(e, x, idx, -1), DT_F32), 1, &loop);
        s->next[s->n + i] = s->carry[s->n + i];
        s->next[i] = s->is_long ? emit_add_compensated(e, s->carry[i], v, &s->next[s->n + i])
                                : emit_op(e, OP_ADD, DT_F32, s->carry[i], v);
    }
}

void emit_slices_end(Emitter *e, SliceSums *s) {
    nest_end(e, &s->nest, s->next, s->result);
    for (int i = 0; i < s->n; i++) {
        const Index *idx[MAX_RANK];
        sums_place(e, s->node[i], idx);
        emit_store(e, s->node[i]->node, idx, emit_reduce_over(e, OP_SUM, s->result[i], 1, &e->rows_axis));
    }
}
