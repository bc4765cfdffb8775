/* See values.h for the rules. */
#include "codegen/schedule/values_internal.h"
#include "ir/tile_flat.h"
#include <string.h>

/* A span may be empty; a program or an iteration has at least one lane. */
bool axis_trivial(const Kernel *k, int axis) {
    const Axis *x = &k->axes.at[axis];
    return x->step == 1 && (x->kind != AXIS_SPAN || (dim_is_fixed(x->extent) && x->extent.bound == 1));
}

/* Of folded axes whose parts follow each other. */
static bool folded_affine(const Kernel *k, const Inst *i, int axis, int64_t *coef) {
    FlatAccess flat;
    if (!access_flatten(k, i, &flat)) return false;
    for (int n = 0; n < flat.n_divided; n++) {
        const Term term = {1, *flat.divided[n].atom};
        int64_t none;
        if (!index_affine_in(k, &(Index){.n = 1, .term = &term}, axis, &none)) return false;
    }
    *coef = flat.stride[axis];
    return true;
}

bool access_affine(const Kernel *k, const Inst *i, int axis, int64_t *coef) {
    return access_step(k, i, axis, coef) || folded_affine(k, i, axis, coef);
}

TileType only_nontrivial(const Kernel *k, TileType t) {
    TileType r = {.dtype = t.dtype};
    for (int i = 0; i < t.n_axes; i++)
        if (!axis_trivial(k, t.axis[i])) r.axis[r.n_axes++] = t.axis[i];
    return r;
}

TileType sink_axes(const Kernel *k, const Inst *i) {
    TileType t = {.dtype = DT_F32};
    switch (i->kind) {
    case TI_STORE:
        for (int d = 0; d < i->n_index; d++) index_axes(k, i->index[d], &t);
        for (int n = 0; n < i->n_in; n++) t = tile_type_union(t, k->types.at[i->in[n]]);
        break;
    case TI_REDUCE: t = k->types.at[i->in[0]]; break;
    default: t = k->types.at[i->result]; break;
    }
    return only_nontrivial(k, t);
}

/* Evaluated in the nest of its consumers, unless kept. */
static bool may_inline(const Inst *i) {
    return i->kind == TI_CONST || i->kind == TI_FULL || i->kind == TI_INDEX || i->kind == TI_LOAD ||
           i->kind == TI_ELEMENT;
}

bool is_sink(const Values *v, const Inst *i) { return !may_inline(i) || v->value[i->result].kept; }

/* Sinks that are evaluated in groups. */
static bool groups(const Inst *i) {
    return may_inline(i) || i->kind == TI_STORE || i->kind == TI_REDUCE || i->kind == TI_STAGE;
}

/* ---- operands ------------------------------------------------------------------------------------------ */
typedef void Visit(void *user, int value);

static void visit_index(const Index *x, Visit *f, void *user) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_VALUE) f(user, a->id);
        if (a->kind != ATOM_DIV && a->kind != ATOM_MOD) continue;
        visit_index(a->num, f, user);
        visit_index(a->den, f, user);
    }
}

static void visit_operands(const Inst *i, Visit *f, void *user) {
    for (int n = 0; n < i->n_in; n++) f(user, i->in[n]);
    for (int n = 0; n < i->n_index; n++) visit_index(i->index[n], f, user);
    for (int n = 0; (i->kind == TI_FOR || i->kind == TI_IF) && n < i->n_carry; n++) f(user, i->init[n]);
    if (i->from) visit_index(i->from, f, user);
    if (i->to) visit_index(i->to, f, user);
}

/* ---- positions --------------------------------------------------------------------------------------------- */
static void define(Values *v, int value, const Inst *def, int pos, int loop) {
    if (value < 0) return;
    v->value[value].def = def;
    v->value[value].pos = pos;
    v->value[value].loop = loop;
}

static void number(Values *v, const Block *b, int loop, int block) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        const int pos = v->at.n;
        const InstInfo info = {.inst = i, .end = pos, .loop = loop, .block = block, .group = -1};
        vec_push(v->arena, v->at, info);
        define(v, i->result, i, pos, loop);
        if (i->kind != TI_FOR && i->kind != TI_IF) continue;
        for (int c = 0; c < i->n_carry; c++) {
            if (i->kind == TI_FOR) define(v, i->carry[c], i, pos, pos);
            define(v, i->results[c], i, pos, loop);
        }
        number(v, &i->body, i->kind == TI_FOR ? pos : loop, pos);
        v->at.at[pos].end = v->at.n - 1;
    }
}

/* Where a use at `pos` of a value defined in `loop` ends: a loop around the use alone evaluates it again and again. */
static int use_end(const Values *v, int pos, int loop) {
    int end = pos;
    for (int l = v->at.at[pos].loop; l != loop && l >= 0; l = v->at.at[l].loop) end = v->at.at[l].end;
    return end;
}

int last_use(const Values *v, int value) {
    int last = v->value[value].pos;
    for (int p = 0; p < v->at.n; p++)
        if (bit_get(v->value[value].uses, p)) {
            const int end = use_end(v, p, v->value[value].loop);
            if (end > last) last = end;
        }
    return last;
}

/* ---- uses ------------------------------------------------------------------------------------------------------ */
typedef struct UseVisit {
    Values *v;
    int pos, words;
    const uint64_t *inherit; /* an inline value's own uses; NULL: the use is `pos` */
} UseVisit;

static void add_use(void *user, int value) {
    UseVisit *u = user;
    uint64_t *uses = u->v->value[value].uses;
    if (!u->inherit) bit_set(uses, u->pos);
    for (int w = 0; u->inherit && w < u->words; w++) uses[w] |= u->inherit[w];
}

static void find_uses(Values *v) {
    const int words = (v->at.n + 63) / 64;
    for (int i = 0; i < v->k->types.n; i++) {
        if (!v->value[i].uses) v->value[i].uses = ARENA_ARRAY(v->arena, uint64_t, words);
        memset(v->value[i].uses, 0, sizeof(uint64_t) * (size_t)words);
    }
    for (int p = v->at.n - 1; p >= 0; p--) {
        const Inst *i = v->at.at[p].inst;
        UseVisit u = {.v = v, .pos = p, .words = words, .inherit = is_sink(v, i) ? NULL : v->value[i->result].uses};
        visit_operands(i, add_use, &u);
    }
}

typedef struct ReadVisit {
    Values *v;
    uint64_t *reads;
} ReadVisit;

static void add_read(void *user, int value) {
    ReadVisit *r = user;
    if (bit_get(r->reads, value)) return;
    bit_set(r->reads, value);
    const ValueInfo *info = &r->v->value[value];
    if (!info->kept && info->def) visit_operands(info->def, add_read, r);
}

bool reads_value(Values *v, int root, int x) {
    ReadVisit r = {v, ARENA_ARRAY(v->arena, uint64_t, (v->k->types.n + 63) / 64)};
    add_read(&r, root);
    return bit_get(r.reads, x);
}

static void find_reads(Values *v) {
    const int words = (v->k->types.n + 63) / 64;
    for (int p = 0; p < v->at.n; p++) {
        InstInfo *info = &v->at.at[p];
        if (!is_sink(v, info->inst)) continue;
        if (!info->reads) info->reads = ARENA_ARRAY(v->arena, uint64_t, words);
        memset(info->reads, 0, sizeof(uint64_t) * (size_t)words);
        ReadVisit r = {v, info->reads};
        visit_operands(info->inst, add_read, &r);
        if (may_inline(info->inst)) bit_set(info->reads, info->inst->result);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static bool same_place(const Kernel *k, const Inst *a, const Inst *b) {
    const Buffer *x = &k->buffers.at[a->buffer], *y = &k->buffers.at[b->buffer];
    if (a->n_index != b->n_index || x->dtype != y->dtype) return false;
    for (int d = 0; d < a->n_index; d++)
        if (x->stride[d] != y->stride[d] || !index_equal(a->index[d], b->index[d])) return false;
    return true;
}

/* Does a load that `reader` evaluates forbid the store at `store` in the same nest? */
static bool load_conflicts(const Values *v, int reader, int store) {
    const Inst *s = v->at.at[store].inst;
    for (int x = 0; x < v->k->types.n; x++) {
        const Inst *l = v->value[x].def;
        if (!bit_get(v->at.at[reader].reads, x) || !l || l->kind != TI_LOAD ||
            (v->value[x].kept && reader != v->value[x].pos))
            continue;
        if (!buffers_overlap(v->k, l->buffer, s->buffer)) continue;
        if (v->value[x].pos > store || !same_place(v->k, l, s)) return true;
    }
    return false;
}

static bool is_store(const Values *v, int pos) { return v->at.at[pos].inst->kind == TI_STORE; }

static bool pair_fits(const Values *v, int member, int pos) {
    const Inst *m = v->at.at[member].inst;
    if (m->kind == TI_REDUCE && bit_get(v->at.at[pos].reads, m->result)) return false;
    if (is_store(v, member) && load_conflicts(v, pos, member)) return false;
    if (is_store(v, pos) && load_conflicts(v, member, pos)) return false;
    return !(is_store(v, member) && is_store(v, pos) && buffers_overlap(v->k, m->buffer, v->at.at[pos].inst->buffer));
}

bool same_axes(TileType a, TileType b) {
    return a.n_axes == b.n_axes && memcmp(a.axis, b.axis, sizeof a.axis[0] * (size_t)a.n_axes) == 0;
}

static bool joins(const Values *v, int first, int pos) {
    if (v->at.at[first].block != v->at.at[pos].block) return false;
    if (!same_axes(sink_axes(v->k, v->at.at[first].inst), sink_axes(v->k, v->at.at[pos].inst))) return false;
    for (int p = first; p < pos; p++)
        if (v->at.at[p].group == first && !pair_fits(v, p, pos)) return false;
    return true;
}

/* A group's number is the position of its first member. */
static void find_groups(Values *v) {
    int open = -1;
    for (int p = 0; p < v->at.n; p++) {
        InstInfo *info = &v->at.at[p];
        info->group = -1;
        if (!is_sink(v, info->inst)) continue;
        if (!groups(info->inst)) {
            open = -1;
            continue;
        }
        if (open < 0 || !joins(v, open, p)) open = p;
        info->group = open;
    }
}

/* Rule 2: is the inline load x evaluated, for some sink, after its memory may have changed? */
static bool overwritten(const Values *v, int x) {
    const Inst *l = v->value[x].def;
    for (int q = v->value[x].pos + 1; q < v->at.n; q++) {
        if (!is_store(v, q) || !buffers_overlap(v->k, v->at.at[q].inst->buffer, l->buffer)) continue;
        for (int s = 0; s < v->at.n; s++) {
            if (!bit_get(v->value[x].uses, s)) continue;
            const int end = use_end(v, s, v->value[x].loop);
            if (q > end) continue;
            const bool together = s == q || (v->at.at[s].group >= 0 && v->at.at[s].group == v->at.at[q].group);
            if (!together || end != s || !same_place(v->k, l, v->at.at[q].inst)) return true;
        }
    }
    return false;
}

/* ---- cost -------------------------------------------------------------------------------------------------------- */
enum { INTEGER_DIVISION = 10 }; /* in vectors there is none */
static double own_cost(const Kernel *k, const Inst *i) {
    switch (i->kind) {
    case TI_ELEMENT: break;
    case TI_LOAD:
        for (int d = 0; d < i->n_index; d++)
            for (int t = 0; t < i->index[d]->n; t++)
                if (i->index[d]->term[t].atom.kind >= ATOM_VALUE) return 4;
        return i->n_in ? 2 : 1;
    default: return 0;
    }
    const int cost = op_info[i->op].cost;
    return cost > 1 && k->types.at[i->result].dtype == DT_I32 ? INTEGER_DIVISION : cost;
}

typedef struct CostVisit {
    const double *cost;
    double sum;
} CostVisit;

static void add_cost(void *user, int value) {
    CostVisit *c = user;
    c->sum += c->cost[value];
}

static void find_costs(const Values *v, double *cost) {
    for (int p = 0; p < v->at.n; p++) {
        const Inst *i = v->at.at[p].inst;
        if (i->result < 0) continue;
        CostVisit c = {cost, own_cost(v->k, i)};
        if (!is_sink(v, i)) visit_operands(i, add_cost, &c);
        cost[i->result] = is_sink(v, i) ? 1 : c.sum < 1e6 ? c.sum : 1e6;
    }
}

/* Evaluations of x: nests that need it; a loop that it does not belong to, or axes that it has not, count again. */
static int evaluations(const Values *v, int x) {
    int n = 0, last_group = -2;
    const TileType own = only_nontrivial(v->k, v->k->types.at[x]);
    for (int p = 0; p < v->at.n; p++) {
        if (!bit_get(v->value[x].uses, p)) continue;
        const InstInfo *u = &v->at.at[p];
        if (u->group < 0 || u->group != last_group) n++;
        last_group = u->group;
        if (use_end(v, p, v->value[x].loop) != p) n++;
        if (own.n_axes && (u->inst->kind == TI_STORE || u->inst->result >= 0) &&
            sink_axes(v->k, u->inst).n_axes > own.n_axes)
            n++;
    }
    return n;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */
static void keep_required(Values *v) {
    for (int p = 0; p < v->at.n; p++) {
        const Inst *i = v->at.at[p].inst;
        if (i->kind == TI_REDUCE || i->kind == TI_DOT || i->kind == TI_STAGE) values_keep(v, i->result);
        for (int c = 0; (i->kind == TI_FOR || i->kind == TI_IF) && c < i->n_carry; c++) {
            if (i->kind == TI_FOR) values_keep(v, i->carry[c]);
            values_keep(v, i->results[c]);
        }
    }
}

static void analyse(Values *v) {
    find_uses(v);
    find_reads(v);
    find_groups(v);
}

static bool keep_overwritten(Values *v) {
    for (int p = 0; p < v->at.n; p++) {
        const Inst *i = v->at.at[p].inst;
        if (i->kind != TI_LOAD || v->value[i->result].kept || !overwritten(v, i->result)) continue;
        values_keep(v, i->result);
        return true;
    }
    return false;
}

static bool keep_expensive(Values *v, double *cost) {
    find_costs(v, cost);
    for (int p = 0; p < v->at.n; p++) {
        const Inst *i = v->at.at[p].inst;
        if (is_sink(v, i) || cost[i->result] < KEEP_COST || evaluations(v, i->result) < 2) continue;
        const Storage s = storage_make(v, &v->k->types.at[i->result], NULL);
        if (v->stack_bytes + storage_bytes(&s) > STACK_BYTES) continue;
        values_keep(v, i->result);
        return true;
    }
    return false;
}

void values_plan(Values *v, Arena *a, const Kernel *k, int vector) {
    *v = (Values){.arena = a, .k = k, .vector = vector, .value = ARENA_ARRAY(a, ValueInfo, k->types.n + 1)};
    number(v, &k->body, -1, -1);
    values_count_votes(v);
    keep_required(v);
    double *cost = ARENA_ARRAY(a, double, k->types.n + 1);
    analyse(v);
    values_share(v);
    do {
        do analyse(v);
        while (keep_overwritten(v));
    } while (keep_expensive(v, cost));
}
