#include "passes/plan/slices.h"
#include "passes/algebra/access.h"
#include "passes/algebra/contract_class.h"
#include "passes/kernel/matrix.h"
#include "passes/kernel/tile_size.h"
#include <string.h>

/* ---- what sums read ------------------------------------------------------------------------------------------- */
typedef struct SumFinder {
    const PassContext *context;
    const Plan *p;
    Arena *arena;
    bool *memory;   /* by node id */
    bool *by_row;   /* by node id: a kernel reads or writes it row by row */
    Slices *made;
    AccessList read; /* by the sum at hand */
} SumFinder;

/* A sum over one dim that is not the innermost: its slices are tiles beside each other. */
static bool sums_down(const Node *n) {
    return n->op == OP_SUM && n->dtype == DT_F32 && n->attr->n_axes == 1 && n->attr->axes[0] < n->in[0]->shape->rank - 1;
}

static int maker(const SumFinder *f, const Node *n) { return f->p->kernel_of[n->id]; }

/* Element by element. */
static bool reads_along(const Access *a, const Shape *s) {
    bool along = shape_same(a->node->shape, s);
    for (int d = 0; d < s->rank && along; d++) along = a->axis[d] == d;
    return along;
}

/* The newest kernel whose values the sum reads; -1: none. */
static int newest_maker(const SumFinder *f) {
    int newest = -1;
    for (int i = 0; i < f->read.n; i++)
        if (maker(f, f->read.at[i].node) > newest) newest = maker(f, f->read.at[i].node);
    return newest;
}

static bool much_smaller(const Node *a, const Node *than) { return shape_elements(*a->shape) <= shape_elements(*than->shape) / SLICES_MUCH_SMALLER; }

/* ---- of a product ------------------------------------------------------------------------------------------------- */
/* The kernel of a product computes what is summed: all of it, and reads little else for that.  NULL: it does not. */
static const PlanKernel *made_in_product(const SumFinder *f, const Node *sum) {
    const Node *x = sum->in[0];
    const int newest = newest_maker(f);
    const PlanKernel *k = newest < 0 ? NULL : &f->p->kernels.at[newest];
    if (!k || k->kind != KERNEL_CONTRACT || !contract_is_product(k->nodes.at[0].node) || !shape_same(k->nodes.at[0].node->shape, x->shape)) return NULL;
    for (int i = 0; i < f->read.n; i++) {
        const Access *a = &f->read.at[i];
        if (maker(f, a->node) == newest ? !reads_along(a, x->shape) : !much_smaller(a->node, x)) return NULL;
    }
    return k;
}

/* The slices' sums are written and read again: less than to read the elements once. */
static int64_t length_in(const SumFinder *f, const Node *sum, const PlanKernel *k) {
    enum { LEAST_SLICES = 2 };
    const int dim = sum->attr->axes[0];
    PlanKernel with = *k;
    if (!f->context->target || !dim_is_fixed(sum->in[0]->shape->dim[dim])) return 0;
    with.nodes.at = NULL, with.nodes.n = with.nodes.cap = 0;
    for (int i = 0; i < k->nodes.n; i++) vec_push(f->arena, with.nodes, k->nodes.at[i]);
    vec_push(f->arena, with.nodes, ((PlanNode){.node = sum->in[0], .stored = true}));
    const int64_t length = matrix_slice(f->context->target, k->nodes.at[0].node, dim, &with);
    return length && sum->in[0]->shape->dim[dim].bound >= LEAST_SLICES * length ? length : 0;
}

/* Sums that read a product's values from memory, by kernel: a sum of these values is taken there too, unless all that do so wait for
 * it, as the variance of a column does for its mean. */
typedef struct LaterSums {
    bool any;
    IntList all_wait_for; /* kernels */
} LaterSums;

static bool has_id(const IntList *l, int id) {
    int i = 0;
    while (i < l->n && l->at[i] != id) i++;
    return i < l->n;
}

static void note_reading(const SumFinder *f, LaterSums *x) {
    IntList both = {0};
    for (int i = 0; i < f->read.n; i++) {
        const int k = maker(f, f->read.at[i].node);
        if (k >= 0 && !has_id(&both, k) && (!x->any || has_id(&x->all_wait_for, k))) vec_push(f->arena, both, k);
    }
    *x = (LaterSums){true, both};
}

/* The kernels of products that make what the sum reads, but for the one that sums it too. */
static void note_readings(const SumFinder *f, const Node *sum, const PlanKernel *in, LaterSums *later) {
    for (int i = 0; i < f->read.n; i++) {
        const int k = maker(f, f->read.at[i].node);
        const PlanKernel *pk = k < 0 ? NULL : &f->p->kernels.at[k];
        if (pk && pk != in && pk->kind == KERNEL_CONTRACT && pk->phase == sum->phase) note_reading(f, &later[k]);
    }
}

static void slices_in_products(SumFinder *f) {
    const int n = f->p->graph->nodes.n;
    LaterSums *later = ARENA_ARRAY(f->arena, LaterSums, f->p->kernels.n + 1);
    int *in = ARENA_ARRAY(f->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        const Node *sum = f->p->graph->nodes.at[i];
        if (!sums_down(sum) || f->made[i].whole) continue;
        f->read.n = 0;
        access_collect_value(f->arena, f->memory, sum->in[0], &f->read);
        const PlanKernel *k = made_in_product(f, sum);
        note_readings(f, sum, k, later);
        if (!k) continue;
        if (!f->made[k->nodes.at[0].node->id].length) f->made[i].length = length_in(f, sum, k);
        in[i] = 1 + (int)(k - f->p->kernels.at);
    }
    for (int i = 0; i < n; i++) {
        const LaterSums *x = in[i] ? &later[in[i] - 1] : NULL;
        if (x && x->any && !has_id(&x->all_wait_for, f->p->kernel_of[i])) f->made[i].length = 0;
    }
}

/* ---- of rows -------------------------------------------------------------------------------------------------------- */
/* Programs of a processor: with sums, which each program writes, as few as keep it busy; without, as many as it takes at once, so
 * that a slice costs no waiting for memory. */
enum { SUMMING_PROGRAMS = 4, READING_PROGRAMS = 16 }; /* from `./dev bench fusion` */

/* How many of `rows` rows a program walks, of `others` such dims side by side, with that many programs a processor.  0: one tile of
 * them, or the rows are none that a tile holds. */
static int64_t slice_of(const Target *t, Dim rows, Dim row, int64_t others, int resident) {
    enum { LEAST = 16, TILE_SHARE = 512, TILES = 2 }; /* rows, and tiles of them, of a slice */
    const Shape whole = {.rank = 1, .dim = {row}};
    if (!t || t->cores < 2 || !dim_is_fixed(rows) || !dim_is_fixed(row) || row.bound < 1 || others < 1) return 0;
    if (!tile_holds_row(t, &whole)) return 0;
    const int64_t programs = resident * t->cores / others, tiles = TILES * tile_rows(t, row.bound);
    int64_t least = t->max_tile / TILE_SHARE < LEAST ? t->max_tile / TILE_SHARE : LEAST; /* tests with small tiles have short slices */
    if (least < tiles) least = tiles;
    if (programs > 0 && least < rows.bound / programs) least = rows.bound / programs;
    for (int64_t length = least; length < 2 * least && 2 * length <= rows.bound; length++)
        if (rows.bound % length == 0) return length;
    return 0;
}

static int64_t length_of_rows(const Target *t, const Node *sum) {
    const Shape *s = sum->in[0]->shape;
    const Dim rows = s->dim[sum->attr->axes[0]], row = s->dim[s->rank - 1];
    return slice_of(t, rows, row, row.bound ? shape_elements(*sum->shape) / row.bound : 0, SUMMING_PROGRAMS);
}

void slices_of_reads(const Target *t, PlanKernel *k) {
    bool again = false;
    const int last = k->p->rank - 1;
    if (!t || k->kind != KERNEL_ROW || k->sliced || k->r->rank != 1 || last < 0 || !shape_is_fixed(*k->p) || !tile_walks_whole_rows(t, k)) return;
    for (int i = 0; i < k->reads.n; i++) again |= shape_same(k->reads.at[i]->shape, k->r);
    const Dim rows = k->p->dim[last];
    const int64_t others = rows.bound ? shape_elements(*k->p) / rows.bound : 0;
    const int64_t length = again ? slice_of(t, rows, k->r->dim[0], others, READING_PROGRAMS) : 0;
    if (length && others * rows.bound / length >= READING_PROGRAMS * t->cores) k->sliced = last + 1, k->slice = length;
}

/* Values as large as what row kernels reduce that they read or write, and what others write element by element. */
static void find_rows(SumFinder *f) {
    for (int k = 0; k < f->p->kernels.n; k++) {
        const PlanKernel *pk = &f->p->kernels.at[k];
        const int64_t elements = shape_elements(*pk->p) * shape_elements(*pk->r);
        for (int i = 0; i < pk->outputs.n && (pk->kind == KERNEL_MAP || pk->kind == KERNEL_ROW); i++) f->by_row[pk->outputs.at[i]->id] = true;
        bool row = false;
        for (int i = 0; i < pk->nodes.n && pk->kind == KERNEL_ROW; i++) {
            const Node *n = pk->nodes.at[i].node;
            row |= op_info[n->op].cls == CLASS_REDUCE && n->attr->n_axes == 1 && n->attr->axes[0] == n->in[0]->shape->rank - 1;
        }
        for (int i = 0; i < pk->reads.n && row; i++)
            if (shape_elements(*pk->reads.at[i]->shape) >= elements) f->by_row[pk->reads.at[i]->id] = true;
    }
}

static void slices_of_rows(SumFinder *f) {
    find_rows(f);
    for (int i = 0; i < f->p->graph->nodes.n; i++) {
        const Node *sum = f->p->graph->nodes.at[i];
        if (f->made[i].length || f->made[i].whole || !sums_down(sum)) continue;
        bool rows = false;
        f->read.n = 0;
        access_collect_value(f->arena, f->memory, sum->in[0], &f->read);
        for (int r = 0; r < f->read.n; r++) rows |= f->by_row[f->read.at[r].node->id];
        if (rows) f->made[i].length = length_of_rows(f->context->target, sum);
    }
}

void slices_of_sums(const PassContext *c, const Plan *p, Slices *slices) {
    const int n = p->graph->nodes.n;
    SumFinder f = {.context = c, .p = p, .arena = c->arena, .made = slices};
    f.memory = ARENA_ARRAY(c->arena, bool, n + 1);
    f.by_row = ARENA_ARRAY(c->arena, bool, n + 1);
    for (int i = 0; i < n; i++) f.memory[i] = p->buffer[i].home != HOME_NONE;
    for (int k = 0; k < p->kernels.n; k++) {
        const PlanKernel *pk = &p->kernels.at[k];
        for (int i = 1; i < pk->nodes.n; i++)
            if (pk->nodes.at[i].part == PART_SUM) slices[pk->nodes.at[i].node->id].whole = !slices[pk->nodes.at[0].node->id].length;
    }
    if (c->disabled[PASS_fuse] || c->disabled[PASS_jacobian_gemm]) return;
    slices_in_products(&f);
    slices_of_rows(&f);
}
