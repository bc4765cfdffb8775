/* Readers of .safetensors, .npy and .csv: what they give, what they refuse, and any bytes at all. */
#include "tools/fusec/array.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka needs the above
#include <cmocka.h>

static Arena *a;
static int setup(void **state) {
    (void)state;
    a = arena_new();
    return 0;
}
static int teardown(void **state) {
    (void)state;
    arena_free(a);
    return 0;
}

/* A safetensors file of this header and data. */
static uint8_t *safetensors(const char *header, const void *data, size_t data_bytes, size_t *n) {
    const size_t h = strlen(header);
    uint8_t *file = arena_alloc(a, 8 + h + data_bytes + 1);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)h >> 8 * i);
    memcpy(file + 8, header, h);
    memcpy(file + 8 + h, data, data_bytes);
    *n = 8 + h + data_bytes;
    return file;
}

static void refuses(const char *header, size_t data_bytes, const char *why) {
    static const uint8_t zeros[64];
    const char *error = NULL;
    Arrays list = {0};
    size_t n;
    uint8_t *file = safetensors(header, zeros, data_bytes, &n);
    assert_false(safetensors_parse(a, "f.safetensors", file, n, &list, &error));
    if (!strstr(error, why)) fail_msg("\"%s\" does not say \"%s\"", error, why);
    assert_memory_equal(error, "f.safetensors: ", 15);
}

static void test_safetensors(void **state) {
    (void)state;
    const float values[3] = {1.5f, -2, 3};
    const char *error = NULL;
    Arrays list = {0};
    size_t n;
    uint8_t *file = safetensors(
        "{\"__metadata__\":{\"step\":\"7\"},\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", values,
        12, &n);
    assert_true(safetensors_parse(a, "f", file, n, &list, &error));
    assert_int_equal(list.n, 1);
    const Array *w = arrays_find(&list, "w");
    assert_non_null(w);
    assert_int_equal(w->element, ELEMENT_F32);
    assert_int_equal(w->dim[0], 3);
    assert_true(element_get(ELEMENT_F32, w->data + 4) == -2);
    assert_string_equal(safetensors_metadata(a, file, n, "step"), "7");
    assert_null(safetensors_metadata(a, file, n, "epoch"));
    assert_null(arrays_find(&list, "v"));
}

static void test_safetensors_refused(void **state) {
    (void)state;
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", 8,
            "truncated: tensor w ends 4 bytes past");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 12, "do not span its 12 bytes");
    refuses("{\"w\":{\"dtype\":\"F33\",\"shape\":[3],\"data_offsets\":[0,12]}}", 12, "unknown dtype F33");
    refuses("{\"w\":{\"shape\":[3],\"data_offsets\":[0,12]}}", 12, "no dtype");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[-3],\"data_offsets\":[0,12]}}", 12, "no count");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[3]}}", 12, "no data_offsets");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4611686018427387904],\"data_offsets\":[0,12]}}",
            12, "too large");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 12,
            "more than 10 dimensions");
    refuses("{\"w\":", 0, "corrupt header");
    refuses("[1]", 0, "not an object");
    refuses("{\"w\":{},\"w\":{}}", 0, "duplicate");
    const char *error;
    Arrays list = {0};
    const uint8_t huge[8] = {0, 0, 0, 0, 0, 0, 0, 0x40}, long_header[16] = {100};
    assert_false(safetensors_parse(a, "f", huge, 8, &list, &error));
    assert_non_null(strstr(error, "not a safetensors file"));
    assert_false(safetensors_parse(a, "f", long_header, 16, &list, &error));
    assert_non_null(strstr(error, "92 bytes past the end"));
    assert_false(safetensors_parse(a, "f", huge, 0, &list, &error));
    assert_non_null(strstr(error, "empty file"));
}

static void test_write_reads_back(void **state) {
    (void)state;
    static const int32_t labels[2][2] = {{1, 2}, {3, -4}};
    static const double one = 0.1;
    const char *const metadata[] = {"a \"quoted\" key", "\xc3\xa9", NULL};
    Arrays list = {0}, back = {0};
    vec_push(a, list,
             (Array){.name = "y", .element = ELEMENT_I32, .rank = 2, .dim = {2, 2}, .data = (const uint8_t *)labels});
    vec_push(a, list,
             (Array){.name = "none", .element = ELEMENT_F32, .rank = 1, .dim = {0}, .data = (const uint8_t *)""});
    vec_push(a, list, (Array){.name = "s", .element = ELEMENT_F64, .data = (const uint8_t *)&one});
    char *text;
    size_t n;
    const char *error;
    FILE *f = open_memstream(&text, &n);
    assert_true(safetensors_write(f, &list, metadata));
    fclose(f);
    assert_true(safetensors_parse(a, "f", (const uint8_t *)text, n, &back, &error));
    assert_int_equal(back.n, 3);
    assert_memory_equal(arrays_find(&back, "y")->data, labels, sizeof labels);
    assert_int_equal(array_elements(arrays_find(&back, "none")), 0);
    assert_true(element_get(ELEMENT_F64, arrays_find(&back, "s")->data) == one);
    assert_string_equal(safetensors_metadata(a, (const uint8_t *)text, n, "a \"quoted\" key"), "\xc3\xa9");
    free(text);
}

/* ---- .npy ----------------------------------------------------------------------------------------------------- */
static uint8_t *npy(const char *dictionary, size_t data_bytes, size_t *n) {
    const size_t h = strlen(dictionary);
    uint8_t *file = arena_alloc(a, 10 + h + data_bytes + 1);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (uint8_t)h, file[9] = (uint8_t)(h >> 8);
    memcpy(file + 10, dictionary, h);
    for (size_t i = 0; i < data_bytes; i++) file[10 + h + i] = (uint8_t)i;
    *n = 10 + h + data_bytes;
    return file;
}

static void npy_refuses(const char *dictionary, size_t bytes, const char *why) {
    const char *error = NULL;
    Array x;
    size_t n;
    uint8_t *file = npy(dictionary, bytes, &n);
    assert_false(npy_parse(a, "f.npy", file, n, &x, &error));
    if (!strstr(error, why)) fail_msg("\"%s\" does not say \"%s\"", error, why);
}

static void test_npy(void **state) {
    (void)state;
    const char *error;
    Array x;
    size_t n;
    uint8_t *file = npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }   \n", 12, &n);
    assert_true(npy_parse(a, "f", file, n, &x, &error));
    assert_int_equal(x.element, ELEMENT_I16);
    assert_int_equal(x.rank, 2);
    assert_int_equal(x.dim[1], 3);
    assert_true(element_get(x.element, x.data + 2) == 0x0302);
    file = npy("{'shape': (), 'fortran_order': False, 'descr': '|u1'}", 1, &n);
    assert_true(npy_parse(a, "f", file, n, &x, &error));
    assert_int_equal(x.rank, 0);
    npy_refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11,
                "truncated: [3] needs 12 bytes, the file has 11");
    npy_refuses("{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", 12, "element type >f4");
    npy_refuses("{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }", 12, "column-major");
    npy_refuses("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12, "records");
    npy_refuses("{'descr': '<f4', 'shape': (3,), }", 12, "missing");
    npy_refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 12, "no count");
    npy_refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 12, "too large");
    npy_refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (8388608, 8388608, 8), }", 12, "too large");
    npy_refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1), }", 12, "more than 10");
    npy_refuses("", 12, "corrupt header");
    assert_false(npy_parse(a, "f", (const uint8_t *)"PK\3\4aaaaaaaa", 12, &x, &error));
    assert_non_null(strstr(error, "not a .npy file"));
}

/* ---- .csv ------------------------------------------------------------------------------------------------------ */
static Array csv(const char *text, const char *const **header) {
    const char *error = NULL;
    Array x = {0};
    if (!csv_parse(a, "f.csv", text, strlen(text), &x, header, &error)) fail_msg("%s", error);
    return x;
}
static void csv_refuses(const char *text, const char *message) {
    const char *error = NULL, *const * header;
    Array x;
    assert_false(csv_parse(a, "f.csv", text, strlen(text), &x, &header, &error));
    assert_string_equal(error, message);
}
static double at(const Array *x, int64_t i) { return element_get(x->element, x->data + 8 * i); }

static void test_csv(void **state) {
    (void)state;
    const char *const *header;
    Array x = csv("1,2.5,-3e2\r\n\r\n4,5,\"6\"", &header);
    assert_null(header);
    assert_int_equal(x.dim[0], 2);
    assert_int_equal(x.dim[1], 3);
    assert_true(at(&x, 2) == -300 && at(&x, 5) == 6);
    x = csv("\xef\xbb\xbf\"width\";label\n1; 2\n", &header);
    assert_string_equal(header[0], "width");
    assert_string_equal(header[1], "label");
    assert_true(x.dim[0] == 1 && at(&x, 1) == 2);
    x = csv("  1   2\n 3 4  \n", &header);
    assert_true(x.dim[0] == 2 && x.dim[1] == 2 && at(&x, 2) == 3);
    x = csv("1,nan\n", &header);
    assert_true(isnan(at(&x, 1)));
    csv_refuses("1,2\n3\n", "f.csv:2: 1 fields, where the first line has 2");
    csv_refuses("a,b\n1,x\n", "f.csv:2: column 2 is not a number: \"x\"");
    csv_refuses("1,2\n3,\n", "f.csv:2: column 2 is empty");
    csv_refuses("1,x\n", "f.csv:1: column 2 is not a number: \"x\"");
    csv_refuses("1,0x10\n", "f.csv:1: column 2 is not a number: \"0x10\"");
    csv_refuses("a,b\n", "f.csv: no rows of numbers");
    csv_refuses("", "f.csv: no rows of numbers");
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */
static void test_convert(void **state) {
    (void)state;
    const double values[4] = {0, -7, 2147483647, 0.5};
    int32_t whole[4];
    float rounded[2];
    uint8_t flags[2];
    int64_t bad = -1;
    assert_true(element_convert(ELEMENT_F64, (const uint8_t *)values, 3, DT_I32, whole, &bad));
    assert_int_equal(whole[2], 2147483647);
    assert_false(element_convert(ELEMENT_F64, (const uint8_t *)values, 4, DT_I32, whole, &bad));
    assert_int_equal(bad, 3);
    assert_false(element_convert(ELEMENT_F64, (const uint8_t *)values, 2, DT_BOOL, flags, &bad));
    assert_int_equal(bad, 1);
    const int64_t large = (int64_t)1 << 31;
    assert_false(element_convert(ELEMENT_I64, (const uint8_t *)&large, 1, DT_I32, whole, &bad));
    const uint16_t halves[2] = {0x3c01, 0x8001}; /* 1 + 2^-10, -2^-24 */
    assert_true(element_convert(ELEMENT_F16, (const uint8_t *)halves, 2, DT_F32, rounded, &bad));
    assert_true(rounded[0] == 1.0009765625f && rounded[1] == -0x1p-24f);
    const uint16_t brain = 0x3f81;
    assert_true(element_convert(ELEMENT_BF16, (const uint8_t *)&brain, 1, DT_F32, rounded, &bad));
    assert_true(rounded[0] == 1.0078125f);
}

/* Every finite f16 and bf16 comes back from f32; halfway cases go to even. */
static void test_halves(void **state) {
    (void)state;
    static const struct {
        Element e;
        DType t;
    } types[] = {{ELEMENT_F16, DT_F16}, {ELEMENT_BF16, DT_BF16}};
    int64_t bad;
    for (int k = 0; k < 2; k++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            const uint16_t in = (uint16_t)bits;
            const double v = element_get(types[k].e, (const uint8_t *)&in);
            uint16_t out;
            if (isnan(v)) continue;
            assert_true(element_convert(ELEMENT_F64, (const uint8_t *)&v, 1, types[k].t, &out, &bad));
            assert_int_equal(in, out);
        }
    const double ties[] = {1 + 0x1p-11, 1 + 0x3p-11, 65520, 0x1p-25, 0x1.8p-24};
    const uint16_t expected[] = {0x3c00, 0x3c02, 0x7c00, 0x0000, 0x0002};
    for (int i = 0; i < 5; i++) {
        uint16_t out;
        assert_true(element_convert(ELEMENT_F64, (const uint8_t *)&ties[i], 1, DT_F16, &out, &bad));
        assert_int_equal(out, expected[i]);
    }
}

/* ---- any bytes --------------------------------------------------------------------------------------------------- */
static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* A few random edits; the copy is exact, so that a read past its end is seen by the sanitizers. */
static uint8_t *mutate(const uint8_t *from, size_t *n, uint32_t *seed) {
    size_t size = *n;
    uint8_t *x = malloc(size + 64);
    memcpy(x, from, size);
    for (uint32_t edits = 1 + next(seed) % 4; edits > 0 && size > 0; edits--) {
        const size_t where = next(seed) % size;
        switch (next(seed) % 5) {
        case 0: x[where] = (uint8_t)next(seed); break;
        case 1: size = where; break;
        case 2: x[where] ^= (uint8_t)(1u << next(seed) % 8); break;
        case 3: memmove(x + where, x + where + 1, size - where - 1), size--; break;
        default: memcpy(x + where, &"9999,[{'\"-1e9"[next(seed) % 8], size - where < 5 ? size - where : 5);
        }
    }
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, x, size);
    free(x);
    *n = size;
    return exact;
}

/* Everything that was accepted can be read. */
static double touch(const Array *x) {
    double sum = 0;
    const int64_t n = array_elements(x);
    for (int64_t i = 0; i < n && i < 1000; i++)
        sum += element_get(x->element, x->data + i * element_info[x->element].bytes);
    if (n > 0) sum += element_get(x->element, x->data + (n - 1) * element_info[x->element].bytes);
    return isnan(sum) ? 0 : sum;
}

typedef int Try(const uint8_t *bytes, size_t n, const char **error);
static int try_safetensors(const uint8_t *bytes, size_t n, const char **error) {
    Arrays list = {0};
    if (!safetensors_parse(a, "f", bytes, n, &list, error)) return 0;
    for (int i = 0; i < list.n; i++) (void)touch(&list.at[i]);
    return 1;
}
static int try_npy(const uint8_t *bytes, size_t n, const char **error) {
    Array x;
    if (!npy_parse(a, "f", bytes, n, &x, error)) return 0;
    (void)touch(&x);
    return 1;
}
static int try_csv(const uint8_t *bytes, size_t n, const char **error) {
    const char *const *header;
    Array x;
    if (!csv_parse(a, "f", (const char *)bytes, n, &x, &header, error)) return 0;
    (void)touch(&x);
    return 1;
}

static void fuzz(const uint8_t *from, size_t n, Try *f) {
    int accepted = 0, refused = 0;
    Arena *keep = a;
    for (uint32_t round = 0; round < 4000; round++) {
        uint32_t seed = round * 2654435761u + 1;
        size_t size = n;
        uint8_t *x = mutate(from, &size, &seed);
        const char *error = NULL;
        a = arena_new();
        if (f(x, size, &error))
            accepted++;
        else {
            assert_non_null(error);
            assert_memory_equal(error, "f:", 2);
            refused++;
        }
        arena_free(a);
        free(x);
    }
    a = keep;
    assert_true(accepted > 0 && refused > 0);
}

static void test_fuzz(void **state) {
    (void)state;
    static const uint8_t data[32] = {1, 2, 3};
    size_t n;
    uint8_t *file = safetensors(
        "{\"__metadata__\":{\"crc32\":\"00\"},\"a.w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]}}",
        data, 32, &n);
    fuzz(file, n, try_safetensors);
    file = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", 32, &n);
    fuzz(file, n, try_npy);
    const char *text = "x,y,label\n1,2.5,3\n-4e3,5,6\n\"7\",8,9\n";
    fuzz((const uint8_t *)text, strlen(text), try_csv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_safetensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_safetensors_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_npy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_csv, setup, teardown),
        cmocka_unit_test_setup_teardown(test_convert, setup, teardown),
        cmocka_unit_test_setup_teardown(test_halves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fuzz, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
