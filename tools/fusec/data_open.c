/* Which file, which part of it, which input. */
#include "tools/fusec/data.h"
#include "tools/fusec/write_file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file that several inputs may have columns or tensors of: read once. */
typedef struct DataFile {
    const char *path;
    bool failed; /* which was said */
    uint8_t *bytes;
    size_t n;
    Array table; /* of a .csv */
    const char *const *header;
} DataFile;
typedef VEC(DataFile *) DataFiles;

typedef struct Open {
    Run *r;
    DataFiles *files;
    const ModuleTensor *input;
    DataSource *out;
    const char *path, *spec; /* spec: after the last colon, or NULL */
    int64_t shift;
} Open;

/* Does the name end with the suffix, or suffix.gz? */
static bool is_kind(const char *path, const char *suffix) {
    size_t n = strlen(path);
    const size_t k = strlen(suffix);
    if (n > 3 && !strcmp(path + n - 3, ".gz")) n -= 3;
    return n > k && !strncmp(path + n - k, suffix, k);
}

/* FILE:SPEC, unless a file has that very name. */
static void split_spec(Open *x, const char *text) {
    struct stat s;
    const char *colon = strrchr(text, ':');
    x->path = text;
    if (!colon || stat(text, &s) == 0) return;
    x->path = arena_strndup(x->r->arena, text, (size_t)(colon - text));
    x->spec = colon + 1;
}

/* +K at the end of FILE:SPEC:+K or FILE:+K. */
static bool take_shift(Open *x, char *text) {
    char *colon = strrchr(text, ':'), *end;
    if (!colon || colon[1] != '+') return true;
    const long long v = strtoll(colon + 2, &end, 10);
    if (end == colon + 2 || *end || v < 0 || v > INT32_MAX)
        return run_error("--data %s: a shift is +N, as in FILE:+1", text);
    x->shift = v;
    *colon = 0;
    return true;
}

/* ---- kinds of files: an array, then which part of a row ---------------------------------------------------- */
static bool pick_columns(Open *x, const char *const *header, int64_t columns, int64_t *from, int64_t *n) {
    char *end;
    *from = 0, *n = columns;
    if (!x->spec) return true;
    const long long first = strtoll(x->spec, &end, 10);
    long long last = first;
    if (end != x->spec && *end == '-') last = strtoll(end + 1, &end, 10);
    if (end != x->spec && !*end) {
        if (first < 1 || first > last || last > columns)
            return run_error("%s: no columns %s: it has 1-%lld", x->path, x->spec, (long long)columns);
        *from = first - 1, *n = last - first + 1;
        return true;
    }
    for (int64_t c = 0; header && c < columns; c++)
        if (!strcmp(header[c], x->spec)) {
            *from = c, *n = 1;
            return true;
        }
    return run_error("%s: no column %s%s", x->path, x->spec,
                     header ? names_hint(x->r->arena, x->spec, header, (int)columns) : "; it has no header");
}

static const DataFile *open_file(Open *x) {
    Arena *a = x->r->arena;
    const char *error;
    for (int i = 0; i < x->files->n; i++)
        if (!strcmp(x->files->at[i]->path, x->path)) return x->files->at[i];
    DataFile *f = ARENA_NEW(a, DataFile);
    write_file_keeps(x->path);
    *f = (DataFile){.path = x->path};
    vec_push(a, *x->files, f);
    f->failed = !file_read(a, x->path, &f->bytes, &f->n, &error) ||
                (is_kind(x->path, ".csv") &&
                 !csv_parse(a, x->path, (const char *)f->bytes, f->n, &f->table, &f->header, &error));
    if (f->failed) run_error("%s", error);
    return f;
}

static bool read_array(Open *x, Array *y, int64_t *column, int64_t *columns) {
    Arena *a = x->r->arena;
    const char *error;
    Arrays list = {0};
    const DataFile *f = open_file(x);
    uint8_t *bytes = f->bytes;
    const size_t n = f->n;
    *column = 0, *columns = 0; /* all of a row */
    if (f->failed) return false;
    if (is_kind(x->path, ".csv")) {
        *y = f->table;
        return pick_columns(x, f->header, y->dim[1], column, columns);
    }
    if (is_kind(x->path, ".npy")) {
        if (x->spec) return run_error("%s: .npy takes no :%s", x->path, x->spec);
        return npy_parse(a, x->path, bytes, n, y, &error) || run_error("%s", error);
    }
    if (is_kind(x->path, ".safetensors")) {
        if (!safetensors_parse(a, x->path, bytes, n, &list, &error)) return run_error("%s", error);
        const char **names = ARENA_ARRAY(a, const char *, list.n + 1);
        for (int i = 0; i < list.n; i++) names[i] = list.at[i].name;
        const char *wanted = x->spec ? x->spec : list.n == 1 ? names[0] : x->input->name;
        const Array *found = arrays_find(&list, wanted);
        if (!found) return run_error("%s: no tensor %s; it has: %s", x->path, wanted, names_text(a, names, list.n));
        *y = *found;
        return true;
    }
    if (x->spec) return run_error("%s: a file of bytes takes no :%s, only a shift, :+N", x->path, x->spec);
    if (x->input->dtype != DT_I32)
        return run_error("%s: not .csv, .npy or .safetensors; bytes are for integer inputs, %s is %s", x->path,
                         x->input->name, dtype_name(x->input->dtype));
    *y = (Array){.element = ELEMENT_U8, .rank = 1, .dim = {(int64_t)n}, .data = bytes};
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */
static int64_t row_count(const Run *r, const ModuleTensor *t) {
    int64_t dim[MAX_RANK];
    Shape rest = t->shape;
    rest.rank--;
    for (int d = 0; d < rest.rank; d++) rest.dim[d] = t->shape.dim[d + 1];
    return extents_at(r, rest, dim);
}

static bool make_windows(Open *x, int64_t length) {
    DataSource *s = x->out;
    s->windows = true;
    s->first += x->shift * s->stride; /* one element is one row of a column */
    s->rows = length - x->shift - s->count + 1;
    return s->rows > 0 || run_error("%s: %lld elements are too few for a window of %lld of %s", x->path,
                                    (long long)length, (long long)s->count, x->input->name);
}

static bool make_rows(Open *x, const Array *y, int64_t column, int64_t columns) {
    DataSource *s = x->out;
    const int64_t wanted = row_count(x->r, x->input);
    int64_t whole = 1;
    for (int d = 1; d < y->rank; d++) whole *= y->dim[d];
    if (y->rank == 0) return run_error("%s: a single number has no rows", x->path);
    if (!columns) columns = whole;
    *s = (DataSource){.input = s->input,
                      .path = x->path,
                      .element = y->element,
                      .values = y->data,
                      .first = column,
                      .stride = whole,
                      .count = wanted,
                      .rows = y->dim[0],
                      .column = column + 1};
    if (columns == 1 && whole == 1 && wanted > 1) return make_windows(x, y->dim[0]);
    if (x->shift)
        return run_error("--data %s: a shift is for windows over a sequence; %s has rows", x->input->name, x->path);
    return columns == wanted || run_error("%s: a row has %lld values, %s %s takes %lld", x->path, (long long)columns,
                                          x->input->name, shape_text(x->r->arena, x->input->shape), (long long)wanted);
}

static int find_input(Run *r, const char *name) {
    for (int i = 0; i < r->m->inputs.n; i++)
        if (!strcmp(r->m->inputs.at[i].name, name)) return i;
    const char **names = ARENA_ARRAY(r->arena, const char *, r->m->inputs.n + 1);
    for (int i = 0; i < r->m->inputs.n; i++) names[i] = r->m->inputs.at[i].name;
    run_error("--data: %s has no input %s%s; it has: %s", r->m->name, name,
              names_hint(r->arena, name, names, r->m->inputs.n), names_text(r->arena, names, r->m->inputs.n));
    return -1;
}

static bool open_source(Run *r, Data *d, DataFiles *files, const Override *option) {
    DataSource s = {.input = find_input(r, option->name)};
    Open x = {.r = r, .files = files, .out = &s};
    Array y;
    int64_t column, columns;
    if (s.input < 0) return false;
    if (data_has(d, s.input)) return run_error("--data %s is given twice", option->name);
    x.input = &r->m->inputs.at[s.input];
    if (x.input->shape.rank == 0) return run_error("--data %s: the input has no batch dimension", option->name);
    char *text = arena_strdup(r->arena, option->value);
    struct stat there;
    if (stat(text, &there) != 0 && !take_shift(&x, text)) return false;
    split_spec(&x, text);
    if (!read_array(&x, &y, &column, &columns) || !make_rows(&x, &y, column, columns)) return false;
    vec_push(r->arena, d->sources, s);
    return true;
}

/* One batch dimension, as many rows everywhere; windows may end early. */
static bool agree(Run *r, Data *d) {
    const DataSource *table = NULL;
    int64_t dim[MAX_RANK];
    d->batch_input = d->sources.at[0].input;
    const ModuleTensor *first = &r->m->inputs.at[d->batch_input];
    d->batch = first->shape.dim[0];
    d->rows = INT64_MAX;
    for (int i = 0; i < d->sources.n; i++) {
        const DataSource *s = &d->sources.at[i];
        const ModuleTensor *t = &r->m->inputs.at[s->input];
        if (!dim_equal(t->shape.dim[0], d->batch))
            return run_error("--data: %s %s and %s %s have different batch dimensions", first->name,
                             shape_text(r->arena, first->shape), t->name, shape_text(r->arena, t->shape));
        if (!s->windows && table && s->rows != table->rows)
            return run_error("%s has %lld rows, %s has %lld", table->path, (long long)table->rows, s->path,
                             (long long)s->rows);
        if (!s->windows && !table) table = s;
        if (s->rows < d->rows) d->rows = s->rows;
    }
    if (table && d->rows < table->rows)
        return run_error("%s has %lld rows, the windows beside it only %lld", table->path, (long long)table->rows,
                         (long long)d->rows);
    extents_at(r, first->shape, dim);
    d->capacity = dim[0];
    d->partial = !dim_is_fixed(d->batch) && d->batch.scale == 1 && d->batch.offset == 0;
    return d->capacity > 0 || run_error("%s: the batch has no rows", first->name);
}

bool data_has(const Data *d, int input) {
    for (int i = 0; i < d->sources.n; i++)
        if (d->sources.at[i].input == input) return true;
    return false;
}

bool data_open(Run *r, Data *d) {
    bool ok = true;
    DataFiles files = {0};
    *d = (Data){0};
    for (int i = 0; i < r->o->data.n; i++) ok = open_source(r, d, &files, &r->o->data.at[i]) && ok;
    return ok && agree(r, d);
}

bool data_range(const char *option, const char *text, int64_t rows, int64_t *first, int64_t *last) {
    char *end = NULL;
    *first = 0, *last = rows;
    if (!text) return true;
    const char *colon = strchr(text, ':');
    if (colon && colon != text) *first = strtoll(text, &end, 10);
    if (!colon || (end && end != colon)) return run_error("%s takes A:B, not %s", option, text);
    if (colon[1]) {
        *last = strtoll(colon + 1, &end, 10);
        if (*end) return run_error("%s takes A:B, not %s", option, text);
    }
    if (*first >= *last && *last >= 0 && *first <= rows)
        return run_error("%s %s: no row lies between; it takes rows from A up to but without B", option, text);
    return (*first >= 0 && *first <= rows && *last <= rows) ||
           run_error("%s %s: the data has rows 0:%lld", option, text, (long long)rows);
}
