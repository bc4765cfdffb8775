#include "passes/algebra/access.h"
#include <string.h>

bool op_is_memory(Op op) {
    return op == OP_PARAM || op == OP_STATE || op == OP_INPUT || op == OP_HYPER || op == OP_STEP || op == OP_SEED ||
           op == OP_ACCUMULATE;
}

bool node_is_view(const Node *n) {
    return n->op == OP_CONTRACT && n->n_in == 1 && n->attr->contract->n_loops == n->attr->contract->n_out;
}

Shape access_reduced(const Node *root) {
    Shape r = {0};
    if (op_info[root->op].cls != CLASS_REDUCE || root->op == OP_SCAN) return r;
    for (int i = 0; i < root->attr->n_axes; i++) r.dim[r.rank++] = root->in[0]->shape->dim[root->attr->axes[i]];
    return r;
}

typedef struct AccessWalk {
    Arena *arena;
    const bool *candidate;
    AccessList *out;
} AccessWalk;

static void record(AccessWalk *w, Node *n, const int8_t *axis, bool flat) {
    Access a = {.node = n, .flat = flat};
    memcpy(a.axis, axis, (size_t)n->shape->rank);
    for (int i = 0; i < w->out->n; i++) {
        Access *known = &w->out->at[i];
        if (known->node != n || memcmp(known->axis, axis, (size_t)n->shape->rank)) continue;
        known->flat = known->flat && flat;
        return;
    }
    vec_push(w->arena, *w->out, a);
}

/* Dims keep their axis where a group of equal products is a single dim on both sides. */
static void map_reshape(const Node *n, const int8_t *axis, int8_t *in) {
    const Shape *from = n->in[0]->shape, *to = n->shape;
    int i = 0, o = 0;
    for (int d = 0; d < from->rank; d++) in[d] = -1;
    while (i < from->rank && o < to->rank) {
        Dim a = from->dim[i], b = to->dim[o];
        if (dim_equal(a, b)) {
            in[i++] = axis[o++];
            continue;
        }
        if (dim_is_fixed(a) && a.bound == 1) {
            i++;
            continue;
        }
        if (dim_is_fixed(b) && b.bound == 1) {
            o++;
            continue;
        }
        int64_t pa = a.bound, pb = b.bound;
        i++, o++;
        while (pa != pb) {
            if (pa < pb && i < from->rank) pa *= from->dim[i++].bound;
            else if (pb < pa && o < to->rank) pb *= to->dim[o++].bound;
            else return;
        }
    }
}

static void visit(AccessWalk *w, Node *n, const int8_t *axis, bool flat);

static void visit_contract(AccessWalk *w, Node *n, const int8_t *axis) {
    const Contract *c = n->attr->contract;
    for (int k = 0; k < n->n_in; k++) {
        int8_t in[MAX_RANK];
        for (int d = 0; d < n->in[k]->shape->rank; d++) {
            const Affine *e = &c->map[k][d];
            int only = -1;
            bool plain = e->c == 0 && e->divisor == 1;
            for (int l = 0; l < c->n_loops; l++) {
                if (!e->coef[l]) continue;
                plain = plain && e->coef[l] == 1 && only < 0;
                only = l;
            }
            plain = plain && only >= 0 && only < c->n_out && dim_equal(c->extent[only], n->in[k]->shape->dim[d]);
            in[d] = plain ? axis[only] : -1;
        }
        visit(w, n->in[k], in, false);
    }
}

static void visit_move(AccessWalk *w, Node *n, const int8_t *axis, bool flat) {
    int8_t in[MAX_RANK];
    const Attr *at = n->attr;
    memset(in, -1, sizeof in);
    const int rank = n->n_in ? n->in[0]->shape->rank : 0;
    switch (n->op) {
    case OP_RESHAPE: map_reshape(n, axis, in); break;
    case OP_TRANSPOSE:
        for (int d = 0; d < rank; d++) in[at->axes[d]] = axis[d];
        break;
    case OP_BROADCAST:
        for (int d = 0; d < rank; d++) in[d] = axis[at->axes[d]];
        break;
    default: /* slices, pads, concatenations: dims of equal extent that start at 0 are kept */
        for (int k = 0; k < n->n_in; k++) {
            Node *x = n->in[k];
            memset(in, -1, sizeof in);
            const bool shifts = n->op == OP_SLICE || n->op == OP_PAD;
            if (x->shape->rank == n->shape->rank)
                for (int d = 0; d < x->shape->rank; d++)
                    if (dim_equal(x->shape->dim[d], n->shape->dim[d]) &&
                        (!shifts || (at->lo[d].bound == 0 && dim_is_fixed(at->lo[d]))) &&
                        (n->op != OP_SLICE || at->step[d] == 1))
                        in[d] = axis[d];
            const bool moved = (n->op == OP_CONCAT) || (n->op == OP_SLICE_AT) || (n->op == OP_UPDATE_AT && k == 1);
            if (moved) in[n->op == OP_CONCAT ? at->axis : 0] = -1;
            visit(w, x, in, false);
        }
        return;
    }
    visit(w, n->in[0], in, flat && n->op == OP_RESHAPE && shape_is_fixed(*n->shape));
}

/* The rows of a table are anywhere: no kernel that computes it is one that reads it. */
static void visit_gather(AccessWalk *w, Node *n, const int8_t *axis) {
    int8_t in[MAX_RANK];
    visit(w, n->in[1], axis, false);
    memset(in, -1, sizeof in);
    visit(w, n->in[0], in, false);
}

/* What `n` reads, given the root axis of each of its own dims, and whether it stands at the root's place. */
static void operands(AccessWalk *w, Node *n, const int8_t *axis, bool flat) {
    int8_t none[MAX_RANK];
    memset(none, -1, sizeof none);
    switch (op_info[n->op].cls) {
    case CLASS_ELEMENT:
    case CLASS_SPECIAL:
        for (int k = 0; k < n->n_in; k++) visit(w, n->in[k], axis, flat && shape_same(n->in[k]->shape, n->shape));
        break;
    case CLASS_MOVE: visit_move(w, n, axis, flat); break;
    case CLASS_CONTRACT: visit_contract(w, n, axis); break;
    case CLASS_INDEXED:
        if (n->op == OP_GATHER) visit_gather(w, n, axis);
        else
            for (int k = 0; k < n->n_in; k++)
                if (k != 1 || n->n_in == 2) visit(w, n->in[k], none, false); /* buckets say all of the ids */
        break;
    case CLASS_REDUCE: {
        int8_t in[MAX_RANK];
        bool gone[MAX_RANK] = {0};
        int next = 0, extra = n->shape->rank;
        if (n->op == OP_SCAN) {
            memcpy(in, axis, sizeof in);
            in[n->attr->axis] = -1;
        } else {
            for (int i = 0; i < n->attr->n_axes; i++) gone[n->attr->axes[i]] = true;
            for (int d = 0; d < n->in[0]->shape->rank; d++)
                if (!gone[d]) in[d] = axis[next++];
            for (int i = 0; i < n->attr->n_axes; i++) in[n->attr->axes[i]] = (int8_t)extra++;
        }
        for (int d = 0; d < n->in[0]->shape->rank; d++) flat = flat && in[d] == d;
        for (int k = 0; k < n->n_in; k++) visit(w, n->in[k], in, flat && n->op != OP_SCAN);
        break;
    }
    case CLASS_SOURCE: /* random reads its two scalars */
        for (int k = 0; k < n->n_in; k++) visit(w, n->in[k], none, false);
        break;
    }
}

static void visit(AccessWalk *w, Node *n, const int8_t *axis, bool flat) {
    if (op_is_memory(n->op) || w->candidate[n->id]) record(w, n, axis, flat);
    else operands(w, n, axis, flat);
}

void access_collect(Arena *a, const bool *candidate, Node *root, AccessList *out) {
    AccessWalk w = {.arena = a, .candidate = candidate, .out = out};
    int8_t axis[MAX_RANK];
    for (int d = 0; d < MAX_RANK; d++) axis[d] = (int8_t)d;
    operands(&w, root, axis, true);
}

void access_collect_value(Arena *a, const bool *candidate, Node *value, AccessList *out) {
    AccessWalk w = {.arena = a, .candidate = candidate, .out = out};
    int8_t axis[MAX_RANK];
    for (int d = 0; d < MAX_RANK; d++) axis[d] = (int8_t)d;
    visit(&w, value, axis, true);
}
