/* CUDA C++ through nvcc, where it is installed, executed by the software GPU and compared with plain C. */
#include "ptxsim_nvcc.h"

static char *ptx; /* what nvcc made of tests/golden/ptxsim/kernels.cu */

static void saxpy_and_sum(void **state) {
    (void)state;
    enum { N = 3000, BLOCKS = 3, PART = N / BLOCKS };
    static float x[N], y[N], got[N];
    float sums[BLOCKS], a = 1.25f;
    int n = N, part = PART;
    for (int i = 0; i < N; i++) x[i] = noise(i), y[i] = (float)(i % 17);
    CUdeviceptr px = upload(x, sizeof x), py = upload(y, sizeof y), ps = upload(NULL, sizeof sums);
    assert_int_equal(launch1(load_kernel(ptx, "saxpy"), 7, 96, (void *[]){&n, &a, &px, &py}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(got, py, sizeof got);
    for (int i = 0; i < N; i++) assert_true(got[i] == fmaf(a, x[i], y[i]));
    assert_int_equal(launch1(load_kernel(ptx, "block_sum"), BLOCKS, 256, (void *[]){&px, &ps, &part}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(sums, ps, sizeof sums);
    for (int b = 0; b < BLOCKS; b++) {
        double want = 0;
        for (int i = 0; i < PART; i++) want += x[b * PART + i];
        assert_true(fabs(sums[b] - want) < 1e-3);
    }
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(py), cu.cuMemFree_v2(ps);
}

static void scan_and_histogram(void **state) {
    (void)state;
    int32_t x[256], y[256];
    uint8_t bytes[5000];
    uint32_t bins[256], want[256] = {0};
    int n = sizeof bytes, sum = 0;
    for (int i = 0; i < 256; i++) x[i] = (i * 31) % 23 - 11;
    for (int i = 0; i < n; i++) want[bytes[i] = (uint8_t)(i * i / 7)]++;
    CUdeviceptr px = upload(x, sizeof x), py = upload(NULL, sizeof y), pb = upload(bytes, sizeof bytes), ph = upload(NULL, sizeof bins);
    cu.cuMemsetD32_v2(ph, 0, 256);
    assert_int_equal(launch1(load_kernel(ptx, "scan"), 1, 256, (void *[]){&px, &py}), CUDA_SUCCESS);
    assert_int_equal(launch1(load_kernel(ptx, "histogram"), 4, 256, (void *[]){&pb, &ph, &n}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(y, py, sizeof y);
    cu.cuMemcpyDtoH_v2(bins, ph, sizeof bins);
    for (int i = 0; i < 256; i++) assert_int_equal(y[i], sum += x[i]);
    assert_memory_equal(bins, want, sizeof bins);
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(py), cu.cuMemFree_v2(pb), cu.cuMemFree_v2(ph);
}

static void gemm(void **state) {
    (void)state;
    enum { M = 37, N = 50, K = 41 };
    static float a[M * K], b[K * N], c[M * N];
    int m = M, n = N, k = K;
    for (int i = 0; i < M * K; i++) a[i] = noise(i);
    for (int i = 0; i < K * N; i++) b[i] = noise(i + 500);
    CUdeviceptr pa = upload(a, sizeof a), pb = upload(b, sizeof b), pc = upload(NULL, sizeof c);
    assert_int_equal(run2(load_kernel(ptx, "gemm"), 4, 3, 16, 16, (void *[]){&pa, &pb, &pc, &m, &n, &k}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(c, pc, sizeof c);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int t = 0; t < K; t++) s = fmaf(a[i * K + t], b[t * N + j], s);
            assert_true(c[i * N + j] == s);
        }
    cu.cuMemFree_v2(pa), cu.cuMemFree_v2(pb), cu.cuMemFree_v2(pc);
}

static int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }

static void recursion(void **state) {
    (void)state;
    int32_t y[32];
    CUdeviceptr p = upload(NULL, sizeof y);
    assert_int_equal(launch1(load_kernel(ptx, "recursion"), 1, 32, (void *[]){&p}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(y, p, sizeof y);
    for (int i = 0; i < 32; i++) assert_int_equal(y[i], ackermann(2, i % 4));
    cu.cuMemFree_v2(p);
}

static void functions(void **state) {
    (void)state;
    enum { N = 200 };
    float x[N], y[8 * N];
    int n = N;
    for (int i = 0; i < N; i++) x[i] = 3 * noise(i);
    CUdeviceptr px = upload(x, sizeof x), py = upload(NULL, sizeof y);
    assert_int_equal(launch1(load_kernel(ptx, "functions"), 2, 128, (void *[]){&px, &py, &n}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(y, py, sizeof y);
    for (int i = 0; i < N; i++) {
        const double v = x[i], a = fabs(v);
        const double want[8] = {exp(v), log(a + 0.5), sin(v), tanh(v), v / 3, sqrt(a), erf(v), pow((float)a + 0.1f, 1.7f)};
        for (int k = 0; k < 8; k++) assert_true(fabs(y[8 * i + k] - want[k]) <= 2e-6 * fmax(1, fabs(want[k])));
    }
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(py);
}

static void halves(void **state) {
    (void)state;
    float x[3] = {0.5f, 1.0009765625f, 100.0f}, y[6];
    int n = 3;
    CUdeviceptr px = upload(x, sizeof x), py = upload(NULL, sizeof y);
    assert_int_equal(launch1(load_kernel(ptx, "halves"), 1, 32, (void *[]){&px, &py, &n}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(y, py, sizeof y);
    const float want[6] = {1.25f, 1.5f, 2.001953125f, 3.001953125f, 10000.0f, 300.0f};
    for (int k = 0; k < 6; k++) assert_true(y[k] == want[k]);
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(py);
}

static uint32_t reverse32(uint32_t v) {
    uint32_t r = 0;
    for (int k = 0; k < 32; k++) r |= (v >> k & 1) << (31 - k);
    return r;
}
static uint32_t byte_perm(uint64_t v, unsigned s) {
    uint32_t r = 0;
    for (int k = 0; k < 4; k++) r |= (uint32_t)(v >> 8 * (s >> 4 * k & 7) & 255) << 8 * k;
    return r;
}

static void integers(void **state) {
    (void)state;
    enum { N = 150 };
    int64_t x[N], y[8 * N];
    int n = N;
    uint64_t s = 88172645463325252u;
    for (int i = 0; i < N; i++) s ^= s << 13, s ^= s >> 7, s ^= s << 17, x[i] = (int64_t)(s >> (i % 40));
    for (int i = 0; i < N; i += 3) x[i] = -x[i];
    CUdeviceptr px = upload(x, sizeof x), py = upload(NULL, sizeof y);
    assert_int_equal(launch1(load_kernel(ptx, "integers"), 2, 96, (void *[]){&px, &py, &n}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(y, py, sizeof y);
    for (int i = 0; i < N; i++) {
        const int64_t a = x[i], b = i % 7 - 3, d = b ? b : 5;
        const uint64_t u = (uint64_t)a;
        int64_t last = a > 0 ? (int64_t)(u << (i & 31)) : a >> (i & 31);
        switch (i % 9) {
        case 0: last += 11; break;
        case 1: last ^= 12345; break;
        case 2: last -= 3; break;
        case 3: last = (int64_t)((uint64_t)last * 5); break;
        case 4: last |= 77; break;
        case 5: last &= ~(int64_t)77; break;
        default: break;
        }
        const int32_t low = (int32_t)u, high = (int32_t)(u >> 32);
        const int64_t want[8] = {
            a / d, a % d, (int64_t)(u / (uint64_t)(i + 1)),
            __builtin_popcountll(u) + (u ? __builtin_clzll(u) : 64) + __builtin_ffs(low),
            (int64_t)reverse32((uint32_t)u) + byte_perm(u, 0x2635),
            (int64_t)((uint64_t)(int64_t)((__int128)a * a >> 64) + (uint64_t)(int64_t)(int32_t)((int64_t)low * high >> 32)),
            (int32_t)((uint32_t)(low / (int32_t)d) + (uint32_t)((int16_t)a % (int16_t)d) + ((uint32_t)(uint8_t)a >> 3)), last};
        for (int k = 0; k < 8; k++)
            if (y[8 * i + k] != want[k])
                fail_msg("%d, %d: %lld instead of %lld", i, k, (long long)y[8 * i + k], (long long)want[k]);
    }
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(py);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    ptx = nvcc_ptx("kernels", "sm_80");
    if (!ptx) return nvcc_missing();
    const struct CMUnitTest tests[] = {RUN(saxpy_and_sum), RUN(scan_and_histogram), RUN(gemm),    RUN(recursion),
                                       RUN(functions),     RUN(halves),             RUN(integers)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(ptx);
    return failed;
}
