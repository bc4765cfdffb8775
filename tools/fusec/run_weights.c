/* Parameters and states, from and to safetensors. */
#include "tools/fusec/run.h"
#include <stdlib.h>
#include <string.h>

static const char state_prefix[] = "state/";

static void *place(Run *r, bool is_state, const ModuleTensor *t) {
    return (char *)(is_state ? r->memory.states : r->memory.params) + t->offset;
}

static void add(Run *r, Arrays *out, const char *prefix, bool is_state, const ModuleTensor *t) {
    Array x = {.name = arena_printf(r->arena, "%s%s", prefix, t->name),
               .element = element_of(t->dtype),
               .rank = t->shape.rank,
               .data = place(r, is_state, t)};
    for (int d = 0; d < x.rank; d++) x.dim[d] = t->shape.dim[d].bound;
    vec_push(r->arena, *out, x);
}

void weights_list(Run *r, const char *param_prefix, Arrays *out) {
    for (int i = 0; i < r->m->params.n; i++) add(r, out, param_prefix, false, &r->m->params.at[i]);
    for (int i = 0; i < r->m->states.n; i++) add(r, out, state_prefix, true, &r->m->states.at[i]);
}

/* As fusec_save has it.  NULL: no such text. */
static uint32_t checksum(const Arrays *list, const char *step, const char *seed) {
    const fusec_position at = {.step = step ? (int32_t)strtol(step, NULL, 10) : 0,
                               .seed = seed ? (uint32_t)strtoul(seed, NULL, 10) : 0};
    uint32_t crc = 0;
    for (int i = 0; i < list->n; i++) crc = fusec_crc32(crc, list->at[i].data, (uint64_t)array_bytes(&list->at[i]));
    return step || seed ? fusec_crc32_position(crc, &at) : crc;
}

static const char *value_of(const char *const *metadata, const char *key) {
    for (; metadata && *metadata; metadata += 2)
        if (!strcmp(*metadata, key)) return metadata[1];
    return NULL;
}

typedef struct Save {
    const Arrays *list;
    const char *const *metadata;
} Save;
static bool write_weights(FILE *f, void *user) {
    const Save *s = user;
    return safetensors_write(f, s->list, s->metadata);
}

bool weights_save(Run *r, const char *path, const char *const *metadata) {
    Arena *a = arena_new();
    Arrays list = {0};
    Run here = *r;
    int n = 0;
    here.arena = a;
    weights_list(&here, "", &list);
    while (metadata && metadata[n]) n++;
    const char **all = ARENA_ARRAY(a, const char *, n + 5);
    all[0] = "model", all[1] = r->m->name, all[2] = "crc32",
    all[3] = arena_printf(a, "%08x", (unsigned)checksum(&list, value_of(metadata, "step"), value_of(metadata, "seed")));
    for (int i = 0; i < n; i++) all[4 + i] = metadata[i];
    Save s = {&list, all};
    const bool ok = write_file(path, write_weights, &s);
    arena_free(a);
    return ok;
}

bool weights_read(Run *r, const char *path, Arrays *out, uint8_t **bytes, size_t *n) {
    const char *error;
    if (!file_read(r->arena, path, bytes, n, &error) || !safetensors_parse(r->arena, path, *bytes, *n, out, &error))
        return run_error("%s", error);
    const char *stored = safetensors_metadata(r->arena, *bytes, *n, "crc32");
    if (stored && strtoul(stored, NULL, 16) != checksum(out, safetensors_metadata(r->arena, *bytes, *n, "step"),
                                                        safetensors_metadata(r->arena, *bytes, *n, "seed")))
        return run_error("%s: corrupt: the CRC-32 of its data and position is not %s", path, stored);
    return true;
}

/* The module's tensor of that name; *is_state says which list it is of. */
static const ModuleTensor *find(const Module *m, const char *name, bool *is_state) {
    const size_t n = sizeof state_prefix - 1;
    for (int i = 0; i < m->params.n; i++)
        if (!strcmp(m->params.at[i].name, name)) {
            *is_state = false;
            return &m->params.at[i];
        }
    for (int i = 0; i < m->states.n && !strncmp(name, state_prefix, n); i++)
        if (!strcmp(m->states.at[i].name, name + n)) {
            *is_state = true;
            return &m->states.at[i];
        }
    return NULL;
}

static bool load_tensor(Run *r, const Array *x, const ModuleTensor *t, bool is_state, const char *path) {
    bool same = x->rank == t->shape.rank;
    for (int d = 0; d < x->rank && same; d++) same = x->dim[d] == t->shape.dim[d].bound;
    if (!same)
        return run_error("%s: %s has shape %s, the model has %s", path, x->name, array_shape_text(r->arena, x),
                         shape_text(r->arena, t->shape));
    int64_t bad = 0;
    if (element_convert(x->element, x->data, array_elements(x), t->dtype, place(r, is_state, t), &bad)) return true;
    return run_error("%s: %s: element %lld, %g, is no %s", path, x->name, (long long)bad,
                     element_get(x->element, x->data + bad * element_info[x->element].bytes), dtype_name(t->dtype));
}

typedef VEC(const char *) Names;

static Names missing(Run *r, const Arrays *file, bool params, bool states) {
    Names names = {0};
    for (int i = 0; params && i < r->m->params.n; i++)
        if (!arrays_find(file, r->m->params.at[i].name)) vec_push(r->arena, names, r->m->params.at[i].name);
    for (int i = 0; states && i < r->m->states.n; i++) {
        const char *name = arena_printf(r->arena, "%s%s", state_prefix, r->m->states.at[i].name);
        if (!arrays_find(file, name)) vec_push(r->arena, names, name);
    }
    return names;
}

static const char *hint(Run *r, const char *name) {
    Names all = {0};
    for (int i = 0; i < r->m->params.n; i++) vec_push(r->arena, all, r->m->params.at[i].name);
    return names_hint(r->arena, name, all.at, all.n);
}

static bool load_file(Run *r, const WeightsFile *f) {
    Arrays file = {0};
    uint8_t *bytes;
    size_t n;
    return !f->path || (weights_read(r, f->path, &file, &bytes, &n) && weights_load(r, &file, f->path, f->whole));
}

static bool load_files(Run *r, const WeightsFile *files, int n) {
    for (int i = 0; i < n; i++)
        if (!load_file(r, &files[i])) return false;
    return true;
}

/* Read twice where states are derived: first for the parameters that these are computed from, then for the states
 * that the files have themselves. */
bool weights_start(Run *r, const WeightsFile *files, int n) {
    bool any = false;
    for (int i = 0; i < n; i++) any |= files[i].path != NULL;
    if (!load_files(r, files, n)) return false;
    return !any || !r->m->entry[ENTRY_DERIVE].present || (run_derive(r) && load_files(r, files, n));
}

bool weights_load(Run *r, const Arrays *file, const char *path, bool whole) {
    bool ok = true, any_state = false;
    Names unknown = {0};
    for (int i = 0; i < file->n; i++) {
        bool is_state;
        if (!find(r->m, file->at[i].name, &is_state))
            vec_push(r->arena, unknown, file->at[i].name);
        else
            any_state |= is_state;
    }
    if (unknown.n)
        ok = run_error("%s: the model has no parameter %s%s", path, names_text(r->arena, unknown.at, unknown.n),
                       hint(r, unknown.at[0]));
    const Names lost = missing(r, file, whole, whole && any_state);
    if (lost.n) ok = run_error("%s: missing: %s", path, names_text(r->arena, lost.at, lost.n));
    for (int i = 0; i < file->n; i++) {
        bool is_state;
        const ModuleTensor *t = find(r->m, file->at[i].name, &is_state);
        if (t) ok = load_tensor(r, &file->at[i], t, is_state, path) && ok;
    }
    return ok;
}
