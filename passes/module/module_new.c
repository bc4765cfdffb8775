/* The parts of a module that all entries share: declarations, offsets of parameters and states, the hash. */
#include "passes/memory/memory.h"
#include <string.h>

static ModuleTensor tensor_of(const TensorDecl *d) {
    return (ModuleTensor){.name = d->name,
                          .dtype = d->dtype,
                          .shape = d->shape,
                          .has_range = d->has_range,
                          .lo = d->lo,
                          .hi = d->hi,
                          .trainable = d->trainable,
                          .outcome = d->outcome,
                          .bytes = shape_elements(d->shape) * dtype_bytes(d->dtype),
                          .loc = d->loc};
}

/* One after the other, each aligned; returns the bytes of the region. */
static int64_t lay_out(ModuleTensor *t, int n, Placing placing, int64_t align) {
    int64_t at = 0;
    for (int i = 0; i < n; i++) t[i].offset = lay_block(placing, &at, t[i].bytes, align);
    return at;
}

/* FNV-1a, 64 bit. */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_int(uint64_t h, int64_t v) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)v >> (8 * i));
    return hash_bytes(h, bytes, sizeof bytes);
}

static uint64_t hash_tensors(uint64_t h, const ModuleTensor *t, int n) {
    h = hash_int(h, n);
    for (int i = 0; i < n; i++) {
        h = hash_bytes(h, t[i].name, strlen(t[i].name) + 1);
        h = hash_int(hash_int(h, t[i].dtype), t[i].shape.rank);
        for (int d = 0; d < t[i].shape.rank; d++) h = hash_int(h, t[i].shape.dim[d].bound);
    }
    return h;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

Module *module_new(PassContext *c, const Model *model) {
    Module *m = ARENA_NEW(c->arena, Module);
    *m = (Module){.arena = c->arena, .name = model->name, .align = c->target->align};
    m->source = model->files.n ? base_name(model->files.at[0]) : "";
    for (int i = 0; i < model->syms.n; i++) vec_push(m->arena, m->syms, model->syms.at[i]);
    _Static_assert(MAX_LINES <= (int)FUSEC_MAX_LINES, "a call has a bit for each line");
    for (int i = 0; i < model->lines.n; i++) vec_push(m->arena, m->lines, model->lines.at[i]);
    for (int i = 0; i < model->hypers.n; i++) vec_push(m->arena, m->hypers, model->hypers.at[i]);
    for (int i = 0; i < model->params.n; i++) vec_push(m->arena, m->params, tensor_of(&model->params.at[i]));
    for (int i = 0; i < model->states.n; i++) vec_push(m->arena, m->states, tensor_of(&model->states.at[i]));
    for (int i = 0; i < model->inputs.n; i++) vec_push(m->arena, m->inputs, tensor_of(&model->inputs.at[i]));
    for (int i = 0; i < model->outputs.n; i++) vec_push(m->arena, m->outputs, tensor_of(&model->outputs.at[i]));
    m->param_bytes = lay_out(m->params.at, m->params.n, c->placing, m->align);
    m->state_bytes = lay_out(m->states.at, m->states.n, c->placing, m->align);
    m->hash = hash_tensors(hash_tensors(0xcbf29ce484222325u, m->params.at, m->params.n), m->states.at, m->states.n);
    return m;
}
