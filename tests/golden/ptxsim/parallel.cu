// Reductions, scans, rows and pipelines of ordinary CUDA C++ (tests/unit/ptxsim_nvcc_parallel.c).
#include <stdint.h>

static __device__ int warp_sum(int v) {
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
    return v;
}

// Every warp adds its part to the result atomically.
extern "C" __global__ void sum_atomic(const int *x, int *out, int n) {
    int v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) atomicAdd(out, v);
}

// A tree in shared memory, blocks of 256; the last steps inside one warp.
static __device__ int block_sum(int v, int *s) {
    const int t = threadIdx.x;
    s[t] = v;
    for (int k = 128; k >= 32; k /= 2) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    if (t < 32) {
        for (int k = 16; k; k /= 2) {
            __syncwarp();
            const int w = t < k ? s[t + k] : 0;
            __syncwarp();
            s[t] += w;
        }
    }
    __syncthreads();
    return s[0];
}

extern "C" __global__ void sum_tree(const int *x, int *out, int n) {
    __shared__ int s[256];
    const int i = blockIdx.x * 256 + threadIdx.x, v = block_sum(i < n ? x[i] : 0, s);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

// The block that comes last adds the parts of all, in their order.
extern "C" __global__ void sum_last_block(const float *x, float *part, unsigned *ticket, float *out, int n) {
    __shared__ float s[4];
    __shared__ bool last;
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last || threadIdx.x) return;
    float sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += part[b];
    *out = sum;
}

// Exclusive, one block of 256 threads with two elements each: up-sweep and down-sweep of a balanced tree.
extern "C" __global__ void scan_blelloch(const int *x, int *y) {
    __shared__ int s[512];
    const int t = threadIdx.x;
    s[2 * t] = x[2 * t];
    s[2 * t + 1] = x[2 * t + 1];
    int offset = 1;
    for (int d = 256; d; d >>= 1, offset *= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
    }
    if (t == 0) s[511] = 0;
    for (int d = 1; d < 512; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            const int i = offset * (2 * t + 1) - 1, j = offset * (2 * t + 2) - 1, v = s[i];
            s[i] = s[j];
            s[j] += v;
        }
    }
    __syncthreads();
    y[2 * t] = s[2 * t];
    y[2 * t + 1] = s[2 * t + 1];
}

// Inclusive over many blocks of 128 in one pass: each block publishes its sum, then looks back over those before it.
// A state is 0, or 1 and the block's own sum, or 2 and the sum up to its end; one word, so that both come together.
extern "C" __global__ void scan_look_back(const int *x, int *y, unsigned *order, unsigned long long *state, int n) {
    __shared__ int s[4], before, block;
    const int t = threadIdx.x;
    if (t == 0) block = atomicAdd(order, 1u);
    __syncthreads();
    const int i = block * 128 + t;
    int v = i < n ? x[i] : 0;
    for (int k = 1; k < 32; k *= 2) {
        const int w = __shfl_up_sync(0xffffffffu, v, k);
        if (t % 32 >= k) v += w;
    }
    if (t % 32 == 31) s[t / 32] = v;
    __syncthreads();
    for (int w = 0; w < t / 32; w++) v += s[w];
    if (t == 127) {
        volatile unsigned long long *const all = state;
        int sum = 0;
        all[block] = 1ull << 32 | (unsigned)v;
        for (int b = block - 1; b >= 0; b--) {
            unsigned long long got;
            while (!((got = all[b]) >> 32)) {
            }
            sum += (int)(unsigned)got;
            if (got >> 32 == 2) break;
        }
        all[block] = 2ull << 32 | (unsigned)(sum + v);
        before = sum;
    }
    __syncthreads();
    if (i < n) y[i] = v + before;
}

extern "C" __global__ void transpose(const float *x, float *y, int rows, int columns) { // blocks of 32 x 8
    __shared__ float s[32][33];
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.x;
    for (int k = threadIdx.y; k < 32; k += 8)
        if (c < columns && blockIdx.y * 32 + k < rows) s[k][threadIdx.x] = x[(blockIdx.y * 32 + k) * columns + c];
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += 8)
        if (r < rows && blockIdx.x * 32 + k < columns) y[(blockIdx.x * 32 + k) * rows + r] = s[threadIdx.x][k];
}

// A block of 128 per row; maximum and sum through shared memory.
extern "C" __global__ void softmax(const float *x, float *y, int n) {
    __shared__ float s[4];
    const int t = threadIdx.x;
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    float m = -INFINITY, sum = 0;
    for (int i = t; i < n; i += 128) m = fmaxf(m, x[i]);
    for (int k = 16; k; k >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, k));
    if (t % 32 == 0) s[t / 32] = m;
    __syncthreads();
    m = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
    for (int i = t; i < n; i += 128) sum += expf(x[i] - m);
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, k);
    __syncthreads();
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    sum = s[0] + s[1] + s[2] + s[3];
    for (int i = t; i < n; i += 128) y[i] = expf(x[i] - m) / sum;
}

// A warp per row: mean and variance in one read by Welford's rule.
extern "C" __global__ void layer_norm(const float *x, const float *scale, float *y, int rows, int n) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float mean = 0, m2 = 0, count = 0;
    for (int i = lane; i < n; i += 32) {
        const float d = x[row * n + i] - mean;
        count += 1;
        mean += d / count;
        m2 += d * (x[row * n + i] - mean);
    }
    for (int k = 16; k; k >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, mean, k), more = __shfl_xor_sync(0xffffffffu, m2, k);
        const float many = __shfl_xor_sync(0xffffffffu, count, k), d = other - mean, all = count + many;
        if (all > 0) mean += d * many / all, m2 += more + d * d * count * many / all;
        count = all;
    }
    const float r = rsqrtf(m2 / n + 1e-5f);
    for (int i = lane; i < n; i += 32) y[row * n + i] = (x[row * n + i] - mean) * r * scale[i];
}

static __device__ void named_sync(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }
static __device__ void named_arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }

// Warp 0 fills two slots in turn, warp 1 takes them: named barriers 1 and 2 say full, 3 and 4 empty.
extern "C" __global__ void hand_over(const int *x, int *y, int steps) {
    __shared__ int slot[2][32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int k = 0; k < steps; k++) {
            if (k >= 2) named_sync(3 + k % 2);
            slot[k % 2][lane] = 3 * x[k * 32 + lane];
            named_arrive(1 + k % 2);
        }
    } else {
        for (int k = 0; k < steps; k++) {
            named_sync(1 + k % 2);
            y[k * 32 + lane] = slot[k % 2][31 - lane];
            if (k + 2 < steps) named_arrive(3 + k % 2);
        }
    }
}
