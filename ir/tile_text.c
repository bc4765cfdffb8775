/* Reading Tile IR text: characters, words, numbers, and the names that the kernel has. */
#include "ir/tile_text.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters ------------------------------------------------------------------------------------- */
bool text_fail(Parser *p, const char *message) {
    if (p->error) return false;
    int line = 1, col = 1;
    for (const char *c = p->text; c < p->at; c++) {
        line += *c == '\n';
        col = *c == '\n' ? 1 : col + 1;
    }
    p->error = arena_printf(p->a, "%d:%d: %s", line, col, message);
    return false;
}

bool text_fail_at(Parser *p, const char *start, const char *message) {
    p->at = start;
    return text_fail(p, message);
}

void text_skip(Parser *p) {
    for (;;) {
        while (isspace((unsigned char)*p->at)) p->at++;
        if (*p->at != '#') return;
        while (*p->at && *p->at != '\n') p->at++;
    }
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* A word or punctuation. */
bool text_accept(Parser *p, const char *s) {
    const size_t n = strlen(s);
    text_skip(p);
    if (strncmp(p->at, s, n) != 0 || (is_word(s[n - 1]) && is_word(p->at[n]))) return false;
    p->at += n;
    return true;
}

bool text_expect(Parser *p, const char *s) {
    if (p->error) return false;
    return text_accept(p, s) || text_fail(p, arena_printf(p->a, "expected `%s`", s));
}

bool text_word(Parser *p, const char **out) {
    text_skip(p);
    const char *start = p->at;
    if (isdigit((unsigned char)*start) || !is_word(*start)) return text_fail(p, "expected a name");
    while (is_word(*p->at)) p->at++;
    *out = arena_strndup(p->a, start, (size_t)(p->at - start));
    return true;
}

bool text_integer(Parser *p, int64_t least, int64_t most, int64_t *out) {
    char *end;
    text_skip(p);
    const char *digits = p->at + (*p->at == '-');
    if (!isdigit((unsigned char)*digits)) return text_fail(p, "expected an integer");
    errno = 0;
    const long long v = strtoll(p->at, &end, 10);
    if (errno || v < least || v > most) return text_fail(p, "the number is out of range");
    p->at = end;
    *out = v;
    return true;
}

bool text_small(Parser *p, int64_t least, int64_t most, int *out) {
    int64_t v;
    if (!text_integer(p, least, most, &v)) return false;
    *out = (int)v;
    return true;
}

bool text_number(Parser *p, double *out) {
    char *end;
    text_skip(p);
    *out = strtod(p->at, &end);
    if (end == p->at || is_word(*end)) return text_fail(p, "expected a number");
    p->at = end;
    return true;
}

/* ---- names of things ------------------------------------------------------------------------------------ */
int text_find_axis(const Parser *p, const char *name) {
    for (int i = 0; i < p->k->axes.n; i++)
        if (strcmp(p->k->axes.at[i].name, name) == 0) return i;
    return -1;
}

int text_find_sym(const Parser *p, const char *name) {
    for (int i = 0; i < p->sym_names.n; i++)
        if (strcmp(p->sym_names.at[i], name) == 0) return i;
    return -1;
}

bool text_axis_name(Parser *p, int *out) {
    const char *name;
    text_skip(p);
    const char *const start = p->at;
    if (!text_word(p, &name)) return false;
    *out = text_find_axis(p, name);
    return *out >= 0 || text_fail_at(p, start, arena_printf(p->a, "no axis is named `%s`", name));
}

bool text_buffer_name(Parser *p, int *out) {
    const char *name;
    text_skip(p);
    const char *const start = p->at;
    if (!text_expect(p, "%") || !text_word(p, &name)) return false;
    for (*out = 0; *out < p->k->buffers.n; ++*out)
        if (strcmp(p->k->buffers.at[*out].name, name) == 0) return true;
    return text_fail_at(p, start, arena_printf(p->a, "no buffer is named `%s`", name));
}

bool text_value_number(Parser *p, int *out) { return text_expect(p, "%") && text_small(p, 0, MAX_VALUES - 1, out); }

bool text_value(Parser *p, int *out) {
    text_skip(p);
    const char *const start = p->at;
    if (!text_value_number(p, out)) return false;
    if (*out < p->defined.n && p->defined.at[*out]) return true;
    return text_fail_at(p, start, arena_printf(p->a, "%%%d is not defined yet", *out));
}

bool text_values(Parser *p, Ints *list) {
    int v;
    do {
        if (!text_value(p, &v)) return false;
        vec_push(p->a, *list, v);
    } while (text_accept(p, ","));
    return true;
}
