#include "bench/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CANARY = 4096, CANARY_BYTE = 0xA5 };

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static void require(fusec_status s, const char *what) {
    if (s == FUSEC_OK) return;
    fprintf(stderr, "bench: %s: %s\n", what, fusec_status_text(s));
    exit(1);
}

/* Whole canary pages: a block that ends in one, filled so that every write shows. */
static void *block(uint64_t bytes, uint32_t align) {
    void *p = NULL;
    if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes + CANARY)) fail("out of memory");
    return p;
}

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes; the upper bits are used */
    return *state >> 8;
}

static void *random_input(const fusec_tensor *t, uint32_t *state) {
    void *data = block(t->bytes, 64);
    for (uint64_t i = 0; i < t->bytes / 4; i++) {
        if (t->dtype == FUSEC_F32)
            ((float *)data)[i] = (float)draw(state) / (1 << 23) - 1;
        else if (t->dtype == FUSEC_I32)
            ((int32_t *)data)[i] = (int32_t)(t->lo + draw(state) % (t->hi > t->lo ? t->hi - t->lo : 1));
        else
            fail("an input that is neither f32 nor i32");
    }
    return data;
}

static void fill_inputs(BenchModel *m, const fusec_manifest *manifest) {
    uint32_t state = 1;
    m->inputs = calloc(manifest->n_inputs + 1, sizeof *m->inputs);
    m->outputs = calloc(manifest->n_outputs + 1, sizeof *m->outputs);
    if (!m->inputs || !m->outputs) fail("out of memory");
    for (uint32_t i = 0; i < manifest->n_inputs; i++) m->inputs[i] = random_input(&manifest->inputs[i], &state);
    for (uint32_t i = 0; i < manifest->n_outputs; i++) m->outputs[i] = block(manifest->outputs[i].bytes, 64);
}

void bench_open(BenchModel *m, const fusec_manifest *manifest, const fusec_host_kernel *kernels, int threads) {
    const uint32_t align = manifest->align;
    *m = (BenchModel){.memory = {.param_bytes = manifest->param_bytes, .state_bytes = manifest->state_bytes}};
    for (int e = 0; e < FUSEC_ENTRIES; e++)
        if (manifest->entry[e].arena_bytes > m->memory.arena_bytes)
            m->memory.arena_bytes = manifest->entry[e].arena_bytes;
    m->memory.params = block(manifest->param_bytes, align);
    m->memory.states = block(manifest->state_bytes, align);
    m->memory.arena = block(m->memory.arena_bytes, align);
    m->arena_mapped = m->memory.arena_bytes + CANARY;
    fill_inputs(m, manifest);
    require(fusec_host_init(&m->host, manifest, kernels, &m->memory, &(fusec_options){.threads = threads}), "init");
    const fusec_host_call call = {.inputs = m->inputs, .outputs = m->outputs};
    require(fusec_host_run(&m->host, FUSEC_INIT, &call), "init");
    memset(m->memory.arena, CANARY_BYTE, m->arena_mapped);
}

double bench_step(BenchModel *m) {
    const fusec_host_call call = {.inputs = m->inputs, .outputs = m->outputs, .hypers = m->hypers, .step = ++m->step};
    const double start = bench_now();
    require(fusec_host_run(&m->host, FUSEC_STEP, &call), "step");
    return bench_now() - start;
}

double bench_infer(BenchModel *m, void *const *outputs) {
    const fusec_host_call call = {.inputs = m->inputs, .outputs = outputs};
    const double start = bench_now();
    require(fusec_host_run(&m->host, FUSEC_INFER, &call), "infer");
    return bench_now() - start;
}

float bench_loss(const BenchModel *m) {
    const fusec_tensor *t = &m->host.manifest->outputs[0];
    if (t->dtype != FUSEC_F32 || t->bytes != sizeof(float)) fail("output 0 is not a loss");
    return *(const float *)m->outputs[0];
}

uint64_t bench_arena_used(const BenchModel *m) {
    const unsigned char *at = m->memory.arena;
    uint64_t used = m->arena_mapped;
    while (used > 0 && at[used - 1] == CANARY_BYTE) used--;
    if (used > m->memory.arena_bytes) fail("a write past the end of the arena");
    return used;
}

void bench_profile(BenchModel *m, double *seconds, int *count) {
    const fusec_manifest *whole = m->host.manifest;
    fusec_manifest one = *whole;
    const fusec_host_call call = {.inputs = m->inputs, .outputs = m->outputs, .hypers = m->hypers, .step = ++m->step};
    fusec_entry *step = &one.entry[FUSEC_STEP];
    m->host.manifest = &one;
    step->n_launches = 1;
    for (uint32_t i = 0; i < whole->entry[FUSEC_STEP].n_launches; i++) {
        step->first_launch = whole->entry[FUSEC_STEP].first_launch + i;
        const uint32_t kernel = whole->launches[step->first_launch].kernel;
        const double start = bench_now();
        require(fusec_host_run(&m->host, FUSEC_STEP, &call), "profile");
        seconds[kernel] += bench_now() - start;
        count[kernel]++;
    }
    m->host.manifest = whole;
}

void bench_close(BenchModel *m) {
    const fusec_manifest *manifest = m->host.manifest;
    for (uint32_t i = 0; i < manifest->n_inputs; i++) free((void *)(uintptr_t)m->inputs[i]);
    for (uint32_t i = 0; i < manifest->n_outputs; i++) free(m->outputs[i]);
    fusec_host_free(&m->host);
    free(m->inputs);
    free(m->outputs);
    free(m->memory.params);
    free(m->memory.states);
    free(m->memory.arena);
}
