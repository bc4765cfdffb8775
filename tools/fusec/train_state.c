/* A run on disk: weights, and as metadata where the run was. */
#include "tools/fusec/train.h"
#include <stdlib.h>
#include <string.h>

static const char *number(Arena *a, int64_t v) { return arena_printf(a, "%lld", (long long)v); }

bool train_save(Training *t, const char *path) {
    Arena *a = arena_new();
    const char *const metadata[] = {
        "step",  number(a, t->r->step),       "epoch",     number(a, t->epoch), "row",      number(a, t->at),
        "seed",  number(a, t->r->seed),       "first_row", number(a, t->first), "last_row", number(a, t->last),
        "batch", number(a, t->data.capacity), NULL};
    const bool ok = run_download(t->r) && weights_save(t->r, path, metadata);
    arena_free(a);
    return ok;
}

typedef struct Saved {
    Run *r;
    const char *path;
    const uint8_t *bytes;
    size_t n;
} Saved;

static bool get(const Saved *s, const char *key, int64_t *v) {
    const char *text = safetensors_metadata(s->r->arena, s->bytes, s->n, key);
    char *end = NULL;
    *v = text ? strtoll(text, &end, 10) : -1;
    return (text && end != text && !*end && *v >= 0) ||
           run_error("%s: no %s: not saved by `fusec run --save`; --load takes weights alone", s->path, key);
}

static bool same(const char *path, const char *what, int64_t saved, int64_t now) {
    return saved == now || run_error("%s: cannot continue: its %s was %lld, now it is %lld", path, what,
                                     (long long)saved, (long long)now);
}

bool train_resume(Training *t, const char *path) {
    Run *r = t->r;
    Arrays file = {0};
    uint8_t *bytes;
    size_t n;
    int64_t seed = 0, first = 0, last = 0, batch = 0;
    if (!weights_read(r, path, &file, &bytes, &n)) return false;
    const Saved s = {r, path, bytes, n};
    if (!get(&s, "step", &r->step) || !get(&s, "epoch", &t->epoch) || !get(&s, "row", &t->at) ||
        !get(&s, "seed", &seed) || !get(&s, "first_row", &first) || !get(&s, "last_row", &last) ||
        !get(&s, "batch", &batch))
        return false;
    if (r->seed && r->seed != seed)
        return run_error("%s: it began with --seed %lld, and goes on with that: leave out --seed", path, (long long)seed);
    if (!same(path, "first row", first, t->first) || !same(path, "last row", last, t->last) ||
        !same(path, "batch", batch, t->data.capacity))
        return false;
    if (t->at > t->last - t->first - (t->data.partial ? 1 : batch) || r->step > INT32_MAX || t->epoch > INT32_MAX ||
        seed > UINT32_MAX)
        return run_error("%s: corrupt: its position is outside the data", path);
    r->seed = (uint32_t)seed;
    return weights_load(r, &file, path, true);
}
