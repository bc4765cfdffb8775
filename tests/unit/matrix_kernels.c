/* Scheduled matrix kernels on the software GPU, against the Tile IR interpreter: factors in every orientation, rings,
 * epilogues, edges; no findings under any schedule, no bank conflicts, whole sectors, no more matrix instructions than
 * the tiles need. */
#include "ptxsim_driver.h"
#include "codegen/nvptx/nvptx.h"
#include "frontend/frontend.h"
#include "passes/kernel/matrix.h"
#include "passes/pass.h"
#include "ir/tile_stage.h"
#include "tests/support/number.h"
#include "tests/support/gpu_kernel.h"
#include "tests/support/scratch.h"
#include <math.h>

enum { SCHEDULES = 16, BIAS_SECTORS = 64 /* of a program, at most */ };

/* ---- data --------------------------------------------------------------------------------------------------------- */
/* Multiples of 1/8 in [-2, 2), none of them 0: exact in every format, and so are short sums. */
static void *numbers(Arena *a, const Buffer *b) {
    const int64_t n = buffer_bytes(b) / dtype_bytes(b->dtype);
    void *data = arena_alloc(a, (size_t)(n * dtype_bytes(b->dtype) + 1));
    for (int64_t i = 0; i < n; i++) {
        const int v = (int)(kernel_random() % 31) - 15;
        number_put(b->dtype, data, i, (v ? v : 16) / 8.0);
    }
    return data;
}

/* ---- one kernel ------------------------------------------------------------------------------------------------ */
typedef struct Gpu {
    char *ptx;
    CUfunction function;
    CUdeviceptr device[MAX_BUFFERS];
} Gpu;


static void open_kernel(Arena *a, Gpu *g, Kernel *k, const char *arch) {
    Module m = {.arena = a, .name = "matrix"};
    char *error = NULL;
    vec_push(a, m.kernels, k);
    if (!nvptx_emit_ptx(&m, &(NvptxOptions){.arch = arch}, &g->ptx, &error)) fail_msg("%s", error);
    g->function = load_kernel(g->ptx, k->name);
    const int bytes = (int)kernel_shared_bytes(k);
    if (bytes > 48 << 10)
        assert_int_equal(cu.cuFuncSetAttribute(g->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
                         CUDA_SUCCESS);
}

static void launch(const Gpu *g, const Kernel *k, void *const *data) {
    void *params[MAX_BUFFERS];
    for (int b = 0; b < k->buffers.n; b++) {
        const size_t bytes = (size_t)buffer_bytes(&k->buffers.at[b]);
        assert_int_equal(cu.cuMemcpyHtoD_v2(g->device[b], data[b], bytes), CUDA_SUCCESS);
        params[b] = (void *)(uintptr_t)&g->device[b];
    }
    const CUresult r = cu.cuLaunchKernel(g->function, (unsigned)kernel_programs(k, NULL), 1, 1, (unsigned)k->threads, 1,
                                         1, (unsigned)kernel_shared_bytes(k), NULL, params, NULL);
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
            if (number_get(buf->dtype, got, i) != number_get(buf->dtype, want[b], i))
                fail_msg("%s: element %lld of %s is %g, not %g", k->name, (long long)i, buf->name, number_get(buf->dtype, got, i),
                         number_get(buf->dtype, want[b], i));
    }
}

/* Runs the kernel in the interpreter and under `schedules` schedules; the figures of the first. */
static ptxsim_kernel check_kernel(Kernel *k, int schedules) {
    Arena *a = arena_new();
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
    open_kernel(a, &g, k, "sm_80");
    for (int b = 0; b < k->buffers.n; b++) g.device[b] = upload(NULL, (size_t)buffer_bytes(&k->buffers.at[b]));
    for (int seed = 1; seed <= schedules; seed++) {
        char number[16];
        snprintf(number, sizeof number, "%d", seed);
        setenv("PTXSIM_SEED", number, 1);
        if (seed == 1) cu.count(1);
        launch(&g, k, data);
        if (seed == 1) assert_int_equal(cu.kernels(&figures, 1), 1);
        cu.count(0);
        compare(k, want, data, g.device, a);
    }
    if (findings()) fail_msg("findings in\n%s", g.ptx);
    for (int b = 0; b < k->buffers.n; b++) cu.cuMemFree_v2(g.device[b]);
    free(g.ptx);
    arena_free(a);
    return figures;
}

static ptxsim_kernel check(const char *text, int schedules) {
    Arena *a = arena_new();
    const ptxsim_kernel f = check_kernel(parse_kernel(a, text), schedules);
    arena_free(a);
    return f;
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

/* ---- products in every orientation ---------------------------------------------------------------------------------- */
static void full_speed(const ptxsim_kernel *f, double flops) {
    assert_true((double)f->matrix_flops_half == flops);
    assert_int_equal(f->shared_conflicts, 0);
    assert_true(f->load_sectors * 32 <= f->load_bytes); /* a bias is asked for by eight rows at once */
    assert_int_equal(f->store_sectors * 32, f->store_bytes);
}

/* All four orientations, under all schedules: whole tiles, then edges along every axis, odd leading dimensions among
 * them (65 and 71 forbid copies of more than 2 bytes, 68 of more than 8). */
static void test_orientations(void **state) {
    (void)state;
    static const MatrixTile t = {BY_MMA, 64, 32, 32, 16, 1};
    static const int shape[][3] = {{128, 64, 128}, {65, 71, 68}, {68, 30, 71}, {7, 40, 65}, {70, 1, 37}};
    for (int i = 0; i < 4; i++)
        for (size_t n = 0; n < sizeof shape / sizeof *shape; n++) {
            Arena *a = arena_new();
            const int *s = shape[n];
            const ProductKernel p = {"turned", "bf16", s[0], s[1], s[2], 32, i & 1, i >> 1, 0};
            const char *why;
            Kernel *k = product_kernel(a, &p, &t, "sm_80", &why);
            if (!k) fail_msg("%s", why);
            const ptxsim_kernel f = check_kernel(k, n < 2 ? SCHEDULES : 2);
            const double tiles = (s[0] + 63) / 64 * ((s[1] + 31) / 32) * ((s[2] + 31) / 32);
            assert_true((double)f.matrix_flops_half == tiles * 2 * 64 * 32 * 32);
            assert_int_equal(f.shared_conflicts, 0);
            /* 32 elements of a row, where it begins at no sector: three sectors, of which two are asked for */
            assert_true((double)f.load_sectors <= 3 * tiles * (64 + 32) + BIAS_SECTORS * (s[0] + 63) / 64 * ((s[1] + 31) / 32));
            if (!n) full_speed(&f, 2.0 * 128 * 64 * 128);
            arena_free(a);
        }
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
static bool by_mma(const Block *b) {
    bool found = false;
    for (int n = 0; n < b->n && !found; n++)
        found = (b->at[n]->kind == TI_DOT && b->at[n]->by == BY_MMA) || by_mma(&b->at[n]->body);
    return found;
}

/* Compiles the model for sm_80 and checks each of its matrix kernels by itself; how many there are. */
static int check_model(const char *body) {
    Arena *a = arena_new();
    Graph *graphs[ENTRY_COUNT] = {0};
    int checked = 0;
    const char *path = arena_printf(a, "%s/m.dsl", scratch_folder());
    write_text(path, body);
    Diag *d = diag_new(a);
    Program *p = program_load(a, d, path, &(FrontendOptions){0});
    if (!p || !program_lower(a, d, p, NULL, graphs)) fail_msg("does not compile:\n%s", body);
    PassContext c = {.arena = a, .target = target_find("sm_80"), .verify = true};
    const Module *m = compile_module(&c, graphs);
    if (!m) fail_msg("refused:\n%s", body);
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *first = m->kernels.at[i]->bundle.n ? m->kernels.at[i]->bundle.at[0].kernel : m->kernels.at[i];
        if (!by_mma(&first->body) || m->kernels.at[i]->n_syms) continue;
        const ptxsim_kernel f = check_kernel(m->kernels.at[i], 2);
        assert_true(f.matrix_instructions > 0);
        checked++;
    }
    arena_free(a);
    return checked;
}

static void test_programs(void **state) {
    (void)state;
    /* rows of two loops, a product that is transposed, a residual, and all gradients */
    const int layers = check_model(
        "model layers {\n    precision bf16\n    input x : f32[3, 13, 40]\n    h = relu(linear(x, 24) as a)\n"
        "    y = linear(h, 40) as b + x\n    loss = mean(y * y)\n    output loss\n    train loss with sgd(lr = "
        "0.1)\n}\n");
    assert_true(layers >= 5);
    /* products per batch and head, of rows and of columns */
    const int batched = check_model(
        "model batched {\n    precision f16\n    input q : f32[2, 20, 3, 16]\n    input k : f32[2, 20, 3, 16]\n"
        "    s = transpose(q, [0, 2, 1, 3]) @ transpose(k, [0, 2, 3, 1])\n    output s\n"
        "    output t = transpose(s, [0, 1, 3, 2]) @ transpose(k, [0, 2, 1, 3])\n}\n");
    assert_true(batched >= 2);
    /* a convolution with both gradients, with a stride too */
    const int images = check_model(
        "model images {\n    precision bf16\n    input x : f32[2, 9, 9, 16]\n    h = conv2d(x, 24, 3) as a\n"
        "    y = conv2d(h, 16, 3, stride = 2) as b\n    loss = mean(y * y)\n    output loss\n"
        "    train loss with sgd(lr = 0.1)\n}\n");
    assert_true(images >= 5);
    const int rounded = check_model("model rounded {\n    precision tf32\n    input x : f32[70, 40]\n    y = "
                                    "linear(relu(linear(x, 36) as a), 48) as b\n"
                                    "    loss = mean(y * y)\n    output loss\n    train loss with sgd(lr = 0.1)\n}\n");
    assert_true(rounded >= 4);
    /* of parts of matrices: a gradient's conditions on rows and on columns each stand at the factor that has them */
    const int parts = check_model("model parts {\n    precision bf16\n    input x : f32[24, 64]\n    w = param [64, 64] init normal(0.1)\n"
                                  "    y = x[:, 3:51] @ w[3:51, 1:34]\n    loss = mean(y * y)\n    output loss\n"
                                  "    train loss with sgd(lr = 0.1)\n}\n");
    assert_true(parts >= 3); /* infer's product, grad's and step's */
}

/* ---- the order of programs ------------------------------------------------------------------------------------------- */
/* Every program runs once, however many places are left for the last group, whichever axis comes first. */
static void test_program_order(void **state) {
    (void)state;
    static const char *const orders[][3] = {{"", "", ""},           {" slowest 4 down", "", ""}, {" slowest 5", "", ""},
                                            {"", " slowest 7 down", ""}, {"", "", " slowest 1 down"}, {"", "", " slowest 6"},
                                            {"", " slowest 100", ""}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "kernel @order(%%x: f32[5,21,30], %%y: f32[5,21,30] out)\n  threads 32\n  grid a in 0..5 step 1%s\n"
                 "  grid b in 0..21 step 4 spread t3 t4%s\n  grid c in 0..30 step 8 spread t0 t1 t2%s\n"
                 "  %%0 = load %%x[a, b, c] : f32[a:1,b:4,c:8]\n  %%1 = add %%0, %%0 : f32[a:1,b:4,c:8]\n  store %%y[a, b, c], %%1\n",
                 orders[i][0], orders[i][1], orders[i][2]);
        check(text, 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_golden, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(test_orientations, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(test_programs, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(test_program_order, context_setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
