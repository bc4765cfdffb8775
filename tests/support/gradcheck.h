/* Gradient checks: autodiff against finite differences of the unoptimised forward graph, in float64. */
#ifndef FUSEC_TESTS_GRADCHECK_H
#define FUSEC_TESTS_GRADCHECK_H
#include "ir/graph.h"
#include "passes/pass.h"

typedef struct Rng {
    uint64_t state;
} Rng;
uint64_t rng_next(Rng *r);
int64_t rng_int(Rng *r, int64_t lo, int64_t hi); /* in lo .. hi inclusive */
double rng_real(Rng *r, double lo, double hi);
bool rng_chance(Rng *r, double p);
Shape rng_shape(Rng *r, int max_rank, int64_t max_extent); /* extents 0, 1 and odd ones among them */

/* One program under test: a graph whose parameters and inputs have random values. */
typedef struct Trial {
    Arena *arena;
    Rng *rng;
    Model *model;
    Graph *graph;
    VEC(Tensor) params;
    VEC(Tensor) inputs;
    VEC(int64_t) syms;    /* run-time extents */
    int moves;            /* trial_operand puts up to so many movement ops before an operand */
    int warnings, errors; /* reported by passes */
} Trial;
void trial_init(Trial *t, Arena *a, Rng *r);
PassContext trial_context(Trial *t);                        /* counts reports in t */
Node *trial_param(Trial *t, Shape s, double lo, double hi); /* f32, values uniform in [lo, hi) */
/* A value of this shape that depends on parameters: one of them, seen through t->moves movement ops. */
Node *trial_operand(Trial *t, Shape s, double lo, double hi);
Node *trial_input(Trial *t, DType dtype, Shape s, double lo, double hi); /* i32: integers in lo .. hi inclusive */
Dim trial_sym(Trial *t, int64_t bound, int64_t value); /* a bounded dimension with its run-time extent */
Node *trial_loss(Trial *t, Node *y);                   /* sum(y * random weights): a scalar that sees all of y */

/* Values of the results of g, in order. NULL on failure. */
Tensor *trial_eval(const Trial *t, Arena *a, const Graph *g, const char **error);

/* Adds gradients of loss by all parameters, runs autodiff (with `after`, if given, on its result), and
 * compares with central differences.  NULL if all agree within `tolerance` relative to the largest
 * gradient; else a message.  t->graph becomes the result. */
const char *gradcheck(Trial *t, Node *loss, Graph *(*after)(PassContext *, Graph *), double tolerance);

/* Random values for everything a model declares, of the dtypes and ranges it declares. */
EvalEnv random_env(Arena *a, const Model *m, Rng *r);

/* Both graphs are legal and their results agree under env, NaN equal to NaN; else a message. */
const char *results_agree(Arena *a, const EvalEnv *env, const Graph *x, const Graph *y, double tolerance);

/* The graph as text, in the arena. */
char *graph_text(Arena *a, const Graph *g);

#endif
