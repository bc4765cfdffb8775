/* Products of tiles of any size as host code, every tensor between guard pages: rows, columns and terms around the boundaries
 * of vectors and blocks, cut into programs anywhere; factors as they lie, turned, or computed from their place (a mask, a
 * band of two numbers); in one piece, backwards and by two threads, and as checked code; against the interpreter, exactly.
 *
 *   test_host_tiles [COUNT [SEED]]     so many kernels on each kind of processor */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "tests/support/checked.h"
#include "tests/support/guard.h"
#include "tests/support/kernel_case.h"
#include "tests/support/oracle.h"
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 48, BATCH = 16 };

static const HostOptions machines[] = {
    {0}, {.cpu = "x86-64-v3", .features = ""}, {.cpu = "x86-64-v2", .features = ""}};

static int edge(TestRandom *r, int most) {
    static const int edges[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 24, 31, 32, 33, 36, 47, 48, 49, 64, 65, 96};
    for (;;) {
        const int e = test_below(r, 3) ? edges[test_below(r, 24)] : 1 + test_below(r, most);
        if (e <= most) return e;
    }
}

typedef struct Axes {
    int extent[3], step[3]; /* of i, j, k */
} Axes;

static Axes draw_axes(TestRandom *r) {
    Axes x;
    for (int a = 0; a < 3; a++) {
        x.extent[a] = edge(r, 100);
        x.step[a] = test_below(r, 2) ? x.extent[a] : edge(r, 50);
        if (x.step[a] > x.extent[a]) x.step[a] = x.extent[a];
    }
    return x;
}

/* The factor over axes `a` and k as value %`v`; what it is computed from has the seven numbers before. */
static void put_factor(FILE *f, const Axes *x, int a, int kind, int v, const char *buffer) {
    const char axis = "ij"[a];
    const int s = x->step[a], k = x->step[2];
    if (kind < 2) {
        fprintf(f, kind ? "    %%%d = load %%%s[k, %c]" : "    %%%d = load %%%s[%c, k]", v, buffer, axis);
        fprintf(f, " : f32[%c:%d,k:%d]\n", axis, s, k);
        return;
    }
    fprintf(f, "    %%%d = index %c : i32[%c:%d]\n    %%%d = index k : i32[k:%d]\n", v - 6, axis, axis, s, v - 5, k);
    fprintf(f, "    %%%d = const 3 : i32\n    %%%d = sub %%%d, %%%d : i32[k:%d]\n", v - 4, v - 3, v - 5, v - 4, k);
    fprintf(f, "    %%%d = eq %%%d, %%%d : bool[%c:%d,k:%d]\n", v - 2, v - 6, v - 3, axis, s, k);
    fprintf(f, "    %%%d = const 2 : f32\n    %%%d = const 1 : f32\n    %%%d = select %%%d, %%%d, %%%d : f32[%c:%d,k:%d]\n",
            v - 1, v - 7, v, v - 2, v - 1, v - 7, axis, s, k);
}

/* kind: of each factor: 0 as its rows lie, 1 turned, 2 computed. */
static char *product_text(Arena *a, int number, const Axes *x, const int *kind) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    const int *e = x->extent, *s = x->step;
    fprintf(f, "kernel @p%d(%%x: f32[%d,%d], %%w: f32[%d,%d], %%y: f32[%d,%d] out)\n", number, kind[0] ? e[2] : e[0],
            kind[0] ? e[0] : e[2], kind[1] ? e[2] : e[1], kind[1] ? e[1] : e[2], e[0], e[1]);
    fprintf(f, "  grid i in 0..%d step %d\n  grid j in 0..%d step %d\n  loop k in 0..%d step %d\n", e[0], s[0], e[1], s[1],
            e[2], s[2]);
    fprintf(f, "  %%0 = full 0 : f32[i:%d,j:%d]\n  %%40 = for k carry %%1 = %%0 {\n", s[0], s[1]);
    put_factor(f, x, 0, kind[0], 10, "x");
    put_factor(f, x, 1, kind[1], 20, "w");
    fprintf(f, "    %%30 = dot %%10, %%20, %%1 over k : f32[i:%d,j:%d]\n    yield %%30\n  }\n  store %%y[i, j], %%40\n",
            s[0], s[1]);
    fclose(f);
    char *kept = arena_strdup(a, text);
    free(text);
    return kept;
}

static void add_tensor(Module *m, bool output, const Buffer *b) {
    const ModuleTensor t = {.name = b->name, .dtype = DT_F32, .bytes = buffer_bytes(b)};
    if (output)
        vec_push(m->arena, m->outputs, t);
    else
        vec_push(m->arena, m->inputs, t);
}

/* The kernel with a launch of its own tensors. */
static void add_kernel(Module *m, Kernel *k) {
    Launch l = {.kernel = m->kernels.n, .n_args = k->buffers.n, .wanted_by = FUSEC_ALWAYS};
    l.args = ARENA_ARRAY(m->arena, LaunchArg, l.n_args + 1);
    for (int i = 0; i < l.n_args; i++) {
        const bool output = i == l.n_args - 1;
        l.args[i] = (LaunchArg){output ? REGION_OUTPUT : REGION_INPUT, output ? m->outputs.n : m->inputs.n, 0, 0};
        add_tensor(m, output, &k->buffers.at[i]);
    }
    vec_push(m->arena, m->kernels, k);
    vec_push(m->arena, m->entry[ENTRY_INFER].launches, l);
}

static ModuleMemory memory_of(Arena *a, const Module *m, TestRandom *r) {
    ModuleMemory mem = {.scalars = ARENA_ARRAY(a, int32_t, SCALAR_HYPER0)};
    mem.inputs = ARENA_ARRAY(a, void *, m->inputs.n + 1);
    mem.outputs = ARENA_ARRAY(a, void *, m->outputs.n + 1);
    for (int i = 0; i < m->inputs.n; i++) {
        float *x = arena_alloc(a, (size_t)m->inputs.at[i].bytes + 4);
        for (int64_t e = 0; e < m->inputs.at[i].bytes / 4; e++) x[e] = (float)(test_below(r, 13) - 6);
        mem.inputs[i] = x;
    }
    for (int i = 0; i < m->outputs.n; i++) mem.outputs[i] = arena_alloc(a, (size_t)m->outputs.at[i].bytes + 4);
    return mem;
}

static void compare(const Module *m, const ModuleMemory *got, const ModuleMemory *want, const char *const *text, int machine) {
    for (int o = 0; o < m->outputs.n; o++) {
        const float *x = got->outputs[o], *y = want->outputs[o];
        for (int64_t e = 0; e < m->outputs.at[o].bytes / 4; e++)
            if (!(x[e] == y[e])) fail_msg("machine %d, y[%d] is %g, not %g, in\n%s", machine, (int)e, x[e], y[e], text[o]);
    }
}

static void run_way(Arena *a, const Module *m, const HostJit *jit, Placing placing, Pieces pieces,
                    const ModuleMemory *start, ModuleMemory *to) {
    const GuardKernels kernels = {m, host_jit_kernels(jit)};
    Guarded *g = guard_new(a, m, ENTRY_INFER, placing, start);
    guard_watch(g, guard_kernel_at, &kernels);
    assert_true(guard_run(m, kernels.kernels, ENTRY_INFER, &g->mem, NULL, pieces));
    guard_watch(NULL, NULL, NULL);
    *to = *start;
    guard_results(g, to);
    guard_free(g);
}

static HostJit *code_of(const Module *m, const HostOptions *o) {
    char *why = NULL;
    HostJit *jit = host_jit(m, o, &why);
    if (!jit) fail_msg("%s", why);
    return jit;
}

static void run_machine(Arena *a, const Module *m, const ModuleMemory *start, const ModuleMemory *want,
                        const char *const *text, int machine) {
    HostOptions o = machines[machine];
    HostJit *jit = code_of(m, &o);
    o.instrument = &checked_code;
    HostJit *checked = code_of(m, &o);
    ModuleMemory to;
    run_way(a, m, checked, PLACING_HIGH, PIECES_THREADS, start, &to);
    compare(m, &to, want, text, machine);
    for (int way = 0; way < 6; way++) {
        run_way(a, m, jit, way & 1 ? PLACING_HIGH : PLACING_LOW, (Pieces)(way / 2), start, &to);
        compare(m, &to, want, text, machine);
    }
    host_jit_free(checked);
    host_jit_free(jit);
}

static int asked = KERNELS;
static uint64_t seed = 1;

static void run_batch(TestRandom *r) {
    Arena *a = arena_new();
    Module m = {.arena = a, .name = "tiles", .source = "tiles", .align = 256};
    const char *text[BATCH], *error = NULL;
    m.entry[ENTRY_INFER].present = true;
    for (int i = 0; i < BATCH; i++) {
        const Axes x = draw_axes(r);
        const int kind[2] = {test_below(r, 3), test_below(r, 3)};
        text[i] = product_text(a, i, &x, kind);
        add_kernel(&m, parse_kernel(a, text[i]));
    }
    const ModuleMemory start = memory_of(a, &m, r);
    ModuleMemory want = start;
    want.outputs = ARENA_ARRAY(a, void *, m.outputs.n);
    for (int o = 0; o < m.outputs.n; o++) want.outputs[o] = arena_alloc(a, (size_t)m.outputs.at[o].bytes + 4);
    if (!module_run(a, &m, ENTRY_INFER, &want, NULL, &error)) fail_msg("%s", error);
    for (int i = 0; i < 3; i++) run_machine(a, &m, &start, &want, text, i);
    arena_free(a);
}

static void products_of_any_tiles(void **state) {
    TestRandom r = {seed * 0x9E3779B97F4A7C15u + 1};
    (void)state;
    for (int i = 0; i < asked; i += BATCH) run_batch(&r);
    printf("tiles of %d kernels on 3 machines\n", asked);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_any_tiles)};
    if (argc > 1) asked = atoi(argv[1]);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
