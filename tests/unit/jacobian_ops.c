/* Full Jacobians of every differentiable op, by rows (reverse) and by columns (forward), against finite differences:
 * each rule of batch_axis.c meets each product with a Jacobian, behind movement and between contractions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "passes/derive/batch_axis.h"
#include "passes/derive/reverse_sweep.h"
#include "tests/support/op_cases.h"

typedef struct Case {
    Trial t;
    Arena *a;
    Rng rng;
    Node *y;
    int decl; /* of the parameter x */
    Node *x;
} Case;

static Graph *view(const Trial *t) {
    Graph *g = graph_new(t->arena, t->model, ENTRY_INFER);
    for (int i = 0; i < t->graph->nodes.n; i++) vec_push(t->arena, g->nodes, t->graph->nodes.at[i]);
    return g;
}

static Tensor *values_of(const Case *c, Arena *a, const Graph *g) {
    const EvalEnv env = {
        .syms = c->t.syms.at, .params = c->t.params.at, .inputs = c->t.inputs.at, .step = 3, .seed = 7};
    const char *error = graph_verify(a, g);
    Tensor *all = error ? NULL : graph_eval(a, g, &env, &error);
    if (!all) fail_msg("%s\n%s", error, graph_text(c->a, g));
    return all;
}

/* [x elements][y elements] */
static double *differences(const Case *c, const Graph *forward, int64_t *nx, int64_t *ny) {
    Tensor *p = &c->t.params.at[c->decl];
    *nx = tensor_elements(p);
    *ny = tensor_elements(&values_of(c, c->a, forward)[c->y->id]);
    double *d = ARENA_ARRAY(c->a, double, *nx **ny + 1), h = 1e-5;
    for (int64_t i = 0; i < *nx; i++) {
        Arena *a = arena_new();
        const double kept = p->data[i];
        p->data[i] = kept + h;
        const Tensor up = values_of(c, a, forward)[c->y->id];
        p->data[i] = kept - h;
        const Tensor down = values_of(c, a, forward)[c->y->id];
        p->data[i] = kept;
        for (int64_t o = 0; o < *ny; o++) d[i * *ny + o] = (up.data[o] - down.data[o]) / (2 * h);
        arena_free(a);
    }
    return d;
}

static Node *product(PassContext *c, Graph *g, Node *y, Node *x, Node *seed) {
    Sweep s = sweep_new(c, g, g->arena, PHASE_FORWARD, y);
    sweep_by(&s, x);
    sweep_run(&s, seed);
    return sweep_adjoint(&s, x);
}

static Node *all_seeds(Graph *g, const Node *from, const Node *to) {
    const int8_t every[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    double cost = 0;
    return batch_axes(g, from, to, from->shape->rank, every, &cost);
}

static void compare(const Case *c, const char *way, const Tensor *got, bool rows, const double *want, int64_t nx,
                    int64_t ny) {
    double scale = 1;
    if (tensor_elements(got) != nx * ny) fail_msg("%s: %d elements", way, (int)tensor_elements(got));
    for (int64_t i = 0; i < nx * ny; i++) scale = fmax(scale, fabs(want[i]));
    for (int64_t i = 0; i < nx; i++)
        for (int64_t o = 0; o < ny; o++) {
            const double v = got->data[rows ? o * nx + i : i * ny + o], w = want[i * ny + o];
            if (!(fabs(v - w) <= 2e-6 * scale))
                fail_msg("%s: d y[%d] / d x[%d] is %.9g, differences %.9g\n%s", way, (int)o, (int)i, v, w,
                         graph_text(c->a, c->t.graph));
        }
}

/* How many of the two ways there are within the limits. */
static int check(Case *c) {
    int64_t nx, ny;
    int ways = 0;
    Graph *forward = view(&c->t), *g = c->t.graph;
    const double *want = differences(c, forward, &nx, &ny);
    PassContext pass = trial_context(&c->t);
    Node *u = graph_const(g, c->y->dtype, *c->y->shape, 0), *w = product(&pass, g, c->y, c->x, u);
    if (!w) {
        for (int64_t i = 0; i < nx * ny; i++)
            if (want[i] != 0) fail_msg("no path to x, but the difference is %g", want[i]);
        return 0;
    }
    Node *v = graph_const(g, c->x->dtype, *c->x->shape, 0), *t = product(&pass, g, w, u, v);
    Node *rows = all_seeds(g, u, w), *columns = t ? all_seeds(g, v, t) : NULL;
    assert_int_equal(c->t.errors, 0);
    const Tensor *all = values_of(c, c->a, g);
    if (rows) compare(c, "rows", &all[rows->id], true, want, nx, ny), ways++;
    if (columns) compare(c, "columns", &all[columns->id], false, want, nx, ny), ways++;
    return ways;
}

/* sum over one dim of x times a matrix, in place of that dim: what ties meet a sum with. */
static Node *projected(Case *c, Node *x) {
    if (x->shape->rank == 0 || x->shape->rank > 4 || !shape_is_fixed(*x->shape)) return x;
    const int d = (int)rng_int(&c->rng, 0, x->shape->rank - 1), rank = x->shape->rank;
    const int64_t width = rng_int(&c->rng, 1, 3), square[] = {x->shape->dim[d].bound, width};
    Node *m = trial_input(&c->t, DT_F32, shape_fixed(2, square), -1, 1);
    Affine map[2][MAX_RANK] = {0};
    Contract k = {.n_loops = rank + 1, .n_out = rank, .n_operands = 2, .map = map};
    for (int i = 0; i < rank; i++) {
        const int loop = i == d ? rank : i;
        map[0][i].divisor = map[0][i].coef[loop] = 1;
        k.extent[loop] = x->shape->dim[i];
    }
    k.extent[d] = dim_fixed(width);
    map[1][0].divisor = map[1][0].coef[rank] = map[1][1].divisor = map[1][1].coef[d] = 1;
    return graph_contract(c->t.graph, 2, (Node *[]){x, m}, &k);
}

static Node *last_param(const Trial *t, int *decl) {
    for (int i = t->graph->nodes.n - 1; i >= 0; i--) {
        Node *n = t->graph->nodes.at[i];
        if (n->op == OP_PARAM && n->attr->decl == *decl) return n;
    }
    return NULL;
}

static int check_op(Op op, int trial, int moves, bool between) {
    Case c = {.a = arena_new(), .rng = {.state = (uint64_t)op * 1000003 + (uint64_t)trial}};
    int ways = 0;
    trial_init(&c.t, c.a, &c.rng);
    c.t.moves = moves;
    c.y = op_case(&c.t, op);
    if (between) c.y = projected(&c, graph_unary(c.t.graph, OP_NEG, c.y));
    if (dtype_is_float(c.y->dtype) && c.t.params.n > 0) {
        c.decl = (int)rng_int(&c.rng, 0, c.t.params.n - 1);
        c.x = last_param(&c.t, &c.decl);
        const bool small = c.x && c.x->shape->rank + c.y->shape->rank <= MAX_RANK &&
                           shape_elements(*c.x->shape) * shape_elements(*c.y->shape) <= 3000;
        if (small) ways = check(&c);
    }
    arena_free(c.a);
    return ways;
}

static void check_all(int trials, int moves, bool between) {
    for (int op = 0; op < OP_COUNT; op++) {
        int ways = 0, n = op == OP_CONTRACT ? 10 * trials : trials;
        if (!op_has_gradient((Op)op)) continue;
        for (int i = 0; i < n; i++) ways += check_op((Op)op, i, moves, between);
        if (op_info[op].jacobian != JAC_ZERO && ways < n) fail_msg("%s: %d of %d", op_info[op].text, ways, 2 * n);
    }
}

static void every_op(void **state) {
    (void)state;
    check_all(16, 0, false);
}

static void every_op_behind_movement(void **state) {
    (void)state;
    check_all(12, 3, false);
}

static void every_op_before_a_contraction(void **state) {
    (void)state;
    check_all(12, 2, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op),
        cmocka_unit_test(every_op_behind_movement),
        cmocka_unit_test(every_op_before_a_contraction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
