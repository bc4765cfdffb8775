/* measure RUNS COMMAND...: runs a command once to warm up, then RUNS times; prints the median wall time and
 * the median processor time in seconds, and the largest resident set in MiB, separated by spaces.  Exit 1 if the
 * command fails. */
#include "bench/median.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* Seconds, or a negative number on failure. */
static double run(char **argv, double *processor, double *mib) {
    const double start = now();
    const pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    int status = 0;
    struct rusage use;
    if (pid < 0 || wait4(pid, &status, 0, &use) < 0 || status != 0) return -1;
    if ((double)use.ru_maxrss / 1024 > *mib) *mib = (double)use.ru_maxrss / 1024;
    *processor = seconds_of(use.ru_utime) + seconds_of(use.ru_stime);
    return now() - start;
}

int main(int argc, char **argv) {
    const int n = argc > 2 ? atoi(argv[1]) : 0;
    if (n < 1) {
        fprintf(stderr, "usage: measure RUNS COMMAND...\n");
        return 2;
    }
    double *seconds = malloc(sizeof *seconds * (size_t)n), *processor = malloc(sizeof *processor * (size_t)n), mib = 0;
    if (!seconds || !processor) return 1;
    for (int i = -1; i < n; i++) {
        double used;
        const double s = run(argv + 2, &used, &mib);
        if (s < 0) {
            fprintf(stderr, "measure: %s failed\n", argv[2]);
            return 1;
        }
        if (i >= 0) seconds[i] = s, processor[i] = used;
    }
    printf("%.4f %.4f %.1f\n", bench_median(seconds, n), bench_median(processor, n), mib);
    free(seconds);
    free(processor);
    return 0;
}
