/* What graphs are built from: arenas, vectors, dims, dtypes, tables, scalars, building and pruning. */
#include "ir/graph.h"
#include "ir/target.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void arenas(void **state) {
    (void)state;
    Arena *a = arena_new();
    char *before = NULL;
    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 2 + 1) {
        char *p = arena_alloc(a, bytes);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
        memset(p, 0xAB, bytes);
        assert_true(p != before);
        before = p;
    }
    assert_string_equal(arena_printf(a, "%s-%d", "x", 7), "x-7");
    assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
    assert_string_equal(arena_strdup(a, ""), "");
    assert_true(arena_bytes(a) > 300000);
    arena_free(a);
    arena_free(NULL);
}

/* Exit status 3 of a child, which says why. */
static void out_of_memory(void **state) {
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fclose(stderr);
        arena_alloc(arena_new(), SIZE_MAX / 2);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
}

static void vectors(void **state) {
    (void)state;
    Arena *a = arena_new();
    VEC(int64_t) v = {0};
    for (int i = 0; i < 1000; i++) vec_push(a, v, (int64_t)i * i);
    assert_int_equal(v.n, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(v.at[i], (int64_t)i * i);
    assert_int_equal(vec_last(v), 999 * 999);
    arena_free(a);
}

static const Dim S = {.bound = 10, .sym = 0, .scale = 1, .name = "S"}, T = {.bound = 4, .sym = 1, .scale = 1};

static void dims(void **state) {
    (void)state;
    const int64_t syms[] = {3, 2};
    Dim d = dim_add_const(dim_mul_const(S, 2), 1), e;
    assert_true(d.bound == 21 && dim_at(d, syms) == 7);
    assert_true(dim_add(d, S, &e) && e.bound == 31 && dim_at(e, syms) == 10);
    assert_true(dim_add(S, dim_add_const(dim_mul_const(S, -1), 5), &e) && dim_is_fixed(e) && e.bound == 5);
    assert_true(dim_add(dim_fixed(2), T, &e) && dim_at(e, syms) == 4);
    assert_false(dim_add(S, T, &e));
    assert_true(dim_mul(dim_fixed(3), S, &e) && dim_at(e, syms) == 9);
    assert_false(dim_mul(S, T, &e));
    assert_true(dim_equal(dim_mul_const(S, 0), dim_fixed(0)));
    assert_false(dim_equal(S, dim_fixed(10)));
    assert_false(dim_equal(S, d));
    Dim unnamed = S;
    unnamed.name = NULL;
    assert_true(dim_equal(S, unnamed));
    assert_true(dim_mul_const(dim_fixed(INT64_MAX), 8).bound > MAX_ELEMENTS);
}

static void shapes(void **state) {
    (void)state;
    Arena *a = arena_new();
    Shape fixed = shape_fixed(3, (int64_t[]){32, 8, 4096}), mixed = shape_make(2, (Dim[]){S, dim_fixed(8)});
    assert_string_equal(shape_text(a, fixed), "[32,8,4096]");
    assert_string_equal(shape_text(a, mixed), "[S<=10, 8]");
    fixed.dim[0].name = "B";
    assert_string_equal(shape_text(a, fixed), "[B=32, 8, 4096]");
    assert_string_equal(shape_text(a, shape_scalar()), "[]");
    assert_true(shape_is_fixed(fixed) && !shape_is_fixed(mixed));
    assert_int_equal(shape_elements(shape_scalar()), 1);
    assert_int_equal(shape_elements(mixed), 80);
    int64_t n;
    Shape huge = shape_fixed(3, (int64_t[]){1 << 30, 1 << 30, 1 << 30});
    assert_false(shape_elements_checked(huge, &n));
    huge.dim[2] = dim_fixed(0);
    assert_true(shape_elements_checked(huge, &n) && n == 0);
    huge = shape_fixed(2, (int64_t[]){MAX_ELEMENTS, MAX_ROUNDED / MAX_ELEMENTS});
    assert_true(shape_elements_checked(huge, &n) && n == MAX_ROUNDED);
    huge.dim[1] = dim_fixed(MAX_ROUNDED / MAX_ELEMENTS + 1);
    assert_false(shape_elements_checked(huge, &n));
    huge = shape_fixed(2, (int64_t[]){MAX_ELEMENTS + 1, 0});
    assert_false(shape_elements_checked(huge, &n));
    arena_free(a);
}

static void tables(void **state) {
    (void)state;
    for (int i = 0; i < OP_COUNT; i++) {
        Op op;
        assert_true(op_parse(op_info[i].text, &op) && (int)op == i);
    }
    for (int i = 0; i < DT_COUNT; i++) {
        DType t;
        assert_true(dtype_parse(dtype_name((DType)i), &t) && (int)t == i);
    }
    Op op;
    DType t;
    assert_false(op_parse("softmax", &op));
    assert_false(dtype_parse("f31", &t));
    assert_int_equal(dtype_bytes(DT_BF16), 2);
    assert_true(dtype_is_float(DT_F16) && !dtype_is_float(DT_BOOL));
    for (int i = 0; i < n_targets; i++) assert_ptr_equal(target_find(targets[i].name), &targets[i]);
    assert_null(target_find("vax"));
    assert_true(target_ridge(target_find("sm_90")) > target_ridge(target_find("c99")));
}

static void rounding(void **state) {
    (void)state;
    static const struct {
        DType t;
        double x, want;
    } cases[] = {
        {DT_F32, 0.1, 0.1f},
        {DT_F16, 1.0009765625, 1.0009765625},
        {DT_F16, 1.00048828125, 1.0}, /* tie to even */
        {DT_F16, 1.00146484375, 1.001953125},
        {DT_F16, 65519, 65504},
        {DT_F16, -65520, -INFINITY},
        {DT_F16, 0x1p-24, 0x1p-24},
        {DT_F16, 0x1p-25, 0},
        {DT_F16, 0x1.8p-25, 0x1p-24},
        {DT_BF16, 1.00390625, 1.0},
        {DT_BF16, 3.4e38, INFINITY},
        {DT_BF16, 3.3895313892515355e38, 3.3895313892515355e38},
        {DT_BF16, 0x1p-133, 0x1p-133},
        {DT_I32, 2.5, 2},
        {DT_I32, -1e20, -2147483648.0},
        {DT_I32, NAN, 0},
        {DT_BOOL, -0.25, 1},
        {DT_F64, 0.1, 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = scalar_round(cases[i].t, cases[i].x);
        if (got != cases[i].want) fail_msg("%s of %a is %a", dtype_name(cases[i].t), cases[i].x, got);
    }
    assert_true(isnan(scalar_round(DT_F16, NAN)));
    assert_true(signbit(scalar_round(DT_BF16, -0.0)));
}

/* x -> neg -> sum with a dead branch; add reads one value twice. */
static Graph *small_graph(Arena *a, Model *m) {
    *m = (Model){.name = "m"};
    vec_push(a, m->outputs, (TensorDecl){.name = "y", .dtype = DT_F32});
    Graph *g = graph_new(a, m, ENTRY_INFER);
    Node *x = graph_const(g, DT_F32, shape_fixed(2, (int64_t[]){2, 3}), 1);
    Node *dead = graph_unary(g, OP_EXP, x);
    Node *twice = graph_binary(g, OP_ADD, x, x);
    graph_binary(g, OP_MUL, dead, twice);
    graph_result(g, RESULT_OUTPUT, 0, graph_reduce(g, OP_SUM, twice, 2, (int8_t[]){1, 0}));
    return g;
}

static void uses(void **state) {
    (void)state;
    Arena *a = arena_new();
    Model m;
    Graph *g = small_graph(a, &m);
    Uses u = graph_uses(a, g);
    static const int first[] = {0, 3, 4, 6, 6, 6}, user[] = {1, 2, 2, 3, 3, 4};
    for (int i = 0; i <= g->nodes.n; i++) assert_int_equal(u.first[i], first[i]);
    for (int i = 0; i < 6; i++) assert_int_equal(u.user[i]->id, user[i]);
    arena_free(a);
}

static void pruning(void **state) {
    (void)state;
    Arena *a = arena_new();
    Model m;
    Graph *g = small_graph(a, &m);
    assert_null(graph_verify(a, g));
    graph_prune(g);
    static const Op kept[] = {OP_CONST, OP_ADD, OP_SUM};
    assert_int_equal(g->nodes.n, 3);
    for (int i = 0; i < 3; i++) assert_true(g->nodes.at[i]->op == kept[i] && g->nodes.at[i]->id == i);
    assert_null(graph_verify(a, g));
    arena_free(a);
}

static void builders(void **state) {
    (void)state;
    Arena *a = arena_new();
    Model m = {.name = "m"};
    vec_push(a, m.syms, (SymDecl){.name = "S", .bound = 10});
    Graph *g = graph_new(a, &m, ENTRY_INFER);
    Node *x = graph_const(g, DT_F32, shape_make(3, (Dim[]){dim_fixed(2), S, dim_fixed(4)}), 1);
    Node *t = graph_transpose(g, x, (int8_t[]){2, 0, 1});
    assert_true(t->shape->dim[0].bound == 4 && dim_equal(t->shape->dim[2], S));
    Node *r = graph_reshape(g, x, shape_make(2, (Dim[]){dim_mul_const(S, 8), dim_fixed(1)}));
    assert_true(dim_equal(r->shape->dim[0], dim_mul_const(S, 8)));
    Node *row = graph_const(g, DT_F32, shape_make(1, &S), 1);
    Node *b = graph_broadcast(g, row, *x->shape, (int8_t[]){1});
    Node *c = graph_binary(g, OP_LT, b, x);
    assert_int_equal(c->dtype, DT_BOOL);
    assert_int_equal(graph_select(g, c, x, b)->dtype, DT_F32);
    Node *i = graph_iota(g, *x->shape, 1);
    assert_int_equal(graph_cast(g, i, DT_F32)->dtype, DT_F32);
    Node *am = graph_reduce(g, OP_ARGMAX, x, 2, (int8_t[]){2, 0}); /* any order */
    assert_true(am->dtype == DT_I32 && am->shape->rank == 1 && dim_equal(am->shape->dim[0], S));
    Affine map[1][MAX_RANK] = {
        {{.coef = {1}, .divisor = 1}, {.coef = {0, 0, 1}, .divisor = 1}, {.coef = {0, 1}, .divisor = 1}}};
    Contract sum = {.n_loops = 3, .n_out = 2, .extent = {dim_fixed(2), dim_fixed(4), S}, .n_operands = 1, .map = map};
    Node *k = graph_contract(g, 1, &x, &sum);
    assert_true(k->shape->rank == 2 && k->shape->dim[1].bound == 4);
    assert_ptr_not_equal(k->attr->contract, &sum); /* the caller's copy may go */
    assert_ptr_not_equal(k->attr->contract->map, map);
    assert_null(graph_verify(a, g));
    arena_free(a);
}

/* Reshape compares numbers of elements as polynomials in the symbols. */
static void reshapes(void **state) {
    (void)state;
    const Dim s6 = dim_mul_const(S, 6), s2p2 = dim_add_const(dim_mul_const(S, 2), 2), sp1 = dim_add_const(S, 1);
    const struct {
        Shape from, to;
        bool legal;
    } cases[] = {
        {shape_make(2, (Dim[]){S, dim_fixed(6)}), shape_make(1, &s6), true},
        {shape_make(2, (Dim[]){S, dim_fixed(6)}), shape_make(3, (Dim[]){dim_fixed(2), dim_fixed(3), S}), true},
        {shape_make(2, (Dim[]){s2p2, dim_fixed(3)}), shape_make(2, (Dim[]){dim_fixed(6), sp1}), true},
        {shape_make(2, (Dim[]){S, T}), shape_make(2, (Dim[]){T, S}), true},
        {shape_make(2, (Dim[]){S, T}), shape_make(2, (Dim[]){dim_mul_const(T, 2), S}), false},
        {shape_make(1, &S), shape_make(1, (Dim[]){dim_fixed(10)}), false}, /* equal at the bound only */
        {shape_make(1, &sp1), shape_make(1, (Dim[]){{.bound = 11, .sym = 1, .scale = 1}}), false},
        {shape_make(2, (Dim[]){S, dim_fixed(0)}), shape_make(1, (Dim[]){dim_fixed(0)}), true},
        {shape_scalar(), shape_fixed(3, (int64_t[]){1, 1, 1}), true},
        {shape_fixed(2, (int64_t[]){2, 3}), shape_fixed(1, (int64_t[]){5}), false},
    };
    Arena *a = arena_new();
    Model m = {.name = "m"};
    Graph *g = graph_new(a, &m, ENTRY_INFER);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Node *x = graph_const(g, DT_F32, cases[i].from, 0);
        DType t;
        Shape s = cases[i].to;
        const char *why = NULL;
        bool legal = graph_infer(a, OP_RESHAPE, 1, &x, NULL, &t, &s, &why);
        if (legal != cases[i].legal) fail_msg("case %d", (int)i);
        assert_true(legal == (why == NULL));
    }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas),  cmocka_unit_test(out_of_memory), cmocka_unit_test(vectors),  cmocka_unit_test(dims),
        cmocka_unit_test(shapes),  cmocka_unit_test(tables),        cmocka_unit_test(rounding), cmocka_unit_test(uses),
        cmocka_unit_test(pruning), cmocka_unit_test(builders),      cmocka_unit_test(reshapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
