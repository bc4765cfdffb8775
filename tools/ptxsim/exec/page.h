/* The shadow of global memory, by pages of the device's addresses.  A cluster that runs beside others on the host's
 * cores has pages of its own; when it ends, they are merged into the launch's record in the order of the clusters, so
 * that what is found does not depend on the host's timing.  Where one host thread runs all clusters they share the
 * pages. */
#pragma once
#include "tools/ptxsim/exec/shadow.h"

enum { PAGE_SHIFT = 12, PAGE_BYTES = 1 << PAGE_SHIFT, PAGE_WORDS = PAGE_BYTES / 4, PAGE_WAYS = 64 };

typedef struct Page {
    uint64_t number; /* address >> PAGE_SHIFT */
    const Allocation *allocation;
    uint8_t *data, *written; /* of byte `from` */
    uint32_t from, to;       /* bytes of the page that lie in the allocation; `from` is a multiple of 4 */
    const Inst *writer, *reader; /* the last instructions that did */
    Shadow shadow;
    struct Page *next;
    uint32_t word[]; /* the shadow's arrays */
} Page;

typedef struct PageTable {
    Page **slot;
    uint32_t count, slots; /* slots: a power of two */
    Page *first;
} PageTable;

/* The pages of a warp's last accesses. */
typedef struct PageCache {
    Page *way[PAGE_WAYS];
} PageCache;

/* Of a launch. */
typedef struct LaunchShadow LaunchShadow;
LaunchShadow *launch_shadow_new(bool shared_pages); /* NULL without memory */
/* Marks as written what the launch wrote, and frees. */
void launch_shadow_end(LaunchShadow *);

/* A cluster could not be started: nobody waits for its turn. */
void launch_shadow_fail(LaunchShadow *);

/* Of a cluster; false without memory. */
bool cluster_shadow_start(Cluster *);
/* Merges its pages and frees the cluster when its turn has come, now or after a lower one; waits when too many do. */
void cluster_shadow_end(Cluster *);

/* The page with this number, NULL when no allocation lies there (or without memory: launch->out_of_memory). */
Page *page_find(Warp *, uint64_t number);

static inline Page *page_at(Warp *w, uint64_t address) {
    const uint64_t n = address >> PAGE_SHIFT;
    Page *p = w->pages->way[(n ^ n >> 6) % PAGE_WAYS];
    return p && p->number == n ? p : page_find(w, n);
}
