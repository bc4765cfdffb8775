/* The reference: the graph as it was lowered.  Derivatives are expanded (in float64 they are checked against finite
 * differences) and, where the program asks for bf16, f16 or tf32, dtypes are placed: nothing else is done to it. */
#include "ir/memory.h"
#include "ir/target.h"
#include "tools/fusec/verify.h"
#include <stdlib.h>
#include <string.h>

static const double MOST_OPERATIONS = 1e10, MOST_ELEMENTS = 3e8;

bool verify_has_low(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->precision != PRECISION_F32 || dtype_is_low(g->nodes.at[i]->dtype)) return true;
    return false;
}

bool *verify_results(Arena *a, const Graph *g) {
    bool *asked = ARENA_ARRAY(a, bool, g->nodes.n + 1);
    for (int i = 0; i < g->results.n; i++) asked[g->results.at[i].value->id] = true;
    return asked;
}

static void keep_error(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    Verify *const v = user;
    (void)loc, (void)help;
    if (what != COMPLAINT_WARNING) v->error = arena_printf(v->arena, "%s", message);
}

/* Passes may edit what they are given: this one is read from its text. */
static Graph *copy(Arena *a, const Graph *g) {
    const char *error;
    TextStream t;
    graph_print(text_open(&t), g);
    char *text = text_close(&t);
    Graph *made = graph_parse(a, text, &error);
    free(text);
    return made;
}

Graph *verify_expand(Verify *v, Arena *a, const Graph *g) {
    PassContext c = {.arena = a, .target = target_find("host"), .report = keep_error, .user = v};
    Graph *made = copy(a, g);
    if (!made) return NULL;
    const bool low = verify_has_low(made);
    if (low) made = pass_precision(&c, made);
    made = pass_autodiff(&c, made);
    if (low && !c.failed) made = pass_precision(&c, made);
    graph_prune(made);
    return c.failed ? NULL : made;
}

bool verify_graphs(Verify *v) {
    if (!session_open(&v->session, v->arena, v->o)) return false;
    bool some = false;
    for (int e = 0; e < ENTRY_COUNT; e++) some |= v->o->entry[e];
    for (int e = 0; e < ENTRY_COUNT; e++) {
        Graph *g = v->session.graph[e];
        if (!g) continue;
        v->model = g->model;
        if (some && !v->o->entry[e] && e != ENTRY_INIT) continue;
        v->lowered[e] = g;
        v->graph[e] = verify_expand(v, v->arena, g);
        if (!v->graph[e])
            return run_error("the reference of entry %s cannot be made: %s", entry_name[e],
                             v->error ? v->error : "its graph cannot be read back");
    }
    return true;
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */
static double operations(const Node *n) {
    double count = (double)shape_elements(*n->shape);
    if (n->op == OP_CONTRACT) {
        const Contract *c = n->attr->contract;
        count = c->n_operands;
        for (int l = 0; l < c->n_loops; l++) count *= (double)c->extent[l].bound;
    } else if (op_info[n->op].cls == CLASS_REDUCE || op_info[n->op].cls == CLASS_INDEXED) {
        for (int k = 0; k < n->n_in; k++) count += (double)shape_elements(*n->in[k]->shape);
    }
    return count;
}

bool verify_affordable(Verify *v, int rounds) {
    double total = 0, most = 0;
    for (int e = 0; e < ENTRY_COUNT; e++) {
        double elements = 0;
        for (int i = 0; v->graph[e] && i < v->graph[e]->nodes.n; i++) {
            total += operations(v->graph[e]->nodes.at[i]);
            elements += (double)shape_elements(*v->graph[e]->nodes.at[i]->shape);
        }
        if (elements > most) most = elements;
    }
    if (total <= MOST_OPERATIONS && most <= MOST_ELEMENTS) return true;
    return run_error(
        "the float64 evaluation would take %.2g operations (x %d to find the bounds, x %d rounds) and %.2g GB; at most "
        "%.0e and %.0f GB are taken: verify it at smaller sizes (-D NAME=VALUE)",
        total, BOUND_EVALUATIONS, rounds, most * 24e-9, MOST_OPERATIONS, MOST_ELEMENTS * 24e-9);
}
