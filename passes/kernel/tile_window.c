/* Tile sizes of contractions that read one factor through a sliding window (convolutions and their gradients) for the
 * host: the box of the window, a panel of the other factor and the results lie in a core's second-level cache
 * together, whole image rows where they fit, so that a window's overlap is copied seldom. */
#include "passes/kernel/emitter.h"
#include <stdlib.h>

typedef struct Roles {
    const Contract *c;
    Node *const *in;
    int x;            /* the operand that is read through the window: not the one with the innermost result loop */
    bool channelwise; /* that loop stands in both operands, or it and `group` are lanes together */
    int group;        /* the loop in both operands whose groups are narrower than vectors; -1: there is none */
    bool in_x[MAX_LOOPS], in_y[MAX_LOOPS];
    bool slides[MAX_LOOPS]; /* stands in a subscript of x with both a result loop that y lacks and a summed one */
} Roles;

static void mark_sliding(Roles *r, const Affine *e) {
    bool out = false, sum = false;
    for (int l = 0; l < r->c->n_out; l++) out |= e->coef[l] && !r->in_y[l];
    for (int l = r->c->n_out; l < r->c->n_loops; l++) sum |= e->coef[l] != 0;
    for (int l = 0; l < r->c->n_loops && out && sum; l++) r->slides[l] |= e->coef[l] != 0;
}

enum { CHANNELS = 16 }; /* lanes of the widest vectors */

/* A group's elements of X are neighbours, the groups one after another; how many, or 0. */
static int64_t group_depth(const Roles *r, int group) {
    const Contract *c = r->c;
    const Affine *map = c->map[r->x];
    int last = r->in[r->x]->shape->rank - 1;
    while (last > 0 && dim_is_fixed(r->in[r->x]->shape->dim[last]) && r->in[r->x]->shape->dim[last].bound == 1) last--;
    if (map[last].coef[group] == 1) return 1;
    for (int l = 0; l < c->n_loops; l++) {
        if (map[last].coef[l] != 1 || !dim_is_fixed(c->extent[l])) continue;
        const int64_t depth = c->extent[l].bound;
        const bool inside = map[last].coef[group] == depth,
                   outside = last > 0 && map[last - 1].coef[group] == 1 &&
                             dim_equal(r->in[r->x]->shape->dim[last], c->extent[l]);
        if (inside || outside) return depth;
    }
    return 0;
}

/* In this shape or another. */
static bool is_in_memory(const Plan *p, const Node *x) {
    while (x->op == OP_RESHAPE && p->buffer[x->id].home == HOME_NONE) x = x->in[0];
    return p->buffer[x->id].home != HOME_NONE;
}

/* Few results of each group, a part of a vector: the product goes by lanes of several groups.  Both factors lie in
 * memory, X as it is read. */
static int find_group(const Plan *p, const Roles *r) {
    enum { MOST_DEPTH = 4, DEEPEST = 8 }; /* elements of X: for each result, and in all: each has code of its own */
    const Contract *c = r->c;
    const int last = c->n_out - 1;
    const int64_t width = r->channelwise ? 1 : c->extent[last].bound;
    int group = r->channelwise ? last : -1;
    for (int l = 0; l < last && !r->channelwise; l++)
        if (r->in_x[l] && r->in_y[l] && c->extent[l].bound > 1) group = l;
    if (group < 0 || !dim_is_fixed(c->extent[group]) || !dim_is_fixed(c->extent[last]) || width >= CHANNELS) return -1;
    if (width < 1 || CHANNELS % width || c->extent[group].bound * width % CHANNELS) return -1;
    for (int o = 0; o < 2; o++)
        if (r->in[o]->dtype != DT_F32 || !is_in_memory(p, r->in[o])) return -1;
    for (int d = 0; d < r->in[r->x]->shape->rank; d++)
        if (c->map[r->x][d].divisor != 1) return -1;
    const int64_t depth = group_depth(r, group);
    return depth > 0 && depth <= DEEPEST && depth <= MOST_DEPTH * width ? group : -1;
}

static bool find_roles(const Plan *p, const Node *n, Roles *r) {
    const Contract *c = n->attr->contract;
    bool in[2][MAX_LOOPS] = {0}, any = false;
    if (c->n_operands != 2 || c->n_out == 0 || c->n_out == c->n_loops) return false;
    for (int o = 0; o < 2; o++)
        for (int d = 0; d < n->in[o]->shape->rank; d++)
            for (int l = 0; l < c->n_loops; l++) in[o][l] |= c->map[o][d].coef[l] != 0;
    const int last = c->n_out - 1;
    if (!in[0][last] && !in[1][last]) return false;
    for (int x = 0; x < 2 && !any; x++) {
        if (in[x][last] && !in[!x][last]) continue;
        *r = (Roles){.c = c, .in = n->in, .x = x, .channelwise = in[x][last]};
        for (int l = 0; l < c->n_loops; l++) r->in_x[l] = in[x][l], r->in_y[l] = in[!x][l];
        for (int d = 0; d < n->in[x]->shape->rank; d++) mark_sliding(r, &c->map[x][d]);
        for (int l = 0; l < c->n_loops; l++) any |= r->slides[l];
    }
    r->group = any ? find_group(p, r) : -1;
    r->channelwise |= r->group >= 0;
    return any;
}

/* Lanes along an extent, at most `most`: a divisor if one is near, else parts of nearly one size; a multiple of `unit`
 * where there are that many. */
static int part(Dim d, int64_t most, int unit) {
    const int64_t n = d.bound < 1 ? 1 : d.bound;
    if (most < 1) most = 1;
    if (n <= most) return (int)n;
    if (most > unit) most -= most % unit;
    for (int64_t m = most; m * 2 > most; m -= unit)
        if (m > 0 && n % m == 0) return (int)m;
    const int64_t parts = (n + most - 1) / most, each = (n + parts - 1) / parts;
    const int64_t up = (each + unit - 1) / unit * unit;
    return (int)(up <= most ? up : each);
}

/* The windows' loops first, inner ones before outer ones, then the others; a contiguous loop that does not slide keeps
 * room for a vector. */
static void fill_loops(const Roles *r, int first, int end, int64_t budget, bool rows, int *step) {
    const Node *x = r->in[r->x];
    int contiguous = -1;
    for (int l = first; l < end; l++)
        if (x->shape->rank && r->c->map[r->x][x->shape->rank - 1].coef[l] && !r->slides[l] && !(rows && r->in_y[l]))
            contiguous = l;
    int64_t reserved = contiguous < 0 ? 1 : part(r->c->extent[contiguous], CHANNELS, 1);
    for (int pass = 0; pass < 2; pass++)
        for (int l = end - 1; l >= first; l--) {
            if (r->slides[l] == (pass == 1) || (rows && (!r->in_x[l] || r->in_y[l]))) continue;
            const bool channels = l == contiguous;
            step[l] = part(r->c->extent[l], channels ? budget : budget / reserved, channels ? CHANNELS : 1);
            budget /= step[l];
            if (channels) reserved = 1;
            if (budget < 1) budget = 1;
        }
}

/* Lanes of several groups, in whole vectors: so many that the innermost cache has their part of the other factor. */
static int64_t grouped_columns(const Roles *r, int *step) {
    enum { MOST = 4 * CHANNELS };
    const Dim *extent = r->c->extent;
    const int last = r->c->n_out - 1;
    const int64_t width = last == r->group ? 1 : extent[last].bound, unit = CHANNELS / width;
    int64_t groups = unit;
    for (int64_t g = 2 * unit; g <= extent[r->group].bound; g += unit)
        if (extent[r->group].bound % g == 0 && g * width <= MOST) groups = g;
    for (int l = 0; l <= last; l++) step[l] = 1;
    step[last] = (int)width;
    step[r->group] = (int)groups;
    return groups * width;
}

static int64_t columns(const Roles *r, int64_t most, int *step) {
    int64_t n = 1;
    if (r->group >= 0 && r->group < r->c->n_out - 1) return grouped_columns(r, step);
    for (int l = r->c->n_out - 1; l >= 0; l--) {
        const bool inner = l == r->c->n_out - 1;
        step[l] = 1;
        if (!(inner && r->channelwise) && (r->in_x[l] || !r->in_y[l])) continue;
        if (inner) step[l] = part(r->c->extent[l], most, CHANNELS);
        const bool classes = !inner && !r->channelwise && r->c->extent[l].bound <= 4; /* residue classes */
        if (classes) step[l] = part(r->c->extent[l], 4, 1);
        n *= inner ? (step[l] + CHANNELS - 1) / CHANNELS * CHANNELS : step[l];
    }
    return n;
}

static int64_t programs(const Roles *r, const int *step) {
    int64_t n = 1;
    for (int l = 0; l < r->c->n_out; l++) n *= (r->c->extent[l].bound + step[l] - 1) / step[l];
    return n;
}

/* Steps of a program's results, at most `widest` columns and `rows` rows; returns the columns. */
static int64_t outputs(const Roles *r, int64_t widest, int64_t rows, int64_t results, int *step) {
    const int64_t across = columns(r, widest, step);
    fill_loops(r, 0, r->c->n_out, results / across < rows ? results / across : rows, true, step);
    return across;
}

/* Elements of the box that a tile reads, of a panel of the other factor, as wide as blocks are, and of the results. */
static double tile_elements(const Roles *r, const TileSizes *s, int64_t across) {
    enum { PANEL = 4 * CHANNELS };
    double box = 1, results = 1, sums = 1;
    for (int d = 0; d < r->in[r->x]->shape->rank; d++) {
        const Affine *e = &r->c->map[r->x][d];
        double reach = 0;
        for (int l = 0; l < r->c->n_loops; l++)
            reach += (double)llabs(e->coef[l]) * ((l < r->c->n_out ? s->p[l] : s->k[l]) - 1) / (double)e->divisor;
        box *= reach + 1;
    }
    for (int l = 0; l < r->c->n_loops; l++)
        *(l < r->c->n_out ? &results : &sums) *= l < r->c->n_out ? s->p[l] : s->k[l];
    return box + results + sums * (double)(across < PANEL ? across : PANEL);
}

/* As many sums at once as leave all that in the core's cache, and no fewer than `least`: results are then read and
 * written less often, and not at all before the end where one iteration sums all. */
static void fill_sums(const Roles *r, int64_t room, int64_t across, int64_t least, TileSizes *s) {
    int64_t most = room / (across < 1 ? 1 : across);
    for (; most > least; most -= most / 8 + 1) {
        fill_loops(r, r->c->n_out, r->c->n_loops, most, false, s->k);
        if (tile_elements(r, s, across) <= (double)room) return;
    }
    fill_loops(r, r->c->n_out, r->c->n_loops, least, false, s->k);
}

enum { FEW_PROGRAMS = 4, MANY_PROGRAMS = 8 };

/* Results side by side read neighbouring windows. */
static bool windows_overlap(const Roles *r) {
    for (int d = 0; d < r->in[r->x]->shape->rank; d++)
        for (int l = 0; l < r->c->n_out; l++)
            if (r->slides[l] && !r->in_y[l] && llabs(r->c->map[r->x][d].coef[l]) > 1) return false;
    return true;
}

/* A channelwise program with more channels, at best all: pixels are then one stretch of memory.  With overlapping
 * windows that is faster than more rows with fewer channels (depthwise shapes of `./dev bench conv`). */
static void widen_channels(const Roles *r, int64_t across, int64_t rows, int64_t results, TileSizes *s) {
    TileSizes wide = *s;
    if (windows_overlap(r) && outputs(r, 4 * across, rows, 2 * results, wide.p) > across &&
        programs(r, wide.p) >= MANY_PROGRAMS)
        *s = wide;
}

bool window_tile_sizes(const Target *t, const Plan *p, const Node *n, TileSizes *s) {
    Roles r;
    if (target_shares_tiles(t) || !target_has_lanes(t) || !find_roles(p, n, &r)) return false;
    const int tile = t->max_tile;
    int64_t widest = tile / 1024 > 1 ? tile / 1024 : 1, rows = tile * 7 / 1024, results = tile * 3 / 4, across = 1;
    const int64_t sums = r.channelwise ? tile / 64 : tile * 9 / 512, least = r.channelwise ? CHANNELS : 32;
    if (r.channelwise) widest = tile / 256 > 1 ? tile / 256 : 1, results = tile / 2;
    for (int tries = 0; tries < 4; tries++) {
        across = outputs(&r, widest, rows, results, s->p);
        if (programs(&r, s->p) >= FEW_PROGRAMS) break;
        if (across < widest) widest = across;
        if (tries % 2 == 0 && widest >= 2 * least)
            widest /= 2;
        else
            rows /= 2;
    }
    if (r.channelwise) {
        widen_channels(&r, across, rows, results, s);
        fill_loops(&r, r.c->n_out, r.c->n_loops, sums, false, s->k);
        return true;
    }
    TileSizes wide = *s; /* twice the columns share the box */
    const int64_t twice = outputs(&r, 2 * across, rows, 2 * results, wide.p);
    if (programs(&r, wide.p) >= MANY_PROGRAMS) *s = wide, across = twice;
    const int64_t room = (t->fast_bytes < 16 * tile ? t->fast_bytes : 16 * tile) / (int64_t)sizeof(float);
    fill_sums(&r, room, across, sums, s);
    return true;
}
