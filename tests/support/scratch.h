/* A folder for a test's files, and the system's compilers.  All fail the test rather than return an error. */
#ifndef FUSEC_TESTS_SCRATCH_H
#define FUSEC_TESTS_SCRATCH_H
#include "ir/arena.h"
#include <stdbool.h>

/* What emitted C is held to: nothing beyond C99, no library, no warning, no contraction. */
#define STRICT_C99 "-std=c99 -pedantic -Wall -Wextra -Werror -ffreestanding -ffp-contract=off"

/* A new folder below /tmp, one per process; its path. */
const char *scratch_folder(void);
/* For cmocka's groups: scratch_folder is there; it is removed, with the files in it. */
int scratch_make(void **state);
int scratch_remove(void **state);

/* A whole text file, NUL-terminated, in the arena; NULL if there is none. */
char *read_text(Arena *a, const char *path);
void write_text(const char *path, const char *text);

/* Runs a shell command in the folder. */
void scratch_shell(Arena *a, const char *command);
/* Whether the command `NAME --version` works. */
bool have_compiler(const char *name);
/* `compiler` (a command with options) makes a shared library of one C file, as STRICT_C99, and it is loaded: for
 * dlclose and load_symbol. */
void *compile_and_load(Arena *a, const char *compiler, const char *source);
/* A loaded library's function, to be copied to a function pointer with memcpy: ISO C has no cast for it. */
void *load_symbol(void *library, const char *name);

#endif
