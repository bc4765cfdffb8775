/* Arena allocation: one arena per lifetime (a whole compile, one pass).
 *
 * Memory comes back zeroed and 16-byte aligned and is freed all at once.  Running out of memory
 * ends the process with a message (exit status 3): a compile has nothing to save.  Building with
 * -DFUSEC_ARENA_MALLOC makes every allocation its own malloc, so that leak and bounds tools see it. */
#ifndef FUSEC_IR_ARENA_H
#define FUSEC_IR_ARENA_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
Arena *arena_child(Arena *a); /* freed with a, or before */
void arena_free(Arena *a); /* NULL is allowed */
void *arena_alloc(Arena *a, size_t bytes);
/* Makes the last allocation, of `old` bytes at p, as large as `bytes`; false if p is another one, or there is no room. */
bool arena_extend(Arena *a, const void *p, size_t old, size_t bytes);
void *arena_dup(Arena *a, const void *src, size_t bytes);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);
size_t arena_bytes(const Arena *a); /* handed out so far */

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

#endif
