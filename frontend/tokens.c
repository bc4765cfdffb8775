/* The layer between the lexer and the grammar.  The grammar is context-free; what depends on context is decided
 * here, with one token of lookahead and the stack of open brackets:
 *
 *   newlines    one ends a statement unless it is inside ( ) or [ ], after an infix operator or any of
 *               , = <- : .. . { and or not then else, or before { else then.  The others vanish.
 *   words       a contextual keyword is a keyword where a statement starts and no `= , [ <- . (` follows it, or
 *               where an operator could stand (`h in 0..3`, `x over xs axis 1`); anywhere else it is a name.
 *               `hyper` is one before a number, `scan` after `=` and before a name, `sum[` on one line a reduction.
 *   brackets    are matched: the grammar never sees an unbalanced one, except after an error on the same line.
 *
 * After an error the rest of the statement is read in silence (`panic`): its line and the lines below that are
 * indented more, or up to a brace.  That also ends the reading of a bracket that was never closed. */
#include "frontend/parse.h"
#include "parser.h"
#include <string.h>

enum { LINE_START = 1, INFIX = 2, TOP_START = 4 };

static const struct Contextual {
    const char *word;
    int kind, where;
} contextual[] = {
    {"dim", TOK_DIM, TOP_START | LINE_START},
    {"let", TOK_LET, TOP_START | LINE_START},
    {"layer", TOK_LAYER, TOP_START | LINE_START},
    {"optimizer", TOK_OPTIMIZER, TOP_START | LINE_START},
    {"model", TOK_MODEL, TOP_START | LINE_START},
    {"use", TOK_USE, TOP_START | LINE_START},
    {"scan", TOK_SCAN, LINE_START},
    {"checkpoint", TOK_CHECKPOINT, LINE_START},
    {"save", TOK_SAVE, LINE_START},
    {"recompute", TOK_RECOMPUTE, LINE_START},
    {"state", TOK_STATE, LINE_START},
    {"input", TOK_INPUT, LINE_START},
    {"output", TOK_OUTPUT, LINE_START},
    {"precision", TOK_PRECISION, LINE_START},
    {"train", TOK_TRAIN, LINE_START},
    {"in", TOK_IN, INFIX},
    {"over", TOK_OVER, INFIX},
    {"axis", TOK_AXIS, INFIX},
    {"with", TOK_WITH, INFIX},
    {"only", TOK_ONLY, INFIX},
    {"clip_norm", TOK_CLIP_NORM, INFIX},
    {"init", TOK_INIT, INFIX},
    {"sharing", TOK_SHARING, INFIX},
};

static const char *const reductions[] = {"sum", "max", "min", "prod"};

bool token_ends_operand(int kind) {
    switch (kind) {
    case TOK_NAME:
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_STRING:
    case TOK_TRUE:
    case TOK_FALSE:
    case TOK_RPAREN:
    case TOK_RBRACKET: return true;
    default: return false;
    }
}

bool token_is_reserved(int kind) {
    switch (kind) {
    case TOK_FN:
    case TOK_PARAM:
    case TOK_AS:
    case TOK_AS_LOOP:
    case TOK_ZEROS:
    case TOK_ONES:
    case TOK_REPEAT:
    case TOK_EMIT:
    case TOK_RETURN:
    case TOK_IF:
    case TOK_IF_STMT:
    case TOK_THEN:
    case TOK_ELSE:
    case TOK_AND:
    case TOK_OR:
    case TOK_NOT:
    case TOK_TRUE:
    case TOK_FALSE: return true;
    default: return false;
    }
}

/* After these a newline does not count. */
static bool wants_more(int kind) {
    switch (kind) {
    case TOK_PLUS:
    case TOK_MINUS:
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_AT:
    case TOK_CARET:
    case TOK_EQ:
    case TOK_NE:
    case TOK_LT:
    case TOK_GT:
    case TOK_LE:
    case TOK_GE:
    case TOK_COMMA:
    case TOK_ASSIGN:
    case TOK_UPDATE:
    case TOK_COLON:
    case TOK_DOTS:
    case TOK_DOT:
    case TOK_LBRACE:
    case TOK_OR:
    case TOK_AND:
    case TOK_NOT:
    case TOK_THEN:
    case TOK_ELSE:
    case TOK_NEWLINE: return true;
    default: return false;
    }
}

/* ---- the lookahead ---------------------------------------------------------------------------- */

static void take(Parser *p, Token *token) {
    if (p->has_held) {
        *token = p->held;
        p->has_held = false;
        return;
    }
    if (p->has_peeked)
        *token = p->peeked;
    else
        lexer_next(p->lexer, token, tokens_silent(p));
    p->has_peeked = false;
}

/* The token comes again, before what is peeked. */
static void hold(Parser *p, const Token *token) {
    p->held = *token;
    p->has_held = true;
}

static const Token *peek(Parser *p) {
    if (!p->has_peeked) lexer_next(p->lexer, &p->peeked, tokens_silent(p));
    p->has_peeked = true;
    return &p->peeked;
}

/* ---- brackets --------------------------------------------------------------------------------- */

static bool in_bracket(const Parser *p) { return p->open.n > 0 && vec_last(p->open).open.kind != TOK_LBRACE; }

static const char *closer(const Token *open) {
    return open->kind == TOK_LPAREN ? ")" : open->kind == TOK_LBRACKET ? "]" : "}";
}

static void push(Parser *p, const Token *token) {
    const Bracket bracket = {.open = *token, .binders = p->last.kind == TOK_REDUCE};
    vec_push(p->arena, p->open, bracket);
    if (++p->nesting > MAX_NESTING) tokens_refuse(p, token->loc, "brackets and blocks nest", MAX_NESTING);
}

static void pop(Parser *p) {
    p->nesting -= 1 + vec_last(p->open).else_ifs;
    p->open.n--;
    if (p->loop_depth > p->open.n) p->loop_depth = -1;
}

/* Drops the brackets that are open above the innermost brace. */
static void pop_brackets(Parser *p) {
    while (in_bracket(p)) pop(p);
}

/* Where the text ends that `token` is the last of. */
static SrcLoc end_of(const Token *token) {
    SrcLoc loc = token->loc;
    if (token->kind == TOK_NEWLINE || token->kind == TOK_DSLerror) return loc;
    loc.line = loc.end_line;
    loc.col = loc.end_col++;
    return loc;
}

static void report_unclosed(Parser *p, SrcLoc at, const Token *open) {
    diag_report(p->diag, E0110, at, "missing `%s`: the `%s` of line %d is not closed", closer(open), open->text,
                open->loc.line);
    diag_note(p->diag, open->loc, "it was opened here");
}

static void brace_in_bracket(Parser *p, Token *brace) {
    const Token open = vec_last(p->open).open;
    if (!tokens_silent(p)) {
        diag_report(p->diag, E0109, brace->loc, "`%s` inside the `%s` of line %d", brace->text, open.text,
                    open.loc.line);
        diag_note(p->diag, open.loc, "it was opened here");
        diag_help(p->diag, "close it with `%s` before the brace", closer(&open));
    }
    pop_brackets(p);
    hold(p, brace);
    p->panic = true;
    brace->kind = TOK_DSLerror;
}

/* `)` or `]` */
static void close_bracket(Parser *p, Token *token) {
    const int opener = token->kind == TOK_RPAREN ? TOK_LPAREN : TOK_LBRACKET;
    if (in_bracket(p) && vec_last(p->open).open.kind == opener) {
        p->binders_closed = vec_last(p->open).binders;
        pop(p);
        return;
    }
    if (!tokens_silent(p) && in_bracket(p)) {
        const Token open = vec_last(p->open).open;
        diag_report(p->diag, E0111, token->loc, "`%s` cannot close the `%s` of line %d", token->text, open.text,
                    open.loc.line);
        diag_note(p->diag, open.loc, "it was opened here");
        diag_help(p->diag, "write `%s` first", closer(&open));
    } else if (!tokens_silent(p)) {
        diag_report(p->diag, E0111, token->loc, "`%s` without a `%s` before it", token->text,
                    opener == TOK_LPAREN ? "(" : "[");
    }
    if (in_bracket(p)) pop(p);
    if (in_bracket(p) && vec_last(p->open).open.kind == opener) pop(p);
    p->panic = true;
    token->kind = TOK_DSLerror;
}

/* A `}` that starts its line, but not at the column of the line that its `{` stands on, hints at where one is missing.
 */
static void suspect_brace(Parser *p, const Token *token) {
    const Bracket *bracket = &vec_last(p->open);
    if (p->has_suspect || !token->first || bracket->open.indent == token->indent) return;
    p->suspect = *bracket;
    p->has_suspect = true;
}

/* Reports the missing `}` and arranges for virtual ones, so that the grammar sees balanced text. */
static void missing_braces(Parser *p, const Token *found, SrcLoc at) {
    const Token *open = p->has_suspect ? &p->suspect.open : &vec_last(p->open).open;
    report_unclosed(p, at, open);
    p->closing = p->open.n;
    p->close_line = p->panic = true;
    hold(p, found);
}

static bool give_closing(Parser *p, Token *token) {
    if (p->closing > 0) {
        token->kind = TOK_RBRACE;
        token->text = "}";
        p->closing--;
        if (p->open.n) pop(p);
        return true;
    }
    if (!p->close_line) return false;
    p->close_line = p->has_suspect = p->panic = false;
    token->kind = TOK_NEWLINE;
    return true;
}

/* ---- newlines --------------------------------------------------------------------------------- */

static bool newline_counts(Parser *p) {
    while (peek(p)->kind == TOK_NEWLINE) p->has_peeked = false;
    const int next = p->peeked.kind;
    if (next == TOK_LBRACE || next == TOK_THEN || next == TOK_ELSE) return false;
    if (p->panic && next != 0 && next != TOK_RBRACE && p->peeked.indent > p->line_indent) return false;
    if (in_bracket(p)) {
        if (!p->panic || next == TOK_RPAREN || next == TOK_RBRACKET) return false;
        pop_brackets(p);
    }
    if (p->panic || !wants_more(p->last.kind)) return true;
    if (p->last.kind != TOK_NEWLINE && p->last.kind != TOK_LBRACE) p->joint = p->last;
    return false;
}

/* ---- words ------------------------------------------------------------------------------------ */

static bool at_line_start(const Parser *p) {
    return p->last.kind == TOK_NEWLINE || p->last.kind == TOK_LBRACE || p->last.kind == TOK_RBRACE;
}

/* What follows a word that starts a statement as a name. */
static bool follows_name(int kind) {
    switch (kind) {
    case TOK_ASSIGN:
    case TOK_COMMA:
    case TOK_LBRACKET:
    case TOK_UPDATE:
    case TOK_DOT:
    case TOK_LPAREN: return true;
    default: return false;
    }
}

static bool is_reduction(const Parser *p, const Token *token) {
    if (!p->has_peeked || p->peeked.kind != TOK_LBRACKET) return false;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (strcmp(token->text, reductions[i]) == 0) return true;
    return false;
}

static int word_kind(Parser *p, const Token *token) {
    const int next = peek(p)->kind;
    const bool starts = at_line_start(p), operator_place = token_ends_operand(p->last.kind) && !p->binders_closed;
    if (!starts && !operator_place) {
        if (is_reduction(p, token)) return TOK_REDUCE;
        if (strcmp(token->text, "hyper") == 0 && (next == TOK_INT || next == TOK_FLOAT)) return TOK_HYPER;
        if (strcmp(token->text, "scan") == 0 && next == TOK_NAME && p->last.kind == TOK_ASSIGN && !in_bracket(p))
            return TOK_SCAN;
        const bool filled = p->last.kind == TOK_ZEROS || p->last.kind == TOK_ONES;
        return filled && strcmp(token->text, "like") == 0 ? TOK_LIKE : TOK_NAME;
    }
    const int where = starts ? LINE_START : INFIX;
    for (size_t i = 0; i < sizeof contextual / sizeof *contextual; i++) {
        const struct Contextual *c = &contextual[i];
        if (!(c->where & where) || strcmp(c->word, token->text) != 0) continue;
        if (starts && p->open.n == 0) return c->where & TOP_START ? c->kind : TOK_NAME;
        return starts && follows_name(next) ? TOK_NAME : c->kind;
    }
    return TOK_NAME;
}

/* ---- statements and definitions ----------------------------------------------------------------- */

/* A definition at the left margin inside a block: a `}` is missing above it. */
static bool starts_definition(const Parser *p, const Token *token) {
    if (!at_line_start(p) || p->open.n == 0 || in_bracket(p) || token->indent != 1) return false;
    switch (token->kind) {
    case TOK_FN:
    case TOK_LAYER:
    case TOK_OPTIMIZER:
    case TOK_MODEL: return true;
    default: return false;
    }
}

/* `if` starts a statement at a line's start and after the `else` of one. */
static void take_if(Parser *p, Token *token) {
    const bool chained = p->last.kind == TOK_ELSE && p->before_last.kind == TOK_RBRACE;
    if (!at_line_start(p) && !chained) return;
    token->kind = TOK_IF_STMT;
    if (!chained || p->open.n == 0) return;
    vec_last(p->open).else_ifs++;
    if (++p->nesting > MAX_NESTING) tokens_refuse(p, token->loc, "`else if` branches nest", MAX_NESTING);
}

static void end_line(Parser *p) {
    p->panic = false;
    p->loop_depth = -1;
    if (p->open.n <= p->muted_depth) p->muted_depth = -1;
    if (p->open.n == 0) return;
    p->nesting -= vec_last(p->open).else_ifs;
    vec_last(p->open).else_ifs = 0;
}

static void take_brace(Parser *p, Token *token) {
    if (in_bracket(p)) {
        brace_in_bracket(p, token);
        return;
    }
    if (token->kind == TOK_LBRACE) {
        push(p, token);
        p->loop_depth = -1;
    } else if (p->open.n > 0) {
        suspect_brace(p, token);
        pop(p);
        if (p->open.n == 0) p->has_suspect = false; /* this definition is closed, however it is indented */
    } else {
        if (!tokens_silent(p)) diag_report(p->diag, E0111, token->loc, "`}` without a `{` before it");
        token->kind = TOK_DSLerror;
        p->panic = true;
        return;
    }
    p->panic = false;
}

static void end_file(Parser *p, Token *token) {
    token->loc = end_of(&p->last);
    if (in_bracket(p)) {
        if (!tokens_silent(p)) report_unclosed(p, token->loc, &vec_last(p->open).open);
        pop_brackets(p);
        hold(p, token);
        p->panic = true;
        token->kind = TOK_DSLerror;
    } else if (p->open.n > 0) {
        missing_braces(p, token, token->loc);
        give_closing(p, token);
    } else if (p->last.kind != TOK_NEWLINE) {
        hold(p, token);
        token->kind = TOK_NEWLINE;
        p->panic = false;
    }
}

static void classify(Parser *p, Token *token) {
    if (p->last.kind == TOK_DOT && token_is_reserved(token->kind))
        token->kind = TOK_NAME;
    else if (token->kind == TOK_NAME && p->last.kind != TOK_DOT)
        token->kind = word_kind(p, token);
    p->binders_closed = false;
    if (at_line_start(p) && !p->panic) p->line_indent = token->indent;
    switch (token->kind) {
    case 0: end_file(p, token); break;
    case TOK_LPAREN:
    case TOK_LBRACKET: push(p, token); break;
    case TOK_RPAREN:
    case TOK_RBRACKET: close_bracket(p, token); break;
    case TOK_LBRACE:
    case TOK_RBRACE: take_brace(p, token); break;
    case TOK_IF: take_if(p, token); break;
    case TOK_REPEAT: p->loop_depth = p->open.n; break;
    case TOK_AS:
        if (p->loop_depth == p->open.n) token->kind = TOK_AS_LOOP;
        break;
    case TOK_NEWLINE: end_line(p); break;
    case TOK_DSLerror: p->panic = true; break;
    default: break;
    }
}

static void next(Parser *p, Token *token) {
    *token = p->last;
    if (give_closing(p, token)) return;
    do take(p, token);
    while (token->kind == TOK_NEWLINE && !newline_counts(p));
    classify(p, token);
    if (!starts_definition(p, token)) return;
    missing_braces(p, token, token->loc);
    give_closing(p, token);
}

int tokens_next(Parser *p, Token *token) {
    if (p->refused) {
        *token = (Token){.loc = p->last.loc};
        return 0;
    }
    next(p, token);
    p->before_last = p->last;
    p->last = *token;
    return p->refused ? 0 : token->kind;
}

void tokens_panic(Parser *p) {
    const Token *below;
    switch (p->last.kind) {
    case TOK_LBRACE:
    case TOK_RBRACE:
    case 0: return;
    case TOK_NEWLINE: /* the lines below it that are indented more belong to the broken statement */
        below = p->has_held ? &p->held : peek(p);
        p->panic = below->kind != 0 && below->kind != TOK_RBRACE && below->indent > p->line_indent;
        return;
    default: p->panic = true;
    }
    /* the bracket may have been left open at the end of the line above */
    if (in_bracket(p) && p->last.first && p->last.indent <= p->line_indent) pop_brackets(p);
}

void tokens_mute(Parser *p) { p->muted_depth = p->open.n - (p->last.kind == TOK_LBRACE); }

bool tokens_silent(const Parser *p) { return p->panic || p->refused || p->muted_depth >= 0; }

void tokens_refuse(Parser *p, SrcLoc loc, const char *what, int limit) {
    if (p->refused) return;
    diag_report(p->diag, E0108, loc, "%s more than %d deep", what, limit);
    diag_help(p->diag, "name a part of it and use the name");
    p->refused = true;
}
