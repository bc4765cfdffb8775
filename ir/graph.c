/* Building and editing graphs. */
#include "ir/graph.h"
#include "ir/node_pool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Graph *graph_new(Arena *a, Model *m, Entry e) {
    Graph *g = ARENA_NEW(a, Graph);
    *g = (Graph){.arena = a, .pool = node_pool_new(a), .model = m, .entry = e};
    return g;
}

Graph *graph_new_from(Arena *a, const Graph *g) {
    Graph *made = ARENA_NEW(a, Graph);
    *made = (Graph){.arena = a, .pool = g->pool, .model = g->model, .entry = g->entry, .chunks = g->chunks};
    return made;
}

Node *graph_node(Graph *g, Op op, int n_in, Node *const *in, const Attr *attr, DType dtype, Shape shape) {
    static const Attr none = {0};
    Node *n = ARENA_NEW(g->arena, Node);
    n->id = g->nodes.n, n->op = op, n->dtype = dtype, n->n_in = n_in;
    n->shape = node_pool_shape(g->pool, &shape);
    n->in = arena_dup(g->arena, in, sizeof *in * (size_t)n_in);
    bool carries_dtype = op_info[op].type == TYPE_ATTR;
    n->attr = &none;
    if (attr || carries_dtype) {
        Attr wanted = attr ? *attr : none;
        if (carries_dtype) wanted.dtype = dtype;
        n->attr = &wanted;
        n->attr = node_pool_attr(g->pool, n);
    }
    vec_push(g->arena, g->nodes, n);
    g->canonical = false;
    g->edited = true;
    return n;
}

Node *graph_node_like(Graph *g, const Node *n, Node *const *in) {
    Node *made = graph_node(g, n->op, n->n_in, in, n->attr, n->dtype, *n->shape);
    made->phase = n->phase;
    made->precision = n->precision;
    made->again = n->again;
    made->remat = n->remat;
    made->loc = n->loc;
    return made;
}

Graph *graph_duplicate(Arena *a, const Graph *g) {
    Arena *scratch = arena_new();
    Graph *made = graph_new_from(a, g);
    Node **map = ARENA_ARRAY(scratch, Node *, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        Node **in = ARENA_ARRAY(scratch, Node *, n->n_in + 1);
        for (int k = 0; k < n->n_in; k++) in[k] = map[n->in[k]->id];
        map[i] = graph_node_like(made, n, in);
    }
    for (int i = 0; i < g->results.n; i++)
        graph_result(made, g->results.at[i].kind, g->results.at[i].decl, map[g->results.at[i].value->id]);
    arena_free(scratch);
    return made;
}

const char *const precision_name[PRECISION_COUNT] = {
    [PRECISION_F32] = "f32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16", [PRECISION_F16] = "f16"};

bool op_has_precision(Op op) {
    const OpClass c = op_info[op].cls;
    return c == CLASS_ELEMENT || c == CLASS_REDUCE || c == CLASS_CONTRACT || op == OP_GATHER;
}

/* A bug of the caller, in every build: going on would compile a wrong program. */
static void misuse(Op op, const char *why) {
    fprintf(stderr, "fusec: internal error: building %s: %s\n", op_info[op].text, why);
    abort();
}

/* By the op's rule, `shape` being the one asked for. */
static Node *inferred(Graph *g, Op op, int n_in, Node *const *in, const Attr *attr, Shape shape) {
    DType dtype;
    const char *why = NULL;
    if (!graph_infer(g->arena, op, n_in, in, attr, &dtype, &shape, &why)) misuse(op, why);
    return graph_node(g, op, n_in, in, attr, dtype, shape);
}

static bool brings_own_shape(Op op) {
    return op == OP_RESHAPE || op == OP_BROADCAST || op == OP_PARAM || op == OP_STATE || op == OP_INPUT ||
           op == OP_CONST || op == OP_IOTA || op == OP_RANDOM;
}

Node *graph_op(Graph *g, Op op, int n_in, Node *const *in, const Attr *attr) {
    if (brings_own_shape(op)) misuse(op, "has a shape of its own");
    if (op == OP_CONTRACT) return graph_contract(g, n_in, in, attr->contract);
    return inferred(g, op, n_in, in, attr, shape_scalar());
}

Node *graph_const(Graph *g, DType t, Shape s, double value) {
    return inferred(g, OP_CONST, 0, NULL, &(Attr){.dtype = t, .value = value}, s);
}

Node *graph_unary(Graph *g, Op op, Node *a) { return graph_op(g, op, 1, &a, NULL); }

Node *graph_binary(Graph *g, Op op, Node *a, Node *b) { return graph_op(g, op, 2, (Node *[]){a, b}, NULL); }

Node *graph_select(Graph *g, Node *c, Node *a, Node *b) { return graph_op(g, OP_SELECT, 3, (Node *[]){c, a, b}, NULL); }

Node *graph_cast(Graph *g, Node *a, DType t) { return graph_op(g, OP_CAST, 1, &a, &(Attr){.dtype = t}); }

Node *graph_reshape(Graph *g, Node *a, Shape s) { return inferred(g, OP_RESHAPE, 1, &a, NULL, s); }

Node *graph_transpose(Graph *g, Node *a, const int8_t *perm) {
    Attr attr = {.n_axes = a->shape->rank};
    for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = perm[d];
    return graph_op(g, OP_TRANSPOSE, 1, &a, &attr);
}

Node *graph_broadcast(Graph *g, Node *a, Shape s, const int8_t *axes) {
    Attr attr = {.n_axes = a->shape->rank};
    for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = axes[d];
    return inferred(g, OP_BROADCAST, 1, &a, &attr, s);
}

Node *graph_reduce(Graph *g, Op op, Node *a, int n_axes, const int8_t *axes) {
    if (n_axes < 0 || n_axes > MAX_RANK) misuse(op, "too many axes");
    Attr attr = {.n_axes = n_axes};
    for (int i = 0; i < n_axes; i++) { /* insertion: callers may give axes in any order */
        int at = i;
        for (; at > 0 && attr.axes[at - 1] > axes[i]; at--) attr.axes[at] = attr.axes[at - 1];
        attr.axes[at] = axes[i];
    }
    return graph_op(g, op, 1, &a, &attr);
}

Node *graph_contract(Graph *g, int n, Node *const *in, const Contract *c) {
    const Attr attr = {.contract = c};
    return inferred(g, OP_CONTRACT, n, in, &attr, shape_scalar());
}

Node *graph_iota(Graph *g, Shape s, int axis) {
    return inferred(g, OP_IOTA, 0, NULL, &(Attr){.dtype = DT_I32, .axis = axis}, s);
}

void graph_result(Graph *g, ResultKind k, int decl, Node *value) {
    g->canonical = false;
    g->edited = true;
    vec_push(g->arena, g->results, (Result){.kind = k, .decl = decl, .value = value});
}

void graph_renumber(Graph *g) {
    for (int i = 0; i < g->nodes.n; i++) g->nodes.at[i]->id = i;
}

/* Reads each node once: those of a deep model's graph are more than the caches hold, and a walk costs its misses. */
Uses graph_uses(Arena *a, const Graph *g) {
    const int n = g->nodes.n;
    Arena *scratch = arena_new();
    int *end = ARENA_ARRAY(scratch, int, n + 1); /* by id: operands of the nodes up to it */
    VEC(int) operand = {0};
    Uses u = {.first = ARENA_ARRAY(a, int, n + 2)};
    for (int i = 0; i < n; i++) { /* first[id + 2] counts, then becomes the place to fill */
        const Node *x = g->nodes.at[i];
        for (int k = 0; k < x->n_in; k++) {
            vec_push(scratch, operand, x->in[k]->id);
            u.first[x->in[k]->id + 2]++;
        }
        end[i] = operand.n;
    }
    for (int i = 2; i <= n + 1; i++) u.first[i] += u.first[i - 1];
    u.user = ARENA_ARRAY(a, Node *, operand.n);
    for (int i = 0, k = 0; i < n; i++)
        for (; k < end[i]; k++) u.user[u.first[operand.at[k] + 1]++] = g->nodes.at[i];
    arena_free(scratch);
    return u;
}

void graph_prune(Graph *g) {
    bool *needed = ARENA_ARRAY(g->arena, bool, g->nodes.n);
    for (int i = 0; i < g->results.n; i++) needed[g->results.at[i].value->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *x = g->nodes.at[i];
        for (int k = 0; needed[i] && k < x->n_in; k++) needed[x->in[k]->id] = true;
    }
    int kept = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        if (!needed[i]) continue;
        if (kept != i) g->nodes.at[i]->id = kept;
        g->nodes.at[kept++] = g->nodes.at[i];
    }
    g->nodes.n = kept;
}
