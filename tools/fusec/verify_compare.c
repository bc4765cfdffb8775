/* One entry on one target, result by result. */
#include "tools/fusec/verify.h"
#include <math.h>
#include <string.h>

static const TensorDecl *decl_of(const Verify *v, const Result *r) {
    return r->kind == RESULT_OUTPUT  ? &v->model->outputs.at[r->decl]
           : r->kind == RESULT_STATE ? &v->model->states.at[r->decl]
                                     : &v->model->params.at[r->decl];
}

const char *verify_name(const Verify *v, const Result *r) {
    static const char *const kinds[] = {
        [RESULT_OUTPUT] = "output", [RESULT_GRAD] = "gradient", [RESULT_PARAM] = "parameter", [RESULT_STATE] = "state"};
    return arena_printf(v->arena, "%s %s", kinds[r->kind], decl_of(v, r)->name);
}

char *verify_element(Arena *a, const Tensor *t, int64_t element) {
    char *text = arena_strdup(a, "");
    for (int d = t->rank - 1; d >= 0; d--) {
        text = arena_printf(a, "%lld%s%s", (long long)(element % t->dim[d]), *text ? ", " : "", text);
        element /= t->dim[d];
    }
    return arena_printf(a, "[%s]", text);
}

static const ModuleTensor *find_gradient(const Module *m, const char *name) {
    for (int i = 0; i < m->grads.n; i++)
        if (!strcmp(m->grads.at[i].name, name)) return &m->grads.at[i];
    return NULL;
}

/* The tensor in the module, and where it is in the run's memory. */
static const ModuleTensor *locate(const Verify *v, const Run *r, const Result *x, const void **at) {
    const ModuleTensor *t;
    switch (x->kind) {
    case RESULT_OUTPUT: *at = r->outputs[x->decl]; return &r->m->outputs.at[x->decl];
    case RESULT_PARAM:
        t = &r->m->params.at[x->decl];
        *at = (const char *)r->memory.params + t->offset;
        return t;
    case RESULT_STATE:
        t = &r->m->states.at[x->decl];
        *at = (const char *)r->memory.states + t->offset;
        return t;
    default:
        t = find_gradient(r->m, decl_of(v, x)->name);
        if (t) *at = (const char *)r->memory.grads + t->offset;
        return t;
    }
}

static void note(VerifyTarget *t, Finding *f, const Wrong *w) {
    const double error = fabs(w->got - w->want), off = isnan(error) ? INFINITY : error;
    const bool holds = !w->found;
    if (!holds) f->wrong++;
    if (!holds && !t->wrong.found) t->wrong = *w;
    if (error == 0 || (holds && !(error <= w->within))) return;
    if (f->error == 0 || off * f->within > f->error * w->within || (!holds && !f->within))
        f->error = off, f->within = w->within;
}

/* `overflows`: a value that it may rest on does, by way of 0 times infinity too. */
static void compare(VerifyTarget *t, Finding *f, Entry e, int result, DType dtype, const double *got,
                    const Tensor *want, const Bound *b, bool overflows) {
    const int64_t n = tensor_elements(want);
    for (int64_t i = 0; i < n; i++) {
        const bool one_overflows = overflows && isfinite(got[i]) != isfinite(want->data[i]);
        const bool decided = !b->undecided[i] && !one_overflows;
        f->undecided += !decided;
        const Wrong w = {.found = decided && !bound_holds(dtype, got[i], want->data[i], b->within[i]),
                         .entry = e,
                         .result = result,
                         .element = i,
                         .got = got[i],
                         .want = want->data[i],
                         .within = b->within[i]};
        if (decided) note(t, f, &w);
    }
    f->elements += n;
}

/* What a step of another line leaves as it was; NULL: nothing. */
static const Tensor *kept_by(const Verify *v, const Result *r, int line) {
    const int own = decl_of(v, r)->line;
    if (line < 0 || own == 0 || own == line + 1) return NULL;
    return r->kind == RESULT_PARAM ? &v->params[r->decl] : r->kind == RESULT_STATE ? &v->states[r->decl] : NULL;
}

static Bound exact(Arena *a, const Tensor *t) {
    const int64_t n = tensor_elements(t) + 1;
    return (Bound){.within = ARENA_ARRAY(a, double, n), .undecided = ARENA_ARRAY(a, bool, n)};
}

static bool run(const Verify *v, Run *r, Entry e, int line) {
    if (!verify_put(v, r)) return false;
    r->n_turns = line >= 0;
    if (line >= 0) r->turn[0] = (uint32_t)1 << line;
    return (e == ENTRY_INIT ? run_init(r) : run_call(r, e, v->env.step, false)) && run_download(r);
}

bool verify_entry(Verify *v, VerifyTarget *t, Entry e, int line, const Bounds *b) {
    const Graph *g = v->graph[e];
    Arena *a = arena_new();
    bool ok = run(v, &t->run, e, line);
    if (!t->finding[e]) t->finding[e] = ARENA_ARRAY(v->arena, Finding, g->results.n + 1);
    for (int i = 0; i < g->results.n && ok; i++) {
        const Result *x = &g->results.at[i];
        const void *at = NULL;
        const ModuleTensor *m = locate(v, &t->run, x, &at);
        const int id = x->value->id;
        const Tensor *kept = kept_by(v, x, line);
        const Bound none = kept ? exact(a, kept) : b->bound[id];
        if (!m || !at)
            ok = run_error("%s of entry %s: there is none on %s", verify_name(v, x), entry_name[e], t->name);
        else
            compare(t, &t->finding[e][i], e, i, m->dtype, verify_get(a, &t->run, m, at), kept ? kept : &b->value[id], &none,
                    b->overflows && !kept);
    }
    arena_free(a);
    return ok;
}
