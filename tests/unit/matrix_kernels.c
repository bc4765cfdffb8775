/* Scheduled matrix kernels on the software GPU, against the Tile IR interpreter: factors in every orientation, rings,
 * epilogues, edges; no findings under any schedule, no bank conflicts, whole sectors, no more matrix instructions than
 * the tiles need. */
#include "ptxsim_driver.h"
#include "codegen/nvptx/nvptx.h"
#include "ir/tile_stage.h"
#include "tests/support/kernel_case.h"
#include "tests/support/scratch.h"
#include <math.h>

enum { SCHEDULES = 16 };

/* ---- data: f16 and bf16 as numbers ------------------------------------------------------------------------- */
static void put(DType t, void *data, int64_t i, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (t == DT_BF16) ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    else if (t == DT_F16) ((uint16_t *)data)[i] = (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ff) + ((bits >> 23 & 0xff) - 112) * 1024));
    else ((float *)data)[i] = v;
}

static double get(DType t, const void *data, int64_t i) {
    float v;
    if (t == DT_F32) return ((const float *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    if (t == DT_BF16) {
        const uint32_t bits = (uint32_t)h << 16;
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    const int e = h >> 10 & 31;
    const double m = e ? 1 + (h & 1023) / 1024.0 : (h & 1023) / 512.0;
    return (h >> 15 ? -1 : 1) * ldexp(m, e ? e - 15 : -15);
}

/* Multiples of 1/8 in [-2, 2), none of them 0: exact in every format, and so are short sums. */
static void *numbers(Arena *a, const Buffer *b) {
    const int64_t n = buffer_bytes(b) / dtype_bytes(b->dtype);
    void *data = arena_alloc(a, (size_t)(n * dtype_bytes(b->dtype) + 1));
    for (int64_t i = 0; i < n; i++) {
        const int v = (int)(kernel_random() % 31) - 15;
        put(b->dtype, data, i, (float)(v ? v : 16) / 8);
    }
    return data;
}

/* ---- one kernel ------------------------------------------------------------------------------------------------ */
typedef struct Gpu {
    char *ptx;
    CUfunction function;
    CUdeviceptr device[MAX_BUFFERS];
} Gpu;

static void (*count_kernels)(int on);
static uint64_t (*kernels_counted)(ptxsim_kernel *to, uint64_t room);

static void gpu_open(Arena *a, Gpu *g, Kernel *k, const char *arch) {
    Module m = {.arena = a, .name = "matrix"};
    char *error = NULL;
    vec_push(a, m.kernels, k);
    if (!nvptx_emit_ptx(&m, &(NvptxOptions){.arch = arch}, &g->ptx, &error)) fail_msg("%s", error);
    g->function = load_kernel(g->ptx, k->name);
    const int bytes = (int)kernel_shared_bytes(k);
    if (bytes > 48 << 10)
        assert_int_equal(cu.cuFuncSetAttribute(g->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes), CUDA_SUCCESS);
}

static void gpu_run(const Gpu *g, const Kernel *k, void *const *data) {
    void *params[MAX_BUFFERS];
    for (int b = 0; b < k->buffers.n; b++) {
        const size_t bytes = (size_t)buffer_bytes(&k->buffers.at[b]);
        assert_int_equal(cu.cuMemcpyHtoD_v2(g->device[b], data[b], bytes), CUDA_SUCCESS);
        params[b] = (void *)(uintptr_t)&g->device[b];
    }
    const CUresult r = cu.cuLaunchKernel(g->function, (unsigned)kernel_programs(k, NULL), 1, 1, (unsigned)k->threads, 1, 1,
                                         (unsigned)kernel_shared_bytes(k), NULL, params, NULL);
    if (r || cu.cuCtxSynchronize()) fail_msg("%s: launch failed\n%s", k->name, g->ptx);
}

static void compare(const Kernel *k, void *const *want, void *const *data, CUdeviceptr const *device, Arena *a) {
    for (int b = 0; b < k->buffers.n; b++) {
        const Buffer *buf = &k->buffers.at[b];
        const int64_t bytes = buffer_bytes(buf);
        void *got = arena_alloc(a, (size_t)bytes);
        assert_int_equal(cu.cuMemcpyDtoH_v2(got, device[b], (size_t)bytes), CUDA_SUCCESS);
        if (!buf->written) assert_memory_equal(got, data[b], (size_t)bytes);
        /* sums of a few dozen products of multiples of 1/64 are exact in f32: orders do not differ */
        for (int64_t i = 0; i < bytes / dtype_bytes(buf->dtype) && buf->written; i++)
            if (get(buf->dtype, got, i) != get(buf->dtype, want[b], i))
                fail_msg("%s: element %lld of %s is %g, not %g", k->name, (long long)i, buf->name, get(buf->dtype, got, i),
                         get(buf->dtype, want[b], i));
    }
}

/* Runs the kernel in the interpreter and under `schedules` schedules; the figures of the first. */
static ptxsim_kernel check(const char *text, int schedules) {
    Arena *a = arena_new();
    Kernel *k = parse_kernel(a, text);
    void *data[MAX_BUFFERS], *want[MAX_BUFFERS];
    TileMemory memory[MAX_BUFFERS];
    const char *error;
    Gpu g = {0};
    ptxsim_kernel figures = {0};
    for (int b = 0; b < k->buffers.n; b++) {
        const int64_t bytes = buffer_bytes(&k->buffers.at[b]);
        data[b] = numbers(a, &k->buffers.at[b]);
        want[b] = arena_dup(a, data[b], (size_t)bytes);
        memory[b] = (TileMemory){.data = want[b], .bytes = bytes};
    }
    if (!kernel_run(a, k, memory, NULL, &error)) fail_msg("%s", error);
    gpu_open(a, &g, k, "sm_80");
    for (int b = 0; b < k->buffers.n; b++) g.device[b] = upload(NULL, (size_t)buffer_bytes(&k->buffers.at[b]));
    for (int seed = 1; seed <= schedules; seed++) {
        char number[16];
        snprintf(number, sizeof number, "%d", seed);
        setenv("PTXSIM_SEED", number, 1);
        if (seed == 1) count_kernels(1);
        gpu_run(&g, k, data);
        if (seed == 1) assert_int_equal(kernels_counted(&figures, 1), 1);
        count_kernels(0);
        compare(k, want, data, g.device, a);
    }
    if (findings()) fail_msg("findings in\n%s", g.ptx);
    for (int b = 0; b < k->buffers.n; b++) cu.cuMemFree_v2(g.device[b]);
    free(g.ptx);
    arena_free(a);
    return figures;
}

static int set_up(void **state) {
    if (context_setup(state)) return -1;
    *(void **)&count_kernels = dlsym(cu.library, "ptxsimCount");
    *(void **)&kernels_counted = dlsym(cu.library, "ptxsimKernels");
    return count_kernels && kernels_counted ? 0 : -1;
}

/* ---- the golden kernel ------------------------------------------------------------------------------------------ */
static void test_golden(void **state) {
    (void)state;
    Arena *a = arena_new();
    char *text = read_text(a, SOURCE_DIR "/tests/golden/tile/matrix.tile");
    const ptxsim_kernel f = check(text, SCHEDULES);
    assert_int_equal(f.matrix_flops_half, 2 * 192 * 192 * 96); /* 160 columns are 3 tiles of 64 */
    assert_int_equal(f.shared_conflicts, 0);
    assert_true(f.load_sectors * 32 <= f.load_bytes); /* a bias is asked for by eight rows at once */
    assert_int_equal(f.store_sectors * 32, f.store_bytes);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_golden, set_up, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
