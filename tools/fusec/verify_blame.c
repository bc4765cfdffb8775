/* Which kernel, or which pass, made the first wrong number.
 *
 * The program is compiled once more, every tensor of the arena with memory of its own, and the arena is made an output:
 * after one call every tensor that a kernel stored is there to be read.  The graph after each pass, and the plan's
 * graph, are evaluated in float64: where a graph's results are no longer those of the reference, a pass is wrong;
 * otherwise the first kernel in the order of launches that stored a wrong value. */
#include "ir/target.h"
#include "passes/memory/memory.h"
#include "tools/fusec/profile_file.h"
#include "tools/fusec/verify.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Stored {
    int launch;
    Home home;
    int decl, id;
    int64_t offset;
    int64_t stride[MAX_RANK]; /* in memory, elements */
    DType dtype;
    Shape shape;
    SrcLoc loc;
    Tensor value;
    Bound bound;
} Stored;

typedef struct Blame {
    Verify *v;
    const VerifyTarget *t;
    const Bounds *right; /* of the reference graph */
    Arena *arena;
    Entry entry;
    bool pass_found;
    VEC(Stored) stored;
} Blame;

/* ---- passes ------------------------------------------------------------------------------------------------------ */
static bool has_derivatives(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_GRADIENT || g->nodes.at[i]->op == OP_VJP || g->nodes.at[i]->op == OP_JACOBIAN ||
            g->nodes.at[i]->precision != PRECISION_F32)
            return true;
    return false;
}

static const Result *find_result(const Graph *g, const Result *like) {
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].kind == like->kind && g->results.at[i].decl == like->decl) return &g->results.at[i];
    return NULL;
}

/* The first element that is not within the bound; -1: there is none. */
static int64_t first_off(const Tensor *got, const Tensor *want, const Bound *b) {
    const int64_t n = tensor_elements(want);
    for (int64_t i = 0; i < n; i++)
        if (!b->undecided[i] && !(got->data[i] == want->data[i] || (isnan(got->data[i]) && isnan(want->data[i])) ||
                                  fabs(got->data[i] - want->data[i]) <= b->within[i]))
            return i;
    return -1;
}

static void compare_result(Blame *b, PassId id, const Result *x, const Tensor *got) {
    const Verify *v = b->v;
    const Result *own = find_result(v->graph[b->entry], x);
    const int at = own ? own->value->id : 0;
    const int64_t e = own ? first_off(got, &b->right->value[at], &b->right->bound[at]) : -1;
    if (e < 0 || b->pass_found) return;
    b->pass_found = true;
    printf("  the pass %s made a wrong graph: in float64 %s%s is then %.9g, %.9g is right\n", pass_info[id].name,
           verify_name(v, x), verify_element(b->arena, got, e), got->data[e], b->right->value[at].data[e]);
}

static void passed(void *watcher, PassId id, const Graph *g) {
    Blame *b = watcher;
    const char *error;
    if (b->pass_found || g->entry != b->entry) return;
    Arena *a = arena_new();
    if (has_derivatives(g)) g = verify_expand(b->v, a, g);
    const Tensor *value = g ? graph_eval(a, g, &b->v->env, &error) : NULL;
    for (int i = 0; value && i < g->results.n; i++)
        compare_result(b, id, &g->results.at[i], &value[g->results.at[i].value->id]);
    arena_free(a);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */
static void note_stored(Blame *b, const Plan *p, const Bounds *bounds, int launch, const Node *n) {
    const PlanBuffer *x = &p->buffer[n->id];
    Stored s = {.launch = launch,
                .home = plan_output(x) >= 0 ? HOME_OUTPUT : x->home,
                .decl = plan_output(x) >= 0 ? plan_output(x) : x->decl,
                .id = n->id,
                .offset = x->offset,
                .dtype = n->dtype,
                .shape = *n->shape,
                .loc = n->loc,
                .bound = bounds->bound[n->id],
                .value = bounds->value[n->id]};
    memcpy(s.stride, x->stride, sizeof s.stride);
    vec_push(b->arena, b->stored, s);
}

static void planned(void *watcher, const Plan *p) {
    Blame *b = watcher;
    const char *error;
    if (b->pass_found || p->graph->entry != b->entry) return;
    bool *asked = ARENA_ARRAY(b->arena, bool, p->graph->nodes.n + 1);
    for (int k = 0; k < p->kernels.n; k++)
        for (int i = 0; i < p->kernels.at[k].outputs.n; i++) asked[p->kernels.at[k].outputs.at[i]->id] = true;
    const Bounds *bounds = graph_eval_bounds(b->arena, p->graph, &b->v->env, asked, &error);
    for (int at = 0; bounds && at < p->kernels.n; at++) {
        const PlanKernel *k = &p->kernels.at[p->order[at]];
        for (int i = 0; i < k->outputs.n; i++) note_stored(b, p, bounds, at, k->outputs.at[i]);
    }
}

/* ---- the arena as an output -------------------------------------------------------------------------------------- */
static void expose_arena(Module *m, Entry e) {
    const int64_t bytes = m->entry[e].arena_bytes > 0 ? m->entry[e].arena_bytes : 1;
    const ModuleTensor arena = {
        .name = "fusec_arena", .dtype = DT_BOOL, .shape = shape_fixed(1, &bytes), .bytes = bytes};
    vec_push(m->arena, m->outputs, arena);
    for (int i = 0; i < m->entry[e].launches.n; i++) {
        Launch *l = &m->entry[e].launches.at[i];
        for (int k = 0; k < l->n_args; k++)
            if (l->args[k].region == REGION_ARENA) {
                l->args[k].region = REGION_OUTPUT;
                l->args[k].index = m->outputs.n - 1;
            }
    }
}

static Module *compile_watched(Blame *b, Session *s, const Options *o, const Target *target) {
    if (!session_open(s, b->arena, o)) return NULL;
    session_prepare(s, o, target);
    const ProfileFile *profile = o->profile ? profile_read(s, o->profile) : NULL;
    if (profile && profile_suits(s, profile, target)) s->context.profile = &profile->profile;
    s->context.placing = PLACING_LOW; /* no two tensors share memory */
    s->context.passed = passed;
    s->context.planned = planned;
    s->context.watcher = b;
    Module *m = compile_module(&s->context, s->graph);
    if (m) expose_arena(m, b->entry);
    return m;
}

static const char *data_of(const Run *r, const Stored *s) {
    const Module *m = r->m;
    switch (s->home) {
    case HOME_ARENA: return (const char *)r->outputs[m->outputs.n - 1] + s->offset;
    case HOME_OUTPUT: return r->outputs[s->decl];
    case HOME_PARAM: return (const char *)r->memory.params + m->params.at[s->decl].offset;
    case HOME_STATE: return (const char *)r->memory.states + m->states.at[s->decl].offset;
    case HOME_GRAD:
        for (int i = 0; i < m->grads.n; i++)
            if (!strcmp(m->grads.at[i].name, m->params.at[s->decl].name))
                return (const char *)r->memory.grads + m->grads.at[i].offset;
        return NULL;
    default: return NULL;
    }
}

/* In the arena by the buffer's strides, elsewhere dense at the bounds. */
static Tensor read_stored(Blame *b, const Run *r, const Stored *s) {
    Tensor t = s->value;
    const char *data = data_of(r, s);
    int64_t index[MAX_RANK] = {0}, stride[MAX_RANK], dense = 1;
    const int64_t n = tensor_elements(&t);
    t.data = ARENA_ARRAY(b->arena, double, n + 1);
    for (int d = t.rank - 1; d >= 0; d--) {
        stride[d] = s->home == HOME_ARENA ? s->stride[d] : dense;
        dense *= s->shape.dim[d].bound;
    }
    for (int64_t i = 0; i < n && data; i++) {
        int64_t at = 0;
        for (int d = 0; d < t.rank; d++) at += index[d] * stride[d];
        t.data[i] = element_get(element_of(s->dtype), (const uint8_t *)data + at * dtype_bytes(s->dtype));
        for (int d = t.rank - 1; d >= 0 && ++index[d] == t.dim[d]; d--) index[d] = 0;
    }
    return t;
}

static void print_kernel(const Blame *b, const Module *m, const Stored *s, const Tensor *got, int64_t e) {
    const Launch *l = &m->entry[b->entry].launches.at[s->launch];
    const Model *model = b->v->model;
    const char *file = s->loc.line && s->loc.file < model->files.n ? model->files.at[s->loc.file] : NULL;
    const char *place = file ? arena_printf(b->arena, ", %s:%d", file, s->loc.line) : "";
    printf("  the first wrong kernel: %s (launch %d of %d%s): tensor %%%d %s%s, element %s is %.9g, %.9g is right "
           "(bound %.3g)\n",
           m->kernels.at[l->kernel]->name, s->launch + 1, m->entry[b->entry].launches.n, place, s->id,
           dtype_name(s->dtype), shape_text(b->arena, s->shape), verify_element(b->arena, got, e), got->data[e],
           s->value.data[e], s->bound.within[e]);
}

static bool find_kernel(Blame *b, const Run *r) {
    for (int i = 0; i < b->stored.n; i++) {
        const Stored *s = &b->stored.at[i];
        const Tensor got = read_stored(b, r, s);
        const int64_t e = data_of(r, s) ? first_off(&got, &s->value, &s->bound) : -1;
        if (e < 0) continue;
        print_kernel(b, r->m, s, &got, e);
        return true;
    }
    return false;
}

/* Opened beside the target's own run, whose module lacks the output. */
static bool run_watched(Blame *b, const Options *o, Run *r) {
    bool entries[ENTRY_COUNT] = {0};
    entries[b->entry] = true;
    *r = b->t->run;
    r->executor = NULL;
    r->memory = (fusec_memory){0};
    r->inputs = r->outputs = NULL;
    const char *error = "failed";
    const ExecutorOptions eo = {.arch = o->arch, .threads = o->threads};
    Session s;
    r->m = compile_watched(b, &s, o, target_find(r->kind->target(o->arch)));
    if (!r->m || b->pass_found) return false;
    r->executor = r->kind->open(b->arena, r->m, &eo, &error);
    if (!r->executor) return run_error("%s: %s", r->kind->name, error);
    if (!run_allocate(r, entries) || !verify_put(b->v, r)) return false;
    return (b->entry == ENTRY_INIT ? run_init(r) : run_call(r, b->entry, b->v->env.step, false)) && run_download(r);
}

static void print_wrong(const Verify *v, const VerifyTarget *t, const Tensor *value) {
    const Wrong *w = &t->wrong;
    const Result *r = &v->graph[w->entry]->results.at[w->result];
    printf("%s: entry %s, round %d: %s%s is %.9g, %.9g is right (bound %.3g)\n", t->name, entry_name[w->entry],
           v->round + 1, verify_name(v, r), verify_element(v->scratch, &value[r->value->id], w->element), w->got,
           w->want, w->within);
}

void verify_blame(Verify *v, VerifyTarget *t, const Bounds *right) {
    Blame b = {.v = v, .t = t, .right = right, .arena = arena_new(), .entry = t->wrong.entry};
    Run r = {0};
    Options o = t->options;
    print_wrong(v, t, right->value);
    for (int e = 0; e < ENTRY_COUNT; e++) o.entry[e] = v->graph[e] != NULL;
    const bool ran = run_watched(&b, &o, &r);
    if (ran && !find_kernel(&b, &r))
        puts("  every kernel is right where no two tensors share memory: their placement, or the order of kernels, is "
             "wrong");
    if (!ran && !b.pass_found)
        puts("  the kernel was not found: the program does not run with memory of its own for every tensor");
    if (r.m) run_close(&r);
    arena_free(b.arena);
}
