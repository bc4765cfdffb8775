/* --selftest: the program's results on this machine, as numbers that every form of the artifact can check. */
#include "codegen/host/host.h"
#include "ir/target.h"
#include "tools/fusec/cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far sums may be off, of the sum of magnitudes: other machines add in another order, where a value near a kink may
 * fall on the other side, and GPUs multiply f32 with
 * fewer bits. */
static const float tolerance_single = 1e-2f, tolerance_half = 5e-2f;
/* What counts as nothing, of the largest mean in the group: gradients that are zero but for rounding. */
static const float nothing = 1e-3f;

typedef struct Reference {
    Module *m;
    HostJit *jit;
    fusec_host host;
    fusec_memory memory;
    void *scratch;
} Reference;

static bool fail(const char *why) {
    fprintf(stderr, "fusec: error: --selftest: %s\n", why);
    return false;
}

/* ---- the program on this machine ------------------------------------------------------------------------------ */
static Module *compile_here(Arena *a, const Options *o, const Module *m) {
    Options here = *o;
    Session s;
    memset(here.print_after, 0, sizeof here.print_after);
    here.time_passes = false;
    here.profile = NULL; /* of a GPU */
    for (int e = 0; e < ENTRY_COUNT; e++) here.entry[e] = false;
    here.entry[m->entry[ENTRY_GRAD].present ? ENTRY_GRAD : ENTRY_INFER] = true;
    return session_open(&s, a, &here) ? session_compile(&s, &here, target_find("host")) : NULL;
}

static bool give(const Module *m, int64_t bytes, void **at, uint64_t *n) {
    *n = (uint64_t)bytes;
    if (posix_memalign(at, (size_t)m->align, (size_t)bytes + 1) != 0) *at = NULL;
    return *at != NULL;
}

static bool allocate(Reference *r) {
    const Module *m = r->m;
    int64_t arena = 0;
    uint64_t scratch;
    for (int e = 0; e < ENTRY_COUNT; e++)
        if (m->entry[e].present && m->entry[e].arena_bytes > arena) arena = m->entry[e].arena_bytes;
    return give(m, m->param_bytes, &r->memory.params, &r->memory.param_bytes) &&
           give(m, m->state_bytes, &r->memory.states, &r->memory.state_bytes) &&
           give(m, m->grad_bytes, &r->memory.grads, &r->memory.grad_bytes) &&
           give(m, arena, &r->memory.arena, &r->memory.arena_bytes) &&
           give(m, (int64_t)fusec_selftest_bytes(host_jit_manifest(r->jit)), &r->scratch, &scratch);
}

static void close_reference(Reference *r) {
    fusec_host_free(&r->host);
    host_jit_free(r->jit);
    free(r->memory.params), free(r->memory.states), free(r->memory.grads), free(r->memory.arena);
    free(r->scratch);
}

static fusec_status run_entry(void *user, int entry, const void *const *inputs, void *const *outputs, uint32_t seed,
                              const int32_t *syms) {
    Reference *r = user;
    const fusec_host_call call = {.inputs = inputs, .outputs = outputs, .syms = syms, .step = 1};
    r->host.options.seed = seed;
    return fusec_host_run(&r->host, entry, &call);
}

static fusec_status read_gradient(void *user, uint64_t offset, void *to, uint64_t n) {
    memcpy(to, (const char *)((Reference *)user)->memory.grads + offset, (size_t)n);
    return FUSEC_OK;
}

static bool run_here(Reference *r, int threads, fusec_sum *found) {
    const fusec_selftest_calls calls = {.user = r, .run = run_entry, .read = read_gradient};
    const fusec_options options = {.threads = threads};
    const HostOptions any = {.cpu = "generic"}; /* the same bits on every machine of this kind */
    char *why = NULL;
    r->jit = host_jit(r->m, &any, &why);
    if (!r->jit) {
        fail(why ? why : "no code for this machine");
        free(why);
        return false;
    }
    if (!allocate(r)) return fail("out of memory");
    const fusec_manifest *manifest = host_jit_manifest(r->jit);
    fusec_status s = fusec_host_init(&r->host, manifest, host_jit_kernels(r->jit), &r->memory, &options);
    if (s == FUSEC_OK) s = fusec_selftest(manifest, &calls, 0, r->scratch, found);
    return s == FUSEC_OK || fail(fusec_status_text(s));
}

/* ---- what is compared, and how closely ------------------------------------------------------------------------ */
static bool is_half(DType t) { return t == DT_F16 || t == DT_BF16; }

static float tolerance_of(const Module *m) {
    for (int k = 0; k < m->kernels.n; k++)
        for (int b = 0; b < m->kernels.at[k]->buffers.n; b++)
            if (is_half(m->kernels.at[k]->buffers.at[b].dtype)) return tolerance_half;
    return tolerance_single;
}

/* Sets `slack` of a group of tensors; how many are compared. */
static int set_slack(fusec_sum *s, const ModuleTensor *t, int n, float tolerance) {
    float most = 0;
    int compared = 0;
    for (int i = 0; i < n; i++) {
        const float mean = s[i].magnitude / (float)(shape_elements(t[i].shape) > 0 ? shape_elements(t[i].shape) : 1);
        s[i].slack = dtype_is_float(t[i].dtype) && isfinite(s[i].magnitude) && isfinite(s[i].sum) ? 0 : -1;
        if (s[i].slack < 0) s[i].sum = s[i].magnitude = 0;
        if (s[i].slack == 0 && mean > most) most = mean;
    }
    for (int i = 0; i < n; i++) {
        if (s[i].slack < 0) continue;
        s[i].slack = tolerance * (s[i].magnitude + nothing * most * (float)shape_elements(t[i].shape));
        compared++;
    }
    return compared;
}

/* Gradients lie in another order where kernels run in another one. */
static int find_gradient(const Module *m, const char *name) {
    for (int i = 0; i < m->grads.n; i++)
        if (!strcmp(m->grads.at[i].name, name)) return i;
    return -1;
}

static bool keep(Arena *a, Module *m, const Module *here, const fusec_sum *found) {
    const int n_grads = m->entry[ENTRY_GRAD].present ? m->grads.n : 0;
    const float tolerance = tolerance_of(m);
    fusec_sum *s = ARENA_ARRAY(a, fusec_sum, m->outputs.n + n_grads + 1);
    memcpy(s, found, sizeof *s * (size_t)m->outputs.n);
    for (int g = 0; g < n_grads; g++) {
        const int at = find_gradient(here, m->grads.at[g].name);
        if (at < 0) return fail("the program has other gradients on this machine");
        s[m->outputs.n + g] = found[m->outputs.n + at];
    }
    if (!(set_slack(s, m->outputs.at, m->outputs.n, tolerance) +
          set_slack(s + m->outputs.n, m->grads.at, n_grads, tolerance)))
        return fail("no output or gradient is a finite number for inputs in [-1, 1)");
    m->selftest = s;
    return true;
}

bool selftest_measure(Arena *a, const Options *o, Module *m) {
    if (!m->entry[ENTRY_GRAD].present && !m->entry[ENTRY_INFER].present)
        return fail("there is neither entry grad nor entry infer");
    Reference r = {.m = compile_here(a, o, m)};
    if (!r.m) return fail("the program cannot be compiled for this machine");
    fusec_sum *found = ARENA_ARRAY(a, fusec_sum, r.m->outputs.n + r.m->grads.n + 1);
    const bool ok = run_here(&r, o->threads, found) && keep(a, m, r.m, found);
    close_reference(&r);
    return ok;
}
