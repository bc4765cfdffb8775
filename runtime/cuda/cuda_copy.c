/* Parameters, states and gradients, to and from the caller. */
#include "runtime/cuda/cuda_internal.h"
#include <string.h>

/* The device address of bytes [offset, offset + n) of a region; 0 if they do not lie in it. */
static uint64_t cuda_span(const fusec_cuda *c, fusec_region region, uint64_t offset, uint64_t n) {
    const fusec_manifest *m = c->manifest;
    uint64_t at, size;
    switch (region) {
    case FUSEC_R_PARAM: at = c->layout.params, size = m->param_bytes; break;
    case FUSEC_R_STATE: at = c->layout.states, size = m->state_bytes; break;
    case FUSEC_R_GRAD: at = c->layout.grads, size = m->entry[FUSEC_GRAD].present ? m->grad_bytes : 0; break;
    default: return 0;
    }
    return offset <= size && n <= size - offset ? c->memory + at + offset : 0;
}

/* Waits even after a failure, so that no copy is left under way. */
static fusec_status cuda_copied(fusec_cuda *c, fusec_status s) {
    const fusec_status waited = fusec_cuda_check(c, c->driver.cuStreamSynchronize(c->stream), "cuStreamSynchronize");
    return s != FUSEC_OK ? s : waited;
}

static fusec_status cuda_get(fusec_cuda *c, void *to, uint64_t from, uint64_t n) {
    if (!n) return FUSEC_OK;
    return fusec_cuda_check(c, c->driver.cuMemcpyDtoHAsync_v2(to, from, (size_t)n, c->stream), "cuMemcpyDtoHAsync");
}

static fusec_status cuda_put(fusec_cuda *c, uint64_t to, const void *from, uint64_t n) {
    if (!n) return FUSEC_OK;
    return fusec_cuda_check(c, c->driver.cuMemcpyHtoDAsync_v2(to, from, (size_t)n, c->stream), "cuMemcpyHtoDAsync");
}

FUSEC_WEAK fusec_status fusec_cuda_read(fusec_cuda *c, fusec_region region, uint64_t offset, void *to, uint64_t n) {
    fusec_status s;
    if (!c || !c->manifest || (!to && n) || !cuda_span(c, region, offset, n)) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_copied(c, cuda_get(c, to, cuda_span(c, region, offset, n), n));
    fusec_cuda_leave(c);
    return s;
}

FUSEC_WEAK fusec_status fusec_cuda_write(fusec_cuda *c, fusec_region region, uint64_t offset, const void *from,
                                         uint64_t n) {
    fusec_status s;
    if (!c || !c->manifest || (!from && n) || !cuda_span(c, region, offset, n)) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_copied(c, cuda_put(c, cuda_span(c, region, offset, n), from, n));
    if (region == FUSEC_R_STATE) c->skips_known = 0;
    fusec_cuda_leave(c);
    return s;
}

/* Parameters and states as they lie on the device, in pinned memory; *memory is its description for fusec_save. */
static fusec_status cuda_mirror(fusec_cuda *c, void **pinned, fusec_memory *memory) {
    const fusec_manifest *m = c->manifest;
    const uint64_t params = fusec_cuda_round(m->param_bytes);
    const fusec_status s = fusec_cuda_check(
        c, c->driver.cuMemAllocHost_v2(pinned, (size_t)(params + m->state_bytes + 1)), "cuMemAllocHost");
    if (s != FUSEC_OK) return s;
    memset(memory, 0, sizeof *memory);
    memory->params = *pinned;
    memory->param_bytes = m->param_bytes;
    memory->states = (char *)*pinned + params;
    memory->state_bytes = m->state_bytes;
    return FUSEC_OK;
}

static fusec_status cuda_get_weights(fusec_cuda *c, const fusec_memory *memory) {
    fusec_status s = cuda_get(c, memory->params, c->memory + c->layout.params, memory->param_bytes);
    if (s == FUSEC_OK) s = cuda_get(c, memory->states, c->memory + c->layout.states, memory->state_bytes);
    return cuda_copied(c, s);
}

static fusec_status cuda_put_weights(fusec_cuda *c, const fusec_memory *memory) {
    fusec_status s = cuda_put(c, c->memory + c->layout.params, memory->params, memory->param_bytes);
    if (s == FUSEC_OK) s = cuda_put(c, c->memory + c->layout.states, memory->states, memory->state_bytes);
    return cuda_copied(c, s);
}

FUSEC_WEAK fusec_status fusec_cuda_save(fusec_cuda *c, const fusec_position *at, const fusec_io *io) {
    void *pinned = NULL;
    fusec_memory memory;
    fusec_status s;
    if (!c || !c->manifest || !io) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_mirror(c, &pinned, &memory);
    if (s == FUSEC_OK) {
        s = cuda_get_weights(c, &memory);
        if (s == FUSEC_OK) s = fusec_save(c->manifest, &memory, at, io);
        (void)c->driver.cuMemFreeHost(pinned);
    }
    fusec_cuda_leave(c);
    return s;
}

/* For fusec_load, an entry that works on parameters and states: on the device, and back. */
typedef struct cuda_beginning {
    fusec_cuda *c;
    const fusec_memory *memory;
} cuda_beginning;
static fusec_status cuda_begin(void *user, int entry) {
    const cuda_beginning *b = (const cuda_beginning *)user;
    fusec_cuda_call call;
    memset(&call, 0, sizeof call);
    fusec_status s = cuda_put_weights(b->c, b->memory);
    if (s == FUSEC_OK) s = fusec_cuda_run(b->c, entry, &call);
    return s == FUSEC_OK ? cuda_get_weights(b->c, b->memory) : s;
}

FUSEC_WEAK fusec_status fusec_cuda_load(fusec_cuda *c, fusec_position *at, const fusec_io *io) {
    void *pinned = NULL;
    fusec_memory memory;
    fusec_status s;
    if (!c || !c->manifest || !io) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_mirror(c, &pinned, &memory);
    if (s == FUSEC_OK) {
        memset(pinned, 0,
               (size_t)(fusec_cuda_round(memory.param_bytes) + memory.state_bytes)); /* gaps between tensors */
        const cuda_beginning b = {c, &memory};
        const fusec_begin begin = {(void *)(uintptr_t)&b, cuda_begin};
        s = fusec_load(c->manifest, &memory, at, io, &begin);
        if (s == FUSEC_OK) s = cuda_put_weights(c, &memory);
        c->skips_known = 0;
        (void)c->driver.cuMemFreeHost(pinned);
    }
    fusec_cuda_leave(c);
    return s;
}
