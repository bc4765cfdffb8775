/* Tensor cores, tensor copies, rings of mbarriers and clusters in CUDA C++ with inline PTX
 * (tests/golden/ptxsim/tensor.cu, wmma.cu, hopper.cu) as nvcc compiles it, under every landing of asynchronous
 * operations, against plain C, without a finding. */
#include "ptxsim_nvcc.h"

enum { SEEDS = 4, LANDINGS = 3 };
static const char *const LANDING[LANDINGS] = {"early", "late", "random"};
static char *tensor[2], *wmma[2], *hopper;

typedef struct Kernel {
    const char *name;
    char *const *ptx;
    int architectures;
    void (*run)(CUfunction);
} Kernel;

static void download(void *to, CUdeviceptr from, size_t bytes) {
    assert_int_equal(cu.cuMemcpyDtoH_v2(to, from, bytes), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemFree_v2(from), CUDA_SUCCESS);
}

/* Whole numbers from -8 to 8: their products and sums are exact in any order. */
static int small(int i) { return (int)((unsigned)i * 2654435761u >> 24) % 17 - 8; }

static uint16_t half_of(int whole) {
    const int magnitude = whole < 0 ? -whole : whole;
    if (!magnitude) return 0;
    const int e = 31 - __builtin_clz((unsigned)magnitude);
    return (uint16_t)((whole < 0) << 15 | (15 + e) << 10 | (magnitude - (1 << e)) << (10 - e));
}

enum { MOST = 128 * 192 };
static CUdeviceptr upload_halves(int n, int salt) {
    static uint16_t x[MOST];
    assert_true(n <= MOST);
    for (int i = 0; i < n; i++) x[i] = half_of(small(i + salt));
    return upload(x, (size_t)n * sizeof *x);
}

enum { SALT = 7777 };

/* C[m, n] = A[m, k] B, B at [k, n] or, transposed, [n, k]. */
static void check_product(CUdeviceptr device, int m, int n, int k, int transposed) {
    static float got[MOST];
    download(got, device, (size_t)(m * n) * sizeof *got);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int sum = 0;
            for (int t = 0; t < k; t++) sum += small(i * k + t) * small(SALT + (transposed ? j * k + t : t * n + j));
            if (got[i * n + j] != (float)sum) fail_msg("[%d, %d]: %g instead of %d", i, j, (double)got[i * n + j], sum);
        }
}

static void gemm_wmma(CUfunction f) {
    int m = 32, n = 48, k = 64;
    CUdeviceptr a = upload_halves(m * k, 0), b = upload_halves(k * n, SALT), c = upload(NULL, (size_t)(m * n) * 4);
    assert_int_equal(run2(f, 3, 2, 32, 1, (void *[]){&a, &b, &c, &n, &k}), CUDA_SUCCESS);
    check_product(c, m, n, k, 0);
    cu.cuMemFree_v2(a), cu.cuMemFree_v2(b);
}

static void gemm_mma(CUfunction f) {
    int m = 128, n = 64, k = 96;
    CUdeviceptr a = upload_halves(m * k, 0), b = upload_halves(k * n, SALT), c = upload(NULL, (size_t)(m * n) * 4);
    assert_int_equal(run2(f, 1, 2, 128, 1, (void *[]){&a, &b, &c, &n, &k}), CUDA_SUCCESS);
    check_product(c, m, n, k, 0);
    cu.cuMemFree_v2(a), cu.cuMemFree_v2(b);
}

enum { MAP_HALF = 6, MAP_FLOAT = 7, SWIZZLE_NONE = 0, SWIZZLE_128 = 3 }; /* CUtensorMapDataType, CUtensorMapSwizzle */

static CUtensorMap matrix_map(CUdeviceptr at, int type, uint64_t columns, uint64_t rows, uint32_t box_columns,
                              uint32_t box_rows, int swizzle) {
    CUtensorMap map;
    const uint64_t size[2] = {columns, rows}, stride[1] = {columns * (type == MAP_HALF ? 2 : 4)};
    assert_int_equal(cu.cuTensorMapEncodeTiled(&map, type, 2, (void *)(uintptr_t)at, size, stride,
                                               (uint32_t[]){box_columns, box_rows}, (uint32_t[]){1, 1}, 0, swizzle, 0,
                                               0),
                     CUDA_SUCCESS);
    return map;
}

static void gemm_wgmma(CUfunction f) {
    int m = 128, n = 64, k = 184; /* the last step of K is filled with zeros */
    CUdeviceptr a = upload_halves(m * k, 0), b = upload_halves(n * k, SALT), c = upload(NULL, (size_t)(m * n) * 4);
    CUtensorMap map_a = matrix_map(a, MAP_HALF, (uint64_t)k, (uint64_t)m, 64, 64, SWIZZLE_128);
    CUtensorMap map_b = matrix_map(b, MAP_HALF, (uint64_t)k, (uint64_t)n, 64, 64, SWIZZLE_128);
    assert_int_equal(run2(f, 1, 2, 384, 1, (void *[]){&map_a, &map_b, &c, &n, &k}), CUDA_SUCCESS);
    check_product(c, m, n, k, 1);
    cu.cuMemFree_v2(a), cu.cuMemFree_v2(b);
}

static void double_boxes(CUfunction f) {
    enum { ROWS = 100, COLUMNS = 60 };
    static float x[ROWS * COLUMNS], got[ROWS * COLUMNS];
    int rows = ROWS;
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = noise(i);
    CUdeviceptr from = upload(x, sizeof x), to = upload(NULL, sizeof got);
    CUtensorMap map_from = matrix_map(from, MAP_FLOAT, COLUMNS, ROWS, 32, 16, SWIZZLE_NONE);
    CUtensorMap map_to = matrix_map(to, MAP_FLOAT, COLUMNS, ROWS, 32, 16, SWIZZLE_NONE);
    assert_int_equal(launch1(f, 2, 64, (void *[]){&map_from, &map_to, &rows}), CUDA_SUCCESS);
    download(got, to, sizeof got);
    for (int i = 0; i < ROWS * COLUMNS; i++) assert_true(got[i] == 2 * x[i]);
    cu.cuMemFree_v2(from);
}

static void ring_sum(CUfunction f) {
    enum { BLOCKS = 2, ROWS = 11 };
    static float x[BLOCKS * ROWS * 256], got[BLOCKS * 256];
    int rows = ROWS;
    for (int i = 0; i < BLOCKS * ROWS * 256; i++) x[i] = noise(i);
    CUdeviceptr from = upload(x, sizeof x), to = upload(NULL, sizeof got);
    assert_int_equal(launch1(f, BLOCKS, 160, (void *[]){&from, &to, &rows}), CUDA_SUCCESS);
    download(got, to, sizeof got);
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < 256; i++) {
            float sum = 0;
            for (int r = 0; r < ROWS; r++) sum += x[(b * ROWS + r) * 256 + i];
            assert_true(got[b * 256 + i] == sum);
        }
    cu.cuMemFree_v2(from);
}

static void cluster_sum(CUfunction f) {
    enum { BLOCKS = 8 };
    int x[BLOCKS * 128], got[BLOCKS / 4 * 128];
    for (int i = 0; i < BLOCKS * 128; i++) x[i] = small(i);
    CUdeviceptr from = upload(x, sizeof x), to = upload(NULL, sizeof got);
    assert_int_equal(launch1(f, BLOCKS, 128, (void *[]){&from, &to}), CUDA_SUCCESS);
    download(got, to, sizeof got);
    for (int i = 0; i < BLOCKS / 4 * 128; i++) {
        int sum = 0;
        for (int r = 0; r < 4; r++) sum += x[i / 128 * 512 + r * 128 + i % 128];
        assert_int_equal(got[i], sum);
    }
    cu.cuMemFree_v2(from);
}

static void under_all_schedules(void **state) {
    const Kernel *k = *state;
    const uint64_t before = findings();
    for (int a = 0; a < k->architectures; a++) {
        assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
        CUfunction f = load_kernel(k->ptx[a], k->name);
        for (int l = 0; l < LANDINGS; l++)
            for (unsigned seed = 0; seed < SEEDS; seed++) {
                use_seed(seed);
                setenv("PTXSIM_LANDING", LANDING[l], 1);
                k->run(f);
            }
        cu.cuCtxDestroy_v2(cu.context);
    }
    assert_int_equal(findings(), before);
}

int main(void) {
#define KERNEL(name, ptx, architectures)                                                      \
    {                                                                                         \
#name, under_all_schedules, NULL, NULL, &(Kernel) { #name, ptx, architectures, name } \
    }
    setenv("PTXSIM_DEVICE", "sm_90", 1);
    tensor[0] = nvcc_ptx("tensor", "sm_80");
    tensor[1] = nvcc_ptx("tensor", "sm_90a");
    wmma[0] = nvcc_ptx("wmma", "sm_80");
    wmma[1] = nvcc_ptx("wmma", "sm_90a");
    hopper = nvcc_ptx("hopper", "sm_90a");
    if (!tensor[0] || !tensor[1] || !wmma[0] || !wmma[1] || !hopper) return nvcc_missing();
    driver_open();
    const struct CMUnitTest tests[] = {KERNEL(gemm_wmma, wmma, 2),     KERNEL(gemm_mma, tensor, 2),
                                       KERNEL(gemm_wgmma, &hopper, 1), KERNEL(double_boxes, &hopper, 1),
                                       KERNEL(ring_sum, &hopper, 1),   KERNEL(cluster_sum, &hopper, 1)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(tensor[0]), free(tensor[1]), free(wmma[0]), free(wmma[1]), free(hopper);
    return failed;
}
