// Cooperative groups: grid-wide barriers, tiles beyond a warp, coalesced groups; waits through scoped atomics; printf and
// assert.  nvcc.sh makes cooperative.ptx of it.
#include <cassert>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cuda/atomic>

namespace cg = cooperative_groups;

// Every step reads the neighbours that other blocks wrote in the step before.
extern "C" __global__ void smooth(float *a, float *b, int n, int steps) {
    const cg::grid_group grid = cg::this_grid();
    for (int s = 0; s < steps; s++) {
        const float *x = s % 2 ? b : a;
        float *y = s % 2 ? a : b;
        for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size())
            y[i] = i == 0 || i == n - 1 ? x[i] : 0.5f * (x[i - 1] + x[i + 1]);
        grid.sync();
    }
}

// One launch: partial sums, a split arrive and wait of the grid, the sum of sums.
extern "C" __global__ void grid_sum(const int *x, int *part, int *out, int n) {
    cg::grid_group grid = cg::this_grid();
    const cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    __shared__ int s[32];
    int v = 0;
    for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size()) v += x[i];
    v = cg::reduce(warp, v, cg::plus<int>());
    if (warp.thread_rank() == 0) s[warp.meta_group_rank()] = v;
    block.sync();
    if (block.thread_rank() == 0) {
        int sum = 0;
        for (unsigned k = 0; k < warp.meta_group_size(); k++) sum += s[k];
        part[grid.block_rank()] = sum;
    }
    auto token = grid.barrier_arrive();
    grid.barrier_wait(std::move(token));
    if (grid.thread_rank()) return;
    *out = 0;
    for (unsigned k = 0; k < grid.num_blocks(); k++) *out += part[k];
}

// Tiles of two warps: their barriers are in shared memory that the system reserves.
extern "C" __global__ void pairs_of_warps(const int *x, int *y) {
    __shared__ cg::block_tile_memory<256> memory;
    const auto block = cg::this_thread_block(memory);
    const auto tile = cg::tiled_partition<64>(block);
    const unsigned t = block.thread_rank();
    y[t] = cg::reduce(tile, x[t], cg::plus<int>()) + tile.shfl(x[t], 3);
    tile.sync();
    if (tile.any(x[t] == 7)) y[t]++;
}

// Those that are there count themselves with one atomic.
extern "C" __global__ void keep_positive(const int *x, int *y, int *count, int n) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n || x[i] <= 0) return;
    const auto here = cg::coalesced_threads();
    int at = 0;
    if (here.thread_rank() == 0) at = atomicAdd(count, (int)here.size());
    y[here.shfl(at, 0) + here.thread_rank()] = x[i];
}

// Block 0 publishes, the others wait for it.
extern "C" __global__ void publish(int *value, int *flag, int *y) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        *value = 42;
        ready.store(1, cuda::memory_order_release);
    } else {
        ready.wait(0, cuda::memory_order_acquire);
        y[blockIdx.x] = *value + (int)blockIdx.x;
    }
}

extern "C" __global__ void say(const int *x) {
    printf("%d: %5.2f %s %c %llx %u%%\n", x[threadIdx.x], x[threadIdx.x] * 0.5, "text", 'a' + threadIdx.x,
           (unsigned long long)x[threadIdx.x] << 32, 7u);
}

extern "C" __global__ void all_positive(const int *x) { assert(x[threadIdx.x] > 0); }
