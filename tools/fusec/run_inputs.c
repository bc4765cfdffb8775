/* --inputs FILE: the inputs of one call. */
#include "tools/fusec/run.h"
#include "ir/memory.h"
#include "tools/fusec/write_file.h"
#include <stdlib.h>
#include <string.h>

static const char *const *input_names(Run *r) {
    const char **names = ARENA_ARRAY(r->arena, const char *, r->m->inputs.n + 1);
    for (int i = 0; i < r->m->inputs.n; i++) names[i] = r->m->inputs.at[i].name;
    return names;
}

static int find_input(Run *r, const char *name) {
    for (int i = 0; i < r->m->inputs.n; i++)
        if (!strcmp(r->m->inputs.at[i].name, name)) return i;
    return -1;
}

static bool in_range(const Run *r, const ModuleTensor *t, const Array *from, const int32_t *values, int64_t n) {
    if (!t->has_range || t->dtype != DT_I32) return true;
    for (int64_t i = 0; i < n; i++)
        if (values[i] < t->lo || values[i] >= t->hi)
            return run_error("%s: %s: element %lld is %d, outside its declared range %lld..%lld", r->o->inputs,
                             from->name, (long long)i, values[i], (long long)t->lo, (long long)t->hi);
    return true;
}

/* The shape has been matched. */
static bool take(Run *r, const Array *from, int input) {
    const ModuleTensor *t = &r->m->inputs.at[input];
    const int64_t n = array_elements(from);
    void *dense = memory_alloc((size_t)(n * dtype_bytes(t->dtype) + 1));
    int64_t bad = 0;
    bool ok = element_convert(from->element, from->data, n, t->dtype, dense, &bad);
    if (!ok)
        run_error("%s: %s: element %lld, %g, is no %s", r->o->inputs, from->name, (long long)bad,
                  element_get(from->element, from->data + bad * element_info[from->element].bytes),
                  dtype_name(t->dtype));
    ok = ok && in_range(r, t, from, dense, n);
    if (ok) extents_expand(r, t, dense, r->inputs[input]);
    free(dense);
    return ok;
}

bool run_inputs(Run *r, bool *given, const char **seen) {
    Arrays file = {0};
    uint8_t *bytes;
    size_t n;
    bool ok = true;
    for (int s = 0; s < r->m->syms.n; s++)
        if (run_extent_given(r, s)) seen[s] = "--extent";
    if (r->o->inputs && !weights_read(r, r->o->inputs, &file, &bytes, &n)) return false;
    if (r->o->inputs) write_file_keeps(r->o->inputs);
    for (int i = 0; i < file.n; i++) {
        const int input = find_input(r, file.at[i].name);
        if (input < 0)
            ok = run_error("%s: %s has no input %s%s", r->o->inputs, r->m->name, file.at[i].name,
                           names_hint(r->arena, file.at[i].name, input_names(r), r->m->inputs.n));
        else
            ok = extents_match(r, &r->m->inputs.at[input], file.at[i].rank, file.at[i].dim, seen) && ok;
    }
    for (int i = 0; i < file.n && ok; i++) {
        const int input = find_input(r, file.at[i].name);
        ok = take(r, &file.at[i], input);
        given[input] = true;
    }
    return ok;
}
