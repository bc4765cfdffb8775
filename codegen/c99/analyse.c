/* Before printing: which tiled axes are walked one index at a time, and which values get storage of their own.
 *
 * Tiling a grid axis is a decision for machines with vectors; in C one index after the other says the same with
 * fewer loops, and is the same as long as no instruction sums over the axis and no lane writes what another lane of
 * the tile still reads.  A loop axis may be walked that way when each carry only accumulates. */
#include "codegen/c99/internal.h"
#include <string.h>

enum { CHEAP = 3, MAX_ARRAY_BYTES = 4096, MAX_COST = 1000, ROOT_SLOTS = 64 };

typedef struct Place {
    Inst *inst;
    const Block *block;
} Place;

/* Where a value is consumed, once inline values are folded into their consumers. */
typedef struct Use {
    int64_t root; /* place * ROOT_SLOTS + nest within it */
    const Inst *inst;
    int last; /* latest place */
    bool used, several, deeper;
} Use;

typedef struct Analysis {
    Printer *p;
    VEC(Place) order; /* all instructions, as printed */
    Use *use;
    int *place; /* by value: place of its definition */
    const Block **block;
} Analysis;

/* ---- axes --------------------------------------------------------------------------------------------- */
bool c99_has_lanes(const Printer *p, int axis) {
    const Axis *a = &p->k->axes.at[axis];
    if (dim_is_fixed(a->extent) && a->extent.bound == 1) return false;
    return a->kind == AXIS_SPAN || p->axis[axis].step > 1;
}

int c99_lane_axes(const Printer *p, const TileType *t, int8_t *axes) {
    int n = 0;
    for (int i = 0; i < t->n_axes; i++)
        if (c99_has_lanes(p, t->axis[i])) axes[n++] = t->axis[i];
    return n;
}

static bool contains(int n, const int8_t *axes, int axis) {
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return true;
    return false;
}

static void add_type(TileType *t, const TileType *more) {
    for (int i = 0; i < more->n_axes; i++) {
        int at = 0;
        while (at < t->n_axes && t->axis[at] < more->axis[i]) at++;
        if ((at < t->n_axes && t->axis[at] == more->axis[i]) || t->n_axes == MAX_TILE_AXES) continue;
        memmove(t->axis + at + 1, t->axis + at, (size_t)(t->n_axes - at));
        t->axis[at] = more->axis[i];
        t->n_axes++;
    }
}

int c99_nest(const Printer *p, const Inst *i, int8_t *axes) {
    TileType t = i->type, over = {0};
    if (i->kind == TI_STORE) {
        t = (TileType){0};
        for (int d = 0; d < i->n_index; d++) index_axes(p->k, i->index[d], &t);
        for (int o = 0; o < i->n_in; o++) add_type(&t, &p->k->types.at[i->in[o]]);
    }
    int n = c99_lane_axes(p, &t, axes);
    for (int o = 0; o < i->n_over && over.n_axes < MAX_TILE_AXES; o++) over.axis[over.n_axes++] = i->over[o];
    for (int o = 0; o < over.n_axes; o++)
        if (c99_has_lanes(p, over.axis[o]) && !contains(n, axes, over.axis[o]) && n < MAX_TILE_AXES)
            axes[n++] = over.axis[o];
    return n;
}

/* ---- definitions and uses ------------------------------------------------------------------------------ */
static void count_index(Printer *p, const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_VALUE) p->val[a->id].uses++;
        if (a->kind == ATOM_DIV || a->kind == ATOM_MOD) {
            count_index(p, a->num);
            count_index(p, a->den);
        }
    }
}

static void define(Analysis *a, int value, const Inst *def, const Block *block) {
    a->p->val[value].def = def;
    a->place[value] = a->order.n - 1;
    a->block[value] = block;
}

static void collect(Analysis *a, const Block *b) {
    Printer *p = a->p;
    for (int n = 0; n < b->n; n++) {
        Inst *i = b->at[n];
        vec_push(p->arena, a->order, ((Place){i, b}));
        for (int o = 0; o < i->n_in; o++) p->val[i->in[o]].uses++;
        for (int d = 0; d < i->n_index; d++) count_index(p, i->index[d]);
        if (i->from) count_index(p, i->from);
        if (i->to) count_index(p, i->to);
        for (int c = 0; c < i->n_carry; c++) {
            p->val[i->init[c]].uses++;
            if (i->kind == TI_FOR) define(a, i->carry[c], NULL, &i->body);
            define(a, i->results[c], i, b);
        }
        if (i->result >= 0) define(a, i->result, i, b);
        collect(a, &i->body);
    }
}

static void set_costs(Analysis *a) {
    for (int n = 0; n < a->order.n; n++) {
        const Inst *i = a->order.at[n].inst;
        if (i->result < 0 || i->kind == TI_REDUCE || i->kind == TI_DOT) continue;
        int cost = i->kind == TI_LOAD ? 1 : i->kind == TI_ELEMENT ? op_info[i->op].cost : 0;
        for (int o = 0; o < i->n_in; o++) cost += a->p->val[i->in[o]].cost;
        a->p->val[i->result].cost = cost < MAX_COST ? cost : MAX_COST;
    }
}

/* ---- collapsing --------------------------------------------------------------------------------------------- */
static bool same_element(const Inst *x, const Inst *y) {
    if (x->n_index != y->n_index) return false;
    for (int d = 0; d < x->n_index; d++)
        if (!index_equal(x->index[d], y->index[d])) return false;
    return true;
}

/* Every load of memory that the kernel writes reads the very element that the lane then writes. */
static bool lanes_are_independent(const Analysis *a) {
    for (int n = 0; n < a->order.n; n++) {
        const Inst *load = a->order.at[n].inst;
        for (int m = 0; load->kind == TI_LOAD && m < a->order.n; m++) {
            const Inst *store = a->order.at[m].inst;
            if (store->kind == TI_STORE && buffers_overlap(a->p->k, load->buffer, store->buffer) &&
                !same_element(load, store))
                return false;
        }
    }
    return true;
}

static bool is_summed(const Analysis *a, int axis) {
    for (int n = 0; n < a->order.n; n++)
        if (contains(a->order.at[n].inst->n_over, a->order.at[n].inst->over, axis)) return true;
    return false;
}

static const Inst *definition(const Analysis *a, int value) { return a->p->val[value].def; }

/* carry op reduce(.. over axis), in either order; gives the REDUCE. */
static const Inst *combines(const Analysis *a, const Inst *i, int carry, int axis) {
    static const Op pair[][2] = {{OP_ADD, OP_SUM}, {OP_MAX, OP_RMAX}, {OP_MIN, OP_RMIN}, {OP_MUL, OP_PROD}};
    if (i->kind != TI_ELEMENT || i->n_in != 2) return NULL;
    const int other = i->in[0] == carry ? i->in[1] : i->in[0];
    const Inst *r = definition(a, other);
    if ((i->in[0] != carry && i->in[1] != carry) || !r || r->kind != TI_REDUCE || a->p->val[other].uses != 1)
        return NULL;
    if (!contains(r->n_over, r->over, axis)) return NULL;
    for (size_t o = 0; o < sizeof pair / sizeof *pair; o++)
        if (i->op == pair[o][0] && r->op == pair[o][1]) return r;
    return NULL;
}

/* The instruction through which `yield` adds the axis's lanes to the carry: a DOT, a REDUCE, or an inner loop that
 * takes the carry and gives it back; NULL if it is anything else. */
static const Inst *accumulation(const Analysis *a, int yield, int carry, int axis) {
    const Inst *i = definition(a, yield);
    if (!i || a->p->val[yield].uses != 1 || a->p->val[carry].uses != 1) return NULL;
    if (i->kind == TI_DOT) return i->in[2] == carry && contains(i->n_over, i->over, axis) ? i : NULL;
    for (int j = 0; i->kind == TI_FOR && j < i->n_carry; j++)
        if (i->results[j] == yield) return i->init[j] == carry ? i : NULL;
    return combines(a, i, carry, axis);
}

/* Everything in the body treats the lanes of `axis` one by one, but for the carries, which add them up. */
static bool loop_collapses(const Analysis *a, const Inst *loop, int axis, bool independent) {
    const Inst *sum[MAX_TILE_AXES];
    const Inst *yield = vec_last(loop->body);
    int n = 0;
    for (int c = 0; c < loop->n_carry; c++) {
        if (yield->in[c] == loop->carry[c]) continue;
        if (n == MAX_TILE_AXES || !(sum[n++] = accumulation(a, yield->in[c], loop->carry[c], axis))) return false;
    }
    for (int b = 0; b < loop->body.n - 1; b++) {
        const Inst *i = loop->body.at[b];
        bool known = i->kind == TI_LOAD || i->kind == TI_INDEX || i->kind == TI_CONST || i->kind == TI_ELEMENT;
        known |= i->kind == TI_STORE && independent;
        for (int s = 0; s < n; s++) known |= i == sum[s] && i->kind != TI_FOR;
        if (i->kind == TI_FOR) known = loop_collapses(a, i, axis, independent);
        if (!known) return false;
    }
    return true;
}

static void collapse(Analysis *a) {
    Printer *p = a->p;
    const bool independent = lanes_are_independent(a);
    for (int x = 0; x < p->k->axes.n; x++) {
        p->axis[x].step = p->k->axes.at[x].step;
        if (p->k->axes.at[x].kind == AXIS_GRID && independent && !is_summed(a, x)) p->axis[x].step = 1;
    }
    bool all[MAX_AXES], seen[MAX_AXES] = {0};
    memset(all, 1, sizeof all);
    for (int n = 0; n < a->order.n; n++) {
        const Inst *i = a->order.at[n].inst;
        if (i->kind != TI_FOR) continue;
        seen[i->axis] = true;
        all[i->axis] &= loop_collapses(a, i, i->axis, independent);
    }
    for (int x = 0; x < p->k->axes.n; x++)
        if (p->k->axes.at[x].kind == AXIS_LOOP && seen[x] && all[x]) p->axis[x].step = 1;
}

/* ---- order of summed lanes --------------------------------------------------------------------------------------- */
/* Of the axis in an index: -1 and 1 if it only falls or only rises with it, 0 if neither; 2: not there. */
static int direction(const Index *x, int axis) {
    int found = 2;
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        const bool nested = a->kind == ATOM_DIV || a->kind == ATOM_MOD;
        if (nested && (direction(a->num, axis) != 2 || direction(a->den, axis) != 2)) return 0;
        if (a->kind == ATOM_AXIS && a->id == axis) found = x->term[i].coef < 0 ? -1 : 1;
    }
    return found;
}

/* All that is read runs backwards along the axis.  Read forwards, it is what compilers vectorize well; GCC 12 turns
 * sums of short reversed rows into wrong code (-O2: `for (r < 4) for (q < 2) v += x[2 * r - q + 1]` adds other terms).
 */
static bool reads_descend(const Analysis *a, int axis) {
    bool any = false;
    for (int n = 0; n < a->order.n; n++) {
        const Inst *i = a->order.at[n].inst;
        for (int d = 0; d < i->n_index; d++) {
            const int way = direction(i->index[d], axis);
            if (way == 0 || way == 1) return false;
            any |= way == -1;
        }
    }
    return any;
}

static void order_lanes(Analysis *a) {
    for (int x = 0; x < a->p->k->axes.n; x++) a->p->axis[x].descends = is_summed(a, x) && reads_descend(a, x);
}

/* ---- accumulating in place -------------------------------------------------------------------------------------- */
/* A reduction over single lanes is its operand. */
bool c99_is_inline(const Printer *p, const Inst *i) {
    for (int o = 0; i->kind == TI_REDUCE && o < i->n_over; o++)
        if (c99_has_lanes(p, i->over[o])) return false;
    return i->kind == TI_ELEMENT || i->kind == TI_LOAD || i->kind == TI_INDEX || i->kind == TI_CONST ||
           i->kind == TI_FULL || i->kind == TI_STAGE || i->kind == TI_REDUCE;
}

bool c99_mentions_carry(const Printer *p, int value, int carry) {
    if (value == carry) return true;
    const Inst *i = p->val[value].def;
    if (!i || !c99_is_inline(p, i) || p->val[value].hold == HOLD_NAMED) return false;
    for (int o = 0; o < i->n_in; o++)
        if (c99_mentions_carry(p, i->in[o], carry)) return true;
    return false;
}

static bool same_lanes(const Printer *p, int x, int y) {
    int8_t ax[MAX_TILE_AXES], ay[MAX_TILE_AXES];
    const int n = c99_lane_axes(p, &p->k->types.at[x], ax);
    return n == c99_lane_axes(p, &p->k->types.at[y], ay) && memcmp(ax, ay, (size_t)n) == 0;
}

bool c99_is_in_place(const Printer *p, const Inst *loop, int c) {
    const Inst *yield = vec_last(loop->body);
    const int v = yield->in[c], carry = loop->carry[c];
    const Inst *dot = p->val[v].def;
    if (!dot || dot->kind != TI_DOT || p->val[v].uses != 1 || !same_lanes(p, v, carry)) return false;
    bool inside = false; /* not a value from before the loop */
    for (int b = 0; b < loop->body.n; b++) inside |= loop->body.at[b] == dot;
    if (!inside || p->val[carry].uses != 1) return false;
    for (int acc = dot->in[2]; acc != carry;) { /* a chain of single uses down to the carry */
        const Inst *i = p->val[acc].def;
        if (!i || i->kind != TI_ELEMENT || p->val[acc].uses != 1 || !same_lanes(p, acc, carry)) return false;
        int next = -1;
        for (int o = 0; o < i->n_in; o++)
            if (c99_mentions_carry(p, i->in[o], carry)) next = i->in[o];
        if (next < 0) return false;
        acc = next;
    }
    return true;
}

static int uses_in(const Block *b, int value) {
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        for (int o = 0; o < b->at[i]->n_in; o++) n += b->at[i]->in[o] == value;
        for (int c = 0; c < b->at[i]->n_carry; c++) n += b->at[i]->init[c] == value;
        n += uses_in(&b->at[i]->body, value);
    }
    return n;
}

int c99_shared_slot(const Printer *p, const Inst *outer, int c, const Inst **inner) {
    if (outer->kind != TI_FOR) return -1;
    const int v = ((const Inst *)vec_last(outer->body))->in[c], carry = outer->carry[c];
    const Inst *i = *inner = p->val[v].def;
    if (!i || (i->kind != TI_FOR && i->kind != TI_IF) || p->val[v].uses != 1 || !same_lanes(p, v, carry)) return -1;
    bool direct = false;
    for (int b = 0; b < outer->body.n; b++) direct |= outer->body.at[b] == i;
    for (int j = 0; direct && j < i->n_carry; j++)
        if (i->results[j] == v && i->init[j] == carry)
            return p->val[carry].uses == 1 + (i->kind == TI_IF ? uses_in(&i->body, carry) : 0) ? j : -1;
    return -1;
}

/* ---- inline or named --------------------------------------------------------------------------------------------- */
static void note(Analysis *a, int value, Use u, const Block *block) {
    Use *to = &a->use[value];
    to->several |= u.several || (to->used && to->root != u.root);
    to->deeper |= u.deeper || a->block[value] != block;
    if (!to->used || u.last >= to->last) to->last = u.last, to->inst = u.inst;
    to->root = u.root;
    to->used = true;
}

static void note_index(Analysis *a, const Index *x, Use u, const Block *block) {
    for (int i = 0; i < x->n; i++) {
        const Atom *t = &x->term[i].atom;
        if (t->kind == ATOM_VALUE) note(a, t->id, u, block);
        if (t->kind == ATOM_DIV || t->kind == ATOM_MOD) {
            note_index(a, t->num, u, block);
            note_index(a, t->den, u, block);
        }
    }
}

static void note_operands(Analysis *a, const Inst *i, Use u, const Block *block) {
    for (int o = 0; o < i->n_in; o++) note(a, i->in[o], u, block);
    for (int d = 0; d < i->n_index; d++) note_index(a, i->index[d], u, block);
    if (i->from) note_index(a, i->from, u, block);
    if (i->to) note_index(a, i->to, u, block);
}

/* Would the load, evaluated where it is used, see a later store? */
static bool store_intervenes(const Analysis *a, const Inst *load, int place) {
    const Use *u = &a->use[load->result];
    for (int n = place + 1; n < a->order.n && (n <= u->last || u->deeper); n++) {
        const Inst *s = a->order.at[n].inst;
        if (s->kind != TI_STORE || !buffers_overlap(a->p->k, load->buffer, s->buffer)) continue;
        if (!(n == u->last && !u->deeper && same_element(load, s))) return true;
    }
    return false;
}

/* Lanes of the value would be computed again and again by the nest around its consumer. */
static bool is_repeated(const Analysis *a, int value, const Inst *root) {
    int8_t nest[MAX_TILE_AXES], own[MAX_TILE_AXES];
    if (root->kind == TI_FOR || root->kind == TI_IF || root->kind == TI_YIELD) return false;
    const int n = c99_nest(a->p, root, nest), m = c99_lane_axes(a->p, &a->p->k->types.at[value], own);
    for (int i = 0, found = 0; i < n && found < m; i++) {
        if (contains(m, own, nest[i]))
            found++;
        else
            return true;
    }
    return false;
}

static int64_t array_bytes(const Analysis *a, int value) {
    const TileType *t = &a->p->k->types.at[value];
    int64_t bytes = dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_axes; i++) {
        const Axis *x = &a->p->k->axes.at[t->axis[i]];
        if (!c99_has_lanes(a->p, t->axis[i])) continue;
        if (__builtin_mul_overflow(bytes, x->kind == AXIS_SPAN ? x->extent.bound : x->step, &bytes)) return INT64_MAX;
    }
    return bytes;
}

static Hold decide(const Analysis *a, const Inst *i, int place) {
    const Use *u = &a->use[i->result];
    const Val *v = &a->p->val[i->result];
    int8_t axes[MAX_TILE_AXES];
    if (!u->used || i->kind == TI_CONST || i->kind == TI_FULL) return HOLD_INLINE;
    if (i->kind == TI_LOAD && store_intervenes(a, i, place)) return HOLD_NAMED;
    const bool shared = u->several || u->deeper;
    if (c99_lane_axes(a->p, &i->type, axes) == 0) return shared && i->kind != TI_INDEX ? HOLD_NAMED : HOLD_INLINE;
    if (v->cost <= CHEAP || array_bytes(a, i->result) > MAX_ARRAY_BYTES) return HOLD_INLINE;
    return shared || is_repeated(a, i->result, u->inst) ? HOLD_NAMED : HOLD_INLINE;
}

/* Yields are assigned nest by nest, the widest first; what a later nest assigns must not read a carry by then
 * changed, so it is computed beforehand. */
static void hold_yields(Analysis *a, const Inst *loop, const Inst *yield) {
    int8_t axes[MAX_TILE_AXES];
    int widest = -1;
    for (int c = 0; c < loop->n_carry; c++) {
        const int n = c99_lane_axes(a->p, &a->p->k->types.at[loop->results[c]], axes);
        if (n > widest) widest = n;
    }
    int first = -1;
    for (int c = 0; c < loop->n_carry; c++) {
        const int v = yield->in[c];
        if (c99_lane_axes(a->p, &a->p->k->types.at[loop->results[c]], axes) == widest && first < 0) first = c;
        const Inst *def = definition(a, v);
        if (!def || !c99_is_inline(a->p, def) || def->kind == TI_CONST || def->kind == TI_FULL) continue;
        if (first < 0 || !same_lanes(a->p, loop->results[c], loop->results[first]) ||
            !same_lanes(a->p, v, loop->results[c]))
            a->p->val[v].hold = HOLD_NAMED;
    }
}

static void hold(Analysis *a) {
    for (int n = a->order.n - 1; n >= 0; n--) {
        const Inst *i = a->order.at[n].inst;
        const Block *block = a->order.at[n].block;
        Use own = {.root = (int64_t)n * ROOT_SLOTS, .inst = i, .last = n, .used = true};
        for (int c = 0; c < i->n_carry; c++) {
            own.root = (int64_t)n * ROOT_SLOTS + 1 + c % (ROOT_SLOTS - 1);
            note(a, i->init[c], own, block);
        }
        own.root = (int64_t)n * ROOT_SLOTS;
        if (i->result >= 0 && c99_is_inline(a->p, i)) {
            Val *v = &a->p->val[i->result];
            if (v->hold != HOLD_NAMED) v->hold = decide(a, i, n);
            if (v->hold == HOLD_NAMED)
                note_operands(a, i, own, block);
            else if (a->use[i->result].used) {
                Use u = a->use[i->result];
                note_operands(a, i, u, u.deeper ? NULL : block);
            }
            continue;
        }
        if (i->result >= 0) a->p->val[i->result].hold = HOLD_NAMED;
        for (int c = 0; c < i->n_carry; c++) a->p->val[i->results[c]].hold = HOLD_NAMED;
        for (int c = 0; i->kind == TI_FOR && c < i->n_carry; c++) a->p->val[i->carry[c]].hold = HOLD_NAMED;
        note_operands(a, i, own, block);
    }
}

void c99_analyse(Printer *p) {
    const int n = p->k->types.n;
    Analysis a = {.p = p,
                  .use = ARENA_ARRAY(p->arena, Use, n + 1),
                  .place = ARENA_ARRAY(p->arena, int, n + 1),
                  .block = ARENA_ARRAY(p->arena, const Block *, n + 1)};
    p->val = ARENA_ARRAY(p->arena, Val, n + 1);
    collect(&a, &p->k->body);
    collapse(&a);
    order_lanes(&a);
    set_costs(&a);
    for (int i = 0; i < a.order.n; i++) {
        const Inst *loop = a.order.at[i].inst;
        if ((loop->kind == TI_FOR || loop->kind == TI_IF) && loop->n_carry > 0)
            hold_yields(&a, loop, vec_last(loop->body));
    }
    hold(&a);
}
