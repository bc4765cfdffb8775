#include "tools/fusec/array.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

static bool ends_with(const char *s, const char *suffix) {
    const size_t n = strlen(s), k = strlen(suffix);
    return n >= k && !strcmp(s + n - k, suffix);
}

/* What zlib or the system says about a failed read. */
static const char *gz_why(gzFile f, const char *path) {
    int code;
    const char *text = gzerror(f, &code);
    if (code == Z_BUF_ERROR) return "truncated";
    const size_t n = strlen(path); /* which zlib says, too */
    if (code == Z_ERRNO) return strerror(errno);
    return strncmp(text, path, n) == 0 && text[n] == ':' ? text + n + 2 : text;
}

static bool read_gz(Arena *a, const char *path, uint8_t **bytes, size_t *n, const char **error) {
    gzFile f = gzopen(path, "rb");
    size_t cap = 1 << 16;
    uint8_t *buffer = arena_alloc(a, cap);
    if (!f) {
        *error = arena_printf(a, "%s: %s", path, strerror(errno));
        return false;
    }
    for (*n = 0;;) {
        const int got = gzread(f, buffer + *n, (unsigned)(cap - 1 - *n < (1u << 30) ? cap - 1 - *n : 1u << 30));
        if (got < 0 || (got == 0 && !gzeof(f))) {
            *error = arena_printf(a, "%s: %s", path, gz_why(f, path));
            gzclose(f);
            return false;
        }
        if (got == 0) break;
        *n += (size_t)got;
        if (*n + 1 < cap) continue;
        uint8_t *larger = arena_alloc(a, cap * 2);
        memcpy(larger, buffer, *n);
        buffer = larger;
        cap *= 2;
    }
    const bool whole = gzclose(f) == Z_OK;
    if (!whole) *error = arena_printf(a, "%s: truncated or corrupt", path);
    buffer[*n] = 0;
    *bytes = buffer;
    return whole;
}

static bool read_plain(Arena *a, const char *path, uint8_t **bytes, size_t *n, const char **error) {
    FILE *f = fopen(path, "rb");
    struct stat s = {0};
    const bool known = f && fstat(fileno(f), &s) == 0, device = known && (S_ISCHR(s.st_mode) || S_ISBLK(s.st_mode));
    if (!known || S_ISDIR(s.st_mode) || device) {
        *error = arena_printf(a, "%s: %s", path,
                              !known ? strerror(errno) : device ? "is a device, which may never end" : "is a directory");
        if (f) fclose(f);
        return false;
    }
    size_t cap = S_ISREG(s.st_mode) ? (size_t)s.st_size + 2 : 1 << 16;
    uint8_t *buffer = arena_alloc(a, cap);
    for (*n = 0;;) {
        const size_t got = fread(buffer + *n, 1, cap - 1 - *n, f);
        *n += got;
        if (got == 0) break;
        if (*n + 1 < cap) continue;
        uint8_t *larger = arena_alloc(a, cap * 2);
        memcpy(larger, buffer, *n);
        buffer = larger;
        cap *= 2;
    }
    const bool ok = !ferror(f);
    if (!ok) *error = arena_printf(a, "%s: %s", path, strerror(errno));
    fclose(f);
    buffer[*n] = 0;
    *bytes = buffer;
    return ok;
}

bool file_read(Arena *a, const char *path, uint8_t **bytes, size_t *n, const char **error) {
    return ends_with(path, ".gz") ? read_gz(a, path, bytes, n, error) : read_plain(a, path, bytes, n, error);
}
