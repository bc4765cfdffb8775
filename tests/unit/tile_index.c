/* Index expressions: normal form, simplification, ranges.  Every simplification is also checked
 * against plain floor division over all values of the axes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "ir/tile_flat.h"
#include <stdlib.h>
#include <string.h>

typedef struct Fixture {
    Arena *a;
    Kernel *k;
    int i, j, s; /* axes of 6, 8 and S <= 10 */
} Fixture;

static Fixture fixture(void) {
    static const char *const names[] = {"S"};
    static const int64_t bounds[] = {10};
    Fixture f = {.a = arena_new()};
    f.k = kernel_new(f.a, "k");
    f.k->n_syms = 1;
    f.k->sym_names = names;
    f.k->sym_bounds = bounds;
    f.i = kernel_axis(f.k, "i", AXIS_GRID, dim_fixed(6), 1);
    f.j = kernel_axis(f.k, "j", AXIS_GRID, dim_fixed(8), 1);
    f.s = kernel_axis(f.k, "s", AXIS_GRID, (Dim){.bound = 10, .sym = 0, .scale = 1}, 1);
    return f;
}

static const Index *constant(Fixture *f, int64_t c) { return index_const(f->a, c); }
static const Index *affine(Fixture *f, int64_t ci, int64_t cj, int64_t c) {
    const Index *x = index_scale(f->k, index_axis(f->k, f->i), ci);
    x = index_add(f->k, x, index_scale(f->k, index_axis(f->k, f->j), cj));
    return index_add(f->k, x, constant(f, c));
}
static const Index *div_by(Fixture *f, const Index *x, int64_t d) { return index_div(f->k, x, constant(f, d)); }
static const Index *mod_by(Fixture *f, const Index *x, int64_t d) { return index_mod(f->k, x, constant(f, d)); }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static int64_t value_at(const Index *x, int64_t i, int64_t j, int64_t s) {
    int64_t v = x->c;
    for (int n = 0; n < x->n; n++) {
        const Atom *a = &x->term[n].atom;
        int64_t t = 0;
        if (a->kind == ATOM_AXIS)
            t = a->id == 0 ? i : a->id == 1 ? j : s;
        else if (a->kind == ATOM_EXTENT)
            t = s + 1;
        else {
            const int64_t num = value_at(a->num, i, j, s), den = value_at(a->den, i, j, s), q = floor_div(num, den);
            t = a->kind == ATOM_DIV ? q : num - q * den;
        }
        v += x->term[n].coef * t;
    }
    return v;
}

/* [6, 8] of a buffer, from index v in 0..48 as [v / 8, v mod 8] and in three parts: one stride where the parts lie
 * behind each other. */
static bool flat_stride(const int64_t *stride, int64_t *out) {
    Fixture f = fixture();
    const Dim two = dim_fixed(2), four = dim_fixed(4), six = dim_fixed(6);
    const int v = kernel_axis(f.k, "v", AXIS_GRID, dim_fixed(48), 4);
    const Index *x = index_axis(f.k, v);
    const Index *at[3] = {div_by(&f, x, 8), mod_by(&f, div_by(&f, x, 4), 2), mod_by(&f, x, 4)};
    const Buffer b = {.name = "x", .rank = 3, .dim = {six, two, four}, .stride = {stride[0], stride[1], stride[2]}};
    vec_push(f.a, f.k->buffers, b);
    FlatAccess flat;
    const Inst load = {.kind = TI_LOAD, .buffer = f.k->buffers.n - 1, .n_index = 3, .index = at};
    const bool whole = access_flatten(f.k, &load, &flat) && flat.n_divided == 0;
    *out = flat.stride[v];
    arena_free(f.a);
    return whole;
}

static void test_folded_axes(void **state) {
    (void)state;
    int64_t stride;
    assert_true(flat_stride((int64_t[]){24, 12, 3}, &stride));
    assert_int_equal(stride, 3);
    assert_false(flat_stride((int64_t[]){24, 16, 3}, &stride)); /* a gap between rows */
    assert_false(flat_stride((int64_t[]){12, 24, 3}, &stride)); /* the other way round */
}

static void test_normal_form(void **state) {
    (void)state;
    Fixture f = fixture();
    const Index *x = index_add(f.k, affine(&f, 2, 3, 1), affine(&f, -2, 1, 4));
    assert_int_equal(x->n, 1);
    assert_int_equal(x->term[0].coef, 4);
    assert_int_equal(x->c, 5);
    assert_true(index_equal(affine(&f, 1, 2, 3), index_add(f.k, affine(&f, 0, 2, 3), affine(&f, 1, 0, 0))));
    assert_false(index_equal(affine(&f, 1, 2, 3), affine(&f, 1, 2, 4)));
    int64_t c;
    assert_true(index_is_const(index_add(f.k, affine(&f, 1, 0, 7), affine(&f, -1, 0, 0)), &c));
    assert_int_equal(c, 7);
    arena_free(f.a);
}

static void test_split_and_join(void **state) {
    (void)state;
    Fixture f = fixture();
    const Index *x = affine(&f, 8, 1, 0); /* row-major index over [6, 8] */
    assert_true(index_equal(div_by(&f, x, 8), affine(&f, 1, 0, 0)));
    assert_true(index_equal(mod_by(&f, x, 8), affine(&f, 0, 1, 0)));
    assert_true(index_equal(div_by(&f, affine(&f, 8, 1, 48), 8), affine(&f, 1, 0, 6)));
    assert_true(index_equal(div_by(&f, affine(&f, 16, 1, 0), 64), div_by(&f, affine(&f, 1, 0, 0), 4)));
    int64_t c;
    assert_true(index_is_const(div_by(&f, affine(&f, 8, 1, 0), 48), &c));
    assert_int_equal(c, 0);
    assert_true(index_is_const(div_by(&f, affine(&f, 0, 1, -8), 8), &c));
    assert_int_equal(c, -1);
    arena_free(f.a);
}

static void test_nesting(void **state) {
    (void)state;
    Fixture f = fixture();
    const Index *x = affine(&f, 3, 5, 0);
    assert_true(index_equal(div_by(&f, div_by(&f, x, 2), 7), div_by(&f, x, 14)));
    assert_true(index_equal(mod_by(&f, mod_by(&f, x, 28), 7), mod_by(&f, x, 7)));
    assert_true(index_equal(div_by(&f, mod_by(&f, x, 28), 4), mod_by(&f, div_by(&f, x, 4), 7)));
    /* reshape there and back: ((x/28)*7 + (x/4 mod 7))*4 + x mod 4 */
    const Index *y = index_add(f.k, index_scale(f.k, div_by(&f, x, 28), 7), mod_by(&f, div_by(&f, x, 4), 7));
    y = index_add(f.k, index_scale(f.k, y, 4), mod_by(&f, x, 4));
    assert_true(index_equal(y, x));
    arena_free(f.a);
}

static void test_extents(void **state) {
    (void)state;
    Fixture f = fixture();
    int64_t lo, hi, c;
    const Index *n = index_extent(f.k, (Dim){.bound = 21, .sym = 0, .scale = 2, .offset = 1});
    assert_true(index_range(f.k, n, &lo, &hi));
    assert_int_equal(lo, 1);
    assert_int_equal(hi, 21);
    assert_true(index_is_const(index_div(f.k, index_scale(f.k, n, 3), n), &c));
    assert_int_equal(c, 3);
    assert_true(index_is_const(index_mod(f.k, n, n), &c));
    assert_int_equal(c, 0);
    assert_int_equal(index_div(f.k, index_axis(f.k, f.s), n)->n, 1); /* s < S is not known from ranges alone */
    arena_free(f.a);
}

static void test_ranges(void **state) {
    (void)state;
    Fixture f = fixture();
    int64_t lo, hi;
    assert_true(index_range(f.k, affine(&f, 2, -3, 1), &lo, &hi));
    assert_int_equal(lo, -20);
    assert_int_equal(hi, 11);
    assert_false(index_range(f.k, affine(&f, INT64_MAX, 0, 0), &lo, &hi));
    Builder b = {.k = f.k, .block = &f.k->body};
    const int v = tile_index(&b, affine(&f, 1, 0, 0));
    assert_true(index_range(f.k, index_value(f.k, v, 3, 9), &lo, &hi));
    assert_int_equal(hi, 8);
    assert_false(index_range(f.k, index_value(f.k, v, 0, 0), &lo, &hi));
    arena_free(f.a);
}

static void test_affine_in(void **state) {
    (void)state;
    Fixture f = fixture();
    int64_t coef;
    const Index *x = index_add(f.k, affine(&f, 5, 0, 1), div_by(&f, affine(&f, 0, 1, 0), 3));
    assert_true(index_affine_in(f.k, x, f.i, &coef));
    assert_int_equal(coef, 5);
    assert_false(index_affine_in(f.k, x, f.j, &coef));
    assert_true(index_affine_in(f.k, x, f.s, &coef));
    assert_int_equal(coef, 0);
    TileType t = {0};
    index_axes(f.k, x, &t);
    assert_int_equal(t.n_axes, 2);
    arena_free(f.a);
}

/* A gathered value stands for the axes of its tile. */
static void test_gather_axes(void **state) {
    (void)state;
    Fixture f = fixture();
    Builder b = {.k = f.k, .block = &f.k->body};
    const Index *g = index_value(f.k, tile_index(&b, affine(&f, 0, 1, 0)), 0, 8);
    int64_t coef;
    TileType t = {0};
    assert_false(index_affine_in(f.k, g, f.j, &coef));
    index_axes(f.k, div_by(&f, g, 3), &t);
    assert_int_equal(t.n_axes, 1);
    assert_int_equal(t.axis[0], f.j);
    arena_free(f.a);
}

typedef struct Pair {
    const Index *simple, *plain; /* `plain` only divides through raw atoms */
} Pair;

static const Index *raw(Fixture *f, AtomKind kind, const Index *x, int64_t d) {
    return index_make(f->a, 0, 1, &(Term){.coef = 1, .atom = {.kind = kind, .num = x, .den = constant(f, d)}});
}

static const Index *merged(Fixture *f, const Index *x, const Index *y, int64_t c) {
    Term t[64];
    int n = 0;
    for (int i = 0; i < x->n; i++) t[n++] = x->term[i];
    for (int i = 0; i < y->n; i++) t[n++] = (Term){y->term[i].coef * c, y->term[i].atom};
    return index_make(f->a, x->c + c * y->c, n, t);
}

static Pair random_pair(Fixture *f, int depth) {
    const int64_t c = rand() % 17 - 8, d = (int64_t[]){2, 3, 4, 6, 8, 16, 48}[rand() % 7];
    if (depth == 0 || rand() % 5 == 0) {
        const Index *x = affine(f, rand() % 20 - 6, rand() % 12 - 4, c);
        return (Pair){x, x};
    }
    const Pair x = random_pair(f, depth - 1);
    switch (rand() % 3) {
    case 0: return (Pair){div_by(f, x.simple, d), raw(f, ATOM_DIV, x.plain, d)};
    case 1: return (Pair){mod_by(f, x.simple, d), raw(f, ATOM_MOD, x.plain, d)};
    default: {
        const Pair y = random_pair(f, depth - 1);
        return (Pair){index_add(f->k, x.simple, index_scale(f->k, y.simple, c)), merged(f, x.plain, y.plain, c)};
    }
    }
}

static void test_random_against_plain(void **state) {
    (void)state;
    srand(7);
    for (int round = 0; round < 1500; round++) {
        Fixture f = fixture();
        const Pair p = random_pair(&f, 4);
        int64_t lo, hi;
        assert_true(index_range(f.k, p.simple, &lo, &hi));
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 0; j < 8; j++) {
                const int64_t v = value_at(p.simple, i, j, 0);
                assert_int_equal(v, value_at(p.plain, i, j, 0));
                assert_in_range((uint64_t)(v - lo), 0, (uint64_t)(hi - lo));
            }
        arena_free(f.a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal_form),
        cmocka_unit_test(test_folded_axes),
        cmocka_unit_test(test_split_and_join),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_extents),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_affine_in),
        cmocka_unit_test(test_gather_axes),
        cmocka_unit_test(test_random_against_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
