// Tensor cores of sm_80 by inline PTX: mma.sync, ldmatrix, cp.async (tests/unit/ptxsim_nvcc_matrix.c).
#include <stdint.h>
#include <cuda_fp16.h>

static __device__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ void copy16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
static __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> static __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Chunks of 8 halves, 4 to a row of 32: chunk c of row r lies at c ^ (r / 2 % 4), so that ldmatrix meets no conflicts.
static __device__ uint32_t chunk_a(int r, int c) { return (uint32_t)(r * 4 + (c ^ (r / 2 & 3))) * 16; }
static __device__ uint32_t chunk_b(int r, int c) { return (uint32_t)(r * 8 + (c ^ (r & 7))) * 16; } // 8 to a row of 64

static __device__ void fill(uint32_t a_to, uint32_t b_to, const __half *a, const __half *b, int n, int k) {
    for (int i = threadIdx.x; i < 64 * 4; i += 128) copy16(a_to + chunk_a(i / 4, i % 4), a + i / 4 * k + i % 4 * 8);
    for (int i = threadIdx.x; i < 32 * 8; i += 128) copy16(b_to + chunk_b(i / 8, i % 8), b + i / 8 * n + i % 8 * 8);
    commit();
}

// C[M, N] = A[M, K] B[K, N]: blocks of 64 x 64, four warps of 32 x 32, steps of K = 32 in two buffers.
extern "C" __global__ void gemm_mma(const __half *a, const __half *b, float *c, int n, int k) {
    __shared__ __align__(128) __half sa[2][64 * 32], sb[2][32 * 64];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wr = warp / 2 * 32, wc = warp % 2 * 32;
    float sum[2][4][4] = {};
    a += blockIdx.y * 64 * k;
    b += blockIdx.x * 64;
    fill(shared_address(sa[0]), shared_address(sb[0]), a, b, n, k);
    for (int t = 0; t < k; t += 32) {
        const int now = t / 32 % 2;
        if (t + 32 < k) {
            fill(shared_address(sa[!now]), shared_address(sb[!now]), a + t + 32, b + (t + 32) * n, n, k);
            wait<1>();
        } else wait<0>();
        __syncthreads();
        for (int h = 0; h < 2; h++) {
            uint32_t fa[2][4], fb[4][2];
            for (int i = 0; i < 2; i++)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                             : "r"(shared_address(sa[now]) + chunk_a(wr + i * 16 + lane % 16, h * 2 + lane / 16)) : "memory");
            for (int j = 0; j < 4; j++)
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                             : "=r"(fb[j][0]), "=r"(fb[j][1])
                             : "r"(shared_address(sb[now]) + chunk_b(h * 16 + lane % 16, wc / 8 + j)) : "memory");
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                                 "{%8,%9}, {%0,%1,%2,%3};"
                                 : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                                 : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 4; e++)
                c[(blockIdx.y * 64 + wr + i * 16 + lane / 4 + e / 2 * 8) * n + blockIdx.x * 64 + wc + j * 8 + lane % 4 * 2 + e % 2] =
                    sum[i][j][e];
}
