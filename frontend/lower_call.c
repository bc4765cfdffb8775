/* Calls: arguments to formals, functions and layers inlined, built-in functions. */
#include "frontend/lower.h"
#include <string.h>

Value lower_plain_arg(Lower *L, void *context, const Expr *e, const char *name) {
    (void)context;
    if (e->kind == EXPR_RANGE) return lower_arg_value(L, e);
    return lower_named(L, e, e->kind == EXPR_HYPER ? name : NULL);
}

static int formal_index(const ArgList *formals, const char *name) {
    for (int i = 0; i < formals->n; i++)
        if (strcmp(formals->at[i].name.text, name) == 0) return i;
    return -1;
}

ArgValue *lower_args(Lower *L, const Top *top, int skip, const ArgList *args, ArgEval eval, void *context) {
    ArgValue *out = ARENA_ARRAY(L->scratch, ArgValue, args->n + 1);
    for (int i = 0; i < args->n; i++) {
        const Arg *a = &args->at[i];
        const char *name = a->name.text;
        if (!name && top && i + skip < top->formals.n) name = top->formals.at[i + skip].name.text;
        out[i] = (ArgValue){a->name, eval(L, context, a->value, name), a->value->loc};
    }
    return out;
}

static bool too_many(Lower *L, const Top *top, int n_first, int n, SrcLoc loc) {
    lower_fail(L, E0202, loc, NULL, "'%s' takes at most %d arguments, %d are given", top->name.text,
               top->formals.n - n_first, n);
    return false;
}

/* Which value each formal gets: `given[i]` NULL means its default. */
static bool match_formals(Lower *L, const Top *top, int n_first, int n, const ArgValue *args, const Value **given,
                          SrcLoc loc) {
    for (int i = 0; i < n; i++) {
        int at = args[i].name.text ? formal_index(&top->formals, args[i].name.text) : i + n_first;
        if (at < 0 || (args[i].name.text && at < n_first)) {
            lower_fail(L, E0202, args[i].name.loc, NULL, "'%s' has no argument '%s'", top->name.text,
                       args[i].name.text);
            return false;
        }
        if (at >= top->formals.n) return too_many(L, top, n_first, n, loc);
        if (given[at]) {
            lower_fail(L, E0202, args[i].loc, NULL, "argument '%s' is given twice", top->formals.at[at].name.text);
            return false;
        }
        given[at] = &args[i].value;
    }
    return true;
}

static bool bind_default(Lower *L, const Top *top, int i, SrcLoc loc) {
    const Arg *f = &top->formals.at[i];
    if (f->value) {
        body_bind(L, f->name.text, lower_plain_arg(L, NULL, f->value, f->name.text));
        return true;
    }
    lower_fail(L, E0202, loc, NULL, "'%s' needs the argument '%s'", top->name.text, f->name.text);
    return false;
}

bool lower_bind_formals(Lower *L, Body *b, const Top *top, int n_first, const Value *first, int n, const ArgValue *args,
                        SrcLoc loc) {
    const Value **given = ARENA_ARRAY(L->scratch, const Value *, top->formals.n + 1);
    if (n_first > top->formals.n) {
        lower_fail(L, E0202, top->name.loc, NULL, "'%s' must take %d arguments at least", top->name.text, n_first);
        return false;
    }
    for (int i = 0; i < n_first; i++) given[i] = &first[i];
    if (!match_formals(L, top, n_first, n, args, given, loc)) return false;
    Body *caller = L->body;
    L->body = b;
    bool ok = true;
    for (int i = 0; i < top->formals.n && ok; i++) {
        if (given[i])
            body_bind(L, top->formals.at[i].name.text, *given[i]);
        else
            ok = bind_default(L, top, i, loc);
    }
    L->body = caller;
    return ok;
}

static bool any_poison(int n, const ArgValue *args) {
    for (int i = 0; i < n; i++)
        if (args[i].value.kind == VAL_POISON) return true;
    return false;
}

/* Every call costs memory: it counts as some statements. */
static bool enter(Lower *L, SrcLoc loc) {
    L->statements += 8;
    if (L->call_depth < MAX_CALL_DEPTH) return true;
    lower_fail(L, E0216, loc, NULL, "calls are nested more than %d deep", MAX_CALL_DEPTH);
    L->stopped = true;
    return false;
}

/* Runs the body of a fn or layer in a scope of its own. */
static Value run_body(Lower *L, Body *b, const Expr *e) {
    Body *caller = L->body;
    L->body = b;
    L->call_depth++;
    lower_block(L, &b->top->body);
    L->call_depth--;
    L->body = caller;
    if (L->stopped || b->poisoned) return val_poison();
    if (b->returned) return b->result;
    return lower_fail(L, E0219, e->loc, NULL, "'%s' returned no value", b->top->name.text);
}

/* Of what is no layer; false, reported: the call names or shares an instance. */
static bool owns_nothing(Lower *L, const Expr *e) {
    if (e->as.text)
        lower_fail(L, E0215, e->as.loc, NULL, "'%s' is not a layer: it owns nothing that `as` could name", e->name.text);
    else if (e->sharing.text)
        lower_fail(L, E0215, e->sharing.loc, NULL, "'%s' is not a layer: it owns nothing that could be shared", e->name.text);
    else
        return true;
    return false;
}

/* ---- instances ---------------------------------------------------------------------------------- */
static const Instance *instance_of(Lower *L, const Name *name) {
    for (int i = L->body->instances.n - 1; i >= 0; i--)
        if (strcmp(L->body->instances.at[i].name, name->text) == 0) return &L->body->instances.at[i];
    const char **names = ARENA_ARRAY(L->scratch, const char *, L->body->instances.n + 1);
    for (int i = 0; i < L->body->instances.n; i++) names[i] = L->body->instances.at[i].name;
    const char *near = diag_nearest(name->text, names, L->body->instances.n);
    lower_fail(L, E0201, name->loc, near ? arena_printf(L->arena, "did you mean '%s'?", near) : "name it where it is called first: f(x) as NAME",
               "there is no instance '%s' in this body so far", name->text);
    return NULL;
}

/* Runs the body with the parameters and states of the instance in the place of its own.  It declares nothing. */
static Value run_shared(Lower *L, Body *b, const Expr *e) {
    const Instance *of = instance_of(L, &e->sharing);
    if (!of) return val_poison();
    if (of->top != b->top)
        return lower_fail(L, E0204, e->sharing.loc, NULL, "'%s' is an instance of '%s', not of '%s'", of->name, of->top->name.text,
                          b->top->name.text);
    const Reuse around = L->reuse;
    const int drawn = L->drawn.n, kept = L->kept.n;
    L->reuse = (Reuse){.on = true, .of = *of};
    Value v = run_body(L, b, e);
    const bool all = L->reuse.next_param == of->n_params && L->reuse.next_state == of->n_states;
    L->reuse = around;
    L->drawn.n = drawn;
    L->kept.n = kept;
    if (v.kind == VAL_POISON || all) return v;
    return lower_fail(L, E0302, e->loc, "share an instance that was called in the same way", "'%s' has parameters or states that this call has not",
                      of->name);
}

static Value run_layer(Lower *L, Body *b, const Expr *e) {
    const int drawn = L->drawn.n, kept = L->kept.n;
    Value v = run_body(L, b, e);
    Instance i = lower_declared(L, drawn, kept);
    i.name = e->as.text;
    i.top = b->top;
    if (i.name) vec_push(L->scratch, L->body->instances, i);
    return v;
}

static Value call_top(Lower *L, const Expr *e, const Top *top, ArgEval eval, void *context) {
    if (top->kind == TOP_OPTIMIZER)
        return lower_fail(L, E0215, e->loc, "use it in `train LOSS with ...`", "'%s' is an optimizer", top->name.text);
    bool layer = top->kind == TOP_LAYER;
    if (layer && (!L->body || !L->body->paths || L->body->target >= 0))
        return lower_fail(L, E0215, e->loc, "make the caller a `layer`",
                          "the layer '%s' is called where no parameters may be owned", top->name.text);
    if (layer && L->body->space)
        return lower_fail(L, E0215, e->loc, "call it before the definition", "a layer inside an indexed definition");
    if (!layer && !owns_nothing(L, e)) return val_poison();
    ArgValue *args = lower_args(L, top, 0, &e->args, eval, context);
    PathScope inner = {0};
    Body b = {.top = top, .library = loc_in_library(L->diag, top->loc), .up = L->body, .target = -1};
    b.paths = layer ? &inner : NULL;
    b.call = e->loc;
    b.space = L->body ? L->body->space : NULL;
    if (any_poison(e->args.n, args) || !enter(L, e->loc)) return val_poison();
    if (!lower_bind_formals(L, &b, top, 0, NULL, e->args.n, args, e->loc)) return val_poison();
    Value v = !layer ? run_body(L, &b, e) : e->sharing.text ? run_shared(L, &b, e) : run_layer(L, &b, e);
    if (layer) paths_merge(L, L->body->paths, &inner, e->as.text, top->name.text, e->loc);
    return v;
}

/* ---- built-in functions ------------------------------------------------------------------------ */

enum { MAX_BUILTIN_FORMALS = 12 };

static int find_formal(const Builtin *b, const char *name) {
    char text[32];
    bool variadic, has_default;
    Value v;
    for (int i = 0; builtin_formal(b, i, text, &variadic, &has_default, &v); i++)
        if (strcmp(text, name) == 0) return i;
    return -1;
}

/* "x, axis = all, keep = false": the table's text as a program would write it. */
static const char *formals_text(Lower *L, const Builtin *b) {
    const char *text = "";
    for (const char *p = b->formals; *p;) {
        const int n = (int)strcspn(p, " "), key = (int)strcspn(p, " =");
        const char *comma = *text ? ", " : "";
        text = *p == '*' ? arena_printf(L->arena, "%s%s%.*s, ..", text, comma, key - 1, p + 1)
               : key < n ? arena_printf(L->arena, "%s%s%.*s = %.*s", text, comma, key, p, n - key - 1, p + key + 1)
                         : arena_printf(L->arena, "%s%s%.*s", text, comma, n, p);
        p += n;
        p += *p == ' ';
    }
    return text;
}

/* Formals that no argument names get their defaults; false: one has none. */
static bool fill_defaults(Lower *L, const Builtin *b, const bool *given, Value *value, SrcLoc loc) {
    char name[32];
    bool variadic, has_default;
    Value v;
    for (int i = 0; builtin_formal(b, i, name, &variadic, &has_default, &v); i++) {
        if (given[i] || variadic) continue;
        value[i] = v;
        if (has_default) continue;
        lower_fail(L, E0202, loc, arena_printf(L->arena, "write %s(%s)", b->name, formals_text(L, b)),
                   "'%s' needs the argument '%s'", b->name, name);
        return false;
    }
    return true;
}

/* One value per formal, variadic positional ones apart; false: reported. */
static bool match_builtin(Lower *L, const Builtin *b, int n, const ArgValue *args, Value *value, BuiltinCall *call) {
    bool given[MAX_BUILTIN_FORMALS] = {false}, variadic = b->formals[0] == '*', has_default;
    char name[32];
    Value *more = ARENA_ARRAY(L->scratch, Value, n + 1);
    for (int i = 0; i < n; i++) {
        int at = args[i].name.text ? find_formal(b, args[i].name.text) : i;
        if (variadic && !args[i].name.text) {
            more[call->n_more++] = args[i].value;
            continue;
        }
        if (at < 0 || !builtin_formal(b, at, name, &(bool){0}, &has_default, &(Value){0})) {
            const char *unknown = args[i].name.text;
            const char *help = arena_printf(L->arena, "write %s(%s)", b->name, formals_text(L, b));
            if (unknown)
                lower_fail(L, E0202, args[i].name.loc, help, "'%s' has no argument '%s'", b->name, unknown);
            else
                lower_fail(L, E0202, args[i].loc, help, "'%s' has too many arguments", b->name);
            return false;
        }
        if (given[at]) {
            lower_fail(L, E0202, args[i].loc, NULL, "argument '%s' of '%s' is given twice", name, b->name);
            return false;
        }
        given[at] = true;
        value[at] = args[i].value;
    }
    call->more = more;
    return fill_defaults(L, b, given, value, call->loc);
}

static bool per_element(const Builtin *b, int n, const ArgValue *args) {
    for (int i = 0; i < n; i++)
        if (args[i].value.kind == VAL_TENSOR) return b->pointwise && !(b->formals[0] == '*' && n < 2);
    return true;
}

static Value call_builtin(Lower *L, const Expr *e, const Builtin *b, ArgEval eval, void *context) {
    if (!owns_nothing(L, e)) return val_poison();
    ArgValue *args = lower_args(L, NULL, 0, &e->args, eval, context);
    if (any_poison(e->args.n, args)) return val_poison();
    if (L->body && L->body->space && !per_element(b, e->args.n, args))
        return lower_fail(L, E0215, e->loc, "compute it before the definition and read its elements",
                          "'%s' works on whole tensors; here values are single elements", b->name);
    Value value[MAX_BUILTIN_FORMALS] = {0};
    BuiltinCall call = {.builtin = b, .arg = value, .loc = e->loc};
    if (!match_builtin(L, b, e->args.n, args, value, &call)) return val_poison();
    return b->run(L, &call);
}

Value lower_call(Lower *L, const Expr *e, ArgEval eval, void *context) {
    const Top *top =
        program_function(L->program, e->name.text, L->body ? L->body->library : loc_in_library(L->diag, e->loc));
    if (top) return call_top(L, e, top, eval, context);
    const Builtin *b = builtin_find(e->name.text);
    if (b) return call_builtin(L, e, b, eval, context);
    return lower_fail(L, E0201, e->name.loc, NULL, "unknown function '%s'", e->name.text);
}
