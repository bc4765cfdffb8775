/* One call: checked, staged, launched, outputs brought back. */
#include "runtime/cuda/cuda_internal.h"
#include <string.h>

enum { CUDA_STEP, CUDA_SEED, CUDA_ACCUMULATE, CUDA_HYPER0, CUDA_BATCH = 64 };

/* What is being run, after the checks. */
typedef struct cuda_work {
    const fusec_cuda_call *call;
    int entry, accumulate;
    uint64_t wanted, written; /* outputs to be computed; outputs that launches write */
    int32_t syms[FUSEC_CUDA_MAX_SYMS];
} cuda_work;

/* ---- checks ------------------------------------------------------------------------------------------------------ */
/* The caller's memory is not touched, so that outputs may be NULL; the region blocks are the device's. */
static fusec_memory cuda_regions(const fusec_cuda *c) {
    const fusec_cuda_layout *l = &c->layout;
    fusec_memory r;
    r.params = (void *)(uintptr_t)(c->memory + l->params);
    r.states = (void *)(uintptr_t)(c->memory + l->states);
    r.grads = (void *)(uintptr_t)(c->memory + l->grads);
    r.arena = (void *)(uintptr_t)(c->memory + l->arena);
    r.param_bytes = l->states - l->params;
    r.state_bytes = l->grads - l->states;
    r.grad_bytes = l->arena - l->grads;
    r.arena_bytes = l->scalars - l->arena;
    return r;
}

/* Outputs below 64 that a launch of this call writes. */
static uint64_t cuda_written(const fusec_manifest *m, int entry, uint64_t wanted) {
    const fusec_entry *e = &m->entry[entry];
    uint64_t mask = 0;
    for (uint32_t i = 0; i < e->n_launches; i++) {
        const fusec_launch *l = &m->launches[e->first_launch + i];
        for (uint32_t a = 0; a < m->kernels[l->kernel].n_args && fusec_cuda_needed(l, wanted); a++) {
            const fusec_arg *arg = &m->args[l->first_arg + a];
            if (arg->region == FUSEC_R_OUTPUT && arg->index < 64) mask |= (uint64_t)1 << arg->index;
        }
    }
    return mask;
}

static int cuda_asked(const fusec_cuda_call *call, uint32_t o) {
    return (call->outputs && call->outputs[o]) || (o < 64 && (call->wanted >> o & 1));
}

static fusec_status cuda_check_call(fusec_cuda *c, int entry, const fusec_cuda_call *call, cuda_work *w) {
    const fusec_manifest *m = c->manifest;
    const fusec_memory regions = cuda_regions(c);
    fusec_status s;
    w->call = call;
    w->accumulate = (entry & FUSEC_ACCUMULATE) != 0;
    w->entry = entry & ~FUSEC_ACCUMULATE;
    if (w->accumulate && w->entry != FUSEC_GRAD) return FUSEC_E_ARGUMENT;
    for (uint32_t i = 0; i < m->n_syms; i++) w->syms[i] = call->syms ? call->syms[i] : m->syms[i].bound;
    for (uint32_t i = 0; i < m->n_inputs; i++)
        c->inputs[i] = call->inputs && call->inputs[i] ? call->inputs[i] : c->staged[i];
    for (uint32_t i = 0; i < m->n_outputs; i++)
        c->outputs[i] = (w->entry != FUSEC_INFER && !(w->entry >> 16)) || cuda_asked(call, i) ? (void *)c->fetched : NULL;
    s = fusec_check(m, w->entry, &regions, c->inputs, c->outputs, w->syms, &w->wanted);
    w->entry = FUSEC_ENTRY(w->entry);
    if (s == FUSEC_OK && c->check_finite) s = fusec_check_inputs(m, call->inputs, call->hypers, w->syms);
    if (s == FUSEC_OK) w->written = cuda_written(m, w->entry, w->wanted);
    return s;
}

/* ---- staging ----------------------------------------------------------------------------------------------------- */
static void cuda_scalars(const fusec_cuda *c, const cuda_work *w, char *to) {
    const fusec_manifest *m = c->manifest;
    uint32_t scalar[CUDA_HYPER0];
    scalar[CUDA_STEP] = (uint32_t)w->call->step;
    scalar[CUDA_SEED] = c->seed;
    scalar[CUDA_ACCUMULATE] = (uint32_t)w->accumulate;
    memcpy(to, scalar, sizeof scalar);
    for (uint32_t i = 0; i < m->n_hypers; i++) {
        const float value = w->call->hypers ? w->call->hypers[i] : m->hypers[i].value;
        memcpy(to + sizeof scalar + sizeof value * i, &value, sizeof value);
    }
}

static fusec_status cuda_stage_input(fusec_cuda *c, const cuda_work *w, char *memory, uint32_t i) {
    const uint64_t bytes = c->manifest->inputs[i].bytes;
    char *to = memory + c->layout.scalar_bytes + c->input_at[i];
    fusec_status s;
    if (!w->call->inputs || !w->call->inputs[i] || !bytes) return FUSEC_OK;
    memcpy(to, w->call->inputs[i], (size_t)bytes);
    s = fusec_cuda_check(
        c, c->driver.cuMemcpyHtoDAsync_v2(c->memory + c->layout.inputs + c->input_at[i], to, (size_t)bytes, c->stream),
        "cuMemcpyHtoDAsync");
    c->staged[i] = s == FUSEC_OK ? to : NULL;
    return s;
}

static fusec_status cuda_stage_copies(fusec_cuda *c, const cuda_work *w, char *memory) {
    fusec_status s;
    cuda_scalars(c, w, memory);
    s = fusec_cuda_check(c,
                         c->driver.cuMemcpyHtoDAsync_v2(c->memory + c->layout.scalars, memory,
                                                        (size_t)c->layout.scalar_bytes, c->stream),
                         "cuMemcpyHtoDAsync");
    for (uint32_t i = 0; i < c->manifest->n_inputs && s == FUSEC_OK; i++) s = cuda_stage_input(c, w, memory, i);
    return s;
}

/* The copies out of a half of the staging memory have been made; waits only if the device is that far behind. */
static fusec_status cuda_stage_free(fusec_cuda *c, fusec_cuda_stage *stage) {
    const char *what = "cuEventQuery";
    int r = stage->busy ? c->driver.cuEventQuery(stage->event) : 0;
    if (r == FUSEC_CU_NOT_READY) {
        what = "cuEventSynchronize";
        r = c->driver.cuEventSynchronize(stage->event);
    }
    if (r == 0) stage->busy = 0;
    return fusec_cuda_check(c, r, what);
}

/* Scalars and inputs on their way, through the half that the call before the last used. */
static fusec_status cuda_stage(fusec_cuda *c, const cuda_work *w) {
    fusec_cuda_stage *stage = &c->stage[c->next_stage];
    fusec_status s = cuda_stage_free(c, stage), recorded;
    if (s != FUSEC_OK) return s;
    c->next_stage = (c->next_stage + 1) % FUSEC_CUDA_STAGES;
    s = cuda_stage_copies(c, w, stage->memory);
    recorded = fusec_cuda_check(c, c->driver.cuEventRecord(stage->event, c->stream), "cuEventRecord");
    stage->busy = recorded == FUSEC_OK;
    if (!stage->busy) (void)c->driver.cuStreamSynchronize(c->stream); /* the copies still read the staging memory */
    return s != FUSEC_OK ? s : recorded;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */
static fusec_status cuda_bring(fusec_cuda *c, uint32_t o) {
    const uint64_t bytes = c->manifest->outputs[o].bytes, at = c->output_at[o];
    if (!bytes) return FUSEC_OK;
    return fusec_cuda_check(
        c,
        c->driver.cuMemcpyDtoHAsync_v2(c->fetched + at, c->memory + c->layout.outputs + at, (size_t)bytes, c->stream),
        "cuMemcpyDtoHAsync");
}

static fusec_status cuda_sync(fusec_cuda *c) {
    return fusec_cuda_check(c, c->driver.cuStreamSynchronize(c->stream), "cuStreamSynchronize");
}

/* Reads the state that tells of skipped steps; the stream is at rest. */
static fusec_status cuda_read_skips(fusec_cuda *c, int64_t at) {
    const uint64_t from = c->memory + c->layout.states + (uint64_t)at;
    const fusec_status s = fusec_cuda_check(
        c, c->driver.cuMemcpyDtoHAsync_v2(c->fetched, from, sizeof c->skips, c->stream), "cuMemcpyDtoHAsync");
    const fusec_status waited = cuda_sync(c);
    if (s != FUSEC_OK || waited != FUSEC_OK) return s != FUSEC_OK ? s : waited;
    memcpy(&c->skips, c->fetched, sizeof c->skips);
    c->skips_known = 1;
    return FUSEC_OK;
}

/* Before the first step since the states were set otherwise: what to compare with. */
static fusec_status cuda_skips_before(fusec_cuda *c, const cuda_work *w) {
    const int64_t at = fusec_outcome_state(c->manifest);
    if (w->entry == FUSEC_INIT) c->skips_known = 0;
    if (at < 0 || c->skips_known || (w->entry != FUSEC_GRAD && w->entry != FUSEC_STEP)) return FUSEC_OK;
    return cuda_read_skips(c, at);
}

/* The device is at rest: were steps skipped since it was last asked? */
static fusec_status cuda_skips_after(fusec_cuda *c) {
    const int64_t at = fusec_outcome_state(c->manifest);
    const int32_t before = c->skips;
    fusec_status s;
    if (at < 0 || !c->skips_known) return FUSEC_OK;
    s = cuda_read_skips(c, at);
    return s != FUSEC_OK ? s : fusec_outcome(before, c->skips);
}

static int cuda_given(const cuda_work *w, uint32_t o) {
    return w->call->outputs && w->call->outputs[o] && (o >= 64 || (w->written >> o & 1));
}

static fusec_status cuda_bring_outputs(fusec_cuda *c, const cuda_work *w) {
    const fusec_manifest *m = c->manifest;
    int any = 0;
    fusec_status s = FUSEC_OK;
    for (uint32_t o = 0; o < m->n_outputs && s == FUSEC_OK; o++) {
        if (!cuda_given(w, o)) continue;
        s = cuda_bring(c, o);
        any = 1;
    }
    if (!any) return s;
    const fusec_status waited = cuda_sync(c); /* also after a failure: no copy is left under way */
    if (s == FUSEC_OK) s = waited;
    for (uint32_t o = 0; o < m->n_outputs && s == FUSEC_OK; o++)
        if (cuda_given(w, o)) memcpy(w->call->outputs[o], c->fetched + c->output_at[o], (size_t)m->outputs[o].bytes);
    if (s == FUSEC_OK) s = cuda_skips_after(c);
    if (s != FUSEC_OK || !c->check_finite) return s;
    return fusec_check_results(m, w->entry, NULL, w->call->outputs, w->syms);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */
static fusec_status cuda_launch(fusec_cuda *c, const cuda_work *w) {
    void *exec = NULL;
    fusec_status s = fusec_cuda_graph_for(c, w->entry, w->wanted, w->syms, &exec);
    if (s == FUSEC_OK) s = cuda_skips_before(c, w);
    if (s == FUSEC_OK) s = cuda_stage(c, w);
    if (s == FUSEC_OK && exec) s = fusec_cuda_check(c, c->driver.cuGraphLaunch(exec, c->stream), "cuGraphLaunch");
    if (s == FUSEC_OK) c->computed |= w->written;
    return s;
}

FUSEC_WEAK fusec_status fusec_cuda_run(fusec_cuda *c, int entry, const fusec_cuda_call *call) {
    cuda_work w;
    fusec_status s;
    if (!c || !c->manifest || !call) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_check_call(c, entry, call, &w);
    if (s == FUSEC_OK) s = cuda_launch(c, &w);
    if (s == FUSEC_OK) s = cuda_bring_outputs(c, &w);
    fusec_cuda_leave(c);
    return s;
}

FUSEC_WEAK fusec_status fusec_cuda_wait(fusec_cuda *c) {
    fusec_status s;
    if (!c || !c->manifest) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_sync(c);
    if (s == FUSEC_OK) s = cuda_skips_after(c);
    fusec_cuda_leave(c);
    return s;
}

FUSEC_WEAK fusec_status fusec_cuda_fetch(fusec_cuda *c, uint32_t output, void *to) {
    fusec_status s, waited;
    if (!c || !c->manifest || !to || output >= c->manifest->n_outputs) return FUSEC_E_ARGUMENT;
    if (output < 64 && !(c->computed >> output & 1)) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_bring(c, output);
    waited = cuda_sync(c);
    if (s == FUSEC_OK) s = waited;
    if (s == FUSEC_OK) memcpy(to, c->fetched + c->output_at[output], (size_t)c->manifest->outputs[output].bytes);
    if (s == FUSEC_OK) s = cuda_skips_after(c);
    fusec_cuda_leave(c);
    return s;
}

/* ---- times of single kernels ------------------------------------------------------------------------------------- */
/* Launches [first, last) with an event after each and one before all; then their times. */
static fusec_status cuda_time_batch(fusec_cuda *c, const cuda_work *w, void **events, uint32_t first, uint32_t last,
                                    float *ms) {
    const fusec_launch *l = &c->manifest->launches[c->manifest->entry[w->entry].first_launch];
    fusec_status s = fusec_cuda_check(c, c->driver.cuEventRecord(events[0], c->stream), "cuEventRecord"), waited;
    for (uint32_t i = first; i < last && s == FUSEC_OK; i++) {
        fusec_cuda_args x;
        x.node.grid_x = 0;
        if (fusec_cuda_needed(&l[i], w->wanted)) s = fusec_cuda_prepare(c, &l[i], w->syms, &x);
        if (s == FUSEC_OK && x.node.grid_x)
            s = fusec_cuda_launch(c, &x);
        if (s == FUSEC_OK)
            s = fusec_cuda_check(c, c->driver.cuEventRecord(events[i - first + 1], c->stream), "cuEventRecord");
        ms[i] = s == FUSEC_OK && x.node.grid_x ? 1 : 0; /* 1: to be measured */
    }
    waited = cuda_sync(c);
    if (s == FUSEC_OK) s = waited;
    for (uint32_t i = first; i < last && s == FUSEC_OK; i++)
        if (ms[i] > 0)
            s = fusec_cuda_check(c, c->driver.cuEventElapsedTime(&ms[i], events[i - first], events[i - first + 1]),
                                 "cuEventElapsedTime");
    return s;
}

static fusec_status cuda_time(fusec_cuda *c, const cuda_work *w, float *ms) {
    const uint32_t n = c->manifest->entry[w->entry].n_launches;
    void *events[CUDA_BATCH + 1];
    uint32_t made = 0;
    fusec_status s = cuda_skips_before(c, w);
    if (s == FUSEC_OK) s = cuda_stage(c, w);
    while (made <= CUDA_BATCH && s == FUSEC_OK) {
        s = fusec_cuda_check(c, c->driver.cuEventCreate(&events[made], FUSEC_CU_EVENT_DEFAULT), "cuEventCreate");
        if (s == FUSEC_OK) made++;
    }
    for (uint32_t first = 0; first < n && s == FUSEC_OK; first += CUDA_BATCH)
        s = cuda_time_batch(c, w, events, first, n - first < CUDA_BATCH ? n : first + CUDA_BATCH, ms);
    while (made) (void)c->driver.cuEventDestroy_v2(events[--made]);
    return s;
}

FUSEC_WEAK fusec_status fusec_cuda_profile(fusec_cuda *c, int entry, const fusec_cuda_call *call, float *ms) {
    cuda_work w;
    fusec_status s;
    if (!c || !c->manifest || !call || !ms) return FUSEC_E_ARGUMENT;
    s = fusec_cuda_enter(c);
    if (s != FUSEC_OK) return s;
    s = cuda_check_call(c, entry, call, &w);
    if (s == FUSEC_OK) s = cuda_time(c, &w, ms);
    if (s == FUSEC_OK) {
        c->computed |= w.written;
        s = cuda_bring_outputs(c, &w);
    }
    fusec_cuda_leave(c);
    return s;
}
