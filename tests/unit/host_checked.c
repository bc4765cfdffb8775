/* Checked host code (HostOptions.instrument) and what judges it (tests/support/checked.h): an access beside what a kernel
 * may touch is a fault, even where all memory about is there; what a mask leaves out is no access; arrays on the stack
 * have room on both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/support/checked.h"
#include "tests/support/guard.h"
#include "tests/support/kernel_case.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const HostOptions machines[] = {{.instrument = &checked_code},
                                       {.cpu = "x86-64-v3", .features = "", .instrument = &checked_code},
                                       {.cpu = "x86-64-v2", .features = "", .instrument = &checked_code}};
enum { MACHINES = sizeof machines / sizeof *machines };

/* ---- a process of its own ------------------------------------------------------------------------------ */
typedef void Job(const void *);

/* Its exit status, and the first line it prints. */
static int isolated(Job *job, const void *with, char *line, int n) {
    int status = 0;
    FILE *said = tmpfile();
    assert_non_null(said);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (dup2(fileno(said), STDOUT_FILENO) < 0) _exit(1);
        job(with);
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    rewind(said);
    if (!fgets(line, n, said)) *line = 0;
    fclose(said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- kernels ------------------------------------------------------------------------------------------- */
static HostJit *code_of(Arena *a, Kernel *k, const HostOptions *o) {
    Module m = {.arena = a, .name = "m", .source = "test", .align = 64};
    char *why = NULL;
    vec_push(a, m.kernels, k);
    HostJit *jit = host_jit(&m, o, &why);
    if (!jit) fail_msg("%s", why);
    return jit;
}

typedef struct Case {
    const char *text, *fault; /* fault NULL: it is sound */
    int64_t n;                /* its symbol */
    const HostOptions *machine;
} Case;

/* Buffers lie amid memory that is there.  Not verified: what is wrong here the verifier would refuse. */
static void run_case(const void *with) {
    enum { AROUND = 1024, EACH = 4096 };
    static int32_t memory[3][EACH];
    const Case *c = with;
    Arena *a = arena_new();
    const char *error;
    Kernel *k = kernel_parse(a, c->text, &error);
    if (!k) fail_msg("%s", error);
    HostJit *jit = code_of(a, k, c->machine);
    void *buffers[3] = {&memory[0][AROUND], &memory[1][AROUND], &memory[2][AROUND]};
    const int64_t syms[] = {c->n};
    checked_launch(k, buffers, syms, k->n_syms);
    host_jit_kernels(jit)[0](buffers, syms, 0, kernel_programs(k, syms));
    host_jit_free(jit);
    arena_free(a);
}

static const Case cases[] = {
    {"kernel @whole(%x: f32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %0 = load %x[i] : f32[i:8]\n  store %y[i], %0\n",
     NULL, 0, NULL},
    {"kernel @behind(%x: f32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %0 = load %x[i + 1] : f32[i:8]\n  store %y[i], %0\n",
     "m.behind reads", 0, NULL},
    {"kernel @ahead(%x: f32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %0 = load %x[i - 1] : f32[i:8]\n  store %y[i], %0\n",
     "m.ahead reads", 0, NULL},
    {"kernel @beside(%x: f32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %0 = load %x[i] : f32[i:8]\n  store %y[i + 1], %0\n",
     "m.beside writes", 0, NULL},
    {"kernel @turned(%x: f32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %0 = load %x[2*i] : f32[i:8]\n  store %y[i], %0\n",
     "m.turned reads", 0, NULL},
    {"kernel @masked(%x: f32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n  %1 = const 20 : i32\n"
     "  %2 = index i : i32[i:8]\n  %3 = lt %2, %1 : bool[i:8]\n"
     "  %0 = load %x[i + 1] where %3 else 0 : f32[i:8]\n  store %y[i], %0\n",
     NULL, 0, NULL},
    {"kernel @masked_too_late(%x: f32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n  %1 = const 21 : i32\n"
     "  %2 = index i : i32[i:8]\n  %3 = lt %2, %1 : bool[i:8]\n"
     "  %0 = load %x[i + 1] where %3 else 0 : f32[i:8]\n  store %y[i], %0\n",
     "m.masked_too_late reads", 0, NULL},
    {"kernel @gathered(%x: f32[5], %j: i32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %1 = load %j[i] : i32[i:8]\n  %0 = load %x[%1] : f32[i:8]\n  store %y[i], %0\n",
     NULL, 0, NULL},
    {"kernel @gathered_far(%x: f32[5], %j: i32[21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %1 = load %j[i] : i32[i:8]\n  %0 = load %x[%1 + i] : f32[i:8]\n  store %y[i], %0\n",
     "m.gathered_far reads", 0, NULL},
    {"kernel @shorter<S<=21>(%x: f32[S<=21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %0 = load %x[i] : f32[i:8]\n  store %y[i], %0\n",
     NULL, 21, NULL},
    {"kernel @shorter<S<=21>(%x: f32[S<=21], %y: f32[21] out)\n  grid i in 0..21 step 8\n"
     "  %0 = load %x[i] : f32[i:8]\n  store %y[i], %0\n",
     "m.shorter reads", 20, NULL},
};

static void accesses_beside_a_buffer_are_seen(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int m = 0; m < MACHINES; m++) {
            Case c = cases[i];
            char line[300];
            c.machine = &machines[m];
            const int code = isolated(run_case, &c, line, sizeof line);
            const bool as_said = c.fault ? code == GUARD_FAULT && strstr(line, c.fault) : code == 0 && !*line;
            if (!as_said) fail_msg("machine %d, exit %d, %s, from\n%s", m, code, line, c.text);
        }
}

/* An operand is not written, even where it lies. */
static void write_operand(const void *with) {
    Arena *a = arena_new();
    float x[4] = {0};
    Kernel *k = parse_kernel(a, "kernel @k(%x: f32[4], %y: f32[4] out)\n  grid i in 0..4 step 4\n"
                                "  %0 = load %x[i] : f32[i:4]\n  store %y[i], %0\n");
    (void)with;
    checked_launch(k, (void *[]){x, x + 4}, NULL, 0);
    checked_memory.enter("f");
    checked_memory.access(x, 16, 1, 0);
    checked_memory.access(x, 16, 1, 1);
}

/* ---- arrays -------------------------------------------------------------------------------------------- */
static char room[3][256]; /* the middle one is an array */

static void touch_array(const void *with) {
    const int *at = with;
    checked_memory.enter("outer");
    checked_memory.allocate(room[1], sizeof room[1]);
    checked_memory.enter("inner");
    checked_memory.access(room[1], sizeof room[1], 1, 1);
    checked_memory.access(room[0] + 192, 16, 0xff0, 0); /* the last lane ends at the array's 64th byte */
    if (at) checked_memory.access(room[1] + *at, 16, 1, 0);
    checked_memory.leave();
    checked_memory.leave();
    checked_memory.enter("later");
    if (!at) checked_memory.access(room[1], 16, 1, 0); /* the array is no more */
}

static void accesses_beside_an_array_are_seen(void **state) {
    char line[300];
    const int before = -1, last = 240, behind = 241;
    (void)state;
    assert_int_equal(isolated(touch_array, &last, line, sizeof line), 0);
    assert_int_equal(isolated(touch_array, &before, line, sizeof line), GUARD_FAULT);
    assert_string_equal(
        line, "FAULT outer > inner reads 16 bytes, -1 bytes from the begin of array 0 of outer (256 bytes)\n");
    assert_int_equal(isolated(touch_array, &behind, line, sizeof line), GUARD_FAULT);
    assert_int_equal(isolated(touch_array, NULL, line, sizeof line), GUARD_FAULT);
    assert_non_null(strstr(line, "later reads"));
    assert_int_equal(isolated(write_operand, NULL, line, sizeof line), GUARD_FAULT);
    assert_string_equal(line, "FAULT f writes 16 bytes, 0 bytes from the begin of operand x (16 bytes)\n");
}

/* ---- what code says ------------------------------------------------------------------------------------ */
enum { ROOM = 64, MOST = 64 };
static struct {
    int depth, arrays, inside, spoilt;
    struct {
        char *at;
        int64_t bytes;
        int depth;
    } array[MOST];
} heard;

static void hear_enter(const char *function) {
    heard.depth++;
    if (heard.depth == 1) assert_string_equal(function, "m.attention");
}

static bool is_room(const char *at) {
    for (int i = 0; i < ROOM; i++)
        if (at[i] != 0x5a) return false;
    return true;
}

static void hear_leave(void) {
    for (; heard.arrays && heard.array[heard.arrays - 1].depth == heard.depth; heard.arrays--) {
        const char *at = heard.array[heard.arrays - 1].at;
        heard.spoilt += !is_room(at - ROOM) || !is_room(at + heard.array[heard.arrays - 1].bytes);
    }
    heard.depth--;
}

static void hear_allocate(void *at, int64_t bytes) {
    assert_true(heard.arrays < MOST);
    memset((char *)at - ROOM, 0x5a, ROOM);
    memset((char *)at + bytes, 0x5a, ROOM);
    heard.array[heard.arrays].at = at;
    heard.array[heard.arrays].depth = heard.depth;
    heard.array[heard.arrays++].bytes = bytes;
}

static void hear_access(const void *at, int64_t bytes, uint64_t lanes, int32_t writes) {
    (void)writes;
    for (int i = 0; i < heard.arrays && lanes; i++)
        if ((const char *)at >= heard.array[i].at &&
            (const char *)at + bytes <= heard.array[i].at + heard.array[i].bytes)
            heard.inside++;
}

/* Nothing writes beside an array, and the numbers are those of code that says nothing. */
static void arrays_are_announced(void **state) {
    static const MemoryHooks hooks = {hear_enter, hear_leave, hear_allocate, hear_access};
    static const HostInstrument hear = {instrument_memory, &hooks};
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        Arena *a = arena_new();
        Kernel *k = parse_kernel(a, kernel_attention(a, 40, 20, 4, 16));
        HostOptions o = machines[m];
        void *said[MAX_BUFFERS], *silent[MAX_BUFFERS];
        const int last = k->buffers.n - 1;
        for (int i = 0; i <= last; i++) said[i] = silent[i] = random_buffer(a, &k->buffers.at[i]);
        silent[last] = random_buffer(a, &k->buffers.at[last]);
        for (int way = 0; way < 2; way++) {
            o.instrument = way ? NULL : &hear;
            HostJit *jit = code_of(a, k, &o);
            host_jit_kernels(jit)[0](way ? silent : said, (int64_t[]){40}, 0, kernel_programs(k, (int64_t[]){40}));
            host_jit_free(jit);
        }
        assert_true(heard.inside > 100);
        assert_int_equal(heard.depth + heard.arrays + heard.spoilt, 0);
        assert_memory_equal(said[last], silent[last], (size_t)buffer_bytes(&k->buffers.at[last]));
        memset(&heard, 0, sizeof heard);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(accesses_beside_a_buffer_are_seen),
                                       cmocka_unit_test(accesses_beside_an_array_are_seen),
                                       cmocka_unit_test(arrays_are_announced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
