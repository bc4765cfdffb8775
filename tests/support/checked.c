#include "tests/support/checked.h"
#include "tests/support/guard.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { MOST_MEMORY = 258, MOST_ARRAYS = 4096, MOST_FRAMES = 16 };

typedef struct Memory {
    const char *of, *name; /* as a fault calls it */
    const char *at;
    int64_t bytes;
    bool writable;
} Memory;

/* Of the launch; only read while it runs. */
static struct {
    Memory at[MOST_MEMORY];
    int n;
} launched;

/* Of a thread: functions, the innermost last, and their arrays. */
typedef struct Frame {
    const char *function;
    int arrays; /* of those outside */
} Frame;
static _Thread_local struct {
    Frame frame[MOST_FRAMES];
    Memory array[MOST_ARRAYS];
    int frames, arrays;
    int last; /* of launched: where the last access was */
} mine;

/* ---- launches ------------------------------------------------------------------------------------------ */
static void may_touch(const char *of, const char *name, const void *at, int64_t bytes, bool writable) {
    if (launched.n < MOST_MEMORY) launched.at[launched.n++] = (Memory){of, name, at, bytes, writable};
}

/* From the first element to the end of the last. */
static int64_t bytes_now(const Buffer *b, const int64_t *syms) {
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++) {
        const int64_t n = dim_at(b->dim[d], syms);
        if (n == 0) return 0;
        last += (n - 1) * b->stride[d];
    }
    return (last + 1) * dtype_bytes(b->dtype);
}

void checked_launch(const Kernel *k, void *const *buffers, const int64_t *integers, int n_integers) {
    launched.n = 0;
    for (int i = 0; i < k->buffers.n; i++) {
        const Buffer *b = &k->buffers.at[i];
        may_touch(b->written ? "result" : "operand", b->name, buffers[i], bytes_now(b, integers), b->written);
    }
    may_touch("the list of", "buffers", buffers, k->buffers.n * (int64_t)sizeof *buffers, false);
    may_touch("the list of", "integers", integers, n_integers * (int64_t)sizeof *integers, false);
}

/* ---- faults -------------------------------------------------------------------------------------------- */
/* Bytes between memory and a place beside it; 0: inside. */
static int64_t distance(const Memory *m, const char *at) {
    return at < m->at ? m->at - at : at >= m->at + m->bytes ? at - (m->at + m->bytes) + 1 : 0;
}

static const Memory *nearer(const Memory *a, const Memory *b, const char *at) {
    return !a || distance(b, at) < distance(a, at) ? b : a;
}

static const Memory *nearest(const char *at) {
    const Memory *best = NULL;
    for (int i = mine.arrays - 1; i >= 0; i--) best = nearer(best, &mine.array[i], at);
    for (int i = 0; i < launched.n; i++) best = nearer(best, &launched.at[i], at);
    return best;
}

/* Which array of its function. */
static int number_of(const Memory *m) {
    int from = 0;
    for (int i = 0; i < mine.frames; i++)
        if (mine.frame[i].arrays <= m - mine.array) from = mine.frame[i].arrays;
    return (int)(m - mine.array) - from;
}

/* The first thread that comes here ends the process. */
static void fault(const char *at, int64_t bytes, bool writes) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    const Memory *m = nearest(at);
    pthread_mutex_lock(&once);
    printf("FAULT");
    for (int i = 0; i < mine.frames; i++) printf(" %s%s", i ? "> " : "", mine.frame[i].function);
    printf(" %s %lld bytes, %lld bytes from the begin of", writes ? "writes" : "reads", (long long)bytes,
           m ? (long long)(at - m->at) : 0);
    if (m && m >= mine.array && m < mine.array + mine.arrays)
        printf(" array %d of %s", number_of(m), m->name);
    else
        printf(" %s %s", m ? m->of : "", m ? m->name : "nothing");
    printf(" (%lld bytes)\n", m ? (long long)m->bytes : 0);
    fflush(stdout);
    _exit(GUARD_FAULT);
}

/* ---- hooks --------------------------------------------------------------------------------------------- */
static void too_many(const char *what) {
    printf("FAULT checked code has too many %s\n", what);
    fflush(stdout);
    _exit(GUARD_FAULT);
}

static void enter(const char *function) {
    if (mine.frames == MOST_FRAMES) too_many("functions");
    mine.frame[mine.frames++] = (Frame){function, mine.arrays};
}

static void leave(void) { mine.arrays = mine.frame[--mine.frames].arrays; }

static void allocate(void *at, int64_t bytes) {
    if (mine.arrays == MOST_ARRAYS) too_many("arrays");
    guard_fill(at, bytes);
    mine.array[mine.arrays++] = (Memory){"", mine.frame[mine.frames - 1].function, at, bytes, true};
}

static bool holds(const Memory *m, const char *at, int64_t bytes, bool writes) {
    return at >= m->at && at + bytes <= m->at + m->bytes && (m->writable || !writes);
}

static bool may(const char *at, int64_t bytes, bool writes) {
    if (mine.last < launched.n && holds(&launched.at[mine.last], at, bytes, writes)) return true;
    for (int i = mine.arrays - 1; i >= 0; i--)
        if (holds(&mine.array[i], at, bytes, writes)) return true;
    for (int i = 0; i < launched.n; i++)
        if (holds(&launched.at[i], at, bytes, writes)) return mine.last = i, true;
    return false;
}

/* All lanes of an access are of one thing: from the first that is set to the last. */
static void touch(const void *at, int64_t bytes, uint64_t lanes, int32_t writes) {
    if (!lanes) return;
    const int first = __builtin_ctzll(lanes), last = 63 - __builtin_clzll(lanes);
    const char *from = (const char *)at + first * bytes;
    const int64_t all = (last - first + 1) * bytes;
    if (all && !may(from, all, writes)) fault(from, all, writes);
}

const MemoryHooks checked_memory = {enter, leave, allocate, touch};
const HostInstrument checked_code = {instrument_memory, &checked_memory};
