/* Reads safetensors without the compiler's own reader, so that the goldens do not rest on what they check.
 *
 *   compare_safetensors extract FILE PREFIX OUT           the tensors of FILE below PREFIX, without it
 *   compare_safetensors compare FILE PREFIX GOT TOL       each of them in GOT: same type and shape, and each element within
 *                                                         TOL x the golden tensor's largest magnitude + 1e-7; integers equal; and
 *                                                         nothing in GOT that FILE does not know
 * Exit: 0 equal, 1 different, 2 cannot be read or written. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Tensors {
    json_t *header;
    uint8_t *bytes;
    const uint8_t *data;
    size_t n; /* bytes of data */
} Tensors;

static void die(const char *path, const char *why) {
    fprintf(stderr, "%s: %s\n", path, why);
    exit(2);
}

static uint8_t *read_all(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) die(path, "cannot be read");
    const long size = ftell(f);
    uint8_t *bytes = malloc((size_t)size + 1);
    rewind(f);
    if (size < 8 || !bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size) die(path, "cannot be read");
    fclose(f);
    *n = (size_t)size;
    return bytes;
}

static Tensors open_tensors(const char *path) {
    Tensors t = {0};
    size_t size;
    uint64_t length = 0;
    t.bytes = read_all(path, &size);
    for (int i = 0; i < 8; i++) length |= (uint64_t)t.bytes[i] << 8 * i;
    if (length > size - 8) die(path, "truncated");
    t.header = json_loadb((const char *)t.bytes + 8, (size_t)length, 0, NULL);
    if (!json_is_object(t.header)) die(path, "no header");
    json_object_del(t.header, "__metadata__");
    t.data = t.bytes + 8 + length;
    t.n = size - 8 - (size_t)length;
    return t;
}

static void close_tensors(Tensors *t) {
    json_decref(t->header);
    free(t->bytes);
}

/* Where a tensor's bytes lie; checked against the file. */
static const uint8_t *data_of(const Tensors *t, const json_t *entry, size_t *n) {
    const json_t *span = json_object_get(entry, "data_offsets");
    const json_int_t from = json_integer_value(json_array_get(span, 0)), to = json_integer_value(json_array_get(span, 1));
    if (from < 0 || to < from || (size_t)to > t->n) die("data_offsets", "outside the file");
    *n = (size_t)(to - from);
    return t->data + from;
}

static bool below(const char *name, const char *prefix) { return !strncmp(name, prefix, strlen(prefix)); }

/* ---- extract ------------------------------------------------------------------------------------------------- */
static bool write_tensors(FILE *f, const Tensors *t, json_t *chosen, const json_t *header) {
    char *text = json_dumps(header, JSON_COMPACT);
    const uint64_t length = strlen(text);
    const char *name;
    json_t *entry;
    for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 255), f);
    fputs(text, f);
    json_object_foreach(chosen, name, entry) {
        size_t n;
        const uint8_t *data = data_of(t, entry, &n);
        fwrite(data, 1, n, f);
    }
    free(text);
    return !ferror(f);
}

static int extract(const char *path, const char *prefix, const char *out) {
    Tensors t = open_tensors(path);
    json_t *chosen = json_object(), *header = json_object(), *entry;
    const char *name;
    size_t at = 0, n;
    json_object_foreach(t.header, name, entry) {
        if (!below(name, prefix)) continue;
        data_of(&t, entry, &n);
        json_object_set(chosen, name, entry);
        json_object_set_new(header, name + strlen(prefix),
                            json_pack("{s:O, s:O, s:[I, I]}", "dtype", json_object_get(entry, "dtype"), "shape",
                                      json_object_get(entry, "shape"), "data_offsets", (json_int_t)at, (json_int_t)(at + n)));
        at += n;
    }
    FILE *f = fopen(out, "wb");
    const bool ok = f && write_tensors(f, &t, chosen, header);
    if (!f || fclose(f) != 0 || !ok) die(out, "cannot be written");
    json_decref(chosen);
    json_decref(header);
    close_tensors(&t);
    return 0;
}

/* ---- compare ------------------------------------------------------------------------------------------------- */
static double element(const uint8_t *data, bool is_float, size_t i) {
    float f;
    int32_t n;
    memcpy(&f, data + 4 * i, 4);
    memcpy(&n, data + 4 * i, 4);
    return is_float ? (double)f : (double)n;
}

/* A NaN on either side is a difference. */
static int compare_data(const char *name, const uint8_t *want, const uint8_t *got, size_t n, bool is_float, double tolerance) {
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(element(want, is_float, i)));
    for (size_t i = 0; i < n; i++) {
        const double w = element(want, is_float, i), g = element(got, is_float, i), bound = is_float ? tolerance * largest + 1e-7 : 0;
        if (fabs(g - w) <= bound) continue;
        fprintf(stderr, "%s[%zu]: %.9g, should be %.9g within %.3g\n", name, i, g, w, bound);
        return 1;
    }
    return 0;
}

static int compare_tensor(const char *name, const Tensors *want, const json_t *w, const Tensors *got, const json_t *g, double tolerance) {
    const char *dtype = json_string_value(json_object_get(w, "dtype"));
    size_t n, m;
    if (!g) {
        fprintf(stderr, "%s: missing\n", name);
        return 1;
    }
    const uint8_t *a = data_of(want, w, &n), *b = data_of(got, g, &m);
    if (!json_equal(json_object_get(w, "dtype"), json_object_get(g, "dtype")) || n != m ||
        !json_equal(json_object_get(w, "shape"), json_object_get(g, "shape"))) {
        fprintf(stderr, "%s: another type or shape\n", name);
        return 1;
    }
    if (strcmp(dtype, "F32") && strcmp(dtype, "I32")) die(name, "is neither F32 nor I32");
    return compare_data(name, a, b, n / 4, !strcmp(dtype, "F32"), tolerance);
}

static int compare(const char *path, const char *prefix, const char *other, double tolerance) {
    Tensors want = open_tensors(path), got = open_tensors(other);
    json_t *entry;
    const char *name;
    int bad = 0;
    size_t seen = 0;
    json_object_foreach(want.header, name, entry) {
        if (!below(name, prefix)) continue;
        const char *short_name = name + strlen(prefix);
        bad |= compare_tensor(short_name, &want, entry, &got, json_object_get(got.header, short_name), tolerance);
        seen++;
    }
    if (!seen) die(path, "holds nothing to compare");
    if (!bad && json_object_size(got.header) != seen) {
        fprintf(stderr, "%s: %zu tensors, the golden has %zu\n", other, json_object_size(got.header), seen);
        bad = 1;
    }
    close_tensors(&want);
    close_tensors(&got);
    return bad;
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "extract")) return extract(argv[2], argv[3], argv[4]);
    if (argc == 6 && !strcmp(argv[1], "compare")) return compare(argv[2], argv[3], argv[4], atof(argv[5]));
    fprintf(stderr, "usage: compare_safetensors extract FILE PREFIX OUT | compare FILE PREFIX GOT TOLERANCE\n");
    return 2;
}
