/* Checks before lowering, of every definition of the user and the library, called or not: names are
 * known, arguments exist, statements stand where they may, no definition uses itself. */
#include "frontend/lower.h"
#include <string.h>

typedef struct CallNode {
    const Top *top;
    VEC(struct CallNode *) callees;
    VEC(SrcLoc) places;
    int state; /* 0 not visited, 1 on the path, 2 done */
} CallNode;

typedef struct Checker {
    Program *program;
    Arena *arena;
    Diag *diag;
    NameMap calls[2]; /* [library]: function name to CallNode */
    const Top *top;
    bool library;
    CallNode *node;            /* of the body being checked */
    NameMap bound;             /* names the body has bound so far */
    VEC(const char *) indices; /* of the indexed definitions and reductions around */
    VEC(const char *) closed;  /* of reductions earlier in the statement */
    VEC(const char *) labels;  /* of the `repeat .. as label` of the body */
    int loops, scans, emits, nested; /* repeat or checkpoint; scan; a repeat that emits; any block inside the body */
} Checker;

static void check_expr(Checker *c, const Expr *e);
static void check_block(Checker *c, const StmtList *body);

/* ---- suggestions ----------------------------------------------------------------------------------- */

typedef VEC(const char *) Words;

static void add_words(Checker *c, Words *w, const NameMap *m) {
    for (int i = 0; i < m->cap; i++)
        if (m->slot[i].name) vec_push(c->arena, *w, m->slot[i].name);
}

static void suggest(Checker *c, const char *word, const Words *w) {
    const char *near = diag_nearest(word, w->at, w->n);
    if (near) diag_help(c->diag, "did you mean '%s'?", near);
}

/* The nearest, or, where none is near, all that there are. */
static void suggest_argument(Checker *c, const char *word, const Words *w) {
    if (w->n == 0) {
        diag_help(c->diag, "it has none");
    } else if (diag_nearest(word, w->at, w->n)) {
        suggest(c, word, w);
    } else {
        const char *all = w->at[0];
        for (int i = 1; i < w->n; i++) all = arena_printf(c->arena, "%s, %s", all, w->at[i]);
        diag_help(c->diag, "its arguments are %s", all);
    }
}

static void unknown_name(Checker *c, const char *name, SrcLoc loc) {
    Words w = {0};
    add_words(c, &w, &c->bound);
    for (int i = 0; i < c->indices.n; i++) vec_push(c->arena, w, c->indices.at[i]);
    add_words(c, &w, &c->program->values[c->library]);
    diag_report(c->diag, E0201, loc, "unknown name '%s'", name);
    for (int i = 0; i < c->closed.n; i++)
        if (strcmp(c->closed.at[i], name) == 0) {
            diag_help(c->diag, "the body of a reduction ends before + and -: put it in parentheses");
            return;
        }
    for (int i = 0; i < c->labels.n; i++)
        if (strcmp(c->labels.at[i], name) == 0) {
            diag_help(c->diag, "`repeat n as %s` names parameters; `repeat %s in 0..n as %s` counts too", name, name, name);
            return;
        }
    suggest(c, name, &w);
}

/* What is written here for a word of other frameworks; NULL: no such word. */
static const char *foreign_help(const char *word) {
    static const struct {
        const char *word, *help;
    } words[] = {
#define FOREIGN(word, help) {word, help},
#include "frontend/foreign.def"
#undef FOREIGN
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, word) == 0) return words[i].help;
    return NULL;
}

static void unknown_function(Checker *c, const char *name, SrcLoc loc) {
    const char *builtins[128];
    Words w = {0};
    int n = builtin_names(builtins, 128);
    if (!c->library) add_words(c, &w, &c->program->functions[0]);
    add_words(c, &w, &c->program->functions[1]);
    for (int i = 0; i < n; i++) vec_push(c->arena, w, builtins[i]);
    diag_report(c->diag, E0201, loc, "unknown function '%s'", name);
    const char *help = foreign_help(name);
    if (help)
        diag_help(c->diag, "%s", help);
    else
        suggest(c, name, &w);
}

/* ---- names and calls ----------------------------------------------------------------------------------- */

static bool is_index(const Checker *c, const char *name) {
    for (int i = c->indices.n - 1; i >= 0; i--)
        if (strcmp(c->indices.at[i], name) == 0) return true;
    return false;
}

static void check_name(Checker *c, const char *name, SrcLoc loc) {
    if (names_has(&c->bound, name) || is_index(c, name) || is_predeclared(name)) return;
    if (!program_value(c->program, name, c->library)) unknown_name(c, name, loc);
}

static void bind(Checker *c, const Name *name) {
    if (is_predeclared(name->text)) {
        diag_report(c->diag, E0207, name->loc, "'%s' is predeclared and cannot be bound", name->text);
        return;
    }
    names_set(c->arena, &c->bound, name->text, c);
}

static void check_args(Checker *c, const ArgList *args) {
    for (int i = 0; i < args->n; i++) check_expr(c, args->at[i].value);
}

static bool has_formal(const Top *top, const char *name) {
    for (int i = 0; i < top->formals.n; i++)
        if (strcmp(top->formals.at[i].name.text, name) == 0) return true;
    return false;
}

/* What is wrong with a call whatever its values: argument names, and too many of them. */
static void check_call_shape(Checker *c, const Top *top, int skip, const ArgList *args, SrcLoc loc) {
    for (int i = 0; i < args->n; i++) {
        const Name *name = &args->at[i].name;
        if (!name->text || has_formal(top, name->text)) continue;
        Words w = {0};
        for (int k = skip; k < top->formals.n; k++) vec_push(c->arena, w, top->formals.at[k].name.text);
        diag_report(c->diag, E0202, name->loc, "'%s' has no argument '%s'", top->name.text, name->text);
        suggest_argument(c, name->text, &w);
        return;
    }
    int by_place = 0; /* a name that is too many is one given twice: lowering says which */
    for (int i = 0; i < args->n; i++) by_place += !args->at[i].name.text;
    if (top->formals.n >= skip && by_place > top->formals.n - skip)
        diag_report(c->diag, E0202, loc, "'%s' takes at most %d arguments, %d are given", top->name.text,
                    top->formals.n - skip, args->n);
}

static CallNode *call_node(Checker *c, const Top *top) {
    NameMap *map = &c->calls[loc_in_library(c->diag, top->loc)];
    CallNode *n = names_get(map, top->name.text);
    if (n) return n;
    n = ARENA_NEW(c->arena, CallNode);
    n->top = top;
    names_set(c->arena, map, top->name.text, n);
    return n;
}

static void check_call(Checker *c, const Expr *e) {
    const Top *top = program_function(c->program, e->name.text, c->library);
    check_args(c, &e->args);
    if (!top) {
        if (!builtin_find(e->name.text)) unknown_function(c, e->name.text, e->name.loc);
        return;
    }
    check_call_shape(c, top, 0, &e->args, e->loc);
    if (!c->node) return;
    vec_push(c->arena, c->node->callees, call_node(c, top));
    vec_push(c->arena, c->node->places, e->name.loc);
}

/* ---- expressions ------------------------------------------------------------------------------------------ */

static void check_list(Checker *c, const ExprList *list) {
    for (int i = 0; i < list->n; i++) check_expr(c, list->at[i]);
}

static void check_items(Checker *c, const ItemList *items) {
    for (int i = 0; i < items->n; i++) {
        check_expr(c, items->at[i].index);
        check_expr(c, items->at[i].lo);
        check_expr(c, items->at[i].hi);
        check_expr(c, items->at[i].step);
    }
}

/* Index names are visible in the body only, but not in their own ranges. */
static void check_binders(Checker *c, const BinderList *b, const Expr *body) {
    int outer = c->indices.n;
    for (int i = 0; i < b->n; i++) check_expr(c, b->at[i].range);
    for (int i = 0; i < b->n; i++) {
        if (is_index(c, b->at[i].name.text))
            diag_report(c->diag, E0207, b->at[i].name.loc, "the index '%s' is bound twice", b->at[i].name.text);
        vec_push(c->arena, c->indices, b->at[i].name.text);
    }
    check_expr(c, body);
    for (int i = outer; i < c->indices.n; i++) vec_push(c->arena, c->closed, c->indices.at[i]);
    c->indices.n = outer;
}

static void check_expr(Checker *c, const Expr *e) {
    if (!e) return;
    switch (e->kind) {
    case EXPR_NAME: check_name(c, e->name.text, e->loc); return;
    case EXPR_CALL: check_call(c, e); return;
    case EXPR_REDUCE: check_binders(c, &e->binders, e->a); return;
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
    case EXPR_STRING:
    case EXPR_HYPER: return;
    default:
        check_expr(c, e->a);
        check_expr(c, e->b);
        check_expr(c, e->c);
        check_list(c, &e->list);
        check_args(c, &e->args);
        check_items(c, &e->items);
    }
}

/* ---- statements ---------------------------------------------------------------------------------------------- */

static void misplaced(Checker *c, const Stmt *s, const char *what, const char *where) {
    diag_report(c->diag, E0215, s->loc, "%s stands only %s", what, where);
}

/* Where each kind of statement may stand. */
static void check_place(Checker *c, const Stmt *s) {
    TopKind k = c->top->kind;
    bool model = k == TOP_MODEL;
    switch (s->kind) {
    case STMT_INPUT:
        if (!model || c->nested) misplaced(c, s, "`input`", "directly in a model");
        break;
    case STMT_TRAIN:
        if (!model || c->nested) misplaced(c, s, "`train`", "directly in a model");
        break;
    case STMT_PRECISION:
        if (k == TOP_OPTIMIZER)
            misplaced(c, s, "`precision`", "in a model, a layer or a fn: optimizers compute in f32");
        break;
    case STMT_OUTPUT:
        if (!model || c->scans) misplaced(c, s, "`output`", "in a model, outside `scan`");
        break;
    case STMT_STATE:
        if (k == TOP_FN || c->scans) misplaced(c, s, "`state`", "in a model, a layer or an optimizer, outside `scan`");
        break;
    case STMT_EMIT:
        if (!c->scans && !c->emits) misplaced(c, s, "`emit`", "in a `scan`, or a `repeat` that is bound to names");
        break;
    case STMT_RETURN:
        if ((k != TOP_FN && k != TOP_LAYER) || c->loops || c->scans)
            misplaced(c, s, "`return`", "in a fn or a layer, outside `repeat`, `scan` and `checkpoint`");
        break;
    default: break;
    }
}

static void check_nested(Checker *c, const StmtList *body, int *count) {
    *count += 1;
    check_block(c, body);
    *count -= 1;
}

static void check_scan(Checker *c, const Scan *scan) {
    for (int i = 0; i < scan->seqs.n; i++) {
        check_expr(c, scan->seqs.at[i].over);
        check_expr(c, scan->seqs.at[i].axis);
        check_expr(c, scan->seqs.at[i].init);
    }
    const NameMap outside = c->bound;
    c->bound.slot = arena_dup(c->arena, outside.slot, sizeof *outside.slot * (size_t)outside.cap);
    for (int i = 0; i < scan->seqs.n; i++) {
        const Name *name = &scan->seqs.at[i].name;
        for (int k = 0; k < i; k++)
            if (strcmp(scan->seqs.at[k].name.text, name->text) == 0)
                diag_report(c->diag, E0207, name->loc, "the header of the scan has '%s' twice", name->text);
        bind(c, name);
    }
    c->nested++;
    check_nested(c, &scan->body, &c->scans);
    c->nested--;
    c->bound = outside;
    for (int i = 0; i < scan->seqs.n; i++) names_set(c->arena, &c->bound, scan->seqs.at[i].name.text, c);
}

static void check_train(Checker *c, const Train *t) {
    const Top *top = program_function(c->program, t->optimizer.text, c->library);
    check_name(c, t->loss.text, t->loss.loc);
    check_args(c, &t->args);
    check_expr(c, t->clip_norm);
    for (int i = 0; i < t->only.n; i++) check_items(c, &t->only.at[i].items);
    if (!top)
        unknown_function(c, t->optimizer.text, t->optimizer.loc);
    else if (top->kind == TOP_OPTIMIZER)
        check_call_shape(c, top, 2, &t->args, t->optimizer.loc);
    else
        diag_report(c->diag, E0204, t->optimizer.loc, "'%s' is not an optimizer", t->optimizer.text);
}

static void check_names(Checker *c, const Stmt *s, bool reads) {
    for (int i = 0; i < s->names.n && s->kind != STMT_PRECISION && s->kind != STMT_TRAIN; i++) {
        if (reads)
            check_name(c, s->names.at[i].text, s->names.at[i].loc);
        else
            bind(c, &s->names.at[i]);
    }
}

static void check_statement(Checker *c, const Stmt *s) {
    check_place(c, s);
    c->closed.n = 0;
    if (s->kind == STMT_INDEXED) {
        check_binders(c, &s->binders, s->values.at[0]);
    } else {
        check_list(c, &s->values);
    }
    check_list(c, &s->shape);
    check_expr(c, s->range);
    if (s->scan) check_scan(c, s->scan);
    if (s->train) check_train(c, s->train);
    bool reads = s->kind == STMT_UPDATE || s->kind == STMT_SAVE || s->kind == STMT_RECOMPUTE ||
                 (s->kind == STMT_OUTPUT && s->values.n == 0);
    const bool emits = s->kind == STMT_REPEAT && s->names.n;
    if (!emits) check_names(c, s, reads);
    c->nested++;
    c->emits += emits;
    if (s->index.text) bind(c, &s->index);
    if (s->as.text) vec_push(c->arena, c->labels, s->as.text);
    bool loop = s->kind == STMT_REPEAT || s->kind == STMT_CHECKPOINT;
    check_nested(c, &s->body, loop ? &c->loops : &(int){0});
    check_block(c, &s->orelse);
    if (s->as.text) c->labels.n--;
    c->emits -= emits;
    c->nested--;
    if (emits) check_names(c, s, false);
}

static void check_block(Checker *c, const StmtList *body) {
    for (int i = 0; i < body->n; i++) check_statement(c, body->at[i]);
}

/* ---- definitions ------------------------------------------------------------------------------------------------- */

static void check_formals(Checker *c, const Top *top) {
    for (int i = 0; i < top->formals.n; i++) {
        const Name *name = &top->formals.at[i].name;
        check_expr(c, top->formals.at[i].value);
        if (names_has(&c->bound, name->text))
            diag_report(c->diag, E0207, name->loc, "the argument '%s' is named twice", name->text);
        bind(c, name);
    }
    if (top->kind == TOP_OPTIMIZER && top->formals.n < 2)
        diag_report(c->diag, E0202, top->name.loc,
                    "an optimizer takes a parameter and its gradient first: %s(p, g, ..)", top->name.text);
}

static void check_top(Checker *c, const Top *top) {
    bool value = top->kind == TOP_DIM || top->kind == TOP_LET;
    c->top = top;
    c->library = loc_in_library(c->diag, top->loc);
    c->bound = (NameMap){0};
    c->node = value || top->kind == TOP_MODEL ? NULL : call_node(c, top);
    check_expr(c, top->value);
    check_formals(c, top);
    check_block(c, &top->body);
}

static void check_cycles(Checker *c, CallNode *n, int depth) {
    n->state = 1;
    for (int i = 0; i < n->callees.n; i++) {
        CallNode *callee = n->callees.at[i];
        if (callee->state == 1)
            diag_report(c->diag, E0206, n->places.at[i], "'%s' calls itself%s; recursion is not possible",
                        callee->top->name.text, callee == n ? "" : " through others");
        else if (callee->state == 0 && depth >= MAX_CALL_DEPTH)
            diag_report(c->diag, E0216, n->places.at[i], "calls are nested more than %d deep", MAX_CALL_DEPTH);
        else if (callee->state == 0)
            check_cycles(c, callee, depth + 1);
    }
    n->state = 2;
}

void check_program(Program *p) {
    Checker c = {.program = p, .arena = p->arena, .diag = p->diag};
    for (int i = 0; i < p->tops.n; i++) check_top(&c, p->tops.at[i]);
    for (int library = 0; library < 2; library++)
        for (int i = 0; i < c.calls[library].cap; i++) {
            CallNode *n = c.calls[library].slot[i].value;
            if (n && n->state == 0) check_cycles(&c, n, 0);
        }
}
