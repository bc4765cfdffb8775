/* What Tile IR is legal: scoping, axes, types, accesses.  Runs after every pass in test builds and
 * before every interpretation, so that neither need check again. */
#include "ir/tile_schedule.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INDEX_DEPTH = 64, MAX_BLOCK_DEPTH = 64 };

typedef struct Verifier {
    Arena *a;
    const Kernel *k;
    const char *error;   /* the first */
    bool *visible;       /* by value: in scope here */
    bool *defined;       /* by value: anywhere so far */
    bool open[MAX_AXES]; /* loop axes whose loop encloses this place */
    VEC(int) scope;      /* visible values, innermost last */
    int depth;
} Verifier;

static bool fail(Verifier *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Verifier *v, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *what = arena_vprintf(v->a, fmt, ap);
    va_end(ap);
    if (!v->error) v->error = arena_printf(v->a, "kernel %s: %s", v->k->name ? v->k->name : "?", what);
    return false;
}

/* ---- head --------------------------------------------------------------------------------------------- */
static bool is_identifier(const char *s) {
    if (!s || !(isalpha((unsigned char)*s) || *s == '_')) return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

static bool check_dim(Verifier *v, Dim d, const char *what, const char *name) {
    if (d.bound < 0 || d.bound > MAX_ELEMENTS) return fail(v, "%s %s has an impossible extent", what, name);
    if (d.sym != NO_SYM && (d.sym < 0 || d.sym >= v->k->n_syms))
        return fail(v, "%s %s follows a symbol that the kernel has not", what, name);
    return true;
}

static bool check_axis(Verifier *v, int n) {
    const Axis *x = &v->k->axes.at[n];
    if (!is_identifier(x->name)) return fail(v, "an axis has no name");
    for (int o = 0; o < n; o++)
        if (strcmp(v->k->axes.at[o].name, x->name) == 0) return fail(v, "two axes are named %s", x->name);
    if (x->kind < AXIS_GRID || x->kind > AXIS_SPAN) return fail(v, "axis %s is of no kind", x->name);
    if (x->step < 1) return fail(v, "axis %s has step %d", x->name, x->step);
    if (!check_dim(v, x->extent, "axis", x->name)) return false;
    if (x->kind == AXIS_SPAN && x->step < x->extent.bound)
        return fail(v, "span %s of %lld does not fit in one tile of %d", x->name, (long long)x->extent.bound, x->step);
    if (x->kind == AXIS_GRID && n > 0 && v->k->axes.at[n - 1].kind != AXIS_GRID)
        return fail(v, "grid axis %s comes after loops or spans", x->name);
    return true;
}

static bool check_buffer(Verifier *v, int n) {
    const Buffer *b = &v->k->buffers.at[n];
    if (!is_identifier(b->name)) return fail(v, "a buffer has no name");
    for (int o = 0; o < n; o++)
        if (strcmp(v->k->buffers.at[o].name, b->name) == 0) return fail(v, "two buffers are named %s", b->name);
    for (int a = 0; a < v->k->axes.n; a++)
        if (strcmp(v->k->axes.at[a].name, b->name) == 0) return fail(v, "an axis and a buffer are named %s", b->name);
    if (b->dtype < 0 || b->dtype >= DT_COUNT) return fail(v, "buffer %s has no dtype", b->name);
    if (b->dtype == DT_F64) return fail(v, "buffer %s is f64: kernels compute in f32 and below", b->name);
    if (b->rank < 0 || b->rank > MAX_RANK) return fail(v, "buffer %s has rank %d", b->name, b->rank);
    for (int d = 0; d < b->rank; d++) {
        if (!check_dim(v, b->dim[d], "buffer", b->name)) return false;
        if (b->stride[d] < 0) return fail(v, "buffer %s has a negative stride", b->name);
    }
    return true;
}

static bool same_form(const Buffer *a, const Buffer *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->written == b->written && a->in_place == b->in_place;
    for (int d = 0; d < a->rank && same; d++) same = dim_equal(a->dim[d], b->dim[d]) && a->stride[d] == b->stride[d];
    return same;
}

/* One axis counts the members; a family's buffers are as many, of one form, and no head of a family stands among them. */
static bool check_family(Verifier *v) {
    const Kernel *k = v->k;
    const int axis = kernel_family_axis(k);
    for (int x = 0; x < k->axes.n; x++) {
        const Axis *a = &k->axes.at[x];
        if (!a->family) continue;
        if (x != axis || a->kind != AXIS_GRID || a->step != 1 || !dim_is_fixed(a->extent))
            return fail(v, "axis %s cannot count the members of a family", a->name);
    }
    for (int b = 0; b < k->buffers.n; b++) {
        const Buffer *first = &k->buffers.at[b];
        if (!first->family) continue;
        if (axis < 0 || first->family != k->axes.at[axis].extent.bound || first->family > k->buffers.n - b)
            return fail(v, "buffer %s has not one for each member of a family", first->name);
        for (int n = 1; n < first->family; n++)
            if (first[n].family || !same_form(first, &first[n]))
                return fail(v, "buffers %s and %s are one family but not alike", first->name, first[n].name);
    }
    return true;
}

/* Members other than the first are reached through it. */
static bool check_named(Verifier *v, int buffer) {
    const Buffer *all = v->k->buffers.at;
    for (int b = buffer - 1; b >= 0; b--)
        if (all[b].family > buffer - b) return fail(v, "%%%s is accessed by its own name, not its family's", all[buffer].name);
    return true;
}

static bool check_head(Verifier *v) {
    const Kernel *k = v->k;
    if (!is_identifier(k->name)) return fail(v, "its name is not an identifier");
    if (k->axes.n > MAX_AXES) return fail(v, "it has more than %d axes", MAX_AXES);
    if (k->threads < 0) return fail(v, "it has a negative number of threads");
    if (k->n_syms < 0 || (k->n_syms && !k->sym_names)) return fail(v, "its symbols have no names");
    for (int s = 0; k->sym_bounds && s < k->n_syms; s++)
        if (k->sym_bounds[s] < 0) return fail(v, "symbol %s has a negative bound", k->sym_names[s]);
    for (int a = 0; a < k->axes.n; a++)
        if (!check_axis(v, a)) return false;
    for (int b = 0; b < k->buffers.n; b++)
        if (!check_buffer(v, b)) return false;
    return k->bundle.n || check_family(v);
}

/* ---- types and indices ------------------------------------------------------------------------------------ */
static bool same_type(const TileType *x, const TileType *y) {
    if (x->dtype != y->dtype || x->n_axes != y->n_axes) return false;
    for (int i = 0; i < x->n_axes; i++)
        if (x->axis[i] != y->axis[i]) return false;
    return true;
}

static bool check_axis_use(Verifier *v, int axis) {
    if (axis < 0 || axis >= v->k->axes.n) return fail(v, "an axis is used that the kernel has not");
    if (v->k->axes.at[axis].kind == AXIS_LOOP && !v->open[axis])
        return fail(v, "axis %s is used outside its loop", v->k->axes.at[axis].name);
    return true;
}

static bool check_type(Verifier *v, const TileType *t) {
    if (t->dtype < 0 || t->dtype >= DT_COUNT || t->dtype == DT_F64) return fail(v, "a value has no dtype that kernels compute in");
    if (t->n_axes < 0 || t->n_axes > MAX_TILE_AXES) return fail(v, "a value has too many axes");
    for (int i = 0; i < t->n_axes; i++) {
        if (!check_axis_use(v, t->axis[i])) return false;
        if (i && t->axis[i] <= t->axis[i - 1]) return fail(v, "the axes of a value are not in order");
    }
    return true;
}

static bool check_use(Verifier *v, int value) {
    if (value < 0 || value >= v->k->types.n) return fail(v, "a value is used that the kernel has not");
    if (!v->visible[value])
        return fail(v, v->defined[value] ? "%%%d is used outside its body" : "%%%d is used before it is defined",
                    value);
    return true;
}

static bool check_index(Verifier *v, const Index *x, int depth);

static bool check_atom(Verifier *v, const Atom *a, int depth) {
    int64_t c;
    switch (a->kind) {
    case ATOM_AXIS: return check_axis_use(v, a->id);
    case ATOM_EXTENT: return (a->id >= 0 && a->id < v->k->n_syms) || fail(v, "an index uses an unknown symbol");
    case ATOM_TILE:
        return check_axis_use(v, a->id) &&
               (v->k->axes.at[a->id].kind != AXIS_SPAN || fail(v, "an index counts tiles along what is no grid axis, and no loop"));
    case ATOM_VALUE:
        if (!check_use(v, a->id)) return false;
        return v->k->types.at[a->id].dtype == DT_I32 || fail(v, "%%%d is used as an index but is not i32", a->id);
    case ATOM_DIV:
    case ATOM_MOD:
        if (!check_index(v, a->num, depth + 1) || !check_index(v, a->den, depth + 1)) return false;
        return !index_is_const(a->den, &c) || c > 0 || fail(v, "an index divides by zero or less");
    }
    return fail(v, "an index has an unknown term");
}

static bool check_index(Verifier *v, const Index *x, int depth) {
    if (!x) return fail(v, "an index is missing");
    if (depth > MAX_INDEX_DEPTH) return fail(v, "an index is nested too deeply");
    for (int i = 0; i < x->n; i++)
        if (!check_atom(v, &x->term[i].atom, depth)) return false;
    return true;
}

/* A tile has MAX_TILE_AXES axes at most: index_axes() drops what does not fit, which is seen here. */
static bool check_index_fits(Verifier *v, const Index *x, const TileType *t) {
    for (int axis = 0; axis < v->k->axes.n; axis++) {
        int64_t coef;
        bool has = false;
        for (int i = 0; i < t->n_axes; i++) has = has || t->axis[i] == axis;
        if (!has && (!index_affine_in(v->k, x, axis, &coef) || coef)) return fail(v, "an access uses too many axes");
    }
    return true;
}

/* ---- instructions ---------------------------------------------------------------------------------------------- */
static bool define(Verifier *v, int value, const TileType *t) {
    if (value < 0 || value >= v->k->types.n) return fail(v, "a result has no value number");
    if (v->defined[value]) return fail(v, "%%%d is defined twice", value);
    if (!same_type(t, &v->k->types.at[value]))
        return fail(v, "%%%d has another type than its instruction gives", value);
    if (!check_type(v, t)) return false;
    v->defined[value] = v->visible[value] = true;
    vec_push(v->a, v->scope, value);
    return true;
}

static bool check_block(Verifier *v, const Block *b, const Inst *owner);

/* The same in all lanes, and in all iterations. */
static bool is_uniform(const Kernel *k, const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        const bool quotient = a->kind == ATOM_DIV || a->kind == ATOM_MOD, scalar = a->kind == ATOM_VALUE && k->types.at[a->id].n_axes == 0;
        if (quotient ? !is_uniform(k, a->num) || !is_uniform(k, a->den) : a->kind != ATOM_TILE && a->kind != ATOM_EXTENT && !scalar) return false;
    }
    return true;
}

static bool check_bound(Verifier *v, const Index *x) {
    if (!x) return true;
    return check_index(v, x, 0) && (is_uniform(v->k, x) || fail(v, "a loop's bound is not the same in all of the program"));
}

static bool check_yield(Verifier *v, const Inst *y, const Inst *owner) {
    if (y->n_in != owner->n_carry) return fail(v, "%d values are yielded for %d", y->n_in, owner->n_carry);
    for (int c = 0; c < owner->n_carry; c++)
        if (!same_type(&v->k->types.at[y->in[c]], &v->k->types.at[owner->init[c]]))
            return fail(v, "%%%d is yielded for %%%d of another type", y->in[c], owner->init[c]);
    return true;
}

static bool check_nested(Verifier *v, const Inst *i) {
    const bool loop = i->kind == TI_FOR;
    if (v->depth == MAX_BLOCK_DEPTH) return fail(v, "bodies are nested too deeply");
    if (i->n_carry < 0 || (i->n_carry && (!i->init || !i->results || (loop && !i->carry))))
        return fail(v, "a body's values are missing");
    for (int c = 0; c < i->n_carry; c++)
        if (!check_use(v, i->init[c])) return false;
    if (loop && (i->axis < 0 || i->axis >= v->k->axes.n || v->k->axes.at[i->axis].kind != AXIS_LOOP))
        return fail(v, "a loop runs over what is no loop axis");
    if (loop && (!check_bound(v, i->from) || !check_bound(v, i->to))) return false;
    if (loop && v->open[i->axis]) return fail(v, "a loop over %s stands inside another", v->k->axes.at[i->axis].name);
    if (!loop && (i->n_in != 1 || v->k->types.at[i->in[0]].dtype != DT_BOOL || v->k->types.at[i->in[0]].n_axes))
        return fail(v, "a condition is not a scalar bool");
    if (loop) v->open[i->axis] = true;
    v->depth++;
    const bool ok = check_block(v, &i->body, i);
    v->depth--;
    if (loop) v->open[i->axis] = false;
    for (int c = 0; ok && c < i->n_carry; c++)
        if (!define(v, i->results[c], &v->k->types.at[i->init[c]])) return false;
    return ok;
}

static bool union_fits(const TileType *a, const TileType *b) {
    int n = a->n_axes;
    for (int i = 0; i < b->n_axes; i++) {
        bool has = false;
        for (int j = 0; j < a->n_axes; j++) has = has || a->axis[j] == b->axis[i];
        n += !has;
    }
    return n <= MAX_TILE_AXES;
}

/* An axis around a store without elements leaves what is stored unwritten; where the index names it, that is no more than
 * a part without elements. */
static bool check_reached(Verifier *v, const Inst *i) {
    TileType named = {0};
    for (int d = 0; d < i->n_index; d++) index_axes(v->k, i->index[d], &named);
    for (int a = 0; a < v->k->axes.n; a++) {
        const Axis *axis = &v->k->axes.at[a];
        bool has = axis->kind == AXIS_SPAN || (axis->kind == AXIS_LOOP && !v->open[a]) || !dim_may_be_empty(axis->extent);
        for (int n = 0; n < named.n_axes; n++) has |= named.axis[n] == a;
        if (!has) return fail(v, "%%%s is not written where %s has no element", v->k->buffers.at[i->buffer].name, axis->name);
    }
    return true;
}

static bool check_access(Verifier *v, const Inst *i, const TileType *t) {
    if (!check_named(v, i->buffer)) return false;
    if (i->kind == TI_STORE && !v->k->buffers.at[i->buffer].written)
        return fail(v, "it stores to %%%s, which is not declared out", v->k->buffers.at[i->buffer].name);
    if (i->kind == TI_STORE && !check_reached(v, i)) return false;
    TileType all = *t;
    for (int n = 0; n < i->n_in; n++) {
        if (!union_fits(&all, &v->k->types.at[i->in[n]])) return fail(v, "an access uses too many axes");
        all = tile_type_union(all, v->k->types.at[i->in[n]]);
    }
    for (int d = 0; d < i->n_index; d++)
        if (!check_index_fits(v, i->index[d], &all)) return false;
    return true;
}

/* A vector of i32: the rows', one more, and the ids'. */
static bool check_bucket(Verifier *v, const Inst *i) {
    if (!check_named(v, i->buffer) || !check_named(v, i->source)) return false;
    const Buffer *to = &v->k->buffers.at[i->buffer], *from = &v->k->buffers.at[i->source];
    if (i->axis < 0 || i->axis >= v->k->axes.n || v->k->axes.at[i->axis].kind != AXIS_GRID)
        return fail(v, "rows of buckets are no grid axis");
    int64_t places = v->k->axes.at[i->axis].extent.bound + 1, ids = 1;
    bool fixed = dim_is_fixed(v->k->axes.at[i->axis].extent) && to->rank == 1 && dim_is_fixed(to->dim[0]);
    for (int d = 0; d < from->rank; d++) fixed &= dim_is_fixed(from->dim[d]), ids *= from->dim[d].bound;
    if (!to->written || from->written || to->family || from->family || to->dtype != DT_I32 || from->dtype != DT_I32 || v->depth > 1)
        return fail(v, "buckets are not made of what is read, in what is written, once");
    return (fixed && to->stride[0] == 1 && to->dim[0].bound == places + ids) || fail(v, "%%%s is not %lld buckets", to->name, (long long)(places + ids));
}

static bool check_operands(Verifier *v, const Inst *i) {
    if (i->n_in < 0 || (i->n_in && !i->in)) return fail(v, "an instruction's operands are missing");
    for (int n = 0; n < i->n_in; n++)
        if (!check_use(v, i->in[n])) return false;
    if (i->n_index < 0 || i->n_index > MAX_RANK) return fail(v, "an access has too many indices");
    for (int d = 0; d < i->n_index; d++)
        if (!check_index(v, i->index[d], 0)) return false;
    if (i->n_over < 0 || i->n_over > MAX_TILE_AXES) return fail(v, "a reduction is over too many axes");
    for (int o = 0; o < i->n_over; o++)
        if (!check_axis_use(v, i->over[o])) return false;
    if (i->kind == TI_STAGE && (i->space < SPACE_REGISTER || i->space > SPACE_SHARED))
        return fail(v, "a value is staged nowhere");
    return true;
}

static bool check_inst(Verifier *v, const Inst *i) {
    TileType t;
    const char *why = "";
    if (!check_operands(v, i)) return false;
    if (i->kind == TI_FOR || i->kind == TI_IF) return check_nested(v, i);
    if (i->kind == TI_BUCKET) return check_bucket(v, i);
    if (!tile_infer(v->k, i, &t, &why))
        return i->result >= 0 ? fail(v, "%%%d: %s", i->result, why) : fail(v, "%s", why);
    if ((i->kind == TI_LOAD || i->kind == TI_STORE) && !check_access(v, i, &t)) return false;
    if (i->kind == TI_STORE) return true;
    if (!same_type(&t, &i->type)) return fail(v, "%%%d is stated to have another type than it has", i->result);
    return define(v, i->result, &t);
}

static bool check_block(Verifier *v, const Block *b, const Inst *owner) {
    const int outside = v->scope.n;
    const bool loop = owner && owner->kind == TI_FOR;
    for (int c = 0; loop && c < owner->n_carry; c++)
        if (!define(v, owner->carry[c], &v->k->types.at[owner->init[c]])) return false;
    if (owner && (b->n == 0 || vec_last(*b)->kind != TI_YIELD)) return fail(v, "a body does not end with yield");
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->kind != TI_YIELD) {
            if (!check_inst(v, i)) return false;
        } else if (!owner || n != b->n - 1) {
            return fail(v, "yield stands elsewhere than at the end of a body");
        } else if (!check_operands(v, i) || !check_yield(v, i, owner)) {
            return false;
        }
    }
    for (; v->scope.n > outside; v->scope.n--) v->visible[vec_last(v->scope)] = false;
    return true;
}

static bool check_bundle(Verifier *v) {
    const Kernel *k = v->k;
    for (int i = 0; i < k->bundle.n && !v->error; i++) {
        if (k->bundle.at[i].kernel->bundle.n) return fail(v, "a bundle is bundled");
        v->error = kernel_verify(v->a, k->bundle.at[i].kernel);
    }
    const char *why = v->error ? NULL : kernel_check_bundle(v->a, k);
    if (why) fail(v, "%s", why);
    return !v->error;
}

const char *kernel_verify(Arena *a, const Kernel *k) {
    Verifier v = {.a = a, .k = k};
    v.visible = ARENA_ARRAY(a, bool, k->types.n + 1);
    v.defined = ARENA_ARRAY(a, bool, k->types.n + 1);
    if (!check_head(&v) || !check_block(&v, &k->body, NULL)) return v.error;
    if (k->bundle.n) {
        check_bundle(&v);
        return v.error;
    }
    const char *why = kernel_check_schedule(a, k);
    if (why) fail(&v, "%s", why);
    return v.error;
}
