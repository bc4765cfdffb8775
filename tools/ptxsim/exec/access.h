/* Accesses to memory: where the bytes lie, and every check on the way there.  All loads, stores, atomics, matrix loads
 * and asynchronous copies pass through here. */
#pragma once
#include "tools/ptxsim/exec/exec.h"

typedef enum AccessKind {
    ACCESS_READ,
    ACCESS_WRITE,
    ACCESS_ATOMIC, /* reads and writes; no race with other ordered or atomic accesses */
} AccessKind;

/* Where the bytes of a warp's access lie. */
typedef enum PlaceShape {
    PLACE_SCATTER, /* lane[l] */
    PLACE_ROW,     /* first + l * bytes; `first` is lane 0's, though it may be off */
    PLACE_SAME     /* first, for every lane */
} PlaceShape;
typedef struct Places {
    PlaceShape shape;
    bool overlap;            /* stores: lanes may share bytes; they must agree on the values */
    uint32_t global, shared; /* lanes in those spaces */
    uint8_t *first;
    uint8_t *lane[WARP];     /* NULL: refused or off */
} Places;

/* As warp_access; `scope`: WEAK or SCOPED_* (shadow.h). */
void warp_places(Warp *w, Space space, AccessKind kind, uint8_t scope, const uint64_t address[WARP], int bytes,
                 uint32_t mask, Places *out);
void places_spread(Places *, int bytes, uint32_t mask, uint8_t *place[WARP]);
/* access_count.c: sectors, bytes, bank conflicts, for launches with figures. */
void count_access(Warp *w, bool write, const uint64_t *address, int bytes, uint32_t global, uint32_t shared);
/* The same for an asynchronous copy's global side; nothing where no figures are wanted. */
void count_range(Warp *w, bool write, uint64_t address, uint64_t bytes);

/* The lanes in `mask` each access `bytes` (1, 2, 4, 8, 16) at address[lane] in the generic proxy.  Checks alignment,
 * bounds, that what is read was written, races with other agents; marks the access; counts it.  place[lane] is where
 * the bytes lie; NULL where the access was refused and must not happen (a load gives 0).  `ordered`: volatile, relaxed,
 * acquire, release, atomic.  Findings name w->at. */
void warp_access(Warp *w, Space space, AccessKind kind, bool ordered, const uint64_t address[WARP], int bytes,
                 uint32_t mask, uint8_t *place[WARP]);

/* What a load, store or atomic names: an address per lane, and the bytes of one. */
static inline void access_addresses(const Warp *w, const Inst *i, uint64_t address[WARP]) {
    if (i->a.bytes == 8) {
        const uint64_t *a = lane_in(w, &i->a);
        for (int l = 0; l < WARP; l++) address[l] = a[l] + (uint64_t)i->offset;
    } else {
        const uint32_t *a = lane_in(w, &i->a);
        for (int l = 0; l < WARP; l++)
            address[l] = (uint32_t)(a[l] + (uint32_t)i->offset); /* wraps as its register does */
    }
}

static inline int access_bytes(const Inst *i) { return type_bytes((PtxType)i->type) * (i->count ? i->count : 1); }

/* Bytes in a row that an asynchronous operation will touch. */
typedef struct Range {
    uint8_t *data;
    Space space;                  /* SPACE_GLOBAL or SPACE_SHARED */
    Block *block;                 /* SPACE_SHARED: whose */
    const Allocation *allocation; /* SPACE_GLOBAL */
    uint64_t offset;              /* from the start of the block's shared memory, or of the allocation */
    uint64_t address;
    uint32_t bytes;
} Range;

/* Resolves and checks bounds and alignment for `lane`, the one that issues; false, with a finding made, otherwise.
 * Shared addresses may name another block of the cluster. */
bool range_find(Warp *, int lane, Space, uint64_t address, uint32_t bytes, uint32_t align, bool write, Range *out);

/* An asynchronous operation reads / will write the range.  Called at issue: what conflicts and did not happen before
 * the issuing warp's present is a race; in the async proxy (`op->async_proxy`) generic writes must also be fenced.
 * Marks the bytes with the operation's stamp, so that whoever touches them before having waited is found. */
void range_read(Warp *, int lane, const struct AsyncOp *, const Range *);
void range_write(Warp *, int lane, const struct AsyncOp *, const Range *);
/* range_write of an operation that will store `value`, r->bytes of it: where another store left the same, that is a
 * finding of its own kind. */
void range_store(Warp *, int lane, const struct AsyncOp *, const Range *, const uint8_t *value);
/* 0xff over what will be written: who does not wait computes with NaNs. */
void range_poison(const Range *);
/* Global memory, whole words that this warp has just written: as if nobody ever had.  Only where one host thread runs all
 * blocks. */
void range_forget(Warp *, const Range *);
