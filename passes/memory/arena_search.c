/* Depth-first search for a placement within a capacity, after minimalloc (Moffitt, "MiniMalloc: A Lightweight
 * Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023).
 *
 * Every placement can be lowered until each block rests on another or on the ground, and such a placement can
 * be built in order of non-decreasing offsets: each new block rests on what was placed before.  So a state is
 * a skyline, and a move places one block at its lowest offset over the skyline.  Cut off:
 *   - a block below which another, still unplaced, would fit entirely: that one can go first;
 *   - of two moves at one offset, the second order;
 *   - any time at which the lowest offset possible there plus all that must still go there is over capacity.
 * What is left often falls apart into groups that share no time: each is solved by itself.
 *
 * The search restarts with growing limits.  Blocks alive where it got stuck are blamed, and the next
 * round prefers the most blamed (as satisfiability solvers do: Moskewicz et al., "Chaff", DAC 2001). */
#include "passes/memory/arena_search.h"
#include "ir/memory.h"
#include "ir/vec.h"
#include <stdlib.h>
#include <string.h>

enum { ROUND = 400 }; /* steps of the first round per block; many short rounds beat few long ones */

typedef struct Move {
    int64_t at;
    int item;
} Move;
typedef struct Undo {
    int item;
    int64_t lowest; /* its lowest offset before; -1: it was placed */
} Undo;

typedef struct Search {
    int n, n_times;
    ArenaItem *item;        /* in order of preference */
    int64_t capacity, left; /* steps left in this round */
    int64_t *lowest;        /* by item: lowest offset over the skyline; of placed items: their offset */
    int64_t *remaining;     /* by time: bytes still to be placed there */
    int *next;              /* by time: the next time without a floor; scratch of fits() */
    int64_t *blame;         /* by id */
    Undo *trail;            /* room for all changes of one descent */
    int n_trail, trail_room;
    Arena *arena;
} Search;

static int by_offset(const void *x, const void *y) {
    const Move *a = x, *b = y;
    return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : a->item - b->item;
}

static int find_next(int *next, int t) {
    while (next[t] != t) t = next[t] = next[next[t]];
    return t;
}

static void blame_time(Search *s, const int *group, int n, int t) {
    for (int i = 0; i < n; i++) {
        const ArenaItem *x = &s->item[group[i]];
        if (x->lower <= t && t < x->upper) s->blame[x->id]++;
    }
}

/* Whether what remains still fits everywhere.  In order of offsets, the first item to cover a time is the lowest there.
 */
static bool fits(Search *s, const int *group, const Move *move, int n) {
    int from = s->n_times, to = 0;
    for (int i = 0; i < n; i++) {
        const ArenaItem *x = &s->item[group[i]];
        if (x->lower < from) from = x->lower;
        if (x->upper > to) to = x->upper;
    }
    for (int t = from; t <= to; t++) s->next[t] = t;
    s->left -= to - from;
    for (int i = 0; i < n; i++) {
        const ArenaItem *x = &s->item[move[i].item];
        for (int t = find_next(s->next, x->lower); t < x->upper; t = find_next(s->next, t)) {
            if (move[i].at + s->remaining[t] > s->capacity) {
                blame_time(s, group, n, t);
                return false;
            }
            s->next[t] = t + 1;
        }
    }
    return true;
}

static void remember(Search *s, int item, int64_t lowest) {
    if (s->n_trail == s->trail_room) {
        Undo *grown = ARENA_ARRAY(s->arena, Undo, s->trail_room * 2);
        memcpy(grown, s->trail, sizeof *grown * (size_t)s->n_trail);
        s->trail = grown;
        s->trail_room *= 2;
    }
    s->trail[s->n_trail++] = (Undo){item, lowest};
}

static void undo_to(Search *s, int trail) {
    while (s->n_trail > trail) {
        const Undo *u = &s->trail[--s->n_trail];
        const ArenaItem *x = &s->item[u->item];
        if (u->lowest >= 0)
            s->lowest[u->item] = u->lowest;
        else
            for (int t = x->lower; t < x->upper; t++) s->remaining[t] += x->size;
    }
}

/* Places item i; the others of its group go at or above it.  `rest` receives them, in the same order. */
static void place(Search *s, int i, const int *group, int n, int *rest) {
    const ArenaItem *x = &s->item[i];
    int64_t at = s->lowest[i], top = at + x->size;
    remember(s, i, -1);
    for (int t = x->lower; t < x->upper; t++) s->remaining[t] -= x->size;
    for (int k = 0; k < n; k++) {
        int j = group[k];
        if (j == i) continue;
        *rest++ = j;
        bool meets = s->item[j].lower < x->upper && x->lower < s->item[j].upper;
        int64_t least = meets ? top : at;
        if (s->lowest[j] >= least) continue;
        remember(s, j, s->lowest[j]);
        s->lowest[j] = least;
    }
}

static bool solve_group(Search *s, int *group, int n, int64_t previous_at, int previous);

/* Places all of `group`, which is sorted by `lower`, one independent part after the other. */
static bool solve(Search *s, int *group, int n, int64_t previous_at, int previous) {
    int trail = s->n_trail;
    for (int first = 0, i = 1, end = n ? s->item[group[0]].upper : 0; first < n; i++) {
        const ArenaItem *x = i < n ? &s->item[group[i]] : NULL;
        if (x && x->lower < end) {
            if (x->upper > end) end = x->upper;
            continue;
        }
        if (!solve_group(s, group + first, i - first, previous_at, previous)) {
            undo_to(s, trail);
            return false;
        }
        first = i;
        if (x) end = x->upper;
    }
    return true;
}

static bool solve_group(Search *s, int *group, int n, int64_t previous_at, int previous) {
    Move *move = memory_alloc(sizeof *move * (size_t)n + sizeof(int) * (size_t)n);
    int *rest = (int *)(move + n), trail = s->n_trail;
    int64_t ceiling = INT64_MAX;
    bool found = false;
    for (int i = 0; i < n; i++) {
        move[i] = (Move){s->lowest[group[i]], group[i]};
        int64_t top = move[i].at + s->item[group[i]].size;
        if (top < ceiling) ceiling = top;
    }
    qsort(move, (size_t)n, sizeof *move, by_offset);
    s->left -= 8 * (int64_t)n;
    if (fits(s, group, move, n))
        for (int i = 0; i < n && !found && s->left > 0 && move[i].at < ceiling; i++) {
            if (move[i].at == previous_at && move[i].item < previous) continue;
            place(s, move[i].item, group, n, rest);
            found = solve(s, rest, n - 1, move[i].at, move[i].item);
            if (!found) undo_to(s, trail);
        }
    free(move);
    return found;
}

/* ---- rounds --------------------------------------------------------------------------------------------- */
typedef struct Ranked {
    ArenaItem item;
    int64_t blame;
    int rank;
} Ranked;

static int by_blame(const void *x, const void *y) {
    const Ranked *a = x, *b = y;
    return a->blame != b->blame ? (a->blame < b->blame) - (a->blame > b->blame) : a->rank - b->rank;
}

static void prefer_blamed(Search *s) {
    Ranked *r = ARENA_ARRAY(s->arena, Ranked, s->n);
    for (int i = 0; i < s->n; i++) r[i] = (Ranked){s->item[i], s->blame[s->item[i].id], i};
    qsort(r, (size_t)s->n, sizeof *r, by_blame);
    for (int i = 0; i < s->n; i++) s->item[i] = r[i].item;
}

static int by_lower(const void *x, const void *y) {
    const Move *a = x, *b = y; /* `at` holds the lower end */
    return by_offset(a, b);
}

static bool run_round(Search *s) {
    Move *sorted = ARENA_ARRAY(s->arena, Move, s->n);
    int *group = ARENA_ARRAY(s->arena, int, s->n);
    for (int i = 0; i < s->n; i++) sorted[i] = (Move){s->item[i].lower, i};
    qsort(sorted, (size_t)s->n, sizeof *sorted, by_lower);
    for (int i = 0; i < s->n; i++) group[i] = sorted[i].item;
    memset(s->lowest, 0, sizeof *s->lowest * (size_t)s->n);
    s->n_trail = 0;
    return solve(s, group, s->n, -1, -1);
}

bool arena_search(int n, const ArenaItem *item, int n_times, int64_t capacity, int64_t *work, int64_t *offset) {
    Arena *a = arena_new();
    Search s = {.n = n, .n_times = n_times, .capacity = capacity, .trail_room = 4 * n + 16, .arena = a};
    s.item = arena_dup(a, item, sizeof *item * (size_t)n);
    s.lowest = ARENA_ARRAY(a, int64_t, n);
    s.remaining = ARENA_ARRAY(a, int64_t, n_times + 1);
    s.next = ARENA_ARRAY(a, int, n_times + 2);
    s.blame = ARENA_ARRAY(a, int64_t, n);
    s.trail = ARENA_ARRAY(a, Undo, s.trail_room);
    for (int i = 0; i < n; i++)
        for (int t = item[i].lower; t < item[i].upper; t++) s.remaining[t] += item[i].size;
    bool found = false, exhausted = false;
    for (int64_t limit = ROUND * (int64_t)n; !found && !exhausted && *work > 0; limit += limit / 50) {
        int64_t given = s.left = limit < *work ? limit : *work;
        found = run_round(&s);
        exhausted = !found && s.left > 0;
        *work -= given - s.left;
        if (!found) prefer_blamed(&s);
    }
    for (int i = 0; found && i < n; i++) offset[s.item[i].id] = s.lowest[i];
    arena_free(a);
    return found;
}
