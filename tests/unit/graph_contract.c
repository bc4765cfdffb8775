/* contract against its definition, term by term, on random index maps, divisors, guards and extents. */
#include "ir/graph.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t random_next(uint64_t *s) { /* splitmix64 */
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static int64_t between(uint64_t *s, int64_t lo, int64_t hi) {
    return lo + (int64_t)(random_next(s) % (uint64_t)(hi - lo + 1));
}

enum { BOUND = 6 };
static Dim random_dim(uint64_t *s, int64_t most) {
    if (random_next(s) % 4) return dim_fixed(between(s, random_next(s) % 12 ? 1 : 0, most));
    return dim_add_const((Dim){.bound = BOUND, .sym = 0, .scale = 1}, between(s, -1, 1));
}

static Affine random_affine(uint64_t *s, int n_loops) {
    Affine e = {.c = between(s, -1, 1), .divisor = random_next(s) % 4 ? 1 : between(s, 2, 3)};
    for (int l = 0; l < n_loops; l++) {
        if (random_next(s) % 2) e.coef[l] = random_next(s) % 3 ? 1 : between(s, -2, 2);
    }
    return e;
}

static void random_contract(Arena *a, uint64_t *s, Contract *c, Node **in) {
    *c = (Contract){
        .n_loops = (int)between(s, 0, 4), .n_operands = (int)between(s, 1, 3), .n_guards = (int)between(s, -1, 2)};
    if (c->n_guards < 0) c->n_guards = 0;
    c->n_out = (int)between(s, 0, c->n_loops);
    for (int l = 0; l < c->n_loops; l++) c->extent[l] = random_dim(s, 5);
    c->map = arena_alloc(a, sizeof *c->map * (size_t)c->n_operands);
    c->guard = ARENA_ARRAY(a, Guard, c->n_guards);
    for (int i = 0; i < c->n_operands; i++) {
        for (int d = 0; d < in[i]->shape->rank; d++) c->map[i][d] = random_affine(s, c->n_loops);
    }
    for (int i = 0; i < c->n_guards; i++) {
        c->guard[i] = (Guard){.kind = random_next(s) % 3 ? GUARD_RANGE : GUARD_EQ, .e = random_affine(s, c->n_loops)};
        if (c->guard[i].kind == GUARD_EQ) {
            c->guard[i].e.divisor = 1;
        } else {
            c->guard[i].lo = between(s, -3, 1);
            c->guard[i].hi = random_dim(s, 5);
        }
    }
}

/* The value of affine / divisor; false if the division has a remainder. */
static bool affine_at(const Affine *e, const int64_t *loop, int n_loops, int64_t *value) {
    int64_t x = e->c;
    for (int l = 0; l < n_loops; l++) x += e->coef[l] * loop[l];
    *value = x / e->divisor;
    return x % e->divisor == 0;
}

static bool guards_hold(const Contract *c, const int64_t *loop, const int64_t *syms) {
    for (int i = 0; i < c->n_guards; i++) {
        const Guard *g = &c->guard[i];
        int64_t v;
        if (!affine_at(&g->e, loop, c->n_loops, &v)) return false;
        if (g->kind == GUARD_EQ ? v != 0 : v < g->lo || v >= dim_at(g->hi, syms)) return false;
    }
    return true;
}

/* The term at one setting of the loops; 0 where it is left out. */
static double term(const Contract *c, const Tensor *const *in, const int64_t *loop, const int64_t *syms) {
    if (!guards_hold(c, loop, syms)) return 0;
    double product = 1;
    for (int i = 0; i < c->n_operands; i++) {
        int64_t at = 0, v;
        for (int d = 0; d < in[i]->rank; d++) {
            if (!affine_at(&c->map[i][d], loop, c->n_loops, &v) || v < 0 || v >= in[i]->dim[d]) return 0;
            at = at * in[i]->dim[d] + v;
        }
        product *= in[i]->data[at];
    }
    return product;
}

static void by_definition(const Contract *c, const Tensor *const *in, const int64_t *syms, const Tensor *out,
                          double *sum) {
    int64_t loop[MAX_LOOPS] = {0}, extent[MAX_LOOPS];
    for (int l = 0; l < c->n_loops; l++) {
        extent[l] = dim_at(c->extent[l], syms);
        if (extent[l] <= 0) return;
    }
    for (int l = c->n_loops; l >= 0;) {
        int64_t at = 0;
        for (int d = 0; d < c->n_out; d++) at = at * out->dim[d] + loop[d];
        sum[at] += term(c, in, loop, syms);
        for (l = c->n_loops - 1; l >= 0 && ++loop[l] == extent[l]; l--) loop[l] = 0;
    }
}

static int check_one(uint64_t seed) {
    static const int64_t syms[] = {4};
    Arena *a = arena_new();
    Model m = {.name = "m"};
    vec_push(a, m.syms, (SymDecl){.name = "S", .bound = BOUND});
    Graph *g = graph_new(a, &m, ENTRY_INFER);
    Node *in[3];
    Tensor inputs[3];
    DType t = random_next(&seed) % 4 ? DT_F32 : DT_I32;
    for (int i = 0; i < 3; i++) {
        Shape s = {.rank = (int)between(&seed, 0, 3)};
        for (int d = 0; d < s.rank; d++) s.dim[d] = random_dim(&seed, 4);
        in[i] = graph_node(g, OP_INPUT, 0, NULL, &(Attr){.decl = i, .dtype = t}, t, s);
        inputs[i] = (Tensor){.rank = s.rank};
        for (int d = 0; d < s.rank; d++) inputs[i].dim[d] = dim_at(s.dim[d], syms);
        inputs[i].data = ARENA_ARRAY(a, double, tensor_elements(&inputs[i]) + 1);
        for (int64_t k = 0; k < tensor_elements(&inputs[i]); k++) inputs[i].data[k] = (double)between(&seed, -9, 9);
        vec_push(a, m.inputs, (TensorDecl){.name = arena_printf(a, "x%d", i), .dtype = t, .shape = s});
    }
    Contract c;
    random_contract(a, &seed, &c, in);
    Node *n = graph_contract(g, c.n_operands, in, &c);
    const char *error = graph_verify(a, g);
    if (error) fail_msg("%s", error);
    Tensor *value = graph_eval(a, g, &(EvalEnv){.syms = syms, .inputs = inputs}, &error);
    if (!value) fail_msg("%s", error);
    const Tensor *out = &value[n->id], *const operands[] = {&inputs[0], &inputs[1], &inputs[2]};
    double *want = ARENA_ARRAY(a, double, tensor_elements(out) + 1);
    by_definition(&c, operands, syms, out, want);
    int nonzero = 0;
    for (int64_t k = 0; k < tensor_elements(out); k++) {
        nonzero += want[k] != 0;
        if (out->data[k] != want[k]) { /* small integers: exact in any order */
            graph_print(stderr, g);
            fail_msg("[%d] is %g, not %g", (int)k, out->data[k], want[k]);
        }
    }
    arena_free(a);
    return nonzero > 0;
}

static void equals_its_definition(void **state) {
    (void)state;
    int lively = 0;
    for (uint64_t seed = 1; seed <= 6000; seed++) lively += check_one(seed * 7919);
    assert_true(lively > 1500); /* not all zero */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_its_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
