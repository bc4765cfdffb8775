// Kernels of ordinary CUDA C++: what another compiler makes of them runs on the software GPU (tests/unit/ptxsim_nvcc.c).
#include <stdint.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void block_sum(const float *x, float *out, int n) {
    __shared__ float part[32];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[blockIdx.x * n + i];
    for (int k = 16; k; k >>= 1) s += __shfl_xor_sync(0xffffffffu, s, k);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int k = 16; k; k >>= 1) s += __shfl_down_sync(0xffffffffu, s, k);
        if (threadIdx.x == 0) out[blockIdx.x] = s;
    }
}

extern "C" __global__ void scan(const int *x, int *y) { // inclusive, one block of 256
    __shared__ int a[256];
    const int t = threadIdx.x;
    a[t] = x[t];
    __syncthreads();
    for (int k = 1; k < 256; k *= 2) {
        const int v = t >= k ? a[t - k] : 0;
        __syncthreads();
        a[t] += v;
        __syncthreads();
    }
    y[t] = a[t];
}

extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k) { // 16 x 16 tiles
    __shared__ float ta[16][17], tb[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float s = 0;
    for (int t = 0; t < k; t += 16) {
        ta[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0;
        tb[threadIdx.y][threadIdx.x] = t + threadIdx.y < k && col < n ? b[(t + threadIdx.y) * n + col] : 0;
        __syncthreads();
        for (int j = 0; j < 16; j++) s = fmaf(ta[threadIdx.y][j], tb[j][threadIdx.x], s);
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = s;
}

extern "C" __global__ void histogram(const uint8_t *x, unsigned *bins, int n) {
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recursion(int *y) { y[threadIdx.x] = ackermann(2, threadIdx.x % 4); }

extern "C" __global__ void halves(const float *x, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __half h = __float2half_rn(x[i]), g = __hfma(h, h, __float2half(1.0f));
    const __nv_bfloat16 b = __float2bfloat16(x[i]);
    y[2 * i] = __half2float(g);
    y[2 * i + 1] = __bfloat162float(b) + __half2float(__hadd(h, h));
}

extern "C" __global__ void functions(const float *x, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    float *o = y + 8 * i;
    o[0] = expf(v);
    o[1] = logf(fabsf(v) + 0.5f);
    o[2] = sinf(v);
    o[3] = tanhf(v);
    o[4] = v / 3.0f;
    o[5] = sqrtf(fabsf(v));
    o[6] = erff(v);
    o[7] = powf(fabsf(v) + 0.1f, 1.7f);
}

extern "C" __global__ void integers(const int64_t *x, int64_t *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int64_t a = x[i], b = (i % 7) - 3, d = b ? b : 5;
    int64_t *o = y + 8 * i;
    o[0] = a / d;
    o[1] = a % d;
    o[2] = (int64_t)((uint64_t)a / (uint64_t)(i + 1));
    o[3] = __popcll(a) + __clzll(a) + __ffs((int)a);
    o[4] = (int64_t)__brev((unsigned)a) + __byte_perm((unsigned)a, (unsigned)(a >> 32), 0x2635);
    o[5] = __mul64hi(a, a) + __mulhi((int)a, (int)(a >> 32));
    o[6] = (int32_t)a / (int32_t)d + (int16_t)a % (int16_t)d + ((uint8_t)a >> 3);
    o[7] = a > 0 ? a << (i & 31) : a >> (i & 31);
    switch (i % 9) {
    case 0: o[7] += 11; break;
    case 1: o[7] ^= 12345; break;
    case 2: o[7] -= 3; break;
    case 3: o[7] *= 5; break;
    case 4: o[7] |= 77; break;
    case 5: o[7] &= ~77; break;
    default: break;
    }
}
