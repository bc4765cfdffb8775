/* The verifier: a legal graph passes, and each way of breaking it is found and named. */
#include "ir/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char text[] = "graph @m entry=grad {\n"
                           "  dim S <= 8\n"
                           "  param \"w\" : f32[3] trainable\n"
                           "  param \"b\" : f32[] trainable\n"
                           "  state \"s\" : f32[]\n"
                           "  input \"x\" : f32[S,3]\n"
                           "  input \"i\" : i32[S] in 0..3\n"
                           "  output \"loss\" : f32[]\n"
                           "  hyper \"lr\" = 0.1\n"
                           "  hyper \"mu\" = 0.9\n"
                           "  %0 = input \"x\" : f32[S,3]\n"
                           "  %1 = param \"w\" : f32[3]\n"
                           "  %2 = contract %0[i, k], %1[k] -> [i:S] sum [k:3] where 0 <= i - k < S : f32[S]\n"
                           "  %3 = sum %2 [0] : f32[]\n"
                           "  %4 = const 3 : i32[]\n"
                           "  %5 = slice %0 [0:S, 1:1] : f32[S,1]\n"
                           "  %6 = transpose %0 [1, 0] : f32[3,S]\n"
                           "  %7 = hyper \"lr\" : f32[]\n"
                           "  %8 = extent S : i32[]\n"
                           "  %9 = slice_at %1, %4 rows S : f32[S]\n"
                           "  %10 = add %2, %9 : f32[S]\n"
                           "  %11 = const 0 : f32[3]\n"
                           "  output \"loss\" %3\n"
                           "  state \"s\" <- %3\n"
                           "  grad \"w\" = %11\n"
                           "}\n";

enum { X, W, DOT, LOSS, THREE, SLICE, SWAP, LR, EXTENT, WINDOW, SUM, ZEROS };

/* A node's attributes or shape, to damage: as a rule it shares them with others. */
static Attr *attr(Graph *g, int id) {
    Attr *own = arena_dup(g->arena, g->nodes.at[id]->attr, sizeof *own);
    g->nodes.at[id]->attr = own;
    return own;
}
static Shape *own_shape(Graph *g, int id) {
    Shape *own = arena_dup(g->arena, g->nodes.at[id]->shape, sizeof *own);
    g->nodes.at[id]->shape = own;
    return own;
}
static Contract *contract(Graph *g) { return (Contract *)attr(g, DOT)->contract; }

static void wrong_id(Graph *g) { g->nodes.at[SUM]->id = 3; }
static void missing_node(Graph *g) { g->nodes.at[SUM] = NULL; }
static void unknown_op(Graph *g) { g->nodes.at[SUM]->op = OP_COUNT; }
static void unknown_dtype(Graph *g) { g->nodes.at[SUM]->dtype = DT_COUNT; }
static void bad_phase(Graph *g) { g->nodes.at[SUM]->phase = (Phase)3; }
static void bad_remat(Graph *g) { g->nodes.at[SUM]->remat = -1; }
static void no_attributes(Graph *g) { g->nodes.at[SUM]->attr = NULL; }
static void no_shape(Graph *g) { g->nodes.at[SUM]->shape = NULL; }
static void missing_operand(Graph *g) { g->nodes.at[SUM]->in[1] = NULL; }
static void later_operand(Graph *g) { g->nodes.at[LOSS]->in[0] = g->nodes.at[SUM]; }
static void own_operand(Graph *g) { g->nodes.at[SUM]->in[0] = g->nodes.at[SUM]; }
static void foreign_operand(Graph *g) { g->nodes.at[SUM]->in[0] = arena_dup(g->arena, g->nodes.at[DOT], sizeof(Node)); }
static void too_few_operands(Graph *g) { g->nodes.at[SUM]->n_in = 1; }
static void operand_dtype(Graph *g) { g->nodes.at[SUM]->in[1] = g->nodes.at[THREE]; }
static void operand_shape(Graph *g) { g->nodes.at[SUM]->in[1] = g->nodes.at[W]; }
static void wrong_shape(Graph *g) { own_shape(g, SUM)->dim[0] = dim_fixed(8); }
static void wrong_rank(Graph *g) { own_shape(g, SUM)->rank = MAX_RANK + 1; }
static void wrong_dtype(Graph *g) { g->nodes.at[SUM]->dtype = DT_F64; }
static void negative_extent(Graph *g) { own_shape(g, ZEROS)->dim[0].bound = -3; }
static void too_long_extent(Graph *g) { own_shape(g, ZEROS)->dim[0].bound = MAX_ELEMENTS + 1; }
static void too_many_elements(Graph *g) {
    *own_shape(g, ZEROS) = shape_fixed(2, (int64_t[]){MAX_ELEMENTS, MAX_ROUNDED / MAX_ELEMENTS + 1});
}
static void unknown_symbol(Graph *g) { own_shape(g, ZEROS)->dim[0] = (Dim){.bound = 8, .sym = 1, .scale = 1}; }
static void wrong_bound(Graph *g) { own_shape(g, ZEROS)->dim[0] = (Dim){.bound = 9, .sym = 0, .scale = 1}; }
static void attr_dtype(Graph *g) { attr(g, THREE)->dtype = DT_F32; }
static void const_fraction(Graph *g) { attr(g, THREE)->value = 0.5; }
static void const_range(Graph *g) { attr(g, THREE)->value = 2147483648.0; }
static void decl_missing(Graph *g) { attr(g, W)->decl = 2; }
static void decl_differs(Graph *g) { attr(g, W)->decl = 1; }
static void input_differs(Graph *g) { attr(g, X)->decl = 1; }
static void hyper_missing(Graph *g) { attr(g, LR)->decl = -1; }
static void extent_symbol(Graph *g) { attr(g, EXTENT)->extent.sym = 7; }
static void slice_outside(Graph *g) { attr(g, SLICE)->lo[1] = dim_fixed(3); }
static void slice_step(Graph *g) { attr(g, SLICE)->step[1] = 0; }
static void no_permutation(Graph *g) { attr(g, SWAP)->axes[0] = 0; }
static void reduced_axis(Graph *g) { attr(g, LOSS)->axes[0] = 1; }
static void no_contract(Graph *g) { attr(g, DOT)->contract = NULL; }
static void contract_operands(Graph *g) { contract(g)->n_operands = 1; }
static void contract_loops(Graph *g) { contract(g)->n_loops = MAX_LOOPS + 1; }
static void contract_out(Graph *g) { contract(g)->n_out = 3; }
static void contract_extent(Graph *g) { contract(g)->extent[1] = dim_fixed(-1); }
static void contract_extent_symbol(Graph *g) { contract(g)->extent[0].offset = 1; }
static void contract_divisor(Graph *g) { contract(g)->map[0][0].divisor = 0; }
static void contract_ghost_loop(Graph *g) { contract(g)->map[0][0].coef[2] = 1; }
static void contract_overflow(Graph *g) { contract(g)->map[0][0].coef[0] = INT64_MAX; }
static void guard_kind(Graph *g) { contract(g)->guard[0].kind = (GuardKind)2; }
static void guard_symbol(Graph *g) { contract(g)->guard[0].hi.sym = 3; }
static void guard_divisor(Graph *g) {
    contract(g)->guard[0].kind = GUARD_EQ;
    contract(g)->guard[0].e.divisor = 2;
}
static void result_kind(Graph *g) { g->results.at[2].kind = RESULT_PARAM; }
static void result_foreign(Graph *g) {
    g->results.at[0].value = arena_dup(g->arena, g->results.at[0].value, sizeof(Node));
}
static void result_null(Graph *g) { g->results.at[0].value = NULL; }
static void result_decl(Graph *g) { g->results.at[0].decl = 1; }
static void result_type(Graph *g) { g->results.at[0].value = g->nodes.at[W]; }
static void result_twice(Graph *g) { graph_result(g, RESULT_STATE, 0, g->nodes.at[LOSS]); }
static void unknown_entry(Graph *g) { g->entry = ENTRY_COUNT; }
static void no_name(Graph *g) { g->model->name = NULL; }
static void decl_unnamed(Graph *g) { g->model->params.at[1].name = ""; }
static void decl_twice(Graph *g) { g->model->params.at[1].name = "w"; }
static void hyper_twice(Graph *g) { g->model->hypers.at[1].name = "lr"; }
static void param_bounded(Graph *g) {
    g->model->params.at[1].shape = (Shape){.rank = 1, .dim = {{.bound = 8, .sym = 0, .scale = 1}}};
}
static void param_too_large(Graph *g) { g->model->params.at[1].shape = shape_fixed(2, (int64_t[]){MAX_ELEMENTS, 2}); }
static void input_too_large(Graph *g) { g->model->inputs.at[0].shape = shape_fixed(2, (int64_t[]){2, MAX_ELEMENTS}); }
static void output_too_large(Graph *g) { g->model->outputs.at[0].shape = shape_fixed(2, (int64_t[]){MAX_ELEMENTS, 2}); }
static void range_of_float(Graph *g) { g->model->inputs.at[0].has_range = true; }
static void range_empty(Graph *g) { g->model->inputs.at[1].hi = 0; }
static void sym_negative(Graph *g) { g->model->syms.at[0].bound = -1; }

static const struct {
    void (*damage)(Graph *g);
    const char *violation; /* how the message must begin */
} cases[] = {
    {wrong_id, "%3: stands at position 10"},
    {missing_node, "a node is missing"},
    {unknown_op, "%10: unknown op or dtype"},
    {unknown_dtype, "%10: unknown op or dtype"},
    {bad_phase, "%10: bad phase or remat"},
    {bad_remat, "%10: bad phase or remat"},
    {no_attributes, "%10: has no attributes"},
    {no_shape, "%10: has no shape"},
    {missing_operand, "%10: operand 1 is missing"},
    {later_operand, "%3: operand 0 does not stand before it"},
    {own_operand, "%10: operand 0 does not stand before it"},
    {foreign_operand, "%10: operand 0 does not stand before it"},
    {too_few_operands, "%10: add: takes 2 operands, not 1"},
    {operand_dtype, "%10: add: operands are f32 and i32"},
    {operand_shape, "%10: add: operands are [S<=8] and [3]"},
    {wrong_shape, "%10: add gives f32[S<=8], not f32[8]"},
    {wrong_rank, "%10: rank 11"},
    {wrong_dtype, "%10: add gives f32[S<=8], not f64[S<=8]"},
    {negative_extent, "%11: negative extent"},
    {too_long_extent, "%11: too many elements"},
    {too_many_elements, "%11: too many elements"},
    {unknown_symbol, "%11: no symbol 1"},
    {wrong_bound, "%11: an extent's bound is not its value at the bound of 'S'"},
    {attr_dtype, "%4: const gives f32[], not i32[]"},
    {const_fraction, "%4: 0.5 is no i32"},
    {const_range, "%4: 2.14748e+09 is no i32"},
    {decl_missing, "%1: declaration 2 does not exist"},
    {decl_differs, "%1: \"b\" is declared f32[], not f32[3]"},
    {input_differs, "%0: \"i\" is declared i32[S<=8], not f32[S<=8, 3]"},
    {hyper_missing, "%7: hyper -1 does not exist"},
    {extent_symbol, "%8: no symbol 7"},
    {slice_outside, "%5: slice: axis 1 reads outside [S<=8, 3]"},
    {slice_step, "%5: slice: step 0"},
    {no_permutation, "%6: transpose: axes are no permutation"},
    {reduced_axis, "%3: sum: axes must increase and exist"},
    {no_contract, "%2: contract: has no index maps"},
    {contract_operands, "%2: contract: 1 index maps for 2 operands"},
    {contract_loops, "%2: contract: 17 loops"},
    {contract_out, "%2: contract: 3 output loops"},
    {contract_extent, "%2: contract: bad extent of loop 1"},
    {contract_extent_symbol, "%2: contract gives"},
    {contract_divisor, "%2: contract: divisor must be at least 1"},
    {contract_ghost_loop, "%2: contract: index uses a loop that does not exist"},
    {contract_overflow, "%2: contract: an index can overflow"},
    {guard_kind, "%2: contract: unknown kind of guard 0"},
    {guard_symbol, "%2: no symbol 3"},
    {guard_divisor, "%2: contract: an equality has no divisor"},
    {result_kind, "result 2 is of a kind that entry grad has not"},
    {result_foreign, "result 0 is no node of the graph"},
    {result_null, "result 0 is no node of the graph"},
    {result_decl, "result 0: declaration 1 does not exist"},
    {result_type, "result 0: \"loss\" is declared f32[], not f32[3]"},
    {result_twice, "result 3: \"s\" again"},
    {unknown_entry, "unknown entry"},
    {no_name, "the graph's model has no name"},
    {decl_unnamed, "param 1 has no name"},
    {decl_twice, "param \"w\" declared twice"},
    {hyper_twice, "hyper \"lr\" declared twice"},
    {param_bounded, "param 1 has a bounded extent"},
    {param_too_large, "param 1: too many elements"},
    {input_too_large, "input 0: too many elements"},
    {output_too_large, "output 0: too many elements"},
    {range_of_float, "input 0 has an impossible range"},
    {range_empty, "input 1 has an impossible range"},
    {sym_negative, "dim 0 has a negative bound"},
};

static Graph *fresh(Arena *a) {
    const char *error = NULL;
    Graph *g = graph_parse(a, text, &error);
    if (!g) fail_msg("%s", error);
    return g;
}

static void legal_graph_passes(void **state) {
    (void)state;
    Arena *a = arena_new();
    assert_null(graph_verify(a, fresh(a)));
    arena_free(a);
}

static void each_violation_is_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Arena *a = arena_new();
        Graph *g = fresh(a);
        cases[i].damage(g);
        const char *got = graph_verify(a, g), *want = cases[i].violation;
        if (!got) fail_msg("not found: %s", want);
        if (strncmp(got, want, strlen(want)) != 0) fail_msg("found \"%s\", not \"%s\"", got, want);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_graph_passes),
        cmocka_unit_test(each_violation_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
