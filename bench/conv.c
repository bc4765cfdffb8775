/* conv [--rounds N] [--threads N] NAME BATCH SIZE IN OUT SPAN STRIDE PAD DEPTHWISE: one convolution and its two
 * gradients, emitted from bench/conv.dsl (-DMODEL=NAME), against oneDNN in its own layouts and with NHWC images, the
 * faster counting. Prints "NAME.PASS ratio gflops arrays" per pass: the peer's time over ours, the least of samples
 * that take turns, its arrays already in the layout it wants; and the same ratio where both begin and end with the same
 * arrays, so that the peer's reordering counts as our packing does.  Inputs come from memory, as in a network of which
 * the caches hold a part.  With one thread, time is the process's processor time.  Verified in the timed run: both
 * results agree. */
#include "bench/model.h"
#include "bench/onednn.h"
#include "bench/rounds.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include BENCH_HEADER(MODEL)
BENCH_FORM(MODEL)

static const double SAMPLE = 2e-3;    /* seconds, at least, per time taken */
static const double TOLERANCE = 2e-5; /* of the largest element, times the root of the number of terms */

typedef struct Bench {
    ConvShape shape;
    const char *name;
    int rounds, threads;
    BenchModel model;
    int sets; /* of inputs, all alike: each run takes the next, which no cache holds any more */
    ConvSet set[MOST_SETS];
} Bench;

/* Ours or a peer's. */
typedef struct Runner {
    BenchModel *model;
    ConvPass pass;
    float *output[MOST_SETS]; /* ours, by set */
    Peer *peer;
    bool arrays; /* the peer's reordering counts */
    int next;    /* set of inputs */
} Runner;

enum { RUNNERS = 1 + 2 * PEER_LAYOUTS };

static void run(const Bench *b, Runner *r) {
    void *outputs[CONV_PASSES] = {NULL};
    const int set = r->next++ % b->sets;
    if (r->peer && r->arrays) {
        peer_run_arrays(r->peer, set);
    } else if (r->peer) {
        peer_run(r->peer, set);
    } else if (r->model) {
        for (int i = 0; i < CONV_PASSES; i++) r->model->inputs[i] = b->set[set].in[i];
        outputs[r->pass] = r->output[set];
        bench_infer(r->model, outputs);
    }
}

static double now(const Bench *b) {
    struct timespec t;
    if (b->threads != 1) return bench_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes)) exit(1);
    memset(p, 0, bytes);
    return p;
}

/* Copies of the model's inputs: together more than the caches hold. */
static void open_sets(Bench *b) {
    const fusec_manifest *m = b->model.form->manifest;
    uint64_t bytes = 0;
    for (int i = 0; i < CONV_PASSES; i++) bytes += m->inputs[i].bytes;
    b->sets = 1 + (int)(EVICT_BYTES / bytes);
    if (b->sets > MOST_SETS) b->sets = MOST_SETS;
    for (int k = 0; k < b->sets; k++)
        for (int i = 0; i < CONV_PASSES; i++)
            b->set[k].in[i] = memcpy(allocate(m->inputs[i].bytes), b->model.inputs[i], m->inputs[i].bytes);
}

/* Runs for as long as a sample takes; seconds of one run. */
static double seconds_of_runs(const Bench *b, Runner *r) {
    int runs = 0;
    const double start = now(b);
    double passed;
    do {
        run(b, r);
        runs++;
        passed = now(b) - start;
    } while (passed < SAMPLE);
    return passed / runs;
}

/* Threads of the other library may still be spinning: they get a moment to fall asleep.  Then a processor that slept
 * may take a millisecond to be there, which the first runs of who waits for it hide, and of who does without it do not:
 * a sample is not counted. */
static double seconds_of(const Bench *b, Runner *r) {
    if (b->threads != 1) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    run(b, r);
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

/* The best of the peers whose reordering counts, or of those for whom it does not. */
static double best_peer(const Runner *runner, const double *seconds, bool arrays) {
    double best = INFINITY;
    for (int i = 1; i < RUNNERS; i++)
        if (runner[i].peer && runner[i].arrays == arrays) best = fmin(best, seconds[i]);
    return best;
}

static void bench_pass(Bench *b, ConvPass pass) {
    static const char *const names[CONV_PASSES] = {"forward", "input_gradient", "kernel_gradient"};
    const ConvShape *s = &b->shape;
    BenchModel *m = &b->model;
    Runner runner[RUNNERS] = {{.model = m, .pass = pass}};
    double seconds[RUNNERS] = {0};
    const fusec_tensor *out = &m->form->manifest->outputs[pass];
    const double places = (double)(s->batch * s->results * s->results), taps = (double)(s->span * s->span);
    const double terms[CONV_PASSES] = {taps * (double)(s->depthwise ? 1 : s->in),
                                       taps * (double)(s->depthwise ? 1 : s->out), places};
    const double flops = 2 * places * (double)s->out * terms[PASS_FORWARD];
    for (int i = 0; i < b->sets; i++) runner[0].output[i] = allocate(out->bytes);
    for (int i = 0; i < PEER_LAYOUTS; i++) {
        Peer *p = peer_open(s, pass, (PeerLayout)i, b->sets, b->set);
        runner[1 + i].peer = runner[1 + PEER_LAYOUTS + i].peer = p;
        runner[1 + PEER_LAYOUTS + i].arrays = true;
    }
    for (int round = 0; round < b->rounds; round++)
        for (int i = 0; i < RUNNERS; i++) keep_least(&seconds[i], seconds_of(b, &runner[i]));
    float *want = allocate(out->bytes);
    for (int i = 1; i < RUNNERS; i++) {
        if (!runner[i].peer) continue;
        peer_result(runner[i].peer, 0, want);
        check(b, pass, runner[0].output[0], want, out->bytes / sizeof(float), terms[pass]);
        fprintf(stderr, "%-28s %-16s %8.3f ms  %s%s %8.3f ms\n", b->name, names[pass], 1e3 * seconds[0],
                peer_implementation(runner[i].peer), runner[i].arrays ? ", reordering" : "", 1e3 * seconds[i]);
    }
    printf("%s.%s %.4f %.1f %.4f\n", b->name, names[pass], best_peer(runner, seconds, false) / seconds[0],
           1e-9 * flops / seconds[0], best_peer(runner, seconds, true) / seconds[0]);
    for (int i = 1; i <= PEER_LAYOUTS; i++) peer_close(runner[i].peer);
    for (int i = 0; i < b->sets; i++) free(runner[0].output[i]);
    free(want);
}

int main(int argc, char **argv) {
    Bench b = {.rounds = 7, .threads = fusec_pool_cores()};
    int at = 1;
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--rounds")) b.rounds = atoi(argv[at + 1]);
        if (!strcmp(argv[at], "--threads")) b.threads = atoi(argv[at + 1]);
    }
    if (argc - at != 9 || b.rounds < 1) {
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
    open_sets(&b);
    for (int pass = 0; pass < CONV_PASSES; pass++) bench_pass(&b, (ConvPass)pass);
    bench_close(&b.model);
    return 0;
}
