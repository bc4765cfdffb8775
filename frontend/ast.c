/* Constructors of the tree, and ast_parse, which puts the layers of parse.h together. */
#include "frontend/frontend.h"
#include "frontend/parse.h"
#include "parser.h"
#include <stdlib.h>
#include <string.h>

Expr *expr_new(Parser *p, ExprKind kind, SrcLoc loc) {
    Expr *e = ARENA_NEW(p->arena, Expr);
    e->kind = kind;
    e->loc = loc;
    e->height = 1;
    return e;
}

static int taller(int height, const Expr *e) { return e && e->height > height ? e->height : height; }

Expr *expr_done(Parser *p, Expr *e) {
    int height = taller(taller(taller(0, e->a), e->b), e->c);
    for (int i = 0; i < e->list.n; i++) height = taller(height, e->list.at[i]);
    for (int i = 0; i < e->args.n; i++) height = taller(height, e->args.at[i].value);
    for (int i = 0; i < e->binders.n; i++) height = taller(height, e->binders.at[i].range);
    for (int i = 0; i < e->items.n; i++) {
        const Item *item = &e->items.at[i];
        height = taller(taller(taller(taller(height, item->index), item->lo), item->hi), item->step);
    }
    e->height = height + 1;
    if (e->height > MAX_HEIGHT) tokens_refuse(p, e->loc, "operators in one expression nest", MAX_HEIGHT);
    return e;
}

Expr *expr_binary(Parser *p, AstOp op, SrcLoc loc, Expr *a, Expr *b) {
    Expr *e = expr_new(p, EXPR_BINARY, loc);
    e->op = op;
    e->a = a;
    e->b = b;
    return expr_done(p, e);
}

Expr *expr_unary(Parser *p, AstOp op, SrcLoc loc, Expr *a) {
    Expr *e = expr_new(p, EXPR_UNARY, loc);
    e->op = op;
    e->a = a;
    return expr_done(p, e);
}

Stmt *stmt_new(Parser *p, StmtKind kind, SrcLoc loc) {
    Stmt *s = ARENA_NEW(p->arena, Stmt);
    s->kind = kind;
    s->loc = loc;
    return s;
}

Top *top_new(Parser *p, TopKind kind, SrcLoc loc, Name name) {
    Top *top = ARENA_NEW(p->arena, Top);
    top->kind = kind;
    top->loc = loc;
    top->name = name;
    return top;
}

void args_push(Parser *p, ArgList *args, Arg arg) {
    if (!arg.name.text && args->n > 0 && vec_last(*args).name.text) {
        diag_report(p->diag, E0120, arg.value->loc, "a positional argument after `%s = ...`",
                    vec_last(*args).name.text);
        diag_help(p->diag, "positional arguments come first; name this one, or move it");
    }
    vec_push(p->arena, *args, arg);
}

/* Where byte `offset` of the text stands. */
static SrcLoc place_of(int file, const char *text, size_t offset) {
    SrcLoc loc = {.file = file, .line = 1, .col = 1};
    for (size_t i = 0; i < offset; i++) {
        loc.col++;
        if (text[i] == '\n') loc.line++, loc.col = 1;
    }
    loc.end_line = loc.line;
    loc.end_col = loc.col + 1;
    return loc;
}

static int continuation_bytes(unsigned char c) {
    return c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : -1;
}

/* The offset of the first byte that is not UTF-8 text (NUL is not), or `length`. */
static size_t text_prefix(const char *text, size_t length) {
    for (size_t i = 0; i < length;) {
        const int more = continuation_bytes((unsigned char)text[i]);
        if (text[i] == '\0' || more < 0 || i + (size_t)more >= length) return i;
        for (int k = 1; k <= more; k++)
            if (((unsigned char)text[i + (size_t)k] & 0xc0) != 0x80) return i;
        i += 1 + (size_t)more;
    }
    return length;
}

static bool is_readable(Diag *d, int file) {
    const SourceFile *source = diag_source(d, file);
    if (source->length > MAX_FILE_BYTES) {
        diag_report(d, E0107, (SrcLoc){.file = file}, "the file has %zu bytes; the limit is %d", source->length,
                    MAX_FILE_BYTES);
        return false;
    }
    const size_t good = text_prefix(source->text, source->length);
    if (good == source->length) return true;
    diag_report(d, E0106, place_of(file, source->text, good), "this is not text: byte 0x%02x",
                (unsigned char)source->text[good]);
    diag_help(d, "programs are UTF-8 text");
    return false;
}

Ast *ast_parse(Arena *a, Diag *d, int file) {
    Ast *ast = ARENA_NEW(a, Ast);
    ast->file = file;
    if (!is_readable(d, file)) return ast;
    const Token start = {.kind = TOK_NEWLINE, .loc = {.file = file, .line = 1, .col = 1, .end_line = 1, .end_col = 1}};
    Parser p = {.arena = a, .diag = d, .ast = ast, .last = start, .before_last = start, .loop_depth = -1, .muted_depth = -1};
    p.lexer = lexer_open(a, d, file);
    dslparse(&p);
    lexer_close(p.lexer);
    return ast;
}
