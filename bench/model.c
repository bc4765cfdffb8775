#include "bench/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CANARY = 4096, CANARY_BYTE = 0xA5 };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(void) { return seconds(CLOCK_MONOTONIC); }

double bench_clock(int threads) { return seconds(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC); }

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

static uint16_t upper_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void *random_input(const fusec_tensor *t, uint32_t *state) {
    void *data = block(t->bytes, 64);
    for (uint64_t i = 0; i < t->bytes / (t->dtype == FUSEC_BF16 ? 2 : 4); i++) {
        if (t->dtype == FUSEC_F32)
            ((float *)data)[i] = (float)draw(state) / (1 << 23) - 1;
        else if (t->dtype == FUSEC_BF16)
            ((uint16_t *)data)[i] = upper_half((float)draw(state) / (1 << 23) - 1);
        else if (t->dtype == FUSEC_I32)
            ((int32_t *)data)[i] = (int32_t)(t->lo + draw(state) % (t->hi > t->lo ? t->hi - t->lo : 1));
        else
            fail("an input that is neither f32, bf16 nor i32");
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

void bench_open(BenchModel *m, const BenchForm *form, int threads) {
    const fusec_manifest *manifest = form->manifest;
    const uint32_t align = manifest->align;
    *m = (BenchModel){.form = form,
                      .context = calloc(1, form->bytes),
                      .memory = {.param_bytes = manifest->param_bytes, .state_bytes = manifest->state_bytes}};
    if (!m->context) fail("out of memory");
    for (int e = 0; e < FUSEC_ENTRIES; e++)
        if (manifest->entry[e].arena_bytes > m->memory.arena_bytes)
            m->memory.arena_bytes = manifest->entry[e].arena_bytes;
    m->memory.params = block(manifest->param_bytes, align);
    m->memory.states = block(manifest->state_bytes, align);
    m->memory.arena = block(m->memory.arena_bytes, align);
    m->arena_mapped = m->memory.arena_bytes + CANARY;
    fill_inputs(m, manifest);
    require(form->init(m->context, &m->memory, &(fusec_options){.threads = threads}), "init");
    memset(m->memory.arena, CANARY_BYTE, m->arena_mapped);
}

double bench_step(BenchModel *m) {
    const double start = bench_now();
    require(m->form->run(m->context, FUSEC_STEP, m->inputs, m->outputs, m->hypers, ++m->step), "step");
    return bench_now() - start;
}

double bench_infer(BenchModel *m, void *const *outputs) {
    const double start = bench_now();
    require(m->form->run(m->context, FUSEC_INFER, m->inputs, outputs, NULL, 0), "infer");
    return bench_now() - start;
}

float bench_loss(const BenchModel *m) {
    const fusec_tensor *t = &m->form->manifest->outputs[0];
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
    const fusec_manifest *whole = m->form->manifest;
    fusec_manifest one = *whole;
    fusec_entry *step = &one.entry[FUSEC_STEP];
    m->form->host(m->context)->manifest = &one;
    m->step++;
    step->n_launches = 1;
    for (uint32_t i = 0; i < whole->entry[FUSEC_STEP].n_launches; i++) {
        step->first_launch = whole->entry[FUSEC_STEP].first_launch + i;
        const uint32_t kernel = whole->launches[step->first_launch].kernel;
        const double start = bench_now();
        require(m->form->run(m->context, FUSEC_STEP, m->inputs, m->outputs, m->hypers, m->step), "profile");
        seconds[kernel] += bench_now() - start;
        count[kernel]++;
    }
    m->form->host(m->context)->manifest = whole;
}

void bench_close(BenchModel *m) {
    const fusec_manifest *manifest = m->form->manifest;
    for (uint32_t i = 0; i < manifest->n_inputs; i++) free((void *)(uintptr_t)m->inputs[i]);
    for (uint32_t i = 0; i < manifest->n_outputs; i++) free(m->outputs[i]);
    m->form->free(m->context);
    free(m->context);
    free(m->inputs);
    free(m->outputs);
    free(m->memory.params);
    free(m->memory.states);
    free(m->memory.arena);
}
