/* Entry infer over rows.  Where a batch cannot be partial, the last one is filled up with one of its rows.  A scalar of
 * such a batch still holds the padding; if it is a mean or a sum over rows that are computed apart from each other,
 * as they are at inference, a batch of nothing but that row tells its share, which is then taken out.  Whether it is one
 * is seen when another row fills the batch: what is left must be the same.  If not, as of a maximum or a root of a mean,
 * the scalar is of the whole batches alone, and a warning says so. */
#include "tools/fusec/train.h"
#include "ir/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Evaluate {
    Run *r;
    const Data *d;
    ScalarMean *mean;       /* per output */
    int accuracy_of, label; /* output, input; -1: none */
    int64_t hits, decisions;
    bool collect;
    uint8_t **rows;  /* per output: collected rows, or NULL */
    int64_t first, n, done; /* rows: the first, in all, collected */
} Evaluate;

bool is_scalar(const ModuleTensor *t) { return t->shape.rank == 0; }

static double scalar(const Run *r, int o) { return element_get(element_of(r->m->outputs.at[o].dtype), r->outputs[o]); }

static bool is_computed_scalar(const Run *r, int o) { return is_scalar(&r->m->outputs.at[o]) && r->outputs[o]; }

char *scalars_text(Arena *a, const Run *r, const ScalarMean *mean) {
    char *s = arena_strdup(a, "");
    for (int o = 0; o < r->m->outputs.n; o++)
        if (is_computed_scalar(r, o) && mean[o].rows > 0)
            s = arena_printf(a, "%s%s%s %.6g", s, *s ? "  " : "", r->m->outputs.at[o].name, mean[o].sum / (double)mean[o].rows);
    return s;
}

static bool has_batch(const Evaluate *e, const ModuleTensor *t) {
    return t->shape.rank > 0 && dim_equal(t->shape.dim[0], e->d->batch);
}

/* ---- --accuracy OUTPUT=INPUT ------------------------------------------------------------------------------------ */
static bool find_accuracy(Evaluate *e) {
    const Module *m = e->r->m;
    const char *text = e->r->o->accuracy, *eq = text ? strchr(text, '=') : NULL;
    e->accuracy_of = e->label = -1;
    if (!text) return true;
    for (int o = 0; eq && o < m->outputs.n; o++)
        if (strlen(m->outputs.at[o].name) == (size_t)(eq - text) &&
            !strncmp(m->outputs.at[o].name, text, (size_t)(eq - text)))
            e->accuracy_of = o;
    for (int i = 0; eq && i < m->inputs.n; i++)
        if (!strcmp(m->inputs.at[i].name, eq + 1)) e->label = i;
    if (e->accuracy_of < 0 || e->label < 0)
        return run_error("--accuracy %s: OUTPUT=INPUT is needed, names of %s's outputs and inputs", text, m->name);
    const ModuleTensor *y = &m->outputs.at[e->accuracy_of], *x = &m->inputs.at[e->label];
    bool fits = y->shape.rank == x->shape.rank + 1 && x->dtype == DT_I32 &&
                dim_is_fixed(y->shape.dim[y->shape.rank - 1]) && has_batch(e, y);
    for (int i = 0; i < x->shape.rank && fits; i++) fits = dim_equal(x->shape.dim[i], y->shape.dim[i]);
    if (!e->r->wanted[e->accuracy_of])
        return run_error("--accuracy %s: %s is not among the outputs wanted", text, y->name);
    return fits ||
           run_error("--accuracy %s: %s has shape %s; %s must be i32 of that without the last axis, but is %s %s", text,
                     y->name, shape_text(e->r->arena, y->shape), x->name, dtype_name(x->dtype),
                     shape_text(e->r->arena, x->shape));
}

static int64_t elements_per_row(const ModuleTensor *t) {
    int64_t n = 1;
    for (int d = 1; d < t->shape.rank; d++) n *= t->shape.dim[d].bound;
    return n;
}

static void count_hits(Evaluate *e, int64_t n) {
    const ModuleTensor *y = &e->r->m->outputs.at[e->accuracy_of];
    const int64_t classes = y->shape.dim[y->shape.rank - 1].bound,
                  labels = n * elements_per_row(&e->r->m->inputs.at[e->label]);
    const Element type = element_of(y->dtype);
    const int bytes = element_info[type].bytes;
    const uint8_t *at = e->r->outputs[e->accuracy_of];
    const int32_t *label = e->r->inputs[e->label];
    for (int64_t i = 0; i < labels; i++, at += classes * bytes) {
        int64_t best = 0;
        for (int64_t c = 1; c < classes; c++)
            if (element_get(type, at + c * bytes) > element_get(type, at + best * bytes)) best = c;
        e->hits += best == label[i];
        e->decisions++;
    }
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
static bool infer(Evaluate *e, const int64_t *rows, int64_t n) {
    return data_fill(e->r, e->d, rows, n) && run_call(e->r, ENTRY_INFER, e->r->step > 0 ? e->r->step : 1, false);
}

static void collect(Evaluate *e, int64_t n) {
    for (int o = 0; o < e->r->m->outputs.n && e->collect; o++) {
        if (!e->rows[o]) continue;
        const ModuleTensor *t = &e->r->m->outputs.at[o];
        const int64_t bytes = elements_per_row(t) * dtype_bytes(t->dtype);
        memcpy(e->rows[o] + e->done * bytes, e->r->outputs[o], (size_t)(n * bytes));
    }
    e->done += n;
}

static void add_mean(Evaluate *e, int o, double sum, int64_t rows) {
    e->mean[o].sum += sum;
    e->mean[o].rows += rows;
}

/* Adds the scalars of a batch of rows [first, first + n) and row `fill` for the rest, with their weight. */
static bool add_batch(Evaluate *e, int64_t *rows, int64_t first, int64_t n, int64_t fill, double weight, double *to,
                      double *size) {
    for (int64_t i = 0; i < e->d->capacity; i++) rows[i] = i < n ? first + i : fill;
    if (!infer(e, rows, e->d->capacity)) return false;
    for (int o = 0; o < e->r->m->outputs.n; o++) {
        if (!is_computed_scalar(e->r, o)) continue;
        to[o] += weight * scalar(e->r, o);
        size[o] += fabs(weight * scalar(e->r, o));
    }
    return true;
}

static void take_rows(Evaluate *e, int64_t n) {
    if (e->accuracy_of >= 0) count_hits(e, n);
    collect(e, n);
}

static const double ROUNDING = 2e-6; /* of f32, relative to all that is added */

static bool any_scalar(const Evaluate *e) {
    for (int o = 0; o < e->r->m->outputs.n; o++)
        if (is_computed_scalar(e->r, o)) return true;
    return false;
}

/* Of the n rows of this batch one with other inputs than the first has; 0: there is none. */
static int64_t other_row(const Evaluate *e, int64_t n) {
    const Module *m = e->r->m;
    for (int64_t row = 1; row < n; row++)
        for (int i = 0; i < m->inputs.n; i++) {
            const ModuleTensor *x = &m->inputs.at[i];
            const int64_t bytes = has_batch(e, x) && data_has(e->d, i) ? elements_per_row(x) * dtype_bytes(x->dtype) : 0;
            const uint8_t *at = e->r->inputs[i];
            if (bytes && memcmp(at, at + row * bytes, (size_t)bytes)) return row;
        }
    return 0;
}

static bool evaluate_partial(Evaluate *e, int64_t first, int64_t n, int64_t *rows) {
    enum { FILLS = 2 };
    const int outputs = e->r->m->outputs.n;
    const int64_t capacity = e->d->capacity;
    int64_t fill[FILLS] = {first, e->first};
    double *value[FILLS], *size = ARENA_ARRAY(e->r->arena, double, outputs + 1); /* size: of all that is added */
    for (int f = 0; f < FILLS; f++) {
        value[f] = ARENA_ARRAY(e->r->arena, double, outputs + 1);
        if (!add_batch(e, rows, first, n, fill[f], (double)capacity, value[f], size)) return false;
        if (f == 0) {
            const int64_t other = other_row(e, n);
            if (other) fill[1] = first + other;
            take_rows(e, n);
        }
        if (!add_batch(e, rows, first, 0, fill[f], -(double)(capacity - n), value[f], size)) return false;
    }
    for (int o = 0; o < outputs; o++) {
        if (!is_computed_scalar(e->r, o)) continue;
        if (!(fabs(value[1][o] - value[0][o]) > ROUNDING * size[o])) {
            add_mean(e, o, value[0][o], n);
            continue;
        }
        fprintf(stderr,
                "fusec: warning: %s is no mean over rows: it leaves out the last %lld, which fill no batch of %lld; "
                "with a bounded dimension (`dim B <= %lld`) they count\n",
                e->r->m->outputs.at[o].name, (long long)n, (long long)e->d->capacity, (long long)e->d->capacity);
    }
    return true;
}

/* rows has room for a whole batch. */
static bool evaluate_batch(Evaluate *e, int64_t first, int64_t n, int64_t *rows) {
    if (!e->d->partial && n < e->d->capacity && any_scalar(e)) return evaluate_partial(e, first, n, rows);
    for (int64_t i = 0; i < e->d->capacity; i++) rows[i] = first + (i < n ? i : 0);
    if (!infer(e, rows, e->d->partial ? n : e->d->capacity)) return false;
    for (int o = 0; o < e->r->m->outputs.n; o++)
        if (is_computed_scalar(e->r, o)) add_mean(e, o, (double)n * scalar(e->r, o), n);
    take_rows(e, n);
    return true;
}

static bool evaluate_rows(Evaluate *e, int64_t first, int64_t last) {
    int64_t *rows = memory_zeroed((size_t)e->d->capacity, sizeof *rows);
    bool ok = true;
    for (int64_t at = first; at < last && ok; at += e->d->capacity) {
        const int64_t n = last - at < e->d->capacity ? last - at : e->d->capacity;
        ok = evaluate_batch(e, at, n, rows);
        if (ok && interrupt_pending()) ok = run_error("interrupted");
    }
    free(rows);
    return ok;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */
/* Rows at the bounds: no dimension but the batch's follows a run-time extent. */
static bool is_collected(const Evaluate *e, const ModuleTensor *t) {
    bool fixed = has_batch(e, t);
    for (int d = 1; d < t->shape.rank; d++) fixed = fixed && dim_is_fixed(t->shape.dim[d]);
    return fixed;
}

static bool write_list(FILE *f, void *user) { return safetensors_write(f, user, NULL); }

static bool write_collected(const Evaluate *e, const char *path) {
    Arrays list = {0};
    const Run *r = e->r;
    for (int o = 0; o < r->m->outputs.n; o++) {
        const ModuleTensor *t = &r->m->outputs.at[o];
        Array x = {.name = t->name, .element = element_of(t->dtype), .rank = t->shape.rank, .data = e->rows[o]};
        if (is_computed_scalar(r, o) && e->mean[o].rows > 0) {
            double *mean = ARENA_NEW(r->arena, double);
            *mean = e->mean[o].sum / (double)e->mean[o].rows;
            x.element = ELEMENT_F64;
            x.data = (const uint8_t *)mean;
        }
        if (!x.data) continue;
        for (int d = 0; d < x.rank; d++) x.dim[d] = d ? t->shape.dim[d].bound : e->n;
        vec_push(r->arena, list, x);
    }
    return write_file(path, write_list, &list);
}

/* Outputs that nobody reads are not computed; those dropped are in `all` and come back with restore(). */
static void choose(Evaluate *e, void **all) {
    for (int o = 0; o < e->r->m->outputs.n; o++) {
        const ModuleTensor *t = &e->r->m->outputs.at[o];
        const bool wanted = e->r->wanted[o];
        all[o] = e->r->outputs[o];
        const bool used = o == e->accuracy_of || (wanted && (is_scalar(t) || (e->collect && is_collected(e, t))));
        if (!used)
            e->r->outputs[o] = NULL;
        else if (wanted && e->collect && is_collected(e, t))
            e->rows[o] = memory_alloc((size_t)(e->n * elements_per_row(t) * dtype_bytes(t->dtype)) + 1);
    }
}

static bool check_inputs(const Evaluate *e) {
    Texts missing = {0};
    for (int i = 0; i < e->r->m->inputs.n; i++)
        if (!data_has(e->d, i) && run_needs_input(e->r, ENTRY_INFER, i))
            vec_push(e->r->arena, missing, e->r->m->inputs.at[i].name);
    return !missing.n || run_error("missing input: %s (--data NAME=FILE, or --want an output that does without)",
                                   names_text(e->r->arena, missing.at, missing.n));
}

static void print(const Evaluate *e, const char *title) {
    char *text = scalars_text(e->r->arena, e->r, e->mean);
    printf("%s: %lld rows%s%s", title, (long long)e->n, *text ? "  " : "", text);
    if (e->accuracy_of >= 0)
        printf("  accuracy %.2f%% (%lld of %lld)", 100.0 * (double)e->hits / (double)(e->decisions ? e->decisions : 1),
               (long long)e->hits, (long long)e->decisions);
    putchar('\n');
    fflush(stdout);
}

bool evaluate(Run *r, const Data *d, int64_t first, int64_t last, const char *title, const char *outputs) {
    const int n = r->m->outputs.n;
    Evaluate e = {.r = r,
                  .d = d,
                  .mean = ARENA_ARRAY(r->arena, ScalarMean, n + 1),
                  .rows = ARENA_ARRAY(r->arena, uint8_t *, n + 1),
                  .collect = outputs != NULL,
                  .first = first,
                  .n = last - first};
    void **all = ARENA_ARRAY(r->arena, void *, n + 1);
    if (!find_accuracy(&e)) return false;
    choose(&e, all);
    bool ok = check_inputs(&e) && evaluate_rows(&e, first, last);
    if (ok) print(&e, title);
    ok = ok && (!outputs || write_collected(&e, outputs));
    for (int o = 0; o < n; o++) {
        r->outputs[o] = all[o];
        free(e.rows[o]);
    }
    return ok;
}
