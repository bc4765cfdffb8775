/* Warps and blocks that can stop and go on: a block runs until all its warps are done or a number of steps is spent. */
#pragma once
#include "tools/ptxsim/exec/exec.h"

/* False when the host has no memory for it. */
bool block_start(Block *, Launch *, uint64_t linear);
/* Runs every warp until the block is done (true) or each has taken about `slice` instructions (false). */
bool block_run(Block *, uint64_t slice);
void block_end(Block *);

bool warp_start(Warp *, Block *, int index);
void warp_end(Warp *);
/* Runs until the warp is done, waits at a barrier, or has taken `slice` instructions. */
void warp_run(Warp *, uint64_t slice);
/* A warp arrives (barrier.c); wakes who may go on. */
void barrier_arrive(Warp *, const Inst *, uint32_t mask);
/* After threads have exited: barriers may be complete now. */
void barriers_settle(Block *);
