#include "passes/precision/precision.h"

typedef struct Raise {
    Graph *g;
    Arena *scratch;
    Node **copy;  /* by old id */
    bool *needed; /* by old id: a contraction of low operands, or a result of a low dtype, is made from it */
    bool *kept;   /* by old id: part of the update that rounds a parameter */
} Raise;

static bool is_half(DType t) { return t == DT_F16 || t == DT_BF16; }

static bool is_low_product(const Node *n) {
    return n->op == OP_CONTRACT && !precision_moves(n) && dtype_is_low(n->in[0]->dtype);
}

static void find_needed(Raise *r, const Graph *g) {
    for (int i = 0; i < g->results.n; i++) {
        const Node *value = g->results.at[i].value;
        const bool low = dtype_is_low(value->dtype);
        r->needed[value->id] |= low;
        r->kept[value->id] |= low && g->results.at[i].kind == RESULT_PARAM;
    }
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.at[i];
        const bool passes = is_low_product(n) || (r->needed[i] && !r->kept[i]);
        for (int k = 0; k < n->n_in; k++) {
            const Node *in = n->in[k];
            r->needed[in->id] |= passes;
            if (r->kept[i] && in->phase == PHASE_UPDATE) r->kept[in->id] = r->needed[in->id] = true;
        }
    }
}

static Node *product_in_f32(Raise *r, const Node *n, Node *const *in) {
    Contract *c = arena_dup(r->scratch, n->attr->contract, sizeof *c);
    c->to_f32 = true;
    Node *made = graph_contract(r->g, n->n_in, in, c);
    made->phase = n->phase, made->remat = n->remat, made->loc = n->loc;
    return made;
}

static Node *constant_in_f32(Raise *r, const Node *n) {
    Node *made = graph_const(r->g, DT_F32, *n->shape, n->attr->value);
    made->phase = n->phase, made->remat = n->remat, made->loc = n->loc;
    return made;
}

/* Operands of an elementwise op have one dtype; where one of them was raised all are f32. */
static bool disagree(const Node *n, Node *const *in) {
    DType t = DT_COUNT;
    if (op_info[n->op].cls != CLASS_ELEMENT && op_info[n->op].cls != CLASS_MOVE) return false;
    for (int k = 0; k < n->n_in; k++) {
        if (!dtype_is_float(in[k]->dtype)) continue;
        if (t != DT_COUNT && t != in[k]->dtype) return true;
        t = in[k]->dtype;
    }
    return false;
}

static Node *remake(Raise *r, const Node *n) {
    const bool up = is_half(n->dtype) && !r->needed[n->id];
    Node **in = ARENA_ARRAY(r->scratch, Node *, n->n_in + 1);
    for (int k = 0; k < n->n_in; k++) in[k] = r->copy[n->in[k]->id];
    if (up && is_low_product(n)) return product_in_f32(r, n, in);
    if (up && n->op == OP_CONST) return constant_in_f32(r, n);
    if (op_info[n->op].cls == CLASS_SOURCE) {
        Node *made = graph_node(r->g, n->op, n->n_in, in, NULL, n->dtype, *n->shape);
        made->attr = n->attr;
        made->phase = n->phase, made->remat = n->remat, made->loc = n->loc;
        return made;
    }
    for (int k = 0; (up || disagree(n, in)) && k < n->n_in; k++) in[k] = precision_cast(r->g, in[k], DT_F32, n);
    if (n->op == OP_CAST && dtype_is_float(in[0]->dtype) && (up || in[0]->dtype == n->dtype)) return in[0];
    if (n->op == OP_CAST && up) {
        Node *made = graph_cast(r->g, in[0], DT_F32);
        made->phase = n->phase, made->remat = n->remat, made->loc = n->loc;
        return made;
    }
    return precision_remake(r->g, n, in);
}

static bool is_low(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (is_half(g->nodes.at[i]->dtype)) return true;
    return false;
}

Graph *precision_raise(PassContext *c, Graph *g) {
    if (!is_low(g)) return g;
    const int n = g->nodes.n;
    Raise r = {.g = graph_new_from(c->arena, g), .scratch = arena_new()};
    r.copy = ARENA_ARRAY(r.scratch, Node *, n);
    r.needed = ARENA_ARRAY(r.scratch, bool, n);
    r.kept = ARENA_ARRAY(r.scratch, bool, n);
    find_needed(&r, g);
    for (int i = 0; i < n; i++) r.copy[i] = remake(&r, g->nodes.at[i]);
    for (int i = 0; i < g->results.n; i++) {
        const Result *result = &g->results.at[i];
        const DType t = r.needed[result->value->id] ? result->value->dtype : DT_F32; /* what it moves may have been raised */
        Node *value = precision_cast(r.g, r.copy[result->value->id], t, result->value);
        graph_result(r.g, result->kind, result->decl, value);
    }
    arena_free(r.scratch);
    graph_prune(r.g);
    return r.g;
}
