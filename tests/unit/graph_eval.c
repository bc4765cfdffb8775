/* Evaluation of every op against numbers worked out by hand.  A case is a graph's body; its last node
 * must evaluate to `want`.  Inputs: x f32[2,3], v f32[4], i i32[3], r f32[S] with S <= 4 and S = 3. */
#include "ir/graph.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define INF INFINITY
static double x_data[] = {1, -2, 3, 0.5, 5, -6}, v_data[] = {0, -1.5, 2.5, 4}, i_data[] = {2, 0, -7},
              r_data[] = {3, 1, 2};
static const double w_data[] = {10, 20}, s_data[] = {7};

static const char head[] =
    "graph @m entry=step {\n"
    "dim S <= 4\n"
    "param \"w\" : f32[2]\nstate \"s\" : f32[]\nhyper \"lr\" = 0.25\n"
    "input \"x\" : f32[2,3]\ninput \"v\" : f32[4]\ninput \"i\" : i32[3]\ninput \"r\" : f32[S]\n"
    "%0 = input \"x\" : f32[2,3]\n%1 = input \"v\" : f32[4]\n%2 = input \"i\" : i32[3]\n"
    "%3 = input \"r\" : f32[S]\n%4 = const 2 : f32[4]\n%5 = const 3 : i32[3]\n%6 = const 1 : i32[]\n";

typedef struct Case {
    const char *body;
    int n;
    double want[12];
} Case;

/* `%` of a value and the op's own text stand in the body; the op covered is that of the last line. */
static const Case cases[] = {
    /* sources */
    {"%7 = param \"w\" : f32[2]", 2, {10, 20}},
    {"%7 = state \"s\" : f32[]", 1, {7}},
    {"%7 = input \"v\" : f32[4]", 4, {0, -1.5, 2.5, 4}},
    {"%7 = hyper \"lr\" : f32[]", 1, {0.25}},
    {"%7 = step : i32[]", 1, {5}},
    {"%7 = seed : i32[]", 1, {-2}},
    {"%7 = accumulate : i32[]", 1, {1}},
    {"%7 = extent 2*S + 1 : i32[]", 1, {7}},
    {"%7 = const 1.5 : f32[2,S]", 6, {1.5, 1.5, 1.5, 1.5, 1.5, 1.5}},
    {"%7 = iota axis 1 : i32[2,3]", 6, {0, 1, 2, 0, 1, 2}},
    {"%7 = iota axis 0 : i32[2,3]", 6, {0, 0, 0, 1, 1, 1}},
    /* one operand */
    {"%7 = neg %1 : f32[4]", 4, {0, 1.5, -2.5, -4}},
    {"%7 = neg %2 : i32[3]", 3, {-2, 0, 7}},
    {"%7 = abs %1 : f32[4]", 4, {0, 1.5, 2.5, 4}},
    {"%7 = abs %2 : i32[3]", 3, {2, 0, 7}},
    {"%7 = const -2147483648 : i32[]\n%8 = abs %7 : i32[]", 1, {-2147483648.0}},
    {"%7 = sign %1 : f32[4]", 4, {0, -1, 1, 1}},
    {"%7 = exp %1 : f32[4]", 4, {1, 0.22313016014842982, 12.182493960703473, 54.598150033144236}},
    {"%7 = log %4 : f32[4]", 4, {0.6931471805599453, 0.6931471805599453, 0.6931471805599453, 0.6931471805599453}},
    {"%7 = log %1 : f32[4]", 4, {-INF, NAN, 0.9162907318741551, 1.3862943611198906}},
    {"%7 = log1p %1 : f32[4]", 4, {0, NAN, 1.252762968495368, 1.6094379124341003}},
    {"%7 = sqrt %1 : f32[4]", 4, {0, NAN, 1.5811388300841898, 2}},
    {"%7 = rsqrt %1 : f32[4]", 4, {INF, NAN, 0.6324555320336759, 0.5}},
    {"%7 = sin %1 : f32[4]", 4, {0, -0.9974949866040544, 0.5984721441039564, -0.7568024953079282}},
    {"%7 = cos %1 : f32[4]", 4, {1, 0.0707372016677029, -0.8011436155469337, -0.6536436208636119}},
    {"%7 = tanh %1 : f32[4]", 4, {0, -0.9051482536448664, 0.9866142981514303, 0.999329299739067}},
    {"%7 = sigmoid %1 : f32[4]", 4, {0.5, 0.18242552380635635, 0.9241418199787566, 0.9820137900379085}},
    {"%7 = erf %1 : f32[4]", 4, {0, -0.9661051464753108, 0.999593047982555, 0.9999999845827421}},
    {"%7 = floor %1 : f32[4]", 4, {0, -2, 2, 4}},
    {"%7 = bits %1 : i32[4]", 4, {0, -1077936128, 0x40200000, 0x40800000}},
    {"%7 = ceil %1 : f32[4]", 4, {0, -1, 3, 4}},
    {"%7 = lt %1, %4 : bool[4]\n%8 = not %7 : bool[4]", 4, {0, 0, 1, 1}},
    {"%7 = cast %1 : i32[4]", 4, {0, -1, 2, 4}},
    {"%7 = cast %1 : bool[4]", 4, {0, 1, 1, 1}},
    {"%7 = const 1e12 : f32[]\n%8 = cast %7 : i32[]", 1, {2147483647}},
    {"%7 = const nan : f32[]\n%8 = cast %7 : i32[]", 1, {0}},
    /* two and three operands */
    {"%7 = add %1, %4 : f32[4]", 4, {2, 0.5, 4.5, 6}},
    {"%7 = const 2147483647 : i32[3]\n%8 = add %7, %2 : i32[3]", 3, {-2147483647, 2147483647, 2147483640}},
    {"%7 = sub %1, %4 : f32[4]", 4, {-2, -3.5, 0.5, 2}},
    {"%7 = mul %1, %1 : f32[4]", 4, {0, 2.25, 6.25, 16}},
    {"%7 = const 65537 : i32[]\n%8 = mul %7, %7 : i32[]", 1, {131073}},
    {"%7 = div %1, %4 : f32[4]", 4, {0, -0.75, 1.25, 2}},
    {"%7 = div %2, %5 : i32[3]", 3, {0, 0, -3}},
    {"%7 = div %5, %2 : i32[3]", 3, {1, 0, -1}},
    {"%7 = mod %1, %4 : f32[4]", 4, {0, 0.5, 0.5, 0}},
    {"%7 = mod %2, %5 : i32[3]", 3, {2, 0, 2}},
    {"%7 = mod %5, %2 : i32[3]", 3, {1, 0, -4}},
    {"%7 = pow %1, %4 : f32[4]", 4, {0, 2.25, 6.25, 16}},
    {"%7 = max %1, %4 : f32[4]", 4, {2, 2, 2.5, 4}},
    {"%7 = log %1 : f32[4]\n%8 = max %7, %4 : f32[4]", 4, {2, NAN, 2, 2}},
    {"%7 = min %1, %4 : f32[4]", 4, {0, -1.5, 2, 2}},
    {"%7 = log %1 : f32[4]\n%8 = min %4, %7 : f32[4]", 4, {-INF, NAN, 0.9162907318741551, 1.3862943611198906}},
    {"%7 = cast %1 : i32[4]\n%8 = cast %4 : i32[4]\n%9 = eq %7, %8 : bool[4]", 4, {0, 0, 1, 0}},
    {"%7 = cast %1 : i32[4]\n%8 = cast %4 : i32[4]\n%9 = ne %7, %8 : bool[4]", 4, {1, 1, 0, 1}},
    {"%7 = lt %2, %5 : bool[3]", 3, {1, 1, 1}},
    {"%7 = le %4, %1 : bool[4]", 4, {0, 0, 1, 1}},
    {"%7 = gt %1, %4 : bool[4]", 4, {0, 0, 1, 1}},
    {"%7 = ge %1, %1 : bool[4]", 4, {1, 1, 1, 1}},
    {"%7 = const nan : f32[]\n%8 = eq %7, %7 : bool[]", 1, {0}},
    {"%7 = const nan : f32[]\n%8 = ne %7, %7 : bool[]", 1, {1}},
    {"%7 = cast %1 : bool[4]\n%8 = lt %1, %4 : bool[4]\n%9 = and %7, %8 : bool[4]", 4, {0, 1, 0, 0}},
    {"%7 = cast %1 : bool[4]\n%8 = lt %1, %4 : bool[4]\n%9 = or %7, %8 : bool[4]", 4, {1, 1, 1, 1}},
    {"%7 = lt %1, %4 : bool[4]\n%8 = select %7, %1, %4 : f32[4]", 4, {0, -1.5, 2, 2}},
    /* movement */
    {"%7 = reshape %0 : f32[3,2]", 6, {1, -2, 3, 0.5, 5, -6}},
    {"%7 = transpose %0 [1, 0] : f32[3,2]", 6, {1, 0.5, -2, 5, 3, -6}},
    {"%7 = reshape %0 : f32[1,2,3]\n%8 = transpose %7 [2, 0, 1] : f32[3,1,2]", 6, {1, 0.5, -2, 5, 3, -6}},
    {"%7 = broadcast %3 [1] : f32[2,S]", 6, {3, 1, 2, 3, 1, 2}},
    {"%7 = broadcast %3 [0] : f32[S,2]", 6, {3, 3, 1, 1, 2, 2}},
    {"%7 = slice %0 [1:1, 2:2:-2] : f32[1,2]", 2, {-6, 0.5}},
    {"%7 = slice %3 [S - 1:S:-1] : f32[S]", 3, {2, 1, 3}},
    {"%7 = slice %1 [4:0] : f32[0]", 0, {0}},
    {"%7 = pad %3 [1:2] value 9 : f32[S + 3]", 6, {9, 3, 1, 2, 9, 9}},
    {"%7 = pad %0 [0:0, 1:0] value 0 : f32[2,4]", 8, {0, 1, -2, 3, 0, 0.5, 5, -6}},
    {"%7 = concat %0, %0 axis 1 : f32[2,6]", 12, {1, -2, 3, 1, -2, 3, 0.5, 5, -6, 0.5, 5, -6}},
    {"%7 = concat %3, %1, %3 axis 0 : f32[2*S + 4]", 10, {3, 1, 2, 0, -1.5, 2.5, 4, 3, 1, 2}},
    {"%7 = slice_at %0, %6 rows 2 : f32[2,3]", 6, {0.5, 5, -6, 0, 0, 0}},
    {"%7 = const -1 : i32[]\n%8 = slice_at %1, %7 rows S : f32[S]", 3, {0, 0, -1.5}},
    {"%7 = update_at %1, %3, %6 : f32[4]", 4, {0, 3, 1, 2}},
    {"%7 = const 3 : i32[]\n%8 = update_at %1, %3, %7 : f32[4]", 4, {0, -1.5, 2.5, 3}},
    {"%7 = const -2 : i32[]\n%8 = update_at %1, %3, %7 : f32[4]", 4, {2, -1.5, 2.5, 4}},
    /* reductions */
    {"%7 = sum %0 [1] : f32[2]", 2, {2, -0.5}},
    {"%7 = sum %0 [0, 1] : f32[]", 1, {1.5}},
    {"%7 = sum %3 [0] : f32[]", 1, {6}},
    {"%7 = const 2147483647 : i32[3]\n%8 = sum %7 [0] : i32[]", 1, {2147483645}},
    {"%7 = rmax %0 [0] : f32[3]", 3, {1, 5, 3}},
    {"%7 = slice %1 [0:0] : f32[0]\n%8 = rmax %7 [0] : f32[]", 1, {-INF}},
    {"%7 = slice %2 [0:0] : i32[0]\n%8 = rmax %7 [0] : i32[]", 1, {-2147483648.0}},
    {"%7 = rmin %0 [1] : f32[2]", 2, {-2, -6}},
    {"%7 = log %1 : f32[4]\n%8 = rmin %7 [0] : f32[]", 1, {NAN}},
    {"%7 = prod %0 [1] : f32[2]", 2, {-6, -15}},
    {"%7 = slice %1 [0:0] : f32[0]\n%8 = prod %7 [0] : f32[]", 1, {1}},
    {"%7 = argmax %0 [1] : i32[2]", 2, {2, 1}},
    {"%7 = argmax %0 [0, 1] : i32[]", 1, {4}},
    {"%7 = argmax %4 [0] : i32[]", 1, {0}},
    {"%7 = log %1 : f32[4]\n%8 = argmax %7 [0] : i32[]", 1, {1}}, /* -inf, NaN, numbers */
    {"%7 = log %1 : f32[4]\n%8 = slice %7 [0:1] : f32[1]\n%9 = argmax %8 [0] : i32[]", 1, {0}},
    {"%7 = scan %0 sum axis 1 : f32[2,3]", 6, {1, -1, 2, 0.5, 5.5, -0.5}},
    {"%7 = scan %0 sum axis 0 exclusive : f32[2,3]", 6, {0, 0, 0, 1, -2, 3}},
    {"%7 = scan %0 prod axis 1 reverse : f32[2,3]", 6, {-6, -6, 3, -15, -30, -6}},
    {"%7 = scan %3 sum axis 0 reverse exclusive : f32[S]", 3, {3, 2, 0}},
    {"%7 = scan %0, %0 recurrence axis 1 : f32[2,3]", 6, {1, -4, -9, 0.5, 7.5, -51}},
    /* contraction: product, transposed reads, convolution with padding, divisor, diagonal, guards */
    {"%7 = contract %0[i, k], %0[j, k] -> [i:2, j:2] sum [k:3] : f32[2,2]", 4, {14, -27.5, -27.5, 61.25}},
    {"%7 = contract %1[i + k - 1], %0[0, k] -> [i:4] sum [k:3] : f32[4]", 4, {-4.5, 10.5, 5.5, -5.5}},
    {"%7 = contract %3[i + k - 1], %0[0, k] -> [i:S] sum [k:3] : f32[S]", 3, {-3, 7, -3}},
    {"%7 = contract %1[(i) / 2] -> [i:6] : f32[6]", 6, {0, 0, -1.5, 0, 2.5, 0}},
    {"%7 = contract %1[(i + k - 1) / 2], %0[0, k] -> [i:5] sum [k:3] : f32[5]", 5, {0, -4.5, 3, 6, -5}},
    {"%7 = contract %0[i, i] -> [i:2] : f32[2]", 2, {1, 5}},
    {"%7 = contract %1[2*i + 1] -> [i:3] : f32[3]", 3, {-1.5, 4, 0}},
    {"%7 = contract %1[-i + 3] -> [i:4] : f32[4]", 4, {4, 2.5, -1.5, 0}},
    {"%7 = contract %1[i] -> [i:4, j:2] where i - j == 0 : f32[4,2]", 8, {0, 0, 0, -1.5, 0, 0, 0, 0}},
    {"%7 = contract %1[j] -> [i:4] sum [j:4] where 0 <= i - j < 2 : f32[4]", 4, {0, -1.5, 1, 6.5}},
    {"%7 = contract %1[j] -> [i:4] sum [j:4] where -1 <= (i - j) / 2 < 1 : f32[4]", 4, {2.5, 2.5, 2.5, 4}},
    {"%7 = contract %1[j] -> [] sum [j:4] where 2 <= j < S : f32[]", 1, {2.5}},
    {"%7 = contract %2[i], %2[i], %5[i] -> [] sum [i:3] : i32[]", 1, {159}},
    {"%7 = const 65537 : i32[]\n%8 = contract %7[], %7[] -> [i:2] : i32[2]", 2, {131073, 131073}},
    {"%7 = contract %3[i], %3[i], %3[j] -> [j:S] sum [i:S] : f32[S]", 3, {42, 14, 28}},
    {"%7 = const 1 : f32[0]\n%8 = contract %7[k], %1[i] -> [i:4] sum [k:0] : f32[4]", 4, {0, 0, 0, 0}},
    /* indexed */
    {"%7 = gather %1, %2 : f32[3]", 3, {2.5, 0, 0}},
    {"%7 = iota axis 0 : i32[2]\n%8 = gather %0, %7 : f32[2,3]", 6, {1, -2, 3, 0.5, 5, -6}},
    {"%7 = const 1 : i32[2]\n%8 = scatter %0, %7 rows 3 : f32[3,3]", 9, {0, 0, 0, 1.5, 3, -3, 0, 0, 0}},
    {"%7 = const 1 : i32[2]\n%8 = bucket %7 rows 3 : i32[6]\n%9 = scatter %0, %7, %8 rows 3 : f32[3,3]", 9, {0, 0, 0, 1.5, 3, -3}},
    {"%7 = const 1 : i32[2]\n%8 = bucket %7 rows 3 : i32[6]", 6, {0, 0, 2, 2, 0, 1}},
    {"%7 = bucket %2 rows 3 : i32[7]", 7, {0, 1, 1, 2, 1, 0, 0}},
    {"%7 = cast %2 : f32[3]\n%8 = scatter %7, %2 rows S : f32[S]", 3, {0, 0, 2}},
    {"%7 = const 1 : i32[2]\n%8 = scatter_max %0, %7 rows 2 : f32[2,3]", 6, {-INFINITY, -INFINITY, -INFINITY, 1, 5, 3}},
    {"%7 = const 1 : i32[2]\n%8 = bucket %7 rows 2 : i32[5]\n%9 = scatter_max %0, %7, %8 rows 2 : f32[2,3]", 6,
     {-INFINITY, -INFINITY, -INFINITY, 1, 5, 3}},
    {"%7 = const 1 : i32[2]\n%8 = scatter_argmax %0, %7 rows 2 : i32[2,3]", 6, {-1, -1, -1, 0, 1, 0}},
    {"%7 = const 1 : i32[2]\n%8 = bucket %7 rows 2 : i32[5]\n%9 = scatter_argmax %0, %7, %8 rows 2 : i32[2,3]", 6, {-1, -1, -1, 0, 1, 0}},
    {"%7 = const 0 : i32[4]\n%8 = log %1 : f32[4]\n%9 = scatter_argmax %8, %7 rows 2 : i32[2]", 2, {1, -1}}, /* the first NaN */
    {"%7 = scatter_max %2, %2 rows 3 : i32[3]", 3, {0, INT32_MIN, 2}},
    /* special */
    {"%7 = stop_gradient %1 : f32[4]", 4, {0, -1.5, 2.5, 4}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static const int64_t syms[] = {3};

static EvalEnv environment(Tensor *inputs, Tensor *w, Tensor *s) {
    static const double hypers[] = {0.25};
    inputs[0] = (Tensor){2, {2, 3}, x_data};
    inputs[1] = (Tensor){1, {4}, v_data};
    inputs[2] = (Tensor){1, {3}, i_data};
    inputs[3] = (Tensor){1, {syms[0]}, r_data};
    *w = (Tensor){1, {2}, (double *)w_data};
    *s = (Tensor){0, {0}, (double *)s_data};
    return (EvalEnv){.syms = syms,
                     .params = w,
                     .states = s,
                     .inputs = inputs,
                     .hypers = hypers,
                     .step = 5,
                     .seed = 4294967294,
                     .accumulate = true};
}

static Graph *parse_case(Arena *a, const Case *c) {
    const char *error = NULL;
    Graph *g = graph_parse(a, arena_printf(a, "%s%s\n}", head, c->body), &error);
    if (!g) fail_msg("%s\n%s", c->body, error);
    error = graph_verify(a, g);
    if (error) fail_msg("%s\n%s", c->body, error);
    return g;
}

static bool close_to(double got, double want) {
    if (isnan(want)) return isnan(got);
    return got == want || fabs(got - want) <= 1e-12 * fabs(want);
}

static void every_case(void **state) {
    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        Arena *a = arena_new();
        Graph *g = parse_case(a, &cases[i]);
        Tensor inputs[4], w, s;
        EvalEnv env = environment(inputs, &w, &s);
        const char *error = NULL;
        Tensor *value = graph_eval(a, g, &env, &error);
        if (!value) fail_msg("%s\n%s", cases[i].body, error);
        const Tensor *last = &value[g->nodes.n - 1];
        if (tensor_elements(last) != cases[i].n) fail_msg("%s\n%d elements", cases[i].body, (int)tensor_elements(last));
        for (int k = 0; k < cases[i].n; k++) {
            if (!close_to(last->data[k], cases[i].want[k])) {
                fail_msg("%s\n[%d] is %.17g, not %.17g", cases[i].body, k, last->data[k], cases[i].want[k]);
            }
        }
        arena_free(a);
    }
}

static void every_op_has_a_case(void **state) {
    (void)state;
    Arena *a = arena_new();
    bool covered[OP_COUNT] = {[OP_RANDOM] = true, [OP_PHILOX] = true, [OP_GRADIENT] = true,
                              [OP_VJP] = true, [OP_JACOBIAN] = true}; /* below; derivatives: autodiff */
    for (int i = 0; i < N_CASES; i++) {
        Graph *g = parse_case(a, &cases[i]);
        covered[vec_last(g->nodes)->op] = true;
    }
    for (int op = 0; op < OP_COUNT; op++) {
        if (!covered[op]) fail_msg("no hand-computed case for %s", op_info[op].text);
    }
    arena_free(a);
}

/* The stream must be the published Philox-4x32-10: its known answer for zero key and counter is 6627e8d5. */
static void random_is_philox(void **state) {
    (void)state;
    assert_true(scalar_philox(0, 0, 0, 0) == (double)(0x6627e8d5u >> 8) / 16777216.0);
    assert_true(scalar_op(OP_PHILOX, DT_F32, (double[]){0, 0, 0, 0}) == scalar_philox(0, 0, 0, 0));
    Arena *a = arena_new();
    Case c = {.body = "%7 = seed : i32[]\n%8 = step : i32[]\n%9 = random %7, %8 stream 3 : f32[2,S]"};
    Graph *g = parse_case(a, &c);
    Tensor inputs[4], w, s;
    EvalEnv env = environment(inputs, &w, &s);
    const char *error = NULL;
    Tensor *value = graph_eval(a, g, &env, &error);
    assert_non_null(value);
    for (int i = 0; i < 2; i++) { /* S is 3 of at most 4: rows start at multiples of 4 */
        for (int j = 0; j < 3; j++) {
            double want = scalar_philox(0xfffffffeu, 5, 3, (uint32_t)(4 * i + j));
            assert_true(value[9].data[3 * i + j] == want);
            assert_true(want >= 0 && want < 1);
        }
    }
    arena_free(a);
}

static void expect_error(const Case *c, const EvalEnv *env, const char *want) {
    Arena *a = arena_new();
    const char *error = NULL;
    assert_null(graph_eval(a, parse_case(a, c), env, &error));
    assert_string_equal(error, want);
    arena_free(a);
}

static void refusals_are_words(void **state) {
    (void)state;
    Tensor inputs[4], w, s;
    EvalEnv env = environment(inputs, &w, &s);
    Case gradient = {.body = "%7 = sum %1 [0] : f32[]\n%8 = gradient %7, %1 : f32[4]"};
    expect_error(&gradient, &env, "%8: gradient has no value before autodiff");
    Case huge = {.body = "%7 = const 0 : f32[65536,65536]"};
    expect_error(&huge, &env, "%7: too many elements to evaluate");
    Case computed = {.body = "%7 = const 0 : f32[1048576,1048576,1024]"}; /* more than memory may have */
    expect_error(&computed, &env, "%7: too many elements to evaluate");
    Case plain = {.body = "%7 = neg %0 : f32[2,3]"};
    inputs[0].dim[1] = 2;
    expect_error(&plain, &env, "input 0 is missing or has another shape");
    env.inputs = NULL;
    expect_error(&plain, &env, "input 0 is missing or has another shape");
}

/* A symbol at 0: everything that follows it is empty, reductions give their start. */
static void extent_zero(void **state) {
    (void)state;
    static const int64_t none[] = {0};
    Arena *a = arena_new();
    Case c = {
        .body = "%7 = sum %3 [0] : f32[]\n%8 = slice %3 [S - 1:S:-1] : f32[S]\n%9 = pad %3 [1:0] value 2 : f32[S + 1]\n"
                "%10 = scan %3 sum axis 0 : f32[S]\n%11 = gather %3, %2 : f32[3]\n"
                "%12 = contract %3[i + j - 1] -> [j:2] sum [i:S] : f32[2]"};
    Graph *g = parse_case(a, &c);
    Tensor inputs[4], w, s;
    EvalEnv env = environment(inputs, &w, &s);
    env.syms = none;
    inputs[3].dim[0] = 0;
    const char *error = NULL;
    Tensor *value = graph_eval(a, g, &env, &error);
    if (!value) fail_msg("%s", error);
    assert_true(value[7].data[0] == 0);
    assert_int_equal(tensor_elements(&value[8]), 0);
    assert_true(tensor_elements(&value[9]) == 1 && value[9].data[0] == 2);
    assert_int_equal(tensor_elements(&value[10]), 0);
    assert_true(value[11].data[0] == 0 && value[11].data[2] == 0);
    assert_true(value[12].data[0] == 0 && value[12].data[1] == 0);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case),         cmocka_unit_test(every_op_has_a_case), cmocka_unit_test(random_is_philox),
        cmocka_unit_test(refusals_are_words), cmocka_unit_test(extent_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
