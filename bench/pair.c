/* pair ROUNDS: steps of two emitted models, -DFIRST=NAME -DSECOND=NAME, taken in turn on the same inputs.  Prints
 * "memory time": used arena and median step time of the second over the first.  Verified in the timed run: in every
 * round the two losses are finite and equal to TOLERANCE, relative, and by the last round they have changed. */
#include "bench/median.h"
#include "bench/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const float TOLERANCE = 1e-4f;
static const float SMALL_RATE = 1e-7f; /* hyperparameter 0: a deep stack without tuning must not diverge */

#include BENCH_HEADER(FIRST)
#include BENCH_HEADER(SECOND)
BENCH_FORM(FIRST)
BENCH_FORM(SECOND)

static void round_of(BenchModel *m, double *seconds[2], int i) {
    float loss[2];
    for (int k = 0; k < 2; k++) {
        seconds[k][i] = bench_step(&m[k]);
        loss[k] = bench_loss(&m[k]);
    }
    if (isfinite(loss[0]) && fabsf(loss[0] - loss[1]) <= TOLERANCE * fabsf(loss[0])) return;
    fprintf(stderr, "pair: losses differ in round %d: %.9g and %.9g\n", i, (double)loss[0], (double)loss[1]);
    exit(1);
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    if (rounds < 1) {
        fprintf(stderr, "usage: pair ROUNDS\n");
        return 2;
    }
    BenchModel m[2];
    double *seconds[2] = {malloc(sizeof(double) * (size_t)rounds), malloc(sizeof(double) * (size_t)rounds)};
    if (!seconds[0] || !seconds[1]) return 1;
    bench_open(&m[0], &BENCH_NAMED(FIRST, _form), 1);
    bench_open(&m[1], &BENCH_NAMED(SECOND, _form), 1);
    m[0].hypers = m[1].hypers = &SMALL_RATE;
    round_of(m, seconds, 0); /* warms up; measured again */
    const float first = bench_loss(&m[1]);
    for (int i = 0; i < rounds; i++) round_of(m, seconds, i);
    if (bench_loss(&m[1]) == first) {
        fprintf(stderr, "pair: the loss stays at %.9g\n", (double)first);
        return 1;
    }
    printf("%.4f %.4f\n", (double)bench_arena_used(&m[1]) / (double)bench_arena_used(&m[0]),
           bench_median(seconds[1], rounds) / bench_median(seconds[0], rounds));
    for (int k = 0; k < 2; k++) {
        bench_close(&m[k]);
        free(seconds[k]);
    }
    return 0;
}
