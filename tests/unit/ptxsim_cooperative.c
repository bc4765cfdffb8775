/* Cooperative groups, printf and assert as nvcc compiles them: the PTX that lies beside the source, and what nvcc makes
 * of it for sm_90a where it is installed. */
#include "ptxsim_nvcc.h"

static char *ptx;
enum { SEEDS = 4 };

static char *read_text(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = f ? open_memstream(&text, &bytes) : NULL;
    for (int c; to && (c = getc(f)) != EOF;) putc(c, to);
    if (to) fclose(to);
    if (f) fclose(f);
    return text;
}

static CUresult together(const char *kernel, unsigned grid, unsigned block, void **params) {
    return cu.cuLaunchCooperativeKernel(load_kernel(ptx, kernel), grid, 1, 1, block, 1, 1, 0, NULL, params);
}

static void smoothing(void **state) {
    (void)state;
    enum { N = 300, STEPS = 6 };
    float x[2][N], got[N];
    for (int i = 0; i < N; i++) x[0][i] = noise(i);
    CUdeviceptr b = upload(NULL, sizeof got);
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        CUdeviceptr a = upload(x[0], sizeof got);
        int n = N, steps = STEPS;
        use_seed(seed);
        assert_int_equal(together("smooth", 4, 64, (void *[]){&a, &b, &n, &steps}), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyDtoH_v2(got, a, sizeof got), CUDA_SUCCESS);
        cu.cuMemFree_v2(a);
        float want[2][N];
        memcpy(want, x, sizeof *x);
        for (int s = 0; s < STEPS; s++)
            for (int i = 0; i < N; i++) {
                const float *from = want[s % 2];
                want[1 - s % 2][i] = i == 0 || i == N - 1 ? from[i] : 0.5f * (from[i - 1] + from[i + 1]);
            }
        assert_memory_equal(got, want[STEPS % 2], sizeof got);
    }
    cu.cuMemFree_v2(b);
}

static void sums(void **state) {
    (void)state;
    enum { N = 5000 };
    int x[N], want = 0, got, n = N;
    for (int i = 0; i < N; i++) want += x[i] = (i * 7919) % 1009 - 500;
    CUdeviceptr px = upload(x, sizeof x), part = upload(NULL, 6 * sizeof got), out = upload(NULL, sizeof got);
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        use_seed(seed);
        assert_int_equal(together("grid_sum", 6, 128, (void *[]){&px, &part, &out, &n}), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyDtoH_v2(&got, out, sizeof got), CUDA_SUCCESS);
        assert_int_equal(got, want);
    }
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(part), cu.cuMemFree_v2(out);
}

static void tiles(void **state) {
    (void)state;
    int x[256], got[256];
    for (int i = 0; i < 256; i++) x[i] = 8 + i * 37 % 90;
    x[70] = 7;
    CUdeviceptr px = upload(x, sizeof x), py = upload(NULL, sizeof got);
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        use_seed(seed);
        assert_int_equal(launch1(load_kernel(ptx, "pairs_of_warps"), 1, 256, (void *[]){&px, &py}), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyDtoH_v2(got, py, sizeof got), CUDA_SUCCESS);
        for (int tile = 0; tile < 4; tile++) {
            int want = x[64 * tile + 3] + (tile == 1);
            for (int i = 0; i < 64; i++) want += x[64 * tile + i];
            for (int i = 0; i < 64; i++) assert_int_equal(got[64 * tile + i], want);
        }
    }
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(py);
}

static void positives(void **state) {
    (void)state;
    enum { N = 500 };
    int x[N], got[N], n = N, count, seen[N] = {0};
    for (int i = 0; i < N; i++) x[i] = i * 7919 % 1000 - 600;
    CUdeviceptr px = upload(x, sizeof x), py = upload(NULL, sizeof got), pc = upload(&(int){0}, sizeof count);
    assert_int_equal(launch1(load_kernel(ptx, "keep_positive"), 4, 128, (void *[]){&px, &py, &pc, &n}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(&count, pc, sizeof count);
    cu.cuMemcpyDtoH_v2(got, py, (size_t)count * sizeof *got);
    for (int i = 0; i < N; i++) {
        if (x[i] <= 0) continue;
        for (int k = 0; k < count; k++) seen[i] += got[k] == x[i];
        assert_true(seen[i]);
        n--;
    }
    assert_int_equal(count, N - n);
    cu.cuMemFree_v2(px), cu.cuMemFree_v2(py), cu.cuMemFree_v2(pc);
}

static void publishing(void **state) {
    (void)state;
    int got[5];
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        CUdeviceptr value = upload(NULL, 4), flag = upload(&(int){0}, 4), y = upload(NULL, sizeof got);
        use_seed(seed);
        assert_int_equal(launch1(load_kernel(ptx, "publish"), 5, 32, (void *[]){&value, &flag, &y}), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyDtoH_v2(got + 1, y + 4, 16), CUDA_SUCCESS);
        for (int k = 1; k < 5; k++) assert_int_equal(got[k], 42 + k);
        cu.cuMemFree_v2(value), cu.cuMemFree_v2(flag), cu.cuMemFree_v2(y);
    }
}

static void printing(void **state) {
    (void)state;
    char path[64] = "/tmp/ptxsim_say_XXXXXX", got[256] = "";
    const int x[] = {5, -6};
    CUdeviceptr p = upload(x, sizeof x);
    const int fd = mkstemp(path), old = dup(1);
    assert_true(fd >= 0 && old >= 0);
    fflush(stdout);
    dup2(fd, 1);
    const CUresult r = launch1(load_kernel(ptx, "say"), 1, 2, (void *[]){&p});
    fflush(stdout);
    dup2(old, 1);
    close(old);
    assert_int_equal(r, CUDA_SUCCESS);
    assert_true(pread(fd, got, sizeof got - 1, 0) > 0);
    close(fd);
    remove(path);
    assert_string_equal(got, "5:  2.50 text a 500000000 7%\n-6: -3.00 text b fffffffa00000000 7%\n");
    cu.cuMemFree_v2(p);
}

static void asserting(void **state) {
    (void)state;
    int x[32];
    for (int i = 0; i < 32; i++) x[i] = i + 1;
    CUdeviceptr p = upload(x, sizeof x);
    assert_int_equal(launch1(load_kernel(ptx, "all_positive"), 1, 32, (void *[]){&p}), CUDA_SUCCESS);
    x[9] = 0;
    assert_int_equal(cu.cuMemcpyHtoD_v2(p, x, sizeof x), CUDA_SUCCESS);
    assert_int_equal(launch1(load_kernel(ptx, "all_positive"), 1, 32, (void *[]){&p}), CUDA_ERROR_ASSERT);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ASSERT); /* stays with the context */
    cu.cuMemFree_v2(p);
}

static int run_all(char *text) {
    ptx = text;
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {RUN(smoothing),  RUN(sums),     RUN(tiles),    RUN(positives),
                                       RUN(publishing), RUN(printing), RUN(asserting)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(text);
    return failed;
}

int main(void) {
    char *committed = read_text(SOURCE_DIR "/tests/golden/ptxsim/cooperative.ptx"),
         *fresh = nvcc_ptx("cooperative", "sm_90a");
    driver_open();
    if (!committed) return 1;
    const int failed = run_all(committed);
    if (!fresh) puts("nvcc is not here: sm_90a skipped");
    return failed + (fresh ? run_all(fresh) : 0);
}
