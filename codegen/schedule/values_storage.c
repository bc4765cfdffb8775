/* How a kept value lies in memory, and which values share it; see values.h.  Its constants are from `./dev bench gemm`. */
#include "codegen/schedule/values_internal.h"

/* ---- storage ----------------------------------------------------------------------------------------------------- */
void values_count_votes(Values *v) {
    for (int p = 0; p < v->at.n; p++) {
        const Inst *i = v->at.at[p].inst;
        if (i->kind != TI_LOAD && i->kind != TI_STORE) continue;
        for (int x = 0; x < v->k->axes.n; x++) {
            int64_t coef;
            if (!axis_trivial(v->k, x) && access_affine(v->k, i, x, &coef) && coef == 1)
                v->votes[x] += i->kind == TI_STORE ? 8 : 1;
        }
    }
}

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int favourite(const Values *v, const TileType *t) {
    int best = -1;
    for (int i = 0; i < t->n_axes; i++)
        if (best < 0 || v->votes[t->axis[i]] >= v->votes[best]) best = t->axis[i];
    return best;
}

enum {
    FEW_COLUMNS = 8, /* fewer: most of a vector would be empty */
    LONG_SUM = 32,   /* terms: fewer do not pay for adding up a vector's lanes */
};

/* 0: in both factors, 1: row, 2: column.  Columns are the axes of the factor that has `inner`. */
static int dot_side(const Kernel *k, const Inst *dot, int inner, int axis) {
    const TileType *x = &k->types.at[dot->in[0]], *y = &k->types.at[dot->in[1]];
    if (axis == inner) return 3;
    const bool in_x = tile_type_has(x, axis), in_y = tile_type_has(y, axis);
    if (in_x == in_y) return 0;
    return (tile_type_has(y, inner) ? in_y : in_x) ? 2 : 1;
}

static int longest(const Values *v, const TileType *t, const Inst *dot, int inner, int side) {
    const Axis *axes = v->k->axes.at;
    int best = -1;
    for (int i = 0; i < t->n_axes; i++)
        if (dot_side(v->k, dot, inner, t->axis[i]) == side && (best < 0 || axes[t->axis[i]].step > axes[best].step))
            best = t->axis[i];
    return best;
}

static int64_t lanes_on(const Values *v, const TileType *t, const Inst *dot, int inner, int side) {
    int64_t n = 1;
    for (int i = 0; i < t->n_axes; i++)
        if (dot_side(v->k, dot, inner, t->axis[i]) >= side) n *= v->k->axes.at[t->axis[i]].step;
    return n;
}

/* The axis of groups, in both factors of a product, which with the few columns of each, along `inner`, fills whole
 * vectors; -1: there is none. */
static int group_axis(const Values *v, const TileType *t, const Inst *dot, int inner) {
    enum { MOST_WIDTH = 16 };
    const Dim all = inner < 0 ? dim_fixed(0) : v->k->axes.at[inner].extent;
    const int64_t width = inner < 0 ? 0 : v->k->axes.at[inner].step, lanes = width > v->vector ? width : v->vector;
    int group = -1;
    if (inner < 0 || width > MOST_WIDTH || !dim_is_fixed(all) || all.bound != width) return -1;
    const TileType *x = &v->k->types.at[dot->in[0]], *y = &v->k->types.at[dot->in[1]];
    if (tile_type_has(x, inner) == tile_type_has(y, inner)) return -1;
    for (int i = 0; i < t->n_axes; i++) {
        const int a = t->axis[i], side = dot_side(v->k, dot, inner, a);
        const Axis *g = &v->k->axes.at[a];
        if (side == 2) return -1;
        if (side != 0 || !dim_is_fixed(g->extent) || g->extent.bound % g->step) continue;
        if (lanes % width == 0 && lanes % v->vector == 0 && g->step * width % lanes == 0) group = a;
    }
    return group;
}

/* The axis that lies contiguous.  Of a product's result it is filled up to whole vectors: if that is much, as with
 * residue classes of a convolution, the longest axis of the same factor; of few columns in all and one k, the longest
 * of the rows, which thus become the columns. */
static int innermost(const Values *v, const TileType *t, const Inst *dot) {
    const Axis *axes = v->k->axes.at;
    const int favoured = favourite(v, t);
    if (!dot || favoured < 0 || axes[favoured].step >= FEW_COLUMNS) return favoured;
    const int row = longest(v, t, dot, favoured, 1), column = longest(v, t, dot, favoured, 2);
    const bool both =
        tile_type_has(&v->k->types.at[dot->in[0]], favoured) && tile_type_has(&v->k->types.at[dot->in[1]], favoured);
    if (!both && dot->n_over == 1 && axes[dot->over[0]].step >= LONG_SUM && row >= 0 && axes[row].step >= FEW_COLUMNS &&
        lanes_on(v, t, dot, favoured, 2) < FEW_COLUMNS)
        return row;
    return column >= 0 && axes[favoured].step < v->vector / 2 && axes[column].step > axes[favoured].step ? column
                                                                                                         : favoured;
}

Storage storage_make(const Values *v, const TileType *type, const Inst *dot) {
    const Kernel *k = v->k;
    const TileType t = only_nontrivial(k, *type);
    Storage s = {.dtype = type->dtype};
    const int group = dot ? group_axis(v, &t, dot, favourite(v, &t)) : -1;
    const int inner = group < 0 ? innermost(v, &t, dot) : favourite(v, &t);
    s.joint = group >= 0;
    for (int side = 0; side <= 3; side++)
        for (int i = 0; i < t.n_axes; i++) {
            const int a = t.axis[i], at = a == group ? 2 : dot ? dot_side(k, dot, inner, a) : a == inner ? 3 : 1;
            if (at != side) continue;
            s.axis[s.n++] = (int8_t)a;
            s.n_columns += dot && side >= 2;
        }
    int64_t stride = 1;
    for (int i = s.n - 1; i >= 0; i--) {
        int64_t n = k->axes.at[s.axis[i]].step;
        s.stride[i] = stride;
        if (i == s.n - 1 && !s.joint) n = round_up(n, dot && n > v->vector ? 2 * v->vector : v->vector);
        stride *= n;
    }
    s.elements = stride;
    return s;
}

int64_t storage_bytes(const Storage *s) { return s->elements * dtype_bytes(DT_F32); }

void values_keep(Values *v, int x) {
    if (v->value[x].kept) return;
    const Inst *def = v->value[x].def;
    const Storage s = storage_make(v, &v->k->types.at[x], def && def->kind == TI_DOT ? def : NULL);
    v->value[x].kept = true;
    v->value[x].storage = v->storage.n;
    vec_push(v->arena, v->storage, s);
    v->stack_bytes += storage_bytes(&s);
}

/* ---- sharing ----------------------------------------------------------------------------------------------------- */
static void unite(Values *v, int older, int newer) {
    int from = v->value[newer].storage, to = v->value[older].storage;
    if (from == to) return;
    if (v->storage.at[from].n_columns) { /* a dot's layout wins */
        const Storage s = v->storage.at[from];
        v->storage.at[from] = v->storage.at[to];
        v->storage.at[to] = s;
    }
    v->stack_bytes -= storage_bytes(&v->storage.at[from]);
    for (int i = 0; i < v->k->types.n; i++)
        if (v->value[i].kept && v->value[i].storage == from) v->value[i].storage = to;
    v->storage.at[from].elements = 0;
}

static bool same_type(const Kernel *k, int a, int b) {
    const TileType *x = &k->types.at[a], *y = &k->types.at[b];
    return x->dtype == y->dtype && same_axes(*x, *y);
}

static bool dies_by(const Values *v, int x, int pos, int end) {
    return v->value[x].kept && v->value[x].loop == v->at.at[pos].loop && last_use(v, x) <= end;
}

static void share_dot(Values *v, const Inst *i, int pos) {
    const int acc = i->in[2];
    if (!same_type(v->k, acc, i->result) || !dies_by(v, acc, pos, pos)) return;
    if (!reads_value(v, i->in[0], acc) && !reads_value(v, i->in[1], acc)) unite(v, acc, i->result);
}

static void share_starts(Values *v, const Inst *i, int pos) {
    for (int c = 0; c < i->n_carry; c++) {
        if (i->kind == TI_FOR) unite(v, i->carry[c], i->results[c]);
        bool alone = true;
        for (int o = 0; o < i->n_carry; o++) alone &= o == c || !reads_value(v, i->init[o], i->init[c]);
        const int end = i->kind == TI_FOR ? pos : v->at.at[pos].end;
        if (alone && same_type(v->k, i->init[c], i->results[c]) && dies_by(v, i->init[c], pos, end))
            unite(v, i->init[c], i->results[c]);
    }
}

void values_share(Values *v) {
    for (int p = 0; p < v->at.n; p++) {
        const Inst *i = v->at.at[p].inst;
        if (i->kind == TI_DOT) share_dot(v, i, p);
        if (i->kind == TI_FOR || i->kind == TI_IF) share_starts(v, i, p);
    }
}
