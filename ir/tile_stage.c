#include "ir/tile_stage.h"
#include "ir/integer.h"
#include "ir/tile_spread.h"
#include <limits.h>
#include <string.h>

/* ---- layout ------------------------------------------------------------------------------------------------ */
static int round_up(int64_t n, int unit) { return (int)((n + unit - 1) / unit * unit); }

/* The first product that reads the value; NULL: none. */
static const Inst *product_of(const Block *b, int value) {
    const Inst *found = NULL;
    for (int n = 0; n < b->n && !found; n++) {
        const Inst *i = b->at[n];
        const bool reads = i->kind == TI_DOT && (i->in[0] == value || i->in[1] == value);
        found = reads ? i : product_of(&i->body, value);
    }
    return found;
}

/* Summed by the product that reads the tile; where none does, an axis of a loop. */
static bool is_slow(const Kernel *k, const Inst *product, int axis) {
    bool over = !product && k->axes.at[axis].kind != AXIS_GRID;
    for (int d = 0; product && d < product->n_over; d++) over |= product->over[d] == axis;
    return over;
}

/* The axes, slowest first: those that are summed outside those of a product's side, unless one is stated to be innermost. */
static int stage_order(const Kernel *k, const Inst *i, const Inst *product, int8_t *order) {
    const int minor = i->minor - 1;
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < i->type.n_axes; d++) {
            const int axis = i->type.axis[d];
            if (axis == minor || is_slow(k, product, axis) != (pass == 0)) continue;
            order[n++] = (int8_t)axis;
        }
    if (i->minor != NO_AXIS) order[n++] = (int8_t)minor;
    return n;
}

/* Bytes from one row to the next without a swizzle: by default an element more than the row has, so that neither
 * filling by rows nor reading by columns meets one bank twice; where the row is moved in wide accesses, an odd multiple
 * of 32 bytes, so that four rows of a column of 32 bytes lie in different banks. */
static int padded_row(const Inst *i, int n_axes, int elements, int bytes) {
    if (n_axes < 2) return elements;
    if (i->minor == NO_AXIS) return elements + 1;
    const int row = round_up((int64_t)elements * bytes, 32);
    return (row / 32 % 2 ? row : row + 32) / bytes;
}

/* A factor without a stated layout is read along its side, four neighbours at once, and where it is transposed it is filled by
 * sums a sector long: what lies at one sum begins four elements further than it need to. */
void stage_layout(const Kernel *k, const Inst *i, StageLayout *out) {
    int8_t order[MAX_TILE_AXES];
    const Inst *product = i->minor == NO_AXIS ? product_of(&k->body, i->result) : NULL;
    const int n = stage_order(k, i, product, order), bytes = dtype_bytes(i->type.dtype);
    *out = (StageLayout){.n = n ? n - 1 : 0, .minor = n ? order[n - 1] : -1, .swizzle = i->swizzle, .bytes = bytes};
    const int length = n ? k->axes.at[out->minor].step : 1;
    out->panel = i->swizzle ? i->swizzle / bytes : length;
    const bool factor = product && length % STAGE_RUN == 0;
    int64_t size = i->swizzle ? out->panel : factor ? length : padded_row(i, n, length, bytes);
    for (int d = out->n - 1; d >= 0; d--) {
        out->axis[d] = order[d];
        if (factor && is_slow(k, product, order[d]) && !is_slow(k, product, order[d + 1])) size += STAGE_RUN;
        out->stride[d] = (int)size;
        size *= k->axes.at[order[d]].step;
    }
    out->panel_stride = (int)size;
    out->align = i->swizzle ? 8 * i->swizzle : 16;
    out->slot = round_up(size * bytes * (i->swizzle ? length / out->panel : 1), out->align);
}

int64_t stage_place(const StageLayout *l, const int *offset) {
    int64_t at = 0;
    for (int d = 0; d < l->n; d++) at += (int64_t)offset[l->axis[d]] * l->stride[d];
    if (l->minor >= 0) at += (int64_t)(offset[l->minor] / l->panel) * l->panel_stride + offset[l->minor] % l->panel;
    at *= l->bytes;
    return l->swizzle ? at ^ ((at >> 7 & (l->swizzle / 16 - 1)) << 4) : at;
}

/* ---- runs of neighbours in memory ---------------------------------------------------------------------------- */
static void define_block(const Block *b, const Inst **def) {
    for (int n = 0; n < b->n; n++) {
        if (b->at[n]->result >= 0) def[b->at[n]->result] = b->at[n];
        define_block(&b->at[n]->body, def);
    }
}

const Inst **kernel_defs(Arena *a, const Kernel *k) {
    const Inst **def = ARENA_ARRAY(a, const Inst *, k->types.n + 1);
    define_block(&k->body, def);
    return def;
}

/* An expression over a run of `width` neighbours along an axis that begins at a multiple of the width:
 * slope per neighbour, and what divides its value at the run's begin (0: that is always 0). */
typedef struct Run {
    int64_t slope, grain;
} Run;

static bool run_of(const Kernel *k, const Index *x, int axis, int width, Run *out);

static bool run_of_quotient(const Kernel *k, const Atom *a, int axis, int width, Run *out) {
    Run num;
    int64_t den;
    if (!index_is_const(a->den, &den) || den <= 0 || !run_of(k, a->num, axis, width, &num)) {
        int64_t slope;
        *out = (Run){0, 1}; /* the same along the axis, whatever it is */
        return index_affine_in(k, a->num, axis, &slope) && !slope && index_affine_in(k, a->den, axis, &slope) && !slope;
    }
    const bool whole = num.grain % den == 0;
    const bool within =
        num.slope == 1 && num.grain % width == 0 && den % width == 0; /* no run crosses a multiple of den */
    if (num.slope && !within) return false;
    if (a->kind == ATOM_DIV)
        *out = (Run){0, whole ? num.grain / den : 1};
    else
        *out = (Run){num.slope, whole ? 0 : gcd64(num.grain, den)};
    return true;
}

static bool run_of_atom(const Kernel *k, const Atom *a, int axis, int width, Run *out) {
    *out = (Run){0, 1};
    switch (a->kind) {
    case ATOM_AXIS:
        if (a->id == axis) *out = (Run){1, width};
        return true;
    case ATOM_EXTENT:
    case ATOM_TILE: return true;
    case ATOM_VALUE:
        for (int d = 0; d < k->types.at[a->id].n_axes; d++)
            if (k->types.at[a->id].axis[d] == axis) return false;
        return true;
    default: return run_of_quotient(k, a, axis, width, out);
    }
}

static bool run_of(const Kernel *k, const Index *x, int axis, int width, Run *out) {
    *out = (Run){0, gcd64(x->c, 0)};
    for (int i = 0; i < x->n; i++) {
        Run r;
        if (!run_of_atom(k, &x->term[i].atom, axis, width, &r)) return false;
        if (__builtin_mul_overflow(r.slope, x->term[i].coef, &r.slope) ||
            __builtin_mul_overflow(r.grain, x->term[i].coef, &r.grain) ||
            __builtin_add_overflow(out->slope, r.slope, &out->slope))
            return false;
        out->grain = gcd64(out->grain, r.grain);
    }
    return true;
}

bool index_run(const Kernel *k, const Index *x, int axis, int width, int64_t *slope) {
    Run r;
    if (!run_of(k, x, axis, width, &r)) return false;
    *slope = r.slope;
    return true;
}

static const Index *index_of(const Inst *i) { return i && i->kind == TI_INDEX ? i->index[0] : NULL; }

/* x < c or x >= c where x counts from a multiple of the width to the next and c is such a multiple. */
static bool compares_whole_runs(const Kernel *k, const Inst *const *def, const Inst *i, int axis, int width) {
    Run x;
    int64_t c;
    if (i->kind != TI_ELEMENT || (i->op != OP_LT && i->op != OP_GE)) return false;
    const Index *left = index_of(def[i->in[0]]), *right = index_of(def[i->in[1]]);
    const Inst *constant = def[i->in[1]];
    if (right ? !index_is_const(right, &c) : !constant || constant->kind != TI_CONST || constant->type.dtype != DT_I32)
        return false;
    if (!right && !(constant->value >= INT32_MIN && constant->value <= INT32_MAX)) return false;
    if (!right) c = (int64_t)constant->value;
    return left && run_of(k, left, axis, width, &x) && x.slope == 1 && x.grain % width == 0 && c % width == 0;
}

/* The value is the same in all of a run. */
static bool same_in_run(const Kernel *k, const Inst *const *def, int value, int axis, int width) {
    const Inst *i = def[value];
    bool varies = false;
    for (int d = 0; d < k->types.at[value].n_axes; d++) varies |= k->types.at[value].axis[d] == axis;
    if (!varies || (i && compares_whole_runs(k, def, i, axis, width))) return true;
    if (!i || (i->kind != TI_INDEX && i->kind != TI_ELEMENT && i->kind != TI_LOAD && i->kind != TI_FULL)) return false;
    for (int n = 0; n < i->n_in; n++)
        if (!same_in_run(k, def, i->in[n], axis, width)) return false;
    for (int n = 0; n < i->n_index; n++) {
        Run r;
        if (!run_of(k, i->index[n], axis, width, &r) || r.slope) return false;
    }
    return i->kind != TI_ELEMENT || i->op != OP_PHILOX;
}

static bool is_run(const Kernel *k, const Inst *const *def, const Inst *i, int axis, int width) {
    const Buffer *b = &k->buffers.at[i->buffer];
    Run all = {0, 0};
    for (int d = 0; d < i->n_index; d++) {
        Run r;
        if (!run_of(k, i->index[d], axis, width, &r)) return false;
        if (__builtin_mul_overflow(r.slope, b->stride[d], &r.slope) ||
            __builtin_mul_overflow(r.grain, b->stride[d], &r.grain) ||
            __builtin_add_overflow(all.slope, r.slope, &all.slope))
            return false;
        all.grain = gcd64(all.grain, r.grain);
    }
    const int mask = i->kind == TI_LOAD ? 0 : 1;
    if (width > 1 && i->n_in > mask && !same_in_run(k, def, i->in[mask], axis, width)) return false;
    return width == 1 || (all.slope == 1 && all.grain % width == 0 && k->axes.at[axis].step % width == 0);
}

int load_run_bytes(const Kernel *k, const Inst *const *def, const Inst *i, int axis) {
    const int bytes = dtype_bytes(k->buffers.at[i->buffer].dtype);
    for (int run = 16; run >= bytes; run /= 2)
        if (is_run(k, def, i, axis, run / bytes)) return run;
    return 0;
}

/* ---- shared memory of a program -------------------------------------------------------------------------------- */
/* When a staged tile is needed: instructions are numbered in order; one used inside a loop that it is outside of, or
 * filled inside a loop, is needed until that loop's end. */
typedef struct Life {
    int value, from, to;
    const Inst *stage, *loop; /* the innermost around it */
    int slots;
} Life;
typedef struct Lives {
    Arena *a;
    const Kernel *k;
    int *life_of; /* by value: index into list + 1 */
    VEC(Life) list;
    int at;
} Lives;

static void use(Lives *l, int value, int end) {
    if (value < 0 || !l->life_of[value]) return;
    Life *life = &l->list.at[l->life_of[value] - 1];
    if (end > life->to) life->to = end;
}

static int count(const Block *b) {
    int n = 0;
    for (int i = 0; i < b->n; i++) n += 1 + count(&b->at[i]->body);
    return n;
}

static bool leaves_registers(const Inst *i) {
    return i->by == BY_NONE && (i->kind == TI_STORE || (i->kind == TI_STAGE && i->space == SPACE_SHARED));
}

/* What one of the block's instructions [from, to) stages, or sums, is read after all of it is there. */
static bool reads_whole(const Block *b, int from, int to, const Inst *i) {
    for (int n = from; n < to; n++)
        for (int k = 0; k < i->n_in && (b->at[n]->kind == TI_STAGE || b->at[n]->kind == TI_REDUCE); k++)
            if (i->in[k] == b->at[n]->result) return true;
    return false;
}

/* A sum over what a product's accumulators become: tiles too large to be there twice. */
static bool sums_epilogue(const Block *b, int at) {
    bool after = false;
    for (int n = 0; n < at; n++) after |= b->at[n]->kind == TI_FOR && b->at[n]->ahead;
    return after && b->at[at]->kind == TI_REDUCE;
}

int block_run(const Block *b, int from) {
    int n = from;
    for (; n < b->n && !reads_whole(b, from, n, b->at[n]); n++) {
        const Inst *i = b->at[n];
        const bool element = i->kind == TI_CONST || i->kind == TI_FULL || i->kind == TI_INDEX || i->kind == TI_LOAD ||
                             i->kind == TI_ELEMENT;
        if (!element && (n == from || !(leaves_registers(i) || sums_epilogue(b, n)))) break;
    }
    return n - from;
}

/* ---- sums that meet ------------------------------------------------------------------------------------------------------ */
static int other_uses(const Block *b, int value) {
    int uses = 0;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        for (int k = 0; k < i->n_in; k++)
            uses += i->in[k] == value && (i->kind != TI_STORE || i->by != BY_NONE || i->n_in > 1);
        for (int c = 0; c < i->n_carry; c++) uses += i->init[c] == value;
        uses += other_uses(&i->body, value);
    }
    return uses;
}

/* The one axis of the type along which there is more than one element; -1: there are none or several. */
static int long_axis(const Kernel *k, const TileType *t) {
    int axis = -1, n = 0;
    for (int d = 0; d < t->n_axes; d++)
        if (k->axes.at[t->axis[d]].step > 1) axis = t->axis[d], n++;
    return n == 1 ? axis : -1;
}

bool stage_meeting(const Kernel *k, const Inst *sum, Meeting *out) {
    enum { WARP = 32 };
    unsigned over = 0;
    int at = 0;
    while (at < k->body.n && k->body.at[at] != sum) at++;
    if (at == k->body.n || !sums_epilogue(&k->body, at) || sum->op != OP_SUM || sum->type.dtype != DT_F32) return false;
    out->axis = long_axis(k, &sum->type);
    if (out->axis < 0 || other_uses(&k->body, sum->result)) return false;
    for (int d = 0; d < sum->n_over; d++) over |= spread_threads(&k->axes.at[sum->over[d]]);
    out->step = k->axes.at[out->axis].step;
    out->row = out->step + (out->step - 1) / MEET_RUN * MEET_PAD;
    out->rows = 1 << __builtin_popcount(over & ~(unsigned)(WARP - 1));
    return true;
}

/* Behind all tiles, at `least` or after it. */
static void plan_meetings(const Kernel *k, int64_t least, StagePlan *out) {
    Meeting m;
    for (int n = 0; n < k->body.n; n++) {
        if (k->body.at[n]->kind != TI_REDUCE || !stage_meeting(k, k->body.at[n], &m)) continue;
        out->bytes = ((out->bytes > least ? out->bytes : least) + 15) / 16 * 16;
        out->offset[k->body.at[n]->result] = out->bytes;
        out->bytes += (int64_t)sizeof(float) * m.row * m.rows;
    }
}

/* ---- places -------------------------------------------------------------------------------------------------------------- */
static const Inst *next_fetched(const Inst *loop, int *at) {
    while (*at < loop->body.n) {
        const Inst *i = loop->body.at[(*at)++];
        if (i->kind == TI_STAGE && i->by == BY_TMA) return i;
    }
    return NULL;
}

static bool same_ring(const Kernel *k, const Inst *a, const Inst *b) {
    int at_a = 0, at_b = 0;
    if (a->kind != TI_FOR || a->ahead != b->ahead) return false;
    for (int n = 0;; n++) {
        const Inst *x = next_fetched(a, &at_a), *y = next_fetched(b, &at_b);
        StageLayout lx, ly;
        if (!x || !y) return n > 0 && !x && !y;
        stage_layout(k, x, &lx);
        stage_layout(k, y, &ly);
        if (lx.slot != ly.slot || lx.align != ly.align || x->multicast != y->multicast) return false;
    }
}

const Inst *stage_ring(const Kernel *k, const Inst *loop) {
    const Inst *first = NULL;
    bool found = false;
    for (int n = 0; n < k->body.n && !found; n++) {
        if (!first && same_ring(k, k->body.at[n], loop)) first = k->body.at[n];
        found = k->body.at[n] == loop;
    }
    return found && first ? first : loop;
}

/* The tile of the first loop in whose slots this one comes to lie; NULL: it has a place of its own. */
static const Inst *slot_before(const Lives *l, const Life *life) {
    if (!l->k->producer || !life->loop || life->stage->by != BY_TMA) return NULL;
    const Inst *first = stage_ring(l->k, life->loop), *before = NULL, *i;
    int at_first = 0, at = 0;
    do {
        before = next_fetched(first, &at_first);
        i = next_fetched(life->loop, &at);
    } while (i && i != life->stage);
    return first == life->loop ? NULL : before;
}

/* `open`, `end`: the first and last number of the outermost loop around, or -1. */
static void live_block(Lives *l, const Block *b, const Inst *loop, int open, int end) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        const int here = l->at++;
        if (i->kind == TI_STAGE && i->space == SPACE_SHARED) {
            const int slots = loop && loop->ahead && i->by != BY_NONE ? loop->ahead + 1 : 1;
            const bool always =
                l->k->producer && i->by == BY_TMA; /* fetched for the next program while this one ends */
            const int from = always ? 0 : open >= 0 ? open : here, to = always ? INT_MAX : end >= 0 ? end : here;
            vec_push(l->a, l->list, ((Life){i->result, from, to, i, loop, slots}));
            l->life_of[i->result] = l->list.n;
        }
        const int run = block_run(b, n), last = run > 1 ? here + run - 1 : here; /* a run goes on reading to its end */
        for (int k = 0; k < i->n_in; k++) use(l, i->in[k], end >= 0 ? end : last);
        const bool outermost = i->kind == TI_FOR && open < 0;
        live_block(l, &i->body, i->kind == TI_FOR ? i : loop, outermost ? here : open,
                   outermost ? here + count(&i->body) : end);
    }
}

static bool together(const Life *x, const Life *y) { return x->from <= y->to && y->from <= x->to; }

/* The lowest place, among `least` and the ends of those placed before, where life n meets none that it lives with. */
static int64_t lowest_place(const Kernel *k, const Lives *l, const StagePlan *p, int n, int64_t size, int align,
                            int64_t least) {
    int64_t best = -1;
    for (int c = -1; c < n; c++) {
        StageLayout s;
        int64_t at = least;
        if (c >= 0) {
            stage_layout(k, l->list.at[c].stage, &s);
            at = (p->offset[l->list.at[c].value] + s.slot * l->list.at[c].slots + align - 1) / align * align;
        }
        bool free = at >= least && (best < 0 || at < best);
        for (int o = 0; o < n && free; o++) {
            stage_layout(k, l->list.at[o].stage, &s);
            const int64_t from = p->offset[l->list.at[o].value], to = from + s.slot * l->list.at[o].slots;
            free = !together(&l->list.at[o], &l->list.at[n]) || at >= to || at + size <= from;
        }
        if (free) best = at;
    }
    return best;
}

static void place_life(const Kernel *k, const Lives *l, int n, int64_t least, StagePlan *out) {
    const Life *life = &l->list.at[n];
    StageLayout s;
    stage_layout(k, life->stage, &s);
    const Inst *before = slot_before(l, life);
    out->offset[life->value] =
        before ? out->offset[before->result] : lowest_place(k, l, out, n, s.slot * life->slots, s.align, least);
    out->slots[life->value] = life->slots;
    const int64_t end = out->offset[life->value] + s.slot * life->slots;
    if (end > out->bytes) out->bytes = end;
}

static bool is_common(const Life *life) { return life->stage->by == BY_TMA; }

/* What is fetched for all groups comes first; how much that is. */
static int common_first(Lives *l) {
    Life *sorted = ARENA_ARRAY(l->a, Life, l->list.n + 1);
    int n = 0, common;
    for (int i = 0; i < l->list.n; i++)
        if (is_common(&l->list.at[i])) sorted[n++] = l->list.at[i];
    common = n;
    for (int i = 0; i < l->list.n; i++)
        if (!is_common(&l->list.at[i])) sorted[n++] = l->list.at[i];
    memcpy(l->list.at, sorted, sizeof *sorted * (size_t)n);
    return common;
}

void stage_plan(Arena *a, const Kernel *k, StagePlan *out) {
    enum { APART = 1024 }; /* as the widest swizzle is aligned */
    Lives l = {.a = a, .k = k, .life_of = ARENA_ARRAY(a, int, k->types.n + 1)};
    *out = (StagePlan){.offset = ARENA_ARRAY(a, int64_t, k->types.n + 1), .slots = ARENA_ARRAY(a, int, k->types.n + 1)};
    for (int v = 0; v < k->types.n; v++) out->offset[v] = -1;
    live_block(&l, &k->body, NULL, -1, -1);
    const int groups = kernel_groups(k), common = groups > 1 ? common_first(&l) : 0;
    for (int n = 0; n < common; n++) place_life(k, &l, n, 0, out);
    const int64_t own = (out->bytes + APART - 1) / APART * APART;
    for (int n = common; n < l.list.n; n++) place_life(k, &l, n, own, out);
    plan_meetings(k, own, out);
    if (groups == 1 || out->bytes <= own) return;
    out->apart = (out->bytes - own + APART - 1) / APART * APART;
    out->bytes = own + groups * out->apart;
}

static bool states_layout(const Block *b) {
    bool found = false;
    for (int n = 0; n < b->n && !found; n++)
        found = (b->at[n]->kind == TI_STAGE && b->at[n]->minor != NO_AXIS) || states_layout(&b->at[n]->body);
    return found;
}

int64_t kernel_shared_bytes(const Kernel *k) {
    StagePlan p;
    int64_t most = 0;
    for (int i = 0; i < k->bundle.n; i++) {
        const int64_t own = kernel_shared_bytes(k->bundle.at[i].kernel);
        if (own > most) most = own;
    }
    if (k->bundle.n) return most;
    if (!states_layout(&k->body)) return 0;
    Arena *a = arena_new();
    stage_plan(a, k, &p);
    arena_free(a);
    return p.bytes;
}

/* A number of each thread's registers, where threads of several warps have parts of a sum. */
static int64_t reduce_bytes(const Kernel *k, const Inst *i) {
    enum { WARP = 32 };
    int64_t bytes = (int64_t)k->threads * dtype_bytes(i->type.dtype);
    unsigned over = 0;
    for (int d = 0; d < i->n_over; d++) over |= spread_threads(&k->axes.at[i->over[d]]);
    for (int d = 0; d < i->type.n_axes; d++) bytes *= spread_registers(&k->axes.at[i->type.axis[d]]);
    return over >= WARP ? bytes : 0;
}

static int64_t array_bytes(const Kernel *k, const Block *b) {
    int64_t bytes = 0;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        StageLayout l = {0};
        if (i->kind == TI_STAGE) stage_layout(k, i, &l);
        bytes += l.slot + (i->kind == TI_REDUCE ? reduce_bytes(k, i) : 0) + array_bytes(k, &i->body);
    }
    return bytes;
}

int64_t kernel_array_bytes(const Kernel *k) { return array_bytes(k, &k->body); }
