/* The CUDA runtime against a driver that works as late as it may and fails on demand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/cuda/fusec_cuda.h"
#include "tests/support/fake_cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a model: t = x w, y = t, z = x + w, loss = sum(t + label) + 1000 step; dw = x; w <- w - lr x, count <- count + 1  */
enum { ROWS = 4, Y = 1, Z = 2, LOSS = 4 };
static const fusec_symbol syms[] = {{"S", ROWS}};
static const fusec_hyper hypers[] = {{"lr", 0.5f}};
static const fusec_tensor params[] = {
    {.name = "w", .bytes = 16, .dim = {ROWS}, .sym = {-1}, .dtype = FUSEC_F32, .rank = 1, .trainable = 1}};
static const fusec_tensor states[] = {{.name = "count", .bytes = 4, .dtype = FUSEC_I32}};
static const fusec_tensor inputs[] = {
    {.name = "x", .bytes = 16, .dim = {ROWS}, .scale = {1}, .dtype = FUSEC_F32, .rank = 1},
    {.name = "label", .bytes = 16, .hi = 3, .dim = {ROWS}, .scale = {1}, .dtype = FUSEC_I32, .rank = 1}};
static const fusec_tensor outputs[] = {
    {.name = "y", .bytes = 16, .dim = {ROWS}, .scale = {1}, .dtype = FUSEC_F32, .rank = 1},
    {.name = "z", .bytes = 16, .dim = {ROWS}, .scale = {1}, .dtype = FUSEC_F32, .rank = 1},
    {.name = "loss", .bytes = 4, .dtype = FUSEC_F32}};
enum { K_INIT, K_MUL, K_COPY, K_ADD, K_LOSS, K_GRAD, K_UPDATE, KERNELS };
#define BY_TWO .grid = {{0, 1, 0, 2}}, .n_grid = 1
static const fusec_kernel kernels[] = {{.name = "init", .n_args = 3, .threads = 32},
                                       {.name = "mul", BY_TWO, .n_args = 3, .threads = 32},
                                       {.name = "copy", BY_TWO, .n_args = 2, .threads = 32},
                                       {.name = "add", BY_TWO, .n_args = 3, .n_constants = 1, .threads = 32},
                                       {.name = "loss", .n_args = 4, .threads = 32},
                                       {.name = "grad", .n_args = 3, .threads = 32},
                                       {.name = "update", .n_args = 4, .threads = 32, .shared_bytes = 64 << 10}};
#define X \
    { 0, 0, FUSEC_R_INPUT, 0 }
#define W \
    { 0, 0, FUSEC_R_PARAM, 0 }
#define T \
    { 32, 0, FUSEC_R_ARENA, 0 }
#define SCALAR(i) \
    { 4 * (i), 0, FUSEC_R_SCALAR, 0 }
#define OUT(i) \
    { 0, i, FUSEC_R_OUTPUT, 0 }
static const fusec_arg args[] = {
    SCALAR(1),
    W,
    {0, 0, FUSEC_R_STATE, 0}, /* 0: init */
    X,
    W,
    T, /* 3: mul */
    T,
    OUT(0), /* 6: copy */
    X,
    W,
    OUT(1), /* 8: add */
    T,
    {0, 1, FUSEC_R_INPUT, 0},
    SCALAR(0),
    OUT(2), /* 11: loss */
    X,
    SCALAR(2),
    {0, 0, FUSEC_R_GRAD, 0}, /* 15: grad */
    X,
    SCALAR(3),
    W,
    {0, 0, FUSEC_R_STATE, 0} /* 18: update */
};
#define LAUNCH(k, first, mask, constant_, first_after_, n_after_)                                                 \
    {                                                                                                             \
        .kernel = k, .first_arg = first, .wanted_by = mask, .constant = {constant_}, .first_after = first_after_, \
        .n_after = n_after_                                                                                       \
    }
/* The loss of entry infer follows `copy`, which follows `mul`: without `copy`, the loss follows `mul`. */
static const uint32_t after[] = {1, 2, 1, 1, 2};
#define ALWAYS ~(uint64_t)0
static const fusec_launch launches[] = {
    LAUNCH(K_INIT, 0, ALWAYS, 0, 0, 0), LAUNCH(K_MUL, 3, Y | LOSS, 0, 0, 0),  LAUNCH(K_COPY, 6, Y, 0, 0, 1),
    LAUNCH(K_ADD, 8, Z, 1, 0, 0),       LAUNCH(K_LOSS, 11, LOSS, 0, 1, 1),    LAUNCH(K_MUL, 3, ALWAYS, 0, 0, 0),
    LAUNCH(K_LOSS, 11, LOSS, 0, 2, 1),  LAUNCH(K_GRAD, 15, ALWAYS, 0, 0, 0),  LAUNCH(K_MUL, 3, ALWAYS, 0, 0, 0),
    LAUNCH(K_LOSS, 11, LOSS, 0, 3, 1),  LAUNCH(K_UPDATE, 18, ALWAYS, 0, 4, 1)};
static const fusec_manifest toy = {.abi_version = FUSEC_ABI_VERSION,
                                   .align = 16,
                                   .hash = 99,
                                   .name = "toy",
                                   .param_bytes = 16,
                                   .state_bytes = 4,
                                   .grad_bytes = 16,
                                   .n_params = 1,
                                   .n_states = 1,
                                   .n_grads = 1,
                                   .n_inputs = 2,
                                   .n_outputs = 3,
                                   .n_syms = 1,
                                   .n_hypers = 1,
                                   .n_kernels = KERNELS,
                                   .params = params,
                                   .states = states,
                                   .grads = params,
                                   .inputs = inputs,
                                   .outputs = outputs,
                                   .syms = syms,
                                   .hypers = hypers,
                                   .kernels = kernels,
                                   .launches = launches,
                                   .args = args,
                                   .after = after,
                                   .entry = {{0, 0, 1, 1}, {48, 1, 4, 1}, {48, 5, 3, 1}, {48, 8, 3, 1}}};

#define ADDRESS(type, i) ((type *)(uintptr_t) * (uint64_t *)params_[i])
#define EXTENT(i) (*(int32_t *)params_[i])
static void k_init(const void *user, void **params_, unsigned programs) {
    (void)user;
    for (unsigned i = 0; i < ROWS * programs; i++) ADDRESS(float, 1)[i] = (float)(*ADDRESS(uint32_t, 0) + i);
    *ADDRESS(int32_t, 2) = 0;
}
/* A grid that does not match the extent is an extent the graph has missed. */
static int extent(void **params_, int i, unsigned programs) {
    fake.misuse += programs != ((unsigned)EXTENT(i) + 1) / 2;
    return EXTENT(i);
}
static void k_mul(const void *user, void **params_, unsigned programs) {
    (void)user;
    for (int i = 0; i < extent(params_, 3, programs); i++)
        ADDRESS(float, 2)[i] = ADDRESS(float, 0)[i] * ADDRESS(float, 1)[i];
}
static void k_copy(const void *user, void **params_, unsigned programs) {
    (void)user;
    for (int i = 0; i < extent(params_, 2, programs); i++) ADDRESS(float, 1)[i] = ADDRESS(float, 0)[i];
}
static void k_add(const void *user, void **params_, unsigned programs) {
    (void)user;
    const float one = (float)EXTENT(4); /* a constant */
    for (int i = 0; i < extent(params_, 3, programs); i++)
        ADDRESS(float, 2)[i] = one * ADDRESS(float, 0)[i] + ADDRESS(float, 1)[i];
}
static void k_loss(const void *user, void **params_, unsigned programs) {
    (void)user;
    float sum = 1000 * (float)*ADDRESS(int32_t, 2) * (float)programs;
    for (int i = 0; i < EXTENT(4); i++) sum += ADDRESS(float, 0)[i] + (float)ADDRESS(int32_t, 1)[i];
    *ADDRESS(float, 3) = sum;
}
static void k_grad(const void *user, void **params_, unsigned programs) {
    (void)user;
    for (int i = 0; i < ROWS; i++) {
        const float more = *ADDRESS(int32_t, 1) ? ADDRESS(float, 2)[i] : 0;
        ADDRESS(float, 2)[i] = more + (i < EXTENT(3) ? ADDRESS(float, 0)[i] * (float)programs : 0);
    }
}
static void k_update(const void *user, void **params_, unsigned programs) {
    (void)user;
    for (int i = 0; i < EXTENT(4); i++) ADDRESS(float, 2)[i] -= *ADDRESS(float, 1) * ADDRESS(float, 0)[i];
    *ADDRESS(int32_t, 3) += (int)programs;
}
static const FakeKernel code[] = {{"init", 3, 1, k_init, NULL},     {"mul", 3, 1, k_mul, NULL},
                                  {"copy", 2, 1, k_copy, NULL},     {"add", 3, 2, k_add, NULL},
                                  {"loss", 4, 1, k_loss, NULL},     {"grad", 3, 1, k_grad, NULL},
                                  {"update", 4, 1, k_update, NULL}, {0}};

static const char *const ptx[] = {".version 7.0\n", ".target sm_80\n", "// kernels\n", NULL};
static char log_text[512];

static fusec_cu_driver driver(void) {
    const fusec_cu_driver d = fake_cuda_driver();
    fake.kernels = code;
    return d;
}

static fusec_status start(fusec_cuda *c, const fusec_cu_driver *d) {
    const fusec_cuda_image image = {.lines = ptx};
    const fusec_cuda_options options = {.seed = 10, .driver = d, .log = log_text, .log_bytes = sizeof log_text};
    return fusec_cuda_init(c, &toy, &image, &options);
}

/* A started model whose parameters are 10, 11, 12, 13. */
static void open_model(fusec_cuda *c, const fusec_cu_driver *d) {
    const fusec_cuda_call nothing = {0};
    assert_int_equal(start(c, d), FUSEC_OK);
    assert_int_equal(fusec_cuda_run(c, FUSEC_INIT, &nothing), FUSEC_OK);
}

static void close_model(fusec_cuda *c) {
    fusec_cuda_free(c);
    assert_int_equal(fake.live, 0);
    assert_int_equal(fake.contexts, 0);
    assert_int_equal(fake.misuse, 0);
    assert_int_equal(fake.device_bytes, 0);
    fake_cuda_reset();
}

static const float x0[ROWS] = {1, 2, 3, 4};
static const int32_t label0[ROWS] = {0, 1, 2, 0};
static const void *const in0[] = {x0, label0};

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static void test_entries(void **state) {
    (void)state;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    float y[ROWS], z[ROWS], loss = -1, w[ROWS], dw[ROWS];
    int32_t count = -1;
    void *out[] = {y, z, &loss};
    fusec_cuda_call call = {.inputs = in0, .outputs = out, .step = 2};
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_OK);
    assert_true(y[3] == 4 * 13 && z[2] == 3 + 12 && loss == 10 + 22 + 36 + 52 + 3 + 2000);
    assert_int_equal(fusec_cuda_run(&c, FUSEC_GRAD, &call), FUSEC_OK);
    assert_int_equal(fusec_cuda_run(&c, FUSEC_GRAD | FUSEC_ACCUMULATE, &call), FUSEC_OK);
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_GRAD, 0, dw, sizeof dw), FUSEC_OK);
    assert_true(dw[0] == 2 && dw[3] == 8);
    const float lr = 2;
    call.hypers = &lr;
    y[0] = -5;
    assert_int_equal(fusec_cuda_run(&c, FUSEC_STEP, &call), FUSEC_OK);
    assert_true(y[0] == -5); /* no kernel of entry step writes it */
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_PARAM, 4, w, 8), FUSEC_OK);
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_STATE, 0, &count, 4), FUSEC_OK);
    assert_true(w[0] == 11 - 4 && w[1] == 12 - 6 && count == 1);
    assert_int_equal(fusec_cuda_write(&c, FUSEC_R_PARAM, 12, &lr, 4), FUSEC_OK);
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_OK);
    assert_true(y[3] == 8 && y[0] == 8);
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_PARAM, 12, w, 5), FUSEC_E_ARGUMENT);
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_ARENA, 0, w, 4), FUSEC_E_ARGUMENT);
    close_model(&c);
}

static float infer_loss(fusec_cuda *c, const int32_t *s) {
    float loss = -1;
    void *out[] = {NULL, NULL, &loss};
    const fusec_cuda_call call = {.inputs = in0, .outputs = out, .syms = s};
    assert_int_equal(fusec_cuda_run(c, FUSEC_INFER, &call), FUSEC_OK);
    return loss;
}

/* Extents come and go, and the graph stays; none at all is refused (empty_axes.sh has launches that vanish). */
static void test_extents(void **state) {
    (void)state;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    const int built = fake.calls[FAKE_cuGraphInstantiateWithFlags];
    assert_true(infer_loss(&c, NULL) == 123);
    for (int32_t s = 3; s > 0; s--) assert_true(infer_loss(&c, &s) == (s == 3 ? 71 : s == 2 ? 33 : 10));
    assert_int_equal(fake.calls[FAKE_cuGraphInstantiateWithFlags], built + 1);
    int32_t s = 0;
    const fusec_cuda_call none = {.inputs = in0, .syms = &s};
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &none), FUSEC_E_ARGUMENT);
    s = 4;
    assert_true(infer_loss(&c, &s) == 123);
    assert_int_equal(fake.calls[FAKE_cuGraphInstantiateWithFlags], built + 1);
    close_model(&c);
}

/* Edges are the plan's, not a chain's; what a launch that is left out would have waited for is waited for. */
static void test_edges(void **state) {
    static const uint64_t wanted[] = {Z, Y | Z, LOSS, Y | LOSS};
    static const int edges[] = {0, 1, 1, 2};
    (void)state;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    for (int i = 0; i < 4; i++) {
        const int before = fake.edges;
        const fusec_cuda_call call = {.inputs = in0, .wanted = wanted[i]};
        assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_OK);
        assert_int_equal(fake.edges - before, edges[i]);
    }
    assert_true(infer_loss(&c, NULL) == 123);
    close_model(&c);
}

/* A kernel that waits itself begins while the one before it ends, where it follows one alone and the driver lets it; else every edge is
 * a full one, and what is computed is the same. */
static void test_dependent_launches(void **state) {
    static fusec_kernel waiting[KERNELS];
    static fusec_manifest other;
    (void)state;
    memcpy(waiting, kernels, sizeof waiting);
    for (int i = 0; i < KERNELS; i++) waiting[i].dependent = 1;
    other = toy;
    other.kernels = waiting;
    for (int way = 0; way < 4; way++) {
        fusec_cu_driver d = driver();
        fusec_cuda c;
        const fusec_cuda_image image = {.lines = ptx};
        const fusec_cuda_options options = {.seed = 10, .driver = &d, .log = log_text, .log_bytes = sizeof log_text};
        const fusec_cuda_call nothing = {0};
        if (way) d.cuGraphAddDependencies_v2 = fake_cuGraphAddDependencies_v2;
        fake.refuses_edge = way == 2;
        fake.refuses_graph = way == 3;
        assert_int_equal(fusec_cuda_init(&c, &other, &image, &options), FUSEC_OK);
        assert_int_equal(fusec_cuda_run(&c, FUSEC_INIT, &nothing), FUSEC_OK);
        assert_true(infer_loss(&c, NULL) == 123);
        assert_int_equal(fake.early, way == 1 || way == 3); /* the loss after `mul` */
        const int early = fake.early;
        float y[ROWS], loss = -1;
        void *out[] = {y, NULL, &loss};
        const fusec_cuda_call call = {.inputs = in0, .outputs = out};
        assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_OK);
        assert_true(loss == 123 && y[3] == 4 * 13);
        assert_int_equal(fake.early - early, way == 1 ? 2 : 0);
        close_model(&c);
    }
}

/* Nothing left to launch is no graph. */
static void test_nothing_wanted(void **state) {
    (void)state;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    const int launched = fake.calls[FAKE_cuGraphLaunch];
    const fusec_cuda_call call = {.inputs = in0};
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_OK);
    assert_int_equal(fake.calls[FAKE_cuGraphLaunch], launched);
    close_model(&c);
}

/* ---- steps do not wait ------------------------------------------------------------------------------------------- */
static void test_steps_do_not_wait(void **state) {
    (void)state;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    float x[ROWS], w[ROWS], loss = 0;
    int32_t label[ROWS] = {0};
    const void *in[] = {x, label};
    int before[FAKE_FUNCTIONS];
    for (int step = 1; step <= 6; step++) {
        for (int i = 0; i < ROWS; i++) x[i] = (float)(step * (i + 1)); /* the same memory each time */
        const fusec_cuda_call call = {.inputs = in, .step = step};
        if (step == 2) memcpy(before, fake.calls, sizeof before);
        assert_int_equal(fusec_cuda_run(&c, FUSEC_STEP, &call), FUSEC_OK);
    }
    static const int quiet[] = {FAKE_cuStreamSynchronize,         FAKE_cuMemAlloc_v2,
                                FAKE_cuMemAllocHost_v2,           FAKE_cuGraphCreate,
                                FAKE_cuGraphInstantiateWithFlags, FAKE_cuGraphExecKernelNodeSetParams,
                                FAKE_cuMemcpyDtoHAsync_v2,        FAKE_cuLaunchKernel};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        if (fake.calls[quiet[i]] != before[quiet[i]]) fail_msg("a step called %s", fake_names[quiet[i]]);
    assert_int_equal(fake.calls[FAKE_cuGraphLaunch] - before[FAKE_cuGraphLaunch], 5);
    assert_int_equal(fake.calls[FAKE_cuMemcpyHtoDAsync_v2] - before[FAKE_cuMemcpyHtoDAsync_v2], 15);
    assert_int_equal(fake.pageable, 0);
    assert_int_equal(fusec_cuda_fetch(&c, 2, &loss), FUSEC_OK);
    assert_int_equal(fusec_cuda_fetch(&c, 0, &loss), FUSEC_E_ARGUMENT); /* never computed */
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_PARAM, 0, w, sizeof w), FUSEC_OK);
    float expected = 6000; /* w before step 6 = w0 - lr (1 + .. + 5) (i + 1) */
    for (int i = 0; i < ROWS; i++) {
        expected += 6 * (float)(i + 1) * (10 + (float)i - 7.5f * (float)(i + 1));
        assert_true(w[i] == 10 + (float)i - 10.5f * (float)(i + 1));
    }
    assert_true(loss == expected);
    close_model(&c);
}

/* More sets of outputs than graphs are kept. */
static void test_graphs_make_room(void **state) {
    (void)state;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    for (int round = 0; round < 3; round++)
        for (uint64_t wanted = 1; wanted < 8; wanted++)
            for (int entry = FUSEC_INFER; entry <= FUSEC_STEP; entry++) {
                float z[ROWS] = {0};
                const float none = 0;
                const fusec_cuda_call call = {.inputs = in0, .wanted = wanted, .hypers = &none};
                assert_int_equal(fusec_cuda_run(&c, entry, &call), FUSEC_OK);
                if (wanted & Z) assert_int_equal(fusec_cuda_fetch(&c, 1, z), FUSEC_OK);
                if (wanted & Z) assert_true(z[3] == 17);
            }
    assert_int_equal(fake.calls[FAKE_cuGraphExecDestroy],
                     fake.calls[FAKE_cuGraphInstantiateWithFlags] - FUSEC_CUDA_GRAPHS);
    close_model(&c);
}

/* ---- what is asked for wrongly ----------------------------------------------------------------------------------- */
static void test_refused_calls(void **state) {
    (void)state;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    float loss;
    void *out[] = {NULL, NULL, &loss};
    const int32_t bad_label[ROWS] = {0, 1, 3, 0}, five = 5, two = 2, minus = -1;
    const void *in[] = {x0, NULL};
    fusec_cuda_call call = {.inputs = in, .outputs = out};
    const int launched = fake.calls[FAKE_cuGraphLaunch];
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_E_ARGUMENT); /* label was never given */
    in[1] = bad_label;
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_E_RANGE);
    assert_int_equal(fusec_cuda_run(&c, FUSEC_STEP | FUSEC_ACCUMULATE, &call), FUSEC_E_ARGUMENT);
    assert_int_equal(fusec_cuda_run(&c, FUSEC_ENTRIES, &call), FUSEC_E_ARGUMENT);
    call.syms = &five;
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_E_ARGUMENT);
    call.syms = &minus;
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_E_ARGUMENT);
    assert_int_equal(fake.calls[FAKE_cuGraphLaunch], launched);
    call.syms = &two; /* the bad label lies outside now */
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_OK);
    assert_true(loss == 33);
    call.inputs = NULL; /* both as before */
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_OK);
    assert_true(loss == 33);
    call.syms = NULL;
    assert_int_equal(fusec_cuda_run(&c, FUSEC_INFER, &call), FUSEC_E_RANGE);
    assert_int_equal(fusec_cuda_run(NULL, FUSEC_INFER, &call), FUSEC_E_ARGUMENT);
    assert_int_equal(fusec_cuda_fetch(&c, 3, &loss), FUSEC_E_ARGUMENT);
    close_model(&c);
}

static fusec_status try_init(const fusec_manifest *m, const fusec_cuda_image *image, fusec_cuda_options o) {
    static const fusec_cuda nothing;
    fusec_cuda c;
    o.log = log_text;
    o.log_bytes = sizeof log_text;
    memset(&c, 0x55, sizeof c);
    const fusec_status s = fusec_cuda_init(&c, m, image, &o);
    assert_memory_equal(&c, &nothing, sizeof c);
    assert_int_equal(fake.live, 0);
    assert_int_equal(fake.contexts, 0);
    return s;
}

static void test_refused_starts(void **state) {
    (void)state;
    const fusec_cu_driver d = driver();
    const fusec_cuda_options o = {.driver = &d};
    const fusec_cuda_image image = {.lines = ptx}, none = {0}, two = {.lines = ptx, .data = ".version"},
                           absent = {.path = "/nonexistent/model.ptx"};
    fusec_manifest m = toy;
    assert_int_equal(try_init(&toy, &image, (fusec_cuda_options){.library = "libcuda-of-nobody.so.1"}), FUSEC_E_DRIVER);
    assert_non_null(strstr(log_text, "no CUDA driver: libcuda-of-nobody.so.1"));
    assert_int_equal(try_init(&toy, &image, (fusec_cuda_options){.library = "libm.so.6"}), FUSEC_E_DRIVER);
    assert_non_null(strstr(log_text, "it has no cuInit"));
    assert_int_equal(try_init(&toy, &none, o), FUSEC_E_ARGUMENT);
    assert_int_equal(try_init(&toy, &two, o), FUSEC_E_ARGUMENT);
    assert_int_equal(try_init(&toy, &absent, o), FUSEC_E_FILE);
    assert_string_equal(log_text, "/nonexistent/model.ptx: cannot be read\n");
    assert_int_equal(try_init(&toy, NULL, (fusec_cuda_options){.driver = &d, .image_path = "/tmp"}), FUSEC_E_FILE);
    assert_string_equal(log_text, "/tmp: cannot be read\n");
    assert_int_equal(try_init(&toy, NULL, o), FUSEC_E_ARGUMENT);
    m.abi_version++;
    assert_int_equal(try_init(&m, &image, o), FUSEC_E_VERSION);
    m = toy;
    m.n_syms = FUSEC_CUDA_MAX_SYMS + 1;
    assert_int_equal(try_init(&m, &image, o), FUSEC_E_UNSUPPORTED);
    assert_int_equal(try_init(&toy, &image, (fusec_cuda_options){.driver = &d, .device = 1}), FUSEC_E_DEVICE);
    assert_string_equal(log_text, "there is no device 1; devices found: 1\n");
    fake.capability = 75;
    assert_int_equal(try_init(&toy, &image, o), FUSEC_E_DEVICE);
    assert_non_null(strstr(log_text, "the kernels are for sm_80 and newer; device 40 (Fake GPU) is sm_75"));
    const fusec_cuda_image hopper = {.data = ".version 8.0\n.target sm_90a\n"};
    fake.capability = 100;
    assert_int_equal(try_init(&toy, &hopper, o), FUSEC_E_DEVICE);
    assert_non_null(strstr(log_text, "sm_90a alone"));
    fake.jit_error = "ptxas fatal : Unresolved extern function 'erff'";
    fake.jit_info = "info : 0 bytes gmem";
    assert_int_equal(try_init(&toy, &image, o), FUSEC_E_DRIVER);
    assert_non_null(strstr(log_text, fake.jit_error));
    assert_non_null(strstr(log_text, fake.jit_info));
    fake.jit_error = NULL;
    fake.kernels = code + 1;
    assert_int_equal(try_init(&toy, &image, o), FUSEC_E_DRIVER);
    assert_non_null(strstr(log_text, "kernel init"));
    fake_cuda_reset();
}

/* What the JIT compiler says is told when it has succeeded too, as far as there is room. */
static void test_log(void **state) {
    (void)state;
    const fusec_cu_driver d = driver();
    const fusec_cuda_image image = {.lines = ptx};
    char text[12];
    fusec_cuda c;
    memset(text, '#', sizeof text);
    fake.jit_info = "info: 40 registers";
    const fusec_cuda_options o = {.driver = &d, .log = text, .log_bytes = 11};
    assert_int_equal(fusec_cuda_init(&c, &toy, &image, &o), FUSEC_OK);
    assert_memory_equal(text, "info: 40 r\0#", 12);
    close_model(&c);
}

static void test_image_from_file(void **state) {
    (void)state;
    const fusec_cu_driver d = driver();
    char path[] = "/tmp/fusec-cuda-XXXXXX";
    const int fd = mkstemp(path);
    const fusec_cuda_image image = {.path = path};
    const fusec_cuda_options o = {.driver = &d};
    fusec_cuda c;
    assert_true(fd >= 0);
    assert_int_equal(try_init(&toy, &image, o), FUSEC_E_FILE); /* empty */
    assert_int_equal(write(fd, ".version 7.0\n.target sm_80\n", 27), 27);
    close(fd);
    assert_int_equal(fusec_cuda_init(&c, &toy, &image, &o), FUSEC_OK);
    unlink(path);
    close_model(&c);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */
typedef struct File {
    char bytes[4096];
    uint32_t n;
} File;
static int put(void *user, const void *from, uint32_t n) {
    File *f = user;
    if (f->n + n > sizeof f->bytes) return 1;
    memcpy(f->bytes + f->n, from, n);
    f->n += n;
    return 0;
}
static int get(void *user, uint64_t offset, void *to, uint32_t n) {
    const File *f = user;
    if (offset > f->n || n > f->n - offset) return 1;
    memcpy(to, f->bytes + offset, n);
    return 0;
}

static void test_weights(void **state) {
    (void)state;
    const fusec_cu_driver d = driver();
    static File file;
    const fusec_io io = {.user = &file, .write = put, .read = get};
    const float zeros[ROWS] = {0};
    float w[ROWS];
    fusec_cuda c;
    fusec_position at = {.step = 1, .seed = 2};
    file.n = 0;
    open_model(&c, &d);
    const fusec_cuda_call step = {.inputs = in0};
    assert_int_equal(fusec_cuda_run(&c, FUSEC_STEP, &step), FUSEC_OK);
    assert_int_equal(fusec_cuda_save(&c, &at, &io), FUSEC_OK);
    assert_int_equal(fusec_cuda_write(&c, FUSEC_R_PARAM, 0, zeros, sizeof zeros), FUSEC_OK);
    assert_int_equal(fusec_cuda_load(&c, &at, &io), FUSEC_OK);
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_PARAM, 0, w, sizeof w), FUSEC_OK);
    assert_true(w[0] == 9.5f && w[3] == 11);
    file.bytes[file.n - 1] ^= 1;
    assert_int_equal(fusec_cuda_load(&c, &at, &io), FUSEC_E_FORMAT);
    assert_int_equal(fusec_cuda_read(&c, FUSEC_R_PARAM, 0, w, sizeof w), FUSEC_OK);
    assert_true(w[0] == 9.5f && w[3] == 11);
    close_model(&c);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */
static void test_profile(void **state) {
    (void)state;
    const fusec_cu_driver d = driver();
    fusec_cuda c;
    open_model(&c, &d);
    float z[ROWS], ms[4] = {-1, -1, -1, -1};
    void *out[] = {NULL, z, NULL};
    const fusec_cuda_call call = {.inputs = in0, .outputs = out};
    const int alive = fake.live;
    assert_int_equal(fusec_cuda_profile(&c, FUSEC_INFER, &call, ms), FUSEC_OK);
    assert_true(ms[0] == 0 && ms[1] == 0 && ms[2] == 1 && ms[3] == 0); /* a launch and an event, half a ms each */
    assert_true(z[3] == 17);
    assert_int_equal(fake.live, alive);
    close_model(&c);
}

static void test_two_models(void **state) {
    (void)state;
    const fusec_cu_driver d = driver();
    fusec_cuda a, b;
    float w[2][ROWS];
    open_model(&a, &d);
    open_model(&b, &d);
    const float lr[] = {1, 2};
    const fusec_cuda_call one = {.inputs = in0, .hypers = &lr[0]}, two = {.inputs = in0, .hypers = &lr[1]};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fusec_cuda_run(&a, FUSEC_STEP, &one), FUSEC_OK);
        assert_int_equal(fusec_cuda_run(&b, FUSEC_STEP, &two), FUSEC_OK);
    }
    assert_int_equal(fusec_cuda_read(&a, FUSEC_R_PARAM, 0, w[0], sizeof w[0]), FUSEC_OK);
    fusec_cuda_free(&a);
    assert_int_equal(fusec_cuda_read(&b, FUSEC_R_PARAM, 0, w[1], sizeof w[1]), FUSEC_OK);
    assert_true(w[0][0] == 7 && w[1][0] == 4);
    close_model(&b);
}

static void test_memory_is_the_plan(void **state) {
    (void)state;
    const fusec_cu_driver d = driver();
    fusec_cuda_layout l;
    fusec_cuda c;
    fusec_cuda_plan(&toy, &l);
    open_model(&c, &d);
    assert_int_equal(fake.device_bytes, l.bytes);
    assert_int_equal(l.bytes, 256 * (1 + 1 + 1 + 1 + 1 + 2 + 3)); /* params, states, grads, arena, scalars, in, out */
    close_model(&c);
    fusec_cuda_free(&c); /* twice is harmless */
    fusec_cuda_free(NULL);
}

/* ---- every driver call fails once -------------------------------------------------------------------------------- */
static int trouble; /* calls that failed, in this run */

/* Tries, and once more after a failure, which must have a reason and leave the model usable. */
static void once_more(fusec_status first, fusec_status second) {
    if (first == FUSEC_OK) return;
    trouble++;
    if (first != FUSEC_E_DRIVER) fail_msg("status %d after a failed %s", first, fake_names[fake.fail_function]);
    assert_non_null(strstr(log_text, "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"));
    assert_int_equal(second, FUSEC_OK);
}
#define TRY(call)                                                          \
    do {                                                                   \
        const fusec_status first = (call);                                 \
        char kept[sizeof log_text];                                        \
        memcpy(kept, log_text, sizeof kept);                               \
        const fusec_status second = first == FUSEC_OK ? FUSEC_OK : (call); \
        memcpy(log_text, kept, sizeof kept);                               \
        once_more(first, second);                                          \
    } while (0)

static void all_calls(fusec_cuda *c, const fusec_cu_driver *d) {
    static File file;
    const fusec_io io = {.user = &file, .write = put, .read = get};
    const int32_t three = 3, one = 1;
    const float frozen = 0;
    float y[ROWS] = {0}, z[ROWS] = {0}, loss = 0, w[ROWS], ms[4];
    void *out[] = {y, z, &loss};
    const fusec_cuda_call nothing = {0}, whole = {.inputs = in0, .outputs = out},
                          part = {.inputs = in0, .outputs = out, .syms = &three}, least = {.inputs = in0, .syms = &one},
                          step = {.inputs = in0, .hypers = &frozen};
    TRY(start(c, d));
    TRY(fusec_cuda_run(c, FUSEC_INIT, &nothing));
    TRY(fusec_cuda_run(c, FUSEC_INFER, &whole));
    assert_true(loss == 123 && z[3] == 17);
    TRY(fusec_cuda_run(c, FUSEC_INFER, &part));
    assert_true(loss == 71);
    for (int i = 0; i < 3; i++) TRY(fusec_cuda_run(c, FUSEC_STEP, &step));
    TRY(fusec_cuda_run(c, FUSEC_GRAD, &least));
    TRY(fusec_cuda_fetch(c, 2, &loss));
    assert_true(loss == 10);
    TRY(fusec_cuda_profile(c, FUSEC_INFER, &whole, ms));
    assert_true(loss == 123);
    file.n = 0;
    TRY(fusec_cuda_save(c, NULL, &io));
    TRY(fusec_cuda_load(c, NULL, &io));
    TRY(fusec_cuda_read(c, FUSEC_R_PARAM, 0, w, sizeof w));
    assert_true(w[0] == 10 && w[3] == 13);
    TRY(fusec_cuda_write(c, FUSEC_R_PARAM, 0, w, sizeof w));
    TRY(fusec_cuda_wait(c));
}

/* A failure to give something back may leave it behind; nothing else may. */
static bool gives_back(int function) {
    static const int giving[] = {
        FAKE_cuMemFree_v2,   FAKE_cuMemFreeHost,  FAKE_cuStreamDestroy_v2, FAKE_cuEventDestroy_v2,
        FAKE_cuModuleUnload, FAKE_cuGraphDestroy, FAKE_cuGraphExecDestroy, FAKE_cuDevicePrimaryCtxRelease_v2};
    for (size_t i = 0; i < sizeof giving / sizeof *giving; i++)
        if (giving[i] == function) return true;
    return false;
}

static bool fail_one(int function, int at) {
    const fusec_cu_driver d = driver();
    fusec_cuda c;
    trouble = 0;
    fake.fail_function = function;
    fake.fail_at = at;
    all_calls(&c, &d);
    if (!gives_back(function)) fake.fail_at = 0;
    fusec_cuda_free(&c);
    const bool failed = fake.failed;
    const bool tolerated = gives_back(function) || function == FAKE_cuCtxPopCurrent_v2;
    if (failed && !tolerated && !trouble && function != FAKE_cuGetErrorName && function != FAKE_cuGetErrorString)
        fail_msg("call %d of %s failed and nobody said so", at, fake_names[function]);
    if (fake.live != (failed && gives_back(function)))
        fail_msg("call %d of %s failed: %d objects left", at, fake_names[function], fake.live);
    if (function != FAKE_cuCtxPopCurrent_v2) assert_int_equal(fake.contexts, 0);
    assert_int_equal(fake.misuse, 0);
    fake_cuda_reset();
    return failed;
}

static void test_every_failure(void **state) {
    (void)state;
    int reached = 0;
    for (int function = 0; function < FAKE_FUNCTIONS; function++) {
        int at = 1;
        while (at < 400 && fail_one(function, at)) at++;
        reached += at > 1;
    }
    assert_int_equal(reached, FAKE_FUNCTIONS - 3); /* all but the device's name and the errors' words */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_entries),
                                       cmocka_unit_test(test_extents),
                                       cmocka_unit_test(test_nothing_wanted),
                                       cmocka_unit_test(test_steps_do_not_wait),
                                       cmocka_unit_test(test_edges), cmocka_unit_test(test_dependent_launches),
                                       cmocka_unit_test(test_graphs_make_room),
                                       cmocka_unit_test(test_refused_calls),
                                       cmocka_unit_test(test_refused_starts),
                                       cmocka_unit_test(test_log),
                                       cmocka_unit_test(test_image_from_file),
                                       cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_profile),
                                       cmocka_unit_test(test_two_models),
                                       cmocka_unit_test(test_memory_is_the_plan),
                                       cmocka_unit_test(test_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
