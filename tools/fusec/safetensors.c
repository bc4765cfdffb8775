/* safetensors: u64 header length, a JSON header {"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {..}},
 * data. Format: github.com/huggingface/safetensors. */
#include "tools/fusec/array.h"
#include "ir/memory.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 << 20 };

typedef struct SafetensorsReader {
    Arena *a;
    const char *path;
    const uint8_t *data; /* behind the header */
    int64_t bytes;       /* of data */
    const char **error;
} SafetensorsReader;

__attribute__((format(printf, 2, 3))) static bool fail(const SafetensorsReader *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    *r->error = arena_printf(r->a, "%s: %s", r->path, arena_vprintf(r->a, fmt, ap));
    va_end(ap);
    return false;
}

static int find_element(const char *name) {
    for (int e = 0; e < ELEMENT_COUNT; e++)
        if (!strcmp(element_info[e].safetensors, name)) return e;
    return -1;
}

static bool read_shape(const SafetensorsReader *r, const char *name, const json_t *shape, Array *x) {
    if (!json_is_array(shape)) return fail(r, "tensor %s has no shape", name);
    if (json_array_size(shape) > MAX_RANK) return fail(r, "tensor %s has more than %d dimensions", name, MAX_RANK);
    x->rank = (int)json_array_size(shape);
    for (int d = 0; d < x->rank; d++) {
        const json_t *n = json_array_get(shape, (size_t)d);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return fail(r, "tensor %s has a dimension that is no count", name);
        x->dim[d] = json_integer_value(n);
    }
    return true;
}

static bool read_tensor(const SafetensorsReader *r, const char *name, const json_t *entry, Array *x) {
    const json_t *dtype = json_object_get(entry, "dtype"), *span = json_object_get(entry, "data_offsets");
    const int e = json_is_string(dtype) ? find_element(json_string_value(dtype)) : -1;
    if (e < 0)
        return fail(r, "tensor %s has %s dtype%s%s", name, dtype ? "an unknown" : "no", dtype ? " " : "",
                    json_is_string(dtype) ? json_string_value(dtype) : "");
    *x = (Array){.name = arena_strdup(r->a, name), .element = (Element)e};
    if (!read_shape(r, name, json_object_get(entry, "shape"), x)) return false;
    const json_t *from = json_array_get(span, 0), *to = json_array_get(span, 1);
    if (json_array_size(span) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return fail(r, "tensor %s has no data_offsets", name);
    const int64_t first = json_integer_value(from), last = json_integer_value(to);
    int64_t elements, bytes;
    if (!array_size(x, &elements, &bytes)) return fail(r, "tensor %s is too large", name);
    if (first < 0 || last < first || last - first != bytes)
        return fail(r, "tensor %s: its data_offsets do not span its %lld bytes", name, (long long)bytes);
    if (last > r->bytes)
        return fail(r, "truncated: tensor %s ends %lld byte%s past the end of the file", name,
                    (long long)(last - r->bytes), last - r->bytes == 1 ? "" : "s");
    x->data = r->data + first;
    return true;
}

/* jansson leaves out what it has no memory for. */
static void take_memory(void) { json_set_alloc_funcs(memory_alloc, free); }

/* The parsed header, to be released; NULL with the error set.  *start: where the data begins. */
static json_t *read_header(const SafetensorsReader *r, const uint8_t *bytes, size_t n, size_t *start) {
    uint64_t length = 0;
    if (n < 8) {
        fail(r, n ? "truncated: no header" : "empty file");
        return NULL;
    }
    for (int i = 0; i < 8; i++) length |= (uint64_t)bytes[i] << 8 * i;
    if (length > MAX_HEADER) {
        fail(r, "not a safetensors file: its header would have %llu bytes", (unsigned long long)length);
        return NULL;
    }
    if (length > n - 8) {
        fail(r, "truncated: the header ends %llu bytes past the end of the file",
             (unsigned long long)(length - (n - 8)));
        return NULL;
    }
    json_error_t why;
    take_memory();
    json_t *root = json_loadb((const char *)bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(root)) {
        fail(r, "corrupt header: %s", root ? "not an object" : why.text);
        json_decref(root);
        return NULL;
    }
    *start = 8 + (size_t)length;
    return root;
}

static int by_data(const void *x, const void *y) {
    const Array *a = x, *b = y; /* empty ones before what lies at their place */
    const int64_t m = array_bytes(a), n = array_bytes(b);
    return a->data != b->data ? (a->data > b->data) - (a->data < b->data) : (m > n) - (m < n);
}

/* As the format asks, each byte of the data belongs to one tensor. */
static bool check_coverage(const SafetensorsReader *r, const Arrays *list) {
    Array *sorted = ARENA_ARRAY(r->a, Array, list->n + 1);
    const uint8_t *end = r->data;
    if (list->n) memcpy(sorted, list->at, sizeof *sorted * (size_t)list->n);
    if (list->n) qsort(sorted, (size_t)list->n, sizeof *sorted, by_data);
    for (int i = 0; i < list->n; i++) {
        const uint8_t *at = sorted[i].data;
        if (at != end)
            return fail(r, "corrupt header: tensor %s %s", sorted[i].name,
                        at < end ? "overlaps another" : "does not begin where the one before it ends");
        end = at + array_bytes(&sorted[i]);
    }
    return end == r->data + r->bytes || fail(r, "corrupt: its tensors end %lld before the data do", (long long)(r->data + r->bytes - end));
}

bool safetensors_parse(Arena *a, const char *path, const uint8_t *bytes, size_t n, Arrays *out, const char **error) {
    SafetensorsReader r = {.a = a, .path = path, .error = error};
    size_t start;
    json_t *root = read_header(&r, bytes, n, &start);
    if (!root) return false;
    r.data = bytes + start;
    r.bytes = (int64_t)(n - start);
    const char *name;
    json_t *entry;
    bool ok = true;
    json_object_foreach(root, name, entry) {
        Array x;
        if (!strcmp(name, "__metadata__")) continue;
        ok = read_tensor(&r, name, entry, &x);
        if (!ok) break;
        vec_push(a, *out, x);
    }
    json_decref(root);
    return ok && check_coverage(&r, out);
}

const char *safetensors_metadata(Arena *a, const uint8_t *bytes, size_t n, const char *key) {
    const char *ignored;
    const SafetensorsReader r = {.a = a, .path = "", .error = &ignored};
    size_t start;
    json_t *root = read_header(&r, bytes, n, &start);
    const char *text = json_string_value(json_object_get(json_object_get(root, "__metadata__"), key));
    text = text ? arena_strdup(a, text) : NULL;
    json_decref(root);
    return text;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */
static json_t *entry_of(const Array *x, int64_t at) {
    json_t *shape = json_array(), *span = json_array(), *entry = json_object();
    for (int d = 0; d < x->rank; d++) json_array_append_new(shape, json_integer(x->dim[d]));
    json_array_append_new(span, json_integer(at));
    json_array_append_new(span, json_integer(at + array_bytes(x)));
    json_object_set_new(entry, "dtype", json_string(element_info[x->element].safetensors));
    json_object_set_new(entry, "shape", shape);
    json_object_set_new(entry, "data_offsets", span);
    return entry;
}

/* NULL: a name is no text in UTF-8. */
static json_t *header_of(const Arrays *list, const char *const *metadata) {
    take_memory();
    json_t *root = json_object(), *meta = json_object();
    int64_t at = 0;
    bool ok = true;
    for (int i = 0; metadata && metadata[i]; i += 2)
        ok = json_object_set_new(meta, metadata[i], json_string(metadata[i + 1])) == 0 && ok;
    json_object_set_new(root, "__metadata__", meta);
    for (int i = 0; i < list->n; at += array_bytes(&list->at[i++]))
        ok = json_object_set_new(root, list->at[i].name, entry_of(&list->at[i], at)) == 0 && ok;
    if (ok) return root;
    json_decref(root);
    return NULL;
}

bool safetensors_write(FILE *f, const Arrays *list, const char *const *metadata) {
    json_t *root = header_of(list, metadata);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text) return false;
    const size_t n = strlen(text), padded = (n + 7) / 8 * 8; /* the data is aligned */
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    bool ok =
        fwrite(length, 1, 8, f) == 8 && fwrite(text, 1, n, f) == n && fprintf(f, "%*s", (int)(padded - n), "") >= 0;
    free(text);
    for (int i = 0; i < list->n && ok; i++) {
        const size_t bytes = (size_t)array_bytes(&list->at[i]);
        ok = fwrite(list->at[i].data, 1, bytes, f) == bytes;
    }
    return ok;
}
