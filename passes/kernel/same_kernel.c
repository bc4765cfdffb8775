#include "passes/kernel/same_kernel.h"
#include "ir/node_pool.h"
#include "ir/integer.h"
#include "passes/algebra/access.h"
#include <string.h>

typedef struct Slot {
    uint64_t hash;
    int kernel; /* + 1; 0: empty */
} Slot;

/* Where nodes stand among a kernel's buffers. */
typedef struct Buffers {
    int kernel;
    int *of, *at; /* by node id: 1 + the kernel for which `at` is the position */
} Buffers;

struct KernelFinder {
    const Plan *plan;
    Slot *slot;
    int n_slots;
    int *stamp, *partner; /* by node id, of the comparison or hash under way */
    int now;
    Buffers a, b; /* of the kernels compared; b: also of the one hashed */
};

KernelFinder *kernel_finder(Arena *a, const Plan *p) {
    KernelFinder *f = ARENA_NEW(a, KernelFinder);
    *f = (KernelFinder){.plan = p, .n_slots = 64};
    while (f->n_slots < 2 * p->kernels.n) f->n_slots *= 2;
    f->slot = ARENA_ARRAY(a, Slot, f->n_slots);
    int **by_id[] = {&f->stamp, &f->partner, &f->a.of, &f->a.at, &f->b.of, &f->b.at};
    for (size_t i = 0; i < sizeof by_id / sizeof *by_id; i++) *by_id[i] = ARENA_ARRAY(a, int, p->graph->nodes.n + 1);
    f->a.kernel = f->b.kernel = -1;
    return f;
}

static void set_buffers(const Plan *p, Buffers *b, const PlanKernel *k) {
    const int kernel = (int)(k - p->kernels.at);
    if (b->kernel == kernel) return;
    b->kernel = kernel;
    for (int i = k->reads.n - 1; i >= 0; i--) b->of[k->reads.at[i]->id] = kernel + 1, b->at[k->reads.at[i]->id] = i;
}

/* Position among the kernel's buffers, or -1 if the node is computed inside. */
static int buffer_position(const Plan *p, const Buffers *b, const Node *n) {
    return p->kernel_of[n->id] == b->kernel || b->of[n->id] != b->kernel + 1 ? -1 : b->at[n->id];
}

/* ---- hash ---------------------------------------------------------------------------------------------- */
static uint64_t hash_shape(uint64_t h, const Shape *s) {
    for (int d = 0; d < s->rank; d++) h = hash_mix(h, (uint64_t)s->dim[d].bound);
    return h;
}

static uint64_t hash_cone(KernelFinder *f, const Node *n, uint64_t h) {
    const int buffer = buffer_position(f->plan, &f->b, n);
    if (buffer >= 0) return hash_shape(hash_mix(h, 1000 + (uint64_t)buffer), n->shape);
    if (f->stamp[n->id] == f->now) return hash_mix(h, (uint64_t)f->partner[n->id]);
    f->stamp[n->id] = f->now;
    f->partner[n->id] = (int)(h & 0xFFFF);
    h = hash_mix(hash_shape(hash_mix(h, (uint64_t)n->op * 64 + (uint64_t)n->dtype), n->shape), attr_hash(n));
    for (int i = 0; i < n->n_in; i++) h = hash_cone(f, n->in[i], h);
    return h;
}

static uint64_t hash_kernel(KernelFinder *f, const PlanKernel *k) {
    uint64_t h = hash_mix((uint64_t)k->kind, (uint64_t)k->reads.n * 64 + (uint64_t)k->outputs.n);
    set_buffers(f->plan, &f->b, k);
    f->now++;
    for (int i = 0; i < k->nodes.n; i++)
        h = hash_cone(f, k->nodes.at[i].node, hash_mix(h, k->nodes.at[i].stored + 2 * (uint64_t)k->nodes.at[i].part));
    return h;
}

uint64_t kernel_hash(KernelFinder *f, int k) { return hash_kernel(f, &f->plan->kernels.at[k]); }

/* ---- equality -------------------------------------------------------------------------------------------- */
/* Two kernels side by side: a, whose Tile IR exists, and b. */
typedef struct Pair {
    KernelFinder *f;
    const PlanKernel *a;
    PlanKernel *b;
    bool set[FUSEC_MAX_CONSTANTS]; /* b's constants decided so far */
} Pair;

static bool strides_equal(const Plan *p, const Node *a, const Node *b) {
    return memcmp(p->buffer[a->id].stride, p->buffer[b->id].stride, sizeof(int64_t) * (size_t)a->shape->rank) == 0;
}

static bool same_memory(const Pair *x, const Node *a, const Node *b) {
    const Model *m = x->f->plan->graph->model;
    if (a->dtype != b->dtype || !shape_same(a->shape, b->shape) || !strides_equal(x->f->plan, a, b)) return false;
    if ((a->op == OP_INPUT) != (b->op == OP_INPUT)) return false;
    if (a->op != OP_INPUT) return true;
    const TensorDecl *da = &m->inputs.at[a->attr->decl], *db = &m->inputs.at[b->attr->decl];
    return da->has_range == db->has_range && da->lo == db->lo && da->hi == db->hi;
}

/* The stream is a launch constant: b's value goes where a's stands. */
static bool same_stream(Pair *x, const Node *a, const Node *b) {
    for (int i = 0; i < FUSEC_MAX_CONSTANTS && x->a->tile && i < x->a->tile->n_constants; i++) {
        if (x->a->constant[i] != a->attr->stream) continue;
        if (x->set[i] && x->b->constant[i] != b->attr->stream) return false;
        x->set[i] = true;
        x->b->constant[i] = b->attr->stream;
        return true;
    }
    return a->attr->stream == b->attr->stream;
}

static bool same_node(Pair *x, const Node *a, const Node *b) {
    KernelFinder *f = x->f;
    const int at = buffer_position(f->plan, &f->a, a), bt = buffer_position(f->plan, &f->b, b);
    if (at != bt) return false;
    if (at >= 0) return true; /* compared with the buffers */
    if (f->stamp[a->id] == f->now) return f->partner[a->id] == b->id;
    f->stamp[a->id] = f->now;
    f->partner[a->id] = b->id;
    if (a->op != b->op || a->dtype != b->dtype || a->n_in != b->n_in || !shape_same(a->shape, b->shape)) return false;
    if (op_is_memory(a->op) || !attr_similar(a, b)) return false;
    if (a->op == OP_RANDOM && !same_stream(x, a, b)) return false;
    for (int i = 0; i < a->n_in; i++)
        if (!same_node(x, a->in[i], b->in[i])) return false;
    return true;
}

static bool same_buffers(const Pair *x) {
    const Plan *p = x->f->plan;
    const PlanKernel *a = x->a, *b = x->b;
    if (a->reads.n != b->reads.n || a->outputs.n != b->outputs.n) return false;
    for (int i = 0; i < a->reads.n; i++) {
        if (!same_memory(x, a->reads.at[i], b->reads.at[i])) return false;
        if ((a->reads.at[i] == p->accumulate) != (b->reads.at[i] == p->accumulate)) return false;
    }
    for (int i = 0; i < a->outputs.n; i++) {
        const Node *oa = a->outputs.at[i], *ob = b->outputs.at[i];
        if (!same_memory(x, oa, ob)) return false;
        if ((p->buffer[oa->id].home == HOME_GRAD) != (p->buffer[ob->id].home == HOME_GRAD)) return false;
        for (int r = 0; r < a->reads.n; r++)
            if (plan_goes_over(p, oa, a->reads.at[r]) != plan_goes_over(p, ob, b->reads.at[r])) return false;
    }
    return true;
}

static bool same_families(const PlanKernel *a, const PlanKernel *b) {
    if (a->reads.n != b->reads.n || a->outputs.n != b->outputs.n) return false;
    return memcmp(a->family, b->family, sizeof *a->family * (size_t)(a->reads.n + a->outputs.n)) == 0;
}

static bool same_kernel(KernelFinder *f, const PlanKernel *a, PlanKernel *b) {
    Pair x = {.f = f, .a = a, .b = b};
    if (a->members != b->members || (a->members && !same_families(a, b))) return false;
    if (a->kind != b->kind || a->sample != b->sample || a->nodes.n != b->nodes.n) return false;
    if (!shape_same(a->p, b->p) || !shape_same(a->r, b->r)) return false;
    if (!same_buffers(&x)) return false;
    set_buffers(f->plan, &f->a, a);
    set_buffers(f->plan, &f->b, b);
    f->now++;
    for (int i = 0; i < a->nodes.n; i++) {
        const PlanNode *na = &a->nodes.at[i], *nb = &b->nodes.at[i];
        if (na->part != nb->part || na->stored != nb->stored || na->in_row != nb->in_row) return false;
        if (memcmp(na->axis, nb->axis, (size_t)na->node->shape->rank)) return false;
        if (!same_node(&x, na->node, nb->node)) return false;
    }
    return true;
}

bool kernels_equal(KernelFinder *f, int a, int b) {
    return same_kernel(f, &f->plan->kernels.at[a], &f->plan->kernels.at[b]);
}

int kernel_find_same(KernelFinder *f, int k) {
    PlanKernel *b = &f->plan->kernels.at[k];
    const uint64_t hash = hash_kernel(f, b);
    for (uint64_t i = hash;; i++) {
        Slot *s = &f->slot[i & (uint64_t)(f->n_slots - 1)];
        if (!s->kernel) {
            *s = (Slot){hash, k + 1};
            return -1;
        }
        if (s->hash != hash) continue;
        memset(b->constant, 0, sizeof b->constant);
        if (same_kernel(f, &f->plan->kernels.at[s->kernel - 1], b)) return s->kernel - 1;
    }
}
