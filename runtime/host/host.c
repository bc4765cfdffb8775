/* The launch table, walked on the host. */
#include "runtime/host/host.h"
#include <string.h>

enum { HOST_STEP, HOST_SEED, HOST_ACCUMULATE, HOST_HYPER0, HOST_MAX_ARGS = 256 };

/* Work below this many operations and bytes is not worth waking threads for. */
#define HOST_SMALL 50000.0
/* The first of a call are done before threads that sleep would have come: those that look for work may take part. */
#define HOST_BRIEF 4e6

FUSEC_WEAK fusec_status fusec_host_init(fusec_host *h, const fusec_manifest *m, const fusec_host_kernel *kernels,
                                        const fusec_memory *memory, const fusec_options *options) {
    int threads;
    if (!h) return FUSEC_E_ARGUMENT;
    memset(h, 0, sizeof *h); /* before any error, so that fusec_host_free may follow one */
    if (!m || !kernels || !memory) return FUSEC_E_ARGUMENT;
    if (m->abi_version != FUSEC_ABI_VERSION) return FUSEC_E_VERSION;
    if (m->n_syms > FUSEC_HOST_MAX_SYMS || m->n_hypers > FUSEC_HOST_MAX_HYPERS) return FUSEC_E_UNSUPPORTED;
    h->manifest = m;
    h->kernels = kernels;
    h->memory = *memory;
    if (options) h->options = *options;
    fusec_pool_large_pages(memory->params, memory->param_bytes);
    fusec_pool_large_pages(memory->states, memory->state_bytes);
    fusec_pool_large_pages(memory->grads, memory->grad_bytes);
    fusec_pool_large_pages(memory->arena, memory->arena_bytes);
    threads = h->options.threads > 0 ? h->options.threads : fusec_pool_cores();
    if (threads > FUSEC_HOST_PIECES) threads = FUSEC_HOST_PIECES;
    if (h->options.parallel_for || threads == 1) return FUSEC_OK;
    h->pool = fusec_pool_new(threads);
    return h->pool ? FUSEC_OK : FUSEC_E_MEMORY;
}

FUSEC_WEAK void fusec_host_free(fusec_host *h) {
    fusec_pool_free(h->pool);
    h->pool = NULL;
}

/* ---- one launch ------------------------------------------------------------------------------------------ */
typedef struct host_work {
    fusec_host_kernel kernel;
    void **buffers;
    const int64_t *syms;
    int64_t programs;
    int pieces;
} host_work;

/* Piece i of the grid: by program number, whoever runs it. */
static void host_piece(void *ctx, int i) {
    const host_work *w = (const host_work *)ctx;
    w->kernel(w->buffers, w->syms, w->programs * i / w->pieces, w->programs * (i + 1) / w->pieces);
}

static int64_t host_programs(const fusec_kernel *k, const int64_t *syms) {
    int64_t n = 1;
    for (int a = 0; a < k->n_grid; a++) {
        const struct fusec_grid *g = &k->grid[a];
        const int64_t extent = (g->sym < 0 ? 0 : (int64_t)g->scale * syms[g->sym]) + g->shift;
        n *= extent > 0 ? (extent + g->step - 1) / g->step : 0;
    }
    return n;
}

/* Regions are bytes of the caller; inputs are only read. */
static void *host_address(const fusec_host *h, const fusec_host_call *call, const fusec_arg *a) {
    char *base = NULL;
    switch (a->region) {
    case FUSEC_R_PARAM: base = (char *)h->memory.params; break;
    case FUSEC_R_STATE: base = (char *)h->memory.states; break;
    case FUSEC_R_GRAD: base = (char *)h->memory.grads; break;
    case FUSEC_R_ARENA: base = (char *)h->memory.arena; break;
    case FUSEC_R_SCALAR: base = (char *)(uintptr_t)h->scalar; break;
    case FUSEC_R_INPUT: base = (char *)(uintptr_t)call->inputs[a->index]; break;
    default: base = call->outputs ? (char *)call->outputs[a->index] : NULL; break;
    }
    if (!base && a->scratch) base = (char *)h->memory.arena + a->scratch - 1;
    return base ? base + a->offset : NULL;
}

/* syms has room for the launch's constants behind the extents; work: operations and bytes of the call so far. */
static void host_launch(const fusec_host *h, const fusec_host_call *call, const fusec_launch *l, int64_t *syms,
                        double *work) {
    const fusec_kernel *k = &h->manifest->kernels[l->kernel];
    void *buffers[HOST_MAX_ARGS];
    for (int i = 0; i < k->n_constants; i++) syms[h->manifest->n_syms + (uint32_t)i] = l->constant[i];
    host_work w = {h->kernels[l->kernel], buffers, syms, host_programs(k, syms), FUSEC_HOST_PIECES};
    for (int i = 0; i < k->n_args; i++)
        buffers[i] = host_address(h, call, &h->manifest->args[l->first_arg + (uint32_t)i]);
    if (w.programs < w.pieces) w.pieces = (int)w.programs;
    *work += k->flops + k->bytes;
    if (w.pieces > 1 && k->flops + k->bytes >= HOST_SMALL) {
        if (h->options.parallel_for) {
            h->options.parallel_for(h->options.user, w.pieces, host_piece, &w);
            return;
        }
        if (h->pool) {
            fusec_pool_run(h->pool, w.pieces, host_piece, &w, *work >= HOST_BRIEF);
            return;
        }
    }
    w.kernel(buffers, syms, 0, w.programs);
}

/* ---- one call -------------------------------------------------------------------------------------------- */
static void host_scalars(fusec_host *h, const fusec_host_call *call, int accumulate) {
    h->scalar[HOST_STEP] = (uint32_t)call->step;
    h->scalar[HOST_SEED] = h->options.seed;
    h->scalar[HOST_ACCUMULATE] = (uint32_t)accumulate;
    for (uint32_t i = 0; i < h->manifest->n_hypers; i++) {
        const float value = call->hypers ? call->hypers[i] : h->manifest->hypers[i].value;
        memcpy(&h->scalar[HOST_HYPER0 + i], &value, sizeof value);
    }
}

/* The next gradient to be reported, and the launch after which it is final. */
typedef struct host_ready {
    uint32_t gradient;
    int64_t last;
} host_ready;

/* The last launch that touches gradient g; -1: none does. */
static int64_t host_last_use(const fusec_manifest *m, uint32_t g) {
    const fusec_tensor *t = &m->grads[g];
    const fusec_entry *e = &m->entry[FUSEC_GRAD];
    for (int64_t i = (int64_t)e->n_launches - 1; i >= 0; i--) {
        const fusec_launch *l = &m->launches[e->first_launch + (uint64_t)i];
        for (uint32_t k = 0; k < m->kernels[l->kernel].n_args; k++) {
            const fusec_arg *a = &m->args[l->first_arg + k];
            if (a->region == FUSEC_R_GRAD && a->offset >= t->offset && a->offset - t->offset < t->bytes) return i;
        }
    }
    return -1;
}

/* After launch i: gradients that no later launch touches, in order. */
static void host_report(const fusec_host *h, host_ready *r, int64_t i) {
    const fusec_manifest *m = h->manifest;
    while (r->gradient < m->n_grads && r->last <= i) {
        const fusec_tensor *t = &m->grads[r->gradient++];
        h->options.gradient_ready(h->options.user, t->offset, t->bytes);
        if (r->gradient < m->n_grads) r->last = host_last_use(m, r->gradient);
    }
}

/* What the state that tells of skipped steps holds; 0 where there is none. */
static int32_t host_skips(const fusec_host *h, int entry) {
    const int64_t at = entry == FUSEC_GRAD || entry == FUSEC_STEP ? fusec_outcome_state(h->manifest) : -1;
    int32_t value = 0;
    if (at >= 0) memcpy(&value, (const char *)h->memory.states + at, sizeof value);
    return value;
}

static void host_launches(const fusec_host *h, int entry, const fusec_host_call *call, int64_t *syms, uint64_t wanted) {
    double work = 0;
    const int reports = entry == FUSEC_GRAD && h->options.gradient_ready != NULL;
    host_ready ready = {0, reports && h->manifest->n_grads ? host_last_use(h->manifest, 0) : -1};
    for (uint32_t i = 0; i < h->manifest->entry[entry].n_launches; i++) {
        const fusec_launch *l = &h->manifest->launches[h->manifest->entry[entry].first_launch + i];
        if (l->wanted_by == FUSEC_ALWAYS || (l->wanted_by & wanted)) host_launch(h, call, l, syms, &work);
        if (reports) host_report(h, &ready, i);
    }
    if (reports) host_report(h, &ready, h->manifest->entry[entry].n_launches);
}

FUSEC_WEAK fusec_status fusec_host_run(fusec_host *h, int entry, const fusec_host_call *call) {
    int32_t extents[FUSEC_HOST_MAX_SYMS];
    int64_t syms[FUSEC_HOST_MAX_SYMS + FUSEC_MAX_CONSTANTS];
    uint64_t wanted;
    const int accumulate = (entry & FUSEC_ACCUMULATE) != 0;
    fusec_status s;
    if (!h || !h->manifest || !call) return FUSEC_E_ARGUMENT;
    entry &= ~FUSEC_ACCUMULATE;
    if (accumulate && entry != FUSEC_GRAD) return FUSEC_E_ARGUMENT;
    for (uint32_t i = 0; i < h->manifest->n_syms; i++) {
        extents[i] = call->syms ? call->syms[i] : h->manifest->syms[i].bound;
        syms[i] = extents[i];
    }
    s = fusec_check(h->manifest, entry, &h->memory, call->inputs, call->outputs, extents, &wanted);
    if (s == FUSEC_OK && h->options.check_finite) s = fusec_check_inputs(h->manifest, call->inputs, call->hypers, extents);
    if (s != FUSEC_OK) return s;
    entry = FUSEC_ENTRY(entry);
    host_scalars(h, call, accumulate);
    const int32_t skips = host_skips(h, entry);
    host_launches(h, entry, call, syms, wanted);
    s = fusec_outcome(skips, host_skips(h, entry));
    if (s != FUSEC_OK || !h->options.check_finite) return s;
    return fusec_check_results(h->manifest, entry, h->memory.grads, call->outputs, extents);
}
