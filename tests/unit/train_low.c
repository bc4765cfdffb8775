/* Training in 16 bits, through the host runtime.  f16: what trains only with loss scaling, what is skipped, what is
 * said. Weights in bf16: updates too small for them add up all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/host/host.h"
#include "frontend/frontend.h"
#include "passes/pass.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef SOURCE_DIR
#define SOURCE_DIR "."
#endif

enum { BATCH = 8, FEATURES = 4, SKIPS = 30 };

typedef struct Trainer {
    Arena *arena;
    HostJit *jit;
    const fusec_manifest *m;
    fusec_host host;
    fusec_memory memory;
    float x[BATCH * FEATURES], y[BATCH], loss;
    int step;
} Trainer;

static void report(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    (void)user, (void)loc, (void)help;
    if (what != COMPLAINT_WARNING) fail_msg("%s", message);
}

static Module *compile(Arena *a, const char *model) {
    Graph *graphs[ENTRY_COUNT] = {NULL};
    Diag *d = diag_new(a);
    const FrontendOptions o = {.model = model};
    Program *p = program_load(a, d, SOURCE_DIR "/tests/data/precision.dsl", &o);
    if (!p || !program_lower(a, d, p, model, graphs)) {
        diag_print(d, stderr);
        fail_msg("%s does not compile", model);
    }
    graphs[ENTRY_INFER] = NULL;
    PassContext c = {.arena = a, .target = target_find("host"), .verify = true, .report = report};
    Module *m = compile_module(&c, graphs);
    assert_non_null(m);
    return m;
}

static void *block(const fusec_manifest *m, uint64_t bytes) {
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, m->align, bytes + m->align), 0);
    memset(p, 0, bytes + m->align);
    return p;
}

static fusec_status run(Trainer *t, int entry) {
    const void *inputs[] = {t->x, t->y};
    void *outputs[] = {&t->loss};
    const fusec_host_call call = {.inputs = inputs, .outputs = outputs, .step = t->step};
    return fusec_host_run(&t->host, entry, &call);
}

static Trainer *open_model(const char *model) {
    Trainer *t = calloc(1, sizeof *t);
    char *error = NULL;
    t->arena = arena_new();
    const Module *m = compile(t->arena, model);
    t->jit = host_jit(m, NULL, &error);
    if (!t->jit) fail_msg("%s", error);
    t->m = host_jit_manifest(t->jit);
    t->memory = (fusec_memory){
        .param_bytes = t->m->param_bytes, .state_bytes = t->m->state_bytes, .grad_bytes = t->m->grad_bytes};
    for (int e = 0; e < FUSEC_ENTRIES; e++)
        if (t->m->entry[e].arena_bytes > t->memory.arena_bytes) t->memory.arena_bytes = t->m->entry[e].arena_bytes;
    t->memory.params = block(t->m, t->memory.param_bytes);
    t->memory.states = block(t->m, t->memory.state_bytes);
    t->memory.grads = block(t->m, t->memory.grad_bytes);
    t->memory.arena = block(t->m, t->memory.arena_bytes);
    const fusec_options options = {.threads = 1, .seed = 3};
    assert_int_equal(fusec_host_init(&t->host, t->m, host_jit_kernels(t->jit), &t->memory, &options), FUSEC_OK);
    for (int i = 0; i < BATCH * FEATURES; i++) t->x[i] = (float)(i * 7 % 11) / 5 - 1;
    for (int b = 0; b < BATCH; b++) t->y[b] = t->x[b * FEATURES] - t->x[b * FEATURES + 2];
    assert_int_equal(run(t, FUSEC_INIT), FUSEC_OK);
    return t;
}

static void close_model(Trainer *t) {
    fusec_host_free(&t->host);
    host_jit_free(t->jit);
    free(t->memory.params), free(t->memory.states), free(t->memory.grads), free(t->memory.arena);
    arena_free(t->arena);
    free(t);
}

static void *state_at(Trainer *t, const char *name) {
    for (uint32_t i = 0; i < t->m->n_states; i++)
        if (strcmp(t->m->states[i].name, name) == 0) return (char *)t->memory.states + t->m->states[i].offset;
    fail_msg("no state %s", name);
    return NULL;
}

static float scale_of(Trainer *t) { return *(float *)state_at(t, "loss_scale.scale"); }
static int32_t outcome_of(Trainer *t) { return *(int32_t *)state_at(t, "loss_scale.outcome"); }

static fusec_status step(Trainer *t) {
    t->step++;
    return run(t, FUSEC_STEP);
}

static float loss_after(Trainer *t, int steps) {
    for (int i = 0; i < steps; i++) assert_int_equal(step(t), FUSEC_OK);
    return t->loss;
}

static void small_gradients_train_only_when_scaled(void **state) {
    (void)state;
    Trainer *t = open_model("faint");
    const float first = loss_after(t, 1), last = loss_after(t, 80);
    assert_true(last < first / 4);
    assert_true(scale_of(t) == 65536.0f);
    close_model(t);
    t = open_model("faint");
    *(float *)state_at(t, "loss_scale.scale") = 1;  /* as good as none */
    const uint64_t weights = t->m->params[0].bytes; /* up.w */
    void *before = malloc(weights);
    memcpy(before, t->memory.params, weights);
    assert_true(loss_after(t, 81) > 2 * last); /* only the last bias learns: its gradient is a sum in f32 */
    assert_memory_equal(before, t->memory.params, weights);
    free(before);
    close_model(t);
}

static void an_overflow_changes_nothing_but_the_scale(void **state) {
    (void)state;
    Trainer *t = open_model("loud");
    char *params = malloc(t->memory.param_bytes), *states = malloc(t->memory.state_bytes);
    int skipped = 0;
    fusec_status s = FUSEC_SKIPPED;
    while (s == FUSEC_SKIPPED && skipped < SKIPS) {
        const float scale = scale_of(t);
        memcpy(params, t->memory.params, t->memory.param_bytes);
        memcpy(states, t->memory.states, t->memory.state_bytes);
        s = step(t);
        if (s != FUSEC_SKIPPED) break;
        skipped++;
        assert_memory_equal(params, t->memory.params, t->memory.param_bytes);
        assert_true(scale_of(t) == scale / 2);
        assert_int_equal(outcome_of(t), 2 * skipped);
        for (uint32_t i = 0; i < t->m->n_states; i++) {
            const fusec_tensor *own = &t->m->states[i];
            if (strncmp(own->name, "loss_scale.", 11) == 0) continue;
            assert_memory_equal(states + own->offset, (char *)t->memory.states + own->offset, own->bytes);
        }
    }
    assert_int_equal(s, FUSEC_OK);
    assert_in_range(skipped, 1, SKIPS - 1);
    assert_true(memcmp(params, t->memory.params, t->memory.param_bytes) != 0);
    assert_true(*(float *)state_at(t, "calls") == 1.0f);
    const float first = t->loss, last = loss_after(t, 60);
    assert_true(isfinite(last) && last < first);
    assert_int_equal(outcome_of(t), 2 * skipped);
    free(params), free(states);
    close_model(t);
}

static void good_steps_double_the_scale_up_to_a_bound(void **state) {
    (void)state;
    Trainer *t = open_model("faint");
    *(int32_t *)state_at(t, "loss_scale.good_steps") = 1998;
    assert_int_equal(step(t), FUSEC_OK);
    assert_true(scale_of(t) == 65536.0f);
    assert_int_equal(step(t), FUSEC_OK);
    assert_true(scale_of(t) == 131072.0f);
    assert_int_equal(*(int32_t *)state_at(t, "loss_scale.good_steps"), 0);
    *(float *)state_at(t, "loss_scale.scale") = 16777216.0f;
    *(int32_t *)state_at(t, "loss_scale.good_steps") = 1999;
    assert_int_equal(step(t), FUSEC_OK);
    assert_true(scale_of(t) == 16777216.0f);
    close_model(t);
}

static void the_least_scale_is_reported(void **state) {
    (void)state;
    Trainer *t = open_model("loud");
    const float least = 1.0f / 16384;
    *(float *)state_at(t, "loss_scale.scale") = least;
    t->y[0] = INFINITY;
    assert_int_equal(step(t), FUSEC_E_LOSS_SCALE);
    assert_true(scale_of(t) == least);
    assert_int_equal(outcome_of(t), 3);
    assert_non_null(strstr(fusec_status_text(FUSEC_E_LOSS_SCALE), "bf16"));
    t->y[0] = 0;
    assert_int_equal(step(t), FUSEC_OK);
    assert_int_equal(outcome_of(t), 3);
    close_model(t);
}

/* A file that was saved by something else, or went bad. */
static void what_is_no_scale_is_made_one(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, 0, 1e38f, 1e-40f};
    Trainer *t = open_model("faint");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        *(float *)state_at(t, "loss_scale.scale") = bad[i];
        t->y[0] = INFINITY; /* overflows whatever the scale */
        assert_int_equal(step(t), FUSEC_SKIPPED);
        assert_true(scale_of(t) == 65536.0f);
        t->y[0] = 0;
        assert_int_equal(step(t), FUSEC_OK);
    }
    close_model(t);
}

static void gradients_tell_of_overflow_too(void **state) {
    (void)state;
    Trainer *t = open_model("loud");
    const float scale = scale_of(t);
    assert_int_equal(run(t, FUSEC_GRAD), FUSEC_SKIPPED);
    assert_true(scale_of(t) == scale / 2);
    fusec_status s = FUSEC_SKIPPED;
    for (int i = 0; i < SKIPS && s == FUSEC_SKIPPED; i++) s = run(t, FUSEC_GRAD);
    assert_int_equal(s, FUSEC_OK);
    for (uint32_t g = 0; g < t->m->n_grads; g++) {
        const float *at = (const float *)((char *)t->memory.grads + t->m->grads[g].offset);
        for (uint64_t i = 0; i < t->m->grads[g].bytes / sizeof *at; i++) assert_true(isfinite(at[i]));
    }
    close_model(t);
}

static float bf16_at(const void *data, int i) {
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t to_bf16(float f) { /* to nearest, ties to even */
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static void first_weights_are_rounded(void **state) {
    (void)state;
    Trainer *low = open_model("sown"), *high = open_model("sown_in_f32");
    assert_int_equal(low->m->n_params, high->m->n_params);
    for (uint32_t p = 0; p < low->m->n_params; p++) {
        const fusec_tensor *l = &low->m->params[p], *h = &high->m->params[p];
        const uint16_t *got = (const uint16_t *)((char *)low->memory.params + l->offset);
        const float *drawn = (const float *)((char *)high->memory.params + h->offset);
        assert_int_equal(2 * l->bytes, h->bytes);
        for (uint64_t i = 0; i < l->bytes / sizeof *got; i++) assert_int_equal(got[i], to_bf16(drawn[i]));
    }
    close_model(low), close_model(high);
}

/* 0.5 in 256 steps of 1/512, where the values lie 1/128 apart. */
static void updates_are_rounded_at_random(void **state) {
    (void)state;
    enum { N = 32 * 64, STEPS = 256 };
    Trainer *t = open_model("creeping");
    assert_int_equal(t->m->params[0].dtype, FUSEC_BF16);
    assert_int_equal(t->m->params[0].bytes, 2 * N);
    assert_int_equal(t->m->grads[0].dtype, FUSEC_F32);
    assert_int_equal(t->m->grads[0].bytes, 4 * N);
    assert_int_equal(run(t, FUSEC_GRAD), FUSEC_OK);
    loss_after(t, STEPS);
    for (int p = 0; p < 2; p++) {
        const void *data = (const char *)t->memory.params + t->m->params[p].offset;
        double mean = 0, from = p ? -1 : 1;
        int moved = 0;
        for (int i = 0; i < N; i++) {
            mean += (double)bf16_at(data, i) / N;
            moved += (double)bf16_at(data, i) != from + 0.5;
        }
        assert_true(fabs(mean - from - 0.5) < 0.006); /* 4 deviations of the mean of N walks of 256 steps */
        assert_in_range(moved, N / 2, N);             /* and each goes its own way */
    }
    const float first = bf16_at(t->memory.params, 7);
    assert_int_equal(run(t, FUSEC_INIT), FUSEC_OK);
    t->step = 0;
    loss_after(t, STEPS);
    assert_true(bf16_at(t->memory.params, 7) == first); /* the same seed, the same numbers */
    close_model(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_gradients_train_only_when_scaled),
        cmocka_unit_test(an_overflow_changes_nothing_but_the_scale),
        cmocka_unit_test(good_steps_double_the_scale_up_to_a_bound),
        cmocka_unit_test(the_least_scale_is_reported),
        cmocka_unit_test(gradients_tell_of_overflow_too),
        cmocka_unit_test(what_is_no_scale_is_made_one),
        cmocka_unit_test(first_weights_are_rounded),
        cmocka_unit_test(updates_are_rounded_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
