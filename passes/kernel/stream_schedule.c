/* The schedule of a stream whose products are multiplied by matrix instructions.
 *
 * Warps have 16 rows each and all of the streamed dim's tile, which is to a product that makes values its columns, and to one that
 * sums them its sum: an accumulator of mma holds pairs of columns where its first factor holds pairs of the sum (PTX ISA,
 * "Matrix Fragments for mma.m16n8k16"), so values go from product to product in registers (Dao, "FlashAttention-2",
 * arXiv:2307.08691, 3.3).  What products read along the streamed dim is fetched one iteration ahead; what they read along the rows
 * is there before the loop.
 *
 * Needs: the kernel as emit_stream makes it with stream_mma_sizes.  Keeps: the program.  Gives: what kernel_check_schedule wants, or
 * says why not; then the kernel is emitted again, for products by threads. */
#include "ir/tile_schedule.h"
#include "ir/tile_spread.h"
#include "ir/tile_stage.h"
#include "passes/kernel/emitter.h"
#include "passes/kernel/matrix_factor.h"

enum { WARP_ROWS = 16, SUMMED = 16, COLUMNS = 16 /* of whole rows in shared memory */, AHEAD = 1 };

/* ---- tiles --------------------------------------------------------------------------------------------------------- */
static int rounded(int64_t n, int unit) { return (int)((n + unit - 1) / unit * unit); }

int stream_mma_sums(Dim d) { return rounded(d.bound, SUMMED); }

/* As many rows as there are programs for, and of the streamed dim what there are registers for: of 16 rows a thread has half of
 * the columns that are summed, and of the values those that products make and one more. */
void stream_mma_sizes(const Target *t, const PlanKernel *k, TileSizes *s) {
    enum { MOST_ROWS = 128, MOST_STEPS = 64, LEAST_STEPS = 16, REGISTERS = 168 };
    int64_t columns;
    int steps = MOST_STEPS;
    for (int d = 0; d < k->p->rank; d++) s->p[d] = 1;
    for (int d = 1; d < k->r->rank; d++) s->r[d] = rounded(k->r->dim[d].bound, COLUMNS);
    stream_products(k, s, &columns);
    while (steps > LEAST_STEPS && columns / 2 + (k->makes + 1) * steps / 2 > REGISTERS) steps /= 2;
    while (steps > LEAST_STEPS && steps >= 2 * k->r->dim[0].bound) steps /= 2;
    s->p[k->rows] = stream_rows(k, MOST_ROWS, WARP_ROWS, t->cores);
    s->r[0] = steps;
}

/* ---- products ------------------------------------------------------------------------------------------------------ */
typedef struct StreamSchedule {
    Kernel *k;
    const Inst **def;
    int row, along; /* axes: of rows, the streamed one */
    Inst *loop;
    const char *why;
} StreamSchedule;

static bool refuse(StreamSchedule *s, const char *why) {
    if (!s->why) s->why = why;
    return false;
}

static bool is_long(const Kernel *k, int axis) { return k->axes.at[axis].step > 1; }

static void push(Spread *s, int bit) { s->bit[s->n++] = (int8_t)bit; }

/* Rows over warps, of everything else columns. */
static void spread_axes(StreamSchedule *s) {
    Kernel *k = s->k;
    const MatrixForm *f = matrix_form(BY_MMA);
    Spread rows = {0}, columns = {0};
    int warp = 5;
    for (int b = 0; b < f->n_row; b++) push(&rows, f->row[b]);
    for (int at = 1 << f->n_row; at < k->axes.at[s->row].step; at *= 2) push(&rows, warp++);
    for (int b = 0; b < f->n_col; b++) push(&columns, f->col[b]);
    for (int x = 0; x < k->axes.n; x++)
        if (is_long(k, x) && k->axes.at[x].step % (1 << f->n_col) == 0) k->axes.at[x].spread = x == s->row ? rows : columns;
    k->threads = 1 << warp;
}

static void remove_inst(Block *b, const Inst *i) {
    int n = 0;
    for (int at = 0; at < b->n; at++)
        if (b->at[at] != i) b->at[n++] = b->at[at];
    b->n = n;
}

/* ---- one tile of what several products read ------------------------------------------------------------------------- */
static bool same_index(const Inst *a, const Inst *b) {
    bool same = a->n_index == b->n_index;
    for (int n = 0; n < a->n_index && same; n++) same = index_equal(a->index[n], b->index[n]);
    return same;
}

/* Loads and tiles that are the same: with equal operands. */
static bool is_same_tile(const Kernel *k, const Inst *a, const Inst *b) {
    if (a->kind != b->kind || a->n_in != b->n_in || (a->n_in && a->in[0] != b->in[0])) return false;
    if (a->kind == TI_STAGE) return a->space == b->space;
    return a->kind == TI_LOAD && a->buffer == b->buffer && a->value == b->value && !k->buffers.at[a->buffer].written &&
           same_index(a, b);
}

static void merge_tiles(StreamSchedule *s) {
    Block *b = &s->loop->body;
    int *is = ARENA_ARRAY(s->k->arena, int, s->k->types.n + 1), kept = 0;
    for (int v = 0; v < s->k->types.n; v++) is[v] = v;
    for (int n = 0; n < b->n; n++) {
        Inst *i = b->at[n];
        const Inst *first = NULL;
        for (int x = 0; x < i->n_in; x++) i->in[x] = is[i->in[x]];
        for (int x = 0; x < i->n_carry; x++) i->init[x] = is[i->init[x]];
        for (int m = 0; m < kept && !first; m++)
            if (is_same_tile(s->k, b->at[m], i)) first = b->at[m];
        if (first) is[i->result] = first->result;
        else b->at[kept++] = i;
    }
    b->n = kept;
}

/* ---- products, each ------------------------------------------------------------------------------------------------- */
static bool place(StreamSchedule *s, int value, int across, int sum) {
    Inst *stage = factor_stage(&s->loop->body, value);
    if (!stage) return refuse(s, "a factor is not in shared memory");
    if (dtype_bytes(stage->type.dtype) != 2) return refuse(s, "");
    const int minor = factor_along_sum(s->k, s->def, stage->in[0], across, sum) ? sum : across;
    factor_place(s->k, s->def, stage, minor, factor_swizzle(s->k, minor, 2));
    return true;
}

static bool schedule_dot(StreamSchedule *s, Inst *dot) {
    MatrixAxes m;
    if (!matrix_axes(s->k, dot, &m)) return refuse(s, "it is no product of two matrices");
    if (m.row != s->row) {
        const int first = dot->in[0];
        dot->in[0] = dot->in[1];
        dot->in[1] = first;
        if (!matrix_axes(s->k, dot, &m) || m.row != s->row) return refuse(s, "neither factor has the rows");
    }
    if (m.col < 0 || (m.col != s->along && m.sum != s->along)) return refuse(s, "it has not two sides");
    dot->by = BY_MMA;
    if (m.sum != s->along && !place(s, dot->in[0], m.row, m.sum)) return false;
    const Inst *values = s->def[dot->in[0]]; /* which another product may have taken from shared memory already */
    if (m.sum == s->along && values && values->kind == TI_STAGE) {
        dot->in[0] = values->in[0];
        remove_inst(&s->loop->body, values);
    }
    return place(s, dot->in[1], m.col, m.sum);
}

/* ---- what is the same in all iterations ----------------------------------------------------------------------------- */
typedef struct Hoist {
    const StreamSchedule *s;
    bool *inside, *only; /* by value: made in the loop; only in shared memory */
} Hoist;

static void mark_inside(Hoist *h, const Inst *loop) {
    for (int c = 0; c < loop->n_carry && loop->carry; c++) h->inside[loop->carry[c]] = true;
    for (int n = 0; n < loop->body.n; n++) {
        const Inst *i = loop->body.at[n];
        if (i->result >= 0) h->inside[i->result] = true;
        for (int c = 0; c < i->n_carry; c++) h->inside[i->results[c]] = true;
        mark_inside(h, i);
    }
}

static bool index_is_outside(const Hoist *h, const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_AXIS && a->id == h->s->along) return false;
        if (a->kind == ATOM_VALUE && h->inside[a->id]) return false;
        if ((a->kind == ATOM_DIV || a->kind == ATOM_MOD) && !(index_is_outside(h, a->num) && index_is_outside(h, a->den))) return false;
    }
    return true;
}

/* Computed from what is there before the loop; and a row's, a number, or in shared memory: registers for more there are not. */
static bool is_invariant(const Hoist *h, const Inst *i) {
    const Kernel *k = h->s->k;
    bool small = true;
    if (i->kind != TI_CONST && i->kind != TI_INDEX && i->kind != TI_LOAD && i->kind != TI_ELEMENT && i->kind != TI_STAGE) return false;
    for (int d = 0; d < i->type.n_axes; d++) {
        if (i->type.axis[d] == h->s->along) return false;
        small &= i->type.axis[d] == h->s->row || !is_long(k, i->type.axis[d]);
    }
    for (int n = 0; n < i->n_in; n++)
        if (h->inside[i->in[n]]) return false;
    for (int n = 0; n < i->n_index; n++)
        if (!index_is_outside(h, i->index[n])) return false;
    return small || i->kind == TI_STAGE || h->only[i->result];
}

static void insert_inst(Arena *a, Block *b, int at, Inst *i) {
    vec_push(a, *b, i);
    for (int n = b->n - 1; n > at; n--) b->at[n] = b->at[n - 1];
    b->at[at] = i;
}

static void hoist(const StreamSchedule *s) {
    Kernel *k = s->k;
    Hoist h = {s, ARENA_ARRAY(k->arena, bool, k->types.n + 1), ARENA_ARRAY(k->arena, bool, k->types.n + 1)};
    int to = 0, kept = 0;
    kernel_staged_only(k, h.only);
    mark_inside(&h, s->loop);
    while (k->body.at[to] != s->loop) to++;
    for (int n = 0; n < s->loop->body.n; n++) {
        Inst *i = s->loop->body.at[n];
        if (!is_invariant(&h, i)) {
            s->loop->body.at[kept++] = i;
            continue;
        }
        h.inside[i->result] = false;
        insert_inst(k->arena, &k->body, to++, i);
    }
    s->loop->body.n = kept;
}

/* ---- other tiles in shared memory ------------------------------------------------------------------------------------ */
static bool index_uses(const Index *x, int value) {
    bool found = false;
    for (int i = 0; i < x->n && !found; i++) {
        const Atom *a = &x->term[i].atom;
        found = a->kind == ATOM_VALUE && a->id == value;
        if (a->kind == ATOM_DIV || a->kind == ATOM_MOD) found = index_uses(a->num, value) || index_uses(a->den, value);
    }
    return found;
}

static bool is_subscript(const Block *b, int value) {
    bool found = false;
    for (int n = 0; n < b->n && !found; n++) {
        for (int x = 0; x < b->at[n]->n_index; x++) found |= index_uses(b->at[n]->index[x], value);
        found |= is_subscript(&b->at[n]->body, value);
    }
    return found;
}

/* One element for each column: every warp would load them all. */
static bool is_of_columns(const StreamSchedule *s, const Inst *load) {
    bool columns = load->kind == TI_LOAD && tile_type_has(&load->type, s->along) && !load->n_in && !subscripts_gather(load);
    for (int d = 0; d < load->type.n_axes && columns; d++)
        columns = load->type.axis[d] == s->along || !is_long(s->k, load->type.axis[d]);
    return columns && load_run_bytes(s->k, s->def, load, s->along) >= 4 && !is_subscript(&s->loop->body, load->result);
}

static void stage_columns(StreamSchedule *s) {
    enum { WARP = 32 };
    Block *b = &s->loop->body;
    for (int n = 0; n < b->n && s->k->threads > WARP; n++) {
        if (!is_of_columns(s, b->at[n])) continue;
        bool staged = false;
        for (int m = n + 1; m < b->n; m++) staged |= b->at[m]->kind == TI_STAGE && b->at[m]->in[0] == b->at[n]->result;
        if (staged) continue;
        Inst *stage = load_staged(s->k, b, n++);
        s->def = kernel_defs(s->k->arena, s->k);
        factor_place(s->k, s->def, stage, s->along, 0);
    }
}

/* The long axis of a tile beside the rows; -1: there is none, or more. */
static int columns_of(const StreamSchedule *s, const TileType *t) {
    int columns = -1, n = 0;
    for (int d = 0; d < t->n_axes; d++)
        if (t->axis[d] != s->row && is_long(s->k, t->axis[d])) columns = t->axis[d], n++;
    return n == 1 && tile_type_has(t, s->row) ? columns : -1;
}

static void stage_stores(StreamSchedule *s, int64_t room) {
    Block *b = &s->k->body;
    for (int n = 0; n < b->n; n++) {
        Inst *store = b->at[n];
        if (store->kind != TI_STORE) continue;
        const int value = store->in[0], columns = columns_of(s, &s->k->types.at[value]);
        if (columns < 0 || !store_staged(s->k, s->def, b, n, s->row, columns)) continue;
        s->def = kernel_defs(s->k->arena, s->k);
        if (kernel_shared_bytes(s->k) <= room) {
            n++;
            continue;
        }
        remove_inst(b, b->at[n]);
        store->in[0] = value, store->by = BY_NONE, store->bytes = 0;
    }
}

/* ---- all ------------------------------------------------------------------------------------------------------------- */
static bool fetches(const Block *b) {
    bool any = false;
    for (int n = 0; n < b->n; n++) any |= b->at[n]->kind == TI_STAGE && b->at[n]->by != BY_NONE;
    return any;
}

const char *stream_schedule(Kernel *k, int row, int along, int64_t room) {
    StreamSchedule s = {.k = k, .def = kernel_defs(k->arena, k), .row = row, .along = along};
    for (int n = 0; n < k->body.n; n++)
        if (k->body.at[n]->kind == TI_FOR && k->body.at[n]->axis == along) s.loop = k->body.at[n];
    if (!s.loop || !is_long(k, row) || !is_long(k, along)) return "its rows or its streamed dim are one element";
    spread_axes(&s);
    merge_tiles(&s);
    Inst **dot = ARENA_ARRAY(k->arena, Inst *, s.loop->body.n);
    int dots = 0;
    for (int n = 0; n < s.loop->body.n; n++)
        if (s.loop->body.at[n]->kind == TI_DOT) dot[dots++] = s.loop->body.at[n];
    for (int n = 0; n < dots; n++)
        if (!schedule_dot(&s, dot[n])) return s.why;
    hoist(&s);
    stage_columns(&s);
    s.loop->ahead = fetches(&s.loop->body) ? AHEAD : 0;
    stage_stores(&s, room);
    if (kernel_shared_bytes(k) > room) return "its tiles take more shared memory than there is";
    return kernel_check_schedule(k->arena, k);
}
