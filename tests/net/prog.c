#include "tests/net/scan.h"
#include "tests/net/tensor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_bits(Random *r) { // splitmix64
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
int random_below(Random *r, int n) { return n <= 0 ? 0 : (int)(random_bits(r) >> 33) % n; }

static double normal(Random *r) {
    double u = ((double)(random_bits(r) >> 11) + 1) * 0x1p-53, v = (double)(random_bits(r) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void *eval_block(Eval *e, size_t bytes) {
    void *p = calloc(1, bytes + 8);
    if (!p) abort();
    if ((e->nblocks & (e->nblocks - 1)) == 0) e->blocks = realloc(e->blocks, (size_t)(e->nblocks ? 2 * e->nblocks : 1) * sizeof *e->blocks);
    if (!e->blocks) abort();
    return e->blocks[e->nblocks++] = p;
}

Tensor tensor_make(Eval *e, Shape s, Type t) {
    int n = shape_size(&s);
    Tensor r = {s, t, NULL};
    if (n > MAX_SCALARS) e->tape.full = true;
    r.id = eval_block(e, (size_t)n * sizeof *r.id);
    return r;
}

static uint64_t hash(const char *s, uint64_t seed) {
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

// Every fourth tensor has a grid of few values, so that ties and exact sums happen.
static void fill(double *data, int n, uint64_t seed, double scale, double offset) {
    Random r = {seed};
    bool grid = random_below(&r, 4) == 0;
    for (int i = 0; i < n; i++) {
        double x = offset + scale * normal(&r);
        data[i] = grid ? floor(4 * x) / 4 : (double)(float)x;
    }
}

static Tensor var_tensor(Eval *e, const Param *p) {
    Tensor t = tensor_make(e, p->shape, D_F);
    for (int i = 0; i < shape_size(&p->shape); i++) t.id[i] = tape_var(&e->tape, p->data[i], p->error[i]);
    return t;
}

static double *zeros(int n) {
    double *p = calloc((size_t)n + 1, sizeof *p);
    if (!p) abort();
    return p;
}

static Param *find(Param *list, int n, const char *path) {
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].path, path)) return &list[i];
    return NULL;
}
static Param *append(Param **list, int *count, const char *path, Shape s) {
    *list = realloc(*list, (size_t)(*count + 1) * sizeof **list);
    if (!*list) abort();
    Param *p = &(*list)[(*count)++];
    int n = shape_size(&s);
    *p = (Param){.shape = s, .first = zeros(n), .data = zeros(n), .error = zeros(n), .m = zeros(n), .v = zeros(n), .m_error = zeros(n), .v_error = zeros(n)};
    snprintf(p->path, sizeof p->path, "%s", path);
    return p;
}

// Whether a call shares what has another shape there: no program to keep.
static bool differs(Eval *e, const Shape *a, const Shape *b) {
    bool differ = !shape_equal(a, b);
    e->unsure |= differ;
    return differ;
}
Tensor eval_param(Eval *e, const char *path, Shape s, double scale, double offset) {
    Param *p = find(e->params, e->nparams, path);
    if (!p) {
        p = append(&e->params, &e->nparams, path, s);
        fill(p->data, shape_size(&s), hash(path, e->seed), scale, offset);
        memcpy(p->first, p->data, (size_t)shape_size(&s) * sizeof *p->first);
    }
    if (differs(e, &p->shape, &s)) return t_broadcast(e, t_number(e, 0), s);
    if (!p->now.id) p->now = var_tensor(e, p);
    return p->now;
}
Tensor eval_state(Eval *e, const char *path, Shape s, double initial) {
    return eval_state_from(e, path, t_broadcast(e, t_number(e, initial), s));
}
Tensor eval_state_from(Eval *e, const char *path, Tensor first) {
    Param *p = find(e->states, e->nstates, path);
    if (!p) {
        p = append(&e->states, &e->nstates, path, first.shape);
        for (int i = 0; i < shape_size(&first.shape); i++) {
            p->data[i] = e->tape.at[first.id[i]].value;
            p->error[i] = e->tape.at[first.id[i]].error;
        }
    }
    if (differs(e, &p->shape, &first.shape)) return first;
    if (!p->now.id) p->now = var_tensor(e, p);
    return p->next.id ? p->next : p->now; // what the calls before have made of it
}
void state_set(Eval *e, const char *path, Tensor next) {
    Param *p = find(e->states, e->nstates, path);
    if (!differs(e, &p->shape, &next.shape)) p->next = next;
}
void commit_states(Eval *e) {
    for (int k = 0; k < e->nstates; k++) {
        Param *p = &e->states[k];
        for (int i = 0; p->next.id && i < shape_size(&p->shape); i++) {
            const Scalar *s = &e->tape.at[p->next.id[i]];
            p->data[i] = s->value, p->error[i] = s->error;
        }
    }
}
// The statement that a value is written in.
static int statement_of(const Prog *p, int id) {
    for (int i = id + 1; i < p->count && p->at[id].inlined; i++)
        for (int k = 0; k < p->at[i].nargs; k++)
            if (!p->at[i].dead && p->at[i].arg[k] == id) return statement_of(p, i);
    return id;
}
void path_of_value(const Prog *p, int id, const char *name, char *path) {
    int g = group_of(p, statement_of(p, id));
    char prefix[16] = "";
    if (g >= 0 && p->group[g].named) snprintf(prefix, sizeof prefix, "g%d.", g);
    snprintf(path, 96, "%s%s", prefix, name);
}
static void prefix_now(const Eval *e, int scope, char *prefix) {
    int h = scope - 1;
    char outer[MAX_PATH] = "";
    prefix[0] = 0;
    if (!scope) return;
    if (is_layer(&e->prog->at[h])) {
        snprintf(prefix, MAX_PATH, "%s", e->owner[h]);
        return;
    }
    prefix_now(e, e->prog->at[h].scope, outer);
    if (is_repeat(&e->prog->at[h])) snprintf(prefix, MAX_PATH, "%.60sh%d.%d.", outer, h, index_now(e, h));
    else snprintf(prefix, MAX_PATH, "%s", outer);
}
void path_now(const Eval *e, int id, const char *name, char *path) {
    char prefix[MAX_PATH], own[MAX_PATH];
    path_of_value(e->prog, id, name, own);
    prefix_now(e, e->prog->at[id].scope, prefix);
    snprintf(path, MAX_PATH, "%.60s%.35s", prefix, own);
}

bool is_input(const Value *v) { return !strcmp(ops[v->op].name, "input"); }
double *input_data(const Prog *p, int value) {
    const Value *v = &p->at[value];
    int n = shape_size(&v->shape);
    double *data = zeros(n);
    Random r = {p->seed * 77 + (uint64_t)value};
    if (v->type == D_F) fill(data, n, r.state, 0.7, 0);
    for (int i = 0; i < n && v->type == D_F && v->attr[0]; i++) data[i] = rint(data[i] * 32) / 32; // exact in 16 bits
    for (int i = 0; i < n && v->type != D_F; i++)
        data[i] = v->type == D_B ? random_below(&r, 2) : v->low + random_below(&r, v->high - v->low);
    return data;
}

void eval_reset(Eval *e) {
    for (int i = 0; i < e->nblocks; i++) free(e->blocks[i]);
    free(e->blocks);
    e->blocks = NULL;
    e->nblocks = 0;
    e->tape.count = 0;
    e->tape.full = e->unsure = false;
    for (int i = 0; i < e->nparams; i++) e->params[i].now = (Tensor){0};
    for (int i = 0; i < e->nstates; i++) e->states[i].now = e->states[i].next = (Tensor){0};
    memset(e->value, 0, sizeof e->value);
}

static void forget(Param *list, int *count, int left) {
    while (*count > left) {
        Param *p = &list[--*count];
        free(p->first), free(p->data), free(p->error), free(p->m), free(p->v), free(p->m_error), free(p->v_error);
    }
}
void eval_forget(Eval *e, int params, int states) {
    forget(e->params, &e->nparams, params);
    forget(e->states, &e->nstates, states);
}
void eval_free(Eval *e) {
    eval_reset(e);
    eval_forget(e, 0, 0);
    free(e->params);
    free(e->states);
    tape_free(&e->tape);
}

void eval_range(Eval *e, int from, int to) {
    const Prog *p = e->prog;
    for (int i = from; i < to && !e->tape.full; i++) {
        if (p->at[i].dead || e->value[i].id) continue;
        ops[p->at[i].op].eval(e, &p->at[i], &e->value[i]);
    }
}
void eval_values(Eval *e, const Prog *p) {
    const Prog *outer = e->prog;
    Precision precision = e->tape.precision;
    e->prog = p;
    if (p->precision != P_F32) e->tape.precision = p->precision;
    eval_range(e, 0, p->count);
    e->tape.precision = precision;
    e->prog = outer;
}

// Whether a value may read another: what stands in the body of a block is seen there only.
static bool sees(const Prog *p, const Value *v, int arg) { return p->at[arg].type == D_NONE ? is_scan_part(v) : visible(p, v->scope, arg); }
bool infer_all(Prog *p) {
    for (int i = 0; i < p->count; i++) {
        Value *v = &p->at[i];
        if (v->dead) continue;
        for (int k = 0; k < v->nargs; k++)
            if (v->arg[k] >= i || p->at[v->arg[k]].dead || !sees(p, v, v->arg[k])) return false;
        if (!ops[v->op].infer(p, v) || shape_size(&v->shape) > 20000) return false;
    }
    name_values(p);
    return true;
}

bool uses_bound(const Prog *p) {
    for (int i = 0; i < p->count; i++)
        if (!p->at[i].dead && p->at[i].shape.bounded) return true;
    return false;
}

int op_named(const char *name) {
    for (int i = 0; i < op_count; i++)
        if (!strcmp(ops[i].name, name)) return i;
    fprintf(stderr, "net: no operation %s\n", name);
    abort();
}

void prog_free(Prog *p) {
    for (int i = 0; i < p->count; i++) free(p->at[i].body);
}
