/* Lays diagnostics out: place, message, the source line with the place underlined, notes, helps.
 * Columns in a SrcLoc count bytes; here tabs are expanded and UTF-8 code points take one cell each. */
#include "frontend/diag_items.h"
#include <stdlib.h>
#include <string.h>

enum { TAB = 4, WIDTH = 100, LEAD = 30 }; /* cells: of a tab, of an excerpt, before the caret when clipped */

/* A source line as terminal cells; cell[i] is the first cell of byte i, and cell[bytes] the line's width. */
typedef struct Line {
    const char *text;
    int bytes;
    int *cell;
} Line;

static bool find_line(const SourceFile *file, int number, Line *line) {
    const char *at = file->text, *end = file->text + file->length;
    for (int n = 1; n < number; n++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) return false;
        at = newline + 1;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *line = (Line){.text = at, .bytes = (int)((newline ? newline : end) - at)};
    if (line->bytes > 0 && at[line->bytes - 1] == '\r') line->bytes--;
    return true;
}

/* Bytes of the well-formed UTF-8 sequence at s, 0 when there is none. */
static int utf8_length(const char *s, int left) {
    const unsigned char c = (unsigned char)*s;
    const int n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (n > left) return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return n;
}

/* Bytes of the character at byte i of the line, at least 1. */
static int step(const Line *line, int i) {
    const int n = utf8_length(line->text + i, line->bytes - i);
    return n ? n : 1;
}

static void measure(Arena *a, Line *line) {
    line->cell = ARENA_ARRAY(a, int, line->bytes + 1);
    int cell = 0;
    for (int i = 0; i < line->bytes;) {
        const int n = step(line, i);
        for (int k = 0; k < n; k++) line->cell[i + k] = cell;
        cell += line->text[i] == '\t' ? TAB - cell % TAB : 1;
        i += n;
    }
    line->cell[line->bytes] = cell;
}

/* Prints the cells from..to; what a terminal would act on is replaced. */
static void print_cells(FILE *f, const Line *line, int from, int to) {
    for (int i = 0; i < line->bytes;) {
        const int n = step(line, i), first = line->cell[i], next = line->cell[i + n];
        const unsigned char c = (unsigned char)line->text[i];
        for (int cell = first; cell < next; cell++) {
            if (cell < from || cell >= to) continue;
            if (c == '\t')
                fputc(' ', f);
            else if (c < 0x20 || c == 0x7f || (c >= 0x80 && n == 1))
                fputs("\xef\xbf\xbd", f);
            else
                fwrite(line->text + i, 1, (size_t)n, f);
        }
        i += n;
    }
}

static int clamp(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }

static void print_underline(FILE *f, int blanks, int cells) {
    fprintf(f, "%*s^", blanks, "");
    for (int i = 1; i < cells; i++) fputc('~', f);
    fputc('\n', f);
}

static void print_excerpt(const Diag *d, FILE *f, SrcLoc loc) {
    const SourceFile *file = diag_source(d, loc.file);
    Line line;
    if (!file || !file->text || loc.line < 1 || !find_line(file, loc.line, &line)) return;
    Arena *scratch = arena_new();
    measure(scratch, &line);
    const int width = line.cell[line.bytes];
    /* one cell past the end is where a missing thing belongs */
    const int first = loc.col - 1 > line.bytes ? width : line.cell[clamp(loc.col - 1, 0, line.bytes)];
    const bool one_line = loc.end_line == loc.line && loc.end_col > loc.col;
    const int last = loc.end_line > loc.line ? width
                     : one_line              ? line.cell[clamp(loc.end_col - 1, 0, line.bytes)]
                                             : first;
    const int from = width > WIDTH && first > WIDTH - LEAD ? first - LEAD : 0;
    const int to = width > from + WIDTH ? from + WIDTH : width;
    const char *cut = from ? "..." : "";
    const int gutter = fprintf(f, "%4d | ", loc.line);
    fputs(cut, f);
    print_cells(f, &line, from, to);
    fprintf(f, "%s\n%*s| %*s", to < width ? "..." : "", gutter - 2, "", (int)strlen(cut), "");
    print_underline(f, first - from, clamp(last, first, to) - first);
    arena_free(scratch);
}

static void print_place(const Diag *d, FILE *f, SrcLoc loc) {
    const SourceFile *file = diag_source(d, loc.file);
    if (!file) return;
    fputs(file->name, f);
    if (loc.line > 0) fprintf(f, ":%d:%d", loc.line, loc.col > 0 ? loc.col : 1);
    fputs(": ", f);
}

static void print_item(const Diag *d, FILE *f, const DiagItem *item) {
    print_place(d, f, item->loc);
    fprintf(f, "%s: %s [%s]\n", diag_is_error(item->code) ? "error" : "warning", item->text,
            diag_code_name(item->code));
    print_excerpt(d, f, item->loc);
    for (int i = 0; i < item->remarks.n; i++) {
        const DiagRemark *remark = &item->remarks.at[i];
        if (remark->help) {
            fprintf(f, "     = help: %s\n", remark->text);
            continue;
        }
        print_place(d, f, remark->loc);
        fprintf(f, "note: %s\n", remark->text);
        print_excerpt(d, f, remark->loc);
    }
}

static int sign(int a, int b) { return (a > b) - (a < b); }

static int by_place(const void *pa, const void *pb) {
    const DiagItem *a = *(const DiagItem *const *)pa, *b = *(const DiagItem *const *)pb;
    if (a->loc.file != b->loc.file) return sign(a->loc.file, b->loc.file);
    if (a->loc.line != b->loc.line) return sign(a->loc.line, b->loc.line);
    if (a->loc.col != b->loc.col) return sign(a->loc.col, b->loc.col);
    return sign(a->order, b->order);
}

void diag_print(const Diag *d, FILE *f) {
    Arena *scratch = arena_new();
    const DiagItem **sorted = ARENA_ARRAY(scratch, const DiagItem *, d->items.n + 1);
    for (int i = 0; i < d->items.n; i++) sorted[i] = &d->items.at[i];
    qsort(sorted, (size_t)d->items.n, sizeof *sorted, by_place);
    for (int i = 0; i < d->items.n; i++) print_item(d, f, sorted[i]);
    const int hidden = d->errors + d->warnings - d->items.n;
    if (hidden > 0) fprintf(f, "%d more not shown\n", hidden);
    arena_free(scratch);
}
