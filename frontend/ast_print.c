/* The tree as s-expressions, one line per statement: what the parser's golden tests compare. */
#include "frontend/frontend.h"
#include <stdlib.h>
#include <string.h>

static const char *const operators[] = {
    [AST_NEG] = "-",    [AST_NOT] = "not", [AST_ADD] = "+",   [AST_SUB] = "-", [AST_MUL] = "*", [AST_DIV] = "/",
    [AST_MATMUL] = "@", [AST_POW] = "^",   [AST_EQ] = "==",   [AST_NE] = "!=", [AST_LT] = "<",  [AST_GT] = ">",
    [AST_LE] = "<=",    [AST_GE] = ">=",   [AST_AND] = "and", [AST_OR] = "or",
};

static void print_expr(FILE *f, const Expr *e);
static void print_block(FILE *f, const char *title, const StmtList *body, int depth);

/* An operand after a blank; `_` stands for one left out. */
static void print_operand(FILE *f, const Expr *e) {
    fputc(' ', f);
    if (e)
        print_expr(f, e);
    else
        fputc('_', f);
}

static void print_exprs(FILE *f, const ExprList *list) {
    for (int i = 0; i < list->n; i++) print_operand(f, list->at[i]);
}

static void print_names(FILE *f, const NameList *names) {
    for (int i = 0; i < names->n; i++) fprintf(f, " %s", names->at[i].text);
}

static void print_args(FILE *f, const ArgList *args) {
    for (int i = 0; i < args->n; i++) {
        const Arg *arg = &args->at[i];
        if (!arg->name.text) {
            print_operand(f, arg->value);
            continue;
        }
        fprintf(f, " (%s", arg->name.text);
        if (arg->value) print_operand(f, arg->value);
        fputc(')', f);
    }
}

static void print_binders(FILE *f, const BinderList *binders) {
    fputs(" [", f);
    for (int i = 0; i < binders->n; i++) {
        const Binder *b = &binders->at[i];
        fprintf(f, i ? " %s" : "%s", b->name.text);
        if (b->range) print_operand(f, b->range);
    }
    fputc(']', f);
}

static void print_items(FILE *f, const ItemList *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (item->kind == ITEM_ELLIPSIS)
            fputs(" ...", f);
        else if (item->kind == ITEM_INDEX)
            print_operand(f, item->index);
        else {
            fputs(" (:", f);
            print_operand(f, item->lo);
            print_operand(f, item->hi);
            print_operand(f, item->step);
            fputc(')', f);
        }
    }
}

static void print_as(FILE *f, const Name *as) {
    if (as->text) fprintf(f, " as %s", as->text);
}

static void print_string(FILE *f, const char *text) {
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

/* The shortest digits that read back as the same double. */
static void print_number(FILE *f, double number) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    fprintf(f, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_leaf(FILE *f, const Expr *e) {
    switch (e->kind) {
    case EXPR_INT: fprintf(f, "%lld", (long long)e->integer); break;
    case EXPR_FLOAT: print_number(f, e->number); break;
    case EXPR_BOOL: fputs(e->integer ? "true" : "false", f); break;
    case EXPR_STRING: print_string(f, e->name.text); break;
    case EXPR_HYPER:
        fputs("(hyper ", f);
        print_number(f, e->number);
        print_as(f, &e->as);
        fputc(')', f);
        break;
    default: fputs(e->name.text, f); break;
    }
}

static const char *head(const Expr *e) {
    switch (e->kind) {
    case EXPR_LIST: return "list";
    case EXPR_RANGE: return "..";
    case EXPR_UNARY:
    case EXPR_BINARY: return operators[e->op];
    case EXPR_IF: return "if";
    case EXPR_CALL: return "call";
    case EXPR_METHOD: return e->has_args ? "method" : "field";
    case EXPR_SUBSCRIPT: return "at";
    case EXPR_FILL: return e->integer ? "ones" : "zeros";
    case EXPR_LIKE: return e->integer ? "ones-like" : "zeros-like";
    case EXPR_PARAM: return "param";
    default: return e->name.text; /* sum max min prod */
    }
}

static void print_expr(FILE *f, const Expr *e) {
    if (e->kind <= EXPR_NAME || e->kind == EXPR_HYPER) {
        print_leaf(f, e);
        return;
    }
    fprintf(f, "(%s", head(e));
    if (e->kind == EXPR_CALL) fprintf(f, " %s", e->name.text);
    if (e->kind == EXPR_REDUCE) print_binders(f, &e->binders);
    if (e->a) print_operand(f, e->a);
    if (e->b) print_operand(f, e->b);
    if (e->c) print_operand(f, e->c);
    if (e->kind == EXPR_METHOD) fprintf(f, " %s", e->name.text);
    print_exprs(f, &e->list);
    if (e->kind == EXPR_PARAM) fprintf(f, " init %s", e->name.text);
    print_args(f, &e->args);
    print_items(f, &e->items);
    print_as(f, &e->as);
    if (e->sharing.text) fprintf(f, " sharing %s", e->sharing.text);
    fputc(')', f);
}

static void print_scan(FILE *f, const Scan *scan) {
    fputs(" (scan", f);
    for (int i = 0; i < scan->seqs.n; i++) {
        const ScanSeq *seq = &scan->seqs.at[i];
        fprintf(f, " (%s %s", seq->name.text, seq->over ? "over" : "=");
        print_operand(f, seq->over ? seq->over : seq->init);
        if (seq->axis) print_operand(f, seq->axis);
        fputc(')', f);
    }
    fputc(')', f);
}

static void print_train(FILE *f, const Train *train) {
    fprintf(f, " %s", train->optimizer.text);
    print_args(f, &train->args);
    for (int i = 0; i < train->only.n; i++) {
        fputs(" (only ", f);
        print_string(f, train->only.at[i].pattern.text);
        print_items(f, &train->only.at[i].items);
        fputc(')', f);
    }
    if (!train->clip_norm) return;
    fputs(" (clip_norm", f);
    print_operand(f, train->clip_norm);
    fputc(')', f);
}

static const char *const statements[] = {
    [STMT_ASSIGN] = "=",      [STMT_INDEXED] = "index=",      [STMT_UPDATE] = "<-",
    [STMT_RETURN] = "return", [STMT_EMIT] = "emit",           [STMT_IF] = "if",
    [STMT_REPEAT] = "repeat", [STMT_SCAN] = "scan",           [STMT_CHECKPOINT] = "checkpoint",
    [STMT_SAVE] = "save",     [STMT_RECOMPUTE] = "recompute", [STMT_STATE] = "state",
    [STMT_INPUT] = "input",   [STMT_OUTPUT] = "output",       [STMT_PRECISION] = "precision",
    [STMT_TRAIN] = "train",
};

static void print_stmt(FILE *f, const Stmt *s, int depth) {
    fprintf(f, "%*s(%s", 2 * depth, "", statements[s->kind]);
    print_names(f, &s->names);
    if (s->kind == STMT_INDEXED) print_binders(f, &s->binders);
    if (s->kind == STMT_OUTPUT && s->dtype.text) fprintf(f, " : %s", s->dtype.text);
    if (s->kind == STMT_INPUT) {
        fprintf(f, " %s (", s->dtype.text);
        print_exprs(f, &s->shape);
        fputs(" )", f);
        if (s->range) print_operand(f, s->range);
    }
    print_exprs(f, &s->values);
    print_as(f, &s->as);
    if (s->train) print_train(f, s->train);
    if (s->scan) print_scan(f, s->scan);
    if (s->scan) print_block(f, "do", &s->scan->body, depth + 1);
    if (s->kind == STMT_IF || s->kind == STMT_REPEAT || s->kind == STMT_CHECKPOINT)
        print_block(f, "do", &s->body, depth + 1);
    if (s->has_else) print_block(f, "else", &s->orelse, depth + 1);
    fputc(')', f);
}

static void print_block(FILE *f, const char *title, const StmtList *body, int depth) {
    fprintf(f, "\n%*s(%s", 2 * depth, "", title);
    for (int i = 0; i < body->n; i++) {
        fputc('\n', f);
        print_stmt(f, body->at[i], depth + 1);
    }
    fputc(')', f);
}

static const char *const definitions[] = {
    [TOP_DIM] = "dim",     [TOP_LET] = "let", [TOP_FN] = "fn", [TOP_LAYER] = "layer", [TOP_OPTIMIZER] = "optimizer",
    [TOP_MODEL] = "model", [TOP_USE] = "use",
};

static bool has_body(TopKind kind) {
    return kind == TOP_FN || kind == TOP_LAYER || kind == TOP_OPTIMIZER || kind == TOP_MODEL;
}

void ast_print(FILE *f, const Ast *ast) {
    for (int i = 0; i < ast->tops.n; i++) {
        const Top *top = ast->tops.at[i];
        fprintf(f, "(%s%s ", definitions[top->kind], top->bounded ? "<=" : "");
        if (top->kind == TOP_USE)
            print_string(f, top->name.text);
        else
            fputs(top->name.text, f);
        if (top->value) print_operand(f, top->value);
        print_args(f, &top->formals);
        if (has_body(top->kind)) print_block(f, "do", &top->body, 1);
        fputs(")\n", f);
    }
}
