/* verify --params, --inputs: what files have, in place of random data.  Read as for `run`, into the memory of the first target that
 * is open, which each round overwrites. */
#include "tools/fusec/verify.h"
#include <string.h>

Run *verify_open_run(Verify *v) {
    for (int i = 0; i < v->targets.n; i++)
        if (v->targets.at[i].open) return &v->targets.at[i].run;
    return NULL;
}

static void take_list(Verify *v, const Run *r, const Arrays *file, const char *prefix, const ModuleTensor *at, int n, const void *memory,
                      const double **given) {
    for (int i = 0; i < n; i++)
        if (arrays_find(file, arena_printf(v->arena, "%s%s", prefix, at[i].name)))
            given[i] = verify_get(v->arena, r, &at[i], (const char *)memory + at[i].offset);
}

static bool take_weights(Verify *v, Run *r) {
    const Module *m = r->m;
    Arrays file = {0};
    uint8_t *bytes;
    size_t n;
    if (!v->o->params) return true;
    if (!weights_read(r, v->o->params, &file, &bytes, &n) || !weights_load(r, &file, v->o->params, false)) return false;
    take_list(v, r, &file, "", m->params.at, m->params.n, r->memory.params, v->given.params);
    take_list(v, r, &file, "state/", m->states.at, m->states.n, r->memory.states, v->given.states);
    return true;
}

static bool take_inputs(Verify *v, Run *r) {
    const Module *m = r->m;
    bool *given = ARENA_ARRAY(v->arena, bool, m->inputs.n + 1);
    if (!run_inputs(r, given, v->given.extents)) return false;
    for (int i = 0; i < m->inputs.n; i++)
        if (given[i]) v->given.inputs[i] = verify_get(v->arena, r, &m->inputs.at[i], r->inputs[i]);
    return true;
}

bool verify_given(Verify *v) {
    const Model *m = v->model;
    Run *r = verify_open_run(v);
    v->given.params = ARENA_ARRAY(v->arena, const double *, m->params.n + 1);
    v->given.states = ARENA_ARRAY(v->arena, const double *, m->states.n + 1);
    v->given.inputs = ARENA_ARRAY(v->arena, const double *, m->inputs.n + 1);
    v->given.extents = ARENA_ARRAY(v->arena, const char *, m->syms.n + 1);
    return !r || (take_weights(v, r) && take_inputs(v, r)); /* none is open: and said so */
}
