/* The regions a module works in, and calls on them. */
#include "ir/module_run.h"
#include "runtime/host/host.h"
#include "tools/fusec/run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void *run_block(Run *r, int64_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, (size_t)r->m->align, (size_t)(bytes > 0 ? bytes : 1)) != 0) {
        run_error("out of memory: %lld bytes are needed", (long long)bytes);
        r->status = EXIT_MEMORY;
        return NULL;
    }
    fusec_pool_large_pages(p, (uint64_t)bytes); /* before it is touched */
    memset(p, 0, (size_t)bytes);
    return p;
}

static bool give(Run *r, int64_t bytes, void **at, uint64_t *n) {
    *n = (uint64_t)bytes;
    *at = run_block(r, bytes);
    return *at != NULL;
}

static bool give_tensors(Run *r, const ModuleTensor *t, int n, void **at) {
    for (int i = 0; i < n; i++)
        if (!(at[i] = run_block(r, t[i].bytes))) return false;
    return true;
}

bool run_allocate(Run *r, const bool entries[ENTRY_COUNT]) {
    const Module *m = r->m;
    fusec_memory *mem = &r->memory;
    int64_t arena = 0;
    for (int e = 0; e < ENTRY_COUNT; e++)
        if (entries[e] && m->entry[e].arena_bytes > arena) arena = m->entry[e].arena_bytes;
    r->inputs = ARENA_ARRAY(r->arena, void *, m->inputs.n + 1);
    r->outputs = ARENA_ARRAY(r->arena, void *, m->outputs.n + 1);
    return give(r, m->param_bytes, &mem->params, &mem->param_bytes) &&
           give(r, m->state_bytes, &mem->states, &mem->state_bytes) &&
           (!entries[ENTRY_GRAD] || give(r, m->grad_bytes, &mem->grads, &mem->grad_bytes)) &&
           give(r, arena, &mem->arena, &mem->arena_bytes) && give_tensors(r, m->inputs.at, m->inputs.n, r->inputs) &&
           give_tensors(r, m->outputs.at, m->outputs.n, r->outputs);
}

void run_free(Run *r) {
    free(r->memory.params), free(r->memory.states), free(r->memory.grads), free(r->memory.arena);
    for (int i = 0; r->inputs && i < r->m->inputs.n; i++) free(r->inputs[i]);
    for (int i = 0; r->outputs && i < r->m->outputs.n; i++) free(r->outputs[i]);
    r->memory = (fusec_memory){0};
    r->inputs = r->outputs = NULL;
}

bool run_call(Run *r, Entry e, int64_t step, bool accumulate) {
    const ExecutorCall c = {.entry = e,
                            .accumulate = accumulate,
                            .lines = e == ENTRY_STEP && r->n_turns ? r->turn[(step - 1) % r->n_turns] : 0,
                            .inputs = e == ENTRY_INIT || e == ENTRY_DERIVE ? NULL : r->inputs,
                            .outputs = r->outputs,
                            .hypers = r->hypers,
                            .step = (int32_t)step,
                            .seed = r->seed,
                            .syms = r->syms};
    const char *error = "failed";
    if (r->kind->run(r->executor, &r->memory, &c, &error)) return true;
    return run_error("%s of %s on %s: %s", entry_name[e], r->m->name, r->kind->name, error);
}

static bool run_aside(Run *r, Entry e) {
    if (!r->m->entry[e].present) return true;
    const fusec_memory all = r->memory;
    r->memory.arena_bytes = (uint64_t)r->m->entry[e].arena_bytes;
    r->memory.arena = run_block(r, r->m->entry[e].arena_bytes);
    const bool ok = r->memory.arena && run_upload(r) && run_call(r, e, 1, false) && run_download(r);
    free(r->memory.arena);
    r->memory = all;
    return ok;
}

bool run_init(Run *r) { return run_aside(r, ENTRY_INIT); }
bool run_derive(Run *r) { return run_aside(r, ENTRY_DERIVE); }

bool run_upload(Run *r) {
    const char *error;
    return !r->kind->upload || r->kind->upload(r->executor, &r->memory, &error) ||
           run_error("%s: %s", r->kind->name, error);
}
bool run_download(Run *r) {
    const char *error;
    return !r->kind->download || r->kind->download(r->executor, &r->memory, &error) ||
           run_error("%s: %s", r->kind->name, error);
}

/* Training in f16: how often a step was skipped, and what the loss is multiplied by now. */
bool run_print_loss_scale(Run *r) {
    const char *states = r->memory.states;
    int32_t skips = 0;
    float scale = 0;
    bool scaled = false;
    for (int i = 0; i < r->m->states.n; i++) scaled |= !strcmp(r->m->states.at[i].name, "loss_scale.scale");
    if (!scaled) return true;
    if (!run_download(r)) return false;
    for (int i = 0; i < r->m->states.n; i++) {
        const ModuleTensor *t = &r->m->states.at[i];
        if (t->outcome) memcpy(&skips, states + t->offset, sizeof skips);
        if (i + 2 < r->m->states.n && r->m->states.at[i + 2].outcome) memcpy(&scale, states + t->offset, sizeof scale);
    }
    printf("loss scale: %g, %" PRId32 " step%s skipped\n", (double)scale, skips / 2, skips / 2 == 1 ? "" : "s");
    return true;
}

/* ---- which inputs a call needs --------------------------------------------------------------------------------- */
static bool reads(const Launch *l, int input) {
    for (int i = 0; i < l->n_args; i++)
        if (l->args[i].region == REGION_INPUT && l->args[i].index == input) return true;
    return false;
}

bool run_needs_input(const Run *r, Entry e, int input) {
    const ModuleEntry *x = &r->m->entry[e];
    uint32_t lines = 0;
    for (int i = 0; i < r->n_turns; i++) lines |= r->turn[i];
    for (int i = 0; i < x->launches.n; i++) {
        const Launch *l = &x->launches.at[i];
        if (!module_wants(r->m, e, r->outputs, lines, l)) continue;
        if (reads(l, input)) return true;
    }
    return false;
}
