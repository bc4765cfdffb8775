/* Asynchronous operations: copies (cp.async, bulk, tensor), wgmma.  An operation is issued by a warp, marks what it
 * reads and will write (access.h), and lands later: its bytes move when the schedule says so, as early, as late or as
 * randomly as the rules allow.  Who waits for it in the way its kind defines has it in its past (clock.h).
 * Source: PTX ISA, "Asynchronous operations", "Data Movement and Conversion Instructions: Asynchronous copy",
 * "Async-group mechanism", "Mbarrier-based mechanism", "Async proxy". */
#pragma once
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/ptx/forms.h"

/* When operations land.  PTXSIM_LANDING=early|late|random says; else the seed draws one, and seed 0 means late: nothing
 * moves before somebody waits for it in the way the ISA asks. */
typedef enum Landing { LAND_EARLY, LAND_LATE, LAND_RANDOM } Landing;

typedef struct AsyncOp AsyncOp;
struct AsyncOp {
    uint16_t agent;        /* in the cluster's clocks */
    Time time;
    bool async_proxy;      /* bulk, tensor, wgmma; cp.async is of the generic proxy */
    bool landed;           /* its bytes have moved */
    bool reads_done;       /* bulk stores: the source has been read (wait_group.read) */
    bool waited;           /* somebody did; what is left without at the end is reported */
    bool reduces;          /* adds to its destination, atomically: no race with others that do */
    bool signals;          /* an mbarrier, which reports it when nobody waits there */
    Warp *warp;            /* issuer; lives as long as the cluster */
    const Inst *inst;      /* for findings */
    int lane;
    uint32_t lanes;        /* cp.async: every lane that takes part */
    AsyncOp *reader;       /* bulk stores: names the reads apart from the writes, as .read waits for them alone */
    void (*read)(AsyncOp *);    /* takes the source's bytes; NULL: `land` does */
    void (*land)(AsyncOp *);    /* moves the bytes; NULL: there are none */
    void (*complete)(AsyncOp *);/* tells whom it signals (mbarrier); NULL: groups only */
    void (*drop)(AsyncOp *);    /* frees `data`; NULL: there is none */
    void *data;
    AsyncOp *next;         /* in the cluster's queue, oldest first */
    uint32_t references;   /* groups, queue, readers and arrivals that hold it */
};

/* A new operation in the issuing warp's cluster, not queued yet; NULL and the cluster stuck without memory. */
AsyncOp *async_new(Warp *, int lane);
/* After its ranges are marked and poisoned: may land from now on (with LAND_EARLY at once).  The queue takes over the
 * reference that async_new gave. */
void async_issue(AsyncOp *);
/* Lands this operation now. */
void async_land(AsyncOp *);
/* Reads its source now, if that is apart from landing. */
void async_read(AsyncOp *);
void async_hold(AsyncOp *);    /* one more reference */
void async_release(AsyncOp *); /* drops a reference */
/* Between slices of warps: lands some, as the schedule says.  With `force` at least one, when any can; false if none.
 */
bool async_progress(struct Cluster *, bool force);
void async_end(struct Cluster *); /* lands the rest when the cluster ends; reports those nobody waited for */

/* ---- async-groups ------------------------------------------------------------------------------------- */
/* Groups are per thread; here a warp keeps them with the lanes that each still belongs to. */

/* The operation joins what its lanes have not committed yet. */
void group_add(AsyncOp *, GroupKind);
void group_commit(Warp *, GroupKind, uint32_t mask);
/* Each lane in `mask` waits until at most `left` of its latest groups are pending; with `reads`, until they only have
 * read their sources. */
void group_wait(Warp *, GroupKind, uint32_t mask, uint32_t left, bool reads);
/* Calls `visit` for every cp.async of these lanes that is in no group yet or not waited for. */
void group_each(Warp *, GroupKind, uint32_t mask, void (*visit)(AsyncOp *, void *), void *data);

static inline uint64_t pointer_at(const Warp *w, const Pointer *p, int lane) {
    return address_bits(w, &p->base, p->offset, lane);
}

/* ---- shared by the copies ----------------------------------------------------------------------------- */
/* One element, old from the destination: PTX ISA, "cp.reduce.async.bulk". */
uint64_t reduce_element(int op, PtxType, uint64_t old, uint64_t value);
/* Adds the bytes of a copy to or from global memory to the counters. */
void count_copy(Warp *, const Range *, bool store);
