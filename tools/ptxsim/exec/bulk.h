/* What bulk and tensor copies share: where their shared memory lies, whom they signal, reductions. */
#pragma once
#include "tools/ptxsim/exec/mbarrier.h"

enum { MAX_CLUSTER = 16 };

/* Shared memory that a copy writes, once per block of a multicast, and the object there that it signals. */
typedef struct Target {
    Range range;
    Mbarrier *mbarrier; /* at issue */
    Block *block;       /* of the object, and where: it may be gone when the copy lands */
    uint32_t offset;
} Target;

typedef struct Targets {
    Target item[MAX_CLUSTER];
    int count;
} Targets;

/* Resolves [to] and [mbarrier] for every block that the copy goes to; false with a finding when one is wrong. */
bool targets_find(Warp *, int lane, const CopyForm *, uint32_t bytes, uint32_t align, Targets *);
/* Marks them as written by the operation; destroys what they hold unless the copy adds to it. */
void targets_mark(Warp *, AsyncOp *, const Targets *, bool reduces);
/* Signals `bytes` to each, for AsyncOp.complete. */
void targets_complete(AsyncOp *, const Targets *, uint64_t bytes);
/* A new operation of the async proxy; with `store` also the one that names its reads. */
AsyncOp *bulk_new(Warp *, int lane, bool store);
/* `bytes` of elements at `to` combined with those at `from`. */
void reduce_bytes(int op, PtxType, uint8_t *to, const uint8_t *from, size_t bytes);
