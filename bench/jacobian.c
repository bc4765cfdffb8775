/* jacobian ROUNDS: the full Jacobian of bench/jacobian256.dsl, with its forward, against one backward pass per output,
 * which is given the activations; on all cores.  Prints how many times faster it is, by medians of all rounds. Verified
 * in the timed run: every row that a pass gives is the Jacobian's.  Then which share of the peak the Jacobian's
 * operations are: a pass is bound by memory, so no more can be had than peak over bandwidth. */
#include "bench/median.h"
#include "bench/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const float TOLERANCE = 1e-4f; /* relative to the largest element of a row */
enum { OUT_JACOBIAN, OUT_A, OUT_B, OUTPUTS };
enum { IN_X, IN_A, IN_B, IN_U };

#include BENCH_HEADER(jacobian256)
#include BENCH_HEADER(backward256)
BENCH_FORM(jacobian256)
BENCH_FORM(backward256)

static double seconds_of_jacobian(BenchModel *m) {
    void *wanted[OUTPUTS] = {m->outputs[OUT_JACOBIAN], NULL, NULL};
    return bench_infer(m, wanted);
}

static void check_row(const float *got, const float *want, int width, int row) {
    float largest = 0, error = 0;
    for (int i = 0; i < width; i++) {
        largest = fmaxf(largest, fabsf(want[i]));
        error = fmaxf(error, fabsf(got[i] - want[i]));
    }
    if (error <= TOLERANCE * largest && largest > 0) return;
    fprintf(stderr, "jacobian: row %d is off by %g of %g\n", row, (double)error, (double)largest);
    exit(1);
}

/* A backward pass per output: seconds of all.  u: the seed, zeros. */
static double seconds_of_rows(BenchModel *m, float *u, const float *jacobian, int rows, int width) {
    double seconds = 0;
    for (int i = 0; i < rows; i++) {
        u[i] = 1;
        seconds += bench_infer(m, m->outputs);
        u[i] = 0;
        check_row(m->outputs[0], jacobian + (size_t)i * (size_t)width, width, i);
    }
    return seconds;
}

/* Of infer, all outputs wanted. */
static double flops_of(const fusec_manifest *m) {
    const fusec_entry *e = &m->entry[FUSEC_INFER];
    double flops = 0;
    for (uint32_t i = 0; i < e->n_launches; i++) flops += m->kernels[m->launches[e->first_launch + i].kernel].flops;
    return flops;
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    if (rounds < 1) {
        fprintf(stderr, "usage: jacobian ROUNDS\n");
        return 2;
    }
    BenchModel whole, pass;
    bench_open(&whole, &jacobian256_form, fusec_pool_cores());
    bench_open(&pass, &backward256_form, fusec_pool_cores());
    const int rows = (int)(backward256_manifest.inputs[IN_U].bytes / sizeof(float));
    const int width = (int)(backward256_manifest.outputs[0].bytes / sizeof(float));
    const void *given[] = {whole.inputs[IN_X], whole.outputs[OUT_A], whole.outputs[OUT_B],
                           calloc((size_t)rows, sizeof(float))};
    const void **drawn = pass.inputs;
    double *seconds[2] = {malloc(sizeof(double) * (size_t)rounds), malloc(sizeof(double) * (size_t)rounds)};
    if (!given[IN_U] || !seconds[0] || !seconds[1]) return 1;
    pass.inputs = given;
    bench_infer(&whole, whole.outputs); /* warms up, and makes the activations */
    double peak = 0;
    for (int i = 0; i < rounds; i++) {
        const double now = bench_fma_peak(fusec_pool_cores());
        peak = now > peak ? now : peak;
        seconds[0][i] = seconds_of_jacobian(&whole);
        seconds[1][i] =
            seconds_of_rows(&pass, (float *)(uintptr_t)given[IN_U], whole.outputs[OUT_JACOBIAN], rows, width);
    }
    const double one = bench_median(seconds[0], rounds), many = bench_median(seconds[1], rounds);
    const double bytes = (double)pass.memory.param_bytes * rows;
    printf("%.4f %.4f\n", many / one, flops_of(&jacobian256_manifest) / one / peak);
    fprintf(stderr, "jacobian: %.2f ms of %.1f GFLOP/s; %d backward passes: %.1f ms, parameters at %.1f GB/s\n",
            1e3 * one, peak / 1e9, rows, 1e3 * many, bytes / many / 1e9);
    free((void *)(uintptr_t)given[IN_U]);
    pass.inputs = drawn;
    bench_close(&whole);
    bench_close(&pass);
    for (int k = 0; k < 2; k++) free(seconds[k]);
    return 0;
}
