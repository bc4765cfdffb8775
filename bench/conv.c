/* conv [--rounds N] [--threads N] NAME BATCH SIZE IN OUT SPAN STRIDE PAD DEPTHWISE: one convolution and its two
 * gradients, emitted from bench/conv.dsl (-DMODEL=NAME), against oneDNN in its own layouts and with NHWC images, the
 * faster counting. Prints "NAME.PASS ratio gflops arrays" per pass: the peer's median time over ours, both of runs that
 * take turns, its arrays already in the layout it wants; and the same ratio where both begin and end with the same
 * arrays, so that the peer's reordering counts as our packing does.  With one thread, time is the process's processor
 * time.  Verified in the timed run: both results agree. */
#include "bench/median.h"
#include "bench/model.h"
#include "bench/onednn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include BENCH_HEADER(MODEL)
BENCH_FORM(MODEL)

enum { IN_X, IN_W, IN_U, MOST_ROUNDS = 99 };
static const double SAMPLE = 2e-3;    /* seconds, at least, per time taken */
static const double TOLERANCE = 2e-5; /* of the largest element, times the root of the number of terms */

typedef struct Bench {
    ConvShape shape;
    const char *name;
    int rounds, threads;
    BenchModel model;
} Bench;

/* Ours or a peer's. */
typedef struct Runner {
    BenchModel *model;
    void *outputs[CONV_PASSES];
    Peer *peer;
    bool arrays; /* the peer's reordering counts */
} Runner;

enum { RUNNERS = 1 + 2 * PEER_LAYOUTS };

static void run(const Runner *r) {
    if (r->peer && r->arrays)
        peer_run_arrays(r->peer);
    else if (r->peer)
        peer_run(r->peer);
    else if (r->model)
        bench_infer(r->model, r->outputs);
}

static double now(const Bench *b) {
    struct timespec t;
    if (b->threads != 1) return bench_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs for as long as a sample takes; seconds of one run. */
static double seconds_of_runs(const Bench *b, const Runner *r) {
    int runs = 0;
    const double start = now(b);
    double passed;
    do {
        run(r);
        runs++;
        passed = now(b) - start;
    } while (passed < SAMPLE);
    return passed / runs;
}

/* Threads of the other library may still be spinning: they get a moment to fall asleep.  Then a processor that slept
 * may take a millisecond to be there, which the first runs of who waits for it hide, and of who does without it do not:
 * a sample is not counted. */
static double seconds_of(const Bench *b, const Runner *r) {
    if (b->threads != 1) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    run(r);
    bench_spread_threads(b->threads); /* which may be new */
    seconds_of_runs(b, r);
    return seconds_of_runs(b, r);
}

static void check(const Bench *b, ConvPass pass, const float *got, const float *want, uint64_t n, double terms) {
    double largest = 0, error = 0;
    for (uint64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)want[i]));
        error = fmax(error, fabs((double)got[i] - (double)want[i]));
        if (isnan(got[i])) error = INFINITY;
    }
    if (error <= TOLERANCE * sqrt(terms) * largest && largest > 0) return;
    fprintf(stderr, "conv: %s, pass %d: off by %g of %g\n", b->name, (int)pass, error, largest);
    exit(1);
}

/* The least median of the peers whose reordering counts, or of those for whom it does not. */
static double best_peer(const Bench *b, const Runner *runner, double (*seconds)[MOST_ROUNDS], bool arrays) {
    double best = INFINITY;
    for (int i = 1; i < RUNNERS; i++)
        if (runner[i].peer && runner[i].arrays == arrays) best = fmin(best, bench_median(seconds[i], b->rounds));
    return best;
}

static void bench_pass(Bench *b, ConvPass pass) {
    static const char *const names[CONV_PASSES] = {"forward", "input_gradient", "kernel_gradient"};
    const ConvShape *s = &b->shape;
    BenchModel *m = &b->model;
    Runner runner[RUNNERS] = {{.model = m}};
    double seconds[RUNNERS][MOST_ROUNDS];
    const fusec_tensor *out = &m->form->manifest->outputs[pass];
    const double places = (double)(s->batch * s->results * s->results), taps = (double)(s->span * s->span);
    const double terms[CONV_PASSES] = {taps * (double)(s->depthwise ? 1 : s->in),
                                       taps * (double)(s->depthwise ? 1 : s->out), places};
    const double flops = 2 * places * (double)s->out * terms[PASS_FORWARD];
    runner[0].outputs[pass] = m->outputs[pass];
    for (int i = 0; i < PEER_LAYOUTS; i++) {
        Peer *p = peer_open(s, pass, (PeerLayout)i, m->inputs[IN_X], m->inputs[IN_W], m->inputs[IN_U]);
        runner[1 + i].peer = runner[1 + PEER_LAYOUTS + i].peer = p;
        runner[1 + PEER_LAYOUTS + i].arrays = true;
    }
    for (int round = 0; round < b->rounds; round++)
        for (int i = 0; i < RUNNERS; i++) seconds[i][round] = seconds_of(b, &runner[i]);
    const double ours = bench_median(seconds[0], b->rounds);
    float *want = malloc(out->bytes);
    if (!want) exit(1);
    for (int i = 1; i < RUNNERS; i++) {
        if (!runner[i].peer) continue;
        peer_result(runner[i].peer, want);
        check(b, pass, m->outputs[pass], want, out->bytes / sizeof(float), terms[pass]);
        fprintf(stderr, "%-28s %-16s %8.3f ms  %s%s %8.3f ms\n", b->name, names[pass], 1e3 * ours,
                peer_implementation(runner[i].peer), runner[i].arrays ? ", reordering" : "",
                1e3 * bench_median(seconds[i], b->rounds));
    }
    printf("%s.%s %.4f %.1f %.4f\n", b->name, names[pass], best_peer(b, runner, seconds, false) / ours,
           1e-9 * flops / ours, best_peer(b, runner, seconds, true) / ours);
    for (int i = 1; i <= PEER_LAYOUTS; i++) peer_close(runner[i].peer);
    free(want);
}

int main(int argc, char **argv) {
    Bench b = {.rounds = 7, .threads = fusec_pool_cores()};
    int at = 1;
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--rounds")) b.rounds = atoi(argv[at + 1]);
        if (!strcmp(argv[at], "--threads")) b.threads = atoi(argv[at + 1]);
    }
    if (argc - at != 9 || b.rounds < 1 || b.rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: conv [--rounds N] [--threads N] NAME BATCH SIZE IN OUT SPAN STRIDE PAD DEPTHWISE\n");
        return 2;
    }
    long number[8];
    b.name = argv[at];
    for (int i = 0; i < 8; i++) number[i] = atol(argv[at + 1 + i]);
    b.shape = (ConvShape){.batch = number[0],
                          .size = number[1],
                          .in = number[2],
                          .out = number[3],
                          .span = number[4],
                          .stride = number[5],
                          .pad = number[6],
                          .depthwise = number[7] != 0};
    b.shape.results = (b.shape.size + 2 * b.shape.pad - b.shape.span) / b.shape.stride + 1;
    bench_open(&b.model, &BENCH_NAMED(MODEL, _form), b.threads);
    for (int pass = 0; pass < CONV_PASSES; pass++) bench_pass(&b, (ConvPass)pass);
    bench_close(&b.model);
    return 0;
}
