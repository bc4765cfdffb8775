/* step [--steps N] [--tokens N] [--loss-near X] [--threads N] [--profile]: training steps of one emitted model,
 * -DMODEL=NAME, on one batch.  Prints "seconds of_peak peak_mib block_of_peak": the median step; 6 x parameters x tokens over it,
 * against the rate of fused multiply-adds measured before and after (the larger); arena, parameters and states; the mean rate of a
 * product's block whose factors stay in the innermost cache (after the step) against the same.
 * Verified in the timed run: every loss is finite, the first is within 0.5 of X, the last is smaller than the first.
 * --profile: then, to stderr, the ten kernels that one more step spends most time in.
 * --roofline: prints instead "share kernel" of the kernel that is furthest below its roofline: the time that its operations take at the
 * peak, or its bytes at the rate of a copy of 64 MiB, whichever is more, over the least time of its launches in three more steps; of
 * kernels that take a five-hundredth of the step, and 50 us a launch: a call takes some 5. */
#include "bench/median.h"
#include "bench/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include BENCH_HEADER(MODEL)
BENCH_FORM(MODEL)

typedef struct Options {
    int steps, threads, profile, roofline;
    double tokens, loss_near;
} Options;

static Options parse(int argc, char **argv) {
    Options o = {.steps = 3, .tokens = 1, .threads = fusec_pool_cores(), .loss_near = NAN};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "--profile"))
            o.profile = 1;
        else if (!strcmp(argv[i], "--roofline"))
            o.roofline = 1;
        else if (!strcmp(argv[i], "--steps"))
            o.steps = atoi(value), i++;
        else if (!strcmp(argv[i], "--threads"))
            o.threads = atoi(value), i++;
        else if (!strcmp(argv[i], "--tokens"))
            o.tokens = atof(value), i++;
        else if (!strcmp(argv[i], "--loss-near"))
            o.loss_near = atof(value), i++;
        else
            fprintf(stderr, "step: unknown option %s\n", argv[i]), exit(2);
    }
    return o;
}

static void check_loss(const Options *o, int step, float first, float loss) {
    const bool near = isnan(o->loss_near) || fabs(first - o->loss_near) <= 0.5;
    if (isfinite(loss) && near && (step + 1 < o->steps || o->steps == 1 || loss < first)) return;
    fprintf(stderr, "step: wrong result: loss %g in step %d, %g in the first\n", (double)loss, step + 1, (double)first);
    exit(1);
}

static double median_step(BenchModel *m, const Options *o) {
    double *seconds = malloc(sizeof *seconds * (size_t)o->steps);
    float first = 0;
    if (!seconds) exit(1);
    for (int i = 0; i < o->steps; i++) {
        seconds[i] = bench_step(m);
        if (i == 0) first = bench_loss(m);
        check_loss(o, i, first, bench_loss(m));
    }
    const double median = bench_median(seconds, o->steps);
    free(seconds);
    return median;
}

static double parameters(const fusec_manifest *m) {
    double n = 0;
    for (uint32_t i = 0; i < m->n_params; i++) n += (double)m->params[i].bytes / 4;
    return n;
}

static void profile(BenchModel *m) {
    const fusec_manifest *all = m->form->manifest;
    double *seconds = calloc(all->n_kernels, sizeof *seconds), total = 0;
    int *count = calloc(all->n_kernels, sizeof *count);
    if (!seconds || !count) exit(1);
    bench_profile(m, seconds, count);
    for (uint32_t k = 0; k < all->n_kernels; k++) total += seconds[k];
    fprintf(stderr, "%-28s %9s %7s %9s %9s %7s\n", "kernel", "launches", "share", "ms", "GFLOP/s", "GB/s");
    for (int row = 0; row < 10; row++) {
        uint32_t top = 0;
        for (uint32_t k = 1; k < all->n_kernels; k++)
            if (seconds[k] > seconds[top]) top = k;
        if (seconds[top] <= 0) break;
        const double rate = 1e-9 * count[top] / seconds[top];
        fprintf(stderr, "%-28s %9d %6.1f%% %9.2f %9.1f %7.1f\n", all->kernels[top].name, count[top],
                100 * seconds[top] / total, 1e3 * seconds[top], rate * all->kernels[top].flops,
                rate * all->kernels[top].bytes);
        seconds[top] = 0;
    }
    fprintf(stderr, "%-28s %9s %6.1f%% %9.2f\n", "all", "", 100.0, 1e3 * total);
    free(seconds);
    free(count);
}

static void roofline(BenchModel *m, int threads, double peak) {
    enum { STEPS = 3, SHARE = 500 };
    const fusec_manifest *all = m->form->manifest;
    const double bytes = bench_copy_peak(threads);
    double *least = calloc(all->n_kernels, sizeof *least), total = 0, worst = INFINITY;
    const char *name = "none";
    int *count = calloc(all->n_kernels, sizeof *count);
    for (int s = 0; s < STEPS && least && count; s++) {
        double *seconds = calloc(all->n_kernels, sizeof *seconds);
        if (!seconds) exit(1);
        memset(count, 0, all->n_kernels * sizeof *count);
        bench_profile(m, seconds, count);
        for (uint32_t k = 0; k < all->n_kernels; k++)
            if (!s || seconds[k] < least[k]) least[k] = seconds[k];
        free(seconds);
    }
    for (uint32_t k = 0; least && k < all->n_kernels; k++) total += least[k];
    for (uint32_t k = 0; least && count && k < all->n_kernels; k++) {
        const double flops = count[k] * all->kernels[k].flops / peak, moved = count[k] * all->kernels[k].bytes / bytes,
                     share = (flops > moved ? flops : moved) / least[k];
        if (SHARE * least[k] < total || least[k] < 50e-6 * count[k] || share >= worst) continue;
        worst = share;
        name = all->kernels[k].name;
    }
    printf("%.3f %s\n", worst, name);
    free(least);
    free(count);
}

int main(int argc, char **argv) {
    const Options o = parse(argc, argv);
    BenchModel m;
    double peak = bench_fma_peak(o.threads);
    bench_open(&m, &BENCH_NAMED(MODEL, _form), o.threads);
    const double seconds = median_step(&m, &o), after = bench_fma_peak(o.threads);
    const double bytes = (double)(bench_arena_used(&m) + m.memory.param_bytes + m.memory.state_bytes);
    if (after > peak) peak = after;
    if (o.roofline) roofline(&m, o.threads, peak);
    else
        printf("%.4f %.4f %.1f %.4f\n", seconds, 6 * parameters(m.form->manifest) * o.tokens / seconds / peak, bytes / (1 << 20),
               bench_block_peak(o.threads) / peak);
    fprintf(stderr, "step: %d thread(s), peak %.1f GFLOP/s, last loss %.4f\n", o.threads, peak / 1e9,
            (double)bench_loss(&m));
    if (o.profile) profile(&m);
    bench_close(&m);
    return 0;
}
