/* The collector of diagnostics; diag_print.c lays them out. */
#include "frontend/diag_items.h"
#include <ctype.h>
#include <string.h>

enum { MAX_ERRORS = 50, MAX_MESSAGE = 500 };

static const struct {
    const char *name;
} codes[] = {
#define DIAG(code, summary) [code] = {#code},
#include "frontend/diag.def"
#undef DIAG
};

const char *diag_code_name(DiagCode code) { return codes[code].name; }
bool diag_is_error(DiagCode code) { return codes[code].name[0] == 'E'; }

Diag *diag_new(Arena *a) {
    Diag *d = ARENA_NEW(a, Diag);
    d->arena = a;
    d->last = -1;
    return d;
}

int diag_file(Diag *d, const char *name, const char *text, size_t length, bool library) {
    const SourceFile file = {.name = arena_strdup(d->arena, name), .text = text, .length = length, .library = library};
    vec_push(d->arena, d->files, file);
    return d->files.n - 1;
}

const SourceFile *diag_source(const Diag *d, int file) {
    return file >= 0 && file < d->files.n ? &d->files.at[file] : NULL;
}

int diag_files(const Diag *d) { return d->files.n; }
int diag_errors(const Diag *d) { return d->errors; }
int diag_warnings(const Diag *d) { return d->warnings; }

/* A name may be as long as the file; a message is not. */
static const char *formatted(Diag *d, const char *fmt, va_list ap) {
    char *text = arena_vprintf(d->arena, fmt, ap);
    if (strnlen(text, MAX_MESSAGE + 1) <= MAX_MESSAGE) return text;
    size_t end = MAX_MESSAGE;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) end--; /* not inside a code point */
    text[end] = '\0';
    return arena_printf(d->arena, "%s...", text);
}

static bool same_place(SrcLoc a, SrcLoc b) { return a.file == b.file && a.line == b.line && a.col == b.col; }

static bool is_duplicate(const Diag *d, DiagCode code, SrcLoc loc, const char *text) {
    for (int i = 0; i < d->items.n; i++) {
        const DiagItem *item = &d->items.at[i];
        if (item->code == code && same_place(item->loc, loc) && strcmp(item->text, text) == 0) return true;
    }
    return false;
}

void diag_report(Diag *d, DiagCode code, SrcLoc loc, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = formatted(d, fmt, ap);
    va_end(ap);
    d->last = -1; /* notes to what is dropped are dropped too */
    if (is_duplicate(d, code, loc, text)) return;
    int *count = diag_is_error(code) ? &d->errors : &d->warnings;
    if ((*count)++ >= MAX_ERRORS) return;
    const DiagItem item = {.code = code, .loc = loc, .text = text, .order = d->items.n};
    vec_push(d->arena, d->items, item);
    d->last = d->items.n - 1;
}

static void add_remark(Diag *d, bool help, SrcLoc loc, const char *fmt, va_list ap) {
    if (d->last < 0) return;
    const DiagRemark remark = {.help = help, .loc = loc, .text = formatted(d, fmt, ap)};
    vec_push(d->arena, d->items.at[d->last].remarks, remark);
}

void diag_note(Diag *d, SrcLoc loc, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_remark(d, false, loc, fmt, ap);
    va_end(ap);
}

void diag_help(Diag *d, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_remark(d, true, (SrcLoc){0}, fmt, ap);
    va_end(ap);
}

enum { LONGEST_WORD = 63 };

static int least(int a, int b) { return a < b ? a : b; }

/* Optimal string alignment: insert, delete, replace, or swap two neighbours, each at cost 1; letter case is free. */
static int edit_distance(const char *a, int na, const char *b, int nb) {
    int rows[3][LONGEST_WORD + 1];
    for (int j = 0; j <= nb; j++) rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            const bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            row[j] = least(least(row[j - 1], above[j]) + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

const char *diag_nearest(const char *word, const char *const *names, int n) {
    const int length = (int)strnlen(word, LONGEST_WORD + 1);
    if (length == 0 || length > LONGEST_WORD) return NULL;
    int best = length <= 2 ? 2 : 2 + length / 4; /* one edit in a short word, one more per four letters */
    const char *nearest = NULL;
    for (int i = 0; i < n; i++) {
        const int candidate = (int)strnlen(names[i], LONGEST_WORD + 1);
        if (candidate == 0 || candidate > LONGEST_WORD) continue;
        const int distance = edit_distance(word, length, names[i], candidate);
        if (distance < best && distance < (length > candidate ? length : candidate))
            best = distance, nearest = names[i];
    }
    return nearest;
}
