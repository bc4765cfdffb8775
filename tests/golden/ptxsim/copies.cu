// Asynchronous copies as the CUDA C++ library writes them: pipelines, barriers, clusters (tests/unit/ptxsim_nvcc_copies.c).
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <stdint.h>

namespace cg = cooperative_groups;

// Every thread sums its words of `tiles` tiles, copied two ahead with cp.async through a pipeline of its own.
extern "C" __global__ void pipeline_sum(const int *x, int *y, int tiles) {
    __shared__ alignas(16) int s[3][128];
    auto pipe = cuda::make_pipeline();
    const int t = threadIdx.x;
    int sum = 0;
    for (int k = 0; k < 2 && k < tiles; k++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[k % 3][t], &x[k * 128 + t], sizeof(int), pipe);
        pipe.producer_commit();
    }
    for (int k = 0; k < tiles; k++) {
        pipe.producer_acquire();
        if (k + 2 < tiles) cuda::memcpy_async(&s[(k + 2) % 3][t], &x[(k + 2) * 128 + t], sizeof(int), pipe);
        pipe.producer_commit();
        cuda::pipeline_consumer_wait_prior<2>(pipe);
        sum += s[k % 3][t];
        pipe.consumer_release();
    }
    y[t] = sum;
}

// A block-wide copy, reversed, one barrier for all.
extern "C" __global__ void reverse_group(const int *x, int *y) {
    __shared__ alignas(16) int s[256];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x + blockIdx.x * 256, sizeof s);
    cg::wait(block);
    y[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}

// cuda::barrier: 8 rounds in which the threads pass their values on to the next one.
#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void rotate_barrier(const int *x, int *y) {
    __shared__ int s[2][96];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    int v = x[t];
    for (int k = 0; k < 8; k++) {
        s[k & 1][(t + 1) % 96] = v;
        bar.arrive_and_wait();
        v = s[k & 1][t] + k;
    }
    y[t] = v;
}

// One producer warp with cp.async.bulk through cuda::barrier transactions, three stages, one consumer warp.
extern "C" __global__ void bulk_ring(const int *x, int *y, int tiles) {
    __shared__ alignas(128) int s[3][32];
    __shared__ cuda::barrier<cuda::thread_scope_block> full[3], empty[3];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int k = 0; k < 3; k++) {
            init(&full[k], 1 + 32);
            init(&empty[k], 1 + 32);
        }
        cuda::device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    if (warp == 0) {
        for (int k = 0; lane == 0 && k < tiles; k++) {
            empty[k % 3].arrive_and_wait();
            cuda::device::experimental::cp_async_bulk_global_to_shared(s[k % 3], x + k * 32, sizeof s[0], full[k % 3]);
            (void)cuda::device::barrier_arrive_tx(full[k % 3], 1, sizeof s[0]);
        }
        return;
    }
    for (int k = 0; k < 3; k++) (void)empty[k].arrive();
    int sum = 0;
    for (int k = 0; k < tiles; k++) {
        full[k % 3].arrive_and_wait();
        sum += s[k % 3][lane] * (k + 1);
        (void)empty[k % 3].arrive();
    }
    y[lane] = sum;
}

// A histogram whose bins are spread over the shared memories of a cluster of 2.
extern "C" __global__ void __cluster_dims__(2, 1, 1) spread_histogram(const uint8_t *x, int *bins, int n) {
    __shared__ int s[128];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = 0;
    cluster.sync();
    for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads())
        atomicAdd(cluster.map_shared_rank(&s[x[i] % 128], x[i] / 128), 1);
    cluster.sync();
    atomicAdd(&bins[cluster.block_rank() * 128 + threadIdx.x], s[threadIdx.x]);
}
