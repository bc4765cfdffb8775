/* Random kernels as host code against the interpreter: loads (strided, masked, of memory that is stored to),
 * elementwise chains, reductions, products, loops with carried values, branches, at three vector widths.
 * Sums and products are scaled down, so that every value stays near 1 and f32 agrees to 1e-3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/host/host.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 240, BATCH = 40, MAX_POOL = 64 };

static uint32_t state_bits;
static uint32_t bits(void) {
    state_bits = state_bits * 1664525u + 1013904223u;
    return state_bits >> 8;
}
static int below(int n) { return (int)(bits() % (uint32_t)n); }
static bool chance(int percent) { return below(100) < percent; }

/* ---- generation ---------------------------------------------------------------------------------------- */
typedef struct Gen {
    Arena *a;
    Kernel *k;
    int n_axes, loop_axis; /* loop_axis is the last axis */
    int open;              /* loop axis usable now */
    int pool[MAX_POOL], n;
    int depth;
} Gen;

static void keep(Gen *g, int v) {
    if (g->n < MAX_POOL)
        g->pool[g->n++] = v;
    else
        g->pool[below(MAX_POOL)] = v;
}
static int pick(Gen *g) { return g->pool[chance(50) ? g->n - 1 - below(g->n < 4 ? g->n : 4) : below(g->n)]; }
static const TileType *type_of(const Gen *g, int v) { return &g->k->types.at[v]; }
static bool has(const TileType *t, int axis) {
    for (int i = 0; i < t->n_axes; i++)
        if (t->axis[i] == axis) return true;
    return false;
}
static bool within(const TileType *small, const TileType *large) {
    for (int i = 0; i < small->n_axes; i++)
        if (!has(large, small->axis[i])) return false;
    return true;
}

static void make_axes(Gen *g) {
    static const AxisKind kinds[] = {AXIS_GRID, AXIS_GRID, AXIS_SPAN, AXIS_SPAN, AXIS_LOOP};
    static const char *const names[] = {"a", "b", "c", "d", "t"};
    for (int i = 0; i < 5; i++) {
        const int64_t extent = 1 + below(chance(40) ? 40 : 9);
        Dim d = dim_fixed(extent);
        if (i == 1 || i == 4) d = (Dim){.bound = extent, .sym = 0, .scale = 1, .offset = extent - 8};
        if (d.sym == 0) d.bound = d.offset + 8;
        int step = kinds[i] == AXIS_SPAN ? (int)d.bound + below(3) : 1 + below(chance(50) ? 24 : 6);
        kernel_axis(g->k, names[i], kinds[i], d, step);
    }
    g->n_axes = 5;
    g->loop_axis = 4;
}

/* A buffer over the axes in a random order, read or written at its plain index (or one strided by two). */
static int buffer_over(Gen *g, const TileType *t, DType type, bool written, const Index **index) {
    Shape s = {.rank = t->n_axes};
    const int turn = t->n_axes ? below(t->n_axes) : 0;
    const int wide = !written && t->n_axes && chance(15) ? below(t->n_axes) : -1;
    for (int i = 0; i < t->n_axes; i++) {
        const int axis = t->axis[(i + turn) % t->n_axes];
        s.dim[i] = i == wide ? dim_mul_const(g->k->axes.at[axis].extent, 2) : g->k->axes.at[axis].extent;
        index[i] = index_axis(g->k, axis);
        if (i == wide) index[i] = index_add(g->k, index_scale(g->k, index[i], 2), index_const(g->a, 1));
    }
    return kernel_buffer(g->k, written ? "y" : "x", type, s, NULL, written);
}

static TileType random_axes(Gen *g) {
    TileType t = {.dtype = DT_F32};
    for (int i = 0; i < g->n_axes; i++)
        if ((i != g->loop_axis || g->open) && t.n_axes < 3 && chance(i == g->loop_axis ? 70 : 40))
            t.axis[t.n_axes++] = (int8_t)i;
    return t;
}

static int scaled(Builder *b, int v, double by) {
    const int c = tile_const(b, DT_F32, by);
    return tile_element(b, OP_MUL, DT_F32, 2, (int[]){v, c});
}

static int make_load(Gen *g, Builder *b) {
    const Index *index[MAX_RANK];
    const TileType t = random_axes(g);
    const int buffer = buffer_over(g, &t, DT_F32, false, index);
    int mask = -1;
    if (t.n_axes && chance(20)) {
        const int i = tile_index(b, index_axis(g->k, t.axis[below(t.n_axes)])),
                  limit = tile_const(b, DT_I32, below(12));
        mask = tile_element(b, OP_LT, DT_BOOL, 2, (int[]){i, limit});
    }
    return tile_load(b, buffer, index, mask, mask >= 0 ? 0.5 : 0);
}

static int union_size(const Gen *g, int x, int y) { return tile_type_union(*type_of(g, x), *type_of(g, y)).n_axes; }

static int make_element(Gen *g, Builder *b) {
    static const Op unary[] = {OP_TANH, OP_NEG, OP_ABS, OP_SIN, OP_TANH},
                    binary[] = {OP_ADD, OP_SUB, OP_MAX, OP_MIN, OP_MUL};
    int x = pick(g), y = pick(g);
    if (chance(30)) return tile_element(b, unary[below(5)], DT_F32, 1, &x);
    if (union_size(g, x, y) > 4) return -1;
    const Op op = binary[below(5)];
    if (op == OP_MUL) y = tile_element(b, OP_TANH, DT_F32, 1, &y);
    const int v = tile_element(b, op, DT_F32, 2, (int[]){x, y});
    return op == OP_ADD || op == OP_SUB ? scaled(b, v, 0.5) : v;
}

static int make_reduce(Gen *g, Builder *b) {
    static const Op ops[] = {OP_SUM, OP_RMAX, OP_RMIN};
    const int x = pick(g);
    int8_t over[MAX_TILE_AXES];
    int n = 0;
    for (int i = 0; i < type_of(g, x)->n_axes; i++)
        if (chance(60)) over[n++] = type_of(g, x)->axis[i];
    if (!n) return -1;
    const Op op = ops[below(3)];
    const int v = tile_reduce(b, op, x, n, over);
    return op == OP_SUM ? scaled(b, v, 1.0 / 16) : v;
}

static int make_dot(Gen *g, Builder *b) {
    const int x = pick(g), y = pick(g);
    const TileType *tx = type_of(g, x), *ty = type_of(g, y);
    int8_t over[MAX_TILE_AXES];
    int n = 0;
    TileType t = tile_type_union(*tx, *ty), r = {.dtype = DT_F32};
    if (t.n_axes > 4) return -1;
    for (int i = 0; i < t.n_axes; i++)
        if (has(tx, t.axis[i]) && has(ty, t.axis[i]) && chance(80))
            over[n++] = t.axis[i];
        else
            r.axis[r.n_axes++] = t.axis[i];
    if (!n) return -1;
    int acc = tile_full(b, r, 0.25);
    for (int tries = 0; tries < 4; tries++) { /* an existing value as the accumulator */
        const int v = pick(g);
        if (within(type_of(g, v), &r) && type_of(g, v)->n_axes == r.n_axes) acc = v;
    }
    return scaled(b, tile_dot(b, x, y, acc, n, over), 1.0 / 32);
}

/* Stores at an index that has all grid axes, so that programs write apart; sometimes reads it back. */
static void make_store(Gen *g, Builder *b, int v) {
    const Index *index[MAX_RANK];
    TileType t = *type_of(g, v);
    for (int i = 0; i < g->n_axes; i++)
        if (g->k->axes.at[i].kind == AXIS_GRID && !has(&t, i))
            t = tile_type_union(t, (TileType){.dtype = DT_F32, .n_axes = 1, .axis = {(int8_t)i}});
    const int buffer = buffer_over(g, &t, DT_F32, true, index);
    const bool before = chance(30), after = chance(30);
    if (before) keep(g, tile_load(b, buffer, index, -1, 0));
    tile_store(b, buffer, index, v, -1);
    if (after) keep(g, tile_load(b, buffer, index, -1, 0));
}

static void make_body(Gen *g, Builder *b, int steps);

/* What a carried value becomes: a blend of itself (or another carry) with something over no more axes. */
static int next_carry(Gen *g, Builder *b, int carry) {
    for (int tries = 0; tries < 12; tries++) {
        const int v = pick(g);
        if (!within(type_of(g, v), type_of(g, carry))) continue;
        if (type_of(g, v)->n_axes == type_of(g, carry)->n_axes && chance(40)) return v;
        return scaled(b, tile_element(b, OP_ADD, DT_F32, 2, (int[]){carry, v}), 0.5);
    }
    return carry;
}

static void make_region(Gen *g, Builder *b, bool loop) {
    const int n = 1 + below(3), before = g->n;
    int init[3], carry[3], yield[3], results[3];
    for (int i = 0; i < n; i++) init[i] = pick(g);
    Builder inside;
    Inst *region;
    if (loop) {
        region = tile_for_begin(b, g->loop_axis, n, init, carry, &inside);
        g->open = true;
        for (int i = 0; i < n; i++) keep(g, carry[i]);
    } else {
        const int flag = tile_load(b, kernel_buffer(g->k, "flag", DT_BOOL, shape_scalar(), NULL, false), NULL, -1, 0);
        region = tile_if_begin(b, flag, n, init, &inside);
        memcpy(carry, init, sizeof carry);
    }
    g->depth++;
    make_body(g, &inside, 3 + below(5));
    for (int i = 0; i < n; i++) yield[i] = next_carry(g, &inside, carry[i]);
    g->depth--;
    if (loop)
        tile_for_end(&inside, region, yield, results);
    else
        tile_if_end(&inside, region, yield, results);
    if (loop) g->open = false;
    g->n = before;
    for (int i = 0; i < n; i++) keep(g, results[i]);
}

static void make_body(Gen *g, Builder *b, int steps) {
    for (int i = 0; i < steps; i++) {
        const int what = below(100);
        int v = -1;
        if (what < 25)
            v = make_load(g, b);
        else if (what < 55)
            v = make_element(g, b);
        else if (what < 67)
            v = make_reduce(g, b);
        else if (what < 82)
            v = make_dot(g, b);
        else if (what < 90 && g->depth < 3 && g->n < MAX_POOL - 20)
            make_region(g, b, !g->open);
        else if (g->depth == 0)
            make_store(g, b, pick(g));
        if (v >= 0) keep(g, v);
    }
}

static Kernel *random_kernel(Arena *a, int seed) {
    Gen g = {.a = a, .k = kernel_new(a, arena_printf(a, "random_%d", seed))};
    static const char *const names[] = {"S"};
    static const int64_t bounds[] = {8};
    state_bits = (uint32_t)seed * 2654435761u + 12345u;
    g.k->n_syms = 1;
    g.k->sym_names = names;
    g.k->sym_bounds = bounds;
    make_axes(&g);
    Builder b = {.k = g.k, .block = &g.k->body};
    keep(&g, make_load(&g, &b));
    keep(&g, make_load(&g, &b));
    make_body(&g, &b, 8 + below(12));
    for (int i = 0; i < 2; i++) make_store(&g, &b, pick(&g));
    return g.k;
}

/* ---- comparison -------------------------------------------------------------------------------------------- */
static int64_t elements(const Buffer *b) {
    int64_t n = 1;
    for (int d = 0; d < b->rank; d++) n *= b->dim[d].bound;
    return n;
}

static void report(const Kernel *k, const char *what, int buffer, int64_t i, double got, double want) {
    kernel_print(stderr, k);
    fail_msg("@%s on %s: %%%s[%d] is %g, not %g", k->name, what, k->buffers.at[buffer].name, (int)i, got, want);
}

static void compare(Arena *a, const Kernel *k, fusec_host_kernel code, const char *machine, int64_t size) {
    const int n = k->buffers.n;
    TileMemory *want = ARENA_ARRAY(a, TileMemory, n);
    void **got = ARENA_ARRAY(a, void *, n);
    state_bits = 99;
    for (int i = 0; i < n; i++) {
        const Buffer *b = &k->buffers.at[i];
        want[i].bytes = elements(b) * dtype_bytes(b->dtype);
        want[i].data = arena_alloc(a, (size_t)want[i].bytes + 1);
        for (int64_t e = 0; e < elements(b); e++)
            if (b->dtype == DT_BOOL)
                ((uint8_t *)want[i].data)[e] = bits() & 1;
            else
                ((float *)want[i].data)[e] = (float)below(4001) / 2000 - 1;
        got[i] = arena_dup(a, want[i].data, (size_t)want[i].bytes + 1);
    }
    const char *error = NULL;
    if (!kernel_run(a, k, want, &size, &error)) {
        kernel_print(stderr, k);
        fail_msg("%s", error);
    }
    code(got, &size, 0, kernel_programs(k, &size));
    for (int i = 0; i < n; i++)
        for (int64_t e = 0; k->buffers.at[i].dtype == DT_F32 && e < elements(&k->buffers.at[i]); e++) {
            const double x = ((float *)got[i])[e], y = ((float *)want[i].data)[e];
            if (!(fabs(y) < 1e6)) continue; /* a product in a loop has grown: no statement about f32 */
            if (!(fabs(x - y) <= 1e-3 * (fabs(y) > 1 ? fabs(y) : 1))) report(k, machine, i, e, x, y);
        }
}

static void random_kernels(void **state) {
    static const HostOptions machines[] = {
        {0}, {.cpu = "x86-64-v3", .features = ""}, {.cpu = "x86-64-v2", .features = ""}};
    static const char *const names[] = {"native", "avx2", "sse4"};
    int dots = 0, loops = 0;
    (void)state;
    for (int first = 0; first < KERNELS; first += BATCH) {
        Arena *a = arena_new();
        Module m = {.arena = a, .name = "random", .source = "random", .align = 64};
        vec_push(a, m.syms, (SymDecl){"S", 8});
        for (int i = first; i < first + BATCH; i++) {
            Kernel *k = random_kernel(a, i);
            const char *violation = kernel_verify(a, k);
            if (violation) {
                kernel_print(stderr, k);
                fail_msg("%s", violation);
            }
            vec_push(a, m.kernels, k);
            for (int n = 0; n < k->body.n; n++)
                dots += k->body.at[n]->kind == TI_DOT, loops += k->body.at[n]->kind == TI_FOR;
        }
        const int which = first / BATCH % 3;
        char *error = NULL;
        HostJit *j = host_jit(&m, &machines[which], &error);
        if (!j) fail_msg("%s", error);
        for (int i = 0; i < BATCH; i++)
            for (int64_t size = 1; size <= 8; size += 7) {
                Arena *scratch = arena_new();
                compare(scratch, m.kernels.at[i], host_jit_kernels(j)[i], names[which], size);
                arena_free(scratch);
            }
        host_jit_free(j);
        arena_free(a);
    }
    assert_true(dots >= 20 && loops >= 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
