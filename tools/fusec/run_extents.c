/* Run-time extents: symbols from shapes, and tensors between their run-time extents and the layout at the bounds. */
#include "tools/fusec/run.h"
#include <string.h>

static char *dims_text(Arena *a, int rank, const int64_t *dim) {
    Array x = {.rank = rank};
    memcpy(x.dim, dim, sizeof *dim * (size_t)rank);
    return array_shape_text(a, &x);
}

/* scale * S + offset = extent; false if no whole S from 1 to the bound gives it: then *remedy says what to do. */
static bool solve(const Run *r, Dim d, int64_t extent, int64_t *s, const char **remedy) {
    const SymDecl *sym = &r->m->syms.at[d.sym];
    *remedy = "";
    if (d.scale == 0 || (extent - d.offset) % d.scale) return false;
    *s = (extent - d.offset) / d.scale;
    if (*s < 1) *remedy = arena_printf(r->arena, "; %s is at least 1: make no call where there is nothing", sym->name);
    if (*s > sym->bound)
        *remedy = arena_printf(r->arena, "; -D %s=%lld plans memory for as many", sym->name, (long long)*s);
    return !**remedy;
}

/* The dimensions as they are declared, those that follow a bounded one as the sum that they are. */
static const char *declared_text(const Run *r, Shape s) {
    for (int d = 0; d < s.rank; d++) {
        const Dim x = s.dim[d];
        if (dim_is_fixed(x) || x.name) continue;
        const char *by = x.scale == 1 ? "" : arena_printf(r->arena, "%lld*", (long long)x.scale);
        s.dim[d].name = arena_printf(r->arena, "%s%s%+lld", by, r->m->syms.at[x.sym].name, (long long)x.offset);
    }
    return shape_text(r->arena, s);
}

bool extents_match(Run *r, const ModuleTensor *t, int rank, const int64_t *dim, const char **seen) {
    const char *given = dims_text(r->arena, rank, dim), *wanted = declared_text(r, t->shape);
    const char *remedy = "";
    bool fits = rank == t->shape.rank;
    for (int d = 0; d < rank && fits; d++) {
        const Dim x = t->shape.dim[d];
        int64_t s;
        if (dim_is_fixed(x)) {
            fits = dim[d] == x.bound;
            continue;
        }
        if (!solve(r, x, dim[d], &s, &remedy)) {
            fits = false;
            continue;
        }
        const SymDecl *sym = &r->m->syms.at[x.sym];
        if (seen[x.sym] && r->syms[x.sym] != s)
            return run_error("%s is %d in %s but %lld in %s %s", sym->name, r->syms[x.sym], seen[x.sym], (long long)s,
                             t->name, given);
        if (!seen[x.sym]) seen[x.sym] = arena_printf(r->arena, "%s %s", t->name, given);
        r->syms[x.sym] = (int32_t)s;
    }
    return fits || run_error("%s has shape %s, the model declares %s%s", t->name, given, wanted, remedy);
}

int64_t extents_at(const Run *r, Shape s, int64_t *dim) {
    int64_t n = 1;
    for (int d = 0; d < s.rank; d++) {
        const Dim x = s.dim[d];
        dim[d] = dim_is_fixed(x) ? x.bound : x.scale * r->syms[x.sym] + x.offset;
        n *= dim[d];
    }
    return n;
}

typedef struct Copy {
    int rank;
    int64_t extent[MAX_RANK], stride[MAX_RANK]; /* stride at the bound, bytes */
    size_t row;                                 /* bytes of the innermost run */
    bool expand;
} Copy;

static char *copy(const Copy *c, int d, char *dense, char *bound) {
    if (d == c->rank) {
        memcpy(c->expand ? bound : dense, c->expand ? dense : bound, c->row);
        return dense + c->row;
    }
    for (int64_t i = 0; i < c->extent[d]; i++) dense = copy(c, d + 1, dense, bound + i * c->stride[d]);
    return dense;
}

static void copy_tensor(const Run *r, const ModuleTensor *t, char *dense, char *bound, bool expand) {
    Copy c = {.rank = t->shape.rank, .expand = expand};
    int64_t stride = dtype_bytes(t->dtype);
    c.row = (size_t)stride;
    extents_at(r, t->shape, c.extent);
    for (int d = c.rank - 1; d >= 0; d--) {
        c.stride[d] = stride;
        stride *= t->shape.dim[d].bound;
    }
    /* inner dimensions at their bounds are one run */
    while (c.rank > 0 && c.extent[c.rank - 1] == t->shape.dim[c.rank - 1].bound) c.row *= (size_t)c.extent[--c.rank];
    copy(&c, 0, dense, bound);
}

void extents_expand(const Run *r, const ModuleTensor *t, const void *dense, void *bound) {
    copy_tensor(r, t, (char *)(uintptr_t)dense, bound, true);
}
void extents_gather(const Run *r, const ModuleTensor *t, const void *bound, void *dense) {
    copy_tensor(r, t, dense, (char *)(uintptr_t)bound, false);
}
