/* The interpreter of Tile IR: slow, and checks every access. */
#include "ir/module_run.h"
#include "ir/target.h"
#include "tools/fusec/executor.h"
#include "tools/fusec/manifest.h"
#include <string.h>

typedef struct Interp {
    Arena *arena;
    const Module *m;
    const fusec_manifest *manifest; /* with check_finite */
    int32_t *scalars;
    int64_t *syms;
} Interp;

static const char *target(const char *arch) {
    if (!arch) return "host";
    return target_find(arch) ? arch : NULL;
}

static void *open_interp(Arena *a, const Module *m, const ExecutorOptions *o, const char **error) {
    Interp *x = ARENA_NEW(a, Interp);
    const fusec_manifest *manifest = o->check_finite ? manifest_of(a, m) : NULL;
    if (o->check_finite && !manifest) {
        *error = "a kernel's grid has too many axes";
        return NULL;
    }
    *x = (Interp){a, m, manifest, ARENA_ARRAY(a, int32_t, SCALAR_HYPER0 + m->hypers.n), ARENA_ARRAY(a, int64_t, m->syms.n + 1)};
    return x;
}

/* What the state that tells of skipped steps holds; 0 where there is none. */
static int32_t skips(const Module *m, Entry e, const fusec_memory *memory) {
    int32_t value = 0;
    for (int i = 0; i < m->states.n && (e == ENTRY_GRAD || e == ENTRY_STEP); i++)
        if (m->states.at[i].outcome) memcpy(&value, (const char *)memory->states + m->states.at[i].offset, sizeof value);
    return value;
}

static bool run(void *self, const fusec_memory *memory, const ExecutorCall *c, const char **error) {
    Interp *x = self;
    x->scalars[SCALAR_STEP] = c->step;
    x->scalars[SCALAR_SEED] = (int32_t)c->seed;
    x->scalars[SCALAR_ACCUMULATE] = c->accumulate;
    memcpy(x->scalars + SCALAR_HYPER0, c->hypers, sizeof(float) * (size_t)x->m->hypers.n);
    for (int i = 0; i < x->m->syms.n; i++) x->syms[i] = c->syms[i];
    const ModuleMemory mem = {.params = memory->params,
                              .states = memory->states,
                              .grads = memory->grads,
                              .arena = memory->arena,
                              .scalars = x->scalars,
                              .inputs = c->inputs,
                              .outputs = c->outputs,
                              .lines = c->lines};
    fusec_status s = FUSEC_OK;
    if (x->manifest) s = fusec_check_inputs(x->manifest, (const void *const *)c->inputs, c->hypers, c->syms);
    if (s != FUSEC_OK) {
        *error = fusec_status_text(s);
        return false;
    }
    const int32_t before = skips(x->m, c->entry, memory);
    if (!module_run(x->arena, x->m, c->entry, &mem, x->syms, error)) return false;
    s = fusec_outcome(before, skips(x->m, c->entry, memory));
    if (s == FUSEC_OK && x->manifest)
        s = fusec_check_results(x->manifest, (int)c->entry, memory->grads, c->outputs, c->syms);
    const bool ok = s == FUSEC_OK || s == FUSEC_SKIPPED; /* the states tell of skipped steps */
    if (!ok) *error = fusec_status_text(s);
    return ok;
}

static void close_interp(void *self) { (void)self; }

const ExecutorKind executor_interp = {
    .name = "interp", .target = target, .open = open_interp, .run = run, .close = close_interp};
