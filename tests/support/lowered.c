#include "tests/support/lowered.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "frontend/frontend.h"
#include "tests/support/scratch.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

void lower_text(Arena *a, const char *text, Graph *g[ENTRY_COUNT]) {
    char path[] = "/tmp/fusec-lowered-XXXXXX";
    const int fd = mkstemp(path);
    Diag *d = diag_new(a);
    assert_true(fd >= 0);
    close(fd);
    write_text(path, text);
    Program *p = program_load(a, d, path, NULL);
    unlink(path);
    if (p && program_lower(a, d, p, NULL, g)) return;
    diag_print(d, stderr);
    fail_msg("does not lower:\n%s", text);
}

static double uniform(unsigned *seed) { return (double)rand_r(seed) / RAND_MAX; }

static Tensor make_tensor(Arena *a, Shape s, const int64_t *syms) {
    Tensor t = {.rank = s.rank};
    for (int d = 0; d < s.rank; d++) t.dim[d] = dim_at(s.dim[d], syms);
    t.data = ARENA_ARRAY(a, double, tensor_elements(&t) + 1);
    return t;
}

EvalEnv started_env(Arena *a, const Graph *init, unsigned *seed) {
    const Model *m = init->model;
    int64_t *syms = ARENA_ARRAY(a, int64_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) syms[i] = m->syms.at[i].bound - 1;
    Tensor *inputs = ARENA_ARRAY(a, Tensor, m->inputs.n + 1), *params = ARENA_ARRAY(a, Tensor, m->params.n + 1);
    Tensor *states = ARENA_ARRAY(a, Tensor, m->states.n + 1);
    for (int i = 0; i < m->inputs.n; i++) {
        const TensorDecl *d = &m->inputs.at[i];
        inputs[i] = make_tensor(a, d->shape, syms);
        for (int64_t k = 0; k < tensor_elements(&inputs[i]); k++)
            inputs[i].data[k] = d->has_range ? (double)d->lo + floor(uniform(seed) * (double)(d->hi - d->lo) * 0.999)
                                             : 2 * uniform(seed) - 1;
    }
    EvalEnv env = {.syms = syms, .params = params, .states = states, .inputs = inputs, .step = 1, .seed = 7};
    const char *error = NULL;
    Tensor *values = graph_eval(a, init, &env, &error);
    if (!values) fail_msg("init: %s", error);
    for (int i = 0; i < init->results.n; i++) {
        const Result *r = &init->results.at[i];
        Tensor own = values[r->value->id]; /* equal initial values are one node: each gets a copy */
        own.data = arena_dup(a, own.data, sizeof *own.data * (size_t)tensor_elements(&own));
        (r->kind == RESULT_PARAM ? params : states)[r->decl] = own;
    }
    return env;
}

void keep_outputs(Graph *g) {
    int n = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].kind == RESULT_OUTPUT) g->results.at[n++] = g->results.at[i];
    g->results.n = n;
    graph_prune(g);
}
