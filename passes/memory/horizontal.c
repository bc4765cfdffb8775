/* horizontal: unlike kernels that do not wait for each other in one launch (horizontal fusion; Li et al., "Automatic Horizontal
 * Fusion for GPU Kernels", CGO 2022).
 *
 *     updates of tensors of any shape, sums that finish slices of any length, weights that are rounded
 *
 * Needs: kernels with their Tile IR, in the order of `schedule`.  Keeps: what is computed, every tensor where it is, and the peak.
 * Gives: bundles of kernels (ir/tile_bundle.c), a range of programs for each, and the order of what is left.  Equal kernels are one
 * already (plan/family.c).
 *
 * Of products, whose last blocks leave cores idle, and of maps and rows that are soon done.  They run where one of them stood: the
 * others later, while what they read is kept, or earlier, and then what they write is there longer.  What would be in the cache at its
 * own place comes from memory then: that costs less than a launch, and what cores wait for the last of a product's blocks, or they stay
 * apart. */
#include "ir/tile_stage.h"
#include "passes/memory/memory.h"
#include "passes/plan/kernel_graph.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    MOST_BUNDLED = 16,
    MOST_OPEN = 8,      /* bundles that still take kernels */
    FAR = 1 << 10,      /* positions between two of a bundle: near-linear in the number of kernels */
    ARRAYS = 48 << 10,  /* bytes of static shared memory that a kernel may have (CUDA C++ Programming Guide, "Shared Memory") */
    OCCUPANCY_LOSS = 8  /* one part in so many of a kernel's time: what waits for memory with fewer blocks resident, because another's
                           threads take more registers */
};

typedef struct Bundle {
    int kernel[MOST_BUNDLED], n; /* of the plan */
    int at;                  /* the position where they run */
    int until;               /* that of the first that waits for one of them */
    int number;              /* in the new plan, of several: 1 + its kernel */
} Bundle;

typedef struct Horizontal {
    PassContext *c;
    Arena *arena;
    Plan *p;
    Predecessors before;
    KernelGraph graph;
    int *position;           /* by kernel */
    const uint64_t *wanted;  /* by kernel: the calls that need it */
    Liveness live;
    int *block_of;           /* by node id: 1 + the block in whose memory it lies, of those that have one */
    int64_t *bytes, peak;    /* by position: live then; the most */
    bool *runs;              /* by position: a launch does */
    double launch;           /* bytes that memory moves in the time of one */
    Bundle open[MOST_OPEN];
    int n_open;
    VEC(Bundle) done;
    VEC(int) blocks;         /* of one question */
    PlanKernel *kernels;     /* the new plan's */
    VEC(int) made;           /* bundles that are unlike all before */
} Horizontal;

/* ---- which kernels ----------------------------------------------------------------------------------------------- */
static bool writes_output(const Plan *p, const PlanKernel *pk) {
    for (int i = 0; i < pk->outputs.n; i++)
        if (plan_output(&p->buffer[pk->outputs.at[i]->id]) >= 0) return true;
    return false;
}

static bool is_product(const PlanKernel *pk) { return pk->kind == KERNEL_CONTRACT; }

/* Products of any size, which want registers; of maps and rows those that are soon done. */
static bool may_be_bundled(const Horizontal *h, const PlanKernel *pk) {
    if (pk->workspace || !pk->outputs.n || writes_output(h->p, pk) || !kernel_may_be_bundled(pk->tile)) return false;
    if (is_product(pk)) return true;
    if (pk->kind != KERNEL_MAP && pk->kind != KERNEL_ROW) return false;
    const KernelCost cost = kernel_cost(pk->tile);
    const double most = OCCUPANCY_LOSS * h->launch;
    return cost.bytes_read + cost.bytes_written <= most && cost.flops <= most * target_ridge(h->c->target);
}

/* Products that are multiplied alike, with as many blocks resident. */
static bool alike(const Horizontal *h, const PlanKernel *a, const PlanKernel *b) {
    const int64_t x = kernel_shared_bytes(a->tile), y = kernel_shared_bytes(b->tile), room = h->c->target->fast_bytes;
    if (is_product(a) != is_product(b)) return false;
    if (!is_product(a)) return !x && !y;
    return a->tile->threads == b->tile->threads && !x == !y && (!x || room / x == room / y);
}

/* Needed by the same calls.  What nothing waits for, as updates, goes with its like: it can run as late as any. */
static bool same_time(const Horizontal *h, int a, int b) {
    const KernelGraph *g = &h->graph;
    if ((g->first[a] == g->first[a + 1]) != (g->first[b] == g->first[b + 1])) return false;
    return h->p->kernels.at[a].nodes.at[0].node->remat == h->p->kernels.at[b].nodes.at[0].node->remat && h->wanted[a] == h->wanted[b];
}

/* What a launch has room for, with one more kernel. */
static bool has_room(const Horizontal *h, const Bundle *b, int k) {
    const Kernel *one = h->p->kernels.at[k].tile;
    int64_t buffers = one->buffers.n, arrays = kernel_array_bytes(one), programs = kernel_programs(one, NULL), shared = kernel_shared_bytes(one);
    for (int i = 0; i < b->n; i++) {
        const Kernel *other = h->p->kernels.at[b->kernel[i]].tile;
        buffers += other->buffers.n;
        arrays += kernel_array_bytes(other);
        programs += kernel_programs(other, NULL);
        if (kernel_shared_bytes(other) > shared) shared = kernel_shared_bytes(other);
    }
    return b->n < MOST_BUNDLED && buffers <= UINT8_MAX && arrays <= ARRAYS && arrays + shared <= h->c->target->fast_bytes && programs <= INT32_MAX;
}

/* Bytes that memory moves in the time that the kernel alone takes more: of a launch, and of cores without work in its last round. */
static double worth_of(const Horizontal *h, const PlanKernel *pk) {
    const Target *t = h->c->target;
    if (!is_product(pk)) return h->launch;
    const double rounds = (double)kernel_programs(pk->tile, NULL) / t->cores, whole = ceil(rounds);
    const double gflops = kernel_shared_bytes(pk->tile) ? t->gflops_matrix : t->gflops_f32; /* by matrix instructions, or threads */
    return h->launch + (whole - rounds) / whole * kernel_cost(pk->tile).flops / gflops * t->gbytes_per_s;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */
static int first_after(const Horizontal *h, int k) {
    int first = INT_MAX;
    for (int i = h->graph.first[k]; i < h->graph.first[k + 1]; i++) {
        const int at = h->position[h->graph.succ[i] / 2];
        if (at < first) first = at;
    }
    return first;
}

static int last_before(const Horizontal *h, int k) {
    int last = -1;
    for (int i = h->before.first[k]; i < h->before.first[k + 1]; i++) {
        const int at = h->position[h->before.at[i]];
        if (at > last) last = at;
    }
    return last;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void find_live(Horizontal *h) {
    const int n = h->p->kernels.n;
    h->live = plan_liveness(h->arena, h->p);
    h->block_of = ARENA_ARRAY(h->arena, int, h->p->graph->nodes.n + 1);
    h->bytes = ARENA_ARRAY(h->arena, int64_t, n + 2);
    for (int i = 0; i < h->live.n; i++) {
        const LiveBlock *b = &h->live.block[i];
        if (b->node) h->block_of[b->node->id] = i + 1;
        h->bytes[b->lower] += b->bytes;
        h->bytes[b->upper] -= b->bytes;
    }
    for (int i = 0; i < h->p->graph->nodes.n; i++) h->block_of[i] = h->block_of[h->live.in[i]->id];
    for (int at = 1; at < n; at++) h->bytes[at] += h->bytes[at - 1];
    for (int at = 0; at < n; at++)
        if (h->bytes[at] > h->peak) h->peak = h->bytes[at];
}

/* Adds the value's block to the question's; gives its bytes, 0 if it was there or has none of the arena. */
static int64_t add_block(Horizontal *h, const Node *n) {
    const int block = h->block_of[n->id] - 1;
    for (int i = 0; i < h->blocks.n; i++)
        if (h->blocks.at[i] == block) return 0;
    if (block < 0) return 0;
    vec_push(h->arena, h->blocks, block);
    return h->live.block[block].bytes;
}

/* Does a launch run between the positions?  What was in the cache need not be there afterwards. */
static bool runs_between(const Horizontal *h, int from, int to) {
    for (int at = from + 1; at < to; at++)
        if (h->runs[at]) return true;
    return false;
}

/* That many more at positions [from, to), if the peak is no higher then. */
static bool grow(Horizontal *h, int from, int to, int64_t bytes) {
    for (int at = from; at < to && bytes; at++)
        if (h->bytes[at] + bytes > h->peak) return false;
    for (int at = from; at < to; at++) h->bytes[at] += bytes;
    return true;
}

/* The bundle to position `to`, further on: what it reads lives on until then. */
static bool moves_on(Horizontal *h, Bundle *b, int to) {
    int64_t all = 0;
    const bool apart = runs_between(h, b->at, to);
    h->blocks.n = 0;
    for (int i = 0; i < b->n; i++) {
        const PlanKernel *pk = &h->p->kernels.at[b->kernel[i]];
        int64_t own = 0;
        for (int r = 0; r < pk->reads.n; r++) {
            const int block = h->block_of[pk->reads.at[r]->id] - 1;
            if (block >= 0 && h->live.block[block].upper <= to) own += add_block(h, pk->reads.at[r]);
        }
        if (apart && (double)own > worth_of(h, pk)) return false;
        all += own;
    }
    if (!grow(h, b->at + 1, to + 1, all)) return false;
    for (int i = 0; i < h->blocks.n; i++) h->live.block[h->blocks.at[i]].upper = to + 1;
    return true;
}

/* Kernel k to position `to`, further up: what it writes is there from then on. */
static bool moves_up(Horizontal *h, int k, int to) {
    const PlanKernel *pk = &h->p->kernels.at[k];
    const int from = h->position[k];
    int64_t own = 0;
    h->blocks.n = 0;
    for (int i = 0; i < pk->outputs.n; i++) {
        const int block = h->block_of[pk->outputs.at[i]->id] - 1;
        if (block >= 0 && h->live.block[block].lower > to) own += add_block(h, pk->outputs.at[i]);
    }
    if ((double)own > worth_of(h, pk) && runs_between(h, to, from)) return false;
    if (!grow(h, to, from, own)) return false;
    for (int i = 0; i < h->blocks.n; i++) h->live.block[h->blocks.at[i]].lower = to;
    return true;
}

/* ---- bundles ----------------------------------------------------------------------------------------------------- */
static void put_kernel(Horizontal *h, Bundle *b, int k, int at) {
    const int until = first_after(h, k);
    if (b->n && h->c->fired) h->c->fired[RULE_FUSION + FUSION_horizontal]++;
    b->kernel[b->n++] = k;
    if (until < b->until) b->until = until;
    if (b->n > 1) h->runs[b->at] = false;
    h->runs[h->position[k]] = false;
    b->at = at;
    h->runs[at] = true;
    for (int i = 0; i < b->n; i++) h->position[b->kernel[i]] = at;
}

static bool joins(Horizontal *h, Bundle *b, int k) {
    const int here = h->position[k];
    if (here - b->at > FAR) return false;
    if (!same_time(h, b->kernel[0], k) || !alike(h, &h->p->kernels.at[b->kernel[0]], &h->p->kernels.at[k]) || !has_room(h, b, k)) return false;
    if (b->until > here && moves_on(h, b, here)) {
        put_kernel(h, b, k, here);
        return true;
    }
    if (last_before(h, k) >= b->at || !moves_up(h, k, b->at)) return false;
    put_kernel(h, b, k, b->at);
    return true;
}

/* The oldest takes no more. */
static void close_oldest(Horizontal *h) {
    vec_push(h->arena, h->done, h->open[0]);
    memmove(h->open, h->open + 1, sizeof *h->open * (size_t)--h->n_open);
}

/* In the order of the entry: into the first bundle that takes it, or a new one. */
static void place_kernel(Horizontal *h, int k) {
    for (int i = 0; i < h->n_open; i++)
        if (joins(h, &h->open[i], k)) return;
    if (h->n_open == MOST_OPEN) close_oldest(h);
    h->open[h->n_open] = (Bundle){.until = INT_MAX};
    put_kernel(h, &h->open[h->n_open++], k, h->position[k]);
}

/* ---- the new plan ------------------------------------------------------------------------------------------------ */
/* What one of the kernel's programs takes, in FLOP. */
static double program_length(const Horizontal *h, int k) {
    const Kernel *tile = h->p->kernels.at[k].tile;
    const KernelCost c = kernel_cost(tile);
    return (c.flops + c.bytes_loaded * target_ridge(h->c->target)) / (double)kernel_programs(tile, NULL);
}

/* The longest programs begin first: short ones fill the gaps at the end. */
static void longest_first(const Horizontal *h, Bundle *b) {
    for (int i = 1; i < b->n; i++)
        for (int m = i; m > 0 && program_length(h, b->kernel[m]) > program_length(h, b->kernel[m - 1]); m--) {
            const int k = b->kernel[m];
            b->kernel[m] = b->kernel[m - 1];
            b->kernel[m - 1] = k;
        }
}

/* 1 + a bundle of these kernels, among the last that were made: the layers of a deep model repeat each other; 0: none. */
static int find_made(const Horizontal *h, Kernel *const *of, int n) {
    enum { LAST = 32 };
    for (int i = h->made.n - 1; i >= 0 && i >= h->made.n - LAST; i--) {
        const Kernel *k = h->kernels[h->made.at[i]].tile;
        bool same = k->bundle.n == n;
        for (int m = 0; m < n && same; m++) same = k->bundle.at[m].kernel == of[m];
        if (same) return h->made.at[i] + 1;
    }
    return 0;
}

/* In the order of kernel_bundle(). */
static PlanKernel kernel_of(Horizontal *h, Bundle *b) {
    Plan *p = h->p;
    longest_first(h, b);
    const PlanKernel *first = &p->kernels.at[b->kernel[0]];
    PlanKernel k = {.kind = first->kind, .p = first->p, .r = first->r};
    Kernel *of[MOST_BUNDLED];
    for (int n = 0; n < b->n; n++) {
        const PlanKernel *pk = &p->kernels.at[b->kernel[n]];
        of[n] = pk->tile;
        if (pk->phase > k.phase) k.phase = pk->phase;
        for (int i = 0; i < pk->nodes.n; i++) vec_push(p->arena, k.nodes, pk->nodes.at[i]);
        for (int i = 0; i < pk->reads.n; i++) vec_push(p->arena, k.reads, pk->reads.at[i]);
        for (int i = 0; i < pk->outputs.n; i++) vec_push(p->arena, k.outputs, pk->outputs.at[i]);
    }
    k.origin = ARENA_ARRAY(p->arena, int64_t, k.reads.n + k.outputs.n + 1);
    for (int n = 0, r = 0, o = k.reads.n; n < b->n; n++) {
        const PlanKernel *pk = &p->kernels.at[b->kernel[n]];
        for (int i = 0; i < pk->reads.n; i++) k.origin[r++] = pk->origin[i];
        for (int i = 0; i < pk->outputs.n; i++) k.origin[o++] = pk->origin[pk->reads.n + i];
    }
    k.same_as = find_made(h, of, b->n);
    if (k.same_as) {
        k.tile = h->kernels[k.same_as - 1].tile;
        return k;
    }
    Arena *kept = h->c->kept ? h->c->kept : h->c->arena;
    k.tile = kernel_bundle(kept, arena_printf(kept, "%s_bundle_%d", entry_name[p->graph->entry], b->kernel[0]), b->n, of);
    return k;
}

/* Kernels that have one Tile IR name the first of them that is launched alone. */
static void name_first(PlanKernel *kernel, int old, int number, int *first) {
    int *of = &first[kernel->same_as ? kernel->same_as - 1 : old];
    kernel->same_as = *of;
    if (!*of) *of = number + 1;
}

static void renumber(Horizontal *h) {
    Plan *p = h->p;
    const int all = p->kernels.n;
    int *number = ARENA_ARRAY(h->arena, int, all + 1), *first = ARENA_ARRAY(h->arena, int, all + 1), n = 0, last = 0;
    Bundle **bundle = ARENA_ARRAY(h->arena, Bundle *, all + 1);
    PlanKernel *kernels = h->kernels = ARENA_ARRAY(p->arena, PlanKernel, all + 1);
    int *at = ARENA_ARRAY(h->arena, int, all + 1); /* by position: 1 + the new kernel */
    for (int i = 0; i < h->done.n; i++)
        for (int m = 0; m < h->done.at[i].n && h->done.at[i].n > 1; m++) bundle[h->done.at[i].kernel[m]] = &h->done.at[i];
    for (int k = 0; k < all; k++) {
        Bundle *b = bundle[k];
        number[k] = b && b->number ? b->number - 1 : n;
        if (number[k] < n) continue;
        kernels[n] = b ? kernel_of(h, b) : p->kernels.at[k];
        if (!b) name_first(&kernels[n], k, n, first);
        if (b && !kernels[n].same_as) vec_push(h->arena, h->made, n);
        at[h->position[k]] = ++n;
        if (b) b->number = n;
    }
    for (int i = 0; i < p->graph->nodes.n; i++) {
        if (p->kernel_of[i] >= 0) p->kernel_of[i] = number[p->kernel_of[i]];
        if (p->buffer[i].writer >= 0) p->buffer[i].writer = number[p->buffer[i].writer];
    }
    for (int i = 0; i < all; i++)
        if (at[i]) p->order[last++] = at[i] - 1;
    memcpy(p->kernels.at, kernels, sizeof *kernels * (size_t)n);
    p->kernels.n = n;
}

void pass_horizontal(PassContext *c, Plan *p) {
    const int n = p->kernels.n;
    if (n < 2 || !c->target->device->has_bundles) return;
    if (c->disabled[PASS_horizontal] || c->disabled[PASS_family] || c->disabled[PASS_fuse]) return;
    Arena *scratch = arena_new();
    Horizontal h = {.c = c, .arena = scratch, .p = p, .graph = kernel_graph(scratch, p), .launch = target_launch_bytes(c->target)};
    h.before = kernel_predecessors(scratch, &h.graph, NULL);
    h.position = ARENA_ARRAY(scratch, int, n + 1);
    h.wanted = plan_leaves_out(p->graph) ? plan_wanted_by_kernel(scratch, p, NULL) : ARENA_ARRAY(scratch, uint64_t, n + 1);
    h.runs = ARENA_ARRAY(scratch, bool, n + 1);
    for (int i = 0; i < n; i++) h.position[p->order[i]] = i, h.runs[i] = true;
    find_live(&h);
    for (int i = 0; i < n; i++)
        if (may_be_bundled(&h, &p->kernels.at[p->order[i]])) place_kernel(&h, p->order[i]);
    while (h.n_open) close_oldest(&h);
    renumber(&h);
    arena_free(scratch);
}
