/* Training data: one file per input, read row by row.
 *
 *   NAME=FILE.csv[:A-B | :COLUMN]     columns count from 1; or one by its name in the header
 *   NAME=FILE.npy                     rows along axis 0
 *   NAME=FILE.safetensors[:TENSOR]    likewise
 *   NAME=FILE (any other suffix)      raw bytes, for integer inputs
 *
 * A sequence (bytes, a tensor of one dimension, one column) given to an input whose rows have several elements is read
 * as windows: row i is elements i, i + 1, ..  Files read as windows take a shift at the end, FILE:+1: row i starts at
 * element i + 1.  All but the row's own shape is dense: [rows, 64] serves an input [B, 8, 8, 1]. */
#ifndef FUSEC_TOOLS_DATA_H
#define FUSEC_TOOLS_DATA_H
#include "tools/fusec/run.h"

typedef struct DataSource {
    int input;
    const char *path;
    Element element;
    const uint8_t *values;
    int64_t first, stride; /* row i is `count` elements from first + i * stride */
    int64_t count, rows;
    bool windows;
    int64_t column; /* of element `first` in the file, from 1: for messages */
} DataSource;

typedef struct Data {
    VEC(DataSource) sources;
    int64_t rows;    /* of all */
    int batch_input; /* whose leading dimension is the batch */
    Dim batch;
    int64_t capacity; /* rows of a whole batch */
    bool partial;     /* a batch may have fewer */
} Data;

/* Binds r->o->data to inputs.  False after messages. */
bool data_open(Run *r, Data *d);
bool data_has(const Data *d, int input);
/* Every value of rows [first, last): no NaN, integers whole and in the input's range. */
bool data_check(const Run *r, const Data *d, int64_t first, int64_t last);
/* Puts n rows into r->inputs; a bounded batch dimension is n then. */
bool data_fill(Run *r, const Data *d, const int64_t *rows, int64_t n);
/* "A:B", "A:", ":B" of `rows`; NULL: all. */
bool data_range(const char *option, const char *text, int64_t rows, int64_t *first, int64_t *last);

/* order[0 .. n) is a permutation of first .. first + n that depends on seed and epoch alone. */
void data_order(uint32_t seed, int64_t epoch, int64_t first, int64_t n, int64_t *order);

#endif
