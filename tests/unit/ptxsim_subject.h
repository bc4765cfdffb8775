/* Kernels that can be run again and again with other text: a case with one launch, or a whole compiled program through
 * the runtime that ships. */
#pragma once
#include "ptxsim_case.h"
#include "codegen/nvptx/nvptx.h"
#include "frontend/frontend.h"
#include "runtime/cuda/fusec_cuda.h"
#include "tests/support/oracle.h"
#include "tools/fusec/manifest.h"

enum { SCHEDULES = 16 };

/* A program compiled for sm_80, and what its entry step is called with. */
typedef struct Compiled {
    Arena *arena;
    Module *module;
    const fusec_manifest *manifest;
    TestData data;
} Compiled;

typedef struct Observed {
    bool found;     /* a finding, or a call that failed */
    uint8_t *bytes; /* results: owned */
    size_t count;
} Observed;

typedef struct Subject {
    char name[128];
    char *text;        /* owned, unless `one` has it */
    PtxCase *one;      /* owned; NULL: a program */
    const char *entry; /* of `one` */
    Compiled *program;
    Observed base[SCHEDULES]; /* of the text as it is; bytes NULL: not run yet */
} Subject;

/* What the last case that was observed was reported for. */
static char last_finding[320];
static inline const char *first_finding(void) { return last_finding; }

/* ---- one launch ----------------------------------------------------------------------------------------- */
static inline Observed observe_case(const Subject *s, const char *text) {
    static Outcome o;
    PtxCase c = *s->one;
    c.text = (char *)(uintptr_t)text; /* read only */
    case_run(&c, s->entry, &o);
    snprintf(last_finding, sizeof last_finding, "%s, line %d", o.findings ? o.found[0].kind : o.log,
             o.findings ? o.found[0].line : 0);
    Observed seen = {.found = o.result || o.findings, .count = o.words * sizeof *o.memory};
    seen.bytes = malloc(seen.count + 1);
    assert_non_null(seen.bytes);
    if (!o.result) memcpy(seen.bytes, o.memory, seen.count);
    return seen;
}

/* ---- a program ------------------------------------------------------------------------------------------ */
static inline Compiled *program_compile(const char *file, const char *overrides, char **text) {
    Override set[8];
    char copy[128], path[512], *why = NULL;
    FrontendOptions o = {.overrides = set};
    Arena *a = arena_new();
    Compiled *p = ARENA_NEW(a, Compiled);
    Graph *graphs[ENTRY_COUNT] = {0};
    snprintf(copy, sizeof copy, "%s", overrides);
    snprintf(path, sizeof path, "%s/examples/%s", SOURCE_DIR, file);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        set[o.n_overrides++] = (Override){arena_strdup(a, word), arena_strdup(a, value)};
    }
    Diag *d = diag_new(a);
    Program *parsed = program_load(a, d, path, &o);
    if (!parsed || !program_lower(a, d, parsed, NULL, graphs)) {
        diag_print(d, stdout);
        fail_msg("%s does not compile", file);
    }
    graphs[ENTRY_INIT] = graphs[ENTRY_INFER] = graphs[ENTRY_GRAD] = NULL;
    const Model *model = graphs[ENTRY_STEP]->model;
    PassContext c = test_context(a, "sm_80");
    p->arena = a;
    p->module = compile_module(&c, graphs);
    assert_non_null(p->module);
    p->manifest = manifest_of(a, p->module);
    TestRandom r = {20};
    do p->data = test_data(a, p->module, model, &r);
    while (p->module->syms.n && p->data.syms[0] < p->module->syms.at[0].bound * 2 / 3); /* loops over tiles go round */
    if (!nvptx_emit_ptx(p->module, &(NvptxOptions){.arch = "sm_80"}, text, &why)) fail_msg("%s", why);
    return p;
}

/* Entry step on a copy of the data. */
static inline bool program_call(const Compiled *p, fusec_cuda *c, Observed *seen) {
    const Module *m = p->module;
    uint8_t *at = seen->bytes;
    void *outputs[16] = {0};
    const int n = m->outputs.n < 16 ? m->outputs.n : 16;
    int32_t extents[FUSEC_CUDA_MAX_SYMS];
    const fusec_cuda_call call = {
        .inputs = (const void *const *)p->data.mem.inputs, .outputs = outputs, .syms = extents, .step = 1};
    for (int k = 0; k < m->syms.n; k++) extents[k] = (int32_t)p->data.syms[k];
    for (int k = 0; k < n; at += m->outputs.at[k++].bytes) outputs[k] = at;
    bool ok = !m->param_bytes ||
              fusec_cuda_write(c, FUSEC_R_PARAM, 0, p->data.mem.params, (uint64_t)m->param_bytes) == FUSEC_OK;
    ok = ok && (!m->state_bytes ||
                fusec_cuda_write(c, FUSEC_R_STATE, 0, p->data.mem.states, (uint64_t)m->state_bytes) == FUSEC_OK);
    ok = ok && fusec_cuda_run(c, ENTRY_STEP, &call) == FUSEC_OK;
    ok = ok && fusec_cuda_read(c, FUSEC_R_PARAM, 0, at, (uint64_t)m->param_bytes) == FUSEC_OK;
    return ok && (!m->state_bytes ||
                  fusec_cuda_read(c, FUSEC_R_STATE, 0, at + m->param_bytes, (uint64_t)m->state_bytes) == FUSEC_OK);
}

static inline Observed observe_program(const Compiled *p, const char *text) {
    static char log[4096];
    const Module *m = p->module;
    const uint64_t before = findings();
    const fusec_cuda_image image = {.data = text};
    const fusec_cuda_options options = {
        .library = BUILD_DIR "/ptxsim/libcuda.so.1", .log = log, .log_bytes = sizeof log};
    Observed seen = {.count = (size_t)(m->param_bytes + m->state_bytes)};
    for (int k = 0; k < m->outputs.n; k++) seen.count += (size_t)m->outputs.at[k].bytes;
    seen.bytes = calloc(seen.count + 1, 1);
    assert_non_null(seen.bytes);
    fusec_cuda c;
    const bool opened = fusec_cuda_init(&c, p->manifest, &image, &options) == FUSEC_OK;
    if (!opened) printf("%s\n", log);
    seen.found = !opened || !program_call(p, &c, &seen);
    if (opened) fusec_cuda_free(&c);
    seen.found |= findings() != before;
    static Outcome o;
    case_findings(&o); /* empties the file */
    snprintf(last_finding, sizeof last_finding, "%.300s", o.findings ? o.found[0].kind : log);
    return seen;
}

/* ---- both ----------------------------------------------------------------------------------------------- */
/* Schedule k of 16: seed 0 lands late. */
static inline Observed observe(const Subject *s, const char *text, int schedule) {
    static const char *const LANDING[] = {"late", "early", "random"};
    case_schedule((unsigned)schedule, LANDING[schedule % 3]);
    const int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    const Observed seen = s->one ? observe_case(s, text) : observe_program(s->program, text);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(nowhere);
    return seen;
}

static inline const Observed *observe_base(Subject *s, int schedule) {
    Observed *o = &s->base[schedule];
    if (!o->bytes) *o = observe(s, s->text, schedule);
    return o;
}

static inline void subject_end(Subject *s) {
    for (int k = 0; k < SCHEDULES; k++) free(s->base[k].bytes);
    if (s->program) arena_free(s->program->arena);
    free(s->text);
    free(s->one);
}
