/* A compiled module against the float64 evaluation of the graph it came from. */
#ifndef FUSEC_TESTS_ORACLE_H
#define FUSEC_TESTS_ORACLE_H
#include "ir/module.h"
#include "ir/module_run.h"
#include "passes/pass.h"

/* Random numbers of a test: xorshift64*, never 0. */
typedef struct TestRandom {
    uint64_t state;
} TestRandom;
uint64_t test_random(TestRandom *r);
int test_below(TestRandom *r, int n);          /* 0 .. n-1 */
double test_uniform(TestRandom *r, double lo, double hi);

/* Every tensor of a model, as float64 and in the module's own layout. */
typedef struct TestData {
    EvalEnv env;
    ModuleMemory mem;
    int64_t *syms;
} TestData;
/* Values rounded to the dtypes: floats in [-1.5, 1.5], or in [1, 2] and [-2, -1] where the name begins with
 * "high" and "low"; integers in their declared range (or 0..3), symbols
 * somewhere in 1..bound. Memory of outputs and gradients is poisoned. */
TestData test_data(Arena *a, const Module *m, const Model *model, TestRandom *r);

/* Parameters and states of `env` become what memory holds, as an entry has left it. */
void test_data_reread(const Module *m, const Model *model, TestData *d);

/* How a back end runs an entry; false with *error. */
typedef bool (*TestRun)(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms,
                        const char **error);

/* Compares every result of `g` (evaluated in float64, GRADIENT nodes expanded) with what `run` leaves in memory.
 * |x - y| <= tolerance * (scale + |y|), scale the largest magnitude in that tensor (at least 1).  NULL if they agree, else a message. */
const char *oracle_compare(Arena *a, Graph *g, const Module *m, TestData *d, TestRun run, double tolerance);

/* The same with the values of g's nodes given, by graph_eval, and a tolerance for each result; a negative one: it must
 * be computed, and is not compared. */
const char *oracle_compare_values(Arena *a, const Graph *g, const Tensor *values, const Module *m, TestData *d, TestRun run,
                                  const double *tolerance);

/* A context for tests: verifies after every pass, prints errors to stderr. */
PassContext test_context(Arena *a, const char *target);

#endif
