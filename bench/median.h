/* The median of measured times. */
#ifndef FUSEC_BENCH_MEDIAN_H
#define FUSEC_BENCH_MEDIAN_H
#include <stdlib.h>

static inline int bench_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of x[n], n >= 1, which it sorts: the upper one of two middles. */
static inline double bench_median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, bench_by_value);
    return x[n / 2];
}

#endif
