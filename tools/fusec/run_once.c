/* One call, or N with the same inputs: everything from and to safetensors. */
#include "tools/fusec/run.h"
#include <stdlib.h>
#include <string.h>

typedef struct Once {
    Run *r;
    Entry entry;
    bool *given; /* by input */
} Once;

/* The other entries compute all outputs. */
static void drop_unwanted(Once *x) {
    Run *r = x->r;
    for (int i = 0; i < r->m->outputs.n && x->entry == ENTRY_INFER; i++)
        if (!r->wanted[i]) {
            free(r->outputs[i]);
            r->outputs[i] = NULL;
        }
}

static bool check_inputs(Once *x) {
    Run *r = x->r;
    Texts missing = {0}, possible = {0};
    for (int i = 0; i < r->m->inputs.n; i++)
        if (!x->given[i] && run_needs_input(r, x->entry, i)) vec_push(r->arena, missing, r->m->inputs.at[i].name);
    if (!missing.n) return true;
    for (int o = 0; o < r->m->outputs.n && x->entry == ENTRY_INFER; o++) {
        bool can = true;
        for (int i = 0; i < r->m->inputs.n && can; i++) can = x->given[i] || !r->reads[o * r->m->inputs.n + i];
        if (can) vec_push(r->arena, possible, r->m->outputs.at[o].name);
    }
    return run_error("missing input: %s (--inputs FILE)%s%s", names_text(r->arena, missing.at, missing.n),
                     possible.n ? "; without it --want can have: " : "",
                     possible.n ? names_text(r->arena, possible.at, possible.n) : "");
}

static bool take_params(Run *r) {
    const WeightsFile files[] = {{r->o->params, false}, {r->o->load, true}};
    return weights_start(r, files, 2);
}

/* ---- results ------------------------------------------------------------------------------------------------- */
static void list_output(Run *r, const ModuleTensor *t, const void *bound, Arrays *out) {
    Array y = {.name = t->name, .element = element_of(t->dtype), .rank = t->shape.rank};
    const int64_t n = extents_at(r, t->shape, y.dim);
    uint8_t *dense = arena_alloc(r->arena, (size_t)(n * dtype_bytes(t->dtype)) + 1);
    extents_gather(r, t, bound, dense);
    y.data = dense;
    vec_push(r->arena, *out, y);
}

static void list_results(Once *x, Arrays *out) {
    Run *r = x->r;
    for (int i = 0; i < r->m->outputs.n; i++)
        if (r->outputs[i]) list_output(r, &r->m->outputs.at[i], r->outputs[i], out);
    for (int i = 0; i < r->m->grads.n && x->entry == ENTRY_GRAD; i++) {
        const ModuleTensor *g = &r->m->grads.at[i];
        Array y = {.name = arena_printf(r->arena, "grad/%s", g->name),
                   .element = element_of(g->dtype),
                   .rank = g->shape.rank,
                   .data = (const uint8_t *)r->memory.grads + g->offset};
        for (int d = 0; d < y.rank; d++) y.dim[d] = g->shape.dim[d].bound;
        vec_push(r->arena, *out, y);
    }
    if (x->entry == ENTRY_STEP) weights_list(r, "param/", out);
}

static bool write_results(FILE *f, void *user) { return safetensors_write(f, user, NULL); }

/* Without --outputs, scalars are shown. */
static void print_scalars(const Run *r) {
    for (int i = 0; i < r->m->outputs.n; i++) {
        const ModuleTensor *t = &r->m->outputs.at[i];
        if (r->outputs[i] && t->shape.rank == 0)
            printf("%s %.9g\n", t->name, element_get(element_of(t->dtype), r->outputs[i]));
    }
}

static bool call(Once *x) {
    Run *r = x->r;
    const int64_t steps = r->o->steps > 0 ? r->o->steps : 1;
    bool ok = run_upload(r);
    for (int64_t s = 1; s <= steps && ok; s++)
        ok = run_call(r, x->entry, s, x->entry == ENTRY_GRAD && r->o->accumulate);
    return ok && run_download(r) && (x->entry == ENTRY_INFER || run_print_loss_scale(r));
}

static bool run_all(Once *x) {
    Run *r = x->r;
    const bool entries[ENTRY_COUNT] = {[ENTRY_INFER] = x->entry == ENTRY_INFER,
                                       [ENTRY_GRAD] = x->entry == ENTRY_GRAD,
                                       [ENTRY_STEP] = x->entry == ENTRY_STEP};
    if (!run_open(r, r->arena, r->o, entries) || !run_allocate(r, entries)) return false;
    x->given = ARENA_ARRAY(r->arena, bool, r->m->inputs.n + 1);
    if (!run_inputs(r, x->given, ARENA_ARRAY(r->arena, const char *, r->m->syms.n + 1))) return false;
    drop_unwanted(x);
    if (!check_inputs(x) || !run_init(r) || !take_params(r) || !call(x)) return false;
    if (!r->o->outputs) {
        print_scalars(r);
        return true;
    }
    Arrays out = {0};
    list_results(x, &out);
    return write_file(r->o->outputs, write_results, &out);
}

int run_once(Run *r) {
    Once x = {.r = r, .entry = r->o->run_entry == ENTRY_COUNT ? ENTRY_INFER : r->o->run_entry};
    if (x.entry == ENTRY_INIT) {
        run_error("run --entry takes infer, grad or step");
        return EXIT_USAGE;
    }
    return run_all(&x) ? EXIT_OK : r->status;
}
