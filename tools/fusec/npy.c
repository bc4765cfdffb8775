/* .npy: magic, version, a Python dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, data.
 * Format: numpy.lib.format. */
#include "tools/fusec/array.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct NpyReader {
    Arena *a;
    const char *path;
    const char *at, *end; /* of the dictionary */
    const char **error;
} NpyReader;

__attribute__((format(printf, 2, 3))) static bool fail(const NpyReader *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    *r->error = arena_printf(r->a, "%s: %s", r->path, arena_vprintf(r->a, fmt, ap));
    va_end(ap);
    return false;
}

static void skip(NpyReader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
}
static bool accept(NpyReader *r, char c) {
    skip(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}
static bool word(NpyReader *r, const char *w) {
    const size_t n = strlen(w);
    skip(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, w, n)) return false;
    r->at += n;
    return true;
}

/* 'text' or "text"; without escapes, which no key or type has. */
static bool quoted(NpyReader *r, const char **text, size_t *n) {
    skip(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) return false;
    const char *start = r->at + 1, *stop = memchr(start, *r->at, (size_t)(r->end - start));
    if (!stop) return false;
    *text = start;
    *n = (size_t)(stop - start);
    r->at = stop + 1;
    return true;
}

static bool read_type(NpyReader *r, Array *x) {
    const char *s;
    size_t n;
    if (!quoted(r, &s, &n)) return fail(r, "arrays of records are not read, only of numbers");
    if (n == 3 && *s != '>')
        for (int e = 0; e < ELEMENT_COUNT; e++)
            if (!memcmp(element_info[e].npy, s + 1, strlen(element_info[e].npy)) && element_info[e].npy[0]) {
                x->element = (Element)e;
                return true;
            }
    return fail(r, "element type %.*s is not read", (int)(n < 20 ? n : 20), s);
}

static bool read_shape(NpyReader *r, Array *x) {
    if (!accept(r, '(')) return fail(r, "corrupt header: no shape");
    while (!accept(r, ')')) {
        int64_t v = 0;
        skip(r);
        if (r->at == r->end || *r->at < '0' || *r->at > '9') return fail(r, "corrupt header: a dimension is no count");
        for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
            if (v > ((int64_t)1 << 46)) return fail(r, "the array is too large");
            v = v * 10 + (*r->at - '0');
        }
        if (x->rank == MAX_RANK) return fail(r, "more than %d dimensions", MAX_RANK);
        x->dim[x->rank++] = v;
        if (!accept(r, ',')) {
            if (!accept(r, ')')) return fail(r, "corrupt header: the shape does not end");
            break;
        }
    }
    return true;
}

static bool read_field(NpyReader *r, Array *x, unsigned *seen) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    const char *key;
    size_t n;
    if (!quoted(r, &key, &n) || !accept(r, ':')) return fail(r, "corrupt header: a key is missing");
    for (unsigned k = 0; k < 3; k++) {
        if (n != strlen(keys[k]) || memcmp(key, keys[k], n)) continue;
        if (*seen >> k & 1) return fail(r, "corrupt header: %s twice", keys[k]);
        *seen |= 1u << k;
        if (k == 0) return read_type(r, x);
        if (k == 2) return read_shape(r, x);
        if (word(r, "False")) return true;
        return fail(r, word(r, "True") ? "column-major order is not read; save numpy.ascontiguousarray(x)"
                                       : "corrupt header: fortran_order");
    }
    return fail(r, "corrupt header: unknown key %.*s", (int)(n < 20 ? n : 20), key);
}

static bool read_dictionary(NpyReader *r, Array *x) {
    unsigned seen = 0;
    if (!accept(r, '{')) return fail(r, "corrupt header");
    while (!accept(r, '}')) {
        if (!read_field(r, x, &seen)) return false;
        if (accept(r, ',')) continue;
        if (!accept(r, '}')) return fail(r, "corrupt header: no end");
        break;
    }
    return seen == 7 || fail(r, "corrupt header: descr, fortran_order or shape is missing");
}

bool npy_parse(Arena *a, const char *path, const uint8_t *bytes, size_t n, Array *out, const char **error) {
    NpyReader r = {.a = a, .path = path, .error = error};
    *out = (Array){0};
    if (n < 10 || memcmp(bytes, "\x93NUMPY", 6)) return fail(&r, n ? "not a .npy file" : "empty file");
    if (bytes[6] < 1 || bytes[6] > 3) return fail(&r, ".npy version %d is not read", bytes[6]);
    const size_t prefix = bytes[6] == 1 ? 10 : 12;
    if (n < prefix) return fail(&r, "truncated: no header");
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (prefix == 12) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > n - prefix) return fail(&r, "truncated: the header ends past the end of the file");
    r.at = (const char *)bytes + prefix;
    r.end = r.at + length;
    if (!read_dictionary(&r, out)) return false;
    int64_t elements, size;
    if (!array_size(out, &elements, &size)) return fail(&r, "the array is too large");
    const size_t left = n - prefix - length;
    if ((size_t)size > left)
        return fail(&r, "truncated: %s needs %lld bytes, the file has %llu", array_shape_text(a, out), (long long)size,
                    (unsigned long long)left);
    out->data = bytes + prefix + length;
    return true;
}
