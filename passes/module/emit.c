/* emit: a placed plan becomes an entry of the module.
 *
 * Needs Tile IR, order and offsets.  Kernels with equal canonical text are stored once; what differs (which
 * tensor, which offset) stands in the launches.  For `infer` every launch knows which outputs need it. */
#include "passes/memory/memory.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels by text --------------------------------------------------------------------------------- */
typedef struct Stored {
    uint64_t hash;
    const char *text;
    int kernel; /* + 1; 0: empty slot */
} Stored;
typedef struct KernelTable {
    Arena *arena;
    Module *m;
    Stored *slot;
    int n_slots; /* a power of two, over twice the kernels */
} KernelTable;

static uint64_t hash_text(const char *s) { /* FNV-1a, 64 bit (Fowler, Noll, Vo) */
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

/* The slot that holds this text, or the empty one where it goes. */
static Stored *find_slot(KernelTable *t, uint64_t hash, const char *text) {
    for (uint64_t i = hash;; i++) {
        Stored *s = &t->slot[i & (uint64_t)(t->n_slots - 1)];
        if (!s->kernel || (s->hash == hash && !strcmp(s->text, text))) return s;
    }
}

static KernelTable table_new(Arena *a, Module *m, int n_new) {
    KernelTable t = {.arena = a, .m = m, .n_slots = 16};
    while (t.n_slots < 2 * (m->kernels.n + n_new)) t.n_slots *= 2;
    t.slot = ARENA_ARRAY(a, Stored, t.n_slots);
    for (int i = 0; i < m->kernels.n; i++) {
        const char *text = kernel_canonical(a, m->kernels.at[i]);
        uint64_t hash = hash_text(text);
        *find_slot(&t, hash, text) = (Stored){hash, text, i + 1};
    }
    return t;
}

static int store_kernel(KernelTable *t, Kernel *k) {
    const char *text = kernel_canonical(t->arena, k);
    uint64_t hash = hash_text(text);
    Stored *s = find_slot(t, hash, text);
    if (!s->kernel) {
        vec_push(t->m->arena, t->m->kernels, k);
        *s = (Stored){hash, text, t->m->kernels.n};
    }
    return s->kernel - 1;
}

/* ---- gradients in the order in which they are produced --------------------------------------------------- */
/* Returns the offset of the gradient of each parameter, -1 where there is none. */
static int64_t *lay_out_grads(Arena *a, const Plan *p, Module *m, Placing placing) {
    int64_t *offset = ARENA_ARRAY(a, int64_t, m->params.n + 1);
    for (int i = 0; i < m->params.n; i++) offset[i] = -1;
    for (int at = 0; at < p->kernels.n; at++) {
        const PlanKernel *k = &p->kernels.at[p->order[at]];
        for (int i = 0; i < k->outputs.n; i++) {
            const PlanBuffer *b = &p->buffer[k->outputs.at[i]->id];
            if (b->home != HOME_GRAD) continue;
            ModuleTensor t = m->params.at[b->decl];
            if (dtype_is_low(t.dtype)) { /* a gradient has the precision of a master, even where there is none */
                t.dtype = DT_F32;
                t.bytes = shape_elements(t.shape) * dtype_bytes(t.dtype);
            }
            t.offset = offset[b->decl] = lay_block(placing, &m->grad_bytes, t.bytes, m->align);
            vec_push(m->arena, m->grads, t);
        }
    }
    return offset;
}

/* ---- launches -------------------------------------------------------------------------------------------- */
static LaunchArg arg_at(Region region, int index, int64_t offset) {
    return (LaunchArg){.region = region, .index = index, .offset = offset};
}

static LaunchArg source_arg(const Module *m, const Node *n) {
    int decl = n->attr->decl;
    switch (n->op) {
    case OP_PARAM: return arg_at(REGION_PARAM, decl, m->params.at[decl].offset);
    case OP_STATE: return arg_at(REGION_STATE, decl, m->states.at[decl].offset);
    case OP_INPUT: return arg_at(REGION_INPUT, decl, 0);
    case OP_SEED: return arg_at(REGION_SCALAR, 0, 4 * SCALAR_SEED);
    case OP_ACCUMULATE: return arg_at(REGION_SCALAR, 0, 4 * SCALAR_ACCUMULATE);
    case OP_HYPER: return arg_at(REGION_SCALAR, 0, 4 * (SCALAR_HYPER0 + decl));
    default: return arg_at(REGION_SCALAR, 0, 4 * SCALAR_STEP);
    }
}

static LaunchArg buffer_arg(const Module *m, const Plan *p, const int64_t *grad, const Node *n) {
    const PlanBuffer *b = &p->buffer[n->id];
    switch (b->home) {
    case HOME_OUTPUT: return arg_at(REGION_OUTPUT, b->decl, 0);
    case HOME_GRAD: return arg_at(REGION_GRAD, b->decl, grad[b->decl]);
    case HOME_PARAM: return arg_at(REGION_PARAM, b->decl, m->params.at[b->decl].offset);
    case HOME_STATE: return arg_at(REGION_STATE, b->decl, m->states.at[b->decl].offset);
    case HOME_ARENA:
        if (b->output) return (LaunchArg){REGION_OUTPUT, b->output - 1, 0, b->offset + 1};
        return arg_at(REGION_ARENA, 0, b->offset);
    default: return source_arg(m, n);
    }
}

static Launch make_launch(const Module *m, const Plan *p, const int64_t *grad, const PlanKernel *k) {
    Launch l = {.kernel = k->stored_kernel, .phase = k->phase};
    memcpy(l.constant, k->constant, sizeof l.constant);
    l.args = ARENA_ARRAY(m->arena, LaunchArg, k->reads.n + k->outputs.n + 1);
    for (int i = 0; i < k->reads.n; i++) l.args[l.n_args++] = buffer_arg(m, p, grad, k->reads.at[i]);
    for (int i = 0; i < k->outputs.n; i++) l.args[l.n_args++] = buffer_arg(m, p, grad, k->outputs.at[i]);
    for (int i = 0; i < l.n_args; i++) l.args[i].offset += k->origin[i];
    if (k->workspace) l.args[l.n_args++] = arg_at(REGION_ARENA, 0, k->workspace_offset);
    return l;
}

static void add_launches(Arena *scratch, const Plan *p, Module *m, Placing placing, ModuleEntry *e) {
    const int64_t *grad = p->graph->entry == ENTRY_GRAD ? lay_out_grads(scratch, p, m, placing) : NULL;
    KernelTable table = table_new(scratch, m, p->kernels.n);
    PlanDeps deps = plan_deps(m->arena, p);
    const uint64_t *wanted = plan_leaves_out(p->graph) ? plan_wanted_by_kernel(scratch, p, p->order) : NULL;
    for (int at = 0; at < p->kernels.n; at++) {
        PlanKernel *k = &p->kernels.at[p->order[at]];
        PlanKernel *first = k->same_as ? &p->kernels.at[k->same_as - 1] : k;
        assert(first->tile == k->tile);
        if (!first->stored) first->stored_kernel = store_kernel(&table, first->tile), first->stored = true;
        k->stored_kernel = first->stored_kernel;
        Launch l = make_launch(m, p, grad, k);
        l.wanted_by = wanted ? wanted[p->order[at]] : FUSEC_ALWAYS;
        l.n_after = deps.first[at + 1] - deps.first[at];
        l.after = &deps.after[deps.first[at]];
        vec_push(m->arena, e->launches, l);
    }
}

/* ---- what the peak consists of ------------------------------------------------------------------------------ */
static int peak_position(Arena *a, const Plan *p, const Liveness *l) {
    int64_t *delta = ARENA_ARRAY(a, int64_t, p->kernels.n + 2), live = 0, most = -1;
    int peak = 0;
    for (int i = 0; i < l->n; i++)
        delta[l->block[i].lower] += l->block[i].bytes, delta[l->block[i].upper] -= l->block[i].bytes;
    for (int at = 0; at < p->kernels.n; at++) {
        live += delta[at];
        if (live > most) most = live, peak = at;
    }
    return peak;
}

static int by_line(const void *x, const void *y) {
    const SrcLoc *a = &(*(const LiveBlock *const *)x)->node->loc, *b = &(*(const LiveBlock *const *)y)->node->loc;
    return a->file != b->file ? a->file - b->file : a->line != b->line ? a->line - b->line : a->col - b->col;
}

/* The program line with most bytes among `blocks`. */
static SrcLoc heaviest_line(const LiveBlock **blocks, int n) {
    SrcLoc best = {0};
    int64_t most = 0, bytes = 0;
    qsort(blocks, (size_t)n, sizeof *blocks, by_line);
    for (int i = 0, start = 0; i < n; i++) {
        const SrcLoc *at = &blocks[i]->node->loc, *from = &blocks[start]->node->loc;
        if (at->file != from->file || at->line != from->line) bytes = 0, start = i;
        bytes += blocks[i]->bytes;
        if (bytes > most) most = bytes, best = blocks[start]->node->loc;
    }
    return best;
}

/* Forward values (recomputed ones too), backward values, and the rest: workspace, alignment, gaps. */
static void explain_peak(Arena *a, const Plan *p, ModuleEntry *e) {
    Liveness l = plan_liveness(a, p);
    int peak = peak_position(a, p, &l), n = 0;
    const LiveBlock **live = ARENA_ARRAY(a, const LiveBlock *, l.n + 1);
    for (int i = 0; i < l.n; i++) {
        const LiveBlock *b = &l.block[i];
        if (b->lower > peak || b->upper <= peak || !b->node) continue;
        bool forward = b->node->remat > p->graph->chunks || b->node->phase == PHASE_FORWARD;
        *(forward ? &e->peak_saved : &e->peak_gradients) += b->bytes;
        live[n++] = b;
    }
    e->peak_workspace = e->arena_bytes - e->peak_saved - e->peak_gradients;
    e->peak_loc = heaviest_line(live, n);
}

static int by_padding(const void *x, const void *y) {
    const ModulePadding *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->loc.line - b->loc.line;
}

/* What layout added to the arena's buffers. */
static void list_padding(const Plan *p, Module *m, ModuleEntry *e) {
    for (int i = 0; i < p->graph->nodes.n; i++) {
        const Node *n = p->graph->nodes.at[i];
        const PlanBuffer *b = &p->buffer[i];
        const int last = n->shape->rank - 1;
        if (b->home != HOME_ARENA || b->within || b->bytes == 0 || last < 1) continue;
        const int64_t laid_out = b->stride[last - 1], more = laid_out - n->shape->dim[last].bound;
        const ModulePadding padding = {.dtype = n->dtype,
                                       .shape = *n->shape,
                                       .laid_out = laid_out,
                                       .bytes = laid_out ? b->bytes / laid_out * more : 0,
                                       .loc = n->loc};
        if (padding.bytes == 0) continue;
        vec_push(m->arena, e->padded, padding);
    }
    if (e->padded.n) qsort(e->padded.at, (size_t)e->padded.n, sizeof *e->padded.at, by_padding);
}

/* ---- what a launch has room for -------------------------------------------------------------------------------- */
static void refuse(PassContext *c, const PlanKernel *k, const char *message, const char *help) {
    SrcLoc at = {0};
    for (int i = 0; i < k->outputs.n && !at.line; i++) at = k->outputs.at[i]->loc;
    if (c->report) c->report(c->user, COMPLAINT_ERROR, at, message, help);
    c->failed = true;
}

/* The numbers of the manifest (fusec_kernel).  Portable C calls its kernels: it has no such limits. */
static void check_launch(PassContext *c, const PlanKernel *k) {
    int n_grid = 0;
    for (int i = 0; i < k->tile->axes.n; i++) {
        const Axis *x = &k->tile->axes.at[i];
        n_grid += x->kind == AXIS_GRID;
        if (x->kind != AXIS_GRID || x->extent.bound <= INT32_MAX) continue;
        refuse(c, k,
               arena_printf(c->arena, "an axis of %" PRId64 " elements: %s counts to %d", x->extent.bound,
                            c->target->name, INT32_MAX),
               "make it two axes, for instance with reshape, or compile for c99");
        return;
    }
    if (n_grid > FUSEC_MAX_GRID)
        refuse(c, k, arena_printf(c->arena, "a kernel over %d axes; %d are the most", n_grid, FUSEC_MAX_GRID),
               "bring the tensors to fewer axes first, for instance with reshape");
    else if (k->tile->buffers.n > UINT8_MAX)
        refuse(c, k, arena_printf(c->arena, "a kernel of %d tensors; %d are the most", k->tile->buffers.n, UINT8_MAX),
               "concatenate some of them first");
}

void pass_emit(PassContext *c, Plan *p, Module *m) {
    for (int i = 0; i < p->kernels.n && c->target->device->has_grid && !c->failed; i++)
        if (!p->kernels.at[i].same_as) check_launch(c, &p->kernels.at[i]);
    if (c->failed) return;
    Arena *scratch = arena_new();
    ModuleEntry *e = &m->entry[p->graph->entry];
    e->present = true;
    e->arena_bytes = p->arena_bytes;
    add_launches(scratch, p, m, c->placing, e);
    explain_peak(scratch, p, e);
    list_padding(p, m, e);
    arena_free(scratch);
}
