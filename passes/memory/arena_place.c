/* Placement of blocks with known lifetimes in one arena (dynamic storage allocation, offline).
 *
 * Orders of blocks are turned into placements by three rules, cheap to expensive:
 *   stack      on top of everything that lives at the same time; O(n log n) with a tree of heights over time.
 *              By decreasing lifetime it is exact for nested lifetimes, as forward and backward passes have.
 *   sweep      as an allocator would, in time, lowest gap first; O(n gaps)
 *   first fit  the lowest gap among the blocks placed before; O(n^2)
 * If none meets the lower bound, a depth-first search looks for placements at or near it (arena_search.c), and a
 * local search moves blocks that touch the top earlier in the order. */
#include "passes/memory/arena_search.h"
#include "passes/memory/memory.h"
#include <stdlib.h>
#include <string.h>

enum { EXACT_BLOCKS = 2000 }; /* most for the depth-first search */

typedef struct PlaceSearch {
    Arena *arena;
    int n, n_times;
    ArenaItem *block; /* lifetimes in compressed time 0 .. n_times-1 */
    int64_t *offset;  /* of the placement at hand */
    int64_t *best, best_peak, bound;
    int64_t work; /* steps left */
    int *placed;  /* first fit: blocks by offset */
    int *source;  /* block -> caller's index; empty blocks are left out */
} PlaceSearch;

/* ---- orders -------------------------------------------------------------------------------------- */
typedef int (*Compare)(const void *, const void *);

static int compare_int64(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int64_t life(const ArenaItem *b) { return (int64_t)b->upper - b->lower; }
static double area(const ArenaItem *b) { return (double)life(b) * (double)b->size; }

static int by_lower(const void *x, const void *y) {
    const ArenaItem *a = x, *b = y;
    if (a->lower != b->lower) return compare_int64(a->lower, b->lower);
    if (a->upper != b->upper) return compare_int64(b->upper, a->upper);
    return a->size != b->size ? compare_int64(b->size, a->size) : compare_int64(a->id, b->id);
}
static int by_life(const void *x, const void *y) {
    const ArenaItem *a = x, *b = y;
    return life(a) != life(b) ? compare_int64(life(b), life(a)) : by_lower(x, y);
}
static int by_size(const void *x, const void *y) {
    const ArenaItem *a = x, *b = y;
    return a->size != b->size ? compare_int64(b->size, a->size) : by_life(x, y);
}
static int by_area(const void *x, const void *y) {
    double a = area(x), b = area(y);
    return a != b ? (a < b) - (a > b) : by_size(x, y);
}
static const Compare compares[] = {by_life, by_size, by_area, by_lower};
enum { N_ORDERS = sizeof compares / sizeof *compares };

/* ---- setting up ------------------------------------------------------------------------------------ */
static int by_int(const void *x, const void *y) { return compare_int64(*(const int *)x, *(const int *)y); }

static int index_of(const int *sorted, int n, int value) {
    int lo = 0;
    for (int hi = n; lo < hi;) {
        int mid = (lo + hi) / 2;
        if (sorted[mid] < value)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Only times at which something begins matter: two lifetimes meet iff one begins inside the other. */
static void compress_times(PlaceSearch *s) {
    int *times = ARENA_ARRAY(s->arena, int, s->n + 1);
    for (int i = 0; i < s->n; i++) times[i] = s->block[i].lower;
    qsort(times, (size_t)s->n, sizeof *times, by_int);
    for (int i = 0; i < s->n; i++)
        if (!s->n_times || times[i] != times[s->n_times - 1]) times[s->n_times++] = times[i];
    for (int i = 0; i < s->n; i++) {
        s->block[i].lower = index_of(times, s->n_times, s->block[i].lower);
        s->block[i].upper = index_of(times, s->n_times, s->block[i].upper);
    }
}

static void find_bound(PlaceSearch *s) {
    int64_t *delta = ARENA_ARRAY(s->arena, int64_t, s->n_times + 1), live = 0;
    for (int i = 0; i < s->n; i++) {
        delta[s->block[i].lower] += s->block[i].size;
        delta[s->block[i].upper] -= s->block[i].size;
    }
    for (int t = 0; t < s->n_times; t++) {
        live += delta[t];
        if (live > s->bound) s->bound = live;
    }
}

static int64_t highest_end(const PlaceSearch *s) {
    int64_t peak = 0;
    for (int i = 0; i < s->n; i++)
        if (s->offset[i] + s->block[i].size > peak) peak = s->offset[i] + s->block[i].size;
    return peak;
}

static void keep_if_better(PlaceSearch *s, int64_t peak) {
    if (peak >= s->best_peak) return;
    s->best_peak = peak;
    memcpy(s->best, s->offset, sizeof *s->best * (size_t)s->n);
}

/* ---- stack: a tree of heights over time ---------------------------------------------------------------- */
typedef struct HeightTree {
    int leaves;            /* a power of two */
    int64_t *height, *top; /* height: of the whole range of a node, given at once; top: the most below it */
} HeightTree;

static int64_t tree_max(const HeightTree *t, int node, int lo, int hi, int from, int to) {
    if (to <= lo || hi <= from) return 0;
    if (from <= lo && hi <= to) return t->top[node];
    int mid = (lo + hi) / 2;
    int64_t a = tree_max(t, 2 * node, lo, mid, from, to), b = tree_max(t, 2 * node + 1, mid, hi, from, to);
    int64_t most = a > b ? a : b;
    return most > t->height[node] ? most : t->height[node];
}

/* Heights only grow, so that raising needs no pushing down. */
static void tree_raise(HeightTree *t, int node, int lo, int hi, int from, int to, int64_t h) {
    if (to <= lo || hi <= from) return;
    if (t->top[node] < h) t->top[node] = h;
    if (from <= lo && hi <= to) {
        if (t->height[node] < h) t->height[node] = h;
        return;
    }
    int mid = (lo + hi) / 2;
    tree_raise(t, 2 * node, lo, mid, from, to, h);
    tree_raise(t, 2 * node + 1, mid, hi, from, to, h);
}

static int64_t place_stack(PlaceSearch *s, const ArenaItem *order) {
    HeightTree t = {.leaves = 1};
    while (t.leaves < s->n_times) t.leaves *= 2;
    Arena *scratch = arena_new();
    t.height = ARENA_ARRAY(scratch, int64_t, 2 * t.leaves);
    t.top = ARENA_ARRAY(scratch, int64_t, 2 * t.leaves);
    for (int i = 0; i < s->n; i++) {
        const ArenaItem *b = &order[i];
        int64_t at = tree_max(&t, 1, 0, t.leaves, b->lower, b->upper);
        s->offset[b->id] = at;
        tree_raise(&t, 1, 0, t.leaves, b->lower, b->upper, at + b->size);
    }
    int64_t peak = t.top[1];
    arena_free(scratch);
    return peak;
}

/* ---- sweep: an allocator in time ------------------------------------------------------------------------ */
typedef struct Gap {
    int64_t at, end;
} Gap;
typedef struct FreeList {
    Gap *gap; /* by address; the last is unbounded */
    int n;
} FreeList;

static void free_list_release(FreeList *f, int64_t at, int64_t end) {
    int lo = 0;
    for (int hi = f->n; lo < hi;) {
        int mid = (lo + hi) / 2;
        if (f->gap[mid].at < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    bool joins_left = lo && f->gap[lo - 1].end == at, joins_right = lo < f->n && f->gap[lo].at == end;
    if (joins_left && joins_right) {
        f->gap[lo - 1].end = f->gap[lo].end;
        memmove(&f->gap[lo], &f->gap[lo + 1], sizeof(Gap) * (size_t)(--f->n - lo));
    } else if (joins_left) {
        f->gap[lo - 1].end = end;
    } else if (joins_right) {
        f->gap[lo].at = at;
    } else {
        memmove(&f->gap[lo + 1], &f->gap[lo], sizeof(Gap) * (size_t)(f->n++ - lo));
        f->gap[lo] = (Gap){at, end};
    }
}

static int64_t free_list_take(FreeList *f, int64_t size) {
    int i = 0;
    while (f->gap[i].end - f->gap[i].at < size) i++;
    int64_t at = f->gap[i].at;
    f->gap[i].at += size;
    if (f->gap[i].at == f->gap[i].end) memmove(&f->gap[i], &f->gap[i + 1], sizeof(Gap) * (size_t)(--f->n - i));
    return at;
}

static int by_upper(const void *x, const void *y) {
    const ArenaItem *a = x, *b = y;
    return a->upper != b->upper ? compare_int64(a->upper, b->upper) : compare_int64(a->id, b->id);
}

static int64_t place_sweep(PlaceSearch *s, const ArenaItem *order) {
    Arena *scratch = arena_new();
    ArenaItem *ends = arena_dup(scratch, order, sizeof *ends * (size_t)s->n);
    qsort(ends, (size_t)s->n, sizeof *ends, by_upper);
    FreeList f = {ARENA_ARRAY(scratch, Gap, s->n + 2), 1};
    f.gap[0] = (Gap){0, INT64_MAX};
    int64_t peak = 0;
    for (int i = 0, e = 0; i < s->n; i++) {
        const ArenaItem *b = &order[i];
        for (; ends[e].upper <= b->lower; e++)
            free_list_release(&f, s->offset[ends[e].id], s->offset[ends[e].id] + ends[e].size);
        s->offset[b->id] = free_list_take(&f, b->size);
        if (s->offset[b->id] + b->size > peak) peak = s->offset[b->id] + b->size;
    }
    arena_free(scratch);
    return peak;
}

/* ---- first fit and local search ------------------------------------------------------------------------------ */
static int64_t place_first_fit(PlaceSearch *s, const ArenaItem *order) {
    int64_t peak = 0;
    for (int i = 0; i < s->n; i++) {
        const ArenaItem *b = &order[i];
        int64_t at = 0;
        int j = 0, before = -1; /* where in `placed` the block goes */
        for (; j < i; j++) {
            const ArenaItem *x = &s->block[s->placed[j]];
            if (x->lower >= b->upper || b->lower >= x->upper) continue;
            int64_t from = s->offset[x->id];
            if (from >= at + b->size) break;
            if (from + x->size > at) at = from + x->size;
        }
        s->work -= j + 1;
        for (before = j; before > 0 && s->offset[s->placed[before - 1]] > at;) before--;
        memmove(&s->placed[before + 1], &s->placed[before], sizeof *s->placed * (size_t)(i - before));
        s->placed[before] = b->id;
        s->offset[b->id] = at;
        if (at + b->size > peak) peak = at + b->size;
    }
    return peak;
}

/* Numerical Recipes' 64-bit linear congruence: the search must be the same everywhere. */
static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Moves a random block that ends at the peak to a random earlier place. */
static void promote(const PlaceSearch *s, ArenaItem *order, int64_t peak, uint64_t *seed) {
    int n_top = 0, at = -1;
    for (int i = 0; i < s->n; i++)
        if (s->offset[order[i].id] + order[i].size == peak && next_random(seed) % (uint32_t)++n_top == 0) at = i;
    if (at <= 0) return;
    int to = (int)(next_random(seed) % (uint32_t)at);
    ArenaItem b = order[at];
    memmove(&order[to + 1], &order[to], sizeof *order * (size_t)(at - to));
    order[to] = b;
}

static void local_search(PlaceSearch *s, ArenaItem *order, int64_t work) {
    size_t bytes = sizeof *order * (size_t)s->n;
    ArenaItem *trial = arena_dup(s->arena, order, bytes);
    int64_t *current_offset = ARENA_ARRAY(s->arena, int64_t, s->n);
    int64_t current = place_first_fit(s, order), stop = s->work - work;
    memcpy(current_offset, s->offset, sizeof(int64_t) * (size_t)s->n);
    uint64_t seed = 1;
    while (s->work > stop && s->best_peak > s->bound) {
        memcpy(trial, order, bytes);
        memcpy(s->offset, current_offset, sizeof(int64_t) * (size_t)s->n);
        promote(s, trial, current, &seed);
        int64_t peak = place_first_fit(s, trial);
        keep_if_better(s, peak);
        if (peak > current + current / 128 * (next_random(&seed) % 4 == 0)) continue;
        current = peak;
        memcpy(order, trial, bytes);
        memcpy(current_offset, s->offset, sizeof(int64_t) * (size_t)s->n);
    }
}

/* Depth-first search for a placement within `capacity`, in several orders of preference. */
static void exact_search(PlaceSearch *s, ArenaItem *const *order, int64_t capacity, int64_t work) {
    for (int o = 0; o < N_ORDERS && capacity < s->best_peak; o++) {
        int64_t share = work / N_ORDERS, left = share;
        if (arena_search(s->n, order[o], s->n_times, capacity, &left, s->offset)) keep_if_better(s, highest_end(s));
        s->work -= share - left;
    }
}

static void search(PlaceSearch *s) {
    ArenaItem *order[N_ORDERS];
    for (int o = 0; o < N_ORDERS; o++) {
        order[o] = arena_dup(s->arena, s->block, sizeof(ArenaItem) * (size_t)s->n);
        qsort(order[o], (size_t)s->n, sizeof(ArenaItem), compares[o]);
        keep_if_better(s, place_stack(s, order[o]));
        if (s->best_peak == s->bound) return;
    }
    keep_if_better(s, place_sweep(s, order[N_ORDERS - 1]));
    for (int o = 0; o < N_ORDERS && s->best_peak > s->bound; o++)
        if (s->work >= (int64_t)s->n * s->n) keep_if_better(s, place_first_fit(s, order[o]));
    for (int step = 0; step < 4 && s->n <= EXACT_BLOCKS; step++) /* the bound itself, then a little more */
        exact_search(s, order, s->bound + s->bound / 64 * step, step ? s->work / 8 : s->work * 3 / 4);
    for (int o = 0; o < N_ORDERS && s->best_peak > s->bound && s->work >= (int64_t)s->n * s->n; o++)
        local_search(s, order[o], s->work / (N_ORDERS - o));
}

int64_t arena_place(int n, const int *lower, const int *upper, const int64_t *size, int64_t align, int64_t work,
                    int64_t *offset, int64_t *bound) {
    Arena *scratch = arena_new();
    PlaceSearch s = {.arena = scratch, .best_peak = INT64_MAX, .work = work};
    s.block = ARENA_ARRAY(scratch, ArenaItem, n + 1);
    s.offset = ARENA_ARRAY(scratch, int64_t, n + 1);
    s.best = ARENA_ARRAY(scratch, int64_t, n + 1);
    s.placed = ARENA_ARRAY(scratch, int, n + 1);
    s.source = ARENA_ARRAY(scratch, int, n + 1);
    for (int i = 0; i < n; i++) {
        offset[i] = 0;
        if (size[i] <= 0) continue;
        s.block[s.n] = (ArenaItem){.lower = lower[i], .upper = upper[i], .id = s.n, .size = align_up(size[i], align)};
        s.source[s.n++] = i;
    }
    compress_times(&s);
    find_bound(&s);
    if (s.n)
        search(&s);
    else
        s.best_peak = 0;
    for (int i = 0; i < s.n; i++) offset[s.source[i]] = s.best[i];
    if (bound) *bound = s.bound;
    arena_free(scratch);
    return s.best_peak;
}
