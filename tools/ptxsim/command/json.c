/* The figures as JSON: {"gpu": .., "kernels": [{"name": .., "launches": .., COUNTER: .., "warps": {..}, ..}]}. */
#include "tools/ptxsim/command/command.h"
#include "ir/memory.h"
#include <jansson.h>
#include <stdlib.h>

static json_t *number(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *mix_object(const uint64_t *by_kind) {
    json_t *o = json_object();
    for (int k = 0; k < MIX_COUNT; k++)
        if (by_kind[k]) json_object_set_new(o, mix_name((Mix)k), number(by_kind[k]));
    return o;
}

static json_t *kernel_object(const KernelRecord *r, const Target *t) {
    double seconds[BOUNDS];
    const Bound bound = roofline(&r->count, t, seconds);
    json_t *o = json_pack("{s:s, s:I}", "name", r->name, "launches", (json_int_t)r->launches);
    json_t *matrix = json_object(), *least = json_object();
#define COUNTER(field, meaning) json_object_set_new(o, #field, number(r->count.field));
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
    for (size_t k = 0; k < r->shapes; k++) json_object_set_new(matrix, r->matrix[k].name, number(r->matrix[k].value));
    for (int b = 0; b < BOUNDS; b++) json_object_set_new(least, bound_name((Bound)b), json_real(seconds[b]));
    json_object_set_new(o, "warps", mix_object(r->warps));
    json_object_set_new(o, "threads", mix_object(r->threads));
    json_object_set_new(o, "matrix", matrix);
    json_object_set_new(o, "roofline_seconds", least);
    json_object_set_new(o, "bound", json_string(bound_name(bound)));
    return o;
}

bool json_print(FILE *f, const Records *all, const Target *t) {
    json_set_alloc_funcs(memory_alloc, free); /* it leaves out what it has no memory for */
    json_t *kernels = json_array();
    for (size_t k = 0; k < all->n; k++) json_array_append_new(kernels, kernel_object(&all->at[k], t));
    json_t *root = json_pack("{s:s, s:o}", "gpu", t->name, "kernels", kernels);
    const bool ok = root && json_dumpf(root, f, JSON_INDENT(1)) == 0;
    json_decref(root);
    fputc('\n', f);
    return ok;
}
