/* Arrays as they stand in files: .safetensors, .npy, .csv. */
#ifndef FUSEC_TOOLS_ARRAY_H
#define FUSEC_TOOLS_ARRAY_H
#include "ir/arena.h"
#include "ir/dtype.h"
#include "ir/shape.h"
#include "ir/vec.h"
#include <stddef.h>
#include <stdio.h>

/* ELEMENT(enum, safetensors, npy kind and size, bytes): all little-endian. */
#define FILE_ELEMENTS(ELEMENT)     \
    ELEMENT(BOOL, "BOOL", "b1", 1) \
    ELEMENT(U8, "U8", "u1", 1)     \
    ELEMENT(I8, "I8", "i1", 1)     \
    ELEMENT(U16, "U16", "u2", 2)   \
    ELEMENT(I16, "I16", "i2", 2)   \
    ELEMENT(U32, "U32", "u4", 4)   \
    ELEMENT(I32, "I32", "i4", 4)   \
    ELEMENT(U64, "U64", "u8", 8)   \
    ELEMENT(I64, "I64", "i8", 8)   \
    ELEMENT(F16, "F16", "f2", 2)   \
    ELEMENT(BF16, "BF16", "", 2)   \
    ELEMENT(F32, "F32", "f4", 4)   \
    ELEMENT(F64, "F64", "f8", 8)

typedef enum {
#define ELEMENT(e, safetensors, npy, bytes) ELEMENT_##e,
    FILE_ELEMENTS(ELEMENT)
#undef ELEMENT
        ELEMENT_COUNT
} Element;

typedef struct ElementInfo {
    const char *safetensors, *npy;
    int bytes;
} ElementInfo;
extern const ElementInfo element_info[ELEMENT_COUNT];

/* Dense, row-major; data may be unaligned. */
typedef struct Array {
    const char *name; /* NULL where the format has none */
    Element element;
    int rank;
    int64_t dim[MAX_RANK];
    const uint8_t *data;
} Array;
typedef VEC(Array) Arrays;

int64_t array_elements(const Array *x);
int64_t array_bytes(const Array *x);
const Array *arrays_find(const Arrays *list, const char *name); /* NULL if it is not there */
char *array_shape_text(Arena *a, const Array *x);               /* "[3, 4]" */
Element element_of(DType t);
/* Dimensions into *elements and *bytes; false when one is negative or the size passes 2^46 bytes. */
bool array_size(const Array *x, int64_t *elements, int64_t *bytes);

double element_get(Element e, const uint8_t *at);
/* n elements to dtype `to`.  Floats round to nearest; bools must be 0 or 1, integers whole and in range of i32: false
 * with *bad the first element that is not. */
bool element_convert(Element from, const uint8_t *data, int64_t n, DType to, void *out, int64_t *bad);

/* The whole file, plus a zero byte past its end; ".gz" is unpacked.  False with *error (in a). */
bool file_read(Arena *a, const char *path, uint8_t **bytes, size_t *n, const char **error);

/* Readers: of the file's bytes, for which `path` is named in messages.  Arrays point into `bytes`.
 * False with *error (in a), which begins with the path. */
bool safetensors_parse(Arena *a, const char *path, const uint8_t *bytes, size_t n, Arrays *out, const char **error);
bool npy_parse(Arena *a, const char *path, const uint8_t *bytes, size_t n, Array *out, const char **error);
/* Rows of numbers separated by commas, semicolons, tabs or blanks -> F64 [rows, columns].  A first line without
 * any number is a header: *header has its names then (NULL otherwise). */
bool csv_parse(Arena *a, const char *path, const char *text, size_t n, Array *out, const char *const **header,
               const char **error);

/* The value of a safetensors file's metadata key, NULL if absent; the file has been parsed without error. */
const char *safetensors_metadata(Arena *a, const uint8_t *bytes, size_t n, const char *key);

/* Writes a safetensors file; metadata: key, value, key, value, .., NULL.  False if the file could not be written. */
bool safetensors_write(FILE *f, const Arrays *list, const char *const *metadata);

#endif
