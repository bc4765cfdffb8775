#include "tests/support/plan_text.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_SOURCES = 64 };
typedef struct Reader {
    Arena *arena;
    Plan *p;
    Node *source[3][MAX_SOURCES]; /* params, states, inputs */
    VEC(Node *) values;
} Reader;

static Node *new_node(Reader *r, Op op, int decl, int64_t bytes, Home home) {
    Attr attr = {.decl = decl, .dtype = DT_BOOL};
    Node *n = graph_node(r->p->graph, op, 0, NULL, &attr, DT_BOOL, shape_fixed(1, &bytes));
    if (n->id >= r->p->buffer_cap) return NULL;
    r->p->buffer[n->id] = (PlanBuffer){.home = home, .decl = decl, .writer = -1, .bytes = bytes, .stride = {1}};
    r->p->kernel_of[n->id] = -1;
    return n;
}

static Node *source(Reader *r, int kind, int decl) {
    static const Op op[] = {OP_PARAM, OP_STATE, OP_INPUT};
    if (decl < 0 || decl >= MAX_SOURCES) return NULL;
    if (!r->source[kind][decl]) r->source[kind][decl] = new_node(r, op[kind], decl, 64, HOME_SOURCE);
    return r->source[kind][decl];
}

static Node *read_operand(Reader *r, const char *word) {
    static const char kinds[] = "psi";
    const char *kind = strchr(kinds, word[0]);
    if (kind && *word) return source(r, (int)(kind - kinds), atoi(word + 1));
    int i = atoi(word);
    return i < r->values.n ? r->values.at[i] : NULL;
}

static bool read_output(Reader *r, PlanKernel *k, char *word, int remat) {
    static const struct {
        const char *text;
        Home home;
    } homes[] = {{"out", HOME_OUTPUT}, {"p", HOME_PARAM}, {"s", HOME_STATE}, {"g", HOME_GRAD}};
    Home home = HOME_ARENA;
    int decl = 0;
    char *at = strchr(word, '@');
    for (size_t h = 0; at && h < sizeof homes / sizeof *homes; h++)
        if (!strncmp(at + 1, homes[h].text, strlen(homes[h].text))) {
            home = homes[h].home;
            decl = atoi(at + 1 + strlen(homes[h].text));
            break;
        }
    Node *n = new_node(r, OP_IOTA, decl, atoll(word), home);
    if (!n) return false;
    n->remat = remat;
    n->phase = k->phase;
    r->p->buffer[n->id].writer = r->p->kernel_of[n->id] = r->p->kernels.n;
    vec_push(r->arena, k->outputs, n);
    vec_push(r->arena, r->values, n);
    static const ResultKind kinds[] = {[HOME_OUTPUT] = RESULT_OUTPUT,
                                       [HOME_GRAD] = RESULT_GRAD,
                                       [HOME_PARAM] = RESULT_PARAM,
                                       [HOME_STATE] = RESULT_STATE};
    if (home != HOME_ARENA) graph_result(r->p->graph, kinds[home], decl, n);
    return true;
}

static bool read_kernel(Reader *r, char *word, char **rest) {
    PlanKernel k = {.phase = word[0] == 'f' ? PHASE_FORWARD : word[0] == 'u' ? PHASE_UPDATE : PHASE_BACKWARD};
    int remat = !strncmp(word, "remat", 5) ? atoi(word + 5) : 0;
    bool writes = false;
    while ((word = strtok_r(NULL, " ,", rest))) {
        if (!strcmp(word, "->"))
            writes = true;
        else if (!strcmp(word, "workspace"))
            k.workspace = atoll(strtok_r(NULL, " ,", rest));
        else if (writes && !read_output(r, &k, word, remat))
            return false;
        else if (!writes) {
            Node *n = read_operand(r, word);
            if (!n) return false;
            vec_push(r->arena, k.reads, n);
        }
    }
    vec_push(r->arena, r->p->kernels, k);
    return true;
}

static Model *new_model(Arena *a) {
    Model *m = ARENA_NEW(a, Model);
    m->name = "m";
    TensorDecl d = {.name = "t", .dtype = DT_BOOL, .shape = shape_fixed(1, (int64_t[]){64}), .trainable = true};
    for (int i = 0; i < MAX_SOURCES; i++) {
        vec_push(a, m->params, d);
        vec_push(a, m->states, d);
        vec_push(a, m->inputs, d);
        vec_push(a, m->outputs, d);
    }
    return m;
}

Plan *plan_read(Arena *a, const char *text) {
    Reader r = {.arena = a, .p = ARENA_NEW(a, Plan)};
    size_t room = strlen(text) + 16; /* every node takes at least a character */
    *r.p = (Plan){.arena = a, .graph = graph_new(a, new_model(a), ENTRY_STEP), .buffer_cap = (int)room};
    r.p->buffer = ARENA_ARRAY(a, PlanBuffer, room);
    r.p->kernel_of = ARENA_ARRAY(a, int, room);
    char *copy = arena_strdup(a, text), *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *words = NULL, *word = strtok_r(line, " ,", &words);
        if (!word || word[0] == '#') continue;
        if (!read_kernel(&r, word, &words)) return NULL;
    }
    return r.p;
}

static void report(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    (void)user, (void)loc, (void)help;
    fprintf(stderr, "%s\n", message);
    if (what != COMPLAINT_WARNING) exit(1);
}

PassContext plan_context(Arena *a, const char *target) {
    return (PassContext){.arena = a, .target = target_find(target), .verify = true, .report = report};
}
