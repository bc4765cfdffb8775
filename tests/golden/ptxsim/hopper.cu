// sm_90a by inline PTX: tensor copies, mbarrier rings, wgmma, clusters (tests/unit/ptxsim_nvcc_matrix.c).
#include <stdint.h>
#include <cuda_fp16.h>

struct alignas(64) TensorMap { uint64_t opaque[16]; };

static __device__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ void barrier_init(uint64_t *b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
static __device__ void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
static __device__ void barrier_expect(uint64_t *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
static __device__ void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
static __device__ void barrier_wait(uint64_t *b, int parity) {
    asm volatile("{\n.reg .pred done;\nAGAIN_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN_%=;\n}" ::"r"(shared_address(b)), "r"(parity) : "memory");
}
static __device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
static __device__ void load_box(void *to, const TensorMap *map, int x, int y, uint64_t *b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(b)) : "memory");
}

// Copies a matrix box by box, 16 rows of 32 floats: tensor loads three ahead, doubled in place, tensor stores behind.
extern "C" __global__ void double_boxes(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to, int rows) {
    constexpr int STAGES = 3, BOX = 16 * 32;
    __shared__ alignas(128) float s[STAGES][BOX];
    __shared__ uint64_t full[STAGES];
    const int steps = (rows + 15) / 16, x = blockIdx.x * 32;
    if (threadIdx.x == 0) {
        for (int k = 0; k < STAGES; k++) barrier_init(&full[k], 1);
        barrier_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int k = 0; k < STAGES && k < steps; k++) {
            barrier_expect(&full[k], BOX * 4);
            load_box(s[k], &from, x, k * 16, &full[k]);
        }
    for (int k = 0; k < steps; k++) {
        const int stage = k % STAGES;
        barrier_wait(&full[stage], k / STAGES % 2);
        for (int i = threadIdx.x; i < BOX; i += blockDim.x) s[stage][i] *= 2;
        fence_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to), "r"(x),
                         "r"(k * 16), "r"(shared_address(s[stage])) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            if (k + STAGES < steps) {
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                barrier_expect(&full[stage], BOX * 4);
                load_box(s[stage], &from, x, (k + STAGES) * 16, &full[stage]);
            }
        }
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Warp 0 streams rows of 256 floats through a ring of bulk copies, four consumer warps add them up.
extern "C" __global__ void ring_sum(const float *x, float *y, int rows) {
    constexpr int STAGES = 4;
    __shared__ alignas(128) float s[STAGES][256];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int k = 0; k < STAGES; k++) barrier_init(&full[k], 1), barrier_init(&empty[k], 128);
        barrier_fence();
    }
    __syncthreads();
    x += (size_t)blockIdx.x * rows * 256;
    if (threadIdx.x < 32) {
        if (threadIdx.x) return;
        for (int k = 0; k < rows; k++) {
            const int stage = k % STAGES;
            barrier_wait(&empty[stage], k / STAGES % 2 ^ 1);
            barrier_expect(&full[stage], 1024);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(
                             shared_address(s[stage])), "l"(x + k * 256), "r"(shared_address(&full[stage])) : "memory");
        }
        return;
    }
    const int t = threadIdx.x - 32;
    float sum[2] = {};
    for (int k = 0; k < rows; k++) {
        const int stage = k % STAGES;
        barrier_wait(&full[stage], k / STAGES % 2);
        sum[0] += s[stage][t];
        sum[1] += s[stage][t + 128];
        barrier_arrive(&empty[stage]);
    }
    y[blockIdx.x * 256 + t] = sum[0];
    y[blockIdx.x * 256 + t + 128] = sum[1];
}

// Rows of 128 bytes, swizzled by 128 bytes, groups of 8 rows 1024 bytes apart.
static __device__ uint64_t descriptor(const void *p) {
    return (uint64_t)(shared_address(p) >> 4 & 0x3fff) | 1ull << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

static __device__ void product(float (&d)[16], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, 0, 0;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
                   "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(a), "l"(b), "r"(add) : "memory");
}

// C[M, N] = A[M, K] B[N, K]^T in tiles of 64 x 64, K in steps of 64: one warpgroup copies, two multiply, 32 columns each.
extern "C" __global__ void __launch_bounds__(384, 1)
gemm_wgmma(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *c, int n, int k) {
    constexpr int STAGES = 2;
    __shared__ alignas(1024) __half sa[STAGES][64 * 64], sb[STAGES][64 * 64];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(&full[s], 1), barrier_init(&empty[s], 256);
        barrier_fence();
    }
    __syncthreads();
    const int steps = (k + 63) / 64;
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int t = 0; t < steps; t++) {
                const int s = t % STAGES;
                barrier_wait(&empty[s], t / STAGES % 2 ^ 1);
                barrier_expect(&full[s], 2 * 64 * 64 * 2);
                load_box(sa[s], &a, t * 64, blockIdx.y * 64, &full[s]);
                load_box(sb[s], &b, t * 64, blockIdx.x * 64, &full[s]);
            }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int half = threadIdx.x / 128 - 1;
    float d[16];
    for (int t = 0; t < steps; t++) {
        const int s = t % STAGES;
        barrier_wait(&full[s], t / STAGES % 2);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int h = 0; h < 4; h++)
            product(d, descriptor(sa[s]) + h * 2, descriptor(sb[s] + half * 32 * 64) + h * 2, t || h);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        barrier_arrive(&empty[s]);
    }
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    for (int i = 0; i < 16; i++)
        c[(blockIdx.y * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8) * n + blockIdx.x * 64 + half * 32 + i / 4 * 8 + lane % 4 * 2 +
          i % 2] = d[i];
}

// Four blocks of a cluster add their parts through distributed shared memory; every one writes a quarter of the sum.
extern "C" __global__ void __cluster_dims__(4) cluster_sum(const int *x, int *y) {
    __shared__ int part[128];
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    part[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x < 32) {
        int sum = 0;
        for (uint32_t r = 0; r < 4; r++) {
            uint32_t at;
            int v;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(&part[rank * 32 + threadIdx.x])), "r"(r));
            asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
            sum += v;
        }
        y[blockIdx.x / 4 * 128 + rank * 32 + threadIdx.x] = sum;
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
