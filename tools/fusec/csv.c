/* .csv: lines of numbers.  Blank lines are skipped; \r\n and a byte order mark are fine. */
#include "tools/fusec/array.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct CsvReader {
    Arena *a;
    const char *path;
    const char *at, *end;
    int line;
    const char **error;
} CsvReader;

__attribute__((format(printf, 2, 3))) static bool fail(const CsvReader *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    *r->error = arena_printf(r->a, "%s:%d: %s", r->path, r->line, arena_vprintf(r->a, fmt, ap));
    va_end(ap);
    return false;
}

typedef struct Field {
    const char *at;
    size_t n;
} Field;
typedef VEC(Field) Fields;

static bool is_blank(char c) { return c == ' ' || c == '\r'; }
static bool is_separator(char c) { return c == ',' || c == ';' || c == '\t'; }

static Field trim(const char *from, const char *to) {
    while (from < to && is_blank(*from)) from++;
    while (to > from && is_blank(to[-1])) to--;
    if (to - from >= 2 && *from == '"' && to[-1] == '"') from++, to--;
    return (Field){from, (size_t)(to - from)};
}

/* The line's fields; blanks separate only where nothing else does. */
static void split_line(CsvReader *r, Fields *f) {
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!stop) stop = r->end;
    bool separators = false;
    for (const char *p = r->at; p < stop; p++) separators |= is_separator(*p);
    f->n = 0;
    for (const char *p = r->at, *start = p; p <= stop; p++) {
        if (p < stop && !(separators ? is_separator(*p) : is_blank(*p))) continue;
        const Field field = trim(start, p);
        if (separators || field.n) vec_push(r->a, *f, field);
        start = p + 1;
    }
    if (f->n == 1 && f->at[0].n == 0) f->n = 0;
    r->at = stop < r->end ? stop + 1 : stop;
    r->line++;
}

/* Texts like nan and inf are numbers; 0x10 is not. */
static bool number(Field f, double *v) {
    char text[64];
    if (f.n == 0 || f.n >= sizeof text) return false;
    memcpy(text, f.at, f.n);
    text[f.n] = 0;
    if (strlen(text) != f.n || strpbrk(text, "xX(")) return false;
    char *end;
    *v = strtod(text, &end);
    return end != text && *end == 0;
}

static const char *const *read_header(Arena *a, const Fields *f) {
    double v;
    for (int i = 0; i < f->n; i++)
        if (number(f->at[i], &v)) return NULL;
    const char **names = ARENA_ARRAY(a, const char *, f->n + 1);
    for (int i = 0; i < f->n; i++) names[i] = arena_strndup(a, f->at[i].at, f->at[i].n);
    return names;
}

typedef struct Table {
    double *at;
    int64_t n, cap;
} Table;

static bool add_row(CsvReader *r, const Fields *f, int columns, Table *t) {
    if (f->n != columns) return fail(r, "%d fields, where the first line has %d", f->n, columns);
    if (t->n + columns > t->cap) {
        t->cap = t->cap ? t->cap * 2 : 4096;
        if (t->cap < t->n + columns) t->cap = t->n + columns;
        double *larger = ARENA_ARRAY(r->a, double, t->cap);
        if (t->n) memcpy(larger, t->at, sizeof *larger * (size_t)t->n);
        t->at = larger;
    }
    for (int c = 0; c < columns; c++) {
        const Field x = f->at[c];
        if (x.n == 0) return fail(r, "column %d is empty", c + 1);
        if (!number(x, &t->at[t->n++]))
            return fail(r, "column %d is not a number: \"%.*s\"", c + 1, (int)(x.n < 40 ? x.n : 40), x.at);
    }
    return true;
}

bool csv_parse(Arena *a, const char *path, const char *text, size_t n, Array *out, const char *const **header,
               const char **error) {
    CsvReader r = {.a = a, .path = path, .at = text, .end = text + n, .error = error};
    Fields f = {0};
    Table t = {0};
    int columns = -1;
    int64_t rows = 0;
    *header = NULL;
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) r.at += 3;
    while (r.at < r.end) {
        split_line(&r, &f);
        if (f.n == 0) continue;
        if (columns < 0) {
            columns = f.n;
            *header = read_header(a, &f);
            if (*header) continue;
        }
        if (!add_row(&r, &f, columns, &t)) return false;
        rows++;
    }
    if (rows == 0) {
        *error = arena_printf(a, "%s: no rows of numbers", path);
        return false;
    }
    *out = (Array){.element = ELEMENT_F64, .rank = 2, .dim = {rows, columns}, .data = (const uint8_t *)t.at};
    return true;
}
