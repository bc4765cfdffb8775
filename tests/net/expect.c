#include "tests/net/judge.h"
#include "tests/net/tensor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

Entry entry_of(const Prog *p) { return p->loss < 0 ? E_INFER : p->line[0].optimizer == O_NONE ? E_GRAD : E_STEP; }
const char *entry_name(Entry e) {
    static const char *names[] = {"infer", "grad", "step"};
    return names[e];
}

// Where nothing changes from call to call, two calls give twice the gradients.
bool adds_up(const Prog *p) {
    bool constant = p->precision != P_F16;
    for (int i = 0; i < p->count; i++) {
        const char *name = ops[p->at[i].op].name;
        constant &= p->at[i].dead || (strcmp(name, "state") && strcmp(name, "cache") && strcmp(name, "step"));
    }
    return p->accumulate && constant && entry_of(p) == E_GRAD;
}
bool one_wanted(const Prog *p) { return p->want && p->nresults > 1 && entry_of(p) == E_INFER; }

static Result *add(Expected *x, const char *name, Type type, const Shape *s) {
    Result *r = &x->at[x->count++];
    *r = (Result){.type = type, .size = shape_size(s), .rank = s->rank};
    snprintf(r->name, sizeof r->name, "%s", name);
    memcpy(r->n, s->n, sizeof r->n);
    r->value = calloc((size_t)r->size + 1, sizeof *r->value);
    r->error = calloc((size_t)r->size + 1, sizeof *r->error);
    return r;
}
static void add_tensor(Expected *x, const char *name, const Tensor *t) {
    Result *r = add(x, name, t->type, &t->shape);
    for (int i = 0; i < r->size; i++) {
        r->value[i] = x->eval.tape.at[t->id[i]].value;
        r->error[i] = x->eval.tape.at[t->id[i]].error;
    }
}
static void add_output(Expected *x, int id) {
    char name[16];
    snprintf(name, sizeof name, "v%d", id);
    add_tensor(x, name, &x->eval.value[id]);
}

static void round_output(Result *r, int storage) {
    for (int i = 0; storage && i < r->size; i++)
        r->error[i] += storage == AS_BF16 ? 0x1p-8 * fabs(r->value[i]) : fabs(r->value[i]) > 65000 ? INFINITY : 0x1p-11 * fabs(r->value[i]) + 0x1p-25;
}

// Of those that the line trains; what does not train has none.
static void take_gradients(const Prog *p, const Eval *e, int line, const int *all, int **g) {
    for (int k = 0, n = 0; k < e->nparams; k++) {
        int size = shape_size(&e->params[k].shape);
        if (line_of(p, e->params[k].path) == line) {
            g[k] = calloc((size_t)size + 1, sizeof **g);
            memcpy(g[k], all + n, (size_t)size * sizeof **g);
        }
        n += size;
    }
}
// The gradient of each parameter by the loss of its line, as scalars on the tape.
static int **gradients(const Prog *p, Eval *e) {
    int **g = calloc((size_t)e->nparams + 1, sizeof *g), one = tape_const(&e->tape, 1), total = 0, n = 0;
    for (int k = 0; k < e->nparams; k++) total += e->params[k].now.id ? shape_size(&e->params[k].shape) : 0;
    int *all = calloc((size_t)total + 1, sizeof *all), *out = calloc((size_t)total + 1, sizeof *out);
    for (int k = 0; k < e->nparams; k++)
        for (int i = 0; i < shape_size(&e->params[k].shape); i++) all[n++] = e->params[k].now.id[i];
    for (int line = 0; line < lines_of(p); line++) {
        tape_reverse(&e->tape, e->value[loss_of_line(p, line)].id, &one, 1, all, total, out);
        take_gradients(p, e, line, out, g);
    }
    free(all);
    free(out);
    return g;
}
static void gradients_free(int **g, int n) {
    for (int k = 0; k < n; k++) free(g[k]);
    free(g);
}

typedef struct { Tape *t; int step; } Update; // the step that the optimizer sees
static int num(Update *u, double x) { return tape_const(u->t, (double)(float)x); }
static int op(Update *u, TapeOp o, int a, int b) { return tape_2(u->t, o, a, b); }
static int mix(Update *u, double beta, int a, int b) { return op(u, T_ADD, op(u, T_MUL, num(u, beta), a), op(u, T_MUL, num(u, 1 - beta), b)); }

static int adam(Update *u, int *m, int *v, int g) {
    *m = mix(u, 0.9, *m, g);
    *v = mix(u, 0.999, *v, op(u, T_MUL, g, g));
    // 1 - beta^step is computed in f32: a few units off, which counts where beta is near 1
    double c1 = 1 - pow(0.9, u->step), c2 = 1 - pow(0.999, u->step);
    int mh = op(u, T_DIV, *m, tape_var(u->t, c1, 4e-7)), vh = op(u, T_DIV, *v, tape_var(u->t, c2, 4e-7));
    return op(u, T_DIV, mh, op(u, T_ADD, tape_1(u->t, T_SQRT, vh), num(u, 0.01)));
}
static int direction(Update *u, const Line *l, const Param *q, int *m, int *v, int g, int now) {
    switch (l->optimizer) {
    case O_MOMENTUM: return *m = op(u, T_ADD, op(u, T_MUL, num(u, 0.9), *m), g);
    case O_ADAM: return adam(u, m, v, g);
    case O_ADAMW: return op(u, T_ADD, adam(u, m, v, g), op(u, T_MUL, num(u, 0.01), now));
    case O_OWN:
        *m = op(u, T_ADD, op(u, T_MUL, num(u, 0.5), *m), tape_1(u->t, T_TANH, g));
        return op(u, T_ADD, *m, op(u, T_MUL, num(u, q->shape.rank >= 2 ? 0.25 : 0), now));
    default: return g;
    }
}
static void keep(Tape *t, int id, double *value, double *error) {
    *value = t->at[id].value;
    *error = t->at[id].error;
}
// warmup_cosine(rate, 2, 8)
static double rate_of(const Line *l, int step) {
    if (!l->schedule) return l->rate;
    return step <= 2 ? l->rate * step / 2 : l->rate * 0.5 * (1 + cos(3.141592653589793 * (step - 2) / 6));
}
static void update(const Line *l, Eval *e, Param *q, const int *g, int scale, int step) {
    Update u = {&e->tape, step};
    Precision precision = e->tape.precision;
    e->tape.precision = P_F32; // optimizers compute in f32, from master weights
    for (int i = 0; i < shape_size(&q->shape); i++) {
        int now = tape_var(u.t, q->data[i], q->error[i]), m = tape_var(u.t, q->m[i], q->m_error[i]), v = tape_var(u.t, q->v[i], q->v_error[i]);
        int clipped = scale < 0 ? g[i] : op(&u, T_MUL, g[i], scale);
        int d = direction(&u, l, q, &m, &v, clipped, now);
        int next = op(&u, T_SUB, now, op(&u, T_MUL, tape_var(u.t, rate_of(l, step), l->schedule ? 1e-6 : 0), d));
        if (u.t->full) return;
        keep(u.t, next, &q->data[i], &q->error[i]);
        keep(u.t, m, &q->m[i], &q->m_error[i]);
        keep(u.t, v, &q->v[i], &q->v_error[i]);
    }
    e->tape.precision = precision;
}
static int clip_scale(const Prog *p, int line, Eval *e, int **g) {
    if (p->line[line].clip <= 0) return -1;
    Tape *t = &e->tape;
    int sum = tape_const(t, 0);
    for (int k = 0; k < e->nparams; k++)
        for (int i = 0; line_of(p, e->params[k].path) == line && i < shape_size(&e->params[k].shape); i++) sum = tape_2(t, T_ADD, sum, tape_2(t, T_MUL, g[k][i], g[k][i]));
    if (t->at[sum].value == 0 && t->at[sum].error == 0) return -1;
    return tape_2(t, T_MIN, tape_const(t, 1), tape_2(t, T_DIV, tape_const(t, (float)p->line[line].clip), tape_1(t, T_SQRT, sum)));
}

static void steps(const Prog *p, Expected *x) {
    Eval *e = &x->eval;
    int done[MAX_LINES] = {0};
    for (int k = 0; k < e->nparams; k++) {
        int l = line_of(p, e->params[k].path);
        for (int i = 0; l >= 0 && p->line[l].optimizer == O_OWN && i < shape_size(&e->params[k].shape); i++) e->params[k].m[i] = 1;
    }
    for (e->step = 1; e->step <= p->steps && !e->tape.full; e->step++) {
        if (e->step > 1) {
            eval_reset(e);
            eval_values(e, p);
        }
        int **g = gradients(p, e), scale[MAX_LINES];
        for (int l = 0; l < lines_of(p); l++) {
            scale[l] = clip_scale(p, l, e, g);
            done[l] += trains_in(p, l, e->step);
        }
        for (int k = 0; k < e->nparams && !e->tape.full; k++) {
            int l = line_of(p, e->params[k].path);
            if (l >= 0 && trains_in(p, l, e->step)) update(&p->line[l], e, &e->params[k], g[k], scale[l], p->line[l].named ? done[l] : e->step);
        }
        commit_states(e);
        gradients_free(g, e->nparams);
    }
}

static void add_param(Expected *x, const char *kind, int k, const int *ids, bool twice) {
    char name[112];
    snprintf(name, sizeof name, "%s/%s", kind, x->eval.params[k].path);
    add_tensor(x, name, &(Tensor){x->eval.params[k].shape, D_F, (int *)ids});
    Result *r = &x->at[x->count - 1];
    for (int i = 0; twice && i < r->size; i++) r->value[i] *= 2, r->error[i] = 2 * r->error[i];
}
static void add_numbers(Expected *x, const char *name, const Shape *s, const double *value, const double *error) {
    Result *r = add(x, name, D_F, s);
    memcpy(r->value, value, (size_t)r->size * sizeof *r->value);
    memcpy(r->error, error, (size_t)r->size * sizeof *r->error);
}
static void add_stored(Expected *x, const char *kind, const Param *q) {
    char name[112];
    snprintf(name, sizeof name, "%s/%s", kind, q->path);
    add_numbers(x, name, &q->shape, q->data, q->error);
}
// Parameters, the states of the program, and those of its own optimizer, after the steps.
static void add_all_stored(const Prog *p, Expected *x) {
    const Eval *e = &x->eval;
    for (int k = 0; k < e->nparams; k++) add_stored(x, "param", &e->params[k]);
    for (int k = 0; k < e->nstates && p->precision != P_F16; k++) add_stored(x, "state", &e->states[k]);
    for (int k = 0; k < e->nparams && p->precision != P_F16 && x->count < MAX_RESULTS; k++) {
        const Param *q = &e->params[k];
        int line = line_of(p, q->path);
        char name[112];
        snprintf(name, sizeof name, "state/%s.m", q->path);
        if (line >= 0 && p->line[line].optimizer == O_OWN) add_numbers(x, name, &q->shape, q->m, q->m_error);
    }
}

// All calls but the last change states only; the last leaves its values.
static void calls(const Prog *p, Eval *e, Entry entry) {
    int n = entry == E_STEP || adds_up(p) ? 1 : p->steps;
    for (e->step = 1; e->step <= n && !e->tape.full; e->step++) {
        if (e->step > 1) commit_states(e), eval_reset(e);
        eval_values(e, p);
    }
    e->step = n;
}
void expect(const Prog *p, Entry entry, Expected *x) {
    *x = (Expected){0};
    Eval *e = &x->eval;
    e->tape.limit = 9000000;
    e->seed = p->seed;
    e->training = entry != E_INFER;
    e->inputs = calloc(MAX_VALUES, sizeof *e->inputs);
    for (int i = 0; i < p->count; i++)
        if (!p->at[i].dead && !strcmp(ops[p->at[i].op].name, "input")) e->inputs[i] = input_data(p, i);
    calls(p, e, entry);
    if (e->tape.full) return;
    bool finite_loss = true; // 0 times infinity is in its gradients
    for (int k = 0; k < lines_of(p); k++) finite_loss &= isfinite(e->tape.at[e->value[loss_of_line(p, k)].id[0]].value) != 0;
    for (int i = 0; i < (one_wanted(p) ? 1 : p->nresults) && entry != E_STEP; i++) {
        add_output(x, p->results[i]);
        round_output(&x->at[x->count - 1], p->stored_as[i]);
    }
    if (p->loss >= 0 && entry != E_STEP) add_output(x, p->loss);
    if (entry == E_GRAD) {
        int **g = gradients(p, e);
        for (int k = 0; k < e->nparams && !e->tape.full && x->count < MAX_RESULTS; k++)
            if (g[k]) add_param(x, "grad", k, g[k], adds_up(p));
        gradients_free(g, e->nparams);
    }
    if (entry == E_STEP) {
        steps(p, x);
        if (!e->tape.full) add_all_stored(p, x);
    }
    bool some = !lines_of(p) || !p->line[0].npatterns;
    for (int k = 0; k < e->nparams; k++) some |= line_of(p, e->params[k].path) >= 0;
    for (int i = 0; i < e->tape.count; i++) x->infinite |= !isfinite(e->tape.at[i].value);
    x->usable = some && e->nparams + e->nstates < MAX_RESULTS - 8 && !e->unsure && !e->tape.full && finite_loss;
}

void expected_free(Expected *x) {
    for (int i = 0; i < x->count; i++) free(x->at[i].value), free(x->at[i].error);
    for (int i = 0; i < MAX_VALUES; i++) free(x->eval.inputs[i]);
    free(x->eval.inputs);
    eval_free(&x->eval);
}
