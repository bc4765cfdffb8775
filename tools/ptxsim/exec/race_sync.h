/* Order that passes through memory: releases and acquires of a location, and fences with ordered accesses around them.
 *
 * A location (the first word of an ordered access) keeps, for every block, cluster or device that released to it, what
 * was before.  A release leaves its warp's past there; a relaxed or volatile write leaves what lay before the warp's
 * last fence; a write that is no read-modify-write replaces what was there.  An acquire takes what its scope and the
 * release's both reach; a relaxed or volatile read is remembered until the warp's next fence.
 *
 * Fences of device scope count for the whole block when barriers pass them on: all threads store and fence, then one of
 * them, after a barrier, counts the block in with a relaxed atomic; it learns that it is the last, and after another
 * barrier all fence and read.  That is how CUDA C++ is written, though the ISA only speaks of one thread's pattern.
 * Source: PTX ISA, Memory Consistency Model: "Release and Acquire Patterns", "Scope". */
#pragma once
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/shadow.h"

/* After the checks of an ordered access, before its bytes move: for `lanes`, at address[lane].  `order`: ORDER_*. */
void sync_after_read(Warp *, Space, uint8_t order, uint8_t scope, const uint64_t address[WARP], uint32_t lanes);
void sync_before_write(Warp *, Space, uint8_t order, uint8_t scope, const uint64_t address[WARP], uint32_t lanes,
                       bool modifies);
/* membar and fence of a scope. */
void sync_fence(Warp *, uint8_t scope);
/* Relaxed operations on objects other than locations (mbarrier, barrier.cluster): leave what lay before the last fence;
 * remember for the next one. */
void sync_relaxed_release(Warp *, SyncClock *to);
void sync_relaxed_acquire(Warp *, const SyncClock *from);
/* What the warp's fences made visible and its relaxed reads met goes with its releases, and comes with acquires. */
bool fences_pass(Warp *, SyncClock *to);
void fences_take(Warp *, const SyncClock *from);
void fences_free(Warp *);
