/* fuse: concatenations in memory.
 *
 * A concatenation that a product reads, or of which its readers ask for many parts, is not inlined as a choice among its
 * parts, and has no kernel either: the kernels of its parts write it, each into its slice.  A part that is a concatenation
 * itself lies there with all its parts.  So does one of many parts: its kernel would read what each of them is made of. */
#include "passes/plan/fuse.h"
#include "passes/rewrite/insert.h"
#include "passes/pass.h"
#include <string.h>

enum { MOST_CHOICES = 8 }; /* parts asked for by all readers together that may be chosen among */

/* Where a part begins is known, and a multiple of what accesses want. */
static bool parts_align(const Node *n, const Target *t) {
    const int axis = n->attr->axis;
    int64_t inner = dtype_bytes(n->dtype);
    for (int d = axis + 1; d < n->shape->rank; d++) inner *= n->shape->dim[d].bound;
    for (int k = 0; k < n->n_in; k++) {
        const Dim extent = n->in[k]->shape->dim[axis];
        if (!dim_is_fixed(extent) || n->in[k]->dtype != n->dtype) return false;
        if (extent.bound * inner % target_part_align(t)) return false;
    }
    return true;
}

static bool may_join(const Node *n, const Target *t) {
    return n->op == OP_CONCAT && dtype_is_float(n->dtype) && n->dtype != DT_TF32 && parts_align(n, t);
}

static bool *results_of(Arena *a, const Graph *g) {
    bool *result = ARENA_ARRAY(a, bool, g->nodes.n + 1);
    for (int i = 0; i < g->results.n; i++) result[g->results.at[i].value->id] = true;
    return result;
}

/* By node id: results, and what is reshaped only to be one, which is computed where that leaves. */
static bool *leaving_of(Arena *a, const Graph *g, const Uses *uses) {
    bool *leaves = results_of(a, g);
    for (int i = 0; i < g->results.n; i++)
        for (const Node *v = g->results.at[i].value; v->op == OP_RESHAPE && fuse_users(uses, v->in[0]) == 1; v = v->in[0])
            leaves[v->in[0]->id] = true;
    return leaves;
}

/* By node id, outer ones before what they consist of. */
static bool *find_joined(Arena *a, const Graph *g, const Uses *uses, const Target *t) {
    bool *joined = ARENA_ARRAY(a, bool, g->nodes.n + 1);
    const bool *reread = fuse_rereads(a, g, uses), *leaves = leaving_of(a, g, uses);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.at[i];
        const int readers = fuse_users(uses, n);
        if (n->op != OP_CONCAT) continue;
        joined[i] |= reread[i] || (readers > 1 && readers * n->n_in > MOST_CHOICES) || n->n_in >= FUSE_MANY_PARTS;
        joined[i] &= may_join(n, t) && !leaves[i];
        for (int k = 0; joined[i] && k < n->n_in; k++) joined[n->in[k]->id] |= n->in[k]->op == OP_CONCAT;
    }
    return joined;
}

static Node *copy_for(Graph *g, Node *part, const Node *whole) {
    Node *copy = graph_node(g, OP_RESHAPE, 1, &part, NULL, part->dtype, *part->shape);
    copy->phase = whole->phase;
    copy->remat = whole->remat;
    copy->loc = whole->loc;
    return copy;
}

static bool has_other_home(const Node *part, const bool *taken) {
    return taken[part->id] || op_info[part->op].cls == CLASS_SOURCE;
}

void fuse_separate_parts(PassContext *c, Graph *g) {
    const Uses uses = graph_uses(c->arena, g);
    const int n = g->nodes.n;
    const bool *joined = find_joined(c->arena, g, &uses, c->target);
    bool *taken = results_of(c->arena, g);
    NodeList *copies = ARENA_ARRAY(c->arena, NodeList, n + 1);
    for (int i = n - 1; i >= 0; i--) {
        Node *whole = g->nodes.at[i];
        for (int k = 0; joined[i] && k < whole->n_in; k++) {
            Node *part = whole->in[k];
            if (!has_other_home(part, taken)) {
                taken[part->id] = true;
                continue;
            }
            whole->in[k] = copy_for(g, part, whole);
            vec_push(c->arena, copies[i], whole->in[k]);
        }
    }
    graph_insert(g, n, copies);
}

void fuse_join_parts(Fuse *f) {
    Graph *g = f->graph;
    bool *taken = results_of(f->arena, g);
    f->joined = find_joined(f->arena, g, &f->uses, f->target);
    f->within = ARENA_ARRAY(f->arena, Node *, f->n + 1);
    f->after = ARENA_ARRAY(f->arena, int, f->n + 1);
    for (int i = f->n - 1; i >= 0; i--) {
        Node *n = g->nodes.at[i];
        for (int k = 0; f->joined[i] && k < n->n_in; k++) f->joined[i] = !has_other_home(n->in[k], taken);
        for (int k = 0; f->joined[i] && k < n->n_in; k++) {
            taken[n->in[k]->id] = true;
            f->within[n->in[k]->id] = n;
        }
    }
}
