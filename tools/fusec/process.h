/* Other programs, and a directory for what passes between them and us. */
#ifndef FUSEC_TOOLS_PROCESS_H
#define FUSEC_TOOLS_PROCESS_H
#include "ir/arena.h"
#include <stdbool.h>

/* A new directory under $TMPDIR (or /tmp) for a few files; removed with them by scratch_close, or when a signal ends the
 * process. */
typedef struct Scratch {
    Arena *arena;
    char *dir;
    const char *file[8];
    int n;
} Scratch;

bool scratch_open(Arena *a, Scratch *s, const char **error);
const char *scratch_file(Scratch *s, const char *name); /* its path; at most 8 */
/* A new file at a path of scratch_file. */
bool scratch_write(Scratch *s, const char *path, const void *bytes, size_t n, const char **error);
void scratch_close(Scratch *s);

/* Runs argv[0], found by PATH, with its output in the scratch file "log".  False with *error (in the arena): it cannot
 * be run, or what it said. */
bool process_run(Scratch *s, char *const *argv, const char **error);

#endif
