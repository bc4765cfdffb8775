/* Memory from the system, by one rule: what cannot be had ends the process with "out of memory" and exit status 3, so
 * that no result is ever made of less than all its parts.  Callers never see NULL.  What must not stay behind
 * (temporary files) is removed before by a function given to memory_before_end.
 *
 * Only large blocks that a user's data ask for (fusec run) are taken from the system directly, and reported with their
 * size.  Text is printed through text_open, since a stream of open_memstream forgets that it lost some. */
#ifndef FUSEC_IR_MEMORY_H
#define FUSEC_IR_MEMORY_H
#include <stddef.h>
#include <stdio.h>

void memory_exhausted(void) __attribute__((noreturn));
/* `clean` may be called in any thread and in a signal handler; NULL: nothing is to be done. */
void memory_before_end(void (*clean)(void));
/* What it and other ends of the process say, without memory; and where, while standard error is lent to another. */
void memory_say(const char *text);
void memory_say_to(int fd);

/* To be freed by free(); `bytes` may be 0. */
void *memory_alloc(size_t bytes);
void *memory_zeroed(size_t n, size_t bytes);
void *memory_resize(void *p, size_t bytes);
char *memory_strdup(const char *s);
void *memory_given(void *p); /* p, which another library allocated or could not */

/* Text in memory. */
typedef struct TextStream {
    FILE *f;  /* what is printed here */
    char *at; /* becomes the text, */
    size_t n; /* of n bytes, */
    size_t room;
} TextStream;

FILE *text_open(TextStream *t);
char *text_close(TextStream *t); /* the text, ending in 0 behind its t->n bytes, to be freed by free() */

#endif
