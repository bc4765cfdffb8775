/* versus [--rounds N] [--threads N] [--hyper X] [PEER...]: training steps of an emitted model, -DMODEL=NAME, in turns
 * with those of the command PEER, which prints "ready", then for each line that it reads takes a step and prints its
 * seconds.  X: the first hyperparameter.  Prints "ours theirs", the median seconds (0 without a peer); with one thread,
 * the processor's time.  Verified in the timed run: every loss of ours is finite, the last is smaller than the first.
 */
#define _GNU_SOURCE
#include "bench/median.h"
#include "bench/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include BENCH_HEADER(MODEL)
BENCH_FORM(MODEL)

enum { MOST_ROUNDS = 99 };

typedef struct Peer {
    pid_t process;
    FILE *to, *from;
} Peer;

static void fail(const char *what) {
    fprintf(stderr, "versus: %s\n", what);
    exit(1);
}

static void peer_line(Peer *p, char *line, int n) {
    if (!fgets(line, n, p->from)) fail("the peer ended");
}

static Peer peer_start(char **command) {
    int to[2], from[2];
    char line[64];
    if (pipe(to) || pipe(from)) fail("no pipe");
    Peer p = {.process = fork()};
    if (p.process < 0) fail("no process");
    if (p.process == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execvp(command[0], command);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    p.to = fdopen(to[1], "w");
    p.from = fdopen(from[0], "r");
    if (!p.to || !p.from) fail("no stream");
    peer_line(&p, line, sizeof line);
    if (strcmp(line, "ready\n") != 0) fail("the peer is not ready");
    return p;
}

static double peer_step(Peer *p) {
    char line[64];
    fputs("step\n", p->to);
    fflush(p->to);
    peer_line(p, line, sizeof line);
    const double seconds = atof(line);
    if (!(seconds > 0)) fail("the peer gave no time");
    return seconds;
}

static void peer_end(Peer *p) {
    fclose(p->to);
    fclose(p->from);
    waitpid(p->process, NULL, 0);
}

static void check_loss(float first, float loss, bool last) {
    if (isfinite(loss) && (!last || loss < first)) return;
    fprintf(stderr, "versus: wrong result: loss %g, %g in the first step\n", (double)loss, (double)first);
    exit(1);
}

static double our_step(BenchModel *m, int threads) {
    const double start = bench_clock(threads);
    bench_step(m);
    return bench_clock(threads) - start;
}

int main(int argc, char **argv) {
    int rounds = 5, threads = fusec_pool_cores(), at = 1;
    double ours[MOST_ROUNDS], theirs[MOST_ROUNDS];
    float hyper = NAN;
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--rounds")) rounds = atoi(argv[at + 1]);
        if (!strcmp(argv[at], "--threads")) threads = atoi(argv[at + 1]);
        if (!strcmp(argv[at], "--hyper")) hyper = (float)atof(argv[at + 1]);
    }
    if (rounds < 2 || rounds > MOST_ROUNDS) fail("rounds must be 2 to 99");
    const bool compared = at < argc;
    Peer peer = {0};
    BenchModel m;
    if (compared) peer = peer_start(argv + at);
    bench_open(&m, &BENCH_NAMED(MODEL, _form), threads);
    if (!isnan(hyper)) m.hypers = &hyper;
    bench_step(&m);
    const float first = bench_loss(&m);
    for (int i = 0; i < rounds; i++) {
        ours[i] = our_step(&m, threads);
        check_loss(first, bench_loss(&m), i == rounds - 1);
        theirs[i] = compared ? peer_step(&peer) : 0;
    }
    printf("%.6f %.6f\n", bench_median(ours, rounds), bench_median(theirs, rounds));
    if (compared) peer_end(&peer);
    bench_close(&m);
    return 0;
}
