/* Names in messages. */
#include "tools/fusec/run.h"
#include <stdarg.h>

bool run_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("fusec: error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return false;
}

char *names_text(Arena *a, const char *const *names, int n) {
    enum { SHOWN = 8 };
    char *s = arena_strdup(a, n ? names[0] : "none");
    for (int i = 1; i < n && i < SHOWN; i++) s = arena_printf(a, "%s, %s", s, names[i]);
    return n > SHOWN ? arena_printf(a, "%s and %d more", s, n - SHOWN) : s;
}

const char *names_hint(Arena *a, const char *word, const char *const *names, int n) {
    const char *near = diag_nearest(word, names, n);
    return near ? arena_printf(a, " (did you mean %s?)", near) : "";
}
