#include "tests/support/kernel_parts.h"

/* ---- grids ---------------------------------------------------------------------------------------------- */
static int64_t tiles_along(const Axis *x, const int64_t *syms) {
    return (dim_at(x->extent, syms) + x->step - 1) / x->step;
}

typedef struct Along {
    int n;
    int64_t tiles[MAX_AXES]; /* of the grid axes, the last one fastest */
} Along;

static Along grid_of(const Kernel *k, const int64_t *syms) {
    Along g = {0};
    for (int i = 0; i < k->axes.n; i++)
        if (k->axes.at[i].kind == AXIS_GRID) g.tiles[g.n++] = tiles_along(&k->axes.at[i], syms);
    return g;
}

unsigned kernel_places(const Kernel *k, const int64_t *syms) {
    const Along g = grid_of(k, syms);
    int wide = 0, deep = 0; /* of more than one program, of more than two */
    for (int i = 0; i < g.n; i++) wide += g.tiles[i] > 1, deep += g.tiles[i] > 2;
    return 1u << PLACE_CORNER | (unsigned)(wide > 1 && deep > 0) << PLACE_EDGE |
           (unsigned)(wide > 0 && wide == deep) << PLACE_INSIDE;
}

Place kernel_place_of(const Kernel *k, const int64_t *syms, int64_t program) {
    const Along g = grid_of(k, syms);
    int ends = 0, inner = 0;
    for (int i = g.n - 1; i >= 0; i--) {
        const int64_t at = program % g.tiles[i];
        program /= g.tiles[i];
        if (g.tiles[i] == 1) continue;
        if (at == 0 || at == g.tiles[i] - 1)
            ends++;
        else
            inner++;
    }
    return !inner ? PLACE_CORNER : ends ? PLACE_EDGE : PLACE_INSIDE;
}

static int64_t draw_end(int64_t tiles, TestRandom *r) { return test_below(r, 2) ? tiles - 1 : 0; }
static int64_t draw_inner(int64_t tiles, TestRandom *r) {
    return tiles > 2 ? 1 + (int64_t)(test_random(r) % (uint64_t)(tiles - 2)) : draw_end(tiles, r);
}

/* Of an edge: which axis is surely inside, which surely at an end. */
static void draw_edge(const Along *g, TestRandom *r, int *inner, int *end) {
    do *inner = test_below(r, g->n);
    while (g->tiles[*inner] < 3);
    do *end = test_below(r, g->n);
    while (*end == *inner || g->tiles[*end] < 2);
}

static uint64_t draw_program(const Along *g, Place p, bool last, TestRandom *r) {
    int inner = -1, end = -1;
    int64_t linear = 0;
    if (p == PLACE_EDGE) draw_edge(g, r, &inner, &end);
    for (int i = 0; i < g->n; i++) {
        const bool inside = p == PLACE_INSIDE || i == inner || (p == PLACE_EDGE && i != end && test_below(r, 2));
        const int64_t at = last ? g->tiles[i] - 1 : inside ? draw_inner(g->tiles[i], r) : draw_end(g->tiles[i], r);
        linear = linear * g->tiles[i] + at;
    }
    return (uint64_t)linear;
}

static int add_program(uint64_t *list, int n, uint64_t program) {
    int at = n;
    for (int i = 0; i < n; i++)
        if (list[i] == program) return n;
    for (; at > 0 && list[at - 1] > program; at--) list[at] = list[at - 1];
    list[at] = program;
    return n + 1;
}

int kernel_some_programs(const Kernel *k, const int64_t *syms, uint64_t seed, int n, uint64_t *program) {
    const Along g = grid_of(k, syms);
    const unsigned has = kernel_places(k, syms);
    TestRandom r = {seed * 0x9E3779B97F4A7C15u + 1};
    int count = 0;
    for (int i = 0; i < g.n; i++)
        if (g.tiles[i] == 0) return 0;
    for (int i = 0; i < 8; i++) test_random(&r); /* neighbouring seeds apart */
    for (int i = 0; i < n; i++) {
        const Place wanted = (Place)(((uint64_t)i + (n < PLACES ? seed : 0)) % PLACES);
        const Place p = has >> wanted & 1 ? wanted : PLACE_CORNER;
        const bool last = p == PLACE_CORNER && seed % 2 && !count;
        count = add_program(program, count, draw_program(&g, p, last, &r));
    }
    return count;
}

/* ---- loops ---------------------------------------------------------------------------------------------- */
static int64_t trips_of(const Axis *x) { return (x->extent.bound + x->step - 1) / x->step; }

int64_t kernel_depth(const Kernel *k) {
    int64_t most = 0;
    for (int i = 0; i < k->axes.n; i++)
        if (k->axes.at[i].kind == AXIS_LOOP && trips_of(&k->axes.at[i]) > most) most = trips_of(&k->axes.at[i]);
    return most;
}

static Kernel *kernel_cut(Arena *a, const Kernel *k, int64_t depth) {
    Kernel *cut = arena_dup(a, k, sizeof *k);
    cut->axes.at = arena_dup(a, k->axes.at, sizeof *k->axes.at * (size_t)k->axes.n);
    for (int i = 0; i < k->axes.n; i++) {
        Axis *x = &cut->axes.at[i];
        const int64_t beyond = trips_of(x) - depth;
        if (x->kind == AXIS_LOOP && beyond > 0) x->extent = dim_fixed(x->extent.bound - beyond * x->step);
    }
    return cut;
}

static Module *with_own_kernels(Arena *a, const Module *m) {
    Module *copy = arena_dup(a, m, sizeof *m);
    copy->kernels.at = arena_dup(a, m->kernels.at, sizeof *m->kernels.at * (size_t)m->kernels.n);
    return copy;
}

Module *module_cut(Arena *a, const Module *m, int64_t depth) {
    Module *cut = with_own_kernels(a, m);
    for (int i = 0; i < m->kernels.n; i++) cut->kernels.at[i] = kernel_cut(a, m->kernels.at[i], depth);
    return cut;
}

static Kernel *kernel_cut_to(Arena *a, Kernel *k, const int64_t *syms, double work, int64_t depth) {
    const double programs = (double)kernel_programs(k, syms);
    Kernel *cut = k;
    for (int64_t d = kernel_depth(k); d > depth && kernel_cost(cut).flops > work * programs;)
        cut = kernel_cut(a, k, d = d / 2 > depth ? d / 2 : depth);
    return cut;
}

Module *module_cut_to(Arena *a, const Module *m, const int64_t *syms, double work, int64_t depth) {
    Module *cut = with_own_kernels(a, m);
    for (int i = 0; i < m->kernels.n; i++) cut->kernels.at[i] = kernel_cut_to(a, m->kernels.at[i], syms, work, depth);
    return cut;
}
