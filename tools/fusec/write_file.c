#include "tools/fusec/cli.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool write_file(const char *path, bool (*write)(FILE *f, void *user), void *user) {
    const size_t n = strlen(path);
    char *aside = malloc(n + 16);
    if (!aside) return false;
    snprintf(aside, n + 16, "%s.%ld.tmp", path, (long)getpid());
    FILE *f = fopen(aside, "wb");
    bool ok = f && write(f, user);
    if (f) {
        ok = ok && !ferror(f);
        ok = fclose(f) == 0 && ok;
    }
    if (ok && rename(aside, path) != 0) ok = false;
    if (!ok) {
        fprintf(stderr, "fusec: cannot write %s: %s\n", path, strerror(errno));
        unlink(aside);
    }
    free(aside);
    return ok;
}

typedef struct Bytes {
    const void *at;
    size_t n;
} Bytes;
static bool write_all(FILE *f, void *user) {
    const Bytes *b = user;
    return fwrite(b->at, 1, b->n, f) == b->n;
}
bool write_bytes(const char *path, const void *bytes, size_t n) {
    Bytes b = {bytes, n};
    return write_file(path, write_all, &b);
}
