/* A model on a device: made, read, written, given back. */
#include "runtime/cuda/cuda_internal.h"
#include <string.h>

/* ---- where everything lies ------------------------------------------------------------------------------------ */
FUSEC_WEAK uint64_t fusec_cuda_round(uint64_t bytes) {
    return (bytes + FUSEC_CUDA_ALIGN - 1) / FUSEC_CUDA_ALIGN * FUSEC_CUDA_ALIGN;
}

static uint64_t cuda_tensor_bytes(const fusec_tensor *t, uint32_t n) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) bytes += fusec_cuda_round(t[i].bytes);
    return bytes;
}

FUSEC_WEAK void fusec_cuda_plan(const fusec_manifest *m, fusec_cuda_layout *l) {
    uint64_t arena = 0;
    for (int e = 0; e < FUSEC_ENTRIES; e++)
        if (m->entry[e].present && m->entry[e].arena_bytes > arena) arena = m->entry[e].arena_bytes;
    l->input_bytes = cuda_tensor_bytes(m->inputs, m->n_inputs);
    l->output_bytes = cuda_tensor_bytes(m->outputs, m->n_outputs);
    l->scalar_bytes = fusec_cuda_round(4 * (3 + (uint64_t)m->n_hypers));
    l->params = 0;
    l->states = l->params + fusec_cuda_round(m->param_bytes);
    l->grads = l->states + fusec_cuda_round(m->state_bytes);
    l->arena = l->grads + (m->entry[FUSEC_GRAD].present ? fusec_cuda_round(m->grad_bytes) : 0);
    l->scalars = l->arena + fusec_cuda_round(arena);
    l->inputs = l->scalars + l->scalar_bytes;
    l->outputs = l->inputs + l->input_bytes;
    l->bytes = l->outputs + l->output_bytes;
}

FUSEC_WEAK uint64_t fusec_cuda_address(const fusec_cuda *c, const fusec_arg *a) {
    const uint64_t at = c->memory + a->offset;
    switch (a->region) {
    case FUSEC_R_PARAM: return at + c->layout.params;
    case FUSEC_R_STATE: return at + c->layout.states;
    case FUSEC_R_GRAD: return at + c->layout.grads;
    case FUSEC_R_ARENA: return at + c->layout.arena;
    case FUSEC_R_SCALAR: return at + c->layout.scalars;
    case FUSEC_R_INPUT: return at + c->layout.inputs + c->input_at[a->index];
    default: return at + c->layout.outputs + c->output_at[a->index];
    }
}

/* ---- memory --------------------------------------------------------------------------------------------------- */
/* The next n bytes of pinned memory; with c->pinned NULL it only counts. */
static void *cuda_carve(fusec_cuda *c, uint64_t n) {
    char *at = c->pinned ? c->pinned + c->pinned_bytes : NULL;
    c->pinned_bytes += fusec_cuda_round(n);
    return at;
}

static uint32_t cuda_most_launches(const fusec_manifest *m) {
    uint32_t n = 0;
    for (int e = 0; e < FUSEC_ENTRIES; e++)
        if (m->entry[e].present && m->entry[e].n_launches > n) n = m->entry[e].n_launches;
    return n;
}

static void cuda_carve_all(fusec_cuda *c) {
    const fusec_manifest *m = c->manifest;
    c->pinned_bytes = 0;
    c->functions = (void **)cuda_carve(c, sizeof(void *) * m->n_kernels);
    c->staged = (const void **)cuda_carve(c, sizeof(void *) * m->n_inputs);
    c->inputs = (const void **)cuda_carve(c, sizeof(void *) * m->n_inputs);
    c->outputs = (void **)cuda_carve(c, sizeof(void *) * m->n_outputs);
    c->input_at = (uint64_t *)cuda_carve(c, sizeof(uint64_t) * m->n_inputs);
    c->output_at = (uint64_t *)cuda_carve(c, sizeof(uint64_t) * m->n_outputs);
    c->before = (void **)cuda_carve(c, sizeof(void *) * cuda_most_launches(m));
    c->reached = (uint32_t *)cuda_carve(c, sizeof(uint32_t) * cuda_most_launches(m));
    for (int i = 0; i < FUSEC_CUDA_GRAPHS; i++)
        c->graphs[i].nodes = (void **)cuda_carve(c, sizeof(void *) * cuda_most_launches(m));
    for (int i = 0; i < FUSEC_CUDA_STAGES; i++)
        c->stage[i].memory = (char *)cuda_carve(c, c->layout.scalar_bytes + c->layout.input_bytes);
    c->fetched = (char *)cuda_carve(c, c->layout.output_bytes + sizeof c->skips);
}

static void cuda_offsets(const fusec_tensor *t, uint32_t n, uint64_t *at) {
    uint64_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        at[i] = next;
        next += fusec_cuda_round(t[i].bytes);
    }
}

FUSEC_WEAK fusec_status fusec_cuda_allocate(fusec_cuda *c) {
    const fusec_manifest *m = c->manifest;
    uint64_t memory = 0;
    void *pinned = NULL;
    fusec_status s = fusec_cuda_check(c, c->driver.cuMemAlloc_v2(&memory, (size_t)c->layout.bytes), "cuMemAlloc");
    if (s != FUSEC_OK) return s;
    c->memory = memory;
    cuda_carve_all(c);
    s = fusec_cuda_check(c, c->driver.cuMemAllocHost_v2(&pinned, (size_t)c->pinned_bytes), "cuMemAllocHost");
    if (s != FUSEC_OK) return s;
    c->pinned = (char *)pinned;
    cuda_carve_all(c);
    for (uint32_t i = 0; i < m->n_inputs; i++) c->staged[i] = NULL;
    cuda_offsets(m->inputs, m->n_inputs, c->input_at);
    cuda_offsets(m->outputs, m->n_outputs, c->output_at);
    return FUSEC_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */
static fusec_status cuda_open_device(fusec_cuda *c, int ordinal) {
    int count = 0;
    fusec_status s = fusec_cuda_check(c, c->driver.cuInit(0), "cuInit");
    if (s == FUSEC_OK) s = fusec_cuda_check(c, c->driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (s != FUSEC_OK) return s;
    if (ordinal < 0 || ordinal >= count) {
        fusec_cuda_say(c, "there is no device ");
        fusec_cuda_say_number(c, ordinal);
        fusec_cuda_say(c, "; devices found: ");
        fusec_cuda_say_number(c, count);
        fusec_cuda_say(c, "\n");
        return FUSEC_E_DEVICE;
    }
    s = fusec_cuda_check(c, c->driver.cuDeviceGet(&c->device, ordinal), "cuDeviceGet");
    if (s != FUSEC_OK) return s;
    s = fusec_cuda_check(c, c->driver.cuDevicePrimaryCtxRetain(&c->context, c->device), "cuDevicePrimaryCtxRetain");
    c->has_context = s == FUSEC_OK;
    if (s == FUSEC_OK)
        s = fusec_cuda_check(c, c->driver.cuDeviceGetAttribute(&c->multiprocessors, FUSEC_CU_MULTIPROCESSORS, c->device),
                             "cuDeviceGetAttribute");
    return s;
}

/* In the model's context. */
static fusec_status cuda_make(fusec_cuda *c, const fusec_cuda_image *image) {
    void *made = NULL;
    fusec_status s = fusec_cuda_load_module(c, image);
    if (s == FUSEC_OK)
        s = fusec_cuda_check(c, c->driver.cuStreamCreate(&made, FUSEC_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (s == FUSEC_OK) c->stream = made;
    if (s == FUSEC_OK) s = fusec_cuda_allocate(c);
    if (s == FUSEC_OK) s = fusec_cuda_find_kernels(c);
    for (int i = 0; i < FUSEC_CUDA_STAGES && s == FUSEC_OK; i++) {
        s = fusec_cuda_check(c, c->driver.cuEventCreate(&made, FUSEC_CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        if (s == FUSEC_OK) c->stage[i].event = made;
    }
    return s;
}

static fusec_status cuda_check_manifest(const fusec_manifest *m) {
    if (m->abi_version != FUSEC_ABI_VERSION) return FUSEC_E_VERSION;
    if (m->align > FUSEC_CUDA_ALIGN || m->n_syms > FUSEC_CUDA_MAX_SYMS) return FUSEC_E_UNSUPPORTED;
    return FUSEC_OK;
}

FUSEC_WEAK fusec_status fusec_cuda_init(fusec_cuda *c, const fusec_manifest *m, const fusec_cuda_image *image,
                                        const fusec_cuda_options *options) {
    fusec_status s;
    if (!c) return FUSEC_E_ARGUMENT;
    memset(c, 0, sizeof *c);
    const fusec_cuda_image file = {NULL, options ? options->image_path : NULL, NULL};
    if (!image) image = &file;
    if (!m || !image->data + !image->path + !image->lines != 2) return FUSEC_E_ARGUMENT;
    s = cuda_check_manifest(m);
    if (s != FUSEC_OK) return s;
    c->manifest = m;
    fusec_cuda_plan(m, &c->layout);
    if (options) {
        c->seed = options->seed;
        c->check_finite = options->check_finite;
        c->log = options->log;
        c->log_bytes = options->log_bytes;
    }
    if (c->log && c->log_bytes) c->log[0] = 0;
    if (options && options->driver)
        c->driver = *options->driver;
    else
        s = fusec_cuda_open(c, options ? options->library : NULL);
    if (s == FUSEC_OK) s = cuda_open_device(c, options ? options->device : 0);
    if (s == FUSEC_OK) s = fusec_cuda_check(c, c->driver.cuCtxPushCurrent_v2(c->context), "cuCtxPushCurrent");
    if (s == FUSEC_OK) {
        s = cuda_make(c, image);
        fusec_cuda_leave(c);
    }
    if (s != FUSEC_OK) fusec_cuda_free(c);
    return s;
}

/* Tried twice: without the context nothing could be given back. */
static int cuda_enter_to_free(const fusec_cuda *c) {
    return c->driver.cuCtxPushCurrent_v2(c->context) == 0 || c->driver.cuCtxPushCurrent_v2(c->context) == 0;
}

/* Failures while giving back are passed over: there is nothing left to do about them.  The library stays open: drivers
 * keep threads of their own running in it. */
FUSEC_WEAK void fusec_cuda_free(fusec_cuda *c) {
    if (!c) return;
    const fusec_cu_driver *d = &c->driver;
    if (c->has_context && cuda_enter_to_free(c)) {
        if (c->stream) (void)d->cuStreamSynchronize(c->stream);
        for (int i = 0; i < FUSEC_CUDA_GRAPHS; i++) fusec_cuda_graph_free(c, &c->graphs[i]);
        for (int i = 0; i < FUSEC_CUDA_STAGES; i++)
            if (c->stage[i].event) (void)d->cuEventDestroy_v2(c->stage[i].event);
        if (c->pinned) (void)d->cuMemFreeHost(c->pinned);
        if (c->memory) (void)d->cuMemFree_v2(c->memory);
        if (c->stream) (void)d->cuStreamDestroy_v2(c->stream);
        if (c->module) (void)d->cuModuleUnload(c->module);
        fusec_cuda_leave(c);
    }
    if (c->has_context) (void)d->cuDevicePrimaryCtxRelease_v2(c->device);
    memset(c, 0, sizeof *c);
}
