/* Reductions, scans, rows and named barriers in CUDA C++ (tests/golden/ptxsim/parallel.cu): what nvcc makes of them for
 * both architectures, under several orders of warps, against plain C, without a finding. */
#include "ptxsim_nvcc.h"

enum { ARCHS = 2, SEEDS = 4 };
static const char *const ARCH[ARCHS] = {"sm_80", "sm_90a"};
static char *ptx[ARCHS];

typedef struct Kernel {
    const char *name;
    void (*run)(CUfunction);
} Kernel;

static void download(void *to, CUdeviceptr from, size_t bytes) {
    assert_int_equal(cu.cuMemcpyDtoH_v2(to, from, bytes), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemFree_v2(from), CUDA_SUCCESS);
}

enum { N = 3001 };
static int whole(int i) { return i * 37 % 201 - 100; }

static CUdeviceptr upload_whole(int n) {
    int x[N];
    for (int i = 0; i < n; i++) x[i] = whole(i);
    return upload(x, (size_t)n * sizeof *x);
}

static CUdeviceptr upload_noise(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = noise(i);
    return upload(x, (size_t)n * sizeof *x);
}

static void sum_atomic(CUfunction f) {
    int n = N, got, want = 0;
    CUdeviceptr x = upload_whole(N), out = upload(&want, sizeof want);
    assert_int_equal(launch1(f, 5, 96, (void *[]){&x, &out, &n}), CUDA_SUCCESS);
    for (int i = 0; i < N; i++) want += whole(i);
    download(&got, out, sizeof got);
    assert_int_equal(got, want);
    cu.cuMemFree_v2(x);
}

static void sum_tree(CUfunction f) {
    enum { BLOCKS = (N + 255) / 256 };
    int n = N, got[BLOCKS];
    CUdeviceptr x = upload_whole(N), out = upload(NULL, sizeof got);
    assert_int_equal(launch1(f, BLOCKS, 256, (void *[]){&x, &out, &n}), CUDA_SUCCESS);
    download(got, out, sizeof got);
    for (int b = 0; b < BLOCKS; b++) {
        int want = 0;
        for (int i = b * 256; i < N && i < b * 256 + 256; i++) want += whole(i);
        assert_int_equal(got[b], want);
    }
    cu.cuMemFree_v2(x);
}

static void sum_last_block(CUfunction f) {
    static float data[N];
    int n = N;
    float got;
    double want = 0;
    uint32_t ticket = 0;
    CUdeviceptr x = upload_noise(data, N), part = upload(NULL, 7 * sizeof(float)), t = upload(&ticket, sizeof ticket);
    CUdeviceptr out = upload(NULL, sizeof got);
    for (int twice = 0; twice < 2; twice++) /* the counter wraps to 0 by itself */
        assert_int_equal(launch1(f, 7, 128, (void *[]){&x, &part, &t, &out, &n}), CUDA_SUCCESS);
    for (int i = 0; i < N; i++) want += data[i];
    download(&got, out, sizeof got);
    assert_true(fabs(got - want) < 1e-3);
    cu.cuMemFree_v2(x), cu.cuMemFree_v2(part), cu.cuMemFree_v2(t);
}

static void scan_blelloch(CUfunction f) {
    int got[512], sum = 0;
    CUdeviceptr x = upload_whole(512), y = upload(NULL, sizeof got);
    assert_int_equal(launch1(f, 1, 256, (void *[]){&x, &y}), CUDA_SUCCESS);
    download(got, y, sizeof got);
    for (int i = 0; i < 512; sum += whole(i++)) assert_int_equal(got[i], sum);
    cu.cuMemFree_v2(x);
}

static void scan_look_back(CUfunction f) {
    enum { BLOCKS = (N + 127) / 128 };
    static int got[N];
    int n = N, sum = 0;
    const uint64_t none[BLOCKS] = {0};
    CUdeviceptr x = upload_whole(N), y = upload(NULL, sizeof got), order = upload(none, 4),
                state = upload(none, sizeof none);
    assert_int_equal(launch1(f, BLOCKS, 128, (void *[]){&x, &y, &order, &state, &n}), CUDA_SUCCESS);
    download(got, y, sizeof got);
    for (int i = 0; i < N; i++) assert_int_equal(got[i], sum += whole(i));
    cu.cuMemFree_v2(x), cu.cuMemFree_v2(order), cu.cuMemFree_v2(state);
}

static void transpose(CUfunction f) {
    enum { ROWS = 45, COLUMNS = 66 };
    static float data[ROWS * COLUMNS], got[ROWS * COLUMNS];
    int rows = ROWS, columns = COLUMNS;
    CUdeviceptr x = upload_noise(data, ROWS * COLUMNS), y = upload(NULL, sizeof got);
    assert_int_equal(run2(f, 3, 2, 32, 8, (void *[]){&x, &y, &rows, &columns}), CUDA_SUCCESS);
    download(got, y, sizeof got);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) assert_true(got[c * ROWS + r] == data[r * COLUMNS + c]);
    cu.cuMemFree_v2(x);
}

static void softmax(CUfunction f) {
    enum { ROWS = 3, COLUMNS = 300 };
    static float data[ROWS * COLUMNS], got[ROWS * COLUMNS];
    int columns = COLUMNS;
    CUdeviceptr x = upload_noise(data, ROWS * COLUMNS), y = upload(NULL, sizeof got);
    assert_int_equal(launch1(f, ROWS, 128, (void *[]){&x, &y, &columns}), CUDA_SUCCESS);
    download(got, y, sizeof got);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < COLUMNS; c++) sum += exp(data[r * COLUMNS + c]);
        for (int c = 0; c < COLUMNS; c++)
            assert_true(fabs(got[r * COLUMNS + c] - exp(data[r * COLUMNS + c]) / sum) < 1e-6);
    }
    cu.cuMemFree_v2(x);
}

static void layer_norm(CUfunction f) {
    enum { ROWS = 6, COLUMNS = 77 };
    static float data[ROWS * COLUMNS], got[ROWS * COLUMNS], scale[COLUMNS];
    int rows = ROWS, columns = COLUMNS;
    CUdeviceptr x = upload_noise(data, ROWS * COLUMNS), s = upload_noise(scale, COLUMNS), y = upload(NULL, sizeof got);
    assert_int_equal(launch1(f, 2, 128, (void *[]){&x, &s, &y, &rows, &columns}), CUDA_SUCCESS);
    download(got, y, sizeof got);
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, variance = 0;
        for (int c = 0; c < COLUMNS; c++) mean += data[r * COLUMNS + c] / COLUMNS;
        for (int c = 0; c < COLUMNS; c++) variance += pow(data[r * COLUMNS + c] - mean, 2) / COLUMNS;
        for (int c = 0; c < COLUMNS; c++)
            assert_true(fabs(got[r * COLUMNS + c] - (data[r * COLUMNS + c] - mean) / sqrt(variance + 1e-5) * scale[c]) <
                        1e-5);
    }
    cu.cuMemFree_v2(x), cu.cuMemFree_v2(s);
}

static void hand_over(CUfunction f) {
    enum { STEPS = 9 };
    int steps = STEPS, got[STEPS * 32];
    CUdeviceptr x = upload_whole(STEPS * 32), y = upload(NULL, sizeof got);
    assert_int_equal(launch1(f, 1, 64, (void *[]){&x, &y, &steps}), CUDA_SUCCESS);
    download(got, y, sizeof got);
    for (int i = 0; i < STEPS * 32; i++) assert_int_equal(got[i], 3 * whole(i - i % 32 + 31 - i % 32));
    cu.cuMemFree_v2(x);
}

static void under_all_orders(void **state) {
    const Kernel *k = *state;
    const uint64_t before = findings();
    for (int a = 0; a < ARCHS; a++) {
        assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
        CUfunction f = load_kernel(ptx[a], k->name);
        for (unsigned seed = 0; seed < SEEDS; seed++) {
            use_seed(seed);
            k->run(f);
        }
        cu.cuCtxDestroy_v2(cu.context);
    }
    assert_int_equal(findings(), before);
}

int main(void) {
#define KERNEL(name)                                                   \
    {                                                                  \
#name, under_all_orders, NULL, NULL, &(Kernel) { #name, name } \
    }
    setenv("PTXSIM_DEVICE", "sm_90", 1);
    for (int a = 0; a < ARCHS; a++)
        if (!(ptx[a] = nvcc_ptx("parallel", ARCH[a]))) return nvcc_missing();
    driver_open();
    const struct CMUnitTest tests[] = {KERNEL(sum_atomic),    KERNEL(sum_tree),   KERNEL(sum_last_block),
                                       KERNEL(scan_blelloch), KERNEL(transpose),  KERNEL(scan_look_back),
                                       KERNEL(softmax),       KERNEL(layer_norm), KERNEL(hand_over)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int a = 0; a < ARCHS; a++) free(ptx[a]);
    return failed;
}
