/* Graph text: what is printed reads back identical; what is wrong is refused at its line and column;
 * nothing crashes the reader. */
#include "ir/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char *read_text(Arena *a, const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = arena_alloc(a, 1 << 16);
    size_t n = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    assert_true(n > 0 && n < (1 << 16) - 1);
    return text;
}

static char *printed(Arena *a, const Graph *g) {
    char *buffer = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&buffer, &size);
    graph_print(f, g);
    fclose(f);
    char *text = arena_strdup(a, buffer);
    free(buffer);
    return text;
}

static char *every_op_text(Arena *a) { return read_text(a, SOURCE_DIR "/tests/golden/graph/every_op.graph"); }

static void round_trip_is_identical(void **state) {
    (void)state;
    Arena *a = arena_new();
    const char *text = every_op_text(a), *error = NULL;
    Graph *g = graph_parse(a, text, &error);
    if (!g) fail_msg("%s", error);
    assert_null(graph_verify(a, g));
    assert_string_equal(printed(a, g), text);
    bool seen[OP_COUNT] = {false};
    for (int i = 0; i < g->nodes.n; i++) seen[g->nodes.at[i]->op] = true;
    for (int op = 0; op < OP_COUNT; op++) {
        if (!seen[op] && op != OP_PHILOX) fail_msg("the golden graph has no %s", op_info[op].text);
    }
    arena_free(a);
}

static void reading_resolves_names(void **state) {
    (void)state;
    Arena *a = arena_new();
    const char *error = NULL;
    Graph *g = graph_parse(a, every_op_text(a), &error);
    assert_non_null(g);
    assert_string_equal(g->model->name, "every_op");
    assert_int_equal(g->entry, ENTRY_STEP);
    assert_string_equal(g->model->params.at[1].name, "b \"q\" \x01");
    assert_true(g->model->params.at[0].trainable && !g->model->params.at[1].trainable);
    assert_true(g->model->lines.n == 2 && g->model->params.at[0].line == 1 && g->model->params.at[1].line == 0);
    assert_true(g->model->inputs.at[1].has_range && g->model->inputs.at[1].hi == 10);
    assert_true(g->model->hypers.at[1].value == 1e300);
    Dim d = g->nodes.at[53]->shape->dim[0]; /* 3*S + 3, S <= 16 */
    assert_true(d.sym == 0 && d.scale == 3 && d.offset == 3 && d.bound == 51);
    const Contract *c = g->nodes.at[63]->attr->contract;
    assert_int_equal(c->n_out, 2);
    assert_int_equal(c->n_loops, 3);
    assert_int_equal(c->map[0][1].divisor, 2);
    assert_int_equal(c->map[0][1].c, -3);
    assert_int_equal(c->map[1][0].coef[2], 2);
    assert_int_equal(c->guard[1].lo, -2);
    assert_int_equal(c->guard[1].hi.bound, 17);
    assert_int_equal(c->guard[2].kind, GUARD_EQ);
    assert_int_equal(g->nodes.at[67]->phase, PHASE_BACKWARD);
    assert_int_equal(g->nodes.at[68]->remat, 2);
    arena_free(a);
}

/* Layout, comments and loop names are the writer's; the printed form is canonical. */
static void free_form_prints_canonical(void **state) {
    (void)state;
    Arena *a = arena_new();
    const char *error = NULL;
    Graph *g =
        graph_parse(a,
                    "graph @m entry=infer{ # a comment\n dim S<=4 input \"x\":f32[S,2] output \"y\":f32[S]\n"
                    "%0=input \"x\":f32[S,2] %1=contract %0[row,1+0*row]->[row:0*S+S]where 0-1<=row-row<1,0==0:f32[S]"
                    "output \"y\" %1}",
                    &error);
    assert_null(g); /* `0-1` is no literal bound */
    g = graph_parse(a,
                    "graph @m entry=infer{ # a comment\n dim S<=4 input \"x\":f32[S,2] output \"y\":f32[S]\n"
                    "%0=input \"x\":f32[S,2] %1=contract %0[row,1+0*row]->[row:0*S+S]where -1<=row-row<1,0==0:f32[S]"
                    "output \"y\" %1}",
                    &error);
    if (!g) fail_msg("%s", error);
    assert_string_equal(printed(a, g), "graph @m entry=infer {\n"
                                       "  dim S <= 4\n"
                                       "  input \"x\" : f32[S,2]\n"
                                       "  output \"y\" : f32[S]\n"
                                       "  %0 = input \"x\" : f32[S,2]\n"
                                       "  %1 = contract %0[i, 1] -> [i:S] where -1 <= 0 < 1, 0 == 0 : f32[S]\n"
                                       "  output \"y\" %1\n"
                                       "}\n");
    arena_free(a);
}

static void numbers_survive(void **state) {
    (void)state;
    static const double values[] = {0.1, 1.0 / 3, -0.0, 5e-324, 1.7976931348623157e308, 123456789012345678.0, 1e16, -7};
    Arena *a = arena_new();
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        Model m = {.name = "m"};
        Graph *g = graph_new(a, &m, ENTRY_INFER);
        graph_const(g, DT_F64, shape_scalar(), values[i]);
        const char *error = NULL;
        Graph *back = graph_parse(a, printed(a, g), &error);
        if (!back) fail_msg("%s", error);
        assert_memory_equal(&back->nodes.at[0]->attr->value, &values[i], sizeof values[i]);
    }
    arena_free(a);
}

#define HEAD "graph @m entry=infer {\ndim S <= 9\ninput \"x\" : f32[2,3]\n%0 = input \"x\" : f32[2,3]\n"

static void errors_have_places(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "1:1: expected 'graph'"},
        {"graph @m entry=walk {}", "1:16: unknown entry 'walk'"},
        {"graph @m entry=infer {", "1:23: expected '}'"},
        {"graph @m entry=infer {} x", "1:25: text after the graph"},
        {"graph @m entry=infer { $ }", "1:24: unexpected character (code 36)"},
        {"graph @m entry=infer { dim S <= 4 dim S <= 5 }", "1:39: dim 'S' again"},
        {"graph @m entry=infer { dim S <= 99999999999999 }", "1:33: number out of range"},
        {"graph @m entry=infer { dim S <= 99999999999999999999 }", "1:33: number too large"},
        {"graph @m entry=infer { input \"x }", "1:30: string is not closed"},
        {"graph @m entry=infer { input \"\\x00\" : f32[] }", "1:30: bad escape in a name"},
        {"graph @m entry=infer { input \"x\" : f31[] }", "1:36: unknown element type 'f31'"},
        {"graph @m entry=infer { input \"x\" : f32[Q] }", "1:40: unknown dim 'Q'"},
        {"graph @m entry=infer { input \"x\" : f32[-1] }", "1:40: bad extent"},
        {"graph @m entry=infer { input \"x\" : f32[1,1,1,1,1,1,1,1,1,1,1] }", "1:59: more than 10 axes"},
        {"graph @m entry=infer { input \"x\" : f32[2 }", "1:42: expected ',' or ']'"},
        {"graph @m entry=infer { goto \"x\" }", "1:24: expected a declaration, a node or a result"},
        {HEAD "%2 = neg %0 : f32[2,3]", "5:1: expected %1"},
        {HEAD "%1 = nag %0 : f32[2,3]", "5:6: unknown op 'nag'"},
        {HEAD "%1 = neg %1 : f32[2,3]", "5:10: %1 is not defined yet"},
        {HEAD "%1 = neg %99999999999 : f32[2,3]", "5:10: % needs a number"},
        {HEAD "%1 = neg : f32[2,3]", "5:6: neg: takes 1 operands, not 0"},
        {HEAD "%1 = neg %0, %0 : f32[2,3]", "5:6: neg: takes 1 operands, not 2"},
        {HEAD "%1 = neg %0 : f32[3,2]", "5:6: the result is f32[2,3]"},
        {HEAD "%1 = neg %0 : i32[2,3]", "5:6: the result is f32[2,3]"},
        {HEAD "%1 = neg %0 : f32[2,3] !side", "5:25: unknown phase 'side'"},
        {HEAD "%1 = input \"z\" : f32[2,3]", "5:12: unknown input \"z\""},
        {HEAD "%1 = transpose %0 [1, 1] : f32[2,3]", "5:6: transpose: axes are no permutation"},
        {HEAD "%1 = transpose %0 [1, 11] : f32[2,3]", "5:23: number out of range"},
        {HEAD "%1 = contract %0[i, j] : f32[2,3]", "5:34: expected '->'"},
        {HEAD "%1 = contract %0[i, k] -> [i:2, j:3] : f32[2,3]", "5:21: unknown loop 'k'"},
        {HEAD "%1 = contract %0[i] -> [i:2] : f32[2]", "5:15: %0 has 2 axes"},
        {HEAD "%1 = contract %0[i, i, i] -> [i:2] : f32[2]", "5:15: %0 has 2 axes"},
        {HEAD "%1 = contract %0[i, i] -> [i:2, i:2] : f32[2,2]", "5:33: loop 'i' again"},
        {HEAD "%1 = contract %0[i, (i) / 0] -> [i:2] : f32[2]", "5:6: contract: divisor must be at least 1"},
        {HEAD "%1 = contract %0[i, 999999999999999999*i] -> [i:2] : f32[2]", "5:6: contract: an index can overflow"},
        {HEAD "output \"y\" %0", "5:1: result for unknown \"y\""},
        {HEAD "%1 = const 1e : f32[]", "5:13: expected ':' and a type"},
    };
    Arena *a = arena_new();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *error = NULL;
        assert_null(graph_parse(a, cases[i].text, &error));
        assert_string_equal(error, cases[i].error);
    }
    arena_free(a);
}

static uint64_t random_next(uint64_t *s) { /* splitmix64 */
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Flips, removes, doubles and swaps bytes, and cuts the text off. */
static void mutate(char *text, size_t *n, size_t cap, uint64_t *seed) {
    static const char alphabet[] = "0123456789%[](),:+-*/<=!\"SijkTf axm}{\x01\xff";
    size_t at = random_next(seed) % *n, other = random_next(seed) % *n, length = 1 + random_next(seed) % 12;
    if (at + length > *n) length = *n - at;
    switch (random_next(seed) % 6) {
    case 0: text[at] = alphabet[random_next(seed) % (sizeof alphabet - 1)]; break;
    case 1: text[at] ^= (char)(1u << random_next(seed) % 7); break;
    case 2:
        memmove(text + at, text + at + length, *n - at - length);
        *n -= length;
        break;
    case 3:
        if (*n + length >= cap) break;
        memmove(text + at + length, text + at, *n - at);
        *n += length;
        break;
    case 4: {
        char c = text[at];
        text[at] = text[other];
        text[other] = c;
        break;
    }
    default:
        if (random_next(seed) % 8 == 0) *n = at + 1;
        break;
    }
}

/* Whatever is read must verify or be refused in words, and print to a fixed point. */
static void survives_mutations(void **state) {
    (void)state;
    Arena *outer = arena_new();
    const char *original = every_op_text(outer);
    size_t length = strlen(original), cap = length + 256;
    char *text = arena_alloc(outer, cap + 1);
    uint64_t seed = 1;
    int accepted = 0, refused = 0;
    for (int round = 0; round < 4000; round++) {
        Arena *a = arena_new();
        size_t n = length;
        memcpy(text, original, length);
        for (int k = 1 + (int)(random_next(&seed) % 3); k > 0; k--) mutate(text, &n, cap, &seed);
        text[n] = 0;
        const char *error = NULL;
        Graph *g = graph_parse(a, text, &error);
        if (g) {
            accepted++;
            graph_verify(a, g);
            const char *once = printed(a, g);
            Graph *back = graph_parse(a, once, &error);
            if (!back) fail_msg("round %d: does not read back: %s\n%s", round, error, once);
            assert_string_equal(printed(a, back), once);
        } else {
            refused++;
            assert_non_null(strchr(error, ':'));
        }
        arena_free(a);
    }
    assert_true(accepted > 100);
    assert_true(refused > 1000);
    arena_free(outer);
}

static void survives_truncation(void **state) {
    (void)state;
    Arena *outer = arena_new();
    char *text = every_op_text(outer);
    size_t length = strlen(text);
    for (size_t n = 0; n + 2 < length; n += 3) {
        Arena *a = arena_new();
        const char *error = NULL, *cut = arena_strndup(a, text, n);
        assert_null(graph_parse(a, cut, &error));
        assert_non_null(error);
        arena_free(a);
    }
    arena_free(outer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_is_identical),    cmocka_unit_test(reading_resolves_names),
        cmocka_unit_test(free_form_prints_canonical), cmocka_unit_test(numbers_survive),
        cmocka_unit_test(errors_have_places),         cmocka_unit_test(survives_mutations),
        cmocka_unit_test(survives_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
