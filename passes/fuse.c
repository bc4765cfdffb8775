/* fuse: partitions the graph into kernels.
 *
 * Needs: a canonical graph without GRADIENT nodes.  Keeps: the graph, but for copies it appends where
 * one value has two homes.  Gives: Plan.kernels (nodes, index space, reads, outputs) and homes.
 *
 * First, which nodes are CANDIDATES for memory: reductions and contractions; values with several
 * readers that are dear to recompute; what a contraction reads again and again; results.  All
 * others are inlined into whoever reads them.  Then every candidate, in graph order, joins the
 * newest kernel it fits, or opens one.  A kernel's number is above those it reads from, so that the
 * partition has no cycles.  A candidate that only its own kernel reads never reaches memory. */
#include "passes/access.h"
#include "passes/pass.h"
#include "passes/per_sample.h"
#include "passes/together.h"
#include <assert.h>
#include <string.h>

enum {
    INLINE_COST = 48,  /* an inlined expression larger than this gets memory */
    SCALAR_COST = 16,  /* and a scalar of more than one reader that takes more than this: it may read as many scalars */
    KERNEL_NODES = 48, /* most nodes of one kernel */
    KERNEL_READS = 32, /* most buffers read by one kernel */
    ROW_PARALLEL = 32, /* fewest rows for which a map turns into a row kernel */
};

typedef struct Fuse {
    Arena *arena;
    Plan *plan;
    Graph *graph;
    bool merge;          /* false: -fno-fuse, a kernel per candidate */
    bool *candidate;     /* by node id */
    bool *output;        /* is an OUTPUT result */
    bool *result;
    Node **landing;      /* by result: the node that is computed into its home */
    bool *copied;        /* by a result that is nothing else */
    AccessList *access;  /* by node id, of candidates */
    int *readers;        /* how many candidates read it */
    int *last_reader;    /* newest kernel that reads it, or -1 */
    uint32_t *fired;     /* NULL, or a counter per rule */
    uint64_t *wanted;    /* by node id, entry infer: the outputs that need it (64 and later share a bit) */
    const bool *data;    /* -fno-jacobian-gemm, by node id: it depends on an input; else NULL */
    int threads;         /* of a program */
    const Target *target;
    Uses uses;
    bool *adds;          /* by node id: the sum of products that fuse puts into one kernel */
    int n;               /* nodes */
} Fuse;

static void tally(const Fuse *f, FusionId id) {
    if (f->fired) f->fired[RULE_FUSION + id]++;
}

/* ---- results: one home each --------------------------------------------------------------------- */
static Node *append_copy(Graph *g, Node *v) {
    Node *copy = graph_node(g, OP_RESHAPE, 1, &v, NULL, v->dtype, v->shape);
    copy->phase = v->phase;
    copy->loc = v->loc;
    return copy;
}

/* A value that is a source, has another result, or is an output that others read too (the caller
 * may not want the output: its pointer is NULL then) is copied into its further home.  Returns how many copies. */
static int separate_results(Graph *g, Arena *a) {
    const Uses uses = graph_uses(a, g);
    const int before = g->nodes.n;
    int copies = 0;
    bool *taken = ARENA_ARRAY(a, bool, before);
    int *homes = ARENA_ARRAY(a, int, before);
    for (int i = 0; i < g->results.n; i++) homes[g->results.at[i].value->id]++;
    for (int i = 0; i < g->results.n; i++) {
        Result *r = &g->results.at[i];
        Node *v = r->value;
        const bool read = uses.first[v->id + 1] > uses.first[v->id] || homes[v->id] > 1;
        if (op_is_memory(v->op) || taken[v->id] || (r->kind == RESULT_OUTPUT && read)) r->value = append_copy(g, v), copies++;
        else taken[v->id] = true;
    }
    graph_renumber(g);
    return copies;
}

/* ---- candidates --------------------------------------------------------------------------------------- */
static bool is_heavy(const Node *n) {
    return op_info[n->op].cls == CLASS_REDUCE || n->op == OP_SCATTER_ADD ||
           (n->op == OP_CONTRACT && n->attr->contract->n_loops > n->attr->contract->n_out);
}

/* Contractions, scans and scatters read an operand element many times: it should be in memory. */
static bool rereads(const Node *n) {
    return (n->op == OP_CONTRACT && is_heavy(n)) || n->op == OP_SCATTER_ADD || n->op == OP_SCAN;
}

/* Recomputing costs about as much as reading: small and from at most one tensor in memory. */
enum { CONE_READS = 4, MUCH_SMALLER = 8 };
typedef struct Cone {
    int cost;                      /* instructions when inlined; saturates */
    int tensors;                   /* distinct reads of memory that is not much smaller than the value; saturates */
    const Node *read[CONE_READS];  /* them */
    bool dear;                     /* contains a transcendental or a division */
} Cone;

static bool is_half(DType t) { return t == DT_F16 || t == DT_BF16; }

/* A row's mean or maximum beside the row. */
static bool much_smaller(const Node *x, const Node *n) {
    return x->shape.rank == 0 || shape_elements(x->shape) * MUCH_SMALLER <= shape_elements(n->shape);
}

static void cone_reads(Cone *c, const Node *x) {
    for (int i = 0; i < c->tensors; i++)
        if (c->read[i] == x) return;
    if (c->tensors < CONE_READS) c->read[c->tensors++] = x;
}

/* Values of 16 bits become f32 on the way to f32 arithmetic; nothing is gained by keeping them as f32. */
static bool widens(const Node *n) { return n->op == OP_CAST && n->dtype == DT_F32 && is_half(n->in[0]->dtype); }

/* An f32 value that at most two tensors of 16 bits make: they take no more bytes to read than it would. */
static bool from_half(const Node *n, const Cone *c) {
    bool half = n->dtype == DT_F32 && c->tensors > 0 && c->tensors <= 2;
    for (int i = 0; i < c->tensors; i++) half &= is_half(c->read[i]->dtype);
    return half;
}

static bool is_dear(Op op) { return op_is_transcendental(op) || op == OP_DIV; }

static Cone cone_of(const Node *n, const Cone *cone, const bool *candidate) {
    Cone c = {.cost = op_info[n->op].cls == CLASS_ELEMENT || n->op == OP_CONTRACT ? 1 : 0, .dear = is_dear(n->op)};
    if (n->op == OP_RANDOM) c.cost = 8;
    if (n->op == OP_CONCAT) c.cost = n->n_in;
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        if (op_is_memory(x->op) || candidate[x->id]) {
            if (!much_smaller(x, n)) cone_reads(&c, x);
        } else {
            c.cost += cone[x->id].cost;
            for (int i = 0; i < cone[x->id].tensors && !much_smaller(x, n); i++) cone_reads(&c, cone[x->id].read[i]);
            if (x->shape.rank > 0) c.dear |= cone[x->id].dear;
        }
    }
    if (c.cost > INLINE_COST) c.cost = INLINE_COST + 1;
    return c;
}

/* Made from a contraction's result that nothing else reads: in memory, it takes that one's place. */
static bool takes_place(const Node *n, const Uses *uses) {
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        while (x->op == OP_RESHAPE && uses->first[x->id + 1] - uses->first[x->id] == 1) x = x->in[0];
        if (x->op == OP_CONTRACT && is_heavy(x) && uses->first[x->id + 1] - uses->first[x->id] == 1) return true;
    }
    return false;
}

static bool wants_memory(const Node *n, const Cone *cone, int uses, bool reread) {
    const Cone c = *cone;
    if (c.cost > INLINE_COST) return true;
    if (widens(n) || n->dtype == DT_TF32) return false;
    if (op_info[n->op].cls != CLASS_ELEMENT && !(n->op == OP_CONTRACT && !node_is_view(n))) return false;
    if (n->shape.rank == 0) return uses > 1 && c.cost > SCALAR_COST;
    if (reread) return c.tensors > 0;
    if (uses < 2 || n->dtype == DT_BOOL || from_half(n, cone)) return false;
    return c.dear || c.tensors > 1 || c.cost > 2;
}

/* A result made by append_copy. */
static bool is_copy(const Fuse *f, const Node *n) {
    return n->op == OP_RESHAPE && f->result[n->id] && shape_equal(n->shape, n->in[0]->shape);
}

static int users(const Uses *u, const Node *n) { return u->first[n->id + 1] - u->first[n->id]; }

/* What is reshaped only to leave is computed where it leaves: the memory is the same. */
static Node *before_reshape(const Result *r, const Uses *uses, const int *homes) {
    Node *v = r->value;
    if (r->kind != RESULT_OUTPUT && r->kind != RESULT_GRAD) return v;
    while (v->op == OP_RESHAPE && users(uses, v) == (v != r->value) && homes[v->id] == (v == r->value) &&
           shape_is_fixed(v->shape))
        v = v->in[0];
    const bool alone = users(uses, v) == 1 && homes[v->id] == 0 && shape_is_fixed(v->shape);
    return alone && !op_is_memory(v->op) ? v : r->value;
}

static void find_landings(Fuse *f, const Graph *g, const Uses *uses) {
    int *homes = ARENA_ARRAY(f->arena, int, f->n);
    f->landing = ARENA_ARRAY(f->arena, Node *, g->results.n + 1);
    for (int i = 0; i < g->results.n; i++) homes[g->results.at[i].value->id]++;
    for (int i = 0; i < g->results.n; i++) f->landing[i] = before_reshape(&g->results.at[i], uses, homes);
}

/* Where products that nothing else reads are added: the sum is one value of their kernel. */
static void find_sums_of_products(Fuse *f, const Graph *g) {
    f->adds = ARENA_ARRAY(f->arena, bool, f->n);
    for (int i = 0; i < f->n; i++) {
        const Node *n = g->nodes.at[i];
        bool adds = f->merge && !f->data && n->op == OP_ADD && n->dtype == DT_F32 && n->in[0] != n->in[1];
        for (int k = 0; k < 2 && adds; k++) {
            const Node *x = n->in[k];
            adds = users(&f->uses, x) == 1 && !f->result[x->id] && (f->adds[x->id] || product_shares(x));
        }
        f->adds[i] = adds;
    }
}

static void choose_candidates(Fuse *f, const Graph *g) {
    const Uses uses = f->uses = graph_uses(f->arena, g);
    find_landings(f, g, &uses);
    bool *reread = ARENA_ARRAY(f->arena, bool, f->n);
    int *readers = ARENA_ARRAY(f->arena, int, f->n); /* those of a widened value are its own */
    Cone *cone = ARENA_ARRAY(f->arena, Cone, f->n);
    for (int i = f->n - 1; i >= 0; i--)
        for (int u = uses.first[i]; u < uses.first[i + 1]; u++) {
            const Node *user = uses.user[u];
            const bool passes = op_info[user->op].cls == CLASS_MOVE || node_is_view(user) || user->op == OP_GATHER ||
                                widens(user) || user->dtype == DT_TF32;
            readers[i] += widens(user) ? readers[user->id] : 1;
            reread[i] |= rereads(user) || (passes && reread[user->id]);
        }
    for (int i = 0; i < g->results.n; i++) {
        f->result[f->landing[i]->id] = true;
        f->output[f->landing[i]->id] |= g->results.at[i].kind == RESULT_OUTPUT;
    }
    /* what is copied has memory of its own: inlined, the copy would read what it overwrites */
    for (int i = 0; i < g->results.n; i++)
        if (is_copy(f, g->results.at[i].value)) f->copied[g->results.at[i].value->in[0]->id] = true;
    find_sums_of_products(f, g);
    for (int i = 0; i < f->n; i++) {
        const Node *n = g->nodes.at[i];
        if (op_is_memory(n->op)) continue;
        cone[i] = cone_of(n, cone, f->candidate);
        f->candidate[i] = f->result[i] || f->copied[i] || is_heavy(n) || f->adds[i] ||
                          wants_memory(n, &cone[i], readers[i], reread[i]) ||
                          (op_info[n->op].cls == CLASS_ELEMENT && readers[i] > 1 && !widens(n) && takes_place(n, &uses));
    }
}

/* ---- joining a kernel ------------------------------------------------------------------------------------ */
static const PlanNode *find_in(const PlanKernel *k, const Node *n) {
    for (int i = 0; i < k->nodes.n; i++)
        if (k->nodes.at[i].node == n) return &k->nodes.at[i];
    return NULL;
}

static PlanNode plain(Node *n) {
    PlanNode pn = {.node = n};
    for (int d = 0; d < n->shape.rank; d++) pn.axis[d] = (int8_t)d;
    return pn;
}

static bool on_a_side(const PlanNode *pn) { return pn->part == PART_SUM || pn->part == PART_AFTER_SUM; }

/* Every read of this kernel's own nodes must be at the element the program is at. */
static bool reads_agree(const Fuse *f, const PlanKernel *k, const PlanNode *pn, const int8_t *axis) {
    const AccessList *l = &f->access[pn->node->id];
    for (int i = 0; i < l->n; i++) {
        const PlanNode *a = find_in(k, l->at[i].node);
        if (!a) continue;
        if (on_a_side(a) != on_a_side(pn)) return false; /* not all programs have it */
        for (int d = 0; d < a->node->shape.rank; d++) {
            const int at = l->at[i].axis[d];
            if (at < 0 || axis[at] != a->axis[d]) return false;
        }
    }
    return true;
}

static bool reads_any(const Fuse *f, const PlanKernel *k, const Node *n) {
    for (int i = 0; i < f->access[n->id].n; i++)
        if (find_in(k, f->access[n->id].at[i].node)) return true;
    return false;
}

/* An elementwise root over exactly the parallel dims. */
static bool join_parallel(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    if (!shape_equal(pn->node->shape, k->p)) return false;
    if (k->kind == KERNEL_CONTRACT && !reads_any(f, k, pn->node)) return false;
    *pn = plain(pn->node);
    return reads_agree(f, k, pn, pn->axis);
}

/* ---- beside and after a product ---------------------------------------------------------------------------------------- */
static bool is_shared(const Fuse *f, const PlanKernel *k) {
    return k->kind == KERNEL_CONTRACT && !k->sample && f->merge && !f->data && product_shares(k->nodes.at[0].node) &&
           target_shares(f->target, k->nodes.at[0].node);
}

/* A sum over an operand of the product that opened the kernel. */
static bool join_sum(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    int8_t loop[MAX_RANK];
    int riding = 0;
    for (int i = 0; i < k->nodes.n; i++) riding += k->nodes.at[i].part == PART_SUM;
    if (riding == MAX_RANK || !is_shared(f, k) || !target_takes_sums(f->target, k->nodes.at[0].node)) return false;
    if (!sum_rides(pn->node, k->nodes.at[0].node, loop)) return false;
    pn->part = PART_SUM;
    memcpy(pn->axis, loop, sizeof *loop * (size_t)pn->node->shape.rank);
    return true;
}

/* What is elementwise after it. */
static bool join_after_sum(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    if (k->kind != KERNEL_CONTRACT) return false;
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *a = &k->nodes.at[i];
        if (!on_a_side(a) || !shape_equal(a->node->shape, pn->node->shape)) continue;
        PlanNode side = {.node = pn->node, .part = PART_AFTER_SUM};
        memcpy(side.axis, a->axis, sizeof side.axis);
        if (!reads_agree(f, k, &side, side.axis)) continue;
        *pn = side;
        return reads_any(f, k, pn->node);
    }
    return false;
}

/* An elementwise root over parallel and row dims: its dims find their axes through what it reads. */
static bool join_row(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    const Node *n = pn->node;
    const int rank = n->shape.rank, np = k->p.rank;
    int8_t axis[MAX_RANK];
    if (k->kind != KERNEL_ROW || rank != np + k->r.rank || rank == 0) return false;
    memset(axis, -1, sizeof axis);
    bool found = false, used[2 * MAX_RANK] = {0};
    for (int i = 0; i < f->access[n->id].n; i++) {
        const Access *l = &f->access[n->id].at[i];
        const PlanNode *a = find_in(k, l->node);
        if (!a) continue;
        found = true;
        for (int d = 0; d < a->node->shape.rank; d++) {
            if (l->axis[d] < 0) return false;
            axis[l->axis[d]] = a->axis[d];
        }
    }
    for (int d = 0; d < rank; d++)
        if (axis[d] >= 0) {
            if (used[axis[d]]) return false;
            used[axis[d]] = true;
        }
    int next = found ? np : 0; /* with no read to go by, dims must stand in the kernel's order */
    for (int d = 0; d < rank; d++) {
        if (axis[d] >= 0) continue;
        while (next < rank && used[next]) next++;
        if (next == rank) return false;
        axis[d] = (int8_t)next;
        used[next++] = true;
    }
    for (int d = 0; d < rank; d++) {
        const Dim e = axis[d] < np ? k->p.dim[axis[d]] : k->r.dim[axis[d] - np];
        if (!used[d] || !dim_equal(e, n->shape.dim[d])) return false;
    }
    if (axis[rank - 1] < np) return false; /* the row must be contiguous */
    memcpy(pn->axis, axis, sizeof axis);
    pn->in_row = true;
    return reads_agree(f, k, pn, axis);
}

/* A reduction with the kernel's rows and row dims. */
static bool join_reduce(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    const Shape r = access_reduced(pn->node);
    int8_t local[2 * MAX_RANK];
    if (k->kind != KERNEL_ROW || !shape_equal(pn->node->shape, k->p) || !shape_equal(r, k->r)) return false;
    *pn = plain(pn->node);
    for (int i = 0; i < 2 * MAX_RANK; i++) local[i] = (int8_t)i;
    return reads_agree(f, k, pn, local);
}

/* A reduction of a map's values turns the map into a row kernel when the rows stay many and contiguous. */
static bool map_to_row(const Fuse *f, PlanKernel *k, PlanNode *pn) {
    const Node *n = pn->node;
    const Shape r = access_reduced(n);
    const int np = n->shape.rank;
    if (k->kind != KERNEL_MAP || k->p.rank != np + r.rank || shape_elements(n->shape) < ROW_PARALLEL) return false;
    const Access *via = NULL;
    for (int i = 0; i < f->access[n->id].n; i++) {
        const Access *l = &f->access[n->id].at[i];
        if (!find_in(k, l->node)) continue;
        if (via && memcmp(via->axis, l->axis, (size_t)k->p.rank)) return false;
        via = l;
    }
    if (!via) return false;
    bool used[2 * MAX_RANK] = {0};
    for (int d = 0; d < k->p.rank; d++) {
        if (via->axis[d] < 0 || used[via->axis[d]]) return false;
        used[via->axis[d]] = true;
    }
    if (via->axis[k->p.rank - 1] < np) return false;
    for (int i = 0; i < k->nodes.n; i++) {
        if (f->output[k->nodes.at[i].node->id]) return false;
        memcpy(k->nodes.at[i].axis, via->axis, (size_t)k->p.rank);
        k->nodes.at[i].in_row = true;
    }
    k->kind = KERNEL_ROW;
    k->p = n->shape;
    k->r = r;
    *pn = plain(pn->node);
    return true;
}

/* The caller may leave an output out: a kernel that writes one writes nothing else. */
static bool output_allows(const Fuse *f, const PlanKernel *k, const Node *n) {
    for (int i = 0; i < k->nodes.n; i++) {
        const Node *a = k->nodes.at[i].node;
        if (f->output[a->id]) return false;
        if (!f->output[n->id]) continue;
        if (f->result[a->id]) return false;
        int inside = 0;
        for (int j = 0; j <= k->nodes.n; j++) {
            const Node *b = j < k->nodes.n ? k->nodes.at[j].node : n;
            for (int l = 0, seen = 0; l < f->access[b->id].n && !seen; l++)
                seen = f->access[b->id].at[l].node == a, inside += seen;
        }
        if (inside < f->readers[a->id]) return false;
    }
    return true;
}

static Node *sum_with(const Fuse *f, const Node *n) {
    Node *add = users(&f->uses, n) == 1 ? f->uses.user[f->uses.first[n->id]] : NULL;
    return add && f->adds[add->id] ? add : NULL;
}

/* A product that nothing but the sum with a value of the kernel reads: it is added up from that value on. */
static bool join_onto(const Fuse *f, const PlanKernel *k, PlanNode *pn) {
    enum { MOST = 4 }; /* their tiles stand beside each other in a GPU's shared memory */
    const Node *n = pn->node;
    int onto = 0;
    Node *add = sum_with(f, n);
    if (!is_shared(f, k) || !target_shares(f->target, n) || !output_allows(f, k, add)) return false;
    for (int i = 0; i < k->nodes.n; i++) onto += k->nodes.at[i].part == PART_ONTO;
    if (onto + 1 >= MOST || k->nodes.n + 2 > KERNEL_NODES) return false;
    if (!shape_equal(n->shape, k->p) || !products_alike(n, k->nodes.at[0].node)) return false;
    pn->part = PART_ONTO;
    pn->into = add;
    return true;
}

/* Entry infer leaves out what only unwanted outputs need, and the inputs only that reads: what is computed together
 * must be needed by the same outputs. */
static void mark_wanted(Fuse *f, const Graph *g) {
    for (int i = 0; i < g->results.n; i++) {
        const Result *r = &g->results.at[i];
        f->wanted[r->value->id] |= r->kind != RESULT_OUTPUT ? ~(uint64_t)0 : (uint64_t)1 << (r->decl < 63 ? r->decl : 63);
    }
    for (int i = f->n - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes.at[i]->n_in; k++) f->wanted[g->nodes.at[i]->in[k]->id] |= f->wanted[i];
}

static bool same_outputs(const Fuse *f, const PlanKernel *k, const Node *n) {
    return f->graph->entry != ENTRY_INFER || f->wanted[k->nodes.at[0].node->id] == f->wanted[n->id];
}

/* A reduction that walks the row in chunks has loops of its own; so has what is stored along the row. */
static bool axes_allow(const PlanKernel *k, const Node *n) {
    int sweeps = 1 + (op_info[n->op].cls == CLASS_REDUCE);
    for (int i = 0; i < k->nodes.n; i++) sweeps += op_info[k->nodes.at[i].node->op].cls == CLASS_REDUCE;
    return k->p.rank + sweeps * k->r.rank <= MAX_AXES;
}

/* The result is complete only when all programs have gone through all samples. */
static bool sums_samples(const PlanKernel *k) {
    return k->sample && k->sample - 1 >= k->nodes.at[0].node->attr->contract->n_out;
}

/* How it joined, or FUSION_COUNT where it does not fit. */
static FusionId try_join(const Fuse *f, PlanKernel *k, PlanNode *pn) {
    static const FusionId parallel[] = {[KERNEL_MAP] = FUSION_map_chain, [KERNEL_ROW] = FUSION_row_epilogue,
                                        [KERNEL_CONTRACT] = FUSION_contract_epilogue};
    const Node *n = pn->node;
    if (!same_outputs(f, k, n)) return FUSION_COUNT;
    if (k->nodes.n >= KERNEL_NODES || k->reads.n + f->access[n->id].n > KERNEL_READS) return FUSION_COUNT;
    if (sums_samples(k)) return FUSION_COUNT;
    if (k->kind == KERNEL_SCAN || k->kind == KERNEL_SCATTER || !output_allows(f, k, n)) return FUSION_COUNT;
    if (!axes_allow(k, n)) return FUSION_COUNT;
    if (n->op == OP_CONTRACT && is_heavy(n)) return join_onto(f, k, pn) ? FUSION_contract_onto : FUSION_COUNT;
    if (op_info[n->op].cls == CLASS_REDUCE) {
        if (join_sum(f, k, pn)) return FUSION_contract_sum;
        if (join_reduce(f, k, pn)) return FUSION_row_reduction;
        return map_to_row(f, k, pn) ? FUSION_map_to_row : FUSION_COUNT;
    }
    if (join_parallel(f, k, pn)) return parallel[k->kind];
    if (join_after_sum(f, k, pn)) return FUSION_contract_sum_epilogue;
    return join_row(f, k, pn) ? FUSION_row_element : FUSION_COUNT;
}

static const FusionId opens[] = {[KERNEL_MAP] = FUSION_new_map, [KERNEL_ROW] = FUSION_new_row,
                                 [KERNEL_CONTRACT] = FUSION_new_contract, [KERNEL_SCAN] = FUSION_new_scan,
                                 [KERNEL_SCATTER] = FUSION_new_scatter};

/* What a heavy node reads through nodes without memory is computed as it is read. */
static void count_prologue(const Fuse *f, const Node *n) {
    bool any = false;
    for (int k = 0; k < n->n_in; k++) any |= !f->candidate[n->in[k]->id] && !op_is_memory(n->in[k]->op);
    if (!any || !is_heavy(n)) return;
    tally(f, n->op == OP_CONTRACT      ? FUSION_contract_prologue
             : n->op == OP_SCAN        ? FUSION_scan_prologue
             : n->op == OP_SCATTER_ADD ? FUSION_scatter_prologue
                                       : FUSION_row_prologue);
}

static PlanKernel new_kernel(const Node *n) {
    PlanKernel k = {.kind = KERNEL_MAP, .p = n->shape, .phase = n->phase};
    if (n->op == OP_SCAN) k.kind = KERNEL_SCAN;
    else if (n->op == OP_SCATTER_ADD) k.kind = KERNEL_SCATTER;
    else if (is_heavy(n) && n->op == OP_CONTRACT) k.kind = KERNEL_CONTRACT;
    else if (op_info[n->op].cls == CLASS_REDUCE) k.kind = KERNEL_ROW, k.r = access_reduced(n);
    return k;
}

static void add_read(Arena *a, PlanKernel *k, Node *n) {
    for (int i = 0; i < k->reads.n; i++)
        if (k->reads.at[i] == n) return;
    vec_push(a, k->reads, n);
}

/* Kernels worth trying: those it reads from and those that read the same memory, newest first. */
static int kernels_to_try(const Fuse *f, const Node *n, int *kernels, int most) {
    const AccessList *l = &f->access[n->id];
    int floor = -1, count = 0;
    for (int i = 0; i < l->n; i++) {
        const int k = f->plan->kernel_of[l->at[i].node->id];
        if (k > floor) floor = k;
    }
    for (int i = 0; i < 2 * l->n && count < most; i++) {
        const int id = l->at[i / 2].node->id;
        const int k = i % 2 ? f->last_reader[id] : f->plan->kernel_of[id];
        bool known = k < 0 || k < floor;
        for (int j = 0; j < count; j++) known |= kernels[j] == k;
        if (known) continue;
        int at = count++;
        while (at > 0 && kernels[at - 1] < k) kernels[at] = kernels[at - 1], at--;
        kernels[at] = k;
    }
    return count;
}

/* What grows in memory sample by sample must not be what is read, and is rounded each time; threads of a program would
 * have to wait for each other's stores. */
static int sample_of(const Fuse *f, const Node *n) {
    const int loop = per_sample_loop(f->data, n);
    if (loop < 0 || loop < n->attr->contract->n_out) return 1 + loop;
    if (f->threads > 1) return 0;
    for (int i = 0; i < f->graph->results.n; i++) {
        const Result *r = &f->graph->results.at[i];
        if (r->value == n && (r->kind == RESULT_PARAM || r->kind == RESULT_STATE)) return 0;
    }
    return dtype_is_low(n->dtype) ? 0 : 1 + loop;
}

/* That of the other term of a sum of products, if all that n reads is there before. */
static int kernel_to_add_to(const Fuse *f, const Node *n, int *kernels) {
    const Node *add = sum_with(f, n);
    if (!add) return 0;
    kernels[0] = f->plan->kernel_of[add->in[add->in[0] == n]->id];
    for (int i = 0; i < f->access[n->id].n; i++)
        if (f->plan->kernel_of[f->access[n->id].at[i].node->id] >= kernels[0]) return 0;
    return kernels[0] >= 0;
}

static void assign(Fuse *f, Node *n) {
    PlanNode pn = {.node = n};
    int tries[16], k = -1;
    const bool alone = !f->merge || is_copy(f, n) || n->op == OP_SCATTER_ADD || n->op == OP_SCAN;
    const int count = alone ? 0 : n->op == OP_CONTRACT && is_heavy(n) ? kernel_to_add_to(f, n, tries) : kernels_to_try(f, n, tries, 16);
    for (int i = 0; i < count && k < 0; i++) {
        const PlanKernel *at = &f->plan->kernels.at[tries[i]];
        if (n->remat && at->nodes.at[0].node->remat != n->remat) continue; /* or it would be computed, and kept, too early */
        const FusionId how = at->phase <= n->phase ? try_join(f, &f->plan->kernels.at[tries[i]], &pn) : FUSION_COUNT;
        if (how == FUSION_COUNT) continue;
        tally(f, how);
        k = tries[i];
    }
    count_prologue(f, n);
    if (k < 0) {
        k = f->plan->kernels.n;
        vec_push(f->arena, f->plan->kernels, new_kernel(n));
        if (f->data) f->plan->kernels.at[k].sample = sample_of(f, n);
        pn = plain(n);
        tally(f, opens[f->plan->kernels.at[k].kind]);
    }
    PlanKernel *kernel = &f->plan->kernels.at[k];
    vec_push(f->arena, kernel->nodes, pn);
    f->plan->kernel_of[n->id] = k;
    if (pn.part == PART_ONTO) { /* their sum is the value that there is */
        vec_push(f->arena, kernel->nodes, plain(pn.into));
        f->plan->kernel_of[pn.into->id] = k;
    }
    for (int i = 0; i < f->access[n->id].n; i++) {
        Node *a = f->access[n->id].at[i].node;
        if (a->shape.rank > 0) f->last_reader[a->id] = k; /* a shared scalar is no reason to be computed together */
        if (f->plan->kernel_of[a->id] != k) add_read(f->arena, kernel, a);
    }
}

/* ---- homes ---------------------------------------------------------------------------------------------------- */
/* In place is sound if the kernel reads the old value only at the element it writes. */
static bool in_place_allowed(const Fuse *f, const PlanKernel *k, const PlanNode *v, Op source, int decl) {
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *pn = &k->nodes.at[i];
        const bool reduces = op_info[pn->node->op].cls == CLASS_REDUCE;
        for (int j = 0; j < f->access[pn->node->id].n; j++) {
            const Access *a = &f->access[pn->node->id].at[j];
            if (a->node->op != source || a->node->attr->decl != decl) continue;
            for (int d = 0; d < a->node->shape.rank; d++) {
                int at = a->axis[d];
                if (at >= 0 && !reduces) at = pn->axis[at];
                if (at != v->axis[d]) return false;
            }
        }
    }
    return true;
}

static void set_home(Fuse *f, const Result *r, const Node *at) {
    static const Home homes[] = {[RESULT_OUTPUT] = HOME_OUTPUT, [RESULT_GRAD] = HOME_GRAD, [RESULT_PARAM] = HOME_PARAM,
                                 [RESULT_STATE] = HOME_STATE};
    PlanBuffer *b = &f->plan->buffer[at->id];
    b->home = homes[r->kind];
    b->decl = r->decl;
}

static bool result_in_place(const Fuse *f, const Result *r) {
    if (r->kind != RESULT_PARAM && r->kind != RESULT_STATE) return true;
    const PlanKernel *k = &f->plan->kernels.at[f->plan->kernel_of[r->value->id]];
    const PlanNode *v = find_in(k, r->value);
    return in_place_allowed(f, k, v, r->kind == RESULT_PARAM ? OP_PARAM : OP_STATE, r->decl);
}

static void choose_homes(Fuse *f) {
    Plan *p = f->plan;
    for (int i = 0; i < f->n; i++) {
        const Node *n = f->graph->nodes.at[i];
        p->buffer[i] = (PlanBuffer){.home = HOME_NONE, .decl = n->attr->decl, .writer = p->kernel_of[i]};
        if (op_is_memory(n->op)) p->buffer[i].home = HOME_SOURCE;
    }
    for (int i = 0; i < f->graph->results.n; i++) set_home(f, &f->graph->results.at[i], f->landing[i]);
    for (int i = 0; i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].reads.n; j++) {
            PlanBuffer *b = &p->buffer[p->kernels.at[i].reads.at[j]->id];
            if (b->home == HOME_NONE) b->home = HOME_ARENA;
        }
    for (int i = 0; i < p->kernels.n; i++) {
        PlanKernel *k = &p->kernels.at[i];
        bool grad = false;
        for (int j = 0; j < k->nodes.n; j++) {
            PlanNode *pn = &k->nodes.at[j];
            pn->stored = p->buffer[pn->node->id].home != HOME_NONE;
            grad |= p->buffer[pn->node->id].home == HOME_GRAD;
            if (pn->stored) vec_push(f->arena, k->outputs, pn->node);
            else tally(f, FUSION_private_value);
        }
        if (k->outputs.n > 1) tally(f, FUSION_several_values);
        if (grad) add_read(f->arena, k, p->accumulate);
    }
}

static void fuse_init(Fuse *f, PassContext *c, Graph *g) {
    const int n = g->nodes.n;
    Arena *a = c->arena;
    *f = (Fuse){.arena = a, .graph = g, .merge = !c->disabled[PASS_fuse], .n = n, .fired = c->fired, .plan = ARENA_NEW(a, Plan)};
    f->candidate = ARENA_ARRAY(a, bool, n);
    f->output = ARENA_ARRAY(a, bool, n);
    f->result = ARENA_ARRAY(a, bool, n);
    f->copied = ARENA_ARRAY(a, bool, n);
    f->access = ARENA_ARRAY(a, AccessList, n);
    f->readers = ARENA_ARRAY(a, int, n);
    f->last_reader = ARENA_ARRAY(a, int, n);
    f->wanted = ARENA_ARRAY(a, uint64_t, n);
    mark_wanted(f, g);
    f->threads = c->target ? c->target->threads : 1;
    f->target = c->target;
    if (c->disabled[PASS_jacobian_gemm]) f->data = per_sample_data(a, g);
    f->plan->arena = a;
    f->plan->graph = g;
    f->plan->kernel_of = ARENA_ARRAY(a, int, n);
    f->plan->buffer = ARENA_ARRAY(a, PlanBuffer, n);
    for (int i = 0; i < n; i++) f->last_reader[i] = f->plan->kernel_of[i] = -1;
}

static void partition(Fuse *f, PassContext *c, Graph *g, Node *accumulate) {
    fuse_init(f, c, g);
    f->plan->accumulate = accumulate;
    choose_candidates(f, g);
    for (int i = 0; i < f->n; i++) {
        if (!f->candidate[i]) continue;
        access_collect(f->arena, f->candidate, g->nodes.at[i], &f->access[i]);
        for (int j = 0; j < f->access[i].n; j++) {
            const Node *read = f->access[i].at[j].node;
            bool repeated = false;
            for (int l = 0; l < j; l++) repeated |= f->access[i].at[l].node == read;
            f->readers[read->id] += !repeated;
        }
    }
    for (int i = 0; i < f->n; i++)
        if (f->candidate[i] && f->plan->kernel_of[i] < 0) assign(f, g->nodes.at[i]);
}

Plan *pass_fuse(PassContext *c, Graph *g) {
    Fuse f;
    Node *accumulate = NULL;
    const int copies = separate_results(g, c->arena);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_ACCUMULATE) accumulate = g->nodes.at[i];
    if (g->entry == ENTRY_GRAD && !accumulate)
        accumulate = graph_node(g, OP_ACCUMULATE, 0, NULL, NULL, DT_I32, shape_scalar());
    graph_renumber(g);
    partition(&f, c, g, accumulate);
    /* Updates that cannot go in place are computed aside and copied over; then all can. */
    bool again = false;
    for (int i = 0; i < g->results.n; i++)
        if (!result_in_place(&f, &g->results.at[i])) {
            g->results.at[i].value = append_copy(g, g->results.at[i].value);
            tally(&f, FUSION_update_aside);
            again = true;
        }
    if (again) {
        graph_renumber(g);
        partition(&f, c, g, accumulate);
    }
    choose_homes(&f);
    for (int i = 0; i < copies; i++) tally(&f, FUSION_copied_result);
    return f.plan;
}
