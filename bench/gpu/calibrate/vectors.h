/* Results as lines of text, small enough to be kept, and their comparison.
 *
 *     # fusec calibration 1
 *     # device NAME arch sm_NN driver N
 *     NAME exact|approx|sum ELEMENT HASH BITS GROUPS VALUES
 *     NAME refused|failed|unreached WHY
 *
 * HASH is of all results with every NaN made one, BITS of the bytes as they are, GROUPS of 8 equal parts of the results
 * (16 bits each).  VALUES, in hexadecimal without blanks: results at equal distances, 4 of an exact job, 256 of an
 * approximation, 32 of a sum.  Numbers are little-endian in memory, as on every machine with such a GPU. */
#ifndef FUSEC_CALIBRATE_VECTORS_H
#define FUSEC_CALIBRATE_VECTORS_H
#include "bench/gpu/calibrate/device.h"
#include <stdio.h>

enum { GROUPS = 8, MOST_VALUES = 256 };

typedef struct Vector {
    char name[JOB_NAME], why[WHY];
    Outcome outcome;
    Judgement judgement;
    Element element;
    uint64_t hash, bits, value[MOST_VALUES];
    uint16_t group[GROUPS];
    int values;
} Vector;

typedef struct Vectors {
    DeviceName device;
    Vector *vector; /* owned */
    int count;
} Vectors;

uint32_t job_results(const Job *); /* how many */
uint64_t job_result(const Job *, const uint8_t *out, uint32_t index);
uint32_t value_place(const Job *, int value); /* index of the result that is value number `value` */

void vector_of(Vector *, const Job *, Outcome, const char *why, const uint8_t *out);
/* False after a message. */
bool vectors_write(const char *path, const Vectors *);
bool vectors_read(const char *path, Vectors *);
void vectors_free(Vectors *);

/* Prints a table of differences; returns how many instructions differ, by more than the ISA allows where it allows
 * anything. */
int vectors_compare(const Vectors *have, const Vectors *want, const Jobs *, FILE *);
bool vectors_differ(const Vector *have, const Vector *want);
const Vector *vectors_find(const Vectors *, const char *name);

#endif
