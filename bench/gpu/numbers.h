/* Numbers that two programs on two machines agree on: inputs drawn from a hash, and expected values of tensors in a
 * file.
 *
 * The file is records, one per tensor: a line of text
 *     NAME COUNT STORED NORM NOISE
 * (elements in all, values stored, the 2-norm of all elements, the relative error that rounding alone was seen to
 * cause: an optimizer may magnify that of tiny gradients to any size), a newline, then STORED little-endian
 * floats: all elements in order when STORED == COUNT, else those at numbers_place(NAME, i, COUNT), i = 0, 1, ... */
#ifndef FUSEC_BENCH_NUMBERS_H
#define FUSEC_BENCH_NUMBERS_H
#include "runtime/common/fusec.h"
#include <stdbool.h>
#include <stdio.h>

/* NOISE: how often the error that rounding was seen to cause is allowed. */
enum { NUMBERS_NAME = 200, NUMBERS_SAMPLES = 512, NUMBERS_WHOLE = 4096, NUMBERS_NOISE = 16 };

typedef struct Numbers {
    char name[NUMBERS_NAME];
    uint64_t count, stored;
    double norm, noise;
    float *value; /* malloc */
} Numbers;

/* Element i of the tensor called `name`: floats uniform in [-1, 1), integers in [lo, hi) or 0..3, booleans. */
void numbers_draw(const fusec_tensor *t, void *to, uint64_t count);
uint64_t numbers_place(const char *name, uint64_t i, uint64_t count);

uint64_t numbers_count(const fusec_tensor *t);
double numbers_get(const fusec_tensor *t, const void *data, uint64_t i);

/* Element i of something. */
typedef double NumbersGet(const void *user, uint64_t i);
/* The stored elements and the norm: all elements if there are at most `whole` of them.  n->value is NULL without
 * memory. */
void numbers_take(Numbers *n, const char *name, uint64_t count, uint64_t whole, NumbersGet *get, const void *user);
/* |a - b| over the stored elements of both; of a alone if b is NULL. */
double numbers_distance(const Numbers *a, const Numbers *b);
/* Appends a record; false if it could not be written. */
bool numbers_write(FILE *f, const Numbers *n);
/* The next record; false at the end or when the file is damaged (*damaged). */
bool numbers_read(FILE *f, Numbers *n, bool *damaged);

#endif
