/* matrix: contraction kernels whose operands matrix instructions take.
 *
 * Needs: a kernel of one contraction and what is elementwise after it.  Loops of rows, of columns and of sums become
 * one axis each, as far as their extents are fixed: subscripts divide the axis's index again, so that a convolution's
 * image is gathered as the product reads it.  Tiles are the cheapest of matrix_tiles.def by a count of what a
 * multiprocessor does for them.  The schedule itself is written by matrix_schedule.c. */
#include "passes/kernel/matrix.h"
#include "passes/algebra/access.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/slice_sums.h"
#include "passes/kernel/tile_size.h"
#include <string.h>

enum { LEAST_SIDE = 8 /* rows, columns */, LEAST_SUM = 16 };

/* ---- which contractions ---------------------------------------------------------------------------------- */
static bool takes(DType t) { return t == DT_BF16 || t == DT_F16 || t == DT_TF32; }

/* Why a contraction is too small or of another kind; NULL: it is a product for matrix units. */
static const char *refuses(const Node *n, const ContractClass *cls) {
    if (n->n_in != 2) return "it has not two factors";
    if (!takes(n->in[0]->dtype) && !takes(n->in[1]->dtype)) return "";
    if (n->in[0]->dtype != n->in[1]->dtype) return "its factors have two types";
    if (cls->other != 1) return "a loop is neither a row, a column, a sum nor a batch";
    if (cls->m < LEAST_SIDE || cls->n < LEAST_SIDE) return "it has fewer than 8 rows or columns";
    return cls->k < LEAST_SUM ? "it sums fewer than 16" : NULL;
}

static const char *classify(const Node *n, MatrixTerm *out, MatrixProduct *p) {
    const Contract *c = n->attr->contract;
    const ContractClass cls = contract_classify(c, n->in);
    const char *why = refuses(n, &cls);
    if (why) return why;
    *out = (MatrixTerm){.contract = n};
    memcpy(out->loop, cls.loop, sizeof out->loop);
    *p = (MatrixProduct){.batch = (double)cls.batch, .m = (double)cls.m, .n = (double)cls.n, .k = (double)cls.k,
                   .bytes = dtype_bytes(n->in[0]->dtype)};
    for (int l = c->n_out - 1; l >= 0; l--) {
        if (c->extent[l].bound == 1) continue;
        out->natural = cls.loop[l] == LOOP_M;
        break;
    }
    out->swapped = out->natural;
    if (out->swapped) {
        const double m = p->m;
        p->m = p->n;
        p->n = m;
    }
    return NULL;
}

/* Products that are added up onto the first go on in its accumulators: their rows are its rows, by products_alike. */
static const char *add_terms(const PlanKernel *k, MatrixTiles *out) {
    for (int i = 1; i < k->nodes.n; i++) {
        if (k->nodes.at[i].part != PART_ONTO) continue;
        if (out->n_terms == MATRIX_TERMS) return "it adds up too many products";
        MatrixProduct p;
        const char *why = classify(k->nodes.at[i].node, &out->term[out->n_terms++], &p);
        if (why) return why;
        out->product.k += p.k;
    }
    return NULL;
}

/* What the kernel sums along a side of its tiles. */
static void find_slice(const PlanKernel *k, MatrixTiles *out) {
    for (int i = 0; i < k->nodes.n; i++) {
        int dim;
        if (k->nodes.at[i].part != PART_SLICES || !slices_summed(k->nodes.at[i].node, &dim, &out->slice)) continue;
        out->sliced = out->term[0].loop[dim];
    }
}

static int side_of(const MatrixTiles *m, const MatrixTile *tile, LoopClass side) {
    return (side == LOOP_M) != m->term[0].swapped ? tile->rows : tile->columns;
}

bool matrix_slice_fits(const MatrixTiles *m, const MatrixTile *tile) {
    return !m->slice || side_of(m, tile, m->sliced) == m->slice;
}

static void swap_sides(MatrixTiles *m) {
    const double rows = m->product.m;
    m->product.m = m->product.n;
    m->product.n = rows;
    for (int i = 0; i < m->n_terms; i++) m->term[i].swapped = !m->term[i].swapped;
}

static bool contiguous_along_sum(const MatrixTerm *t, int operand) {
    const Contract *c = t->contract->attr->contract;
    const int last = t->contract->in[operand]->shape->rank - 1;
    bool along = false;
    for (int l = c->n_out; l < c->n_loops && last >= 0; l++)
        along |= t->loop[l] == LOOP_K && c->map[operand][last].coef[l] == 1 && c->map[operand][last].divisor == 1;
    return along;
}

/* wgmma reads columns in tf32 only where they are contiguous along the sum; rows it takes from registers too. */
void matrix_orient(MatrixTiles *m, By by) {
    bool rows = true, columns = true;
    if (m->n_terms && m->term[0].swapped != m->term[0].natural) swap_sides(m);
    for (int i = 0; i < m->n_terms; i++) {
        rows &= contiguous_along_sum(&m->term[i], m->term[i].swapped);
        columns &= contiguous_along_sum(&m->term[i], !m->term[i].swapped);
    }
    m->product.loads_rows = by == BY_WGMMA && m->product.bytes == 4 && !(rows && columns);
    if (m->product.loads_rows && rows) swap_sides(m);
}

bool matrix_takes(const Target *t, const Node *n) {
    const ContractClass cls = contract_classify(n->attr->contract, n->in);
    return target_has_mma(t) && !refuses(n, &cls);
}

const char *matrix_product(const Target *t, const PlanKernel *k, MatrixTiles *out) {
    memset(out, 0, sizeof *out);
    if (!target_has_mma(t)) return "";
    if (k->kind != KERNEL_CONTRACT) return "it is computed inside a kernel that does more than the product";
    const Node *n = k->nodes.at[0].node;
    if (k->sample) return "it goes sample by sample";
    out->n_terms = 1;
    const char *why = classify(n, &out->term[0], &out->product);
    if (!why) why = add_terms(k, out);
    if (why) out->n_terms = 0;
    else matrix_epilogue(k, &out->product);
    if (k->members) out->product.batch *= k->members;
    if (!why) find_slice(k, out);
    return why;
}

/* ---- sums of products --------------------------------------------------------------------------------------- */
/* Kernels of their own run at the same time; all results but the last are written, and read by the one that adds. */
bool matrix_adds_up_pays(const Target *t, const Node *product, int terms) {
    MatrixTiles one = {0}, all;
    if (!t || !matrix_takes(t, product) || classify(product, &one.term[0], &one.product)) return true;
    all = one;
    all.product.k *= terms;
    one.product.batch *= terms;
    const double launch = target_launch_seconds(t), results = one.product.batch * one.product.m * one.product.n;
    const double moved = 2 * results * (terms - 1) / terms * dtype_bytes(product->dtype) / (t->gbytes_per_s * 1e9);
    return matrix_seconds(t, &all) <= matrix_seconds(t, &one) + moved + launch;
}

/* ---- sums of tiles --------------------------------------------------------------------------------------------- */
/* The only loop of its class that has more than one element. */
static bool is_alone(const MatrixTerm *t, int loop) {
    const Contract *c = t->contract->attr->contract;
    bool alone = t->loop[loop] == LOOP_M || t->loop[loop] == LOOP_N;
    for (int l = 0; l < c->n_out; l++)
        alone &= l == loop || t->loop[l] != t->loop[loop] || (dim_is_fixed(c->extent[l]) && c->extent[l].bound == 1);
    return alone;
}

/* Nothing is gathered element by element, which only some tiles have registers for: each dim of a factor is one loop, and
 * rows of halves that the caller lays out begin at words. */
static bool reads_words(const Node *product) {
    const Contract *c = product->attr->contract;
    for (int k = 0; k < 2; k++) {
        const Node *x = product->in[k];
        const int last = x->shape->rank - 1;
        for (int d = 0; d <= last; d++)
            if (affine_single_loop(c, &c->map[k][d]) < 0) return false;
        if (op_is_memory(x->op) && dtype_bytes(x->dtype) == 2 && (last < 0 || x->shape->dim[last].bound % 2)) return false;
    }
    return true;
}

/* A product whose tiles may be summed along the dim: *by the fastest instruction. */
static bool sums_tiles(const Target *t, const Node *product, int dim, MatrixTiles *m, By *by) {
    *m = (MatrixTiles){.n_terms = 1};
    *by = t->has_wgmma ? BY_WGMMA : BY_MMA;
    if (!matrix_takes(t, product) || classify(product, &m->term[0], &m->product)) return false;
    if (!is_alone(&m->term[0], dim) || !reads_words(product)) return false;
    m->sliced = m->term[0].loop[dim];
    return true;
}

/* Of products in f32, whose tiles a GPU's threads share: a side of those tiles. */
static int64_t slice_by_threads(const Target *t, const Node *product, int dim) {
    const ContractClass cls = contract_classify(product->attr->contract, product->in);
    const int side = tile_side(t);
    MatrixTerm term = {.contract = product};
    if (!target_shares_tiles(t) || product->n_in != 2 || takes(product->in[0]->dtype) || takes(product->in[1]->dtype)) return 0;
    if (cls.other != 1 || cls.m < side || cls.n < side) return 0;
    memcpy(term.loop, cls.loop, sizeof term.loop);
    return is_alone(&term, dim) ? side : 0;
}

int64_t matrix_slice(const Target *t, const Node *product, int dim, const PlanKernel *like) {
    enum { SHORTEST = 64 };
    MatrixTiles m;
    By by;
    if (!sums_tiles(t, product, dim, &m, &by)) return slice_by_threads(t, product, dim);
    matrix_epilogue(like, &m.product);
    matrix_orient(&m, by);
    for (const MatrixTile *x = matrix_cheapest(t, &m, by, NULL); x; x = matrix_cheapest(t, &m, by, x)) {
        const int side = side_of(&m, x, m.sliced);
        if (side >= SHORTEST && (side & (side - 1)) == 0) return side; /* tiles of both instructions have it */
    }
    return 0;
}

bool matrix_has_slice(const Target *t, const Node *product, int dim, int64_t length) {
    MatrixTiles m;
    By by;
    if (!sums_tiles(t, product, dim, &m, &by)) return length == slice_by_threads(t, product, dim);
    m.slice = length;
    matrix_orient(&m, by);
    return matrix_cheapest(t, &m, by, NULL) != NULL;
}
