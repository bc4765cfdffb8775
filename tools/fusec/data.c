/* Rows of data into a batch, and what is checked before. */
#include "tools/fusec/data.h"
#include "ir/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *row_at(const DataSource *s, int64_t row) {
    return s->values + (s->first + row * s->stride) * element_info[s->element].bytes;
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */
/* "row 12, column 3"; of windows the element. */
static char *place(Arena *a, const DataSource *s, int64_t row, int64_t i) {
    if (s->windows)
        return arena_printf(a, "element %lld (counting from 0)", (long long)(row + i + s->first / s->stride));
    return arena_printf(a, "row %lld, column %lld (rows count from 0, columns from 1)", (long long)row,
                        (long long)(s->column + i));
}

static bool check_value(const Run *r, const DataSource *s, int64_t row, int64_t i) {
    const ModuleTensor *t = &r->m->inputs.at[s->input];
    const double v = element_get(s->element, row_at(s, row) + i * element_info[s->element].bytes);
    if (isnan(v)) return run_error("%s: NaN in %s", s->path, place(r->arena, s, row, i));
    if (dtype_is_float(t->dtype) && isfinite(v) && !isfinite(scalar_round(t->dtype, v)))
        return run_error("%s: %g in %s is beyond %s, which %s is in", s->path, v, place(r->arena, s, row, i),
                         dtype_name(t->dtype), t->name);
    if (t->dtype == DT_I32 && (v != floor(v) || v < INT32_MIN || v > INT32_MAX))
        return run_error("%s: %g in %s is no 32-bit integer, which %s needs", s->path, v, place(r->arena, s, row, i),
                         t->name);
    if (t->dtype == DT_BOOL && v != 0 && v != 1)
        return run_error("%s: %g in %s is neither 0 nor 1, which %s needs", s->path, v, place(r->arena, s, row, i),
                         t->name);
    if (t->has_range && (v < (double)t->lo || v >= (double)t->hi))
        return run_error("%s: %g in %s is outside the range of %s, %lld..%lld", s->path, v, place(r->arena, s, row, i),
                         t->name, (long long)t->lo, (long long)t->hi);
    return true;
}

bool data_check(const Run *r, const Data *d, int64_t first, int64_t last) {
    for (int k = 0; k < d->sources.n; k++) {
        const DataSource *s = &d->sources.at[k];
        /* windows overlap: the first element of each, all of the last */
        for (int64_t row = first; row < last; row++)
            for (int64_t i = 0; i < (s->windows && row < last - 1 ? 1 : s->count); i++)
                if (!check_value(r, s, row, i)) return false;
    }
    return true;
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */
static bool fill(Run *r, const DataSource *s, const int64_t *rows, int64_t n) {
    const ModuleTensor *t = &r->m->inputs.at[s->input];
    const int64_t bytes = s->count * dtype_bytes(t->dtype);
    char *dense = memory_alloc((size_t)(n * bytes) + 1);
    int64_t bad;
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i++)
        ok = element_convert(s->element, row_at(s, rows[i]), s->count, t->dtype, dense + i * bytes, &bad);
    if (ok) extents_expand(r, t, dense, r->inputs[s->input]);
    free(dense);
    return ok || run_error("%s: a value does not fit %s", s->path, t->name);
}

bool data_fill(Run *r, const Data *d, const int64_t *rows, int64_t n) {
    if (d->partial) r->syms[d->batch.sym] = (int32_t)n;
    for (int k = 0; k < d->sources.n; k++)
        if (!fill(r, &d->sources.at[k], rows, n)) return false;
    return true;
}
