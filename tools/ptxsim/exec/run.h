/* Warps and clusters that can stop and go on: a cluster runs until all its warps are done or a number of steps is spent. */
#pragma once
#include "tools/ptxsim/exec/exec.h"

/* False when the host has no memory for it. */
bool block_start(Block *, Cluster *, uint32_t rank, const uint32_t id[3]);
void block_count(Block *); /* sums its warps' figures */
void block_end(Block *);
uint32_t block_live_threads(const Block *);

/* NULL when the host has no memory for it. */
Cluster *cluster_start(Launch *, uint64_t linear, uint64_t position);
/* Runs every warp until the cluster is done (true) or each has taken about `slice` instructions (false). */
bool cluster_run(Cluster *, uint64_t slice);
/* Adds its figures to *sum and gives it up: it is freed when its part of the record is made (page.h). */
void cluster_end(Cluster *, Counters *sum);
void cluster_free(Cluster *);

bool warp_start(Warp *, Block *, int index);
void warp_end(Warp *);
/* Runs until the warp is done, waits at a barrier, or has taken `slice` instructions. */
void warp_run(Warp *, uint64_t slice);
/* A warp arrives (barrier.c); wakes who may go on. */
void barrier_arrive(Warp *, const Inst *, uint32_t mask);
/* After threads have exited: barriers may be complete now. */
void barriers_settle(Block *);
void cluster_settle(Cluster *); /* the same of barrier.cluster */
/* After the block: warpgroups whose warps did not all execute their setmaxnreg (exec_cluster.c). */
void registers_end(Block *);
