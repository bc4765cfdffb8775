/* Outputs: all of a command's files, or none; never half of one.
 *
 * A file is written under a name of its own in the folder where it belongs, by mkstemp, synchronised (fsync) and
 * renamed: whatever fails, what stood there before is whole, and nothing else is left.  A symbolic link stays, and what
 * it points to is replaced.  A pipe, a terminal or another thing that is no file is written into. */
#ifndef FUSEC_TOOLS_WRITE_FILE_H
#define FUSEC_TOOLS_WRITE_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct OutputFile {
    const char *path;
    const void *bytes;
    size_t n;
    bool (*write)(FILE *f, void *user); /* prints the contents; NULL: they are `bytes` */
    void *user;
} OutputFile;

/* Message on stderr and false on any failure, also of `write`. */
bool write_files(const OutputFile *files, int n);
/* Before long work, whose result is lost if it cannot be written: false, after a message, where a file cannot be made in the
 * place of `path`.  Changes nothing. */
bool write_file_possible(const char *path);
bool write_file(const char *path, bool (*write)(FILE *f, void *user), void *user);
/* A file that the command reads: no output of it may replace that one.  A path that leads to no file is left out. */
void write_file_keeps(const char *path);

#endif
