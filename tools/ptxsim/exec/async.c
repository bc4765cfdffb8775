/* Operations in flight: their names in the clocks, when they land, and the groups that threads wait for. */
#include "tools/ptxsim/exec/async.h"
#include "tools/ptxsim/exec/mbarrier.h"
#include <stdio.h>
#include <stdlib.h>

/* Late operations still land after this many slices, so that a warp that polls something else is not starved. */
enum { PATIENCE = 4096, MOST_GROUPS = 64, NAMES = ASYNC_AGENTS - 1 /* the last stands for mbarrier objects */ };

typedef struct AsyncState {
    Landing landing;
    Time time[ASYNC_AGENTS];      /* last generation given out */
    uint16_t in_use[ASYNC_AGENTS];/* operations alive */
    uint32_t next;
    uint64_t last_landing;        /* in turns */
} AsyncState;

/* ---- life ---------------------------------------------------------------------------------------------- */
static Landing choose_landing(const Cluster *c) {
    const char *text = getenv("PTXSIM_LANDING");
    if (text && strcmp(text, "early") == 0) return LAND_EARLY;
    if (text && strcmp(text, "late") == 0) return LAND_LATE;
    if (text && strcmp(text, "random") == 0) return LAND_RANDOM;
    const uint64_t seed = c->launch->seed;
    return seed ? (Landing)((seed * UINT64_C(0x9e3779b97f4a7c15) + c->linear) >> 33) % 3 : LAND_LATE;
}

static AsyncState *state_of(Cluster *c) {
    if (c->async) return c->async;
    c->async = calloc(1, sizeof *c->async);
    if (c->async) c->async->landing = choose_landing(c);
    return c->async;
}

/* A name that no living operation has; when all have one, the next in turn is shared, which hides races only. */
static uint32_t free_agent(AsyncState *s) {
    for (uint32_t k = 0; k < NAMES; k++) {
        const uint32_t a = (s->next + k) % NAMES;
        if (s->in_use[a]) continue;
        s->next = a + 1;
        return a;
    }
    return s->next++ % NAMES;
}

AsyncOp *async_new(Warp *w, int lane) {
    Cluster *c = w->cluster;
    AsyncState *s = state_of(c);
    AsyncOp *op = s ? calloc(1, sizeof *op) : NULL;
    if (!op) {
        cluster_no_memory(c);
        return NULL;
    }
    const uint32_t a = free_agent(s);
    s->in_use[a]++;
    if (s->time[a] < LAST_TIME) s->time[a]++;
    *op = (AsyncOp){.agent = (uint16_t)(c->warps + (int)a), .time = s->time[a], .warp = w, .inst = w->at, .lane = lane,
                    .lanes = UINT32_C(1) << lane, .references = 1};
    c->issued++;
    return op;
}

void async_hold(AsyncOp *op) { op->references++; }

void async_release(AsyncOp *op) {
    if (!op || --op->references) return;
    op->warp->cluster->async->in_use[op->agent - op->warp->cluster->warps]--;
    async_release(op->reader);
    if (op->drop) op->drop(op);
    free(op);
}

void async_issue(AsyncOp *op) {
    Cluster *c = op->warp->cluster;
    AsyncOp **end = &c->queue;
    while (*end) end = &(*end)->next;
    *end = op;
    if (c->async->landing == LAND_EARLY) async_land(op);
}

static void unlink_op(Cluster *c, const AsyncOp *op) {
    for (AsyncOp **p = &c->queue; *p; p = &(*p)->next)
        if (*p == op) {
            *p = op->next;
            return;
        }
}

void async_read(AsyncOp *op) {
    if (op->reads_done || op->landed) return;
    op->reads_done = true;
    if (op->read) op->read(op);
}

void async_land(AsyncOp *op) {
    Cluster *c = op->warp->cluster;
    if (op->landed) return;
    async_read(op);
    op->landed = true;
    if (op->land) op->land(op);
    if (op->complete) op->complete(op);
    c->async->last_landing = c->turns;
    c->idle = 0;
    unlink_op(c, op);
    async_release(op);
}

/* ---- the schedule --------------------------------------------------------------------------------------- */
static bool land_some(Cluster *c) {
    bool any = false;
    for (AsyncOp *op = c->queue, *next; op; op = next) {
        next = op->next;
        if (random_next(c) & 3) continue;
        async_land(op);
        any = true;
        next = c->queue; /* landing may land others: starts over, the rest keeps its chance */
        if (random_next(c) & 1) break;
    }
    return any;
}

static AsyncOp *pick_op(Cluster *c) {
    uint64_t n = 0;
    for (AsyncOp *op = c->queue; op; op = op->next) n++;
    n = c->launch->seed && n ? random_next(c) % n : 0;
    AsyncOp *op = c->queue;
    while (n--) op = op->next;
    return op;
}

bool async_progress(Cluster *c, bool force) {
    if (!c->queue) return false;
    if (!force && c->async->landing == LAND_RANDOM) return land_some(c);
    if (!force && c->turns - c->async->last_landing < PATIENCE) return false;
    async_land(pick_op(c));
    return true;
}

/* ---- groups --------------------------------------------------------------------------------------------- */
typedef struct AsyncGroup {
    uint32_t mask; /* lanes that have not waited for it; of the open group, unused */
    AsyncOp **op;
    uint32_t *lanes; /* of each operation, those that belong to this group */
    int count, capacity;
} AsyncGroup;

typedef struct GroupList {
    AsyncGroup open, *closed; /* closed: oldest first */
    int count, capacity;
    Time dropped[ASYNC_AGENTS]; /* of groups that only .read was ever waited for, and that are too old to keep */
} GroupList;

typedef struct AsyncGroups {
    GroupList kind[GROUP_KINDS];
} AsyncGroups;

static GroupList *groups_of(Warp *w, GroupKind k) {
    if (!w->groups) w->groups = calloc(1, sizeof *w->groups);
    if (!w->groups) cluster_no_memory(w->cluster);
    return w->groups ? &w->groups->kind[k] : NULL;
}

static bool group_push(AsyncGroup *g, AsyncOp *op, uint32_t lanes) {
    if (g->count == g->capacity) {
        const int capacity = g->capacity ? 2 * g->capacity : 4;
        AsyncOp **ops = realloc(g->op, sizeof *ops * (size_t)capacity);
        if (!ops) return false;
        g->op = ops;
        uint32_t *masks = realloc(g->lanes, sizeof *masks * (size_t)capacity);
        if (!masks) return false;
        g->lanes = masks;
        g->capacity = capacity;
    }
    g->op[g->count] = op;
    g->lanes[g->count++] = lanes;
    async_hold(op);
    return true;
}

static void group_free(AsyncGroup *g) {
    for (int k = 0; k < g->count; k++) async_release(g->op[k]);
    free(g->op);
    free(g->lanes);
    *g = (AsyncGroup){0};
}

void group_add(AsyncOp *op, GroupKind k) {
    GroupList *list = groups_of(op->warp, k);
    if (list && !group_push(&list->open, op, op->lanes)) cluster_no_memory(op->warp->cluster);
}

void group_commit(Warp *w, GroupKind k, uint32_t mask) {
    GroupList *list = groups_of(w, k);
    if (!list) return;
    if (list->count == list->capacity) {
        const int capacity = list->capacity ? 2 * list->capacity : 8;
        AsyncGroup *grown = realloc(list->closed, sizeof *grown * (size_t)capacity);
        if (!grown) {
            cluster_no_memory(w->cluster);
            return;
        }
        list->closed = grown;
        list->capacity = capacity;
    }
    AsyncGroup *g = &list->closed[list->count++], *open = &list->open;
    *g = (AsyncGroup){.mask = mask};
    int kept = 0;
    for (int n = 0; n < open->count; n++) {
        const uint32_t lanes = open->lanes[n] & mask, rest = open->lanes[n] & ~mask;
        if (lanes && !group_push(g, open->op[n], lanes)) cluster_no_memory(w->cluster);
        open->op[kept] = open->op[n];
        open->lanes[kept] = rest;
        if (rest) kept++;
        else async_release(open->op[kept]);
    }
    open->count = kept;
}

static void observe(Warp *w, AsyncOp *op, GroupKind k, bool reads) {
    if (reads && op->reader) {
        async_read(op);
        op->waited = true;
        clock_observe(w, op->reader->agent, op->reader->time, false);
        return;
    }
    async_land(op);
    op->waited = true;
    clock_observe(w, op->agent, op->time, k == GROUP_COPY);
    if (op->reader) clock_observe(w, op->reader->agent, op->reader->time, false);
}

/* The lanes of `done` have waited for this group; nothing is left of it for them unless only for its reads. */
static void group_done(Warp *w, AsyncGroup *g, GroupKind k, uint32_t done, bool reads) {
    if (!done) return;
    for (int n = 0; n < g->count; n++) {
        AsyncOp *op = g->op[n];
        async_hold(op); /* landing may drop it elsewhere */
        if (g->lanes[n] & done) observe(w, op, k, reads);
        async_release(op);
    }
    if (!reads) g->mask &= ~done;
}

/* Bulk stores of which only the reads are ever waited for: the oldest land and leave, but keep their names. */
static void drop_oldest(GroupList *list) {
    for (int n = 0; n < list->count - MOST_GROUPS; n++) {
        AsyncGroup *g = &list->closed[n];
        for (int j = 0; j < g->count; j++) {
            const AsyncOp *op = g->op[j];
            const int a = op->agent - op->warp->cluster->warps;
            async_hold(g->op[j]);
            async_land(g->op[j]);
            if (list->dropped[a] < op->time) list->dropped[a] = op->time;
            async_release(g->op[j]);
        }
        g->mask = 0;
    }
}

/* The newest groups come first: of each lane, `left` may stay pending. */
void group_wait(Warp *w, GroupKind k, uint32_t mask, uint32_t left, bool reads) {
    uint32_t seen[WARP] = {0};
    GroupList *list = groups_of(w, k);
    if (!list) return;
    for (int n = list->count - 1; n >= 0; n--) {
        uint32_t done = 0;
        for (int l = 0; l < WARP; l++)
            if (list->closed[n].mask & mask & UINT32_C(1) << l) done |= (uint32_t)(seen[l]++ >= left) << l;
        group_done(w, &list->closed[n], k, done, reads);
    }
    for (int a = 0; !reads && a < ASYNC_AGENTS; a++)
        if (list->dropped[a]) clock_observe(w, (uint32_t)(w->cluster->warps + a), list->dropped[a], false);
    if (list->count > MOST_GROUPS && reads) drop_oldest(list);
    int kept = 0;
    for (int n = 0; n < list->count; n++) {
        if (list->closed[n].mask) list->closed[kept++] = list->closed[n];
        else group_free(&list->closed[n]);
    }
    list->count = kept;
}

void group_each(Warp *w, GroupKind k, uint32_t mask, void (*visit)(AsyncOp *, void *), void *data) {
    GroupList *list = groups_of(w, k);
    if (!list) return;
    for (int n = 0; n <= list->count; n++) {
        const AsyncGroup *g = n < list->count ? &list->closed[n] : &list->open;
        for (int j = 0; j < g->count; j++)
            if (g->lanes[j] & mask) visit(g->op[j], data);
    }
}

/* ---- the end -------------------------------------------------------------------------------------------- */
static void report_unwaited(AsyncOp *op, const char *note) {
    op->waited = true;
    op->warp->at = op->inst;
    warp_report(op->warp, REPORT_MISSING_WAIT, op->lane, 0, 0, note);
}

static void groups_end(Warp *w) {
    for (int k = 0; w->groups && k < GROUP_KINDS; k++) {
        GroupList *list = &w->groups->kind[k];
        for (int n = 0; n <= list->count; n++) {
            AsyncGroup *g = n < list->count ? &list->closed[n] : &list->open;
            for (int j = 0; j < g->count; j++)
                if (!g->op[j]->waited && !g->op[j]->signals && !w->cluster->stuck)
                    report_unwaited(g->op[j],
                                    k == GROUP_BULK
                                        ? "its thread ends without a wait for this copy to have read its source"
                                        : "the kernel ends without a wait for this copy");
            group_free(g);
        }
        free(list->closed);
    }
    free(w->groups);
    w->groups = NULL;
}

void async_end(Cluster *c) {
    while (c->queue) async_land(c->queue);
    for (int r = 0; c->block && r < c->blocks; r++) {
        for (int n = 0; c->block[r].warp && n < c->block[r].warps; n++) groups_end(&c->block[r].warp[n]);
        mbarriers_end(&c->block[r]);
    }
    free(c->async);
    c->async = NULL;
}

/* ---- shared by the copies ------------------------------------------------------------------------------- */
void count_copy(Warp *w, const Range *r, bool store) {
    if (r->space == SPACE_GLOBAL) count_range(w, store, r->address, r->bytes);
}
