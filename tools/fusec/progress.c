#include "tools/fusec/progress.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

double progress_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(Progress *p, bool quiet, int64_t first, int64_t total) {
    *p = (Progress){.shown = !quiet && isatty(2), .first = first, .total = total, .start = progress_now()};
}

double progress_speed(const Progress *p, int64_t done) {
    const double t = progress_now() - p->start;
    return t > 0 ? (double)(done - p->first) / t : 0;
}

static void duration(char *out, size_t n, double seconds) {
    const long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, n, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, n, "%ld:%02ld", s / 60, s % 60);
}

void progress_draw(Progress *p, int64_t done, const char *what, const char *value) {
    enum { WIDTH = 24 };
    char bar[WIDTH + 1], left[32];
    if (!p->shown || progress_now() - p->drawn < 0.1) return;
    p->drawn = progress_now();
    const double speed = progress_speed(p, done);
    for (int i = 0; i < WIDTH; i++) bar[i] = (int64_t)i * p->total < done * WIDTH ? '#' : '.';
    bar[WIDTH] = 0;
    duration(left, sizeof left, speed > 0 ? (double)(p->total - done) / speed : 0);
    fprintf(stderr, "\r\033[K%s [%s] %s  %.4g steps/s  %s left", what, bar, value, speed, left);
    fflush(stderr);
}

void progress_clear(Progress *p) {
    if (!p->shown) return;
    fputs("\r\033[K", stderr);
    p->drawn = 0;
}
