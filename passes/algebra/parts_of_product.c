/* parts_of_product, in front of autodiff: products of parts of one tensor with the same other operand are parts of one
 * product.
 *
 *     z0 = x[:, 0] w,  z1 = x[:, 1] w,  ..     z = x w,  z0 = z[:, 0],  z1 = z[:, 1],  ..
 *
 * An unrolled recurrence multiplies its inputs step by step: few rows, and the weights are read in each.  Of the one
 * product the backward makes two more, and not two for every step.  It keeps all results until the last is read.  A
 * training step has their gradients side by side anyway, for the weight's; elsewhere they may take no more than what is
 * read. */
#include "passes/pass.h"
#include "ir/node_pool.h"
#include "passes/algebra/contract_class.h"
#include "passes/rewrite/insert.h"
#include <stdlib.h>
#include <string.h>

/* A product that reads operand `operand` at one place of its dim `dim`. */
typedef struct Member {
    Node *node;
    const Attr *attr; /* with 0 as that place: equal for equal products */
    int operand, dim;
    int64_t place;
} Member;
typedef VEC(Member) Members;

/* ---- members ----------------------------------------------------------------------------------------------------- */
static bool is_place(const Affine *e) {
    for (int l = 0; l < MAX_LOOPS; l++)
        if (e->coef[l]) return false;
    return e->divisor == 1 && e->c >= 0;
}

static const Attr *at_zero(Graph *g, Arena *scratch, const Member *m) {
    const Contract *old = m->node->attr->contract;
    Contract c = *old;
    Attr attr = *m->node->attr;
    Node n = *m->node;
    c.map = arena_dup(scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.map[m->operand][m->dim].c = 0;
    attr.contract = &c;
    n.attr = &attr;
    return node_pool_attr(g->pool, &n);
}

static bool find_place(const Node *n, Member *m) {
    const Contract *c = n->attr->contract;
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++) {
            const Dim extent = n->in[k]->shape->dim[d];
            if (!dim_is_fixed(extent) || extent.bound < 2 || !is_place(&c->map[k][d])) continue;
            *m = (Member){.node = (Node *)n, .operand = k, .dim = d, .place = c->map[k][d].c};
            return true;
        }
    return false;
}

static bool may_be_part(const Node *n) {
    return contract_is_product(n) && dtype_is_float(n->dtype) && shape_is_fixed(*n->shape) && n->shape->rank < MAX_RANK &&
           n->attr->contract->n_loops < MAX_LOOPS && n->in[0] != n->in[1];
}

/* Parts of one product side by side, by place. */
static int by_product(const void *p, const void *q) {
    const Member *a = p, *b = q;
    const Node *x = a->node, *y = b->node;
    const uint64_t hash[2] = {attr_hash(&(Node){.op = OP_CONTRACT, .n_in = 2, .in = x->in, .attr = a->attr}),
                              attr_hash(&(Node){.op = OP_CONTRACT, .n_in = 2, .in = y->in, .attr = b->attr})};
    const int64_t key[][2] = {
        {x->in[0]->id, y->in[0]->id},
        {x->in[1]->id, y->in[1]->id},
        {a->operand, b->operand},
        {a->dim, b->dim},
        {hash[0] > hash[1], hash[1] > hash[0]},
        {x->dtype, y->dtype},
        {x->precision, y->precision},
        {x->phase, y->phase},
        {x->remat, y->remat},
        {a->place, b->place},
        {x->id, y->id},
    };
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        if (key[i][0] != key[i][1]) return key[i][0] < key[i][1] ? -1 : 1;
    return 0;
}

static bool same_product(const Member *a, const Member *b) {
    const Node *x = a->node, *y = b->node;
    return x->in[0] == y->in[0] && x->in[1] == y->in[1] && a->operand == b->operand && a->dim == b->dim &&
           a->attr == b->attr && x->dtype == y->dtype && x->precision == y->precision && x->phase == y->phase &&
           x->remat == y->remat && shape_same(x->shape, y->shape);
}

/* What a derivative is taken by stays as it is. */
static Members find_members(Graph *g, Arena *scratch) {
    Members list = {0};
    bool *fixed = ARENA_ARRAY(scratch, bool, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_GRADIENT || n->op == OP_VJP) fixed[n->in[1]->id] = true;
        if (n->op == OP_JACOBIAN) return (Members){0};
    }
    for (int i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        Member m;
        if (fixed[i] || !may_be_part(n) || !find_place(n, &m)) continue;
        m.attr = at_zero(g, scratch, &m);
        vec_push(scratch, list, m);
    }
    if (list.n) qsort(list.at, (size_t)list.n, sizeof *list.at, by_product);
    return list;
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */
/* Of so many places, equally far apart?  The distance, or 0. */
static int64_t step_of(const Member *m, int n) {
    const int64_t step = n > 1 ? m[1].place - m[0].place : 0;
    for (int i = 1; i < n; i++)
        if (m[i].place - m[i - 1].place != step) return 0;
    return step;
}

static bool pays(const PassContext *c, const Graph *g, const Member *m, int n) {
    const Node *x = m->node;
    const int64_t result = shape_elements(*x->shape), whole = shape_elements(*x->in[m->operand]->shape),
                  shared = shape_elements(*x->in[1 - m->operand]->shape),
                  part = whole / x->in[m->operand]->shape->dim[m->dim].bound;
    const bool keeps =
        (g->entry == ENTRY_GRAD || g->entry == ENTRY_STEP) && c->target && !c->target->device->as_written;
    if (n < 2 || !step_of(m, n) || c->checkpoint != CHECKPOINT_NONE) return false;
    return shared >= part + result && (keeps || n * result <= whole + shared);
}

/* ---- the product, and its parts ---------------------------------------------------------------------------------- */
/* Where the new loop stands among the result's: behind those of the dims in front of it, so that rows stand side by side.
 */
static int loop_place(const Member *m) {
    const Contract *c = m->node->attr->contract;
    int at = 0;
    for (int d = 0; d < m->dim; d++)
        for (int l = 0; l < c->n_out; l++)
            if (c->map[m->operand][d].coef[l] && l >= at) at = l + 1;
    return at;
}

static void insert_coef(Affine *e, int loop) {
    memmove(&e->coef[loop + 1], &e->coef[loop], sizeof(int64_t) * (size_t)(MAX_LOOPS - 1 - loop));
    e->coef[loop] = 0;
}

static Node *like(Node *n, const Node *member) {
    n->phase = member->phase;
    n->precision = member->precision;
    n->remat = member->remat;
    n->loc = member->loc;
    return n;
}

static Node *whole_product(Graph *g, Arena *scratch, const Member *m, int n, int loop) {
    const Contract *old = m->node->attr->contract;
    Contract c = *old;
    c.map = arena_dup(scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(scratch, Guard, old->n_guards + 1);
    if (old->n_guards) memcpy(c.guard, old->guard, sizeof *c.guard * (size_t)old->n_guards);
    for (int k = 0; k < c.n_operands; k++)
        for (int d = 0; d < MAX_RANK; d++) insert_coef(&c.map[k][d], loop);
    for (int i = 0; i < c.n_guards; i++) insert_coef(&c.guard[i].e, loop);
    memmove(&c.extent[loop + 1], &c.extent[loop], sizeof(Dim) * (size_t)(MAX_LOOPS - 1 - loop));
    c.extent[loop] = dim_fixed(n);
    c.n_loops++;
    c.n_out++;
    c.map[m->operand][m->dim].coef[loop] = step_of(m, n);
    return like(graph_contract(g, 2, m->node->in, &c), m->node);
}

/* The member becomes a reshape of a slice, which goes in front of it. */
static Node *make_part(Graph *g, Node *member, Node *whole, int loop, int at) {
    Attr cut = {0};
    for (int d = 0; d < whole->shape->rank; d++) {
        cut.lo[d] = dim_fixed(d == loop ? at : 0);
        cut.hi[d] = d == loop ? dim_fixed(1) : whole->shape->dim[d];
        cut.step[d] = 1;
    }
    Node *slice = like(graph_op(g, OP_SLICE, 1, &whole, &cut), member);
    slice->precision = PRECISION_F32;
    const Node *reshape = graph_reshape(g, slice, *member->shape);
    g->nodes.n--;
    member->op = OP_RESHAPE;
    member->precision = PRECISION_F32;
    member->n_in = 1;
    member->in = reshape->in;
    member->attr = reshape->attr;
    return slice;
}

static void join(Graph *g, Arena *scratch, NodeList *before, Member *m, int n) {
    const int loop = loop_place(m);
    int first = m[0].node->id;
    for (int i = 1; i < n; i++)
        if (m[i].node->id < first) first = m[i].node->id;
    Node *whole = whole_product(g, scratch, m, n, loop);
    vec_push(scratch, before[first], whole);
    for (int i = 0; i < n; i++) vec_push(scratch, before[m[i].node->id], make_part(g, m[i].node, whole, loop, i));
}

Graph *pass_parts_of_product(PassContext *c, Graph *g) {
    Arena *scratch = arena_new();
    const int n = g->nodes.n;
    NodeList *before = ARENA_ARRAY(scratch, NodeList, n + 1); /* by id: new nodes that stand in front */
    const Members list = find_members(g, scratch);
    for (int i = 0, same = 1; i < list.n; i += same, same = 1) {
        while (i + same < list.n && same_product(&list.at[i], &list.at[i + same])) same++;
        if (pays(c, g, &list.at[i], same)) join(g, scratch, before, &list.at[i], same);
    }
    graph_insert(g, n, before);
    arena_free(scratch);
    return g;
}
