/* fuse: partitions the graph into kernels.
 *
 * Needs: a canonical graph without GRADIENT nodes.  Keeps: the graph, but for copies it appends where
 * one value has two homes.  Gives: Plan.kernels (nodes, index space, reads, outputs) and homes.
 *
 * First, which nodes are CANDIDATES for memory: reductions and contractions; values with several
 * readers that are expensive to recompute; what a contraction or windows read again and again; results.
 * All others are inlined into whoever reads them.  Then every candidate, in graph order, joins the
 * newest kernel it fits, or opens one.  A kernel's number is above those it reads from, so that the
 * partition has no cycles.  A candidate that only its own kernel reads never reaches memory.  A concatenation in memory
 * is in no kernel: those of its parts write it (fuse_parts.c).
 *
 * Where a value is too large for the memory that it gets, all is done again with it inlined; not where memory is more
 * than a matter of cost. */
#include "passes/plan/fuse.h"
#include "ir/node_pool.h"
#include "passes/plan/in_place.h"
#include "passes/plan/per_sample.h"
#include "passes/plan/slices.h"
#include "passes/plan/kernel_graph.h"
#include "passes/plan/stream.h"
#include <assert.h>
#include <string.h>

static void tally(const Fuse *f, FusionId id) {
    if (f->fired) f->fired[RULE_FUSION + id]++;
}

/* ---- results: one home each --------------------------------------------------------------------- */
static Node *append_copy(Graph *g, Node *v) {
    Node *copy = graph_node(g, OP_RESHAPE, 1, &v, NULL, v->dtype, *v->shape);
    copy->phase = v->phase;
    copy->loc = v->loc;
    return copy;
}

/* The caller may leave an output out: what others read too has room in the arena besides.  It is laid out as the caller
 * sees it: where a scratch tensor would be padded there is a copy instead.  Bits of `wanted` tell which are given. */
static bool may_share(const PassContext *c, const Graph *g, const Result *r, const Node *v) {
    return r->kind == RESULT_OUTPUT && r->decl < FUSEC_OUTPUT_BITS(g->entry, g->model->lines.n) && (!c->target || !layout_pads(c, v));
}

/* The value that others read too and that the output is, or is a reshape of, in the same memory; NULL: it has to be a copy, or
 * nobody else reads it.  A reshape that has memory of its own is read there. */
static Node *shared_value(const PassContext *c, const Graph *g, const Result *r, const Uses *uses, const int *homes) {
    Node *v = r->value;
    bool read = fuse_users(uses, v) > 0, alone = homes[v->id] == 1;
    while (v->op == OP_RESHAPE && !fuse_is_bucketed(uses, v) && shape_is_fixed(*v->shape) && !shape_same(v->shape, v->in[0]->shape)) { /* which is a copy */
        v = v->in[0];
        read |= fuse_users(uses, v) > 1;
        alone &= homes[v->id] == 0;
    }
    if (v != r->value && fuse_may_be_joined(uses, v)) return NULL;
    return read && alone && !op_is_memory(v->op) && may_share(c, g, r, r->value) && may_share(c, g, r, v) ? v : NULL;
}

/* By result: the value that is shared, or NULL. */
static Node **shared_values(const PassContext *c, const Graph *g, const Uses *uses) {
    int *homes = ARENA_ARRAY(c->arena, int, g->nodes.n + 1);
    Node **shared = ARENA_ARRAY(c->arena, Node *, g->results.n + 1);
    bool *taken = ARENA_ARRAY(c->arena, bool, g->nodes.n + 1);
    for (int i = 0; i < g->results.n; i++) homes[g->results.at[i].value->id]++;
    for (int i = 0; i < g->results.n; i++) {
        Node *v = shared_value(c, g, &g->results.at[i], uses, homes);
        if (!v || taken[v->id]) continue;
        shared[i] = v;
        taken[v->id] = true;
    }
    return shared;
}

bool fuse_share(const PassContext *c, Fuse *f, const Node *n) {
    const Graph *g = f->graph;
    int at = -1, homes = 0;
    for (int i = 0; i < g->results.n; i++) {
        if (f->landing[i] != n && g->results.at[i].value != n) continue;
        at = i, homes++;
    }
    if (homes != 1 || g->results.at[at].value != n || f->landing[at] != n || f->within[n->id] || !may_share(c, g, &g->results.at[at], n)) return false;
    f->shared[at] = g->results.at[at].value;
    f->output[n->id] = false;
    return true;
}

/* Copies of an earlier partition of the graph, which this one may do without. */
static void drop_copies(Graph *g) {
    bool any = false;
    for (int i = 0; i < g->results.n; i++) {
        const Node *v = g->results.at[i].value;
        if (v->op != OP_RESHAPE || !shape_same(v->shape, v->in[0]->shape)) continue;
        g->results.at[i].value = v->in[0];
        any = true;
    }
    if (any) graph_prune(g);
}

/* A value that is a source, has another result, is an output or a gradient that others read too (a gradient may be
 * added to what is there; an output that may be shared is the value itself), or is wanted by more calls than its result, is
 * copied into its further home.  Returns how many copies. */
static int separate_results(PassContext *c, Graph *g) {
    Arena *a = c->arena;
    const Uses uses = graph_uses(a, g);
    Node *const *shared = shared_values(c, g, &uses);
    const int before = g->nodes.n;
    int copies = 0;
    bool *taken = ARENA_ARRAY(a, bool, before);
    int *homes = ARENA_ARRAY(a, int, before);
    const uint64_t *of = plan_wanted_by_result(a, g), *wanted = plan_wanted_by_node(a, g);
    for (int i = 0; i < g->results.n; i++) homes[g->results.at[i].value->id]++;
    for (int i = 0; i < g->results.n; i++) {
        Result *r = &g->results.at[i];
        Node *v = r->value;
        const bool stays = (r->kind == RESULT_PARAM || r->kind == RESULT_STATE) && wanted[v->id] != of[i];
        const bool read = uses.first[v->id + 1] > uses.first[v->id] || homes[v->id] > 1;
        const bool read_too = read && (r->kind == RESULT_OUTPUT || r->kind == RESULT_GRAD);
        const bool copied = op_is_memory(v->op) || taken[v->id] || stays || (read_too && !shared[i]);
        if (copied) r->value = append_copy(g, v), copies++;
        else taken[v->id] = true;
        if (copied && r->kind == RESULT_GRAD) r->value->phase = PHASE_BACKWARD; /* also of what is no gradient itself */
    }
    return copies;
}

/* ---- kernels ------------------------------------------------------------------------------------------ */
static const FusionId opens[] = {[KERNEL_MAP] = FUSION_new_map, [KERNEL_ROW] = FUSION_new_row,
                                 [KERNEL_CONTRACT] = FUSION_new_contract, [KERNEL_SCAN] = FUSION_new_scan,
                                 [KERNEL_SCATTER] = FUSION_new_scatter, [KERNEL_BUCKET] = FUSION_new_bucket, [KERNEL_STREAM] = FUSION_new_stream};

/* What a heavy node reads through nodes without memory is computed as it is read. */
static void count_prologue(const Fuse *f, const Node *n) {
    bool any = false;
    for (int k = 0; k < n->n_in; k++) any |= !f->candidate[n->in[k]->id] && !op_is_memory(n->in[k]->op);
    if (!any || !fuse_is_heavy(n)) return;
    tally(f, n->op == OP_CONTRACT      ? FUSION_contract_prologue
             : n->op == OP_SCAN        ? FUSION_scan_prologue
             : op_is_scatter(n->op)   ? FUSION_scatter_prologue
                                       : FUSION_row_prologue);
}

static PlanKernel new_kernel(const Fuse *f, const Node *n) {
    PlanKernel k = {.kind = KERNEL_MAP, .p = n->shape, .r = &scalar_shape, .phase = n->phase};
    if (n->op == OP_SCAN) k.kind = KERNEL_SCAN;
    else if (op_is_scatter(n->op)) k.kind = KERNEL_SCATTER;
    else if (n->op == OP_BUCKET) {
        k.kind = KERNEL_BUCKET;
        k.p = node_pool_shape(f->graph->pool, &(Shape){.rank = 1, .dim = {n->attr->extent}}); /* its rows */
    }
    else if (fuse_is_heavy(n) && n->op == OP_CONTRACT) k.kind = KERNEL_CONTRACT;
    else if (op_info[n->op].cls == CLASS_REDUCE) {
        const Shape rows = access_reduced(n);
        k.kind = KERNEL_ROW;
        k.r = node_pool_shape(f->graph->pool, &rows);
    }
    return k;
}

static void add_read(Arena *a, PlanKernel *k, Node *n) {
    for (int i = 0; i < k->reads.n; i++)
        if (k->reads.at[i] == n) return;
    vec_push(a, k->reads, n);
}

/* The oldest kernel that may read n: the one that computes it, or a later one than those that write its parts. */
static int readable_from(const Fuse *f, const Node *n) {
    return f->joined[n->id] ? f->after[n->id] + 1 : f->plan->kernel_of[n->id];
}

/* Kernels worth trying: those it reads from and those that read the same memory, newest first. */
static int kernels_to_try(const Fuse *f, const Node *n, int *kernels, int most) {
    const AccessList *l = &f->access[n->id];
    int floor = -1, count = 0;
    for (int i = 0; i < l->n; i++) {
        const int k = readable_from(f, l->at[i].node);
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

/* A clone stands behind the node that opens its host (rematerialize.c). */
static int kernels_of_clone(const Fuse *f, const Node *n, int *kernels, int most) {
    const int host = f->in_front ? f->plan->kernel_of[f->in_front->id] : -1;
    if (host < 0) return kernels_to_try(f, n, kernels, most);
    for (int i = 0; i < f->access[n->id].n; i++)
        if (readable_from(f, f->access[n->id].at[i].node) > host) return kernels_to_try(f, n, kernels, most);
    kernels[0] = host;
    return 1 + kernels_to_try(f, n, kernels + 1, most - 1);
}

/* That of the other term of a sum of products, if all that n reads is there before. */
static int kernel_to_add_to(const Fuse *f, const Node *n, int *kernels) {
    const Node *add = fuse_sum_with(f, n);
    if (!add) return 0;
    kernels[0] = f->plan->kernel_of[add->in[add->in[0] == n]->id];
    for (int i = 0; i < f->access[n->id].n; i++)
        if (readable_from(f, f->access[n->id].at[i].node) >= kernels[0] + f->joined[f->access[n->id].at[i].node->id]) return 0;
    return kernels[0] >= 0;
}

/* Node and what it reads become kernel k's. */
static void enter(Fuse *f, int k, PlanNode pn) {
    PlanKernel *kernel = &f->plan->kernels.at[k];
    const AccessList *reads = &f->access[pn.node->id];
    vec_push(f->arena, kernel->nodes, pn);
    f->plan->kernel_of[pn.node->id] = k;
    for (int i = 0; i < reads->n; i++) {
        Node *a = reads->at[i].node;
        if (a->shape->rank > 0) f->last_reader[a->id] = k; /* a shared scalar is no reason to be computed together */
        if (f->plan->kernel_of[a->id] != k) add_read(f->arena, kernel, a);
    }
}

/* A sum in slices may have to wait for the kernel that walks them, a copy for all that read what it copies. */
static bool may_wait(const Fuse *f, const Node *n) {
    int dim;
    int64_t length;
    return f->merge && (fuse_is_copy(f, n) || slices_summed(n, &dim, &length));
}

/* A gradient that nothing reads outside of the kernel that computes it: that kernel writes it.  So does one that reads what is a
 * gradient as it is. */
static bool is_written_at_once(const Fuse *f, const Node *copy) {
    const Node *x = copy->in[0];
    const int k = f->plan->kernel_of[x->id];
    int inside = 0;
    if (!f->grad[copy->id]) return false;
    if (op_is_memory(x->op)) return true;
    if (k < 0 || f->result[x->id]) return false;
    for (int i = 0; i < f->plan->kernels.at[k].nodes.n; i++) {
        const AccessList *reads = &f->access[f->plan->kernels.at[k].nodes.at[i].node->id];
        for (int j = 0, seen = 0; j < reads->n && !seen; j++) seen = reads->at[j].node == x, inside += seen;
    }
    return inside + 1 == f->readers[x->id];
}

/* A cache, some rows of which change: a kernel of its own will write no others (overwrite.c). */
static bool will_update_part(const Fuse *f, const Node *n) {
    if (n->op != OP_UPDATE_AT || n->in[0]->op != OP_STATE) return false;
    for (int i = 0; i < f->graph->results.n; i++) {
        const Result *r = &f->graph->results.at[i];
        if (r->value == n && r->kind == RESULT_STATE && r->decl == n->in[0]->attr->decl) return true;
    }
    return false;
}

/* Into the newest kernel that it fits, else one of its own; false: that has to `wait`. */
static bool assign(Fuse *f, Node *n, bool wait) {
    PlanNode pn;
    int tries[16], k = -1;
    const bool waits = wait && may_wait(f, n);
    if (waits && fuse_is_copy(f, n)) return false;
    const bool alone = !f->merge || (fuse_is_copy(f, n) && !is_written_at_once(f, n)) || op_is_scatter(n->op) || n->op == OP_BUCKET || n->op == OP_SCAN ||
                       will_update_part(f, n);
    const int count = alone                                      ? 0
                      : n->op == OP_CONTRACT && fuse_is_heavy(n) ? kernel_to_add_to(f, n, tries)
                      : n->again                                 ? kernels_of_clone(f, n, tries, 16)
                                                                 : kernels_to_try(f, n, tries, 16);
    for (int i = 0; i < count && k < 0; i++) {
        const PlanKernel *at = &f->plan->kernels.at[tries[i]];
        if (n->remat && at->nodes.at[0].node->remat != n->remat) continue; /* or it would be computed, and kept, too early */
        if (n->again && at->phase == PHASE_FORWARD) continue;
        if (will_update_part(f, at->nodes.at[0].node)) continue;
        const FusionId how = at->phase <= n->phase ? fuse_try_join(f, &f->plan->kernels.at[tries[i]], n, &pn) : FUSION_COUNT;
        if (how == FUSION_COUNT) continue;
        tally(f, how);
        k = tries[i];
    }
    if (k < 0 && waits) return false;
    count_prologue(f, n);
    if (k < 0) {
        k = f->plan->kernels.n;
        vec_push(f->arena, f->plan->kernels, new_kernel(f, n));
        if (f->data) f->plan->kernels.at[k].sample = sample_of(f, n);
        pn = fuse_plain(n);
        tally(f, opens[f->plan->kernels.at[k].kind]);
    }
    PlanKernel *kernel = &f->plan->kernels.at[k];
    assert(pn.part == PART_VALUE || kernel->kind == KERNEL_CONTRACT || (pn.part == PART_SLICES && kernel->sliced));
    assert(!pn.in_row || kernel->kind == KERNEL_ROW);
    enter(f, k, pn);
    if (pn.part == PART_ONTO) { /* their sum is the value that there is */
        vec_push(f->arena, kernel->nodes, fuse_plain(pn.into));
        f->plan->kernel_of[pn.into->id] = k;
    }
    return true;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */
/* Where the member's dims lie: rows, and columns of its own, which go to `r`. */
static PlanNode member_of(const Fuse *f, const Stream *s, const StreamMember *m, Shape *r) {
    PlanNode pn = fuse_plain(m->node);
    const int k = m->operand, rows = s->shape->rank - 1;
    pn.part = m->turns ? PART_TURNS : PART_STREAM;
    pn.operand = (int8_t)k;
    pn.term = arena_dup(f->arena, &m->term, sizeof m->term);
    if (m->node->op != OP_CONTRACT) return pn;
    const Contract *c = m->node->attr->contract;
    for (int l = 0; l < c->n_out; l++) {
        int at = -1;
        for (int d = 0; d < s->shape->rank; d++)
            if (c->map[k][d].coef[l]) at = d == s->dim ? rows : d < s->dim ? d : d - 1;
        pn.axis[l] = (int8_t)(at >= 0 ? at : rows + r->rank);
        if (at < 0) r->dim[r->rank++] = c->extent[l];
    }
    return pn;
}

/* With the last of its members, all of them. */
static void assign_stream(Fuse *f, const Stream *s) {
    const int k = f->plan->kernels.n;
    Shape p = {0}, r = {.rank = 1, .dim = {s->shape->dim[s->dim]}};
    for (int d = 0; d < s->shape->rank; d++)
        if (d != s->dim) p.dim[p.rank++] = s->shape->dim[d];
    vec_push(f->arena, f->plan->kernels,
             ((PlanKernel){.kind = KERNEL_STREAM, .phase = s->members.at[0].node->phase, .makes = s->makes, .rows = s->rows, .turns = s->turns}));
    for (int i = 0; i < s->members.n; i++) enter(f, k, member_of(f, s, &s->members.at[i], &r));
    PlanKernel *kernel = &f->plan->kernels.at[k];
    kernel->p = node_pool_shape(f->graph->pool, &p);
    kernel->r = node_pool_shape(f->graph->pool, &r);
    tally(f, FUSION_new_stream);
    for (int i = 1; i < s->members.n; i++) tally(f, s->members.at[i].turns ? FUSION_stream_turns : FUSION_stream_member);
}

/* ---- homes ---------------------------------------------------------------------------------------------------- */
static AccessList reads_of(const Fuse *f, const PlanKernel *k, const PlanNode *pn) {
    AccessList l = {0};
    if (!in_place_sums_rows(k, pn)) return f->access[pn->node->id];
    access_collect_value(f->arena, f->candidate, pn->node->in[0]->in[0], &l);
    return l;
}

/* In place is sound if the kernel reads the old value only at the element it writes. */
static bool in_place_allowed(const Fuse *f, const PlanKernel *k, const PlanNode *v, Op source, int decl) {
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *pn = &k->nodes.at[i];
        const AccessList reads = reads_of(f, k, pn);
        for (int j = 0; j < reads.n; j++) {
            const Access *a = &reads.at[j];
            if (a->node->op == source && a->node->attr->decl == decl && !in_place_at(k, pn, a, v)) return false;
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

static bool result_in_place(const Fuse *f, const Result *r, const Node *landing) {
    if (r->kind != RESULT_PARAM && r->kind != RESULT_STATE) return true;
    const PlanKernel *k = &f->plan->kernels.at[f->plan->kernel_of[landing->id]];
    return in_place_allowed(f, k, fuse_find_in(k, landing), r->kind == RESULT_PARAM ? OP_PARAM : OP_STATE, r->decl);
}

/* In the arena; of a joined concatenation, all that lies in it. */
static void give_memory(Fuse *f, Node *n) {
    PlanBuffer *b = &f->plan->buffer[n->id];
    if (b->home != HOME_NONE) return;
    b->home = HOME_ARENA;
    for (int k = 0; f->joined[n->id] && k < n->n_in; k++) {
        give_memory(f, n->in[k]);
        f->plan->buffer[n->in[k]->id].within = n;
        tally(f, FUSION_part_in_place);
    }
}

static void choose_homes(Fuse *f) {
    Plan *p = f->plan;
    for (int i = 0; i < f->n; i++) {
        const Node *n = f->graph->nodes.at[i];
        p->buffer[i] = (PlanBuffer){.home = HOME_NONE, .decl = n->attr->decl, .writer = p->kernel_of[i]};
        if (op_is_memory(n->op)) p->buffer[i].home = HOME_SOURCE;
    }
    for (int i = 0; i < f->graph->results.n; i++)
        if (!f->shared[i]) set_home(f, &f->graph->results.at[i], f->landing[i]);
    for (int i = 0; i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].reads.n; j++) give_memory(f, p->kernels.at[i].reads.at[j]);
    for (int i = 0; i < f->graph->results.n; i++) {
        const Result *r = &f->graph->results.at[i];
        Node *v = f->shared[i];
        if (!v) continue;
        assert(f->landing[i] == v && !f->within[v->id]);
        give_memory(f, v);
        p->buffer[v->id].output = r->decl + 1;
        tally(f, FUSION_shared_output);
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
        if (f->merge) slices_of_reads(f->target, k);
        if (grad) add_read(f->arena, k, p->accumulate);
    }
}

static void fuse_init(Fuse *f, PassContext *c, Graph *g, Node **shared) {
    const int n = g->nodes.n;
    Arena *a = c->arena;
    *f = (Fuse){.arena = a, .graph = g, .merge = !c->disabled[PASS_fuse], .n = n, .fired = c->fired, .shared = shared};
    f->plan = ARENA_NEW(a, Plan);
    f->candidate = ARENA_ARRAY(a, bool, n);
    f->output = ARENA_ARRAY(a, bool, n);
    f->result = ARENA_ARRAY(a, bool, n);
    f->grad = ARENA_ARRAY(a, bool, n);
    for (int i = 0; i < g->results.n; i++) f->grad[g->results.at[i].value->id] |= g->results.at[i].kind == RESULT_GRAD;
    f->copied = ARENA_ARRAY(a, bool, n);
    f->access = ARENA_ARRAY(a, AccessList, n);
    f->readers = ARENA_ARRAY(a, int, n);
    f->last_reader = ARENA_ARRAY(a, int, n);
    f->wanted = plan_leaves_out(g) ? plan_wanted_by_node(a, g) : NULL;
    f->threads = c->target ? c->target->threads : 1;
    f->target = c->target;
    if (c->disabled[PASS_jacobian_gemm]) f->data = per_sample_data(a, g);
    f->plan->arena = a;
    f->plan->graph = g;
    f->plan->kernel_of = ARENA_ARRAY(a, int, n);
    f->plan->buffer = ARENA_ARRAY(a, PlanBuffer, n);
    for (int i = 0; i < n; i++) f->last_reader[i] = f->plan->kernel_of[i] = -1;
}

/* The newest kernel that writes a part of it. */
static void note_parts(Fuse *f, const Node *n) {
    f->after[n->id] = -1;
    for (int k = 0; k < n->n_in; k++) {
        const int id = n->in[k]->id, last = f->joined[id] ? f->after[id] : f->plan->kernel_of[id];
        if (last > f->after[n->id]) f->after[n->id] = last;
    }
}

/* Is the node computed from something that waits?  A stream waits whole: at its last member, for all of them. */
static bool reads_waiting(const bool *waits, const Node *n) {
    bool some = false;
    for (int k = 0; k < n->n_in; k++) some |= waits[n->in[k]->id];
    return some;
}

static bool stream_waits(bool *waits, const Stream *s) {
    bool some = false;
    for (int m = 0; m < s->members.n; m++) some |= reads_waiting(waits, s->members.at[m].node);
    for (int m = 0; m < s->members.n; m++) waits[s->members.at[m].node->id] |= some;
    return some;
}

typedef VEC(int) Kernels;

static void add_writers(const Fuse *f, const Node *n, Kernels *list) {
    if (f->plan->kernel_of[n->id] >= 0) vec_push(f->arena, *list, f->plan->kernel_of[n->id]);
    for (int k = 0; f->joined[n->id] && k < n->n_in; k++) add_writers(f, n->in[k], list);
}

/* In the order of the graph, but for what they read: kernels that waited go back to where they stand in the program, which passes
 * after this take for the order in time. */
static void renumber(Fuse *f) {
    Plan *p = f->plan;
    const int n = p->kernels.n;
    Kernels before = {0}, wish = {0};
    int *first = ARENA_ARRAY(f->arena, int, n + 1);
    PlanKernel *old = arena_dup(f->arena, p->kernels.at, sizeof *old * (size_t)n);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < old[k].reads.n; i++) add_writers(f, old[k].reads.at[i], &before);
        first[k + 1] = before.n;
    }
    for (int i = 0; i < f->n; i++)
        if (p->kernel_of[i] >= 0) vec_push(f->arena, wish, p->kernel_of[i]);
    const int *number = kernels_in_order(f->arena, n, &(Predecessors){first, before.at}, wish.at, wish.n);
    for (int k = 0; k < n; k++) p->kernels.at[number[k]] = old[k];
    for (int i = 0; i < f->n; i++)
        if (p->kernel_of[i] >= 0) p->kernel_of[i] = number[p->kernel_of[i]];
}

/* By node id, of clones: what they are computed again for is computed from sums in slices, so that its kernel may wait. */
static bool *clones_of_late(const Fuse *f, const Graph *g) {
    bool *late = ARENA_ARRAY(f->arena, bool, f->n), *from = ARENA_ARRAY(f->arena, bool, f->n);
    for (int i = 0; i < f->n; i++) from[i] = (f->candidate[i] && may_wait(f, g->nodes.at[i])) || reads_waiting(from, g->nodes.at[i]);
    for (int i = f->n - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes.at[i]->n_in; k++) late[g->nodes.at[i]->in[k]->id] |= g->nodes.at[i]->again ? late[i] : from[i];
    return late;
}

/* In graph order; sums that wait, and what is computed from them, after all others. */
static void assign_all(Fuse *f, const Streams *streams, const Graph *g) {
    bool *waits = ARENA_ARRAY(f->arena, bool, f->n), any = false;
    const bool *late = clones_of_late(f, g);
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < f->n; i++) {
            Node *n = g->nodes.at[i];
            const Stream *stream = streams->of[i] ? &streams->at.at[streams->of[i] - 1] : NULL;
            const bool whole = stream && vec_last(stream->members).node->id == i;
            if (!n->again) f->in_front = n;
            if (!last) waits[i] = whole ? stream_waits(waits, stream) : reads_waiting(waits, n);
            if (!last && n->again && f->in_front) waits[i] |= late[i] && waits[f->in_front->id];
            if (waits[i] != last) continue;
            if (whole) assign_stream(f, stream);
            else if (stream) continue;
            else if (f->joined[i]) note_parts(f, n);
            else if (f->candidate[i] && f->plan->kernel_of[i] < 0) waits[i] = !assign(f, n, !last);
            any |= waits[i];
        }
    if (any) renumber(f);
}

static void partition(Fuse *f, PassContext *c, Graph *g, Node *accumulate, Node **shared, const bool *inlined) {
    fuse_init(f, c, g, shared);
    f->plan->accumulate = accumulate;
    f->inlined = inlined;
    fuse_candidates(f, g);
    const Streams streams = fuse_find_streams(c, f, g, false);
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
    assign_all(f, &streams, g);
}

Foreseen fuse_foresee(PassContext *c, Graph *g, bool several_dims) {
    Fuse f;
    const Uses uses = graph_uses(c->arena, g);
    Node **shared = shared_values(c, g, &uses);
    for (int i = 0; i < g->results.n; i++) /* what separate_results copies is no result itself */
        if (!shared[i] && fuse_users(&uses, g->results.at[i].value) > 0) shared[i] = g->results.at[i].value;
    fuse_init(&f, c, g, shared);
    fuse_candidates(&f, g);
    const Streams streams = fuse_find_streams(c, &f, g, several_dims);
    bool *streamed = ARENA_ARRAY(c->arena, bool, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++) streamed[i] = streams.of[i] > 0;
    return (Foreseen){f.candidate, streamed};
}

bool *fuse_streamed(PassContext *c, Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (stream_makes(c, g->nodes.at[i])) return fuse_foresee(c, g, true).streamed;
    return ARENA_ARRAY(c->arena, bool, g->nodes.n + 1);
}

/* Updates that cannot go in place are computed aside and copied over; then all can. */
static bool move_updates_aside(Fuse *f, Graph *g) {
    bool some = false;
    for (int i = 0; i < g->results.n; i++)
        if (!result_in_place(f, &g->results.at[i], f->landing[i])) {
            g->results.at[i].value = append_copy(g, g->results.at[i].value);
            tally(f, FUSION_update_aside);
            some = true;
        }
    return some;
}

/* What got memory and is too large for it, beside what is known to be; NULL: nothing more is found.  Copies may be appended. */
static const bool *too_large(const PassContext *c, const Fuse *f) {
    bool *found = ARENA_ARRAY(f->arena, bool, f->n + f->graph->results.n + 1), more = false;
    for (int i = 0; i < f->n; i++) {
        const bool known = f->inlined && f->inlined[i];
        found[i] = known || (f->plan->buffer[i].home == HOME_ARENA && !pass_fits_memory(c, f->graph->nodes.at[i]));
        more |= found[i] && !known;
    }
    return more ? found : NULL;
}

Plan *pass_fuse(PassContext *c, Graph *g) {
    Fuse f;
    Node *accumulate = NULL;
    drop_copies(g);
    const int copies = separate_results(c, g);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_ACCUMULATE) accumulate = g->nodes.at[i];
    if (g->entry == ENTRY_GRAD && !accumulate)
        accumulate = graph_node(g, OP_ACCUMULATE, 0, NULL, NULL, DT_I32, shape_scalar());
    fuse_separate_parts(c, g);
    const Uses uses = graph_uses(c->arena, g);
    Node **shared = shared_values(c, g, &uses);
    const bool *inlined = NULL;
    do {
        partition(&f, c, g, accumulate, shared, inlined);
        if (move_updates_aside(&f, g)) partition(&f, c, g, accumulate, shared, inlined);
        choose_homes(&f);
        inlined = too_large(c, &f);
    } while (inlined);
    for (int i = 0; i < copies; i++) tally(&f, FUSION_copied_result);
    return f.plan;
}
