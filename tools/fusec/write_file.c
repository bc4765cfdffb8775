/* Files are written beside their place and renamed, so that a failure leaves nothing half-written. */
#include "tools/fusec/cli.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *aside_name(const char *path) {
    const size_t n = strlen(path) + 16;
    char *aside = malloc(n);
    if (aside) snprintf(aside, n, "%s.%ld.tmp", path, (long)getpid());
    return aside;
}

/* Leaves nothing at `aside` on failure. */
static bool write_aside(const char *path, const char *aside, bool (*write)(FILE *f, void *user), void *user) {
    errno = 0;
    FILE *f = fopen(aside, "wb");
    bool ok = f && write(f, user);
    if (f) {
        ok = ok && !ferror(f);
        ok = fclose(f) == 0 && ok;
    }
    if (ok) return true;
    fprintf(stderr, "fusec: error: cannot write %s: %s\n", path, errno ? strerror(errno) : "failed");
    if (f) unlink(aside);
    return false;
}

static bool put_in_place(const char *path, const char *aside) {
    if (rename(aside, path) == 0) return true;
    fprintf(stderr, "fusec: error: cannot write %s: %s\n", path, strerror(errno));
    unlink(aside);
    return false;
}

bool write_file(const char *path, bool (*write)(FILE *f, void *user), void *user) {
    char *aside = aside_name(path);
    const bool ok = aside && write_aside(path, aside, write, user) && put_in_place(path, aside);
    free(aside);
    return ok;
}

static bool write_bytes(FILE *f, void *user) {
    const OutputFile *b = user;
    return fwrite(b->bytes, 1, b->n, f) == b->n;
}

enum { MOST_FILES = 8 };

bool write_files(const OutputFile *files, int n) {
    char *aside[MOST_FILES] = {0};
    int written = 0, placed = 0;
    bool ok = n <= MOST_FILES;
    for (int i = 0; i < n && ok; i++) {
        OutputFile f = files[i];
        aside[i] = aside_name(f.path);
        ok = aside[i] && write_aside(f.path, aside[i], write_bytes, &f);
        written += ok;
    }
    for (int i = 0; i < n && ok; i++) {
        ok = put_in_place(files[i].path, aside[i]);
        placed += ok;
    }
    for (int i = 0; i < placed && !ok; i++) unlink(files[i].path);
    for (int i = placed; i < written && !ok; i++) unlink(aside[i]);
    for (int i = 0; i < MOST_FILES; i++) free(aside[i]);
    return ok;
}
