/* Asynchronous operations: copies (cp.async, bulk, tensor), wgmma.  An operation is issued by a warp, marks what it reads
 * and will write (access.h), and lands later: its bytes move when the schedule says so, as early, as late or as
 * randomly as the rules allow.  Who waits for it in the way its kind defines has it in its past (clock.h). */
#pragma once
#include "tools/ptxsim/exec/exec.h"

/* When operations land; drawn from the seed unless PTXSIM_LANDING says early, late or random. */
typedef enum Landing { LAND_EARLY, LAND_LATE, LAND_RANDOM } Landing;

typedef struct AsyncOp AsyncOp;
struct AsyncOp {
    uint16_t agent;        /* in the cluster's clocks */
    Time time;
    bool async_proxy;      /* bulk, tensor, wgmma; cp.async is of the generic proxy */
    bool landed;           /* its bytes have moved */
    bool reads_done;       /* bulk stores: the source has been read (wait_group.read) */
    Warp *warp;            /* issuer; lives as long as the cluster */
    const Inst *inst;      /* for findings */
    int lane;
    void (*land)(AsyncOp *);    /* moves the bytes */
    void (*complete)(AsyncOp *);/* tells whom it signals (mbarrier); NULL: groups only */
    void (*drop)(AsyncOp *);    /* frees `data` */
    void *data;
    AsyncOp *next;         /* in the cluster's queue, oldest first */
    uint32_t references;   /* groups and queue that hold it */
};

/* A new operation in the issuing warp's cluster, not queued yet; NULL and the block stuck without memory. */
AsyncOp *async_new(Warp *, int lane);
/* After its ranges are marked and poisoned: may land from now on (with LAND_EARLY at once). */
void async_issue(AsyncOp *);
/* Lands this operation now, and what must land before it. */
void async_land(AsyncOp *);
void async_release(AsyncOp *); /* drops a reference */
/* Between slices of warps: lands some, as the schedule says.  With `force` at least one, when any can; false if none. */
bool async_progress(struct Cluster *, bool force);
void async_end(struct Cluster *); /* lands the rest when the cluster ends; reports those nobody waited for */
