/* Kernels as host code: compiled in this process for vectors of 16, 8 and 4 lanes, run in two cuts of the grid,
 * and compared with the interpreter.  f32 agrees to 2e-5 of the larger of 4 and the value (sums of up to a few
 * hundred terms are taken in another order), everything else exactly; the two cuts agree to the bit.  Of the products'
 * shapes each in one of two layouts by turns; SWEEP_ALL=1, as in ./dev fuzz: in both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/host/host.h"
#include "ir/tile_schedule.h"
#include "tests/support/kernel_case.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 4096 };

/* ---- data --------------------------------------------------------------------------------------------- */
/* Between two guards that nothing may touch. */
static uint8_t *guarded(Arena *a, const void *data, int64_t bytes) {
    uint8_t *p = arena_alloc(a, (size_t)bytes + 2 * GUARD);
    memset(p, 0xa5, (size_t)bytes + 2 * GUARD);
    memcpy(p + GUARD, data, (size_t)bytes);
    return p + GUARD;
}

static void check_guards(const Kernel *k, int buffer, const uint8_t *p, int64_t bytes) {
    for (int i = 0; i < GUARD; i++)
        if (p[-1 - i] != 0xa5 || p[bytes + i] != 0xa5)
            fail_msg("@%s writes outside %%%s", k->name, k->buffers.at[buffer].name);
}

static double tolerance(DType t, double y) {
    const double larger = fabs(y) > 4 ? fabs(y) : 4;
    return t == DT_F32 ? 2e-5 * larger : 0;
}

/* ---- one kernel ------------------------------------------------------------------------------------------ */
static const struct {
    const char *name, *cpu, *features;
} machines[] = {{"native", NULL, NULL}, {"avx2", "x86-64-v3", ""}, {"sse4", "x86-64-v2", ""}};
enum { MACHINES = sizeof machines / sizeof *machines };

static Module module_of(Arena *a, Kernel *k) {
    Module m = {.arena = a, .name = "m", .source = "test", .align = 64};
    vec_push(a, m.kernels, k);
    return m;
}

static HostJit *jit(Arena *a, Kernel *k, size_t machine) {
    const Module m = module_of(a, k);
    const HostOptions o = {.cpu = machines[machine].cpu, .features = machines[machine].features};
    char *error = NULL;
    HostJit *j = host_jit(&m, &o, &error);
    if (!j) fail_msg("@%s (%s): %s", k->name, machines[machine].name, error);
    return j;
}

static void run_on(Arena *a, Kernel *k, HostJit *j, size_t machine, const int64_t *syms, void *const *start,
                   const TileMemory *want) {
    const int64_t programs = kernel_programs(k, syms);
    void *cut[2][MAX_BUFFERS];
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < k->buffers.n; i++) cut[c][i] = guarded(a, start[i], want[i].bytes);
        const int64_t step = c ? 1 : programs;
        for (int64_t p = 0; p < programs; p += step) host_jit_kernels(j)[0](cut[c], syms, p, p + step);
    }
    for (int i = 0; i < k->buffers.n; i++) {
        compare_elements(k, &k->buffers.at[i], cut[0][i], want[i].data, tolerance, machines[machine].name);
        if (memcmp(cut[0][i], cut[1][i], (size_t)want[i].bytes) != 0)
            fail_msg("@%s: the cut of the grid shows", k->name);
        check_guards(k, i, cut[0][i], want[i].bytes);
    }
}

static void run_everywhere(Arena *a, Kernel *k, HostJit *const *code, const int64_t *syms) {
    void *start[MAX_BUFFERS];
    TileMemory want[MAX_BUFFERS];
    kernel_expected(a, k, syms, start, want);
    for (size_t m = 0; m < MACHINES; m++) run_on(a, k, code[m], m, syms, start, want);
}

/* At the bounds, at half of them, at 1. */
static void check(const char *text) {
    Arena *a = arena_new();
    Kernel *k = parse_kernel(a, text);
    HostJit *code[MACHINES];
    for (size_t m = 0; m < MACHINES; m++) code[m] = jit(a, k, m);
    for (int size = 0; size < (k->n_syms ? 3 : 1); size++) {
        int64_t syms[8] = {0};
        for (int i = 0; i < k->n_syms; i++)
            syms[i] = size == 0 ? k->sym_bounds[i] : size == 1 ? (k->sym_bounds[i] + 1) / 2 : 1;
        run_everywhere(a, k, code, syms);
    }
    for (size_t m = 0; m < MACHINES; m++) host_jit_free(code[m]);
    arena_free(a);
}

/* ---- the shared kernels ------------------------------------------------------------------------------------- */
static void each_tile_golden_runs(void **state) {
    (void)state;
    for (int i = 0; i < TILE_GOLDENS; i++) {
        Arena *a = arena_new();
        check(tile_golden(a, i));
        arena_free(a);
    }
}

static void kernels_of_every_back_end_run(void **state) {
    (void)state;
    Arena *a = arena_new();
    check(kernel_casts);
    check(kernel_dropout);
    check(kernel_fibonacci);
    check(kernel_turns);
    check(kernel_swap);
    check(kernel_attention(a, 40, 20, 4, 16));
    arena_free(a);
}

/* ---- every elementwise op ---------------------------------------------------------------------------------------- */
/* z[i] = op(x[i] - 1, y[i] - 2) (integers of both signs), of dtype t; logarithms and roots see |x|. */
static void add_op(Arena *a, Module *m, Op op, DType t) {
    const OpInfo *info = &op_info[op];
    const char *type = dtype_name(t), *result = info->type == TYPE_BOOL ? "bool" : info->type == TYPE_I32 ? "i32" : type;
    const bool positive = op_wants_positive(op, t);
    char *text = arena_printf(a,
                              "kernel @op_%s_%s(%%x: %s[37], %%y: %s[37], %%z: %s[37] out)\n  grid i in 0..37 step 24\n"
                              "  %%0 = load %%x[i] : %s[i:24]\n  %%1 = load %%y[i] : %s[i:24]\n",
                              info->text, type, type, type, result, type, type);
    if (t == DT_I32)
        text = arena_printf(
            a, "%s  %%4 = const 2 : i32\n  %%5 = sub %%0, %%4 : i32[i:24]\n  %%6 = sub %%1, %%4 : i32[i:24]\n", text);
    if (positive) text = arena_printf(a, "%s  %%2 = abs %%0 : %s[i:24]\n", text, type);
    const bool steps = op == OP_MOD && t != DT_I32; /* by a constant that no quotient comes near an integer with */
    if (steps) text = arena_printf(a, "%s  %%7 = const 0.75 : %s\n", text, type);
    const char *x = t == DT_I32 ? "%5" : positive ? "%2" : "%0", *y = t == DT_I32 ? "%6" : steps ? "%7" : "%1";
    text = arena_printf(a, "%s  %%3 = %s %s%s%s : %s[i:24]\n  store %%z[i], %%3\n", text, info->text, x,
                        info->arity == 2 ? ", " : "", info->arity == 2 ? y : "", result);
    vec_push(a, m->kernels, parse_kernel(a, text));
}

static void run_op(Arena *a, const Kernel *k, fusec_host_kernel code, const char *how) {
    void *got[3];
    TileMemory want[3];
    for (int i = 0; i < 3; i++) {
        const int64_t bytes = buffer_bytes(&k->buffers.at[i]);
        uint8_t data[37 * 8];
        for (int n = 0; n < 37; n++) random_element(k->buffers.at[i].dtype, data, n);
        got[i] = guarded(a, data, bytes);
        want[i] = (TileMemory){.data = arena_dup(a, data, (size_t)bytes), .bytes = bytes};
    }
    const char *error = NULL;
    if (!kernel_run(a, k, want, NULL, &error)) fail_msg("@%s: %s", k->name, error);
    code(got, NULL, 0, 2);
    compare_elements(k, &k->buffers.at[2], got[2], want[2].data, tolerance, how);
    check_guards(k, 2, got[2], want[2].bytes);
}

static void every_elementwise_op_runs(void **state) {
    (void)state;
    Arena *a = arena_new();
    Module m = {.arena = a, .name = "ops", .source = "test", .align = 64};
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].cls != CLASS_ELEMENT || op == OP_CAST || op == OP_SELECT || op == OP_PHILOX) continue;
        for (int t = DT_BOOL; t <= DT_F32; t++)
            if (op_takes((Op)op, (DType)t)) add_op(a, &m, (Op)op, (DType)t);
    }
    for (size_t x = 0; x < MACHINES; x++) {
        const HostOptions o = {.cpu = machines[x].cpu, .features = machines[x].features};
        char *error = NULL;
        HostJit *j = host_jit(&m, &o, &error);
        if (!j) fail_msg("%s", error);
        assert_int_equal(host_jit_manifest(j)->n_kernels, m.kernels.n);
        for (int i = 0; i < m.kernels.n; i++) run_op(a, m.kernels.at[i], host_jit_kernels(j)[i], machines[x].name);
        host_jit_free(j);
    }
    arena_free(a);
}

static void narrow_floats(void **state) {
    (void)state;
    check("kernel @narrow(%x: f16[21], %b: bf16[21], %y: f16[21] out, %c: bf16[21] out)\n"
          "  grid i in 0..21 step 16\n"
          "  %0 = load %x[i] : f16[i:16]\n  %1 = load %b[i] : bf16[i:16]\n"
          "  %2 = mul %0, %0 : f16[i:16]\n  store %y[i], %2\n  %3 = cast %0 : bf16[i:16]\n  %4 = add %1, %3 : "
          "bf16[i:16]\n"
          "  store %c[i], %4\n");
}

static void special_values(void **state) {
    (void)state;
    Arena *a = arena_new();
    Kernel *k = parse_kernel(
        a, "kernel @extremes(%x: f32[5], %y: f32[5], %a: f32[5] out, %b: f32[5] out, %n: i32[5] out, %m: f32[] out)\n"
           "  span i in 0..5 step 5\n  %0 = load %x[i] : f32[i:5]\n  %1 = load %y[i] : f32[i:5]\n"
           "  %2 = max %0, %1 : f32[i:5]\n  store %a[i], %2\n  %3 = min %0, %1 : f32[i:5]\n  store %b[i], %3\n"
           "  %4 = cast %0 : i32[i:5]\n  store %n[i], %4\n  %5 = rmax %0 over i : f32\n  store %m[], %5\n");
    const float x[5] = {NAN, 1, 3e9f, -INFINITY, -7.9f}, y[5] = {1, NAN, 2, -INFINITY, 0};
    for (size_t m = 0; m < MACHINES; m++) {
        HostJit *j = jit(a, k, m);
        float max[5], min[5], top;
        int32_t n[5];
        void *buffers[6] = {(void *)x, (void *)y, max, min, n, &top};
        host_jit_kernels(j)[0](buffers, NULL, 0, 1);
        assert_true(isnan(max[0]) && isnan(max[1]) && isnan(min[0]) && isnan(min[1]) && isnan(top));
        assert_true(max[2] == 3e9f && min[2] == 2 && max[3] == -INFINITY);
        assert_true(n[0] == 0 && n[2] == INT32_MAX && n[3] == INT32_MIN && n[4] == -7);
        host_jit_free(j);
    }
    arena_free(a);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
static void reductions_in_every_direction(void **state) {
    (void)state;
    check("kernel @tiles(%x: f32[11,70], %y: f32[3,70] out)\n  grid i in 0..11 step 4\n  grid j in 0..70 step 32\n"
          "  %0 = load %x[i, j] : f32[i:4,j:32]\n  %1 = sum %0 over i : f32[j:32]\n  store %y[@i, j], %1\n");
    check("kernel @reduce<B<=13>(%x: f32[B<=13,5,70], %r: f32[B<=13,5] out, %c: f32[5,70] out, %b: f32[70] out, %a: "
          "f32[B<=13] out, %t: f32[5] out)\n"
          "  span i in 0..B<=13 step 13\n  span j in 0..5 step 8\n  span k in 0..70 step 70\n"
          "  %0 = load %x[i, j, k] : f32[i:13,j:8,k:70]\n"
          "  %1 = sum %0 over k : f32[i:13,j:8]\n  %2 = rmax %0 over i : f32[j:8,k:70]\n  %3 = rmin %0 over i, j : "
          "f32[k:70]\n"
          "  %4 = sum %0 over j, k : f32[i:13]\n  %5 = rmax %0 over i, k : f32[j:8]\n"
          "  store %r[i, j], %1\n  store %c[j, k], %2\n  store %b[k], %3\n  store %a[i], %4\n  store %t[j], %5\n");
    check("kernel @products(%x: i32[11,3], %c: bool[11,3], %p: i32[3] out, %s: i32[] out, %any: bool[3] out, %all: "
          "bool[] out)\n"
          "  span i in 0..11 step 11\n  span j in 0..3 step 3\n  %0 = load %x[i, j] : i32[i:11,j:3]\n"
          "  %1 = load %c[i, j] : bool[i:11,j:3]\n  %2 = prod %0 over i : i32[j:3]\n  %3 = sum %0 over i, j : i32\n"
          "  %4 = rmax %1 over i : bool[j:3]\n  %5 = rmin %1 over i, j : bool\n"
          "  store %p[j], %2\n  store %s[], %3\n  store %any[j], %4\n  store %all[], %5\n");
    check("kernel @conditions(%c: bool[13,5,70], %rows: bool[13] out, %across: bool[5] out)\n"
          "  span i in 0..13 step 13\n  span j in 0..5 step 8\n  span k in 0..70 step 70\n"
          "  %0 = load %c[i, j, k] : bool[i:13,j:8,k:70]\n  %1 = rmin %0 over j, k : bool[i:13]\n"
          "  %2 = rmax %0 over i, k : bool[j:8]\n  store %rows[i], %1\n  store %across[j], %2\n");
}

/* Spans without lanes: reductions give their identity, products their accumulator. */
static void empty_spans(void **state) {
    (void)state;
    check(
        "kernel @empty<S<=9>(%x: f32[4,S-8<=1], %w: f32[S-8<=1,20], %y: f32[4] out, %z: f32[4,20] out, %q: f32[] out)\n"
        "  span m in 0..4 step 4\n  span k in 0..S-8<=1 step 1\n  span n in 0..20 step 20\n  span e in 0..0 step 1\n"
        "  %0 = load %x[m, k] : f32[m:4,k:1]\n  %1 = sum %0 over k : f32[m:4]\n  store %y[m], %1\n"
        "  %2 = load %w[k, n] : f32[k:1,n:20]\n  %3 = full 3 : f32[m:4,n:20]\n  %4 = dot %0, %2, %3 over k : "
        "f32[m:4,n:20]\n"
        "  store %z[m, n], %4\n  %5 = full 1 : f32[e:1]\n  %6 = sum %5 over e : f32\n  store %q[], %6\n");
    check("kernel @nothing(%x: f32[3,0,4], %y: f32[3,4] out)\n  span a in 0..3 step 3\n  span b in 0..0 step 1\n  span "
          "c in 0..4 step 4\n"
          "  %0 = load %x[a, b, c] : f32[a:3,b:1,c:4]\n  %1 = rmax %0 over b : f32[a:3,c:4]\n  store %y[a, c], %1\n");
}

/* Mean, variance and normalised rows: reductions that depend on reductions, an expensive value used twice. */
static void layer_norm(void **state) {
    (void)state;
    check("kernel @norm(%x: f32[9,100], %g: f32[100], %y: f32[9,100] out, %s: f32[9] out)\n"
          "  grid m in 0..9 step 4\n  span n in 0..100 step 100\n"
          "  %0 = load %x[m, n] : f32[m:4,n:100]\n  %1 = sum %0 over n : f32[m:4]\n  %2 = const 100 : f32\n  %3 = div "
          "%1, %2 : f32[m:4]\n"
          "  %4 = sub %0, %3 : f32[m:4,n:100]\n  %5 = mul %4, %4 : f32[m:4,n:100]\n  %6 = sum %5 over n : f32[m:4]\n"
          "  %7 = div %6, %2 : f32[m:4]\n  %8 = rsqrt %7 : f32[m:4]\n  %9 = mul %4, %8 : f32[m:4,n:100]\n"
          "  %10 = load %g[n] : f32[n:100]\n  %11 = tanh %10 : f32[n:100]\n  %12 = mul %9, %11 : f32[m:4,n:100]\n"
          "  store %y[m, n], %12\n  store %s[m], %8\n");
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
/* x[M,K] or its transpose, w[K,N] or its transpose, the output plain or transposed: all ragged. */
static void products_in_every_layout(void **state) {
    (void)state;
    for (int layout = 0; layout < 8; layout++) {
        Arena *a = arena_new();
        const bool tx = layout & 1, tw = layout & 2, ty = layout & 4;
        check(arena_printf(
            a,
            "kernel @gemm<M<=45>(%%x: f32[%s], %%w: f32[%s], %%b: f32[50], %%y: f32[%s] out)\n"
            "  grid m in 0..M<=45 step 20\n  grid n in 0..50 step 36\n  loop k in 0..70 step 32\n"
            "  %%0 = full 0 : f32[m:20,n:36]\n  %%5 = for k carry %%1 = %%0 {\n"
            "    %%2 = load %%x[%s] : f32[m:20,k:32]\n    %%6 = const 0 : f32\n    %%7 = max %%2, %%6 : "
            "f32[m:20,k:32]\n"
            "    %%3 = load %%w[%s] : f32[n:36,k:32]\n"
            "    %%4 = dot %%7, %%3, %%1 over k : f32[m:20,n:36]\n    yield %%4\n  }\n"
            "  %%8 = load %%b[n] : f32[n:36]\n  %%9 = add %%5, %%8 : f32[m:20,n:36]\n  store %%y[%s], %%9\n",
            tx ? "70,M<=45" : "M<=45,70", tw ? "50,70" : "70,50", ty ? "50,M<=45" : "M<=45,50", tx ? "k, m" : "m, k",
            tw ? "n, k" : "k, n", ty ? "n, m" : "m, n"));
        arena_free(a);
    }
}

typedef struct ProductShape {
    int m, n, k, step_m, step_n, step_k;
} ProductShape;

/* Loads a factor, f32 or, widened, bf16, as value v. */
static const char *factor(Arena *a, int v, const char *buffer, const char *index, const char *lanes, bool low) {
    if (!low) return arena_printf(a, "    %%%d = load %%%s[%s] : f32[%s]\n", v, buffer, index, lanes);
    return arena_printf(a, "    %%%d = load %%%s[%s] : bf16[%s]\n    %%%d = cast %%%d : f32[%s]\n", v + 10, buffer,
                        index, lanes, v, v + 10, lanes);
}

/* y[m, n] = sum of x[m, k] w[k, n], each factor as stored or turned; a single row has no axis. */
static const char *product(Arena *a, const ProductShape *s, bool turn_x, bool turn_w, bool low) {
    const bool rows = s->m > 1;
    const char *type = low ? "bf16" : "f32", *m = rows ? "m" : "0";
    const char *row_lanes = rows ? arena_printf(a, "m:%d,", s->step_m) : "";
    const char *sums = arena_printf(a, "f32[%sn:%d]", row_lanes, s->step_n);
    const char *x = factor(a, 2, "x", arena_printf(a, turn_x ? "k, %s" : "%s, k", m),
                           arena_printf(a, "%sk:%d", row_lanes, s->step_k), low);
    const char *w =
        factor(a, 3, "w", turn_w ? "n, k" : "k, n", arena_printf(a, "n:%d,k:%d", s->step_n, s->step_k), low);
    return arena_printf(a,
                        "kernel @product(%%x: %s[%d,%d], %%w: %s[%d,%d], %%y: f32[%d,%d] out)\n"
                        "%s  grid n in 0..%d step %d\n  loop k in 0..%d step %d\n"
                        "  %%0 = full 0 : %s\n  %%5 = for k carry %%1 = %%0 {\n%s%s"
                        "    %%4 = dot %%2, %%3, %%1 over k : %s\n    yield %%4\n  }\n  store %%y[%s, n], %%5\n",
                        type, turn_x ? s->k : s->m, turn_x ? s->m : s->k, type, turn_w ? s->n : s->k,
                        turn_w ? s->k : s->n, s->m, s->n,
                        rows ? arena_printf(a, "  grid m in 0..%d step %d\n", s->m, s->step_m) : "", s->n, s->step_n,
                        s->k, s->step_k, sums, x, w, sums, m);
}

/* Plain products, thin and thick: factors used where they lie, packed before or while they are read, swept row by row,
 * blocks that fit exactly and others that pass the end of the result, by a lane or all but one, in several programs, k
 * in one part and in several. */
static void products_of_every_shape(void **state) {
    (void)state;
    static const ProductShape shape[] = {
        {1, 300, 70, 1, 256, 70},     {2, 64, 300, 2, 64, 256},    {7, 100, 40, 7, 64, 40},
        {48, 64, 64, 24, 32, 64},     {37, 8, 300, 37, 8, 300},    {61, 20, 33, 36, 20, 16},
        {96, 160, 20, 48, 64, 20},    {45, 33, 530, 45, 33, 256},  {52, 160, 300, 52, 160, 256},
        {29, 150, 300, 29, 150, 256}, {5, 2100, 11, 5, 544, 8},    {49, 65, 530, 24, 64, 256},
        {83, 111, 600, 48, 64, 256},  {140, 97, 140, 72, 64, 140},
    };
    for (int i = 0; i < 2 * (int)(sizeof shape / sizeof *shape); i++) {
        if (!getenv("SWEEP_ALL") && i % 2 != i / 2 % 2) continue;
        Arena *a = arena_new();
        const int layout = (i % 2 ? 3 : 0) ^ (i / 2 & 1);
        check(product(a, &shape[i / 2], layout & 1, layout & 2, false));
        arena_free(a);
    }
}

/* LLVM IR for an x86 processor. */
static const char *ir_for(Arena *a, const char *text, const char *cpu) {
    const Module m = module_of(a, parse_kernel(a, text));
    const HostOptions o = {.triple = "x86_64-linux-gnu", .cpu = cpu};
    char *ir = NULL, *error = NULL;
    if (!host_emit_ir_text(&m, &o, &ir, &error)) fail_msg("%s: %s", cpu, error);
    const char *copy = arena_strdup(a, ir);
    free(ir);
    return copy;
}

/* The result is written where it belongs whatever its size, known or not: what passes its end goes aside. */
static void products_at_edges(void **state) {
    (void)state;
    static const ProductShape odd = {49, 65, 530, 24, 64, 256}, whole = {48, 64, 530, 24, 64, 256};
    Arena *a = arena_new();
    assert_non_null(strstr(ir_for(a, product(a, &odd, false, false, false), "x86-64-v4"), "@fusec.put"));
    assert_null(strstr(ir_for(a, product(a, &whole, false, false, false), "x86-64-v4"), "@fusec.put"));
    arena_free(a);
    check("kernel @sizes<M<=45,N<=150>(%x: f32[M<=45,300], %w: f32[300,N<=150], %y: f32[M<=45,N<=150] out)\n"
          "  grid m in 0..M<=45 step 36\n  grid n in 0..N<=150 step 96\n  loop k in 0..300 step 256\n"
          "  %0 = full 0 : f32[m:36,n:96]\n  %5 = for k carry %1 = %0 {\n"
          "    %2 = load %x[m, k] : f32[m:36,k:256]\n    %3 = load %w[k, n] : f32[n:96,k:256]\n"
          "    %4 = dot %2, %3, %1 over k : f32[m:36,n:96]\n    yield %4\n  }\n  store %y[m, n], %5\n");
}

/* Several axes in each group, a batch axis, and k long enough to be packed in parts. */
static void products_of_many_axes(void **state) {
    (void)state;
    check("kernel @many(%x: f32[3,5,4,6], %w: f32[4,6,3,7], %y: f32[3,5,3,7] out)\n"
          "  span a in 0..3 step 3\n  span b in 0..5 step 5\n  span r in 0..4 step 4\n  span s in 0..6 step 6\n"
          "  span c in 0..3 step 3\n  span d in 0..7 step 7\n"
          "  %0 = load %x[a, b, r, s] : f32[a:3,b:5,r:4,s:6]\n  %1 = load %w[r, s, c, d] : f32[r:4,s:6,c:3,d:7]\n"
          "  %2 = full 0 : f32[a:3,b:5,c:3,d:7]\n  %3 = dot %0, %1, %2 over r, s : f32[a:3,b:5,c:3,d:7]\n  store %y[a, "
          "b, c, d], %3\n");
    check("kernel @batch(%x: f32[3,9,8], %w: f32[3,8,17], %y: f32[3,9,17] out)\n"
          "  span b in 0..3 step 3\n  span m in 0..9 step 9\n  span k in 0..8 step 8\n  span n in 0..17 step 17\n"
          "  %0 = load %x[b, m, k] : f32[b:3,m:9,k:8]\n  %1 = load %w[b, k, n] : f32[b:3,k:8,n:17]\n"
          "  %2 = full 1 : f32[b:3,m:9,n:17]\n  %3 = dot %0, %1, %2 over k : f32[b:3,m:9,n:17]\n  store %y[b, m, n], "
          "%3\n");
    check("kernel @long(%x: f32[40,700], %w: f32[700,40], %y: f32[40,40] out)\n"
          "  span m in 0..40 step 40\n  span k in 0..700 step 700\n  span n in 0..40 step 40\n"
          "  %0 = load %x[m, k] : f32[m:40,k:700]\n  %1 = load %w[k, n] : f32[k:700,n:40]\n"
          "  %2 = full 0 : f32[m:40,n:40]\n  %3 = dot %0, %1, %2 over k : f32[m:40,n:40]\n  store %y[m, n], %3\n");
    check("kernel @vector(%x: f32[30], %w: f32[30,20], %y: f32[20] out, %z: f32[] out)\n"
          "  span k in 0..30 step 30\n  span n in 0..20 step 20\n"
          "  %0 = load %x[k] : f32[k:30]\n  %1 = load %w[k, n] : f32[k:30,n:20]\n  %2 = full 0 : f32[n:20]\n"
          "  %3 = dot %0, %1, %2 over k : f32[n:20]\n  store %y[n], %3\n"
          "  %4 = const 2 : f32\n  %5 = dot %0, %0, %4 over k : f32\n  store %z[], %5\n");
}

/* ---- pairs of bf16 ----------------------------------------------------------------------------------------------- */
/* On a processor that has them they are used, on another of its kind they are not; the results are the same. */
static void check_pairs(const char *text) {
    static const char pairs[] = "call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512";
    Arena *a = arena_new();
    if (!strstr(ir_for(a, text, "znver4"), pairs)) fail_msg("no pairs are multiplied:\n%s", text);
    assert_null(strstr(ir_for(a, text, "x86-64-v4"), pairs));
    assert_null(strstr(ir_for(a, text, "sapphirerapids"), pairs)); /* it has them, and is slower so */
    check(text);
    arena_free(a);
}

/* Both factors as stored and turned, whole and ragged, k even and odd, in one part and in several, thin and thick. */
static void products_of_pairs(void **state) {
    (void)state;
    static const ProductShape shape[] = {
        {48, 64, 64, 24, 32, 64},     {61, 40, 33, 36, 40, 16},       {37, 32, 301, 37, 32, 301},
        {45, 33, 530, 45, 33, 512},   {52, 160, 1100, 52, 160, 1100}, {4, 64, 70, 4, 64, 70},
        {70, 32, 7, 70, 32, 7},       {24, 96, 2, 24, 96, 2},         {128, 32, 40, 128, 32, 40},
        {12, 300, 301, 12, 256, 301}, {3, 4160, 11, 3, 576, 8},
    };
    for (int i = 0; i < 4 * (int)(sizeof shape / sizeof *shape); i++) {
        Arena *a = arena_new();
        check_pairs(product(a, &shape[i / 4], i & 1, i & 2, true));
        arena_free(a);
    }
}

/* Prologues, several axes of rows, columns and k, run-time extents; pairs end where their axis does. */
static void pairs_of_many_axes(void **state) {
    (void)state;
    check_pairs("kernel @many(%x: bf16[3,5,4,7], %w: bf16[4,7,3,32], %y: f32[3,5,3,32] out)\n"
                "  span a in 0..3 step 3\n  span b in 0..5 step 5\n  span r in 0..4 step 4\n  span s in 0..7 step 7\n"
                "  span c in 0..3 step 3\n  span d in 0..32 step 32\n"
                "  %0 = load %x[a, b, r, s] : bf16[a:3,b:5,r:4,s:7]\n  %1 = cast %0 : f32[a:3,b:5,r:4,s:7]\n"
                "  %2 = load %w[r, s, c, d] : bf16[r:4,s:7,c:3,d:32]\n  %3 = cast %2 : f32[r:4,s:7,c:3,d:32]\n"
                "  %4 = full 0 : f32[a:3,b:5,c:3,d:32]\n  %5 = dot %1, %3, %4 over r, s : f32[a:3,b:5,c:3,d:32]\n"
                "  store %y[a, b, c, d], %5\n");
    check_pairs(
        "kernel @other_order(%x: bf16[20,4,7], %w: bf16[32,7,4], %y: f32[20,32] out)\n"
        "  span a in 0..20 step 20\n  span r in 0..4 step 4\n  span s in 0..7 step 7\n  span d in 0..32 step 32\n"
        "  %0 = load %x[a, r, s] : bf16[a:20,r:4,s:7]\n  %1 = cast %0 : f32[a:20,r:4,s:7]\n"
        "  %2 = load %w[d, s, r] : bf16[r:4,s:7,d:32]\n  %3 = cast %2 : f32[r:4,s:7,d:32]\n"
        "  %4 = full 0 : f32[a:20,d:32]\n  %5 = dot %1, %3, %4 over r, s : f32[a:20,d:32]\n"
        "  store %y[a, d], %5\n");
    check_pairs(
        "kernel @prologues<M<=45,K<=70>(%x: f32[M<=45,K<=70], %w: f32[K<=70,64], %y: f32[M<=45,64] out)\n"
        "  grid m in 0..M<=45 step 20\n  grid n in 0..64 step 32\n  loop k in 0..K<=70 step 32\n"
        "  %0 = full 0 : f32[m:20,n:32]\n  %5 = for k carry %1 = %0 {\n"
        "    %2 = load %x[m, k] : f32[m:20,k:32]\n    %6 = const 0 : f32\n    %7 = max %2, %6 : f32[m:20,k:32]\n"
        "    %8 = cast %7 : bf16[m:20,k:32]\n    %9 = cast %8 : f32[m:20,k:32]\n"
        "    %3 = load %w[k, n] : f32[n:32,k:32]\n    %10 = cast %3 : bf16[n:32,k:32]\n"
        "    %11 = cast %10 : f32[n:32,k:32]\n    %4 = dot %9, %11, %1 over k : f32[m:20,n:32]\n    yield %4\n  }\n"
        "  store %y[m, n], %5\n");
    check_pairs(
        "kernel @batch(%x: bf16[3,20,9], %w: bf16[3,9,32], %y: f32[3,20,32] out)\n"
        "  grid b in 0..3 step 1\n  span m in 0..20 step 20\n  span k in 0..9 step 9\n  span n in 0..32 step 32\n"
        "  %0 = load %x[b, m, k] : bf16[b:1,m:20,k:9]\n  %1 = cast %0 : f32[b:1,m:20,k:9]\n"
        "  %2 = load %w[b, k, n] : bf16[b:1,k:9,n:32]\n  %3 = cast %2 : f32[b:1,k:9,n:32]\n"
        "  %4 = full 1 : f32[b:1,m:20,n:32]\n  %5 = dot %1, %3, %4 over k : f32[b:1,m:20,n:32]\n"
        "  store %y[b, m, n], %5\n");
}

/* A convolution's image is read through its window, and so is its result's gradient, with channels in pairs: with a
 * border, strides, an odd number of channels (which is packed instead), and taps that only some rows have. */
static void pairs_through_windows(void **state) {
    (void)state;
    for (int channels = 6; channels <= 8; channels++) {
        Arena *a = arena_new();
        const int c = channels;
        const char *text = arena_printf(
            a,
            "kernel @conv(%%x: bf16[2,7,9,%d], %%w: bf16[3,3,%d,40], %%y: f32[2,7,5,40] out)\n"
            "  grid n in 0..2 step 1\n  grid h in 0..7 step 4\n  grid v in 0..5 step 5\n  grid f in 0..40 step 40\n"
            "  span r in 0..3 step 3\n  span s in 0..3 step 3\n  span c in 0..%d step %d\n"
            "  %%0 = full 0 : f32[n:1,h:4,v:5,f:40]\n  %%1 = index h + r - 1 : i32[h:4,r:3]\n  %%2 = const 0 : i32\n"
            "  %%3 = ge %%1, %%2 : bool[h:4,r:3]\n  %%4 = index 7 : i32\n  %%5 = lt %%1, %%4 : bool[h:4,r:3]\n"
            "  %%6 = and %%3, %%5 : bool[h:4,r:3]\n  %%7 = index 2*v + s - 1 : i32[v:5,s:3]\n"
            "  %%8 = ge %%7, %%2 : bool[v:5,s:3]\n  %%9 = index 9 : i32\n  %%10 = lt %%7, %%9 : bool[v:5,s:3]\n"
            "  %%11 = and %%8, %%10 : bool[v:5,s:3]\n  %%12 = and %%6, %%11 : bool[h:4,v:5,r:3,s:3]\n"
            "  %%13 = load %%x[n, h + r - 1, 2*v + s - 1, c] where %%12 else 0 : bf16[n:1,h:4,v:5,r:3,s:3,c:%d]\n"
            "  %%14 = cast %%13 : f32[n:1,h:4,v:5,r:3,s:3,c:%d]\n"
            "  %%15 = load %%w[r, s, c, f] : bf16[f:40,r:3,s:3,c:%d]\n  %%16 = cast %%15 : f32[f:40,r:3,s:3,c:%d]\n"
            "  %%17 = dot %%14, %%16, %%0 over r, s, c : f32[n:1,h:4,v:5,f:40]\n  store %%y[n, h, v, f], %%17\n",
            c, c, c, c, c, c, c, c);
        check_pairs(text);
        assert_int_equal(strstr(ir_for(a, text, "znver4"), "@fusec.window_") != NULL, c % 2 == 0);
        arena_free(a);
    }
}

/* At a border's taps only the rows that have a term are multiplied, in blocks of whole image rows and of parts. */
static void taps_of_some_rows(void **state) {
    (void)state;
    static const struct {
        int width;
        const char *block;
    } of[] = {{7, "window_1.7_0.7_0.6_"}, {20, "window_1.10_0.10_0.10_"}, {20, "window_0.10_0.10_0.9_"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        Arena *a = arena_new();
        const int w = of[i].width;
        const char *text = arena_printf(
            a,
            "kernel @conv(%%x: f32[2,6,%d,64], %%w: f32[3,3,64,32], %%y: f32[2,6,%d,32] out)\n"
            "  grid n in 0..2 step 1\n  grid h in 0..6 step 3\n  grid v in 0..%d step %d\n  grid f in 0..32 step 32\n"
            "  loop r in 0..3 step 3\n  loop s in 0..3 step 3\n  loop c in 0..64 step 64\n"
            "  %%0 = full 0 : f32[n:1,h:3,v:%d,f:32]\n"
            "  %%18 = for r carry %%19 = %%0 {\n  %%20 = for s carry %%21 = %%19 {\n  %%22 = for c carry %%23 = %%21 "
            "{\n"
            "  %%1 = index h + r - 1 : i32[h:3,r:3]\n  %%2 = const 0 : i32\n"
            "  %%3 = ge %%1, %%2 : bool[h:3,r:3]\n  %%4 = index 6 : i32\n  %%5 = lt %%1, %%4 : bool[h:3,r:3]\n"
            "  %%6 = and %%3, %%5 : bool[h:3,r:3]\n  %%7 = index v + s - 1 : i32[v:%d,s:3]\n"
            "  %%8 = ge %%7, %%2 : bool[v:%d,s:3]\n  %%9 = index %d : i32\n  %%10 = lt %%7, %%9 : bool[v:%d,s:3]\n"
            "  %%11 = and %%8, %%10 : bool[v:%d,s:3]\n  %%12 = and %%6, %%11 : bool[h:3,v:%d,r:3,s:3]\n"
            "  %%13 = load %%x[n, h + r - 1, v + s - 1, c] where %%12 else 0 : f32[n:1,h:3,v:%d,r:3,s:3,c:64]\n"
            "  %%15 = load %%w[r, s, c, f] : f32[f:32,r:3,s:3,c:64]\n"
            "  %%17 = dot %%13, %%15, %%23 over r, s, c : f32[n:1,h:3,v:%d,f:32]\n"
            "  yield %%17\n  }\n  yield %%22\n  }\n  yield %%20\n  }\n  store %%y[n, h, v, f], %%18\n",
            w, w, w, w, w, w, w, w, w, w, w, w, w);
        check(text);
        assert_non_null(strstr(ir_for(a, text, "znver4"), of[i].block));
        arena_free(a);
    }
}

/* The accumulator is still needed after the dot: no sharing. */
static void accumulators_that_live_on(void **state) {
    (void)state;
    check("kernel @live(%x: f32[8,8], %y: f32[8,8] out, %z: f32[8,8] out)\n"
          "  span m in 0..8 step 8\n  span n in 0..8 step 8\n  span k in 0..8 step 8\n  loop t in 0..3 step 1\n"
          "  %0 = load %x[m, k] : f32[m:8,k:8]\n  %1 = load %x[k, n] : f32[n:8,k:8]\n  %2 = full 1 : f32[m:8,n:8]\n"
          "  %3 = dot %0, %1, %2 over k : f32[m:8,n:8]\n"
          "  %10, %11 = for t carry %4 = %3, %5 = %3 {\n"
          "    %6 = dot %0, %1, %4 over k : f32[m:8,n:8]\n    %7 = sub %6, %4 : f32[m:8,n:8]\n    %8 = add %5, %7 : "
          "f32[m:8,n:8]\n"
          "    yield %8, %6\n  }\n  store %y[m, n], %10\n  %12 = add %11, %3 : f32[m:8,n:8]\n  store %z[m, n], %12\n");
}

/* A loop that the product does not sum adds it up as often; its accumulator is zero before the first time only. */
static void products_added_in_a_loop(void **state) {
    (void)state;
    check("kernel @thrice(%x: f32[16,24], %y: f32[24,32], %z: f32[16,32] out)\n"
          "  grid m in 0..16 step 16\n  grid n in 0..32 step 32\n  loop t in 0..3 step 1\n  loop k in 0..24 step 24\n"
          "  %0 = full 0 : f32[m:16,n:32]\n  %7 = for t carry %1 = %0 {\n    %6 = for k carry %2 = %1 {\n"
          "      %3 = load %x[m, k] : f32[m:16,k:24]\n      %4 = load %y[k, n] : f32[n:32,k:24]\n"
          "      %5 = dot %3, %4, %2 over k : f32[m:16,n:32]\n      yield %5\n    }\n    yield %6\n  }\n"
          "  store %z[m, n], %7\n");
}

/* ---- control and memory order ------------------------------------------------------------------------------------ */
/* A tile is skipped where its condition says so; the accumulator passes through. */
static void conditional_products(void **state) {
    (void)state;
    check("kernel @causal(%q: f32[24,24], %v: f32[24,16], %y: f32[24,16] out)\n"
          "  grid m in 0..24 step 8\n  loop j in 0..24 step 8\n  span d in 0..16 step 16\n"
          "  %0 = full 0 : f32[m:8,d:16]\n  %9 = for j carry %1 = %0 {\n"
          "    %20 = index m : i32[m:8]\n    %21 = rmax %20 over m : i32\n    %22 = index j : i32[j:8]\n    %23 = rmin "
          "%22 over j : i32\n"
          "    %2 = le %23, %21 : bool\n    %8 = if %2 init %1 {\n"
          "      %3 = load %v[j, d] : f32[j:8,d:16]\n      %4 = load %q[m, j] : f32[m:8,j:8]\n"
          "      %5 = dot %4, %3, %1 over j : f32[m:8,d:16]\n      yield %5\n    }\n    yield %8\n  }\n  store %y[m, "
          "d], %9\n");
}

/* The load comes before the store to the same memory, its use after. */
static void loads_stay_before_stores(void **state) {
    (void)state;
    check("kernel @reverse(%x: f32[36] out)\n  span i in 0..36 step 40\n"
          "  %0 = load %x[-i + 35] : f32[i:40]\n  store %x[i], %0\n");
    check("kernel @reread(%x: f32[20] out, %y: f32[20] out)\n  grid i in 0..20 step 20\n"
          "  %0 = load %x[i] : f32[i:20]\n  %1 = add %0, %0 : f32[i:20]\n  store %x[i], %1\n"
          "  %2 = load %x[i] : f32[i:20]\n  %3 = mul %2, %0 : f32[i:20]\n  store %y[i], %3\n");
    for (int factor = 0; factor < 2; factor++) { /* of a product, whichever would be read in place */
        Arena *a = arena_new();
        check(arena_printf(a,
                           "kernel @factor(%%x: f32[16,24]%s, %%y: f32[24,32]%s, %%z: f32[16,32] out)\n"
                           "  span m in 0..16 step 16\n  span n in 0..32 step 32\n  span k in 0..24 step 24\n"
                           "  %%0 = load %%x[m, k] : f32[m:16,k:24]\n  %%1 = load %%y[k, n] : f32[n:32,k:24]\n"
                           "  %%2 = add %%%d, %%%d : f32[%s:%d,k:24]\n  store %s, %%2\n"
                           "  %%3 = full 0 : f32[m:16,n:32]\n  %%4 = dot %%0, %%1, %%3 over k : f32[m:16,n:32]\n"
                           "  store %%z[m, n], %%4\n",
                           factor ? "" : " out", factor ? " out" : "", factor, factor, factor ? "n" : "m",
                           factor ? 32 : 16, factor ? "%y[k, n]" : "%x[m, k]"));
        arena_free(a);
    }
}

/* A small optimiser step, in place over three buffers. */
static void adam_in_place(void **state) {
    (void)state;
    check(
        "kernel @adam(%w: f32[50] out, %m: f32[50] out, %v: f32[50] out, %g: f32[50], %rate: f32[])\n  grid i in 0..50 "
        "step 32\n"
        "  %0 = load %w[i] : f32[i:32]\n  %1 = load %m[i] : f32[i:32]\n  %2 = load %v[i] : f32[i:32]\n  %3 = load "
        "%g[i] : f32[i:32]\n"
        "  %4 = const 0.9 : f32\n  %5 = const 0.1 : f32\n  %6 = mul %1, %4 : f32[i:32]\n  %7 = mul %3, %5 : f32[i:32]\n"
        "  %8 = add %6, %7 : f32[i:32]\n  store %m[i], %8\n  %9 = mul %3, %3 : f32[i:32]\n  %10 = abs %2 : f32[i:32]\n"
        "  %11 = add %10, %9 : f32[i:32]\n  store %v[i], %11\n  %12 = sqrt %11 : f32[i:32]\n  %13 = const 0.01 : f32\n"
        "  %14 = add %12, %13 : f32[i:32]\n  %15 = div %8, %14 : f32[i:32]\n  %16 = load %rate[] : f32\n"
        "  %17 = mul %15, %16 : f32[i:32]\n  %18 = sub %0, %17 : f32[i:32]\n  store %w[i], %18\n");
}

/* Masked loads beside the edge, with another value; a transposed and a strided store. */
static void masks_strides_quotients(void **state) {
    (void)state;
    check("kernel @shift(%x: f32[30], %y: f32[30] out)\n  grid i in 0..30 step 20\n"
          "  %0 = index i - 1 : i32[i:20]\n  %1 = const 0 : i32\n  %2 = ge %0, %1 : bool[i:20]\n"
          "  %3 = load %x[i - 1] where %2 else 7 : f32[i:20]\n  store %y[i], %3\n");
    check("kernel @transpose(%x: f32[19,23], %y: f32[23,19] out, %z: f32[19,46] out)\n  grid i in 0..19 step 8\n  grid "
          "j in 0..23 step 16\n"
          "  %0 = load %x[i, j] : f32[i:8,j:16]\n  store %y[j, i], %0\n  store %z[i, 2*j + 1], %0\n");
    check("kernel @flat(%x: f32[5,6], %y: f32[30] out)\n  grid i in 0..30 step 16\n"
          "  %0 = load %x[i / 6, i mod 6] : f32[i:16]\n  store %y[i], %0\n");
}

/* A processor given by name alone has the vectors of its kind. */
static void named_processors(void **state) {
    (void)state;
    static const struct {
        const char *cpu, *vector;
    } named[] = {{"x86-64-v2", "load <4 x float>"}, {"x86-64-v3", "load <8 x float>"}, {"znver4", "load <16 x float>"}};
    Arena *a = arena_new();
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const char *ir = ir_for(a,
                                "kernel @copy(%x: f32[64], %y: f32[64] out)\n  grid i in 0..64 step 64\n"
                                "  %0 = load %x[i] : f32[i:64]\n  store %y[i], %0\n",
                                named[i].cpu);
        if (!strstr(ir, named[i].vector)) fail_msg("%s: no `%s`", named[i].cpu, named[i].vector);
    }
    arena_free(a);
}

/* A dot is made by the form that it says, or refused. */
static void products_by_the_form_said(void **state) {
    (void)state;
    for (By form = BY_WINDOW; form <= BY_LOOPS; form++) {
        const bool fits = form == BY_BLOCKS || form == BY_LOOPS;
        Arena *a = arena_new();
        char *text = arena_printf(a, "kernel @said(%%x: f32[20,30], %%y: f32[30,32], %%z: f32[20,32] out)\n"
                                     "  span i in 0..20 step 20\n  span j in 0..32 step 32\n  span k in 0..30 step 30\n"
                                     "  %%0 = load %%x[i, k] : f32[i:20,k:30]\n  %%1 = load %%y[k, j] : f32[j:32,k:30]\n"
                                     "  %%2 = full 0 : f32[i:20,j:32]\n"
                                     "  %%3 = dot %%0, %%1, %%2 over k by %s : f32[i:20,j:32]\n  store %%z[i, j], %%3\n",
                                  by_name[form]), *why = NULL;
        Kernel *k = parse_kernel(a, text);
        if (fits) check(text);
        const Module m = module_of(a, k);
        HostJit *j = host_jit(&m, NULL, &why);
        assert_int_equal(j != NULL, fits);
        if (!fits) assert_string_equal(why, arena_printf(a, "kernel said: %%3 is no product by %s", by_name[form]));
        k->threads = 32;
        assert_non_null(kernel_check_schedule(a, k));
        host_jit_free(j);
        free(why);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tile_golden_runs),
        cmocka_unit_test(kernels_of_every_back_end_run),
        cmocka_unit_test(every_elementwise_op_runs),
        cmocka_unit_test(narrow_floats),
        cmocka_unit_test(special_values),
        cmocka_unit_test(reductions_in_every_direction),
        cmocka_unit_test(empty_spans),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(products_in_every_layout),
        cmocka_unit_test(products_of_every_shape),
        cmocka_unit_test(products_at_edges),
        cmocka_unit_test(products_of_many_axes),
        cmocka_unit_test(products_of_pairs),
        cmocka_unit_test(pairs_of_many_axes),
        cmocka_unit_test(pairs_through_windows),
        cmocka_unit_test(taps_of_some_rows),
        cmocka_unit_test(accumulators_that_live_on),
        cmocka_unit_test(products_added_in_a_loop),
        cmocka_unit_test(conditional_products),
        cmocka_unit_test(loads_stay_before_stores),
        cmocka_unit_test(adam_in_place),
        cmocka_unit_test(masks_strides_quotients),
        cmocka_unit_test(named_processors),
        cmocka_unit_test(products_by_the_form_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
