/* ptxsim LIBRARY: speed of the software GPU (LIBRARY is its libcuda.so.1), all checks on, one thread.  Prints figures
 * as name<TAB>value<TAB>unit.  Kernels are PTX written here: a loop of arithmetic alone, and f32 matrix products
 * the way they are written for CUDA cores, with tiles in shared memory and results in registers.  Verified in the timed
 * run: the results exactly, and no finding.  Exit 1 when something is wrong. */
#include "bench/median.h"
#include "bench/ptxsim.h"
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 5, SIZE = 512, ROUNDS = 2000, ALU_BLOCKS = 4 };

Driver cu;

_Noreturn void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("ptxsim bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

void must(CUresult r, const char *what) {
    if (r) fail("%s: error %d", what, (int)r);
}

static CUcontext driver_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("%s", dlerror());
#define CUDA_EXPORT(name, since, symbol, need, kind, parameters, arguments) \
    *(void **)&cu.symbol = dlsym(library, #symbol);                         \
    if (!cu.symbol) fail("no %s in %s", #symbol, path);
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
    CUcontext context;
    must(cu.cuInit(0), "cuInit");
    must(cu.cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
    return context;
}

CUfunction load(CUmodule *module, const char *text, const char *name) {
    static char log[512];
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    CUfunction f;
    if (cu.cuModuleLoadDataEx(module, text, 2, options, values)) fail("%s", log);
    must(cu.cuModuleGetFunction(&f, *module, name), name);
    return f;
}

CUdeviceptr upload(const void *data, size_t bytes) {
    CUdeviceptr p;
    must(cu.cuMemAlloc_v2(&p, bytes), "cuMemAlloc");
    if (data) must(cu.cuMemcpyHtoD_v2(p, data, bytes), "cuMemcpyHtoD");
    return p;
}

/* ---- text of kernels ---------------------------------------------------------------------------------- */
void put(Text *t, const char *format, ...) {
    va_list list;
    if (t->size - t->used < 1024) {
        t->size = 2 * t->size + 4096;
        t->data = realloc(t->data, t->size);
        if (!t->data) fail("out of memory");
    }
    va_start(list, format);
    t->used += (size_t)vsnprintf(t->data + t->used, t->size - t->used, format, list);
    va_end(list);
}

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

static const char ALU_STEP[] =
    "fma.rn.f32 %f1, %f1, %f2, %f3; add.f32 %f4, %f4, %f1; mad.lo.u32 %r1, %r1, 1664525, 1013904223;\n"
    "shr.u32 %r2, %r1, 9; xor.b32 %r3, %r3, %r2; setp.lt.u32 %p1, %r2, 4194304; selp.b32 %r4, %r3, %r2, %p1;\n"
    "add.u32 %r5, %r5, %r4; mul.f32 %f5, %f1, %f2; @%p1 add.f32 %f4, %f4, %f5;\n";

static char *alu_kernel(void) {
    Text t = {0};
    put(&t,
        HEAD
        ".entry alu(.param .u64 out, .param .u32 rounds)\n{\n"
        ".reg .pred %%p<3>; .reg .b32 %%r<12>; .reg .f32 %%f<6>; .reg .b64 %%rd<4>;\n"
        "ld.param.u64 %%rd1, [out]; ld.param.u32 %%r9, [rounds]; mov.u32 %%r6, %%tid.x; mov.u32 %%r7, %%ctaid.x;\n"
        "mad.lo.u32 %%r8, %%r7, %d, %%r6; mov.u32 %%r1, %%r8; mov.u32 %%r3, 0; mov.u32 %%r5, 0;\n"
        "cvt.rn.f32.u32 %%f1, %%r8; mov.f32 %%f2, 0f3F000000; mov.f32 %%f3, 0f3F800000; mov.f32 %%f4, 0f00000000;\n"
        "LOOP:\n",
        THREADS);
    for (int k = 0; k < 8; k++) put(&t, "%s", ALU_STEP);
    put(&t,
        "sub.u32 %%r9, %%r9, 1; setp.ne.u32 %%p2, %%r9, 0; @%%p2 bra LOOP;\n"
        "mov.b32 %%r10, %%f4; mad.wide.u32 %%rd2, %%r8, 8, %%rd1; st.global.v2.u32 [%%rd2], {%%r5, %%r10}; ret;\n}\n");
    return t.data;
}

/* A matrix product of SIZE x SIZE x SIZE by THREADS threads per block, a tile of tile x tile results per block, `depth`
 * of the inner dimension at a time; a thread has tile / 16 rows and columns, in fours that lie 64 apart.  Each is read
 * from shared memory as a vector or number by number. */
typedef struct Shape {
    const char *name;
    int tile, depth;
    bool vectors;
} Shape;
static const Shape SHAPES[] = {{"gemm", 128, 8, true}, {"gemm_scalar", 64, 16, false}};

/* A tile of A is stored transposed, so that a thread's operands of one k are neighbours in both tiles. */
static void gemm_fetch(Text *t, const Shape *s) {
    put(t, "ld.global.v4.f32 {%%f1, %%f2, %%f3, %%f4}, [%%rd4]; ld.global.v4.f32 {%%f5, %%f6, %%f7, %%f8}, [%%rd5];\n");
    for (int k = 0; k < 4; k++) put(t, "st.shared.f32 [%%r10+%d], %%f%d;\n", k * s->tile * 4, k + 1);
    put(t, "st.shared.v4.f32 [%%r11], {%%f5, %%f6, %%f7, %%f8};\nbar.sync 0;\n");
}

static void gemm_load_four(Text *t, const Shape *s, int first, const char *base, int at) {
    if (s->vectors)
        put(t, "ld.shared.v4.f32 {%%f%d, %%f%d, %%f%d, %%f%d}, [%s+%d];\n", first, first + 1, first + 2, first + 3,
            base, at);
    for (int k = 0; k < 4 && !s->vectors; k++) put(t, "ld.shared.f32 %%f%d, [%s+%d];\n", first + k, base, at + 4 * k);
}

static void gemm_multiply(Text *t, const Shape *s, int k) {
    const int own = s->tile / 16;
    for (int m = 0; m < own; m += 4) {
        gemm_load_four(t, s, 10 + m, "%r12", (k * s->tile + m * 16) * 4);
        gemm_load_four(t, s, 20 + m, "%r13", (k * s->tile + m * 16) * 4);
    }
    for (int m = 0; m < own; m++)
        for (int n = 0; n < own; n++)
            put(t, "fma.rn.f32 %%f%d, %%f%d, %%f%d, %%f%d;\n", 100 + 8 * m + n, 10 + m, 20 + n, 100 + 8 * m + n);
}

static void gemm_prologue(Text *t, const Shape *s) {
    const int tile = s->tile, depth = s->depth;
    put(t,
        HEAD ".entry gemm(.param .u64 a, .param .u64 b, .param .u64 c)\n.reqntid %d, 1, 1\n{\n"
             ".reg .pred %%p<2>; .reg .b32 %%r<30>; .reg .f32 %%f<164>; .reg .b64 %%rd<12>;\n"
             ".shared .align 16 .b8 tile_a[%d]; .shared .align 16 .b8 tile_b[%d];\n",
        THREADS, tile * depth * 4, tile * depth * 4);
    put(t, "ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [b]; ld.param.u64 %%rd3, [c];\n"
           "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, %%ctaid.y; mov.u32 %%r20, tile_a; mov.u32 "
           "%%r21, tile_b;\n"
           "shl.b32 %%r22, %%r1, 2;\n");
    /* thread t fetches four numbers of both tiles, from number 4t in the order of their rows */
    put(t,
        "div.u32 %%r4, %%r22, %d; rem.u32 %%r5, %%r22, %d; mad.lo.u32 %%r6, %%r3, %d, %%r4;\n"
        "mad.lo.u32 %%r6, %%r6, %d, %%r5; mad.wide.u32 %%rd4, %%r6, 4, %%rd1;\n"
        "mad.lo.u32 %%r7, %%r5, %d, %%r4; shl.b32 %%r7, %%r7, 2; add.u32 %%r10, %%r20, %%r7;\n",
        depth, depth, tile, SIZE, tile);
    put(t,
        "div.u32 %%r4, %%r22, %d; rem.u32 %%r5, %%r22, %d; mad.lo.u32 %%r6, %%r2, %d, %%r5;\n"
        "mad.lo.u32 %%r6, %%r4, %d, %%r6; mad.wide.u32 %%rd5, %%r6, 4, %%rd2;\n"
        "mad.lo.u32 %%r7, %%r4, %d, %%r5; shl.b32 %%r7, %%r7, 2; add.u32 %%r11, %%r21, %%r7;\n",
        tile, tile, tile, SIZE, tile);
    /* its results: rows from 4 (t / 16), columns from 4 (t % 16) */
    put(t, "shr.u32 %%r8, %%r1, 4; shl.b32 %%r8, %%r8, 2; and.b32 %%r9, %%r1, 15; shl.b32 %%r9, %%r9, 2;\n"
           "mad.lo.u32 %%r12, %%r8, 4, %%r20; mad.lo.u32 %%r13, %%r9, 4, %%r21;\n");
    for (int k = 0; k < 64; k++) put(t, "mov.f32 %%f%d, 0f00000000;\n", 100 + k);
}

static void gemm_epilogue(Text *t, const Shape *s) {
    const int own = s->tile / 16;
    put(t,
        "mad.lo.u32 %%r15, %%r3, %d, %%r8; mad.lo.u32 %%r16, %%r2, %d, %%r9; mad.lo.u32 %%r15, %%r15, %d, %%r16;\n"
        "mad.wide.u32 %%rd6, %%r15, 4, %%rd3;\n",
        s->tile, s->tile, SIZE);
    for (int m = 0; m < own; m++)
        for (int n = 0; n < own; n += 4) {
            const int row = m % 4 + m / 4 * 64, r = 100 + 8 * m + n;
            put(t, "st.global.v4.f32 [%%rd6+%d], {%%f%d, %%f%d, %%f%d, %%f%d};\n", (row * SIZE + n * 16) * 4, r, r + 1,
                r + 2, r + 3);
        }
    put(t, "ret;\n}\n");
}

static char *gemm_kernel(const Shape *s) {
    Text t = {0};
    gemm_prologue(&t, s);
    put(&t, "mov.u32 %%r14, %d;\nLOOP:\n", SIZE / s->depth);
    gemm_fetch(&t, s);
    for (int k = 0; k < s->depth; k++) gemm_multiply(&t, s, k);
    put(&t, "bar.sync 0;\nadd.u64 %%rd4, %%rd4, %d; add.u64 %%rd5, %%rd5, %d;\n", s->depth * 4, s->depth * SIZE * 4);
    put(&t, "sub.u32 %%r14, %%r14, 1; setp.ne.u32 %%p1, %%r14, 0; @%%p1 bra LOOP;\n");
    gemm_epilogue(&t, s);
    return t.data;
}

/* ---- measuring ---------------------------------------------------------------------------------------- */
static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double timed_launch(CUfunction f, unsigned gx, unsigned gy, unsigned shared, void **params) {
    const double start = processor_seconds();
    must(cu.cuLaunchKernel(f, gx, gy, 1, THREADS, 1, 1, shared, NULL, params, NULL), "cuLaunchKernel");
    return processor_seconds() - start;
}

/* The median of RUNS launches after one to warm up. */
Figures measure(CUfunction f, unsigned gx, unsigned gy, unsigned shared, void **params) {
    double seconds[RUNS];
    uint64_t before[4], after[4], findings;
    must(cu.ptxsim_instructions(before), "ptxsim_instructions");
    timed_launch(f, gx, gy, shared, params);
    must(cu.ptxsim_instructions(after), "ptxsim_instructions");
    for (int k = 0; k < RUNS; k++) seconds[k] = timed_launch(f, gx, gy, shared, params);
    Figures r = {.seconds = bench_median(seconds, RUNS), .memory = (double)(after[1] - before[1])};
    for (int k = 0; k < 4; k++) r.instructions += (double)(after[k] - before[k]);
    must(cu.ptxsim_findings(&findings), "ptxsim_findings");
    if (findings) fail("%llu findings", (unsigned long long)findings);
    return r;
}

static void report(const char *name, Figures f) {
    printf("ptxsim.%s.mips_per_core\t%.0f\tMIPS\n", name, 1e-6 * f.instructions / f.seconds);
    printf("ptxsim.%s.instructions\t%.1f\tmillion\n", name, 1e-6 * f.instructions);
    printf("ptxsim.%s.memory_share\t%.4f\tratio\n", name, f.memory / f.instructions);
}

static void alu_verify(const uint32_t out[][2], uint32_t n) {
    for (uint32_t i = 0; i < n; i += 37) {
        uint32_t r1 = i, r3 = 0, r5 = 0, bits;
        float f1 = (float)i, f4 = 0;
        for (int k = 0; k < 8 * ROUNDS; k++) {
            f1 = fmaf(f1, 0.5f, 1.0f);
            f4 += f1;
            r1 = r1 * 1664525 + 1013904223;
            const uint32_t r2 = r1 >> 9;
            r3 ^= r2;
            r5 += r2 < 4194304 ? r3 : r2;
            if (r2 < 4194304) f4 += f1 * 0.5f;
        }
        memcpy(&bits, &f4, sizeof bits);
        if (out[i][0] != r5 || out[i][1] != bits) fail("alu: the result of thread %u is wrong", i);
    }
}

static void alu(void) {
    enum { N = ALU_BLOCKS * THREADS };
    static uint32_t out[N][2];
    char *text = alu_kernel();
    CUmodule module;
    CUfunction f = load(&module, text, "alu");
    CUdeviceptr p = upload(NULL, sizeof out);
    uint32_t rounds = ROUNDS;
    const Figures r = measure(f, ALU_BLOCKS, 1, 0, (void *[]){&p, &rounds});
    must(cu.cuMemcpyDtoH_v2(out, p, sizeof out), "cuMemcpyDtoH");
    alu_verify((const uint32_t(*)[2])out, N);
    report("alu", r);
    cu.cuMemFree_v2(p);
    cu.cuModuleUnload(module);
    free(text);
}

/* Small integers: every product and sum is exact, in any order. */
static float entry(uint32_t k) { return (float)((int)(k * 2654435761u >> 20) % 9 - 4); }

static void gemm_verify(const float *a, const float *b, const float *c) {
    for (size_t i = 0; i < SIZE; i++)
        for (size_t j = i % 7; j < SIZE; j += 7) {
            float want = 0;
            for (size_t k = 0; k < SIZE; k++) want += a[i * SIZE + k] * b[k * SIZE + j];
            if (c[i * SIZE + j] != want) fail("gemm: [%zu, %zu] is wrong", i, j);
        }
}

static void gemm(const Shape *s) {
    enum { N = SIZE * SIZE };
    static float a[N], b[N], c[N];
    for (uint32_t k = 0; k < N; k++) a[k] = entry(k), b[k] = entry(k + N);
    char *text = gemm_kernel(s);
    CUmodule module;
    CUfunction f = load(&module, text, "gemm");
    CUdeviceptr pa = upload(a, sizeof a), pb = upload(b, sizeof b), pc = upload(NULL, sizeof c);
    const Figures r = measure(f, (unsigned)(SIZE / s->tile), (unsigned)(SIZE / s->tile), 0, (void *[]){&pa, &pb, &pc});
    must(cu.cuMemcpyDtoH_v2(c, pc, sizeof c), "cuMemcpyDtoH");
    gemm_verify(a, b, c);
    report(s->name, r);
    cu.cuMemFree_v2(pa);
    cu.cuMemFree_v2(pb);
    cu.cuMemFree_v2(pc);
    cu.cuModuleUnload(module);
    free(text);
}

int main(int argc, char **argv) {
    if (argc != 2) fail("usage: ptxsim LIBRARY");
    setenv("PTXSIM_THREADS", "1", 1);
    unsetenv("PTXSIM_CHECKS");
    unsetenv("PTXSIM_STATS");
    unsetenv("PTXSIM_SEED");
    CUcontext context = driver_open(argv[1]);
    alu();
    for (size_t k = 0; k < sizeof SHAPES / sizeof *SHAPES; k++) gemm(&SHAPES[k]);
    matrix_instructions();
    must(cu.cuCtxDestroy_v2(context), "cuCtxDestroy");
    return 0;
}
