/* What a legal graph is, as an executable specification.  Runs after every pass in test builds, so it
 * stays linear in the size of the graph. */
#include "ir/graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Verify {
    Arena *arena;
    const Graph *g;
    const Node *node; /* being checked, NULL outside the list */
    const char *violation;
} Verify;

static bool fail(Verify *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Verify *v, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(v->arena, fmt, ap);
    va_end(ap);
    if (v->node) text = arena_printf(v->arena, "%%%d: %s", v->node->id, text);
    v->violation = text;
    return false;
}

/* ---- dims -------------------------------------------------------------------------------------------- */

/* A bounded dim names a symbol, and its bound is its value at the symbol's bound. */
static bool check_dim(Verify *v, Dim d) {
    const Model *m = v->g->model;
    if (dim_is_fixed(d)) return true;
    if (d.sym < 0 || d.sym >= m->syms.n) return fail(v, "no symbol %lld", (long long)d.sym);
    int64_t at_bound;
    if (__builtin_mul_overflow(d.scale, m->syms.at[d.sym].bound, &at_bound) ||
        __builtin_add_overflow(at_bound, d.offset, &at_bound) || at_bound != d.bound) {
        return fail(v, "an extent's bound is not its value at the bound of '%s'", m->syms.at[d.sym].name);
    }
    return true;
}

static bool check_shape(Verify *v, const Shape *s) {
    if (s->rank < 0 || s->rank > MAX_RANK) return fail(v, "rank %d", s->rank);
    for (int d = 0; d < s->rank; d++) {
        if (!check_dim(v, s->dim[d])) return false;
        if (s->dim[d].bound < 0) return fail(v, "negative extent");
    }
    int64_t elements;
    return shape_elements_checked(*s, &elements) || fail(v, "too many elements");
}

static bool check_contract_dims(Verify *v, const Contract *c) {
    for (int l = 0; l < c->n_loops; l++) {
        if (!check_dim(v, c->extent[l])) return false;
    }
    for (int i = 0; i < c->n_guards; i++) {
        if (c->guard[i].kind == GUARD_RANGE && !check_dim(v, c->guard[i].hi)) return false;
    }
    return true;
}

/* ---- declarations ---------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `name[]` is sorted in place. */
static bool check_unique(Verify *v, const char **name, int n, const char *what) {
    for (int i = 0; i < n; i++) {
        if (!name[i] || !name[i][0]) return fail(v, "%s %d has no name", what, i);
    }
    if (n > 0) qsort(name, (size_t)n, sizeof *name, compare_names);
    for (int i = 1; i < n; i++) {
        if (strcmp(name[i - 1], name[i]) == 0) return fail(v, "%s \"%s\" declared twice", what, name[i]);
    }
    return true;
}

static bool check_decls(Verify *v, const TensorDecl *at, int n, const char *what) {
    const char **name = ARENA_ARRAY(v->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        name[i] = at[i].name;
        if ((unsigned)at[i].dtype >= DT_COUNT) return fail(v, "%s %d has no element type", what, i);
        if (!check_shape(v, &at[i].shape)) return fail(v, "%s %d: %s", what, i, v->violation);
        if (shape_elements(at[i].shape) > MAX_ELEMENTS) return fail(v, "%s %d: too many elements", what, i);
        if (!at[i].has_range) continue;
        bool fits = at[i].dtype == DT_I32 && at[i].lo < at[i].hi && at[i].lo >= INT32_MIN;
        if (!fits || at[i].hi > (int64_t)INT32_MAX + 1) return fail(v, "%s %d has an impossible range", what, i);
    }
    return check_unique(v, name, n, what);
}

static bool check_model(Verify *v) {
    const Model *m = v->g->model;
    if (!m || !m->name) return fail(v, "the graph's model has no name");
    const char **name = ARENA_ARRAY(v->arena, const char *, m->syms.n + m->hypers.n);
    for (int i = 0; i < m->syms.n; i++) {
        name[i] = m->syms.at[i].name;
        if (m->syms.at[i].bound < 0) return fail(v, "dim %d has a negative bound", i);
    }
    if (!check_unique(v, name, m->syms.n, "dim")) return false;
    for (int i = 0; i < m->hypers.n; i++) name[i] = m->hypers.at[i].name;
    if (!check_unique(v, name, m->hypers.n, "hyper")) return false;
    if (!check_decls(v, m->params.at, m->params.n, "param")) return false;
    for (int i = 0; i < m->params.n; i++) {
        if (!shape_is_fixed(m->params.at[i].shape)) return fail(v, "param %d has a bounded extent", i);
    }
    return check_decls(v, m->states.at, m->states.n, "state") && check_decls(v, m->inputs.at, m->inputs.n, "input") &&
           check_decls(v, m->outputs.at, m->outputs.n, "output");
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

static bool matches_decl(Verify *v, const TensorDecl *at, int n, int decl, const Node *node) {
    if (decl < 0 || decl >= n) return fail(v, "declaration %d does not exist", decl);
    if (node->dtype == at[decl].dtype && shape_equal(*node->shape, at[decl].shape)) return true;
    return fail(v, "\"%s\" is declared %s%s, not %s%s", at[decl].name, dtype_name(at[decl].dtype),
                shape_text(v->arena, at[decl].shape), dtype_name(node->dtype), shape_text(v->arena, *node->shape));
}

static bool check_operands(Verify *v, const Node *n) {
    if (n->n_in < 0 || (n->n_in > 0 && !n->in)) return fail(v, "operands are missing");
    for (int i = 0; i < n->n_in; i++) {
        const Node *in = n->in[i];
        if (!in) return fail(v, "operand %d is missing", i);
        if (in->id < 0 || in->id >= n->id || v->g->nodes.at[in->id] != in) {
            return fail(v, "operand %d does not stand before it in this graph", i);
        }
    }
    return true;
}

static bool check_attribute(Verify *v, const Node *n) {
    const Model *m = v->g->model;
    const Attr *a = n->attr;
    switch (n->op) {
    case OP_PARAM: return matches_decl(v, m->params.at, m->params.n, a->decl, n);
    case OP_STATE: return matches_decl(v, m->states.at, m->states.n, a->decl, n);
    case OP_INPUT: return matches_decl(v, m->inputs.at, m->inputs.n, a->decl, n);
    case OP_HYPER: return (a->decl >= 0 && a->decl < m->hypers.n) || fail(v, "hyper %d does not exist", a->decl);
    case OP_EXTENT:
    case OP_SLICE_AT:
    case OP_BUCKET:
    case OP_SCATTER_ADD:
    case OP_SCATTER_MAX:
    case OP_SCATTER_ARGMAX: return check_dim(v, a->extent);
    case OP_CONST:
        return dtype_is_float(n->dtype) || scalar_round(n->dtype, a->value) == a->value ||
               fail(v, "%g is no %s", a->value, dtype_name(n->dtype));
    case OP_SLICE:
        for (int d = 0; d < n->shape->rank; d++) {
            if (!check_dim(v, a->lo[d]) || !check_dim(v, a->hi[d])) return false;
        }
        return true;
    case OP_CONTRACT: return check_contract_dims(v, a->contract);
    default: return true;
    }
}

static bool check_node(Verify *v, const Node *n, int position) {
    if (n->id != position) return fail(v, "stands at position %d", position);
    if ((unsigned)n->op >= OP_COUNT || (unsigned)n->dtype >= DT_COUNT) return fail(v, "unknown op or dtype");
    if ((unsigned)n->precision >= PRECISION_COUNT || (n->precision && !op_has_precision(n->op))) {
        return fail(v, "bad precision");
    }
    if ((unsigned)n->phase > PHASE_UPDATE || n->remat < 0) return fail(v, "bad phase or remat");
    if (!n->attr) return fail(v, "has no attributes");
    if (!n->shape) return fail(v, "has no shape");
    if (!check_operands(v, n) || !check_shape(v, n->shape)) return false;
    DType dtype;
    Shape shape = *n->shape;
    const char *why = NULL;
    if (!graph_infer(v->arena, n->op, n->n_in, n->in, n->attr, &dtype, &shape, &why)) return fail(v, "%s", why);
    if (dtype != n->dtype || !shape_equal(shape, *n->shape)) {
        return fail(v, "%s gives %s%s, not %s%s", op_info[n->op].text, dtype_name(dtype), shape_text(v->arena, shape),
                    dtype_name(n->dtype), shape_text(v->arena, *n->shape));
    }
    return check_attribute(v, n);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static bool check_results(Verify *v) {
    static const bool allowed[ENTRY_COUNT][4] = {
        [ENTRY_INIT] = {[RESULT_PARAM] = true, [RESULT_STATE] = true},
        [ENTRY_INFER] = {[RESULT_OUTPUT] = true, [RESULT_STATE] = true},
        [ENTRY_GRAD] = {[RESULT_OUTPUT] = true, [RESULT_STATE] = true, [RESULT_GRAD] = true},
        [ENTRY_STEP] = {[RESULT_OUTPUT] = true, [RESULT_STATE] = true, [RESULT_PARAM] = true},
        [ENTRY_DERIVE] = {[RESULT_STATE] = true}};
    const Model *m = v->g->model;
    const struct {
        const TensorDecl *at;
        int n;
    } list[] = {[RESULT_OUTPUT] = {m->outputs.at, m->outputs.n},
                [RESULT_GRAD] = {m->params.at, m->params.n},
                [RESULT_PARAM] = {m->params.at, m->params.n},
                [RESULT_STATE] = {m->states.at, m->states.n}};
    bool *seen[4];
    for (int k = 0; k < 4; k++) seen[k] = ARENA_ARRAY(v->arena, bool, list[k].n);
    for (int i = 0; i < v->g->results.n; i++) {
        const Result *r = &v->g->results.at[i];
        if ((unsigned)r->kind > RESULT_STATE || !allowed[v->g->entry][r->kind]) {
            return fail(v, "result %d is of a kind that entry %s has not", i, entry_name[v->g->entry]);
        }
        const Node *n = r->value;
        if (!n || n->id < 0 || n->id >= v->g->nodes.n || v->g->nodes.at[n->id] != n) {
            return fail(v, "result %d is no node of the graph", i);
        }
        const bool grad = r->kind == RESULT_GRAD && r->decl >= 0 && r->decl < m->params.n;
        if (grad && dtype_is_low(m->params.at[r->decl].dtype)) {
            if (n->dtype != DT_F32 || !shape_equal(*n->shape, m->params.at[r->decl].shape)) {
                return fail(v, "result %d: the gradient of a low parameter is f32 of its shape", i);
            }
        } else if (!matches_decl(v, list[r->kind].at, list[r->kind].n, r->decl, n)) {
            return fail(v, "result %d: %s", i, v->violation);
        }
        if (seen[r->kind][r->decl]) return fail(v, "result %d: \"%s\" again", i, list[r->kind].at[r->decl].name);
        seen[r->kind][r->decl] = true;
    }
    return true;
}

const char *graph_verify(Arena *a, const Graph *g) {
    Verify v = {.arena = a, .g = g};
    if ((unsigned)g->entry >= ENTRY_COUNT) return "unknown entry";
    if (!check_model(&v)) return v.violation;
    for (int i = 0; i < g->nodes.n; i++) {
        v.node = g->nodes.at[i];
        if (!v.node) return "a node is missing";
        if (!check_node(&v, v.node, i)) return v.violation;
    }
    v.node = NULL;
    return check_results(&v) ? NULL : v.violation;
}
