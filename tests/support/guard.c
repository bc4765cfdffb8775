#include "tests/support/guard.h"
#include "tests/support/checked.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

enum { SIGNALLING = 0x7fa07fa0 }; /* a signalling NaN in f32, and two of bf16 */

static int64_t page_down(int64_t at) { return at / PLACING_PAGE * PLACING_PAGE; }
static int64_t page_up(int64_t at) { return page_down(at + PLACING_PAGE - 1); }

static int64_t buffer_bytes(const Buffer *b) {
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++) {
        if (b->dim[d].bound == 0) return 0;
        last += (b->dim[d].bound - 1) * b->stride[d];
    }
    return (last + 1) * dtype_bytes(b->dtype);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */
/* Addresses for a region, none of which may be touched, with a gap on both sides. */
static char *map_region(Arena *a, Guarded *g, int64_t bytes) {
    const int64_t all = page_up(bytes) + 2 * PLACING_GAP;
    char *at = mmap(NULL, (size_t)all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail_msg("no addresses for %lld bytes", (long long)all);
    vec_push(a, g->maps, ((GuardBlock){.at = at, .bytes = all}));
    return at + PLACING_GAP;
}

static void protect(char *at, int64_t bytes, int protection) {
    const int64_t low = page_down((int64_t)(uintptr_t)at), high = page_up((int64_t)(uintptr_t)at + bytes);
    if (bytes && mprotect((void *)(uintptr_t)low, (size_t)(high - low), protection)) fail_msg("mprotect");
}

void guard_fill(void *at, int64_t bytes) {
    const uint32_t pattern = SIGNALLING;
    for (int64_t i = 0; i < bytes; i += 4) memcpy((char *)at + i, &pattern, bytes - i < 4 ? (size_t)(bytes - i) : 4);
}

/* Opens the pages of a block and fills it. */
static char *open_block(Arena *a, Guarded *g, const char *region, const char *name, DType dtype, char *at,
                        int64_t bytes, const void *from) {
    protect(at, bytes, PROT_READ | PROT_WRITE);
    if (!from) guard_fill(at, bytes);
    if (from && bytes) memcpy(at, from, (size_t)bytes);
    vec_push(a, g->blocks, ((GuardBlock){region, name, dtype, at, bytes}));
    return at;
}

static void *open_region(Arena *a, Guarded *g, const char *region, const ModuleTensor *t, int n, int64_t bytes,
                         const void *from) {
    char *base = map_region(a, g, bytes);
    for (int i = 0; i < n; i++)
        open_block(a, g, region, t[i].name, t[i].dtype, base + t[i].offset, t[i].bytes,
                   (const char *)from + t[i].offset);
    return base;
}

static void *open_alone(Arena *a, Guarded *g, const char *region, const char *name, DType dtype, Placing placing,
                        int64_t bytes, const void *from) {
    char *base = map_region(a, g, bytes);
    return open_block(a, g, region, name, dtype, base + (placing == PLACING_HIGH ? page_up(bytes) - bytes : 0), bytes, from);
}

/* What the launches of an entry name of the arena; parts of a block may be named again and are filled twice. */
static void open_arena(Arena *a, Guarded *g, const ModuleEntry *e) {
    g->mem.arena = map_region(a, g, e->arena_bytes);
    for (int i = 0; i < e->launches.n; i++) {
        const Launch *l = &e->launches.at[i];
        const Kernel *k = g->m->kernels.at[l->kernel];
        for (int b = 0; b < l->n_args; b++)
            if (l->args[b].region == REGION_ARENA)
                open_block(a, g, "the arena's", k->buffers.at[b].name, k->buffers.at[b].dtype,
                           (char *)g->mem.arena + l->args[b].offset, buffer_bytes(&k->buffers.at[b]), NULL);
    }
}

Guarded *guard_new(Arena *a, const Module *m, Entry e, Placing placing, const ModuleMemory *from) {
    Guarded *g = ARENA_NEW(a, Guarded);
    *g = (Guarded){.m = m};
    g->mem = (ModuleMemory){
        .params = open_region(a, g, "parameter", m->params.at, m->params.n, m->param_bytes, from->params),
        .states = open_region(a, g, "state", m->states.at, m->states.n, m->state_bytes, from->states),
        .grads = open_region(a, g, "gradient", m->grads.at, m->grads.n, m->grad_bytes, from->grads),
        .inputs = ARENA_ARRAY(a, void *, m->inputs.n + 1),
        .outputs = ARENA_ARRAY(a, void *, m->outputs.n + 1)};
    g->mem.scalars = open_alone(a, g, "the", "scalars", DT_I32, placing, 4 * (SCALAR_HYPER0 + m->hypers.n), from->scalars);
    for (int i = 0; i < m->inputs.n; i++)
        g->mem.inputs[i] =
            open_alone(a, g, "input", m->inputs.at[i].name, m->inputs.at[i].dtype, placing, m->inputs.at[i].bytes, from->inputs[i]);
    for (int i = 0; i < m->outputs.n; i++)
        g->mem.outputs[i] = open_alone(a, g, "output", m->outputs.at[i].name, m->outputs.at[i].dtype, placing,
                                       m->outputs.at[i].bytes, NULL);
    open_arena(a, g, &m->entry[e]);
    for (int i = 0; i < m->inputs.n; i++) protect(g->mem.inputs[i], m->inputs.at[i].bytes, PROT_READ);
    for (int i = 0; i < m->params.n && (e == ENTRY_INFER || e == ENTRY_GRAD); i++)
        protect((char *)g->mem.params + m->params.at[i].offset, m->params.at[i].bytes, PROT_READ);
    return g;
}

static void copy_tensors(const ModuleTensor *t, int n, const void *from, void *to) {
    for (int i = 0; i < n; i++)
        memcpy((char *)to + t[i].offset, (const char *)from + t[i].offset, (size_t)t[i].bytes);
}

void guard_results(const Guarded *g, ModuleMemory *to) {
    const Module *m = g->m;
    copy_tensors(m->params.at, m->params.n, g->mem.params, to->params);
    copy_tensors(m->states.at, m->states.n, g->mem.states, to->states);
    copy_tensors(m->grads.at, m->grads.n, g->mem.grads, to->grads);
    for (int i = 0; i < m->outputs.n; i++) memcpy(to->outputs[i], g->mem.outputs[i], (size_t)m->outputs.at[i].bytes);
}

/* Memory that nobody wrote holds signalling NaNs, which are none of these. */
static bool is_quiet_nan(DType t, const char *at) {
    const uint32_t quiet = t == DT_F16 ? 0x7e00 : t == DT_BF16 ? 0x7fc0 : 0x7fc00000;
    uint32_t bits = 0, fill = SIGNALLING; /* a quiet one in f16 */
    memcpy(&bits, at, (size_t)dtype_bytes(t));
    if (t != DT_F32) fill &= 0xffff;
    return dtype_is_float(t) && (bits & quiet) == quiet && bits != fill;
}

static bool same_block(const GuardBlock *x, const GuardBlock *y) {
    const int size = dtype_bytes(x->dtype);
    if (memcmp(x->at, y->at, (size_t)x->bytes) == 0) return true;
    for (int64_t i = 0; i < x->bytes; i += size)
        if (memcmp(x->at + i, y->at + i, (size_t)size) &&
            !(is_quiet_nan(x->dtype, x->at + i) && is_quiet_nan(x->dtype, y->at + i)))
            return false;
    return true;
}

bool guard_same(const Guarded *g, const Guarded *h) {
    for (int i = 0; i < g->blocks.n; i++) {
        const GuardBlock *x = &g->blocks.at[i], *y = &h->blocks.at[i];
        if (same_block(x, y)) continue;
        printf("not the same numbers in %s %s\n", x->region, x->name);
        return false;
    }
    return true;
}

void guard_free(Guarded *g) {
    for (int i = 0; i < g->maps.n; i++) munmap(g->maps.at[i].at, (size_t)g->maps.at[i].bytes);
}

/* ---- faults --------------------------------------------------------------------------------------------- */
static struct {
    const Guarded *g;
    GuardWhere *where;
    const void *user;
} watched; /* a signal's handler takes no argument */

/* Bytes between the block and the address; 0: inside. */
static int64_t distance(const GuardBlock *b, const char *at) {
    return at < b->at ? b->at - at : at >= b->at + b->bytes ? at - (b->at + b->bytes) + 1 : 0;
}

static const GuardBlock *nearest(const Guarded *g, const char *at) {
    const GuardBlock *best = NULL;
    for (int i = 0; i < g->blocks.n; i++)
        if (!best || distance(&g->blocks.at[i], at) < distance(best, at)) best = &g->blocks.at[i];
    return best;
}

static const void *program_counter(const ucontext_t *u) {
#if defined(__x86_64__)
    return (const void *)u->uc_mcontext.gregs[REG_RIP];
#else
    (void)u;
    return NULL;
#endif
}

static const char *access_of(const ucontext_t *u) {
#if defined(__x86_64__)
    return u->uc_mcontext.gregs[REG_ERR] & 2 ? "writes" : "reads";
#else
    (void)u;
    return "touches";
#endif
}

/* Ends the process: no code after a fault can be trusted. */
static void on_fault(int signal, siginfo_t *info, void *context) {
    const char *at = info->si_addr, *side = "inside";
    const GuardBlock *b = nearest(watched.g, at);
    (void)signal;
    if (b && at < b->at) side = "before";
    if (b && at >= b->at + b->bytes) side = "after";
    printf("FAULT %s %s %lld bytes %s %s %s (%lld bytes)\n", watched.where(watched.user, program_counter(context)),
           access_of(context), b ? (long long)distance(b, at) : 0, side, b ? b->region : "", b ? b->name : "nothing",
           b ? (long long)b->bytes : 0);
    fflush(stdout);
    _exit(GUARD_FAULT);
}

void guard_watch(const Guarded *g, GuardWhere *where, const void *user) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    watched.g = g;
    watched.where = where;
    watched.user = user;
    if (!g) action = (struct sigaction){.sa_handler = SIG_DFL};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* ---- launches -------------------------------------------------------------------------------------------- */
static void *locate(const ModuleMemory *m, const LaunchArg *arg) {
    char *base = NULL;
    switch (arg->region) {
    case REGION_PARAM: base = m->params; break;
    case REGION_STATE: base = m->states; break;
    case REGION_GRAD: base = m->grads; break;
    case REGION_ARENA: base = m->arena; break;
    case REGION_SCALAR: base = (char *)m->scalars; break;
    case REGION_INPUT: base = m->inputs[arg->index]; break;
    case REGION_OUTPUT: base = m->outputs[arg->index]; break;
    }
    if (!base && arg->scratch) base = (char *)m->arena + arg->scratch - 1;
    return base + arg->offset;
}

typedef struct Work {
    fusec_host_kernel kernel;
    void **buffers;
    const int64_t *syms;
    int64_t programs;
    int first, step, pieces; /* which of the pieces */
} Work;

static void *run_pieces(void *work) {
    const Work *w = work;
    for (int i = w->first; i >= 0 && i < w->pieces; i += w->step)
        w->kernel(w->buffers, w->syms, w->programs * i / w->pieces, w->programs * (i + 1) / w->pieces);
    return NULL;
}

static bool run_launch(Work w, Pieces pieces) {
    pthread_t other;
    w.pieces = w.programs < FUSEC_HOST_PIECES ? (int)w.programs : FUSEC_HOST_PIECES;
    if (pieces == PIECES_WHOLE || w.pieces < 2) {
        w.kernel(w.buffers, w.syms, 0, w.programs);
    } else if (pieces == PIECES_BACKWARDS) {
        w.first = w.pieces - 1, w.step = -1;
        run_pieces(&w);
    } else {
        Work odd = w;
        odd.first = 1, odd.step = w.step = 2;
        if (pthread_create(&other, NULL, run_pieces, &odd)) return false;
        run_pieces(&w);
        return pthread_join(other, NULL) == 0;
    }
    return true;
}

bool guard_run(const Module *m, const fusec_host_kernel *kernels, Entry e, const ModuleMemory *mem, const int64_t *syms,
               Pieces pieces) {
    int64_t integers[FUSEC_HOST_MAX_SYMS + FUSEC_MAX_CONSTANTS];
    void *buffers[256];
    bool ok = true;
    for (int i = 0; i < m->syms.n; i++) integers[i] = syms[i];
    for (int i = 0; i < m->entry[e].launches.n && ok; i++) {
        const Launch *l = &m->entry[e].launches.at[i];
        const Kernel *k = m->kernels.at[l->kernel];
        for (int b = 0; b < l->n_args; b++) buffers[b] = locate(mem, &l->args[b]);
        for (int c = 0; c < k->n_constants; c++) integers[m->syms.n + c] = l->constant[c];
        checked_launch(k, buffers, integers, m->syms.n + k->n_constants);
        ok = run_launch((Work){kernels[l->kernel], buffers, integers, kernel_programs(k, integers), 0, 0, 0}, pieces);
    }
    return ok;
}

/* Code of a module is contiguous; a kernel begins it, and what it calls of its own follows. */
const char *guard_kernel_at(const void *user, const void *pc) {
    const GuardKernels *g = user;
    int best = -1;
    for (int i = 0; i < g->m->kernels.n; i++) {
        const uintptr_t at = (uintptr_t)g->kernels[i];
        if (at <= (uintptr_t)pc && (best < 0 || at > (uintptr_t)g->kernels[best])) best = i;
    }
    return best < 0 ? "no kernel" : g->m->kernels.at[best]->name;
}
