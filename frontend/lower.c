/* One run of the interpreter per entry; the model's tables; the results of each graph. */
#include "frontend/lower.h"
#include "ir/node_pool.h"
#include <string.h>

/* ---- declarations: the first run makes the tables, later runs must agree with them ------------------ */

static void depends_on_training(Lower *L, SrcLoc loc, const char *what, const char *name) {
    lower_fail(L, E0308, loc, "declare it outside `if training`",
               "the %s '%s' depends on `training`: it is not the same in every entry", what, name);
}

static int find_decl(const TensorDecl *at, int n, int guess, const char *name) {
    if (guess < n && strcmp(at[guess].name, name) == 0) return guess;
    for (int i = 0; i < n; i++)
        if (strcmp(at[i].name, name) == 0) return i;
    return -1;
}

typedef VEC(TensorDecl) DeclList;

/* The index of a declaration by path; made in the first run, compared afterwards; -1: reported. */
static int settle(Lower *L, TensorDecl **at, int *n, int *cap, int guess, TensorDecl t, const char *what) {
    if (L->declaring) {
        t.name = arena_strdup(L->arena, t.name);
        DeclList list = {*at, *n, *cap};
        vec_push(L->arena, list, t);
        *at = list.at, *n = list.n, *cap = list.cap;
        return *n - 1;
    }
    int i = find_decl(*at, *n, guess, t.name);
    if (i >= 0 && shape_equal((*at)[i].shape, t.shape) && (*at)[i].dtype == t.dtype) return i;
    depends_on_training(L, t.loc, what, t.name);
    return -1;
}

/* A source node whose declaration is known now gets it. */
static void set_decl(Lower *L, Node *node, int decl) {
    Attr attr = *node->attr;
    attr.decl = decl;
    node->attr = &attr;
    node->attr = node_pool_attr(L->g->pool, node);
}

static void set_stream(Lower *L, Node *node, int stream) {
    Attr attr = *node->attr;
    attr.stream = stream;
    node->attr = &attr;
    node->attr = node_pool_attr(L->g->pool, node);
}

static void settle_param(Lower *L, const PathEntry *e) {
    ParamRef *p = &L->params.at[e->index];
    Model *m = L->model;
    TensorDecl t = {.name = e->path, .dtype = p->dtype, .shape = p->shape, .loc = p->loc};
    p->path = e->path;
    p->decl = settle(L, &m->params.at, &m->params.n, &m->params.cap, e->index, t, "parameter");
    if (p->decl < 0) return;
    if (p->source) set_decl(L, p->source, p->decl);
    for (int i = 0; i < p->random.n; i++) set_stream(L, p->random.at[i], p->decl);
}

static void settle_state(Lower *L, const PathEntry *e) {
    StateRef *s = &L->states.at[e->index];
    Model *m = L->model;
    TensorDecl t = {
        .name = e->path, .dtype = s->node->dtype, .shape = *s->node->shape, .loc = s->loc, .outcome = s->outcome, .line = s->line};
    s->path = e->path;
    s->decl = settle(L, &m->states.at, &m->states.n, &m->states.cap, e->index, t, "state");
    if (s->decl >= 0 && !lower_starts(L)) set_decl(L, s->node, s->decl);
}

/* Entries from `first` on: layer parameters and states, then those of the optimizer. */
static void settle_paths(Lower *L, const PathScope *paths, int first) {
    for (int i = first; i < paths->entries.n; i++) {
        const PathEntry *e = &paths->entries.at[i];
        if (e->state)
            settle_state(L, e);
        else
            settle_param(L, e);
    }
}

static void report_missing(Lower *L, const char *what, const TensorDecl *at, int n, const char *found) {
    for (int i = 0; i < n; i++)
        if (!found[i]) depends_on_training(L, at[i].loc, what, at[i].name);
}

/* Whatever the first run declared, this run must have met; optimizer states only where they exist. */
static void check_complete(Lower *L) {
    const Model *m = L->model;
    char *param = ARENA_ARRAY(L->scratch, char, m->params.n + 1), *input = ARENA_ARRAY(L->arena, char, m->inputs.n + 1);
    char *state = ARENA_ARRAY(L->scratch, char, m->states.n + 1);
    for (int i = 0; i < L->params.n; i++)
        if (L->params.at[i].path && L->params.at[i].decl >= 0) param[L->params.at[i].decl] = 1;
    for (int i = 0; i < L->states.n; i++)
        if (L->states.at[i].path && L->states.at[i].decl >= 0) state[L->states.at[i].decl] = 1;
    for (int i = 0; i < L->inputs.n; i++) input[i] = L->inputs.at[i] != NULL;
    report_missing(L, "parameter", m->params.at, m->params.n, param);
    report_missing(L, "input", m->inputs.at, m->inputs.n, input);
    if (L->entry == ENTRY_INIT) report_missing(L, "state", m->states.at, m->states.n, state);
}

/* ---- results -------------------------------------------------------------------------------------------- */

static void output_results(Lower *L) {
    Model *m = L->model;
    for (int i = 0; i < L->outputs.n; i++) {
        OutputRef *o = &L->outputs.at[i];
        TensorDecl t = {.name = o->name, .dtype = o->node->dtype, .shape = *o->node->shape, .loc = o->loc};
        int decl = settle(L, &m->outputs.at, &m->outputs.n, &m->outputs.cap, i, t, "output");
        if (decl >= 0 && !lower_starts(L)) graph_result(L->g, RESULT_OUTPUT, decl, o->node);
    }
    if (L->outputs.n < m->outputs.n && L->outputs.n == 0)
        depends_on_training(L, m->outputs.at[0].loc, "output", m->outputs.at[0].name);
    else if (L->outputs.n < m->outputs.n)
        depends_on_training(L, L->outputs.at[0].loc, "list of outputs from", L->outputs.at[0].name);
}

static void state_results(Lower *L) {
    for (int i = 0; i < L->states.n; i++) {
        StateRef *s = &L->states.at[i];
        if (L->entry == ENTRY_INIT || (L->entry == ENTRY_DERIVE && L->model->states.at[s->decl].derived))
            graph_result(L->g, RESULT_STATE, s->decl, s->init);
        else if (L->entry != ENTRY_DERIVE && s->next && s->next != s->node)
            graph_result(L->g, RESULT_STATE, s->decl, s->next);
    }
}

static void param_results(Lower *L, Node **gradient) {
    for (int i = 0; i < L->params.n; i++) {
        ParamRef *p = &L->params.at[i];
        if (L->entry == ENTRY_INIT)
            graph_result(L->g, RESULT_PARAM, p->decl, t_cast(L, p->node, p->dtype));
        else if (L->entry == ENTRY_GRAD && gradient[i])
            graph_result(L->g, RESULT_GRAD, p->decl, gradient[i]);
        else if (L->entry == ENTRY_STEP && p->next)
            graph_result(L->g, RESULT_PARAM, p->decl, p->next);
    }
}

/* ---- warnings ---------------------------------------------------------------------------------------------- */

static void mark(const Node *n, char *seen) {
    if (n) seen[n->id] = 1;
}

/* Parameters and inputs from which no output, loss or state is computed. */
static void warn_unused(Lower *L) {
    char *seen = ARENA_ARRAY(L->scratch, char, L->g->nodes.n + 1);
    for (int i = 0; i < L->outputs.n; i++) mark(L->outputs.at[i].node, seen);
    for (int i = 0; i < L->states.n; i++) mark(L->states.at[i].next, seen), mark(L->states.at[i].init, seen);
    for (int i = 0; i < L->trains.n; i++)
        if (L->trains.at[i].loss.kind == VAL_TENSOR) mark(L->trains.at[i].loss.node, seen);
    for (int i = L->g->nodes.n - 1; i >= 0; i--) {
        const Node *n = L->g->nodes.at[i];
        for (int k = 0; k < n->n_in && seen[i]; k++) seen[n->in[k]->id] = 1;
    }
    for (int i = 0; i < L->params.n; i++)
        if (!seen[L->params.at[i].node->id])
            lower_warn(L, W0302, L->params.at[i].loc, NULL, "the parameter '%s' is not used", L->params.at[i].path);
    for (int i = 0; i < L->inputs.n; i++)
        if (L->inputs.at[i] && !seen[L->inputs.at[i]->id])
            lower_warn(L, W0302, L->inputs.at[i]->loc, NULL, "the input '%s' is not used", L->model->inputs.at[i].name);
}

/* States whose initial value is computed from parameters, by themselves or through another state's. */
static void find_derived(Lower *L) {
    bool *from = ARENA_ARRAY(L->scratch, bool, L->g->nodes.n + 1);
    const Node **init = ARENA_ARRAY(L->scratch, const Node *, L->states.n + 1);
    for (int i = 0; i < L->states.n; i++) init[L->states.at[i].decl] = L->states.at[i].init; /* lowered before its state */
    for (int i = 0; i < L->g->nodes.n; i++) {
        const Node *n = L->g->nodes.at[i];
        from[i] = n->op == OP_PARAM || (n->op == OP_STATE && from[init[n->attr->decl]->id]);
        for (int k = 0; k < n->n_in; k++) from[i] |= from[n->in[k]->id];
    }
    for (int i = 0; i < L->states.n; i++) L->model->states.at[i].derived = from[init[i]->id];
}

static bool is_known_at_start(Op op) {
    return op_info[op].cls != CLASS_SOURCE || op == OP_CONST || op == OP_IOTA || op == OP_RANDOM || op == OP_SEED;
}

/* Initial values read nothing but the seed.  Parameters never do otherwise; states may. */
static void check_init(Lower *L) {
    char *late = ARENA_ARRAY(L->scratch, char, L->g->nodes.n + 1);
    for (int i = 0; i < L->g->nodes.n; i++) {
        const Node *n = L->g->nodes.at[i];
        late[i] = !is_known_at_start(n->op);
        for (int k = 0; k < n->n_in; k++) late[i] |= late[n->in[k]->id];
    }
    for (int i = 0; i < L->states.n; i++)
        if (late[L->states.at[i].init->id])
            lower_fail(L, E0209, L->states.at[i].loc, NULL,
                       "the initial value of the state '%s' depends on what is known only at run time",
                       L->states.at[i].path);
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

static void run_model(Lower *L, const Top *top) {
    PathScope paths = {0};
    Body b = {.top = top, .paths = &paths, .target = -1};
    L->body = &b;
    L->loc = top->name.loc;
    lower_block(L, &top->body);
    if (b.poisoned || L->stopped) return;
    settle_paths(L, &paths, 0);
    if (b.poisoned) return;
    if (L->declaring) warn_unused(L);
    int layer_entries = paths.entries.n;
    Node **gradient = ARENA_ARRAY(L->scratch, Node *, L->params.n + 1);
    if (L->trains.n && L->entry != ENTRY_INFER) lower_train(L, &paths, gradient);
    if (b.poisoned || L->stopped) return;
    settle_paths(L, &paths, layer_entries);
    for (int i = 0; i < L->dropouts.n; i++) set_stream(L, L->dropouts.at[i], L->params.n + i);
    output_results(L);
    if (!L->declaring) check_complete(L);
    if (b.poisoned) return;
    if (L->declaring) find_derived(L);
    param_results(L, gradient);
    state_results(L);
    graph_prune(L->g);
    if (L->entry == ENTRY_INIT) check_init(L);
}

/* What an entry is lowered for, besides itself. */
typedef struct Lowering {
    Diag *diag;
    Program *program;
    const Top *top;
    const Graph *empty; /* of the model, and of the attributes that all entries share */
    bool declared;      /* by an entry that was lowered before */
} Lowering;

/* The graph has an arena of its own, a child of a: it is large, and goes when it is compiled. */
static Graph *run_entry(Arena *a, const Lowering *x, Entry entry) {
    Diag *d = x->diag;
    Lower L = {.most_nodes = MAX_NODES,
               .arena = a,
               .scratch = arena_new(),
               .diag = d,
               .program = x->program,
               .model = x->empty->model,
               .entry = entry,
               .declaring = !x->declared};
    const int before = diag_errors(d);
    L.weights = DT_F32;
    L.training = entry == ENTRY_GRAD || entry == ENTRY_STEP;
    L.g = graph_new_from(arena_child(a), x->empty);
    L.g->entry = entry;
    run_model(&L, x->top);
    arena_free(L.scratch);
    return diag_errors(d) == before && !L.stopped ? L.g : NULL;
}

static bool trains(const Top *top) {
    for (int i = 0; i < top->body.n; i++)
        if (top->body.at[i]->kind == STMT_TRAIN) return true;
    return false;
}

static const Top *pick_model(Diag *d, Program *p, const char *name) {
    if (!name) name = p->wanted;
    if (!name && p->models.n == 1) return p->models.at[0];
    for (int i = 0; name && i < p->models.n; i++)
        if (strcmp(p->models.at[i]->name.text, name) == 0) return p->models.at[i];
    if (name)
        diag_report(d, E0306, (SrcLoc){0}, "there is no model '%s'", name);
    else if (p->models.n == 0)
        diag_report(d, E0306, (SrcLoc){0}, "the program has no model");
    else
        diag_report(d, E0306, p->models.at[1]->name.loc, "the program has %d models: say which", p->models.n);
    const char *names = NULL;
    for (int i = 0; i < p->models.n && i < 20; i++)
        names =
            names ? arena_printf(p->arena, "%s, %s", names, p->models.at[i]->name.text) : p->models.at[i]->name.text;
    if (names) diag_help(d, "models: %s", names);
    return NULL;
}

/* Values of dims and lets belong to one model: its symbols are numbered by first use. */
static void forget_values(Program *p) {
    for (int library = 0; library < 2; library++)
        for (int i = 0; i < p->values[library].cap; i++)
            if (p->values[library].slot[i].name) ((Global *)p->values[library].slot[i].value)->state = GLOBAL_UNSEEN;
}

static bool any_derived(const Model *m) {
    bool any = false;
    for (int i = 0; i < m->states.n; i++) any |= m->states.at[i].derived;
    return any;
}

bool program_lower(Arena *a, Diag *d, Program *p, const char *model, Graph *graphs[ENTRY_COUNT]) {
    for (int e = 0; e < ENTRY_COUNT; e++) graphs[e] = NULL;
    const Top *top = pick_model(d, p, model);
    if (!top) return false;
    forget_values(p);
    Model *m = ARENA_NEW(a, Model);
    m->name = top->name.text;
    for (int i = 0; i < diag_files(d); i++) vec_push(a, m->files, diag_source(d, i)->name);
    bool training = trains(top);
    static const Entry order[] = {ENTRY_STEP, ENTRY_GRAD, ENTRY_INFER, ENTRY_INIT, ENTRY_DERIVE};
    Lowering x = {.diag = d, .program = p, .top = top, .empty = graph_new(a, m, ENTRY_STEP)};
    for (int i = training ? 0 : 2; i < ENTRY_COUNT; i++) {
        if (order[i] == ENTRY_DERIVE && !any_derived(m)) break;
        graphs[order[i]] = run_entry(a, &x, order[i]);
        if (!graphs[order[i]]) return false;
        x.declared = true;
    }
    return true;
}
