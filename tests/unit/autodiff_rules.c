/* What finite differences of fixed shapes do not see: run-time extents, ties, warnings, pruning, phases,
 * gradients of gradients, size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "tests/support/op_cases.h"

/* ---- run-time extents --------------------------------------------------------------------------- */
typedef Node *BuildBounded(Trial *t, Dim s);

/* A value of this shape: parameters have fixed shapes, so the start of one as large as it can get. */
static Node *bounded_param(Trial *t, int rank, Dim a, Dim b) {
    const Dim want[] = {a, b};
    Attr attr = {.step = {1, 1}};
    Shape whole = {.rank = rank};
    for (int d = 0; d < rank; d++) {
        attr.lo[d] = dim_fixed(0);
        attr.hi[d] = want[d];
        whole.dim[d] = dim_fixed(want[d].bound);
    }
    Node *p = trial_operand(t, whole, -1, 1);
    return graph_op(t->graph, OP_SLICE, 1, &p, &attr);
}

/* x[from : : step] with `count` elements along axis 0. */
static Node *slice0(Trial *t, Node *x, Dim from, Dim count, int64_t step) {
    Attr attr = {.step = {step, 1}, .lo = {from, dim_fixed(0)}, .hi = {count, x->shape->dim[1]}};
    return graph_op(t->graph, OP_SLICE, 1, &x, &attr);
}

static Node *reversed(Trial *t, Dim s) {
    return slice0(t, bounded_param(t, 2, s, dim_fixed(3)), dim_add_const(s, -1), s, -1);
}
static Node *first_rows(Trial *t, Dim s) {
    return slice0(t, bounded_param(t, 2, dim_fixed(s.bound), dim_fixed(2)), dim_fixed(0), s, 1);
}
static Node *last_rows(Trial *t, Dim s) {
    Dim longer = dim_add_const(s, 4);
    return slice0(t, bounded_param(t, 2, longer, dim_fixed(2)), dim_add_const(s, 1), dim_fixed(3), 1);
}
static Node *odd_rows(Trial *t, Dim s) {
    return slice0(t, bounded_param(t, 2, dim_mul_const(s, 2), dim_fixed(2)), dim_fixed(1), s, 2);
}
static Node *odd_rows_back(Trial *t, Dim s) {
    Dim twice = dim_mul_const(s, 2);
    return slice0(t, bounded_param(t, 2, twice, dim_fixed(2)), dim_add_const(twice, -1), s, -2);
}
static Node *last_by_two(Trial *t, Dim s) {
    Dim longer = dim_add_const(s, 6);
    return slice0(t, bounded_param(t, 2, longer, dim_fixed(2)), dim_add_const(s, 5), dim_fixed(3), -2);
}
static Node *joined(Trial *t, Dim s) {
    Node *in[] = {bounded_param(t, 2, dim_fixed(2), dim_fixed(2)), bounded_param(t, 2, s, dim_fixed(2)),
                  bounded_param(t, 2, dim_fixed(3), dim_fixed(2))};
    return graph_op(t->graph, OP_CONCAT, 3, in, &(Attr){.axis = 0});
}
static Node *padded(Trial *t, Dim s) {
    Node *x = bounded_param(t, 2, s, dim_fixed(2));
    Attr attr = {.value = 0.5};
    for (int d = 0; d < 2; d++) attr.lo[d] = dim_fixed(1), attr.hi[d] = dim_fixed(2);
    return graph_op(t->graph, OP_PAD, 1, &x, &attr);
}
static Node *greatest(Trial *t, Dim s) {
    return graph_reduce(t->graph, OP_RMAX, bounded_param(t, 2, dim_fixed(3), s), 2, (int8_t[]){0, 1});
}
static Node *least_along(Trial *t, Dim s) {
    return graph_reduce(t->graph, OP_RMIN, bounded_param(t, 2, dim_fixed(3), s), 1, (int8_t[]){1});
}
static Node *product(Trial *t, Dim s) {
    return graph_reduce(t->graph, OP_PROD, bounded_param(t, 2, dim_fixed(3), s), 2, (int8_t[]){0, 1});
}
static Node *total(Trial *t, Dim s) {
    return graph_reduce(t->graph, OP_SUM, bounded_param(t, 2, s, dim_fixed(2)), 1, (int8_t[]){0});
}
static Node *repeated(Trial *t, Dim s) {
    Node *x = bounded_param(t, 1, dim_fixed(2), dim_fixed(0));
    return graph_broadcast(t->graph, x, shape_make(2, (Dim[]){s, dim_fixed(2)}), (int8_t[]){1});
}
static Node *running(Trial *t, Dim s) {
    Node *x = bounded_param(t, 2, s, dim_fixed(2));
    return graph_op(t->graph, OP_SCAN, 1, &x, &(Attr){.axis = 0, .exclusive = true});
}
static Node *looked_up(Trial *t, Dim s) {
    Node *ids = trial_input(t, DT_I32, shape_make(1, &s), -1, 4);
    return graph_op(t->graph, OP_GATHER, 2, (Node *[]){bounded_param(t, 2, dim_fixed(4), dim_fixed(2)), ids}, NULL);
}

static Node *running_product(Trial *t, Dim s) {
    Node *x = bounded_param(t, 2, dim_fixed(2), s);
    return graph_op(t->graph, OP_SCAN, 1, &x, &(Attr){.axis = 1, .scan = SCAN_PROD});
}
static Node *product_of_the_rest(Trial *t, Dim s) {
    Node *x = bounded_param(t, 1, s, s);
    return graph_op(t->graph, OP_SCAN, 1, &x, &(Attr){.scan = SCAN_PROD, .reverse = true, .exclusive = true});
}

/* y[i] = sum_r x[2*i + r - 1] * k[r] over x of 2S rows: a strided convolution along a run-time extent. */
static Node *convolved(Trial *t, Dim s) {
    Affine map[2][MAX_RANK] = {{{.c = -1, .coef = {2, 1}, .divisor = 1}}, {{.coef = {0, 1}, .divisor = 1}}};
    const Contract c = {.n_loops = 2, .n_out = 1, .extent = {s, dim_fixed(3)}, .n_operands = 2, .map = map};
    Node *in[] = {bounded_param(t, 1, dim_mul_const(s, 2), s), bounded_param(t, 1, dim_fixed(3), s)};
    return graph_contract(t->graph, 2, in, &c);
}

/* y[i] = sum_j x[j] where 0 <= i - j < S/2..: a guard with a run-time end. */
static Node *guarded(Trial *t, Dim s) {
    Affine map[1][MAX_RANK] = {{{.coef = {0, 1}, .divisor = 1}}};
    Guard guard = {.kind = GUARD_RANGE, .e = {.coef = {1, -1}, .divisor = 1}, .lo = 0, .hi = dim_add_const(s, -1)};
    const Contract c = {
        .n_loops = 2, .n_out = 1, .extent = {s, s}, .n_operands = 1, .map = map, .n_guards = 1, .guard = &guard};
    return graph_contract(t->graph, 1, (Node *[]){bounded_param(t, 1, s, s)}, &c);
}

static Graph *whole_pipeline(PassContext *c, Graph *g) {
    return pass_canonicalize(c, pass_jacobian_gemm(c, pass_canonicalize(c, g)));
}

static void run_time_extents(void **state) {
    (void)state;
    BuildBounded *const build[] = {reversed,
                                   first_rows,
                                   last_rows,
                                   odd_rows,
                                   odd_rows_back,
                                   last_by_two,
                                   joined,
                                   padded,
                                   greatest,
                                   least_along,
                                   product,
                                   total,
                                   repeated,
                                   running,
                                   looked_up,
                                   convolved,
                                   guarded,
                                   running_product,
                                   product_of_the_rest};
    for (size_t i = 0; i < sizeof build / sizeof *build; i++)
        for (int64_t value = 1; value <= 6; value++) {
            Rng rng = {.state = i * 100 + (uint64_t)value};
            Arena *a = arena_new();
            Trial t;
            trial_init(&t, a, &rng);
            Dim s = trial_sym(&t, 6, value);
            const char *why = gradcheck(&t, trial_loss(&t, build[i](&t, s)), value % 2 ? NULL : whole_pipeline, 1e-6);
            if (why) fail_msg("builder %d at S = %d: %s\n%s", (int)i, (int)value, why, graph_text(a, t.graph));
            arena_free(a);
        }
}

/* ---- ties and corners: gradients where differences do not exist ------------------------------------- */
typedef struct Fixture {
    Arena *a;
    Rng rng;
    Trial t;
} Fixture;

static void fixture(Fixture *f) {
    f->a = arena_new();
    f->rng.state = 1;
    trial_init(&f->t, f->a, &f->rng);
}

static Node *param_of(Fixture *f, int64_t n, const double *values) {
    Node *p = trial_param(&f->t, shape_fixed(1, &n), 0, 1);
    memcpy(f->t.params.at[p->attr->decl].data, values, sizeof *values * (size_t)n);
    return p;
}

static Node *sum_all(Fixture *f, Node *y) {
    int8_t axes[MAX_RANK];
    for (int d = 0; d < y->shape->rank; d++) axes[d] = (int8_t)d;
    return y->shape->rank ? graph_reduce(f->t.graph, OP_SUM, y, y->shape->rank, axes) : y;
}

static Node *gradient(Fixture *f, Node *y, Node *x) {
    return graph_op(f->t.graph, OP_GRADIENT, 2, (Node *[]){y, x}, NULL);
}

/* Runs autodiff and evaluates result 0. */
static const double *evaluate(Fixture *f, Node *value) {
    PassContext c = trial_context(&f->t);
    graph_result(f->t.graph, RESULT_GRAD, 0, value);
    f->t.graph = pass_autodiff(&c, f->t.graph);
    const char *error = NULL;
    const Tensor *r = trial_eval(&f->t, f->a, f->t.graph, &error);
    if (!r) fail_msg("%s", error);
    return r[0].data;
}

static void expect_gradient(Fixture *f, Node *y, Node *x, int n, const double *want) {
    const double *got = evaluate(f, gradient(f, sum_all(f, y), x));
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) < 1e-12)) fail_msg("element %d: %g, not %g", i, got[i], want[i]);
    arena_free(f->a);
}

static void ties_go_to_the_first(void **state) {
    (void)state;
    const double same[] = {2, 2, 1, 2};
    Fixture f;
    fixture(&f);
    Node *p = param_of(&f, 4, same), *q = param_of(&f, 4, same);
    expect_gradient(&f, graph_binary(f.t.graph, OP_MAX, p, q), p, 4, (double[]){1, 1, 1, 1});
    fixture(&f);
    p = param_of(&f, 4, same), q = param_of(&f, 4, same);
    expect_gradient(&f, graph_binary(f.t.graph, OP_MAX, p, q), q, 4, (double[]){0, 0, 0, 0});
    fixture(&f);
    p = param_of(&f, 4, same), q = param_of(&f, 4, same);
    expect_gradient(&f, graph_binary(f.t.graph, OP_MIN, p, q), p, 4, (double[]){1, 1, 1, 1});
    fixture(&f);
    p = param_of(&f, 4, same);
    expect_gradient(&f, graph_reduce(f.t.graph, OP_RMAX, p, 1, (int8_t[]){0}), p, 4, (double[]){1, 0, 0, 0});
    fixture(&f);
    p = param_of(&f, 4, (double[]){3, 1, 2, 1});
    expect_gradient(&f, graph_reduce(f.t.graph, OP_RMIN, p, 1, (int8_t[]){0}), p, 4, (double[]){0, 1, 0, 0});
}

static void corners(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    Node *p = param_of(&f, 3, (double[]){-2, 0, 3});
    expect_gradient(&f, graph_unary(f.t.graph, OP_ABS, p), p, 3, (double[]){-1, 0, 1});
    fixture(&f);
    p = param_of(&f, 3, (double[]){0, 2, 0});
    expect_gradient(&f, graph_reduce(f.t.graph, OP_PROD, p, 1, (int8_t[]){0}), p, 3, (double[]){0, 0, 0});
    fixture(&f);
    p = param_of(&f, 3, (double[]){0, 2, 5});
    expect_gradient(&f, graph_reduce(f.t.graph, OP_PROD, p, 1, (int8_t[]){0}), p, 3, (double[]){10, 0, 0});
    fixture(&f);
    p = param_of(&f, 3, (double[]){3, 0, 2}); /* a + ab + abc */
    Node *prefix = graph_op(f.t.graph, OP_SCAN, 1, &p, &(Attr){.scan = SCAN_PROD});
    expect_gradient(&f, prefix, p, 3, (double[]){1, 9, 0});
    fixture(&f);
    p = param_of(&f, 3, (double[]){0, 2, -1});
    Node *power = graph_binary(f.t.graph, OP_POW, p, graph_const(f.t.graph, DT_F32, *p->shape, 0));
    expect_gradient(&f, power, p, 3, (double[]){0, 0, 0});
    fixture(&f);
    p = param_of(&f, 3, (double[]){0, 2, 1}); /* exponents of the base 0 */
    power = graph_binary(f.t.graph, OP_POW, graph_const(f.t.graph, DT_F32, *p->shape, 0), p);
    expect_gradient(&f, power, p, 3, (double[]){0, 0, 0});
    fixture(&f);
    p = param_of(&f, 3, (double[]){1, 2, 3});
    expect_gradient(&f, graph_binary(f.t.graph, OP_MUL, p, graph_unary(f.t.graph, OP_STOP_GRADIENT, p)), p, 3,
                    (double[]){1, 2, 3});
}

/* ---- gradients of gradients, and by inner nodes --------------------------------------------------------- */
static void second_order(void **state) {
    (void)state;
    const double x[] = {0.5, -1, 2};
    double want[3];
    for (int i = 0; i < 3; i++) want[i] = 12 * x[i] * x[i] + (-2 * tanh(x[i])) * (1 - tanh(x[i]) * tanh(x[i]));
    Fixture f;
    fixture(&f);
    Graph *g = f.t.graph;
    Node *p = param_of(&f, 3, x), *square = graph_binary(g, OP_MUL, p, p);
    Node *y = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, square, square), graph_unary(g, OP_TANH, p));
    expect_gradient(&f, gradient(&f, sum_all(&f, y), p), p, 3, want);
}

/* bc + ac + ab, the gradient's sum, has the gradient [b + c, a + c, a + b]: a 0 among them divides nothing. */
static void second_order_of_a_product(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    Node *p = param_of(&f, 3, (double[]){0, 2, 5}), *y = graph_reduce(f.t.graph, OP_PROD, p, 1, (int8_t[]){0});
    expect_gradient(&f, gradient(&f, y, p), p, 3, (double[]){7, 5, 2});
}

static void by_an_inner_node(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    Graph *g = f.t.graph;
    Node *p = param_of(&f, 2, (double[]){3, 5}), *inner = graph_binary(g, OP_MUL, p, p);
    Node *y = graph_binary(g, OP_MUL, graph_binary(g, OP_MUL, inner, inner), p); /* inner^2 p: 2 inner p */
    expect_gradient(&f, y, inner, 2, (double[]){54, 250});
}

static void canonicalize_keeps_targets_of_gradients(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    Graph *g = f.t.graph;
    Node *p = param_of(&f, 2, (double[]){3, 5});
    Node *one = graph_const(g, DT_F32, *p->shape, 1), *inner = graph_binary(g, OP_MUL, p, one);
    Node *y = sum_all(&f, graph_binary(g, OP_MUL, inner, p));
    graph_result(g, RESULT_GRAD, 0, gradient(&f, y, inner)); /* p, not 2p */
    PassContext c = trial_context(&f.t);
    const char *error = NULL;
    const Tensor *r = trial_eval(&f.t, f.a, pass_autodiff(&c, pass_canonicalize(&c, g)), &error);
    assert_non_null(r);
    assert_float_equal(r[0].data[0], 3, 1e-12);
    assert_float_equal(r[0].data[1], 5, 1e-12);
    arena_free(f.a);
}

/* ---- reports ------------------------------------------------------------------------------------------------ */
static int warnings_of(Fixture *f, Node *y, Node *x) {
    graph_result(f->t.graph, RESULT_GRAD, 0, gradient(f, sum_all(f, y), x));
    PassContext c = trial_context(&f->t);
    pass_autodiff(&c, f->t.graph);
    int n = f->t.warnings;
    assert_int_equal(f->t.errors, 0);
    arena_free(f->a);
    return n;
}

static void warnings(void **state) {
    (void)state;
    const double x[] = {1, 2, 3};
    Fixture f;
    fixture(&f);
    Node *p = param_of(&f, 3, x);
    Node *which = graph_reduce(f.t.graph, OP_ARGMAX, p, 1, (int8_t[]){0});
    assert_int_equal(warnings_of(&f, graph_cast(f.t.graph, which, DT_F32), p), 1);
    fixture(&f); /* a comparison only chooses, sign and floor are flat: silent */
    p = param_of(&f, 3, x);
    Node *positive = graph_binary(f.t.graph, OP_GT, p, graph_const(f.t.graph, DT_F32, *p->shape, 0));
    Node *chosen = graph_select(f.t.graph, positive, p, graph_unary(f.t.graph, OP_FLOOR, p));
    assert_int_equal(warnings_of(&f, chosen, p), 0);
    fixture(&f); /* not on the way to y: silent */
    p = param_of(&f, 3, x);
    graph_reduce(f.t.graph, OP_ARGMAX, p, 1, (int8_t[]){0});
    assert_int_equal(warnings_of(&f, p, p), 0);
}

/* Coefficients whose products pass the limit stay equations: slower, but right. */
static void huge_coefficients(void **state) {
    (void)state;
    const int64_t big = (int64_t)1 << 35;
    Arena *a = arena_new();
    Rng rng = {.state = 5};
    Trial t;
    trial_init(&t, a, &rng);
    Affine map[1][MAX_RANK] = {{{.coef = {big + 1, big}, .divisor = 1}, {.coef = {big, big - 1}, .divisor = 1}}};
    const Contract c = {.n_loops = 2, .n_out = 1, .extent = {dim_fixed(3), dim_fixed(3)}, .n_operands = 1, .map = map};
    Node *x = trial_param(&t, shape_fixed(2, (int64_t[]){2, 2}), -1, 1);
    const char *why = gradcheck(&t, trial_loss(&t, graph_contract(t.graph, 1, &x, &c)), whole_pipeline, 1e-6);
    if (why) fail_msg("%s\n%s", why, graph_text(a, t.graph));
    assert_int_equal(t.errors, 0);
    arena_free(a);
}

/* The gradient of this would need 26 loops: an error with a place, not a crash. */
static void too_many_loops(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    int64_t ones[MAX_RANK];
    Affine map[2][MAX_RANK] = {0};
    Contract c = {.n_loops = MAX_LOOPS, .n_out = 0, .n_operands = 2, .map = map};
    for (int l = 0; l < MAX_LOOPS; l++) c.extent[l] = dim_fixed(2);
    for (int d = 0; d < MAX_RANK; d++) {
        ones[d] = 2;
        map[0][d] = (Affine){.c = 1, .divisor = 1};
        map[1][d] = (Affine){.divisor = 1};
        map[1][d].coef[d] = 1;
    }
    Node *p = trial_param(&f.t, shape_fixed(MAX_RANK, ones), 0, 1),
         *q = trial_param(&f.t, shape_fixed(MAX_RANK, ones), 0, 1);
    Node *y = graph_contract(f.t.graph, 2, (Node *[]){p, q}, &c);
    graph_result(f.t.graph, RESULT_GRAD, 0, gradient(&f, y, p));
    PassContext context = trial_context(&f.t);
    Graph *out = pass_autodiff(&context, f.t.graph);
    assert_int_equal(f.t.errors, 1);
    assert_true(context.failed);
    assert_null(graph_verify(f.a, out));
    arena_free(f.a);
}

/* ---- what is emitted -------------------------------------------------------------------------------------------- */
static void frozen_parameters_cost_nothing(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    Graph *g = f.t.graph;
    Node *frozen = param_of(&f, 2, (double[]){1, 2}), *head = param_of(&f, 2, (double[]){3, 4});
    Node *deep = frozen;
    for (int i = 0; i < 50; i++) deep = graph_unary(g, OP_TANH, deep);
    Node *loss = sum_all(&f, graph_binary(g, OP_MUL, deep, head));
    graph_result(g, RESULT_GRAD, 1, gradient(&f, loss, head));
    PassContext c = trial_context(&f.t);
    Graph *out = pass_autodiff(&c, g);
    int backward = 0;
    for (int i = 0; i < out->nodes.n; i++) backward += out->nodes.at[i]->phase == PHASE_BACKWARD;
    assert_in_range(backward, 1, 4); /* seed, broadcast, product */
    arena_free(f.a);
}

static void phases_stand_in_order(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    Graph *g = f.t.graph;
    Node *p = param_of(&f, 2, (double[]){1, 2});
    Node *grad = gradient(&f, sum_all(&f, graph_unary(g, OP_EXP, p)), p);
    Node *update = graph_binary(g, OP_SUB, p, grad); /* asked before the rest of the forward pass */
    Node *late = graph_unary(g, OP_TANH, p);
    graph_result(g, RESULT_GRAD, 0, update);
    graph_result(g, RESULT_GRAD, 0, late);
    PassContext c = trial_context(&f.t);
    Graph *out = pass_autodiff(&c, g);
    for (int i = 1; i < out->nodes.n; i++) assert_true(out->nodes.at[i - 1]->phase <= out->nodes.at[i]->phase);
    assert_int_equal(out->results.at[0].value->phase, PHASE_UPDATE);
    assert_int_equal(out->results.at[1].value->phase, PHASE_FORWARD);
    arena_free(f.a);
}

static void no_path_gives_zeros(void **state) {
    (void)state;
    Fixture f;
    fixture(&f);
    Node *p = param_of(&f, 2, (double[]){1, 2}), *other = param_of(&f, 2, (double[]){1, 2});
    expect_gradient(&f, graph_unary(f.t.graph, OP_EXP, p), other, 2, (double[]){0, 0});
}

/* A chain ten times as long takes about ten times as many nodes: no rule copies what it reads. */
static int nodes_of_chain(int length) {
    Fixture f;
    fixture(&f);
    Node *p = param_of(&f, 2, (double[]){0.1, 0.2}), *x = p;
    for (int i = 0; i < length; i++) x = graph_binary(f.t.graph, OP_MUL, graph_unary(f.t.graph, OP_TANH, x), p);
    graph_result(f.t.graph, RESULT_GRAD, 0, gradient(&f, sum_all(&f, x), p));
    PassContext c = trial_context(&f.t);
    int n = pass_canonicalize(&c, pass_autodiff(&c, f.t.graph))->nodes.n;
    arena_free(f.a);
    return n;
}

static void size_is_linear(void **state) {
    (void)state;
    int small = nodes_of_chain(1000), large = nodes_of_chain(10000);
    assert_in_range(large, 9 * small, 11 * small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_time_extents),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(corners),
        cmocka_unit_test(second_order),
        cmocka_unit_test(second_order_of_a_product),
        cmocka_unit_test(by_an_inner_node),
        cmocka_unit_test(canonicalize_keeps_targets_of_gradients),
        cmocka_unit_test(warnings),
        cmocka_unit_test(huge_coefficients),
        cmocka_unit_test(too_many_loops),
        cmocka_unit_test(frozen_parameters_cost_nothing),
        cmocka_unit_test(phases_stand_in_order),
        cmocka_unit_test(no_path_gives_zeros),
        cmocka_unit_test(size_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
