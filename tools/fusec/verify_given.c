/* verify --params, --inputs: what files have, in place of random data. */
#include "tools/fusec/verify.h"
#include <stdlib.h>
#include <string.h>

static int find(const TensorDecl *at, int n, const char *name) {
    int i = 0;
    while (i < n && strcmp(at[i].name, name)) i++;
    return i < n ? i : -1;
}

static bool unknown(const Verify *v, const char *path, const char *name, const char *what, const TensorDecl *at, int n) {
    const char **names = ARENA_ARRAY(v->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) names[i] = at[i].name;
    return run_error("%s: %s has no %s %s%s", path, v->model->name, what, name, names_hint(v->arena, name, names, n));
}

static bool in_range(const char *path, const TensorDecl *d, const Tensor *t) {
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; d->has_range && d->dtype == DT_I32 && i < n; i++)
        if (t->data[i] < (double)d->lo || t->data[i] >= (double)d->hi)
            return run_error("%s: %s: element %lld is %g, outside its declared range %lld..%lld", path, d->name, (long long)i, t->data[i],
                             (long long)d->lo, (long long)d->hi);
    return true;
}

/* In the dtype that memory has, as float64. */
static bool take(const Verify *v, const char *path, const Array *from, const TensorDecl *d, Tensor *to) {
    const int64_t n = array_elements(from);
    uint8_t *dense = arena_alloc(v->arena, (size_t)(n * dtype_bytes(d->dtype)) + 1);
    int64_t bad;
    if (!element_convert(from->element, from->data, n, d->dtype, dense, &bad))
        return run_error("%s: %s: element %lld is no %s", path, from->name, (long long)bad, dtype_name(d->dtype));
    *to = (Tensor){.rank = from->rank, .data = ARENA_ARRAY(v->arena, double, n + 1)};
    memcpy(to->dim, from->dim, sizeof *to->dim * (size_t)from->rank);
    for (int64_t i = 0; i < n; i++) to->data[i] = element_get(element_of(d->dtype), dense + i * dtype_bytes(d->dtype));
    return in_range(path, d, to);
}

static bool take_weight(Verify *v, const char *path, const Array *x) {
    static const char prefix[] = "state/";
    const size_t skipped = sizeof prefix - 1;
    const Model *m = v->model;
    const int param = find(m->params.at, m->params.n, x->name);
    const int state = param < 0 && !strncmp(x->name, prefix, skipped) ? find(m->states.at, m->states.n, x->name + skipped) : -1;
    if (param < 0 && state < 0) return unknown(v, path, x->name, "parameter", m->params.at, m->params.n);
    const TensorDecl *d = param >= 0 ? &m->params.at[param] : &m->states.at[state];
    bool fits = x->rank == d->shape.rank;
    for (int k = 0; k < x->rank && fits; k++) fits = x->dim[k] == d->shape.dim[k].bound;
    if (!fits)
        return run_error("%s: %s has shape %s, the model declares %s", path, x->name, array_shape_text(v->arena, x),
                         shape_text(v->arena, d->shape));
    return take(v, path, x, d, param >= 0 ? &v->given.params[param] : &v->given.states[state]);
}

/* Their shapes say what bounded dimensions are. */
static bool take_input(Verify *v, const char *path, const Array *x) {
    const Model *m = v->model;
    Run *r = &v->targets.at[0].run;
    const int i = find(m->inputs.at, m->inputs.n, x->name);
    if (i < 0) return unknown(v, path, x->name, "input", m->inputs.at, m->inputs.n);
    return extents_match(r, &r->m->inputs.at[i], x->rank, x->dim, v->given.extents) &&
           take(v, path, x, &m->inputs.at[i], &v->given.inputs[i]);
}

static bool take_file(Verify *v, const char *path, bool (*one)(Verify *v, const char *path, const Array *x)) {
    Arrays file = {0};
    uint8_t *bytes;
    size_t n;
    if (!path) return true;
    bool ok = weights_read(&v->targets.at[0].run, path, &file, &bytes, &n);
    for (int i = 0; i < file.n && ok; i++) ok = one(v, path, &file.at[i]);
    return ok;
}

bool verify_given(Verify *v) {
    const Model *m = v->model;
    v->given.params = ARENA_ARRAY(v->arena, Tensor, m->params.n + 1);
    v->given.states = ARENA_ARRAY(v->arena, Tensor, m->states.n + 1);
    v->given.inputs = ARENA_ARRAY(v->arena, Tensor, m->inputs.n + 1);
    v->given.extents = ARENA_ARRAY(v->arena, const char *, m->syms.n + 1);
    for (int s = 0; s < m->syms.n; s++)
        for (int i = 0; i < v->o->extents.n; i++)
            if (!strcmp(v->o->extents.at[i].name, m->syms.at[s].name)) v->given.extents[s] = "--extent";
    if (!v->targets.at[0].open) return true; /* and said so */
    return take_file(v, v->o->params, take_weight) && take_file(v, v->o->inputs, take_input);
}
