/* Rules on concatenations, of reshapes, of very many, of what is computed alike from successive slices, and on slices of
 * concatenations and padded values: values stay, in random programs that fit the rules and in programs that just do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "tests/support/op_cases.h"

enum { MOST_PARTS = 6 };

static Node *slice(Trial *t, Node *x, int axis, int64_t from, int64_t length) {
    Attr cut = {0};
    for (int d = 0; d < x->shape->rank; d++) {
        cut.lo[d] = dim_fixed(d == axis ? from : 0);
        cut.hi[d] = d == axis ? dim_fixed(length) : x->shape->dim[d];
        cut.step[d] = 1;
    }
    return graph_op(t->graph, OP_SLICE, 1, &x, &cut);
}

static Shape without(const Shape *s, int axis) {
    Shape rest = {.rank = s->rank - 1};
    for (int d = 0; d < rest.rank; d++) rest.dim[d] = s->dim[d + (d >= axis)];
    return rest;
}

/* What the parts are made of: slices of two tensors with the places along an axis, the same or not, and what all share.
 */
typedef struct Source {
    Node *of[2], *shared;
    int axis[2];
    int64_t by[2], from[2], last[2]; /* places: by is how far apart, and the last part's is that much off */
} Source;

static Node *place(Trial *t, const Source *s, int k, int part, bool last) {
    const int64_t at = s->from[k] + part * s->by[k] + (last ? s->last[k] : 0);
    Node *x = slice(t, s->of[k], s->axis[k], at, 1);
    return graph_reshape(t->graph, x, without(s->of[k]->shape, s->axis[k]));
}

static Node *new_source(Trial *t, Source *s, int k, Shape each, int parts) {
    Rng *r = t->rng;
    Shape whole = {.rank = each.rank + 1};
    s->axis[k] = (int)rng_int(r, 0, each.rank);
    s->by[k] = rng_int(r, 0, 9) ? rng_int(r, 1, 2) : 0;
    s->from[k] = rng_int(r, 0, 2);
    s->last[k] = rng_int(r, 0, 4) ? 0 : 1;
    const int64_t reach = s->from[k] + (parts - 1) * s->by[k] + 1 + s->last[k];
    for (int d = 0; d < whole.rank && d < MAX_RANK; d++)
        whole.dim[d] = d == s->axis[k] ? dim_fixed(reach + rng_int(r, 0, 1)) : each.dim[d - (d > s->axis[k])];
    if (s->by[k] && rng_chance(r, 0.3)) s->from[k] += (parts - 1) * s->by[k], s->by[k] = -s->by[k], s->last[k] = 0;
    return s->of[k] = trial_param(t, whole, -1, 1);
}

/* How the parts are computed; drawn once for all of them. */
typedef struct Recipe {
    int steps[4];
    int8_t reduced;
    Node *factor; /* of products along the last dim */
} Recipe;

/* x[.., k] * w[k, l] */
static Node *product(Graph *g, Node *x, Node *w) {
    const int rank = x->shape->rank;
    Affine map[2][MAX_RANK] = {0};
    Contract c = {.n_loops = rank + 1, .n_out = rank, .n_operands = 2, .map = map};
    for (int d = 0; d <= rank; d++) c.extent[d] = d < rank ? x->shape->dim[d] : w->shape->dim[0];
    for (int d = 0; d < rank; d++) map[0][d].divisor = 1, map[0][d].coef[d < rank - 1 ? d : rank] = 1;
    for (int d = 0; d < 2; d++) map[1][d].divisor = 1, map[1][d].coef[d ? rank - 1 : rank] = 1;
    return graph_op(g, OP_CONTRACT, 2, (Node *[]){x, w}, &(Attr){.contract = &c});
}

static Node *computed(Trial *t, const Source *s, const Recipe *recipe, int part, bool last) {
    Graph *g = t->graph;
    Node *x = place(t, s, 0, part, last);
    for (int i = 0; i < 4; i++) switch (recipe->steps[i]) {
        case 0: x = graph_unary(g, OP_TANH, x); break;
        case 1: x = graph_binary(g, OP_MUL, x, place(t, s, 1, part, last)); break;
        case 2: x = graph_binary(g, OP_SUB, s->shared, x); break;
        case 3: x = graph_binary(g, OP_ADD, x, x); break;
        case 4: x = product(g, x, recipe->factor); break;
        default: break;
        }
    if (recipe->reduced >= 0) {
        const int8_t axis = recipe->reduced;
        Node *sum = graph_reduce(g, OP_SUM, x, 1, &axis);
        Attr attr = {.n_axes = sum->shape->rank};
        for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = (int8_t)(d + (d >= axis));
        x = graph_node(g, OP_BROADCAST, 1, &sum, &attr, DT_F32, *x->shape);
    }
    return x;
}

static Node *random_concat(Trial *t) {
    static const int64_t extents[] = {1, 1, 2, 3, 4};
    Rng *r = t->rng;
    Source s;
    Shape each = {.rank = (int)rng_int(r, 1, 3)};
    Node *in[MOST_PARTS];
    Recipe recipe = {.reduced = -1};
    const int parts = (int)rng_int(r, 3, MOST_PARTS), axis = (int)rng_int(r, 0, each.rank - 1);
    for (int d = 0; d < each.rank; d++) each.dim[d] = dim_fixed(extents[rng_int(r, 0, 4)]);
    for (int k = 0; k < 2; k++) new_source(t, &s, k, each, parts);
    s.shared = trial_param(t, each, -1, 1);
    recipe.factor = trial_param(t, (Shape){.rank = 2, .dim = {each.dim[each.rank - 1], each.dim[each.rank - 1]}}, -1, 1);
    for (int i = 0; i < 4; i++) recipe.steps[i] = (int)rng_int(r, 0, 6);
    if (rng_chance(r, 0.3)) recipe.reduced = (int8_t)rng_int(r, 0, each.rank - 1);
    for (int k = 0; k < parts; k++) in[k] = computed(t, &s, &recipe, k, k == parts - 1);
    if (rng_chance(r, 0.2)) in[0] = graph_unary(t->graph, OP_SIN, in[0]);
    return graph_op(t->graph, OP_CONCAT, parts, in, &(Attr){.axis = axis});
}

/* A slice of a concatenation or of a padded value, through a reshape or not. */
static Node *random_slice(Trial *t) {
    static const int64_t extents[] = {1, 2, 3, 4, 6};
    Rng *r = t->rng;
    Shape each = {.rank = (int)rng_int(r, 1, 3)};
    Node *x, *in[4];
    const int parts = (int)rng_int(r, 2, 4), axis = (int)rng_int(r, 0, each.rank - 1);
    for (int d = 0; d < each.rank; d++) each.dim[d] = dim_fixed(extents[rng_int(r, 0, 4)]);
    if (rng_chance(r, 0.5)) {
        for (int k = 0; k < parts; k++) {
            Shape part = each;
            if (rng_chance(r, 0.3)) part.dim[axis] = dim_fixed(rng_int(r, 0, 4));
            in[k] = trial_param(t, part, -1, 1);
        }
        x = graph_op(t->graph, OP_CONCAT, parts, in, &(Attr){.axis = axis});
    } else {
        Attr pad = {.value = rng_real(r, -1, 1)};
        for (int d = 0; d < each.rank; d++) {
            const int64_t most = d == axis || rng_chance(r, 0.2) ? 6 : 0;
            pad.lo[d] = dim_fixed(rng_int(r, 0, most)), pad.hi[d] = dim_fixed(rng_int(r, 0, most));
        }
        Node *inner = trial_param(t, each, -1, 1);
        x = graph_op(t->graph, OP_PAD, 1, &inner, &pad);
    }
    if (rng_chance(r, 0.6)) { /* dims split, or dims merged */
        Shape to = {0};
        const bool merge = rng_chance(r, 0.5);
        for (int d = 0; d < x->shape->rank; d++) {
            const int64_t extent = x->shape->dim[d].bound, factor = rng_int(r, 1, 3);
            if (merge && d > 0 && rng_chance(r, 0.7)) {
                to.dim[to.rank - 1].bound *= extent, to.dim[to.rank - 1] = dim_fixed(to.dim[to.rank - 1].bound);
                continue;
            }
            if (!merge && extent && extent % factor == 0)
                to.dim[to.rank++] = dim_fixed(factor), to.dim[to.rank++] = dim_fixed(extent / factor);
            else
                to.dim[to.rank++] = dim_fixed(extent);
        }
        x = graph_reshape(t->graph, x, to);
    }
    Attr cut = {0};
    for (int d = 0; d < x->shape->rank; d++) {
        const int64_t extent = x->shape->dim[d].bound, step = rng_chance(r, 0.1) ? 2 : 1;
        const int64_t from = extent && rng_chance(r, 0.6) ? rng_int(r, 0, extent - 1) : 0;
        cut.lo[d] = dim_fixed(from);
        cut.hi[d] = dim_fixed(
            from || step > 1 ? (extent - from > step ? rng_int(r, 1, (extent - from) / step) : extent > from) : extent);
        cut.step[d] = step;
    }
    return graph_op(t->graph, OP_SLICE, 1, &x, &cut);
}

/* What reshapes to s: some of its dims are two there, of one element each way now and then; `how` says which. */
static Shape unmerged(Shape s, uint64_t how) {
    Shape x = {0};
    for (int d = 0; d < s.rank; d++, how /= 8) {
        const int64_t factor = how % 8 < 3 ? 0 : how % 8 == 3 ? 1 : how % 8 < 6 ? 2 : 3;
        if (factor && s.dim[d].bound % factor == 0) x.dim[x.rank++] = dim_fixed(factor);
        x.dim[x.rank++] = dim_fixed(s.dim[d].bound / (factor && s.dim[d].bound % factor == 0 ? factor : 1));
    }
    return x;
}

/* A concat of reshapes, most often of like ones: along the axis, beside it, across it. */
static Node *joined_reshapes(Trial *t) {
    static const int64_t extents[] = {1, 2, 6, 12};
    Rng *r = t->rng;
    Shape s = {.rank = (int)rng_int(r, 1, 3)};
    Node *in[3];
    const int n = (int)rng_int(r, 2, 3), axis = (int)rng_int(r, 0, s.rank - 1);
    const uint64_t how = (uint64_t)rng_int(r, 0, 511);
    for (int d = 0; d < s.rank; d++) s.dim[d] = dim_fixed(extents[rng_int(r, 0, 3)]);
    for (int k = 0; k < n; k++) {
        Shape to = s;
        to.dim[axis] = dim_fixed(extents[rng_int(r, 0, 3)]);
        const Shape from = unmerged(to, rng_chance(r, 0.8) ? how : (uint64_t)rng_int(r, 0, 511));
        in[k] = graph_reshape(t->graph, trial_param(t, from, -1, 1), to);
    }
    return graph_op(t->graph, OP_CONCAT, n, in, &(Attr){.axis = axis});
}

static void check(Node *draw(Trial *), uint64_t from, int trials, RewriteId rule, uint32_t least) {
    uint32_t fired[RULE_COUNT] = {0};
    for (int i = 0; i < trials; i++) {
        Rng rng = {.state = from + (uint64_t)i};
        Arena *a = arena_new();
        PassContext c = {.arena = a, .fired = fired};
        Trial t;
        trial_init(&t, a, &rng);
        Node *y = draw(&t);
        vec_push(a, t.model->outputs, (TensorDecl){.name = "y", .dtype = DT_F32, .shape = *y->shape});
        graph_result(t.graph, RESULT_OUTPUT, 0, y);
        const EvalEnv env = random_env(a, t.model, &rng);
        Graph *after = pass_canonicalize(&c, t.graph);
        const char *why = results_agree(a, &env, t.graph, after, 1e-12);
        if (why) fail_msg("trial %d: %s\n%s\nbecame\n%s", i, why, graph_text(a, t.graph), graph_text(a, after));
        char *once = graph_text(a, after), *twice = graph_text(a, pass_canonicalize(&c, after));
        if (strcmp(once, twice) != 0) fail_msg("trial %d: a second run changes\n%s\ninto\n%s", i, once, twice);
        arena_free(a);
    }
    if (fired[rule] < least) fail_msg("the rule applied %u times", fired[rule]);
}

static void concats_of_reshapes(void **state) {
    (void)state;
    check(joined_reshapes, 15000, 4000, REWRITE_concat_before_reshape, 150);
}

/* At the boundaries of what one concat joins, and of two levels of them. */
static void concats_of_many(void **state) {
    (void)state;
    enum { MOST = 128 };
    static const int counts[] = {MOST - 1, MOST, MOST + 1, 2 * MOST, 2 * MOST + 1, MOST * MOST + 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        Rng rng = {.state = 21 + i};
        Arena *a = arena_new();
        PassContext c = {.arena = a};
        Trial t;
        trial_init(&t, a, &rng);
        Node **in = ARENA_ARRAY(a, Node *, counts[i]);
        for (int k = 0; k < counts[i]; k++) in[k] = trial_param(&t, shape_fixed(1, (int64_t[]){1 + k % 2}), -1, 1);
        Node *y = graph_op(t.graph, OP_CONCAT, counts[i], in, &(Attr){.axis = 0});
        vec_push(a, t.model->outputs, (TensorDecl){.name = "y", .dtype = DT_F32, .shape = *y->shape});
        graph_result(t.graph, RESULT_OUTPUT, 0, y);
        const EvalEnv env = random_env(a, t.model, &rng);
        Graph *after = pass_canonicalize(&c, t.graph);
        const char *why = results_agree(a, &env, t.graph, after, 0);
        if (why) fail_msg("%d operands: %s", counts[i], why);
        for (int k = 0; k < after->nodes.n; k++) assert_true(after->nodes.at[k]->n_in <= MOST);
        arena_free(a);
    }
}

static void computed_alike(void **state) {
    (void)state;
    check(random_concat, 31000, 4000, REWRITE_concat_rolled, 800);
}

static void slices_of_parts(void **state) {
    (void)state;
    check(random_slice, 47000, 6000, REWRITE_slice_of_parts, 1500);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(concats_of_reshapes), cmocka_unit_test(concats_of_many),
                                       cmocka_unit_test(computed_alike), cmocka_unit_test(slices_of_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
