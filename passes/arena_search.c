/* Depth-first search for a placement within a capacity, after minimalloc (Moffitt, "MiniMalloc: A Lightweight
 * Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023).
 *
 * Every placement can be lowered until each block rests on another or on the ground, and such a placement can
 * be built in order of non-decreasing offsets: each new block rests on what was placed before.  So a state is
 * a skyline, and a move places one block at its lowest offset over the skyline.  Cut off:
 *   - a block above which another, still unplaced, would fit entirely: that one can go first;
 *   - of two moves at one offset, the second order;
 *   - any time at which the lowest offset possible there plus all that must still go there is over capacity. */
#include "passes/arena_search.h"
#include "ir/vec.h"
#include <stdlib.h>
#include <string.h>

typedef struct Move {
    int64_t at;
    int item;
} Move;
typedef struct Undo {
    int item;
    int64_t lowest;
} Undo;

typedef struct Search {
    Arena *arena;
    int n, n_times;
    const ArenaItem *item;
    int64_t capacity, *work;
    int64_t *lowest; /* by item: lowest offset over the skyline; of placed items: their offset */
    bool *placed;
    int64_t *remaining; /* by time: bytes still to be placed there */
    int *next;          /* by time: where the next time without a floor may be found */
    VEC(Move) moves;    /* of all levels */
    VEC(Undo) trail;
} Search;

static int by_offset(const void *x, const void *y) {
    const Move *a = x, *b = y;
    return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : a->item - b->item;
}

/* Pushes the unplaced items by offset, then preference; returns how many. */
static int push_moves(Search *s) {
    int first = s->moves.n;
    for (int i = 0; i < s->n; i++)
        if (!s->placed[i]) vec_push(s->arena, s->moves, ((Move){s->lowest[i], i}));
    int n = s->moves.n - first;
    qsort(&s->moves.at[first], (size_t)n, sizeof(Move), by_offset);
    *s->work -= 4 * (int64_t)n + s->n_times;
    return n;
}

static int find_next(int *next, int t) {
    while (next[t] != t) t = next[t] = next[next[t]];
    return t;
}

/* Whether what remains still fits everywhere.  In order of offsets, the first item to cover a time is the lowest there.
 */
static bool fits(Search *s, const Move *move, int n) {
    for (int t = 0; t <= s->n_times; t++) s->next[t] = t;
    for (int i = 0; i < n; i++) {
        const ArenaItem *x = &s->item[move[i].item];
        for (int t = find_next(s->next, x->lower); t < x->upper; t = find_next(s->next, t)) {
            if (move[i].at + s->remaining[t] > s->capacity) return false;
            s->next[t] = t + 1;
        }
    }
    return true;
}

static void raise_to(Search *s, int i, int64_t at) {
    vec_push(s->arena, s->trail, ((Undo){i, s->lowest[i]}));
    s->lowest[i] = at;
}

static void place(Search *s, int i) {
    const ArenaItem *x = &s->item[i];
    int64_t at = s->lowest[i], top = at + x->size;
    s->placed[i] = true;
    for (int t = x->lower; t < x->upper; t++) s->remaining[t] -= x->size;
    for (int j = 0; j < s->n; j++) {
        if (s->placed[j]) continue;
        bool meets = s->item[j].lower < x->upper && x->lower < s->item[j].upper;
        int64_t least = meets ? top : at;
        if (s->lowest[j] < least) raise_to(s, j, least);
    }
}

static void unplace(Search *s, int i, int trail) {
    const ArenaItem *x = &s->item[i];
    s->placed[i] = false;
    for (int t = x->lower; t < x->upper; t++) s->remaining[t] += x->size;
    while (s->trail.n > trail) {
        const Undo *u = &s->trail.at[--s->trail.n];
        s->lowest[u->item] = u->lowest;
    }
}

/* Places everything that is left; `previous` was placed last. */
static bool descend(Search *s, int left, int64_t previous_at, int previous) {
    if (!left) return true;
    int first = s->moves.n, n = push_moves(s);
    int64_t ceiling = INT64_MAX;
    bool found = false;
    if (fits(s, &s->moves.at[first], n)) {
        for (int i = first; i < first + n; i++) {
            int64_t top = s->moves.at[i].at + s->item[s->moves.at[i].item].size;
            if (top < ceiling) ceiling = top;
        }
        for (int i = first; i < first + n && !found && *s->work > 0; i++) {
            Move m = s->moves.at[i];
            if (m.at >= ceiling) break;
            if (m.at == previous_at && m.item < previous) continue;
            int trail = s->trail.n;
            place(s, m.item);
            found = descend(s, left - 1, m.at, m.item);
            if (!found) unplace(s, m.item, trail);
        }
    }
    s->moves.n = first;
    return found;
}

bool arena_search(Arena *scratch, int n, const ArenaItem *item, int n_times, int64_t capacity, int64_t *work,
                  int64_t *offset) {
    Search s = {.arena = scratch, .n = n, .n_times = n_times, .item = item, .capacity = capacity, .work = work};
    s.lowest = ARENA_ARRAY(scratch, int64_t, n + 1);
    s.placed = ARENA_ARRAY(scratch, bool, n + 1);
    s.remaining = ARENA_ARRAY(scratch, int64_t, n_times + 1);
    s.next = ARENA_ARRAY(scratch, int, n_times + 2);
    for (int i = 0; i < n; i++)
        for (int t = item[i].lower; t < item[i].upper; t++) s.remaining[t] += item[i].size;
    if (!descend(&s, n, -1, -1)) return false;
    for (int i = 0; i < n; i++) offset[item[i].id] = s.lowest[i];
    return true;
}
