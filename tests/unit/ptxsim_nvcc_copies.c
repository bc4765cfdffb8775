/* The CUDA C++ library's pipelines, barriers and clusters through nvcc, under every landing of asynchronous operations.
 */
#include "ptxsim_nvcc.h"

static char *ptx; /* what nvcc made of tests/golden/ptxsim/copies.cu */
static const char *const LANDINGS[] = {"late", "early", "random"};
enum { N = 2048 };
static int32_t x[N];

static CUresult run(const char *kernel, unsigned grid, unsigned block, void **params, unsigned k) {
    setenv("PTXSIM_LANDING", LANDINGS[k % 3], 1);
    use_seed(k / 3);
    const CUresult r = launch1(load_kernel(ptx, kernel), grid, block, params);
    unsetenv("PTXSIM_LANDING");
    unsetenv("PTXSIM_SEED");
    return r;
}

/* kernel(x, y{, tiles}) six times over; y of `count` words must be `want`. */
static void expect(const char *kernel, unsigned grid, unsigned block, int tiles, const int32_t *want, unsigned count) {
    int32_t got[N];
    for (unsigned k = 0; k < 6; k++) {
        CUdeviceptr px = upload(x, sizeof x), py = upload(NULL, sizeof got);
        assert_int_equal(run(kernel, grid, block, (void *[]){&px, &py, &tiles}, k), CUDA_SUCCESS);
        cu.cuMemcpyDtoH_v2(got, py, count * sizeof *got);
        assert_memory_equal(got, want, count * sizeof *got);
        cu.cuMemFree_v2(px), cu.cuMemFree_v2(py);
    }
}

static void pipeline(void **state) {
    (void)state;
    int32_t want[128] = {0};
    for (int k = 0; k < 9 * 128; k++) want[k % 128] += x[k];
    expect("pipeline_sum", 1, 128, 9, want, 128);
}

static void group_copy(void **state) {
    (void)state;
    int32_t want[512];
    for (int k = 0; k < 512; k++) want[k] = x[k / 256 * 256 + 255 - k % 256];
    expect("reverse_group", 2, 256, 0, want, 512);
}

static void barrier(void **state) {
    (void)state;
    int32_t want[96];
    for (int t = 0; t < 96; t++) want[t] = x[(t + 96 - 8) % 96] + 28;
    expect("rotate_barrier", 1, 96, 0, want, 96);
}

static void ring(void **state) {
    (void)state;
    int32_t want[32] = {0};
    for (int k = 0; k < 11; k++)
        for (int l = 0; l < 32; l++) want[l] += x[k * 32 + l] * (k + 1);
    expect("bulk_ring", 1, 64, 11, want, 32);
}

static void histogram(void **state) {
    (void)state;
    enum { BINS = 256, COUNT = 3000 };
    uint8_t data[COUNT];
    int32_t got[BINS], want[BINS] = {0}, n = COUNT;
    for (int k = 0; k < COUNT; k++) want[data[k] = (uint8_t)(k * k / 11)]++;
    for (unsigned k = 0; k < 3; k++) {
        CUdeviceptr px = upload(data, sizeof data), py = upload(NULL, sizeof got);
        cu.cuMemsetD32_v2(py, 0, BINS);
        assert_int_equal(run("spread_histogram", 2, 128, (void *[]){&px, &py, &n}, 3 * k), CUDA_SUCCESS);
        cu.cuMemcpyDtoH_v2(got, py, sizeof got);
        assert_memory_equal(got, want, sizeof want);
        cu.cuMemFree_v2(px), cu.cuMemFree_v2(py);
    }
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    ptx = nvcc_ptx("copies", "sm_90a");
    if (!ptx) return nvcc_missing();
    driver_open();
    for (int i = 0; i < N; i++) x[i] = (i * 7919) % 1009 - 500;
    const struct CMUnitTest tests[] = {RUN(pipeline), RUN(group_copy), RUN(barrier), RUN(ring), RUN(histogram)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(ptx);
    return failed;
}
