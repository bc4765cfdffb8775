/* fuse: whether a candidate fits a kernel, and where its dims lie in it.  Its constants are from `./dev bench fusion`. */
#include "passes/plan/fuse.h"
#include "ir/node_pool.h"
#include "passes/plan/slices.h"
#include "passes/plan/together.h"
#include "passes/kernel/matrix.h"
#include "passes/kernel/tile_size.h"
#include <string.h>

enum {
    KERNEL_NODES = 48, /* most nodes of one kernel */
    KERNEL_READS = 32, /* most buffers read by one kernel */
    ROW_PARALLEL = 32, /* fewest rows for which a map turns into a row kernel */
};

const PlanNode *fuse_find_in(const PlanKernel *k, const Node *n) {
    for (int i = 0; i < k->nodes.n; i++)
        if (k->nodes.at[i].node == n) return &k->nodes.at[i];
    return NULL;
}

PlanNode fuse_plain(Node *n) {
    PlanNode pn = {.node = n};
    for (int d = 0; d < n->shape->rank; d++) pn.axis[d] = (int8_t)d;
    return pn;
}

/* Every read of this kernel's own nodes must be at the element the program is at. */
static bool list_agrees(const PlanKernel *k, const AccessList *l, const PlanNode *pn, const int8_t *axis) {
    for (int i = 0; i < l->n; i++) {
        const PlanNode *a = fuse_find_in(k, l->at[i].node);
        if (!a) continue;
        if (plan_on_a_side(a) != plan_on_a_side(pn) || a->part == PART_SLICES || a->part == PART_TURNS) return false; /* no program has it, or not all */
        for (int d = 0; d < a->node->shape->rank; d++) {
            const int at = l->at[i].axis[d];
            if (at < 0 || axis[at] != a->axis[d]) return false;
        }
    }
    return true;
}

static bool reads_agree(const Fuse *f, const PlanKernel *k, const PlanNode *pn, const int8_t *axis) {
    return list_agrees(k, &f->access[pn->node->id], pn, axis);
}

static bool reads_any(const Fuse *f, const PlanKernel *k, const Node *n) {
    for (int i = 0; i < f->access[n->id].n; i++)
        if (fuse_find_in(k, f->access[n->id].at[i].node)) return true;
    return false;
}

/* The kernel reads all that n does, but for what is much smaller: with n it writes more and reads no more. */
static bool reads_known(const Fuse *f, const PlanKernel *k, const Node *n) {
    bool large = false;
    for (int i = 0; i < f->access[n->id].n; i++) {
        const Node *x = f->access[n->id].at[i].node;
        bool known = shape_elements(*x->shape) <= shape_elements(*n->shape) / SLICES_MUCH_SMALLER;
        large |= !known;
        for (int r = 0; r < k->reads.n && !known; r++) known = k->reads.at[r] == x;
        if (!known && !fuse_find_in(k, x)) return false;
    }
    return large;
}

/* An elementwise root over exactly the parallel dims. */
static bool join_parallel(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    if (!shape_same(pn->node->shape, k->p)) return false;
    if ((k->kind == KERNEL_CONTRACT || k->kind == KERNEL_SCATTER) && !reads_any(f, k, pn->node) && !pn->node->again && !reads_known(f, k, pn->node)) return false;
    *pn = fuse_plain(pn->node);
    return reads_agree(f, k, pn, pn->axis);
}

/* What is computed of the sums, element by element.  Where parameters are written their old values are read in other rows too, if
 * what is scattered is made of them. */
static bool join_scatter(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    const AccessList *l = &f->access[k->nodes.at[0].node->id];
    bool own = op_info[pn->node->op].cls == CLASS_ELEMENT;
    for (int i = 0; i < l->n && f->graph->entry == ENTRY_STEP; i++)
        own &= l->at[i].node->op != OP_PARAM && l->at[i].node->op != OP_STATE;
    return own && reads_any(f, k, pn->node) && join_parallel(f, k, pn);
}

/* ---- beside and after a product ---------------------------------------------------------------------------------- */
static bool is_shared(const Fuse *f, const PlanKernel *k) {
    return k->kind == KERNEL_CONTRACT && !k->sample && f->merge && !f->data && product_shares(k->nodes.at[0].node);
}

/* A sum over an operand of the product that opened the kernel. */
static bool join_sum(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    int8_t loop[MAX_RANK];
    int fused = 0;
    for (int i = 0; i < k->nodes.n; i++) fused += k->nodes.at[i].part == PART_SUM;
    if (fused == MAX_RANK || !is_shared(f, k) || !target_takes_sums(f->target, k->nodes.at[0].node)) return false;
    const int operand = sum_fits_loop(pn->node, k->nodes.at[0].node, loop);
    if (operand < 0) return false;
    pn->part = PART_SUM;
    pn->operand = (int8_t)operand;
    memcpy(pn->axis, loop, sizeof *loop * (size_t)pn->node->shape->rank);
    return true;
}

/* ---- sums over tiles of what a product's kernel computes --------------------------------------------------------- */
/* All that the sum reads beside the kernel's own values, and what the kernel reads as well, is much smaller than its
 * operand. */
static bool reads_little(const Fuse *f, const PlanKernel *k, const Node *sum) {
    for (int i = 0; i < f->access[sum->id].n; i++) {
        const Node *x = f->access[sum->id].at[i].node;
        bool known = fuse_find_in(k, x) != NULL;
        for (int r = 0; r < k->reads.n; r++) known |= k->reads.at[r] == x;
        if (!known && shape_elements(*x->shape) > shape_elements(*sum->in[0]->shape) / SLICES_MUCH_SMALLER) return false;
    }
    return true;
}

/* n is computed from `sum`, a few steps behind it. */
static bool waits_for(const Node *n, const Node *sum, int *steps) {
    if (n == sum) return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->id >= sum->id && (*steps)-- > 0 && waits_for(n->in[i], sum, steps)) return true;
    return false;
}

static bool reads_what_waits(const Fuse *f, const Node *n, const Node *sum) {
    enum { STEPS = 16 };
    for (int i = 0; i < f->access[n->id].n; i++) {
        int steps = STEPS;
        if (waits_for(f->access[n->id].at[i].node, sum, &steps)) return true;
    }
    return false;
}

/* Another sum over slices of the kernel's values has to read them from memory, and can when `sum` does: one more takes nothing there. */
static bool read_anyway(const Fuse *f, const PlanKernel *k, const Node *sum) {
    int dim;
    int64_t length;
    for (int i = 0; i < f->n; i++) {
        const Node *n = f->graph->nodes.at[i];
        if (f->candidate[i] && n->phase == sum->phase && slices_summed(n, &dim, &length) && reads_any(f, k, n) && !reads_little(f, k, n) &&
            !reads_what_waits(f, n, sum))
            return true;
    }
    return false;
}

/* Slices as long as a tile of the product, whichever side it is; one kernel has slices of one length. */
static bool join_slices(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    int dim, other;
    int64_t length, others;
    AccessList reads = {0};
    if (!is_shared(f, k) || !slices_summed(pn->node, &dim, &length)) return false;
    Node *x = pn->node->in[0]->in[0];
    const Node *product = k->nodes.at[0].node;
    if (!f->target || !shape_same(x->shape, k->p) || !matrix_has_slice(f->target, product, dim, length)) return false;
    for (int i = 0; i < k->nodes.n; i++)
        if (k->nodes.at[i].part == PART_SLICES &&
            (!slices_summed(k->nodes.at[i].node, &other, &others) || other != dim || others != length))
            return false;
    access_collect_value(f->arena, f->candidate, x, &reads);
    for (int i = 0; i < reads.n; i++) {
        const PlanNode *a = fuse_find_in(k, reads.at[i].node);
        for (int d = 0; a && d < a->node->shape->rank; d++)
            if (reads.at[i].axis[d] < 0 || reads.at[i].axis[d] != a->axis[d]) return false;
    }
    if (!reads_any(f, k, pn->node) || !reads_little(f, k, pn->node) || read_anyway(f, k, pn->node)) return false;
    pn->part = PART_SLICES;
    pn->axis[0] = -1;
    for (int d = 1; d < pn->node->shape->rank; d++) pn->axis[d] = (int8_t)(d <= dim ? d - 1 : d);
    return true;
}

/* What is elementwise after it. */
static bool join_after_sum(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    if (k->kind != KERNEL_CONTRACT || !reads_any(f, k, pn->node)) return false;
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *a = &k->nodes.at[i];
        if (!plan_on_a_side(a) || !shape_same(a->node->shape, pn->node->shape)) continue;
        PlanNode side = {.node = pn->node, .part = PART_AFTER_SUM};
        memcpy(side.axis, a->axis, sizeof side.axis);
        if (!reads_agree(f, k, &side, side.axis)) continue;
        *pn = side;
        return true;
    }
    return false;
}

/* A reduction over all columns of what is elementwise after a product: they are whole in each program. */
static bool join_columns(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    const Node *n = pn->node, *x = n->in[0];
    if (n->op == OP_ARGMAX || n->op == OP_SCAN || !shape_same(n->shape, k->p)) return false;
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *a = &k->nodes.at[i];
        int8_t local[2 * MAX_RANK], gone = (int8_t)n->shape->rank, kept = 0;
        bool fits = shape_same(a->node->shape, x->shape);
        PlanNode after = fuse_plain(pn->node);
        for (int d = 0; d < x->shape->rank && fits; d++) {
            const bool column = a->axis[d] >= k->p->rank;
            const int sum = gone - n->shape->rank;
            fits = column ? sum < n->attr->n_axes && n->attr->axes[sum] == d : a->axis[d] == kept;
            local[column ? gone++ : kept++] = a->axis[d];
        }
        if (!fits || gone - n->shape->rank != n->attr->n_axes || !reads_agree(f, k, &after, local)) continue;
        for (int d = n->shape->rank; d < x->shape->rank; d++) after.axis[d] = local[d];
        *pn = after;
        return true;
    }
    return false;
}

/* What is elementwise after members of a stream. */
static bool join_stream(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    if (!reads_any(f, k, pn->node)) return false;
    if (op_info[pn->node->op].cls == CLASS_REDUCE) return join_columns(f, k, pn);
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *a = &k->nodes.at[i];
        PlanNode after = {.node = pn->node};
        if (!shape_same(a->node->shape, pn->node->shape)) continue;
        memcpy(after.axis, a->axis, sizeof after.axis);
        if (!reads_agree(f, k, &after, after.axis)) continue;
        *pn = after;
        return true;
    }
    return false;
}

/* A value over parallel and row dims: its dims find their axes through what it reads. */
static bool place_in_row(const PlanKernel *k, Node *n, const AccessList *reads, PlanNode *pn) {
    const int rank = n->shape->rank, np = k->p->rank;
    int8_t axis[MAX_RANK];
    if (k->kind != KERNEL_ROW || rank != np + k->r->rank || rank == 0) return false;
    memset(axis, -1, sizeof axis);
    bool found = false, used[2 * MAX_RANK] = {0};
    for (int i = 0; i < reads->n; i++) {
        const Access *l = &reads->at[i];
        const PlanNode *a = fuse_find_in(k, l->node);
        if (!a) continue;
        found = true;
        for (int d = 0; d < a->node->shape->rank; d++) {
            if (l->axis[d] < 0) return false;
            axis[l->axis[d]] = a->axis[d];
        }
    }
    for (int d = 0; d < rank; d++)
        if (axis[d] >= 0) {
            if (used[axis[d]]) return false;
            used[axis[d]] = true;
        }
    int next = found ? np : 0; /* with no read to go by, dims must stand in the kernel's order */
    for (int d = 0; d < rank; d++) {
        if (axis[d] >= 0) continue;
        while (next < rank && used[next]) next++;
        if (next == rank) return false;
        axis[d] = (int8_t)next;
        used[next++] = true;
    }
    for (int d = 0; d < rank; d++) {
        const Dim e = axis[d] < np ? k->p->dim[axis[d]] : k->r->dim[axis[d] - np];
        if (!used[d] || !dim_equal(e, n->shape->dim[d])) return false;
    }
    if (axis[rank - 1] < np) return false; /* the row must be contiguous */
    *pn = fuse_plain(n);
    memcpy(pn->axis, axis, sizeof axis);
    pn->in_row = true;
    return list_agrees(k, reads, pn, axis);
}

/* An elementwise root along the row. */
static bool join_row(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    return place_in_row(k, pn->node, &f->access[pn->node->id], pn);
}

/* A reduction with the kernel's rows and row dims. */
static bool join_reduce(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    const Shape r = access_reduced(pn->node);
    int8_t local[2 * MAX_RANK];
    if (k->kind != KERNEL_ROW || !shape_same(pn->node->shape, k->p) || !shape_equal(r, *k->r)) return false;
    *pn = fuse_plain(pn->node);
    for (int i = 0; i < 2 * MAX_RANK; i++) local[i] = (int8_t)i;
    return reads_agree(f, k, pn, local);
}

/* A reduction of a map's values turns the map into a row kernel when the rows stay many and contiguous. */
static bool map_to_row(const Fuse *f, PlanKernel *k, PlanNode *pn) {
    const Node *n = pn->node;
    const Shape r = access_reduced(n);
    const int np = n->shape->rank;
    if (k->kind != KERNEL_MAP || k->p->rank != np + r.rank || shape_elements(*n->shape) < ROW_PARALLEL) return false;
    const Access *via = NULL;
    for (int i = 0; i < f->access[n->id].n; i++) {
        const Access *l = &f->access[n->id].at[i];
        if (!fuse_find_in(k, l->node)) continue;
        if (via && memcmp(via->axis, l->axis, (size_t)k->p->rank)) return false;
        via = l;
    }
    if (!via) return false;
    bool used[2 * MAX_RANK] = {0};
    for (int d = 0; d < k->p->rank; d++) {
        if (via->axis[d] < 0 || used[via->axis[d]]) return false;
        used[via->axis[d]] = true;
    }
    if (via->axis[k->p->rank - 1] < np) return false;
    for (int i = 0; i < k->nodes.n; i++) {
        if (f->output[k->nodes.at[i].node->id]) return false;
        memcpy(k->nodes.at[i].axis, via->axis, (size_t)k->p->rank);
        k->nodes.at[i].in_row = true;
    }
    k->kind = KERNEL_ROW;
    k->p = n->shape;
    k->r = node_pool_shape(f->graph->pool, &r);
    *pn = fuse_plain(pn->node);
    return true;
}

/* ---- sums over rows, in slices ------------------------------------------------------------------------------------ */
/* Threads keep a sum of each of their elements of the row, for every such sum. */
static bool has_room_for_sum(const Fuse *f, const PlanKernel *k) {
    int sums = 1;
    for (int i = 0; i < k->nodes.n; i++) sums += k->nodes.at[i].part == PART_SLICES;
    return tile_walks_whole_rows(f->target, k) && sums * tile_row_registers(f->target, k->r) <= ROW_SLICE_REGISTERS;
}

/* The kernel's programs walk whole slices of rows. */
static bool join_row_slices(const Fuse *f, PlanKernel *k, PlanNode *pn) {
    int dim;
    int64_t length;
    AccessList reads = {0};
    PlanNode at;
    if (k->kind != KERNEL_ROW || !f->target || !slices_summed(pn->node, &dim, &length)) return false;
    Node *x = pn->node->in[0]->in[0];
    access_collect_value(f->arena, f->candidate, x, &reads);
    if (!place_in_row(k, x, &reads, &at)) return false;
    const int rows = at.axis[dim];
    if (rows >= k->p->rank || !dim_is_fixed(k->p->dim[rows]) || k->p->dim[rows].bound % length) return false; /* all rows are there */
    if (k->sliced && (k->sliced - 1 != rows || k->slice != length)) return false;
    if (!has_room_for_sum(f, k) || !reads_little(f, k, pn->node)) return false;
    k->sliced = rows + 1;
    k->slice = length;
    pn->part = PART_SLICES;
    memcpy(pn->axis, at.axis, sizeof pn->axis);
    return true;
}

/* A map whose rows are summed becomes a row kernel that reduces no row. */
static bool map_to_slices(const Fuse *f, PlanKernel *k, PlanNode *pn) {
    const int rows = k->p->rank - 1;
    PlanKernel row = *k;
    Shape p = {.rank = rows}, r = {.rank = 1};
    if (k->kind != KERNEL_MAP || rows < 1) return false;
    for (int d = 0; d < rows; d++) p.dim[d] = k->p->dim[d];
    r.dim[0] = k->p->dim[rows];
    row.kind = KERNEL_ROW;
    row.p = node_pool_shape(f->graph->pool, &p);
    row.r = node_pool_shape(f->graph->pool, &r);
    if (!join_row_slices(f, &row, pn)) return false;
    *k = row;
    for (int i = 0; i < k->nodes.n; i++) k->nodes.at[i].in_row = true;
    return true;
}

/* The caller may leave an output out: a kernel that writes one writes nothing else. */
static bool output_allows(const Fuse *f, const PlanKernel *k, const Node *n) {
    for (int i = 0; i < k->nodes.n; i++) {
        const Node *a = k->nodes.at[i].node;
        if (f->output[a->id]) return false;
        if (!f->output[n->id]) continue;
        if (f->result[a->id]) return false;
        int inside = 0;
        for (int j = 0; j <= k->nodes.n; j++) {
            const Node *b = j < k->nodes.n ? k->nodes.at[j].node : n;
            for (int l = 0, seen = 0; l < f->access[b->id].n && !seen; l++)
                seen = f->access[b->id].at[l].node == a, inside += seen;
        }
        if (inside < f->readers[a->id]) return false;
    }
    return true;
}

Node *fuse_sum_with(const Fuse *f, const Node *n) {
    Node *add = fuse_users(&f->uses, n) == 1 ? f->uses.user[f->uses.first[n->id]] : NULL;
    return add && f->adds[add->id] ? add : NULL;
}

/* A product that nothing but the sum with a value of the kernel reads: it is added up from that value on. */
static bool join_onto(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    enum { MOST = 4 }; /* their tiles stand beside each other in a GPU's shared memory */
    const Node *n = pn->node;
    int onto = 0;
    Node *add = fuse_sum_with(f, n);
    if (!is_shared(f, k) || !target_adds_up(f->target, k->nodes.at[0].node, n) || !output_allows(f, k, add))
        return false;
    for (int i = 0; i < k->nodes.n; i++) onto += k->nodes.at[i].part == PART_ONTO;
    if (onto + 1 >= MOST || k->nodes.n + 2 > KERNEL_NODES) return false;
    if (!shape_same(n->shape, k->p) || !products_alike(n, k->nodes.at[0].node)) return false;
    if (!matrix_adds_up_pays(f->target, k->nodes.at[0].node, onto + 2)) return false;
    pn->part = PART_ONTO;
    pn->into = add;
    return true;
}

/* A call that leaves outputs out runs no more kernels than it needs.  What follows a stream may be of fewer calls than it, if all else that
 * it reads is there in each of them: not to read the stream's result again is worth more than what such calls compute in vain. */
static bool same_calls(const Fuse *f, const PlanKernel *k, const Node *n) {
    if (!f->wanted || f->wanted[k->nodes.at[0].node->id] == f->wanted[n->id]) return true;
    uint64_t calls = 0;
    for (int i = 0; i < k->nodes.n && k->kind == KERNEL_STREAM; i++) calls |= f->wanted[k->nodes.at[i].node->id];
    bool there = (f->wanted[n->id] & ~calls) == 0;
    for (int l = 0; l < f->access[n->id].n && there; l++) {
        const Node *read = f->access[n->id].at[l].node;
        there = op_is_memory(read->op) || fuse_find_in(k, read) || (calls & ~f->wanted[read->id]) == 0;
    }
    return there;
}

/* Of a row: where the greatest is takes one more than which it is. */
static int sweeps_of(const Node *n) { return op_info[n->op].cls != CLASS_REDUCE ? 0 : n->op == OP_ARGMAX ? 2 : 1; }

/* A reduction that walks the row in chunks has loops of its own; so has what is stored along the row. */
static bool axes_allow(const PlanKernel *k, const Node *n) {
    int sweeps = 1 + sweeps_of(n);
    for (int i = 0; i < k->nodes.n; i++) sweeps += sweeps_of(k->nodes.at[i].node);
    return k->p->rank + sweeps * k->r->rank <= MAX_AXES;
}

/* The result is complete only when all programs have gone through all samples. */
static bool sums_samples(const PlanKernel *k) {
    return k->sample && k->sample - 1 >= k->nodes.at[0].node->attr->contract->n_out;
}

FusionId fuse_try_join(const Fuse *f, PlanKernel *k, Node *n, PlanNode *pn) {
    static const FusionId parallel[] = {[KERNEL_MAP] = FUSION_map_chain,
                                        [KERNEL_ROW] = FUSION_row_epilogue,
                                        [KERNEL_CONTRACT] = FUSION_contract_epilogue};
    *pn = (PlanNode){.node = n};
    if (!same_calls(f, k, n)) return FUSION_COUNT;
    if (k->nodes.n >= KERNEL_NODES || k->reads.n + f->access[n->id].n > KERNEL_READS) return FUSION_COUNT;
    if (sums_samples(k)) return FUSION_COUNT;
    if (k->kind == KERNEL_SCAN || k->kind == KERNEL_BUCKET || !output_allows(f, k, n)) return FUSION_COUNT;
    if (!axes_allow(k, n)) return FUSION_COUNT;
    if (k->kind == KERNEL_SCATTER) return join_scatter(f, k, pn) ? FUSION_scatter_epilogue : FUSION_COUNT;
    if (k->kind == KERNEL_STREAM) return join_stream(f, k, pn) ? FUSION_stream_epilogue : FUSION_COUNT;
    if (n->op == OP_CONTRACT && fuse_is_heavy(n)) return join_onto(f, k, pn) ? FUSION_contract_onto : FUSION_COUNT;
    if (op_info[n->op].cls == CLASS_REDUCE) {
        if (join_sum(f, k, pn)) return FUSION_contract_sum;
        if (join_slices(f, k, pn)) return FUSION_contract_slices;
        if (join_row_slices(f, k, pn) || map_to_slices(f, k, pn)) return FUSION_row_slices;
        if (join_reduce(f, k, pn)) return FUSION_row_reduction;
        return map_to_row(f, k, pn) ? FUSION_map_to_row : FUSION_COUNT;
    }
    if (join_parallel(f, k, pn)) return parallel[k->kind];
    if (join_after_sum(f, k, pn)) return FUSION_contract_sum_epilogue;
    return join_row(f, k, pn) ? FUSION_row_element : FUSION_COUNT;
}
