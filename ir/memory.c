#include "ir/memory.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void (*before_end)(void);
static int screen = STDERR_FILENO;

void memory_before_end(void (*clean)(void)) { before_end = clean; }

void memory_say_to(int fd) { screen = fd; }

void memory_say(const char *text) {
    const ssize_t ignored = write(screen, text, strlen(text));
    (void)ignored;
}

/* Other threads may be at work and locks held: no exit handlers, no buffers. */
void memory_exhausted(void) {
    if (before_end) before_end();
    memory_say(program_invocation_short_name);
    memory_say(": error: out of memory\n");
    _exit(3);
}

void *memory_given(void *p) {
    if (!p) memory_exhausted();
    return p;
}

void *memory_alloc(size_t bytes) { return memory_given(malloc(bytes ? bytes : 1)); }
void *memory_zeroed(size_t n, size_t bytes) { return memory_given(calloc(n ? n : 1, bytes ? bytes : 1)); }
void *memory_resize(void *p, size_t bytes) { return memory_given(realloc(p, bytes ? bytes : 1)); }

char *memory_strdup(const char *s) {
    const size_t n = strlen(s) + 1;
    return memcpy(memory_alloc(n), s, n);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */
static ssize_t append(void *cookie, const char *bytes, size_t n) {
    TextStream *t = cookie;
    if (n >= SIZE_MAX / 4 - t->n) memory_exhausted();
    if (t->n + n >= t->room) {
        t->room = 2 * (t->n + n) + 256;
        t->at = memory_resize(t->at, t->room);
    }
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
    t->at[t->n] = 0;
    return (ssize_t)n;
}

FILE *text_open(TextStream *t) {
    *t = (TextStream){.at = memory_zeroed(1, 1)};
    t->f = memory_given(fopencookie(t, "w", (cookie_io_functions_t){.write = append}));
    return t->f;
}

char *text_close(TextStream *t) {
    const int failed = ferror(t->f);
    if (fclose(t->f) != 0 || failed) memory_exhausted();
    return t->at;
}
