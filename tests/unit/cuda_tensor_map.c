/* What a launch gets from the manifest beyond addresses: tensor maps for the extents of the call, clusters, a grid that
 * stays resident; and a driver that is too old for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/cuda/cuda_internal.h"
#include "tests/support/fake_cuda.h"
#include <string.h>

enum { ROWS = 16, COLUMNS = 8 };
static const fusec_symbol syms[] = {{"S", ROWS}};
static const fusec_tensor inputs[] = {{.name = "x",
                                       .bytes = 512,
                                       .dim = {ROWS, COLUMNS},
                                       .sym = {0, -1},
                                       .scale = {1},
                                       .shift = {0, COLUMNS},
                                       .dtype = FUSEC_F32,
                                       .rank = 2}};
static const fusec_tensor outputs[] = {{.name = "y", .bytes = 4, .dtype = FUSEC_F32}};
static const fusec_tensor_map maps[] = {{0},
                                        {.offset = 16,
                                         .stride = {32},
                                         .extent = {{-1, 0, 4}, {0, 1, -1}},
                                         .box = {4, 2},
                                         .swizzle = 64,
                                         .rank = 2,
                                         .type = FUSEC_MAP_TF32}};
/* Two images of S pixels in the input, under a window of three that takes every second. */
static const fusec_tensor_map windows[] = {{.stride = {16, 256},
                                            .extent = {{-1, 0, 4}, {0, 1, 0}, {-1, 0, 2}},
                                            .box = {4, 64},
                                            .rank = 3,
                                            .type = FUSEC_MAP_F32,
                                            .windows = 1,
                                            .window = {{-1, -2, 2}}}};
static const fusec_arg args[] = {{0, 0, FUSEC_R_INPUT, 0}, {0, 0, FUSEC_R_OUTPUT, 0}};
static const fusec_launch launches[] = {{.wanted_by = FUSEC_ALWAYS}};

static fusec_manifest manifest(const fusec_kernel *k) {
    return (fusec_manifest){.abi_version = FUSEC_ABI_VERSION,
                            .align = 16,
                            .name = "m",
                            .n_inputs = 1,
                            .n_outputs = 1,
                            .n_syms = 1,
                            .n_kernels = 1,
                            .inputs = inputs,
                            .outputs = outputs,
                            .syms = syms,
                            .kernels = k,
                            .launches = launches,
                            .args = args,
                            .maps = maps,
                            .entry = {[FUSEC_INFER] = {0, 0, 1, 1}}};
}

static struct {
    int encoded, type, swizzle, clusters;
    uint32_t rank, box[2];
    uint64_t address, dim[2], stride;
    unsigned cluster, programs;
    int lower, upper;
    uint32_t step;
    bool aligned;
} seen;

static int encode(void *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill) {
    seen.encoded++;
    seen.type = type, seen.rank = rank, seen.swizzle = swizzle, seen.stride = strides[0];
    seen.address = (uint64_t)(uintptr_t)address;
    memcpy(seen.dim, dims, sizeof seen.dim);
    memcpy(seen.box, box, sizeof seen.box);
    seen.aligned = (uintptr_t)map % 64 == 0;
    memset(map, 7, 128);
    return interleave || fill || l2 < 0 || steps[0] != 1 || steps[1] != 1;
}
static int encode_window(void *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                         const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps,
                         int interleave, int swizzle, int l2, int fill) {
    seen.lower = lower[0], seen.upper = upper[0], seen.step = steps[1];
    return encode(map, type, rank, address, dims, strides, (uint32_t[]){channels, pixels}, (uint32_t[]){1, 1}, interleave,
                  swizzle, l2, fill);
}
static int set_attribute(void *node, int attribute, const union fusec_cu_cluster_value *value) {
    seen.clusters++;
    seen.cluster = value->dim[0];
    return !node || attribute != 4 || value->dim[1] != 1 || value->dim[2] != 1;
}

static void run(const void *user, void **params, unsigned programs) {
    (void)user;
    **(float **)params[1] = (float)*(const int32_t *)params[2];
    seen.programs = programs;
}
static const FakeKernel code[] = {{"k", 2, 1, run, NULL}, {0}};
static char log_text[512];

static fusec_cu_driver driver(void) {
    fusec_cu_driver d = fake_cuda_driver();
    fake.kernels = code;
    d.cuTensorMapEncodeTiled = encode;
    d.cuTensorMapEncodeIm2col = encode_window;
    d.cuGraphKernelNodeSetAttribute = set_attribute;
    memset(&seen, 0, sizeof seen);
    return d;
}

/* One call with S rows. */
static fusec_status call(fusec_cuda *c, int32_t rows) {
    static const float x[ROWS * COLUMNS];
    float y = -1;
    const fusec_cuda_call one = {.inputs = (const void *const[]){x}, .outputs = (void *const[]){&y}, .syms = &rows};
    const fusec_status s = fusec_cuda_run(c, FUSEC_INFER, &one);
    if (s == FUSEC_OK) assert_true(y == (float)rows);
    return s;
}

static fusec_status start(fusec_cuda *c, const fusec_manifest *m, const fusec_cu_driver *d) {
    const fusec_cuda_image image = {.data = ".version 8.0\n.target sm_80\n"};
    const fusec_cuda_options options = {.driver = d, .log = log_text, .log_bytes = sizeof log_text};
    return fusec_cuda_init(c, m, &image, &options);
}

static void finish(fusec_cuda *c) {
    fusec_cuda_free(c);
    assert_int_equal(fake.live, 0);
    assert_int_equal(fake.misuse, 0);
    fake_cuda_reset();
}

static const fusec_kernel mapped = {
    .name = "k", .n_args = 2, .n_grid = 1, .grid = {{0, 1, 0, 2}}, .n_maps = 1, .first_map = 1};
/* Programs are pairs of rows, blocks neighbouring pairs of those: S = 15 has 8 programs. */
static const fusec_kernel resident = {
    .name = "k", .n_args = 2, .n_grid = 1, .grid = {{0, 1, 0, 2}}, .cluster = 2, .persistent = 1};

static void maps_follow_extents(void **state) {
    (void)state;
    const fusec_manifest m = manifest(&mapped);
    const fusec_cu_driver d = driver();
    fusec_cuda c;
    assert_int_equal(start(&c, &m, &d), FUSEC_OK);
    assert_int_equal(call(&c, 5), FUSEC_OK);
    assert_int_equal(seen.encoded, 1);
    assert_true(seen.aligned);
    assert_int_equal(seen.type, 11);
    assert_int_equal(seen.rank, 2);
    assert_int_equal(seen.swizzle, 2);
    assert_int_equal(seen.stride, 32);
    assert_int_equal(seen.dim[0], 4);
    assert_int_equal(seen.dim[1], 4);
    assert_int_equal(seen.box[0], 4);
    assert_int_equal(seen.box[1], 2);
    assert_int_equal(seen.address, fusec_cuda_address(&c, &args[0]) + 16);
    assert_int_equal(call(&c, 5), FUSEC_OK);
    assert_int_equal(seen.encoded, 1); /* with the graph, not with every call */
    assert_int_equal(call(&c, 9), FUSEC_OK);
    assert_int_equal(seen.encoded, 2);
    assert_int_equal(seen.dim[1], 8);
    assert_int_equal(seen.programs, 5);
    assert_int_equal(seen.clusters, 0);
    finish(&c);
}

static void windows_have_maps(void **state) {
    (void)state;
    fusec_kernel k = mapped;
    k.first_map = 0;
    fusec_manifest m = manifest(&k);
    m.maps = windows;
    fusec_cu_driver d = driver();
    fusec_cuda c;
    assert_int_equal(start(&c, &m, &d), FUSEC_OK);
    assert_int_equal(call(&c, 5), FUSEC_OK);
    assert_int_equal(seen.encoded, 1);
    assert_int_equal(seen.rank, 3);
    assert_int_equal(seen.dim[1], 5);
    assert_int_equal(seen.box[1], 64);
    assert_true(seen.lower == -1 && seen.upper == -2 && seen.step == 2);
    finish(&c);
    d = driver();
    d.cuTensorMapEncodeIm2col = NULL;
    assert_int_equal(start(&c, &m, &d), FUSEC_OK);
    assert_int_equal(call(&c, 5), FUSEC_E_DRIVER);
    assert_string_equal(log_text, "libcuda is too old: it has no cuTensorMapEncodeIm2col\nkernel k\n");
    finish(&c);
}

static void grids_are_whole_clusters(void **state) {
    (void)state;
    fusec_kernel k = resident;
    const fusec_manifest m = manifest(&k);
    const fusec_cu_driver d = driver();
    fusec_cuda c;
    assert_int_equal(start(&c, &m, &d), FUSEC_OK);
    assert_int_equal(call(&c, 15), FUSEC_OK);
    assert_int_equal(seen.programs, 2); /* of the driver's 3 multiprocessors */
    assert_int_equal(seen.cluster, 2);
    assert_int_equal(seen.clusters, 1);
    k.persistent = 0;
    assert_int_equal(call(&c, 9), FUSEC_OK);
    assert_int_equal(seen.programs, 6); /* 5 and one to fill up */
    finish(&c);
}

static void old_drivers_are_named(void **state) {
    (void)state;
    const fusec_manifest m = manifest(&mapped), pairs = manifest(&resident);
    fusec_cu_driver d = driver();
    fusec_cuda c;
    d.cuTensorMapEncodeTiled = NULL;
    assert_int_equal(start(&c, &m, &d), FUSEC_OK);
    assert_int_equal(call(&c, 5), FUSEC_E_DRIVER);
    assert_string_equal(log_text, "libcuda is too old: it has no cuTensorMapEncodeTiled\nkernel k\n");
    finish(&c);
    d = driver();
    d.cuGraphKernelNodeSetAttribute = NULL;
    assert_int_equal(start(&c, &pairs, &d), FUSEC_OK);
    assert_int_equal(call(&c, 5), FUSEC_E_DRIVER);
    assert_string_equal(log_text, "libcuda is too old: it has no cuGraphKernelNodeSetAttribute\n");
    finish(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_follow_extents),
                                       cmocka_unit_test(windows_have_maps),
                                       cmocka_unit_test(grids_are_whole_clusters),
                                       cmocka_unit_test(old_drivers_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
