/* Products, convolutions, channel kernels and strided reads around every boundary of vectors, blocks and tiles, with
 * both gradients, on every kind of processor that this machine has, in one piece and by two threads, every tensor
 * between guard pages; and on NEON, run by an emulator.  Judged by the formula itself (tests/support/form.h).  Programs
 * run as checked code too (tests/support/checked.h), which must make the same numbers: every EVERY_CHECKED-th, or all if
 * a COUNT is given.  Of every EVERY_FORCED-th program each product is made by each form of codegen/schedule/forms.def that fits
 * it, not by the first alone, and then with schedules (HostSchedule) that are drawn: other blocks, other ways of the factors.
 *
 *   test_forms [--stop] [COUNT [SEED [FAMILY]]]   at least so many results compared; forms of one family (form_draw.c);
 *                                                 --stop: until the first program that is wrong, not made small
 *
 * prints `forms cases N wrong M`; each wrong form as the least program that still is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "tests/support/checked.h"
#include "tests/support/form.h"
#include "tests/support/guard.h"
#include "tests/support/lowered.h"
#include "tests/support/number.h"
#include "tests/support/runner.h"
#include "tests/support/scratch.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CASES = 900, /* results compared by default */
    BATCH = 6,   /* forms of one program */
    POINTS = 200000,
    MANY_POINTS = 3000000,
    MANY_EVERY = 10,
    EVERY_NEON = 4, /* of the programs */
    EVERY_CHECKED = 4,
    EVERY_FORCED = 8, /* 2 with a COUNT */
    PATIENCE = 120, /* seconds for a program */
    SHRUNK = 20,    /* of many wrong ones the first few are made small */
};

typedef struct Machine {
    const char *name;
    HostOptions options;
    bool here, is_for_low; /* is_for_low: in f32 its code is that of another */
} Machine;
static Machine machines[] = {{.name = "this machine", .here = true},
                             {.name = "x86-64-v4", .options = {.cpu = "x86-64-v4", .features = ""}, .is_for_low = true},
                             {.name = "x86-64-v3", .options = {.cpu = "x86-64-v3", .features = ""}},
                             {.name = "x86-64-v2", .options = {.cpu = "x86-64-v2", .features = ""}}};
enum { MACHINES = sizeof machines / sizeof *machines };
static const HostOptions neon = {.triple = "aarch64-linux-gnu"};
static bool have_neon;

static void find_machines(void) {
#if defined(__x86_64__)
    machines[1].here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    machines[2].here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    machines[3].here = true;
#endif
}

/* Counted by children. */
typedef struct Total {
    long cases, wrong;
    long varied; /* products whose schedule is another than the back end's */
} Total;
static Total *total;

typedef struct Batch {
    Form form[BATCH];
    int n;
    FormSetting setting;
    bool on_neon, is_checked, is_forced;
    uint64_t number;
} Batch;

/* ---- memory ---------------------------------------------------------------------------------------------------- */
typedef struct Data {
    Entry entry;
    ModuleMemory mem;
    FormValues value[BATCH];
} Data;

/* What a tensor of the program holds, or should in the end. */
static const double *values_of(const Data *d, const char *name, bool gradient, int64_t *n) {
    const bool by = name[0] == 'd';
    const char which = name[by];
    const FormValues *v = &d->value[atoi(name + by + 1)];
    *n = which == 'x' ? v->nx : which == 'k' ? v->nk : which == 'b' ? v->nb : v->ny;
    if (by || gradient) return which == 'x' ? v->dx : v->dk;
    return which == 'x' ? v->x : which == 'k' ? v->k : which == 'b' ? v->b : which == 'u' ? v->u : v->z;
}

static void fill(const Data *d, const ModuleTensor *t, void *at) {
    int64_t n;
    const double *from = values_of(d, t->name, false, &n);
    for (int64_t i = 0; i < n; i++) number_put(t->dtype, at, i, from[i]);
}

static void *block(Arena *a, int64_t bytes) {
    return memset(arena_alloc(a, (size_t)bytes + 1), 0xFF, (size_t)bytes + 1);
}

static Data make_data(Arena *a, const Batch *b, const Module *m) {
    Data d = {.entry = b->setting.train ? ENTRY_GRAD : ENTRY_INFER};
    for (int i = 0; i < b->n; i++) d.value[i] = form_values(a, &b->form[i], &b->setting);
    d.mem = (ModuleMemory){.params = block(a, m->param_bytes),
                           .states = block(a, m->state_bytes),
                           .grads = block(a, m->grad_bytes),
                           .arena = block(a, m->entry[d.entry].arena_bytes),
                           .scalars = ARENA_ARRAY(a, int32_t, SCALAR_HYPER0 + m->hypers.n + 1),
                           .inputs = ARENA_ARRAY(a, void *, m->inputs.n + 1),
                           .outputs = ARENA_ARRAY(a, void *, m->outputs.n + 1)};
    for (int i = 0; i < m->params.n; i++) fill(&d, &m->params.at[i], (char *)d.mem.params + m->params.at[i].offset);
    for (int i = 0; i < m->inputs.n; i++) {
        d.mem.inputs[i] = block(a, m->inputs.at[i].bytes);
        fill(&d, &m->inputs.at[i], d.mem.inputs[i]);
    }
    for (int i = 0; i < m->outputs.n; i++) d.mem.outputs[i] = block(a, m->outputs.at[i].bytes);
    return d;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */
/* Integers that f32 and bf16 hold are exact; beyond 256 bf16 rounds. */
static double tolerance(const Batch *b, double want) {
    const double size = want < 0 ? -want : want;
    return b->setting.precision && size > 256 ? size / 64 : 0;
}

static void judge(const Batch *b, const Data *d, const ModuleTensor *t, const void *memory, bool gradient,
                  const char *machine, bool first) {
    int64_t n;
    if (!strcmp(t->name, "loss")) return;
    const double *want = values_of(d, t->name, gradient, &n);
    total->cases += first;
    for (int64_t i = 0; i < n; i++) {
        const double got = number_get(t->dtype, memory, i), off = got - want[i];
        if (off <= tolerance(b, want[i]) && -off <= tolerance(b, want[i])) continue;
        printf("WRONG %s%s[%lld] is %.9g, not %.9g: %s, %s\n", gradient ? "d" : "", t->name, (long long)i, got, want[i],
               b->form[atoi(t->name + (t->name[0] == 'd') + 1)].family, machine);
        total->wrong++;
        return;
    }
}

/* first: what is judged counts. */
static void judge_all(const Batch *b, const Module *m, const Data *d, const char *machine, bool first) {
    for (int i = 0; i < m->outputs.n; i++) judge(b, d, &m->outputs.at[i], d->mem.outputs[i], false, machine, first);
    for (int i = 0; i < m->grads.n && d->entry == ENTRY_GRAD; i++)
        judge(b, d, &m->grads.at[i], (char *)d->mem.grads + m->grads.at[i].offset, true, machine, first);
}

/* ---- one program on this machine --------------------------------------------------------------------------------- */
static Module *compile(Arena *a, const Batch *b, Placing placing) {
    PassContext c = test_context(a, "host");
    Target t = *c.target;
    Graph *g[ENTRY_COUNT] = {NULL}, *one[ENTRY_COUNT] = {NULL};
    const Entry e = b->setting.train ? ENTRY_GRAD : ENTRY_INFER;
    if (b->setting.max_tile) t.max_tile = b->setting.max_tile;
    c.target = &t;
    c.verify = false;
    c.placing = placing;
    lower_text(a, form_text(a, b->form, b->n, &b->setting), g);
    one[e] = g[e];
    Module *m = compile_module(&c, one);
    if (!m) fail_msg("refused");
    return m;
}

static HostJit *code_of(const Module *m, const HostOptions *o) {
    char *why = NULL;
    HostJit *jit = host_jit(m, o, &why);
    if (!jit) fail_msg("%s", why);
    return jit;
}

static Guarded *run_once(Arena *a, const Batch *b, const Module *m, const HostJit *jit, const Data *d, Pieces pieces) {
    Guarded *g = guard_new(a, m, d->entry, b->setting.placing, &d->mem);
    const GuardKernels kernels = {m, host_jit_kernels(jit)};
    guard_watch(g, guard_kernel_at, &kernels);
    if (!guard_run(m, kernels.kernels, d->entry, &g->mem, NULL, pieces)) fail_msg("no thread");
    guard_watch(NULL, NULL, NULL);
    return g;
}

/* Checked code makes the same numbers; first, since it says more of a fault. */
static void run_here(Arena *a, const Batch *b, const Module *m, const Machine *machine) {
    HostOptions o = machine->options;
    HostJit *jit = code_of(m, &o);
    o.instrument = &checked_code;
    HostJit *checked = b->is_checked ? code_of(m, &o) : NULL;
    Data d = make_data(a, b, m);
    for (Pieces p = PIECES_WHOLE; p <= PIECES_THREADS; p += PIECES_THREADS - PIECES_WHOLE) {
        Guarded *also = checked ? run_once(a, b, m, checked, &d, p) : NULL, *g = run_once(a, b, m, jit, &d, p);
        if (also && !guard_same(g, also)) total->wrong++;
        if (also) guard_free(also);
        ModuleMemory to = d.mem;
        guard_results(g, &to);
        guard_free(g);
        judge_all(b, m, &d, machine->name, p == PIECES_WHOLE);
    }
    host_jit_free(checked);
    host_jit_free(jit);
}

/* ---- NEON -------------------------------------------------------------------------------------------------------- */
static const char ADAPTER[] =
    "#include \"runtime/host/host.h\"\n#include \"tests/tools/c99_runner.h\"\n"
    "extern const fusec_manifest m_manifest;\nextern const fusec_host_kernel m_kernels[];\n"
    "static fusec_status run(const fusec_memory *memory, int entry, const void *const *inputs,\n"
    "    void *const *outputs, const float *hyper, int32_t step, uint32_t seed, const int32_t *syms) {\n"
    "    const fusec_options o = {.seed = seed, .threads = 1};\n    fusec_host h;\n"
    "    const fusec_host_call call = {inputs, outputs, syms, hyper, step};\n"
    "    fusec_status s = fusec_host_init(&h, &m_manifest, m_kernels, memory, &o);\n"
    "    if (s == FUSEC_OK) s = fusec_host_run(&h, entry, &call);\n"
    "    fusec_host_free(&h);\n    return s;\n}\n"
    "RunnerProgram *const runner_programs[] = {run};\n";

static void prepare_neon(Arena *a) {
    have_neon = have_compiler("aarch64-linux-gnu-gcc") && have_compiler("qemu-aarch64");
    if (!have_neon) {
        print_message("skipped: NEON, without aarch64-linux-gnu-gcc or qemu-aarch64\n");
        return;
    }
    write_text(arena_printf(a, "%s/adapter.c", scratch_folder()), ADAPTER);
    write_text(arena_printf(a, "%s/runner", scratch_folder()),
               "#!/bin/sh\nexec qemu-aarch64 -L /usr/aarch64-linux-gnu \"$0.neon\"\n");
    scratch_shell(a, arena_printf(a,
                                  "chmod +x runner && for c in %s/runtime/common/*.c %s/runtime/host/*.c "
                                  "%s/tests/tools/c99_runner.c adapter.c; do aarch64-linux-gnu-gcc "
                                  "-O1 -std=gnu11 -I %s -c $c -o neon_$(basename $c).o || exit 1; done",
                                  SOURCE_DIR, SOURCE_DIR, SOURCE_DIR, SOURCE_DIR));
}

static void write_object(Arena *a, const Module *m) {
    void *bytes;
    size_t n;
    char *why = NULL;
    if (!host_emit_object(m, &neon, &bytes, &n, &why)) fail_msg("%s", why);
    FILE *f = fopen(arena_printf(a, "%s/m.o", scratch_folder()), "wb");
    assert_true(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
}

static void run_neon(Arena *a, const Batch *b) {
    const Module *m = compile(a, b, PLACING_SHARED);
    const char *error = NULL;
    write_object(a, m);
    scratch_shell(a, "aarch64-linux-gnu-gcc neon_*.o m.o -lm -lpthread -o runner.neon");
    Runner r = runner_start(a, arena_printf(a, "%s/runner", scratch_folder()));
    Data d = make_data(a, b, m);
    if (!runner_call(a, &r, 0, m, d.entry, &d.mem, NULL, &error)) fail_msg("NEON: %s", error);
    runner_stop(&r);
    judge_all(b, m, &d, "NEON", true);
}

/* ---- every form -------------------------------------------------------------------------------------------------- */
/* The products of the block that are in turn: by the form if it fits, else by what the back end chooses; how many of them
 * change. */
static int force(const Block *b, const HostProduct **product, By form) {
    int changed = 0;
    for (int i = 0; i < b->n; i++) {
        changed += force(&b->at[i]->body, product, form);
        if (b->at[i]->kind != TI_DOT) continue;
        const bool fits = (*product)++->fits >> form & 1;
        b->at[i]->by = fits ? form : BY_NONE;
        changed += fits;
    }
    return changed;
}

static int one_of(TestRandom *r, int n, const int *list) { return test_below(r, 3) ? 0 : list[test_below(r, n)]; }
#define ONE_OF(r, ...) one_of(r, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

/* Most of it is left open. */
static HostSchedule draw_schedule(TestRandom *r, By form) {
    HostSchedule s = {.columns = ONE_OF(r, 2, 4, 8, 16, 32, 48, 64)};
    const bool by_channels = form == BY_CHANNELS;
    s.rows[0] = ONE_OF(r, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 28);
    s.rows[1] = by_channels ? ONE_OF(r, 1, 2, 3, 5, 7) : 0;
    for (int i = 0; i < 2 && by_channels; i++) s.taps[i] = ONE_OF(r, 1, 2, 3, 5);
    if (form == BY_WINDOW) s.axes = ONE_OF(r, 1, 2, 3);
    if (form == BY_BLOCKS) s.sums = ONE_OF(r, 1, 2, 4, 7, 16, 17, 64);
    s.x = (FactorWay)ONE_OF(r, WAY_IN_PLACE, WAY_PACKED, WAY_BOX, WAY_STRIPS);
    s.y = (FactorWay)ONE_OF(r, WAY_IN_PLACE, WAY_STREAMED, WAY_SWEPT, WAY_COPIED, WAY_PACKED, WAY_TRANSPOSED);
    if (form == BY_BLOCKS) s.prefetch = (DotPrefetch)ONE_OF(r, PREFETCH_NONE, PREFETCH_X, PREFETCH_Y, PREFETCH_BOTH);
    if (s.x == WAY_STRIPS) s.strip = ONE_OF(r, 16, 32, 64);
    s.start = (DotStart)ONE_OF(r, START_ADDS, START_FRESH, START_STORES);
    return s;
}

/* The dots that are by the form, each with a schedule that it can have; their number. */
static int vary(Arena *a, Module *m, const Block *b, By form, const HostOptions *o, TestRandom *r) {
    enum { TRIES = 12 };
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        n += vary(a, m, &b->at[i]->body, form, o, r);
        if (b->at[i]->kind != TI_DOT || b->at[i]->by != form) continue;
        char *why = NULL;
        for (int t = 0; t < TRIES; t++) {
            free(why);
            why = NULL;
            b->at[i]->host = draw_schedule(r, form);
            if (host_products(a, m, o, &why)) break;
        }
        if (why) b->at[i]->host = (HostSchedule){.sums = 0};
        n += why == NULL;
        free(why);
    }
    return n;
}

static void clear(const Block *b) {
    for (int i = 0; i < b->n; i++) {
        clear(&b->at[i]->body);
        b->at[i]->host = (HostSchedule){.sums = 0};
    }
}

/* What is wrong is printed with the kernels that made it. */
static void run_varied(Arena *a, const Batch *b, Module *m, const Machine *machine, By form) {
    enum { ROUNDS = 3 };
    TestRandom r = {b->number * 0x9E3779B97F4A7C15u + form};
    for (int round = 0; round < ROUNDS; round++) {
        const long wrong = total->wrong;
        int varied = 0;
        for (int k = 0; k < m->kernels.n; k++) varied += vary(a, m, &m->kernels.at[k]->body, form, &machine->options, &r);
        total->varied += varied;
        if (varied) run_here(a, b, m, &(Machine){by_name[form], machine->options, true, false});
        for (int k = 0; k < m->kernels.n && total->wrong > wrong; k++) kernel_print(stdout, m->kernels.at[k]);
        for (int k = 0; k < m->kernels.n; k++) clear(&m->kernels.at[k]->body);
    }
}

static void run_forced(Arena *a, const Batch *b, Module *m, const Machine *machine) {
    char *why = NULL;
    const HostProducts *of = host_products(a, m, &machine->options, &why);
    if (!of) fail_msg("%s", why);
    for (By form = BY_WINDOW; form <= BY_LOOPS; form++) {
        int changed = 0;
        for (int k = 0; k < m->kernels.n; k++) {
            const HostProduct *first = of[k].of;
            changed += force(&m->kernels.at[k]->body, &first, form);
        }
        if (!changed) continue;
        run_here(a, b, m, &(Machine){by_name[form], machine->options, true, false});
        if (form != BY_LOOPS) run_varied(a, b, m, machine, form);
    }
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
static bool runs_on(const Batch *b, const Machine *m) { return m->here && (b->setting.precision || !m->is_for_low); }

static void run_batch(const Batch *b) {
    Arena *a = arena_new();
    Module *m = compile(a, b, b->setting.placing);
    for (int i = 0; i < MACHINES; i++)
        if (runs_on(b, &machines[i])) run_here(a, b, m, &machines[i]);
    if (b->on_neon) run_neon(a, b);
    for (int i = 0; i < MACHINES && b->is_forced; i++)
        if (runs_on(b, &machines[i])) run_forced(a, b, m, &machines[i]);
    arena_free(a);
}

/* In a process of its own; 0 if all is right. */
static int isolated(const Batch *b, bool quiet) {
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) fail_msg("no process");
    if (child == 0) {
        const long before = total->wrong;
        signal(SIGABRT, SIG_DFL);
        alarm(PATIENCE);
        if (quiet && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))) _exit(3);
        run_batch(b);
        fflush(NULL);
        exit(total->wrong > before); /* _exit would lose the counters of coverage */
    }
    while (waitpid(child, &status, 0) < 0) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The least form that still fails; counts are as before. */
static Batch shrink(Batch b) {
    const Total before = *total;
    int step = 0;
    Batch least = b;
    while (form_smaller(&least.form[0], &step, &b.form[0])) {
        if (isolated(&b, true) == 0) continue;
        least = b;
        step = 0;
    }
    *total = before;
    return least;
}

static void show(const Batch *b) {
    Arena *a = arena_new();
    const FormSetting *s = &b->setting;
    printf("%s# tiles of %d, placed %s%s\n", form_text(a, b->form, b->n, s), s->max_tile,
           s->placing == PLACING_HIGH ? "high" : "low", b->on_neon ? ", also on NEON" : "");
    fflush(stdout);
    arena_free(a);
}

static void report(const Batch *b) {
    static int shrunk;
    const Total before = *total;
    bool alone = false;
    for (int i = 0; i < b->n; i++) {
        Batch one = *b;
        one.n = 1;
        one.form[0] = b->form[i];
        if (isolated(&one, true) == 0) continue;
        alone = true;
        if (shrunk++ < SHRUNK) one = shrink(one);
        isolated(&one, false);
        show(&one);
    }
    if (!alone) show(b);
    *total = before;
}

static const char *family = "";
static bool all_checked;

static Batch draw(TestRandom *r, int number) {
    static const char *const precisions[] = {NULL, NULL, NULL, "bf16", "bf16", "f16", "tf32"};
    Batch b = {.n = BATCH,
               .number = (uint64_t)number,
               .on_neon = have_neon && number % EVERY_NEON == 0,
               .is_forced = number % (all_checked ? 2 : EVERY_FORCED) == 1,
               .is_checked = all_checked || number % EVERY_CHECKED == 0};
    b.setting = (FormSetting){.train = test_below(r, 3) == 0, .placing = test_below(r, 3) ? PLACING_HIGH : PLACING_LOW};
    if (test_below(r, 3) == 0) b.setting.max_tile = 64 << test_below(r, 6);
    if (!b.setting.train) b.setting.precision = precisions[test_below(r, 7)];
    for (int i = 0; i < b.n; i++) b.form[i] = form_draw(r, test_below(r, MANY_EVERY) ? POINTS : MANY_POINTS, family);
    return b;
}

static bool stop;
static long asked = CASES;
static uint64_t seed = 1;

static void forms_are_right(void **state) {
    Arena *a = arena_new();
    TestRandom r = {seed * 0x9E3779B97F4A7C15u + 1};
    (void)state;
    total = mmap(NULL, sizeof *total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(total != MAP_FAILED);
    find_machines();
    prepare_neon(a);
    for (int i = 0; total->cases < asked; i++) {
        const Batch b = draw(&r, i);
        const long wrong = total->wrong;
        const int code = isolated(&b, false);
        if (!code) continue;
        if (total->wrong == wrong) total->wrong++, total->cases++; /* it died before it was judged */
        printf("^ program %d: exit %d\n", i, code);
        if (stop) break;
        report(&b);
    }
    printf("forms cases %ld wrong %ld\n", total->cases, total->wrong);
    printf("forms varied %ld\n", total->varied);
    arena_free(a);
    assert_true(total->wrong == 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms_are_right)};
    if (argc > 1 && !strcmp(argv[1], "--stop")) stop = true, argc--, argv++;
    if (argc > 1) asked = atol(argv[1]), all_checked = true;
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    if (argc > 3) family = argv[3];
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
