/* Attributes and shapes are kept once: the same pointer for equal ones, another wherever one field differs. */
#include "ir/node_pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

typedef struct Fixture {
    Arena *arena;
    Graph *g;
    Node *x, *y; /* f32[4, 3], f32[3, 5] */
} Fixture;

static Fixture fixture(void) {
    static Model model = {.name = "m"};
    Fixture f = {.arena = arena_new()};
    f.g = graph_new(f.arena, &model, ENTRY_INFER);
    f.x = graph_const(f.g, DT_F32, shape_fixed(2, (int64_t[]){4, 3}), 1);
    f.y = graph_const(f.g, DT_F32, shape_fixed(2, (int64_t[]){3, 5}), 1);
    return f;
}

/* x @ y with a guard, which the next call writes over. */
static Contract *product(Fixture *f) {
    static Guard guard;
    Contract *c = ARENA_NEW(f->arena, Contract);
    *c = (Contract){.n_loops = 3, .n_out = 2, .extent = {dim_fixed(4), dim_fixed(5), dim_fixed(3)}, .n_operands = 2};
    c->map = arena_alloc(f->arena, 2 * sizeof *c->map);
    static const int loop[2][2] = {{0, 2}, {2, 1}};
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < 2; d++) c->map[k][d].divisor = 1, c->map[k][d].coef[loop[k][d]] = 1;
    guard = (Guard){.kind = GUARD_RANGE, .e = {.divisor = 1, .coef = {1}}, .hi = dim_fixed(3)};
    c->guard = &guard;
    c->n_guards = 1;
    return c;
}

static const Attr *built(Fixture *f, const Contract *c) { return graph_contract(f->g, 2, (Node *[]){f->x, f->y}, c)->attr; }

static void contractions(void **state) {
    (void)state;
    Fixture f = fixture();
    const Attr *plain = built(&f, product(&f));
    assert_ptr_equal(built(&f, product(&f)), plain);
    assert_int_equal(plain->contract->guard[0].hi.bound, 3); /* a copy of its own */
    Contract *c[7];
    for (int i = 0; i < 7; i++) {
        c[i] = product(&f);
        Guard *own = arena_dup(f.arena, c[i]->guard, sizeof *own);
        if (i == 0) c[i]->n_guards = 0;
        if (i == 1) own->lo = 1;
        if (i == 2) own->hi = dim_fixed(2);
        if (i == 3) c[i]->map[0][1].c = 1;
        if (i == 4) c[i]->map[1][0].coef[2] = -1;
        if (i == 5) c[i]->extent[2].name = "k";
        if (i == 6) own->e.coef[1] = 1;
        c[i]->guard = own;
    }
    for (int i = 0; i < 7; i++)
        for (int j = -1; j < i; j++) assert_ptr_not_equal(built(&f, c[i]), j < 0 ? plain : built(&f, c[j]));
    arena_free(f.arena);
}

/* Names are for messages: similar, but not the same, so that each message has its own. */
static void names(void **state) {
    (void)state;
    Fixture f = fixture();
    Contract *named = product(&f);
    named->extent[0].name = "B";
    Node *a = graph_contract(f.g, 2, (Node *[]){f.x, f.y}, product(&f)), *b = graph_contract(f.g, 2, (Node *[]){f.x, f.y}, named);
    assert_ptr_not_equal(a->attr, b->attr);
    assert_true(attr_similar(a, b));
    assert_true(attr_hash(a) == attr_hash(b));
    assert_string_equal(b->shape->dim[0].name, "B");
    assert_null(a->shape->dim[0].name);
    arena_free(f.arena);
}

static void small_fields(void **state) {
    (void)state;
    Fixture f = fixture();
    const Shape s = shape_fixed(1, (int64_t[]){2});
    const Attr *zero = graph_const(f.g, DT_F32, s, 0.0)->attr;
    assert_ptr_equal(graph_const(f.g, DT_F32, shape_scalar(), 0.0)->attr, zero);
    assert_ptr_not_equal(graph_const(f.g, DT_F32, s, -0.0)->attr, zero);
    assert_ptr_not_equal(graph_const(f.g, DT_BF16, s, 0.0)->attr, zero);
    const Attr slice = {.lo = {dim_fixed(1), dim_fixed(0)}, .hi = {dim_fixed(2), dim_fixed(3)}, .step = {1, 1}};
    Attr other = slice;
    other.step[0] = -1;
    Node *a = graph_op(f.g, OP_SLICE, 1, &f.x, &slice), *b = graph_op(f.g, OP_SLICE, 1, &f.x, &slice);
    assert_ptr_equal(a->attr, b->attr);
    assert_false(attr_similar(a, graph_op(f.g, OP_SLICE, 1, &f.x, &other)));
    arena_free(f.arena);
}

/* Which tensor is meant is no matter of the computation. */
static void sources(void **state) {
    (void)state;
    Fixture f = fixture();
    const Shape s = shape_fixed(1, (int64_t[]){2});
    Node *a = graph_node(f.g, OP_PARAM, 0, NULL, &(Attr){.decl = 0}, DT_F32, s),
         *b = graph_node(f.g, OP_PARAM, 0, NULL, &(Attr){.decl = 1}, DT_F32, s);
    assert_ptr_not_equal(a->attr, b->attr);
    assert_true(attr_similar(a, b) && attr_hash(a) == attr_hash(b));
    assert_true(attr_hash_source(a) != attr_hash_source(b));
    arena_free(f.arena);
}

/* Past many sizes of the table, and in the graphs made of a graph. */
static void many(void **state) {
    (void)state;
    enum { N = 3000 };
    Fixture f = fixture();
    const Attr *first[N];
    for (int i = 0; i < N; i++) first[i] = graph_const(f.g, DT_F32, shape_scalar(), i)->attr;
    Graph *made = graph_new_from(f.arena, f.g);
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(graph_const(made, DT_F32, shape_scalar(), i)->attr, first[i]);
        assert_true(first[i]->value == i && (i == 0 || first[i] != first[i - 1]));
    }
    arena_free(f.arena);
}

/* Equal to the names, whatever stands past the rank. */
static void shapes(void **state) {
    (void)state;
    Fixture f = fixture();
    NodePool *p = node_pool_new(f.arena);
    const Dim S = {.bound = 9, .sym = 0, .scale = 2, .offset = 1};
    Shape s = shape_make(2, (Dim[]){dim_fixed(3), S});
    const Shape *first = node_pool_shape(p, &s);
    assert_true(shape_same(first, &s) && first != &s);
    s.dim[2] = dim_fixed(5);
    assert_ptr_equal(node_pool_shape(p, &s), first);
    s.dim[1].name = "S";
    assert_ptr_not_equal(node_pool_shape(p, &s), first);
    s.dim[1] = S, s.dim[1].offset = 0;
    assert_ptr_not_equal(node_pool_shape(p, &s), first);
    s.dim[1] = dim_fixed(9);
    assert_ptr_not_equal(node_pool_shape(p, &s), first);
    s.rank = 1;
    assert_ptr_not_equal(node_pool_shape(p, &s), first);
    Node *x = graph_const(f.g, DT_F32, s, 1), *y = graph_unary(f.g, OP_EXP, x);
    assert_ptr_equal(x->shape, y->shape);
    arena_free(f.arena);
}

/* An array goes on in place while nothing is allocated behind it, and keeps its items where something is. */
static void growing(void **state) {
    (void)state;
    Arena *a = arena_new();
    VEC(int) one = {0}, other = {0};
    for (int i = 0; i < 20000; i++) vec_push(a, one, i);
    for (int i = 0; i < 2000; i++) {
        vec_push(a, one, 20000 + i);
        vec_push(a, other, -i);
        char *zeroed = arena_alloc(a, 24);
        for (int b = 0; b < 24; b++) assert_int_equal(zeroed[b], 0);
    }
    for (int i = 0; i < one.n; i++) assert_int_equal(one.at[i], i);
    for (int i = 0; i < other.n; i++) assert_int_equal(other.at[i], -i);
    char *last = arena_alloc(a, 100);
    if (arena_extend(a, last, 100, 200)) { /* not where each allocation is its own */
        memset(last, 1, 200);
        assert_false(arena_extend(a, other.at, 8, 16));
        assert_false(arena_extend(a, last, 200, (size_t)1 << 60));
        assert_int_equal(*(char *)arena_alloc(a, 1), 0);
    }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(contractions), cmocka_unit_test(names), cmocka_unit_test(small_fields),
                                       cmocka_unit_test(sources), cmocka_unit_test(many), cmocka_unit_test(shapes), cmocka_unit_test(growing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
