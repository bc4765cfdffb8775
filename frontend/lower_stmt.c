/* Statements: bindings, updates, control that is decided here, a model's declarations. */
#include "frontend/lower.h"
#include <string.h>

static Value not_built(Lower *L, SrcLoc loc, const char *what) {
    return lower_fail(L, E0217, loc, NULL, "%s is not supported yet", what);
}

/* ---- binding ---------------------------------------------------------------------------------- */

static void bind_all(Lower *L, const NameList *names, const Value *v) {
    for (int i = 0; i < names->n; i++) body_bind(L, names->at[i].text, v ? v[i] : val_poison());
}

static void assign_results(Lower *L, const Stmt *s) {
    Value v = lower_results(L, s->values.at[0]);
    bool fits = v.kind == VAL_TUPLE && v.n == s->names.n;
    if (!fits && v.kind != VAL_POISON)
        lower_fail(L, E0211, s->loc, NULL, "%d names are bound to %d value%s", s->names.n,
                   v.kind == VAL_TUPLE ? v.n : 1, v.kind == VAL_TUPLE && v.n != 1 ? "s" : "");
    bind_all(L, &s->names, fits ? v.at : NULL);
}

static void lower_assign(Lower *L, const Stmt *s) {
    if (s->scan) {
        lower_scan(L, s);
        return;
    }
    if (s->values.n == 1 && s->names.n == 1) {
        body_bind(L, s->names.at[0].text, lower_named(L, s->values.at[0], s->names.at[0].text));
        return;
    }
    if (s->values.n == 1) {
        assign_results(L, s);
        return;
    }
    if (s->values.n != s->names.n) {
        lower_fail(L, E0211, s->loc, NULL, "%d names are bound to %d values", s->names.n, s->values.n);
        bind_all(L, &s->names, NULL);
        return;
    }
    Value *v = ARENA_ARRAY(L->scratch, Value, s->values.n);
    for (int i = 0; i < s->values.n; i++) v[i] = lower_named(L, s->values.at[i], s->names.at[i].text);
    bind_all(L, &s->names, v);
}

static void lower_return(Lower *L, const Stmt *s) {
    Value *v = ARENA_ARRAY(L->scratch, Value, s->values.n);
    bool poison = false;
    for (int i = 0; i < s->values.n; i++) {
        v[i] = s->values.n == 1 ? lower_results(L, s->values.at[i]) : lower_expr(L, s->values.at[i]);
        poison |= v[i].kind == VAL_POISON;
    }
    L->body->returned = true;
    L->body->result = poison ? val_poison() : s->values.n == 1 ? v[0] : lower_tuple(L, s->values.n, v, VAL_TUPLE);
}

/* ---- `<-` ---------------------------------------------------------------------------------------- */

/* A value in the dtype and shape of what it replaces; NULL: reported. */
static Node *fit_update(Lower *L, const Stmt *s, Value v, const Node *old) {
    Node *node = value_node(L, v, old->dtype, s->values.at[0]->loc);
    if (!node) return NULL;
    Shape joined;
    if (t_join_shapes(L, *node->shape, *old->shape, &joined) && shape_equal(joined, *old->shape))
        return t_expand(L, node, joined);
    lower_fail(L, E0203, s->loc, NULL, "'%s' is %s and cannot become %s", s->names.at[0].text,
               shape_text(L->arena, *old->shape), shape_text(L->arena, *node->shape));
    return NULL;
}

static void lower_update(Lower *L, const Stmt *s) {
    const char *name = s->names.at[0].text;
    Binding *b = body_find(L->body, name);
    Body *body = L->body;
    bool target = body->target >= 0 && strcmp(name, body->top->formals.at[0].name.text) == 0;
    Value v = lower_expr(L, s->values.at[0]);
    if (v.kind == VAL_POISON) return;
    if (L->scan) {
        lower_fail(L, E0215, s->loc, "carry it: `scan x over xs, h = ..`", "a state is updated in a scan");
        return;
    }
    b = body_find(L->body, name);
    if (!target && (!b || b->state < 0)) {
        if (!b || b->value.kind != VAL_POISON)
            lower_fail(L, E0305, s->names.at[0].loc, "declare it with `state NAME = ...`, or bind anew with `=`",
                       "'%s' is not a state of this body", name);
        return;
    }
    int state = target ? -1 : b->state;
    Node *old = target ? L->params.at[body->target].node : L->states.at[state].node;
    Node *next = fit_update(L, s, v, old);
    if (!next) return;
    b->value = val_tensor(next);
    if (target) {
        L->params.at[body->target].next = next;
        body->target_updated = true;
    } else {
        L->states.at[state].next = next;
    }
}

/* ---- control -------------------------------------------------------------------------------------- */

/* `n`, or `i in lo..hi`; false: reported. */
static bool repeat_range(Lower *L, const Stmt *s, int64_t *lo, int64_t *hi) {
    const Expr *e = s->values.at[0];
    *lo = 0;
    if (s->index.text) {
        if (!lower_const_int(L, e->a, "the first index of `repeat`", lo) || !lower_const_int(L, e->b, "the end of `repeat`", hi)) return false;
        if (*lo < 0 || *hi < *lo) {
            lower_fail(L, E0208, e->loc, NULL, "the range %lld..%lld of `repeat` must begin at 0 or later and not end before", (long long)*lo,
                       (long long)*hi);
            return false;
        }
    } else if (!lower_const_int(L, e, "the count of `repeat`", hi)) {
        return false;
    }
    const int64_t n = *hi < 0 ? *hi : *hi - *lo;
    if (n >= 0 && n <= MAX_REPEAT) return true;
    lower_fail(L, E0216, e->loc, NULL, "`repeat` %lld times: the count must be in 0 .. %d", (long long)n, MAX_REPEAT);
    return false;
}

static bool one_round(Lower *L, const Stmt *s, int64_t i, Emission *e) {
    PathScope *outer = L->body->paths, inner = {0};
    const char *as = s->as.text ? s->as.text : "repeat";
    if (s->index.text) body_bind(L, s->index.text, val_int(i));
    if (outer) L->body->paths = &inner;
    lower_block(L, &s->body);
    L->body->paths = outer;
    if (outer) paths_merge(L, outer, &inner, arena_printf(L->scratch, "%s.%lld", as, (long long)i), NULL, s->loc);
    return s->names.n == 0 || L->stopped || emission_round_ended(L, e);
}

static bool all_rounds(Lower *L, const Stmt *s, Emission *e) {
    int64_t lo, hi;
    bool ok = repeat_range(L, s, &lo, &hi);
    for (int64_t i = lo; ok && i < hi && !L->stopped && !L->body->returned; i++) ok = one_round(L, s, i, e);
    if (!ok || hi > lo || s->names.n == 0) return ok;
    lower_fail(L, E0211, s->loc, NULL, "a repeat of no rounds emits nothing, whose shape is not known");
    return false;
}

static void lower_repeat(Lower *L, const Stmt *s) {
    Emission e;
    if (s->names.n == 0) {
        all_rounds(L, s, NULL);
        return;
    }
    emission_open(L, &e, s, "repeat", 0);
    const bool ok = all_rounds(L, s, &e);
    emission_close(L, &e, ok && !L->stopped);
}

static void lower_if(Lower *L, const Stmt *s) {
    bool c;
    if (lower_condition(L, s->values.at[0], &c)) lower_block(L, c ? &s->body : &s->orelse);
}

/* ---- declarations of a model --------------------------------------------------------------------------- */

static bool input_range(Lower *L, const Stmt *s, TensorDecl *t) {
    if (!s->range) return true;
    Value v = lower_arg_value(L, s->range);
    if (v.kind == VAL_POISON) return false;
    if (v.at[0].kind != VAL_INT || v.at[1].kind != VAL_INT || t->dtype != DT_I32) {
        lower_fail(L, E0209, s->range->loc, NULL, "the range of an input needs constant integers and an i32 input");
        return false;
    }
    t->has_range = true;
    t->lo = v.at[0].i, t->hi = v.at[1].i;
    if (t->lo >= t->hi)
        lower_fail(L, E0208, s->range->loc, NULL, "the range %lld..%lld is empty", (long long)t->lo, (long long)t->hi);
    else if (t->lo < INT32_MIN || t->hi > (int64_t)INT32_MAX + 1)
        lower_fail(L, E0208, s->range->loc, NULL, "the range %lld..%lld is not within that of i32, %lld..%lld", (long long)t->lo,
                   (long long)t->hi, (long long)INT32_MIN, (long long)INT32_MAX + 1);
    else
        return true;
    return false;
}

/* What inputs and outputs may be: f64 and what only the IRs know are refused. */
static bool boundary_type(Lower *L, const Stmt *s, const char *what, DType *t) {
    const char *name = s->dtype.text;
    if (!dtype_parse(name, t) || *t == DT_TF32) {
        lower_fail(L, E0204, s->dtype.loc, arena_printf(L->arena, "%ss are f32, f16, bf16, i32 or bool", what),
                   "unknown element type '%s'", name);
        return false;
    }
    if (*t != DT_F64) return true;
    lower_fail(L, E0217, s->dtype.loc, "declare it f32, and convert outside the model",
               "an %s of type f64 is not supported: programs compute in f32 and below", what);
    return false;
}

static int find_decl(const TensorDecl *at, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(at[i].name, name) == 0) return i;
    return -1;
}

static void lower_input(Lower *L, const Stmt *s) {
    TensorDecl t = {.name = s->names.at[0].text, .loc = s->loc};
    body_bind(L, t.name, val_poison());
    if (!boundary_type(L, s, "input", &t.dtype) || !lower_shape_list(L, &s->shape, &t.shape) || !input_range(L, s, &t)) return;
    if (!check_declared(L, t.shape, s->loc)) return;
    int i = find_decl(L->model->inputs.at, L->model->inputs.n, t.name);
    if (i < 0) {
        i = L->model->inputs.n;
        vec_push(L->arena, L->model->inputs, t);
    } else if (i < L->inputs.n && L->inputs.at[i]) {
        lower_fail(L, E0207, s->names.at[0].loc, NULL, "the input '%s' is declared twice", t.name);
        return;
    }
    while (L->inputs.n <= i) vec_push(L->scratch, L->inputs, NULL);
    Attr attr = {.decl = i, .dtype = t.dtype};
    L->inputs.at[i] = t_node(L, OP_INPUT, 0, NULL, &attr, t.dtype, t.shape);
    /* what comes in 16 bits is a number like any other */
    Node *value = dtype_is_low(t.dtype) ? t_cast(L, L->inputs.at[i], DT_F32) : L->inputs.at[i];
    body_bind(L, t.name, val_tensor(value));
}

/* The value in the type that the output states. */
static Node *fit_output(Lower *L, const Stmt *s, Node *node) {
    DType t;
    if (!s->dtype.text || !node) return node;
    if (!boundary_type(L, s, "output", &t)) return NULL;
    if (t == node->dtype || (dtype_is_float(t) && dtype_is_float(node->dtype))) return t_cast(L, node, t);
    lower_fail(L, E0204, s->dtype.loc, dtype_is_float(t) ? "write float(x)" : t == DT_I32 ? "write int(x)" : NULL, "the output '%s' is %s, not %s",
               s->names.at[0].text, dtype_name(node->dtype), dtype_name(t));
    return NULL;
}

static void lower_output(Lower *L, const Stmt *s) {
    const char *name = s->names.at[0].text;
    Binding *b = body_find(L->body, name);
    Value v = val_poison();
    if (s->values.n) {
        v = lower_named(L, s->values.at[0], name);
        body_bind(L, name, v);
    } else if (b) {
        v = b->value;
    } else {
        lower_fail(L, E0201, s->loc, NULL, "unknown name '%s'", name);
    }
    DType stated = DT_F32; /* of whole numbers, which may be either */
    if (s->dtype.text && (!dtype_parse(s->dtype.text, &stated) || stated != DT_I32)) stated = DT_F32;
    Node *node = fit_output(L, s, value_node(L, v, v.kind == VAL_INT ? stated : DT_COUNT, s->loc));
    if (!node || !check_declared(L, *node->shape, s->loc)) return;
    for (int i = 0; i < L->outputs.n; i++)
        if (strcmp(L->outputs.at[i].name, name) == 0) {
            lower_fail(L, E0207, s->names.at[0].loc, NULL, "the output '%s' is declared twice", name);
            return;
        }
    vec_push(L->scratch, L->outputs, (OutputRef){name, node, s->loc});
}

/* `precision P weights W`: parameters are W in memory, without a master. */
static void lower_weights(Lower *L, const Stmt *s) {
    static const char *const held[] = {"f32", "bf16"};
    static const DType dtypes[] = {DT_F32, DT_BF16};
    const Name word = s->names.at[1], name = s->names.at[2];
    if (strcmp(word.text, "weights") != 0) {
        lower_fail(L, E0201, word.loc, "write `precision bf16 weights bf16`", "unknown word '%s' after the precision",
                   word.text);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (strcmp(name.text, held[i]) == 0) {
            L->weights = dtypes[i];
            return;
        }
    lower_fail(L, E0201, name.loc, "f32 or bf16: updates would leave the range of f16", "weights cannot be '%s'",
               name.text);
}

/* Holds to the end of the block that it stands in, called layers and functions included. */
static void lower_precision(Lower *L, const Stmt *s) {
    const char *name = s->names.at[0].text;
    for (int i = 0; i < PRECISION_COUNT; i++)
        if (strcmp(name, precision_name[i]) == 0) {
            L->precision = (Precision)i;
            L->f16 |= i == PRECISION_F16;
            L->weights = DT_F32;
            if (s->names.n == 3) lower_weights(L, s);
            return;
        }
    lower_fail(L, E0201, s->names.at[0].loc, "f32, tf32, bf16 or f16", "unknown precision '%s'", name);
}

static bool is_new_step(Lower *L, const Name *name) {
    for (int i = 0; i < L->trains.n && name->text; i++) {
        const Name *other = &L->trains.at[i].s->as;
        if (!other->text || strcmp(other->text, name->text) != 0) continue;
        lower_fail(L, E0207, name->loc, NULL, "two `train` lines are named '%s'", name->text);
        return false;
    }
    return true;
}

static void lower_train_statement(Lower *L, const Stmt *s) {
    const Name *name = &s->train->loss;
    Binding *b = body_find(L->body, name->text);
    Value loss = b ? b->value : lower_fail(L, E0201, name->loc, NULL, "unknown name '%s'", name->text);
    bool scalar = loss.kind == VAL_TENSOR && loss.node->shape->rank == 0 && dtype_is_float(loss.node->dtype);
    if (!scalar && loss.kind != VAL_POISON)
        loss = lower_fail(L, E0303, name->loc, "reduce it, for instance with mean(..)", "the loss must be a float scalar, not %s",
                          val_describe(L->arena, loss));
    if (is_new_step(L, &s->as)) vec_push(L->scratch, L->trains, (TrainLine){s, loss});
}

static void lower_statement(Lower *L, const Stmt *s) {
    switch (s->kind) {
    case STMT_ASSIGN: lower_assign(L, s); break;
    case STMT_INDEXED: body_bind(L, s->names.at[0].text, lower_indexed(L, &s->binders, s->values.at[0], s->loc)); break;
    case STMT_UPDATE: lower_update(L, s); break;
    case STMT_RETURN: lower_return(L, s); break;
    case STMT_EMIT: lower_emit(L, s); break;
    case STMT_IF: lower_if(L, s); break;
    case STMT_REPEAT: lower_repeat(L, s); break;
    case STMT_SCAN: lower_scan(L, s); break;
    case STMT_CHECKPOINT:
        not_built(L, s->loc, "`checkpoint`");
        lower_block(L, &s->body); /* for its own errors, and the names that it binds */
        break;
    case STMT_SAVE: not_built(L, s->loc, "`save`"); break;
    case STMT_RECOMPUTE: not_built(L, s->loc, "`recompute`"); break;
    case STMT_STATE: lower_state(L, s); break;
    case STMT_INPUT: lower_input(L, s); break;
    case STMT_OUTPUT: lower_output(L, s); break;
    case STMT_PRECISION: lower_precision(L, s); break;
    case STMT_TRAIN: lower_train_statement(L, s); break;
    }
}

void lower_block(Lower *L, const StmtList *body) {
    const Precision outer_precision = L->precision;
    const DType outer_weights = L->weights;
    for (int i = 0; i < body->n && !L->body->returned && !L->stopped; i++) {
        const Stmt *s = body->at[i];
        SrcLoc outer = L->loc;
        if (!loc_in_library(L->diag, s->loc)) L->loc = s->loc;
        if (++L->statements > MAX_STATEMENTS) {
            lower_fail(L, E0216, s->loc, NULL, "the program unrolls to more than %d statements", MAX_STATEMENTS);
            L->stopped = true;
        } else {
            lower_statement(L, s);
        }
        L->loc = outer;
    }
    L->precision = outer_precision;
    L->weights = outer_weights;
}
