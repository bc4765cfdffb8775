// Tensor cores by the WMMA interface of CUDA C++ (tests/unit/ptxsim_nvcc_matrix.c).
#include <mma.h>

// C[M, N] = A[M, K] B[K, N], a warp per 16 x 16 tile.
extern "C" __global__ void gemm_wmma(const __half *a, const __half *b, float *c, int n, int k) {
    using namespace nvcuda::wmma;
    const int row = blockIdx.y * 16, col = blockIdx.x * 16;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    for (int t = 0; t < k; t += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
        fragment<matrix_b, 16, 16, 16, __half, row_major> fb;
        load_matrix_sync(fa, a + row * k + t, k);
        load_matrix_sync(fb, b + t * n + col, n);
        mma_sync(sum, fa, fb, sum);
    }
    store_matrix_sync(c + row * n + col, sum, n, mem_row_major);
}
