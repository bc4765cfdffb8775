#include "tests/support/gradcheck.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers: splitmix64 ------------------------------------------------------------- */
uint64_t rng_next(Rng *r) {
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t rng_int(Rng *r, int64_t lo, int64_t hi) { return lo + (int64_t)(rng_next(r) % (uint64_t)(hi - lo + 1)); }
double rng_real(Rng *r, double lo, double hi) { return lo + (hi - lo) * (double)(rng_next(r) >> 11) * 0x1p-53; }
bool rng_chance(Rng *r, double p) { return rng_real(r, 0, 1) < p; }

Shape rng_shape(Rng *r, int max_rank, int64_t max_extent) {
    int64_t extent[MAX_RANK];
    int rank = (int)rng_int(r, 0, max_rank);
    for (int d = 0; d < rank; d++)
        extent[d] = rng_chance(r, 0.05) ? 0 : rng_chance(r, 0.2) ? 1 : rng_int(r, 1, max_extent);
    return shape_fixed(rank, extent);
}

/* ---- trials --------------------------------------------------------------------------------------- */
void trial_init(Trial *t, Arena *a, Rng *r) {
    *t = (Trial){.arena = a, .rng = r, .model = ARENA_NEW(a, Model)};
    t->model->name = "trial";
    t->graph = graph_new(a, t->model, ENTRY_GRAD);
}

static void count_report(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    Trial *t = user;
    (void)loc, (void)message, (void)help;
    if (what != COMPLAINT_WARNING)
        t->errors++;
    else
        t->warnings++;
}

PassContext trial_context(Trial *t) {
    return (PassContext){.arena = t->arena, .report = count_report, .user = t, .verify = true};
}

static Tensor random_tensor(const Trial *t, DType dtype, Shape s, double lo, double hi) {
    Tensor x = {.rank = s.rank};
    for (int d = 0; d < s.rank; d++) x.dim[d] = dim_at(s.dim[d], t->syms.at);
    int64_t n = tensor_elements(&x);
    x.data = ARENA_ARRAY(t->arena, double, n + 1);
    for (int64_t i = 0; i < n; i++)
        x.data[i] = dtype == DT_F32    ? rng_real(t->rng, lo, hi)
                    : dtype == DT_BOOL ? (double)rng_chance(t->rng, 0.5)
                                       : (double)rng_int(t->rng, (int64_t)lo, (int64_t)hi);
    return x;
}

Node *trial_param(Trial *t, Shape s, double lo, double hi) {
    int decl = t->model->params.n;
    vec_push(t->arena, t->params, random_tensor(t, DT_F32, s, lo, hi));
    vec_push(t->arena, t->model->params,
             (TensorDecl){.name = arena_printf(t->arena, "p%d", decl), .dtype = DT_F32, .shape = s, .trainable = true});
    return graph_node(t->graph, OP_PARAM, 0, NULL, &(Attr){.decl = decl, .dtype = DT_F32}, DT_F32, s);
}

/* ---- operands behind movement: each step picks an op and asks for what it needs ------------------------ */
static Node *behind_transpose(Trial *t, Shape s, double lo, double hi) {
    int8_t perm[MAX_RANK];
    Shape in = s;
    for (int d = 0; d < s.rank; d++) perm[d] = (int8_t)d;
    for (int d = s.rank - 1; d > 0; d--) {
        int e = (int)rng_int(t->rng, 0, d);
        int8_t kept = perm[d];
        perm[d] = perm[e], perm[e] = kept;
    }
    for (int d = 0; d < s.rank; d++) in.dim[perm[d]] = s.dim[d];
    return graph_transpose(t->graph, trial_operand(t, in, lo, hi), perm);
}

static Node *behind_broadcast(Trial *t, Shape s, double lo, double hi) {
    int8_t axes[MAX_RANK];
    Shape in = {0};
    for (int d = 0; d < s.rank; d++) {
        if (rng_chance(t->rng, 0.4)) continue;
        axes[in.rank] = (int8_t)d;
        in.dim[in.rank++] = s.dim[d];
    }
    return graph_broadcast(t->graph, trial_operand(t, in, lo, hi), s, axes);
}

static Node *behind_slice(Trial *t, Shape s, double lo, double hi) {
    Attr attr = {0};
    Shape in = s;
    for (int d = 0; d < s.rank; d++) {
        int64_t n = s.dim[d].bound, step = rng_chance(t->rng, 0.6) ? 1 : rng_int(t->rng, 1, 2);
        int64_t before = rng_int(t->rng, 0, 1), after = rng_int(t->rng, 0, 2), last = n > 0 ? (n - 1) * step : 0;
        bool back = n > 0 && rng_chance(t->rng, 0.3);
        in.dim[d] = dim_fixed(before + last + 1 + after);
        attr.lo[d] = dim_fixed(back ? before + last : before);
        attr.hi[d] = s.dim[d];
        attr.step[d] = back ? -step : step;
    }
    return graph_op(t->graph, OP_SLICE, 1, (Node *[]){trial_operand(t, in, lo, hi)}, &attr);
}

static Node *behind_pad(Trial *t, Shape s, double lo, double hi) {
    Attr attr = {.value = lo > 0 ? lo : 0};
    Shape in = s;
    for (int d = 0; d < s.rank; d++) {
        int64_t n = s.dim[d].bound, before = rng_int(t->rng, 0, n > 1), after = rng_int(t->rng, 0, n > 2);
        attr.lo[d] = dim_fixed(before), attr.hi[d] = dim_fixed(after);
        in.dim[d] = dim_fixed(n - before - after);
    }
    return graph_op(t->graph, OP_PAD, 1, (Node *[]){trial_operand(t, in, lo, hi)}, &attr);
}

static Node *behind_reshape(Trial *t, Shape s, double lo, double hi) {
    Shape in = {0};
    for (int d = 0; d < s.rank; d++) {
        if (s.dim[d].bound == 1 && rng_chance(t->rng, 0.7)) continue;
        if (in.rank < 6 && rng_chance(t->rng, 0.3)) in.dim[in.rank++] = dim_fixed(1);
        in.dim[in.rank++] = s.dim[d];
    }
    return graph_reshape(t->graph, trial_operand(t, in, lo, hi), s);
}

Node *trial_operand(Trial *t, Shape s, double lo, double hi) {
    static Node *(*const behind[])(Trial *, Shape, double, double) = {behind_transpose, behind_broadcast, behind_slice,
                                                                      behind_pad, behind_reshape};
    int moves = t->moves;
    if (moves > 0 && rng_chance(t->rng, 0.1)) return graph_const(t->graph, DT_F32, s, rng_real(t->rng, lo, hi));
    if (moves == 0 || !shape_is_fixed(s) || rng_chance(t->rng, 0.2)) return trial_param(t, s, lo, hi);
    t->moves--;
    Node *n = behind[rng_int(t->rng, 0, 4)](t, s, lo, hi);
    t->moves = moves;
    return n;
}

Node *trial_input(Trial *t, DType dtype, Shape s, double lo, double hi) {
    int decl = t->model->inputs.n;
    vec_push(t->arena, t->inputs, random_tensor(t, dtype, s, lo, hi));
    vec_push(t->arena, t->model->inputs,
             (TensorDecl){.name = arena_printf(t->arena, "x%d", decl), .dtype = dtype, .shape = s});
    return graph_node(t->graph, OP_INPUT, 0, NULL, &(Attr){.decl = decl, .dtype = dtype}, dtype, s);
}

Dim trial_sym(Trial *t, int64_t bound, int64_t value) {
    int sym = t->model->syms.n;
    vec_push(t->arena, t->model->syms, (SymDecl){.name = arena_printf(t->arena, "S%d", sym), .bound = bound});
    vec_push(t->arena, t->syms, value);
    return (Dim){.bound = bound, .sym = sym, .scale = 1};
}

Node *trial_loss(Trial *t, Node *y) {
    int8_t axes[MAX_RANK];
    for (int d = 0; d < y->shape->rank; d++) axes[d] = (int8_t)d;
    Node *weighted = graph_binary(t->graph, OP_MUL, y, trial_input(t, DT_F32, *y->shape, -1, 1));
    return y->shape->rank ? graph_reduce(t->graph, OP_SUM, weighted, y->shape->rank, axes) : weighted;
}

Tensor *trial_eval(const Trial *t, Arena *a, const Graph *g, const char **error) {
    EvalEnv env = {.syms = t->syms.at, .params = t->params.at, .inputs = t->inputs.at, .step = 3, .seed = 7};
    const char *illegal = graph_verify(a, g);
    if (illegal) {
        *error = illegal;
        return NULL;
    }
    Tensor *all = graph_eval(a, g, &env, error);
    if (!all) return NULL;
    Tensor *results = ARENA_ARRAY(a, Tensor, g->results.n + 1);
    for (int i = 0; i < g->results.n; i++) results[i] = all[g->results.at[i].value->id];
    return results;
}

/* ---- comparing --------------------------------------------------------------------------------------- */
static double loss_at(const Trial *t, const Graph *forward, const char **error) {
    Arena *a = arena_new();
    Tensor *r = trial_eval(t, a, forward, error);
    double loss = r ? r[0].data[0] : NAN;
    if (*error) *error = arena_strdup(t->arena, *error);
    arena_free(a);
    return loss;
}

/* d loss / d params[p] at element i, by central differences. */
static double slope(const Trial *t, const Graph *forward, int p, int64_t i, const char **error) {
    double *x = &t->params.at[p].data[i], kept = *x, h = 1e-5;
    *x = kept + h;
    double up = loss_at(t, forward, error);
    *x = kept - h;
    double down = loss_at(t, forward, error);
    *x = kept;
    return (up - down) / (2 * h);
}

enum { PROBES = 12 }; /* elements probed per parameter */

static const char *compare_param(const Trial *t, const Graph *forward, int p, const Tensor *gradient,
                                 double tolerance) {
    const Tensor *value = &t->params.at[p];
    int64_t n = tensor_elements(value);
    bool same = gradient->rank == value->rank && tensor_elements(gradient) == n;
    if (!same) return arena_printf(t->arena, "gradient %d has another shape", p);
    double scale = 1;
    for (int64_t i = 0; i < n; i++)
        if (fabs(gradient->data[i]) > scale) scale = fabs(gradient->data[i]);
    for (int64_t probe = 0; probe < n && probe < PROBES; probe++) {
        int64_t i = n <= PROBES ? probe : rng_int(t->rng, 0, n - 1);
        const char *error = NULL;
        double want = slope(t, forward, p, i, &error), got = gradient->data[i];
        if (error) return error;
        if (!(fabs(want - got) <= tolerance * scale))
            return arena_printf(t->arena, "parameter %d element %d: autodiff %.9g, differences %.9g", p, (int)i, got,
                                want);
    }
    return NULL;
}

static Graph *with_result(const Trial *t, Node *loss) {
    Graph *g = graph_new(t->arena, t->model, ENTRY_INFER);
    for (int i = 0; i < t->graph->nodes.n; i++) vec_push(t->arena, g->nodes, t->graph->nodes.at[i]);
    graph_result(g, RESULT_OUTPUT, 0, loss);
    return g;
}

const char *gradcheck(Trial *t, Node *loss, Graph *(*after)(PassContext *, Graph *), double tolerance) {
    vec_push(t->arena, t->model->outputs, (TensorDecl){.name = "loss", .dtype = DT_F32, .shape = shape_scalar()});
    Graph *forward = with_result(t, loss);
    Node *params[16] = {0};
    for (int i = 0; i < t->graph->nodes.n; i++)
        if (t->graph->nodes.at[i]->op == OP_PARAM) params[t->graph->nodes.at[i]->attr->decl] = t->graph->nodes.at[i];
    graph_result(t->graph, RESULT_OUTPUT, 0, loss);
    for (int p = 0; p < t->params.n; p++)
        graph_result(t->graph, RESULT_GRAD, p, graph_op(t->graph, OP_GRADIENT, 2, (Node *[]){loss, params[p]}, NULL));
    PassContext c = trial_context(t);
    t->graph = pass_autodiff(&c, t->graph);
    if (after) t->graph = after(&c, t->graph);
    const char *error = NULL;
    Tensor *results = trial_eval(t, t->arena, t->graph, &error);
    if (!results) return error ? error : "evaluation failed";
    double loss_before = loss_at(t, forward, &error), loss_after = results[0].data[0];
    if (!(fabs(loss_before - loss_after) <= tolerance * (1 + fabs(loss_before))))
        return arena_printf(t->arena, "the loss was %.9g and is %.9g", loss_before, loss_after);
    for (int p = 0; p < t->params.n; p++) {
        const char *why = compare_param(t, forward, p, &results[1 + p], tolerance);
        if (why) return why;
    }
    return NULL;
}

/* ---- comparing graphs ------------------------------------------------------------------------------------ */
static Tensor random_of(Arena *a, const TensorDecl *decl, const int64_t *syms, Rng *r) {
    Tensor x = {.rank = decl->shape.rank};
    for (int d = 0; d < x.rank; d++) x.dim[d] = dim_at(decl->shape.dim[d], syms);
    int64_t n = tensor_elements(&x);
    x.data = ARENA_ARRAY(a, double, n + 1);
    for (int64_t i = 0; i < n; i++) {
        if (dtype_is_float(decl->dtype))
            x.data[i] = (double)(float)rng_real(r, -1.5, 1.5);
        else if (decl->dtype == DT_BOOL)
            x.data[i] = (double)rng_chance(r, 0.5);
        else
            x.data[i] = (double)(decl->has_range ? rng_int(r, decl->lo, decl->hi - 1) : rng_int(r, -1, 4));
    }
    return x;
}

static Tensor *random_list(Arena *a, const TensorDecl *decl, int n, const int64_t *syms, Rng *r) {
    Tensor *list = ARENA_ARRAY(a, Tensor, n + 1);
    for (int i = 0; i < n; i++) list[i] = random_of(a, &decl[i], syms, r);
    return list;
}

EvalEnv random_env(Arena *a, const Model *m, Rng *r) {
    int64_t *syms = ARENA_ARRAY(a, int64_t, m->syms.n + 1);
    double *hypers = ARENA_ARRAY(a, double, m->hypers.n + 1);
    for (int i = 0; i < m->syms.n; i++) syms[i] = rng_int(r, 1, m->syms.at[i].bound);
    for (int i = 0; i < m->hypers.n; i++) hypers[i] = m->hypers.at[i].value;
    return (EvalEnv){.syms = syms,
                     .params = random_list(a, m->params.at, m->params.n, syms, r),
                     .states = random_list(a, m->states.at, m->states.n, syms, r),
                     .inputs = random_list(a, m->inputs.at, m->inputs.n, syms, r),
                     .hypers = hypers,
                     .step = 3,
                     .seed = 7};
}

static const char *tensors_agree(Arena *a, int result, const Tensor *x, const Tensor *y, double tolerance) {
    int64_t n = tensor_elements(x);
    if (x->rank != y->rank || n != tensor_elements(y)) return arena_printf(a, "result %d: shapes differ", result);
    double scale = 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x->data[i]) && fabs(x->data[i]) > scale) scale = fabs(x->data[i]);
    for (int64_t i = 0; i < n; i++) {
        double u = x->data[i], v = y->data[i];
        bool same = u == v || (isnan(u) && isnan(v)) || fabs(u - v) <= tolerance * scale;
        if (!same) return arena_printf(a, "result %d element %d: %.9g and %.9g", result, (int)i, u, v);
    }
    return NULL;
}

const char *results_agree(Arena *a, const EvalEnv *env, const Graph *x, const Graph *y, double tolerance) {
    const char *error = graph_verify(a, x);
    if (!error) error = graph_verify(a, y);
    if (error) return error;
    Tensor *u = graph_eval(a, x, env, &error), *v = u ? graph_eval(a, y, env, &error) : NULL;
    if (!v) return error ? error : "evaluation failed";
    if (x->results.n != y->results.n) return "different results";
    for (int i = 0; i < x->results.n; i++) {
        const char *why =
            tensors_agree(a, i, &u[x->results.at[i].value->id], &v[y->results.at[i].value->id], tolerance);
        if (why) return why;
    }
    return NULL;
}

char *graph_text(Arena *a, const Graph *g) {
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    graph_print(f, g);
    fclose(f);
    char *copy = arena_strndup(a, text, length);
    free(text);
    return copy;
}
