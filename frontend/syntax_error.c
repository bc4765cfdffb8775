/* What to say where the grammar could not go on.  Each mistake that has a remedy of its own is one row of
 * `explanations`, tried in order; what none of them knows is told by what could have followed. */
#include "frontend/parse.h"
#include "parser.h"
#include <string.h>

typedef struct Situation {
    Parser *p;
    Diag *diag;
    const Token *previous, *found;
    const int *expected;
    int n_expected;
    SrcLoc at; /* of what was found; past the previous token when the line ended */
} Situation;

static bool expects(const Situation *s, int kind) {
    for (int i = 0; i < s->n_expected; i++)
        if (s->expected[i] == kind) return true;
    return false;
}

static bool expects_expression(const Situation *s) { return expects(s, TOK_INT) && expects(s, TOK_MINUS); }
static bool after_operand(const Situation *s) { return expects(s, TOK_PLUS) && expects(s, TOK_CARET); }

static bool starts_statement(const Token *previous) {
    return previous->kind == TOK_NEWLINE || previous->kind == TOK_LBRACE;
}

static bool is_comparison(int kind) { return kind >= TOK_EQ && kind <= TOK_GE; }
static bool ends_line(int kind) { return kind == TOK_NEWLINE || kind == 0; }
static bool is_word(const Token *t) { return t->kind == TOK_NAME || token_is_reserved(t->kind); }
static bool says(const Token *t, const char *word) { return t->text && strcmp(t->text, word) == 0; }
static bool in_block(const Situation *s) { return s->p->open.n > 0; }

static const char *described(Arena *a, const Token *t) {
    if (t->kind == 0) return "the end of the file";
    if (t->kind == TOK_NEWLINE) return "the end of the line";
    if (t->kind == TOK_STRING) return "a string";
    return arena_printf(a, strlen(t->text) > 40 ? "`%.40s...`" : "`%s`", t->text);
}

/* ---- the mistakes that have an explanation of their own ---------------------------------------- */

static bool unclosed_bracket(const Situation *s) {
    const Parser *p = s->p;
    if (p->open.n == 0 || !s->found->first || s->found->indent > p->line_indent) return false;
    const Token *open = &vec_last(p->open).open;
    if (open->kind == TOK_LBRACE || open->loc.line == s->found->loc.line) return false;
    const char *closer = open->kind == TOK_LPAREN ? ")" : "]";
    diag_report(s->diag, E0110, s->at, "missing `%s`: the `%s` of line %d is not closed", closer, open->text,
                open->loc.line);
    diag_note(s->diag, open->loc, "it was opened here");
    return true;
}

static bool reserved_name(const Situation *s) {
    const Token *word = s->found;
    const bool bound = token_is_reserved(s->previous->kind) && s->previous->kind != TOK_AS &&
                       (s->found->kind == TOK_ASSIGN || s->found->kind == TOK_UPDATE);
    if (bound)
        word = s->previous;
    else if (!token_is_reserved(word->kind) || !expects(s, TOK_NAME) || expects_expression(s) ||
             starts_statement(s->previous))
        return false;
    diag_report(s->diag, E0119, word->loc, "`%s` is a reserved word and cannot be a name", word->text);
    return true;
}

static bool update_in_expression(const Situation *s) {
    if (s->found->kind != TOK_UPDATE || !after_operand(s)) return false;
    diag_report(s->diag, E0116, s->at, "`<-` changes a state and stands in no expression");
    diag_help(s->diag, "to compare with a negative number, put a space between: `a < -1`");
    return true;
}

static bool assign_in_expression(const Situation *s) {
    if (s->found->kind != TOK_ASSIGN || !after_operand(s)) return false;
    diag_report(s->diag, E0115, s->at, "`=` binds a name and stands in no expression");
    diag_help(s->diag, "`==` compares");
    return true;
}

static bool chained_comparison(const Situation *s) {
    if (!is_comparison(s->found->kind) || !after_operand(s)) return false;
    diag_report(s->diag, E0118, s->at, "comparisons do not chain");
    diag_help(s->diag, "write `a < b and b < c`");
    return true;
}

static bool stray_range(const Situation *s) {
    if (s->found->kind != TOK_DOTS || !after_operand(s)) return false;
    diag_report(s->diag, E0123, s->at, "a range stands only after `in` and as an argument");
    diag_help(s->diag, "a part of a tensor is `x[lo:hi]`");
    return true;
}

static bool missing_else(const Situation *s) {
    if (!expects(s, TOK_ELSE) || !after_operand(s)) return false;
    diag_report(s->diag, E0122, s->at, "an `if` expression needs an `else`");
    diag_help(s->diag, "write `if c then a else b`");
    return true;
}

static bool braces_in_expression(const Situation *s) {
    if (s->found->kind != TOK_LBRACE || !expects(s, TOK_THEN)) return false;
    tokens_mute(s->p);
    diag_report(s->diag, E0112, s->at, "this `if` is an expression: it needs `then`, not a block");
    diag_help(s->diag, "write `if c then a else b`");
    return true;
}

static bool stray_else(const Situation *s) {
    if (s->found->kind != TOK_ELSE) return false;
    diag_report(s->diag, E0112, s->at, "`else` without an `if` before it");
    return true;
}

static bool scan_in_expression(const Situation *s) {
    if (s->previous->kind != TOK_ASSIGN && s->previous->kind != TOK_UPDATE) return false;
    if (!expects_expression(s) || s->found->kind != TOK_SCAN) return false;
    diag_report(s->diag, E0112, s->at, "`scan` stands only on the right of a statement `names = scan ...`");
    return true;
}

static bool hyper_of_expression(const Situation *s) {
    if (s->previous->kind != TOK_NAME || !says(s->previous, "hyper") || !after_operand(s)) return false;
    if (!is_word(s->found)) return false;
    diag_report(s->diag, E0112, s->at, "`hyper` takes a number, its default");
    diag_help(s->diag, "write it as in `lr = hyper 1e-3`");
    return true;
}

static const char *const body_statements[] = {"input",     "output", "state",      "save", "recompute",
                                              "precision", "train",  "checkpoint", "scan"};

static bool is_body_statement(const Token *t) {
    for (size_t i = 0; i < sizeof body_statements / sizeof *body_statements; i++)
        if (says(t, body_statements[i])) return true;
    return t->kind == TOK_RETURN || t->kind == TOK_EMIT || t->kind == TOK_REPEAT || t->kind == TOK_IF_STMT;
}

/* The word of this language for one of another, or NULL. */
static const char *translated(const char *word) {
    static const char *const words[][2] = {
        {"def", "fn"},     {"func", "fn"},     {"function", "fn"}, {"const", "let"},   {"var", "let"},
        {"import", "use"}, {"include", "use"}, {"from", "use"},    {"class", "layer"}, {"module", "layer"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], word) == 0) return words[i][1];
    return NULL;
}

/* At the top level only definitions stand. */
static bool statement_at_top(const Situation *s) {
    if (in_block(s) || s->previous->kind != TOK_NEWLINE || !expects(s, TOK_MODEL)) return false;
    const Token *t = s->found;
    if (t->kind != TOK_NAME && !is_body_statement(t)) return false;
    if (is_body_statement(t)) {
        diag_report(s->diag, E0124, s->at, "`%s` stands only inside the braces of a model or function", t->text);
        return true;
    }
    diag_report(s->diag, E0124, s->at, "`%s` does not start a definition", t->text);
    static const char *const starts[] = {"dim", "let", "fn", "layer", "optimizer", "model", "use"};
    const char *near = translated(t->text);
    if (!near) near = diag_nearest(t->text, starts, (int)(sizeof starts / sizeof *starts));
    if (near)
        diag_help(s->diag, "did you mean `%s`?", near);
    else
        diag_help(s->diag, "a constant is `let %s = ...`; everything else stands inside a model or function", t->text);
    return true;
}

static bool definition_in_block(const Situation *s) {
    if (!in_block(s) || !starts_statement(s->previous)) return false;
    switch (s->found->kind) {
    case TOK_LET:
    case TOK_DIM:
        diag_report(s->diag, E0124, s->at, "`%s` stands only at the top level", s->found->text);
        diag_help(s->diag, "inside a body write `name = value`");
        return true;
    case TOK_FN:
    case TOK_LAYER:
    case TOK_OPTIMIZER:
    case TOK_MODEL:
    case TOK_USE:
        diag_report(s->diag, E0124, s->at, "`%s` stands only at the top level", s->found->text);
        diag_help(s->diag, "move the definition out of the block, or close the block before it");
        return true;
    default: return false;
    }
}

static bool expression_statement(const Situation *s) {
    const bool at_start = in_block(s) && starts_statement(s->previous) && expects(s, TOK_RETURN);
    const bool after_name = s->previous->kind == TOK_NAME && expects(s, TOK_ASSIGN) && expects(s, TOK_UPDATE);
    if (at_start && !ends_line(s->found->kind)) {
        diag_report(s->diag, E0113, s->at, "a statement cannot start with `%s`", s->found->text);
        diag_help(s->diag, "a line goes on after an operator or inside brackets: end the line above with it, or bind "
                           "the value to a name");
        return true;
    }
    if (!after_name) return false;
    if (is_word(s->found) || s->found->kind == TOK_STRING || s->found->kind == TOK_INT) return false;
    diag_report(s->diag, E0113, s->previous->loc, "an expression is not a statement");
    diag_help(s->diag, "bind its value, `name = ...`, or `return` it");
    return true;
}

/* `x =` and nothing more on the line: the next line was taken for its value. */
static bool missing_value(const Situation *s) {
    const Token *joint = &s->p->joint;
    if (!s->previous->first || s->previous->kind != TOK_NAME || s->found->kind != TOK_NAME || s->found->first)
        return false;
    if (joint->loc.line == 0 || joint->loc.line >= s->previous->loc.line) return false;
    SrcLoc at = joint->loc;
    at.col = at.end_col++;
    diag_report(s->diag, E0112, at, "expected an expression after `%s`, found the end of the line", joint->text);
    return true;
}

/* `train loss as with sgd(..)`: `with` was taken for the name. */
static bool missing_line_name(const Situation *s) {
    if (!says(s->previous, "with") || !expects(s, TOK_WITH)) return false;
    diag_report(s->diag, E0112, s->previous->loc, "expected the name of the `train` line after `as`, found `with`");
    diag_help(s->diag, "`train loss as g with sgd(lr = 0.1)` is a step by itself; without `as` all such lines are one step");
    return true;
}

/* Statements that other languages have and this one writes differently. */
static bool foreign_statement(const Situation *s) {
    static const char *const known[][2] = {
        {"for", "`repeat n { ... }` is unrolled; `scan x over xs { ... }` walks along a tensor"},
        {"while", "`repeat n { ... }` is unrolled; `scan x over xs { ... }` walks along a tensor"},
        {"elif", "write `else if`"},
        {"def", "functions stand at the top level: `fn name(x) { ... }`"},
        {"const", "write `name = value`"},
        {"var", "write `name = value`"},
    };
    if (s->previous->kind != TOK_NAME || !expects(s, TOK_ASSIGN) || !expects(s, TOK_UPDATE)) return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!says(s->previous, known[i][0])) continue;
        diag_report(s->diag, E0112, s->previous->loc, "`%s` starts no statement", s->previous->text);
        diag_help(s->diag, "%s", known[i][1]);
        return true;
    }
    return false;
}

/* `a if c else b` */
static bool condition_last(const Situation *s) {
    if (s->found->kind != TOK_IF || !after_operand(s) || s->found->first) return false;
    diag_report(s->diag, E0112, s->at, "`if` after a value");
    diag_help(s->diag, "write `if c then a else b`");
    return true;
}

/* `x[0] = 1` */
static bool element_assigned(const Situation *s) {
    if (s->previous->kind != TOK_LBRACKET || !expects(s, TOK_NAME) || expects_expression(s)) return false;
    if (s->p->open.n == 0 || vec_last(s->p->open).binders || vec_last(s->p->open).open.kind != TOK_LBRACKET)
        return false;
    diag_report(s->diag, E0112, s->at, "expected the name of an index after `[`, found %s",
                described(s->p->arena, s->found));
    diag_help(s->diag, "`y[i, j] = ...` defines the whole of y; `update(x, part, start)` replaces a part of x");
    return true;
}

static bool second_statement(const Situation *s) {
    if (!expects(s, TOK_NEWLINE) || s->found->first || ends_line(s->found->kind)) return false;
    const int k = s->found->kind;
    if (k == TOK_AS && after_operand(s)) {
        diag_report(s->diag, E0125, s->at, "`as` names a call, a `param` or a `hyper`, and stands right after it");
        diag_help(s->diag, "with more to follow, in parentheses: `(linear(x, 8) as head)[0:2]`");
        return true;
    }
    if (!is_word(s->found) && (k < TOK_DIM || k > TOK_TRAIN)) return false;
    if (s->previous->kind != TOK_RBRACE && !after_operand(s) && !is_body_statement(s->found)) return false;
    diag_report(s->diag, E0125, s->at, "`%s` starts something new on the same line", s->found->text);
    diag_help(s->diag, "put each statement on a line of its own; between two values stands an operator or a comma");
    return true;
}

static bool (*const explanations[])(const Situation *) = {
    unclosed_bracket,   reserved_name,       statement_at_top,     definition_in_block,  foreign_statement,
    condition_last,     element_assigned,    expression_statement, update_in_expression, assign_in_expression,
    chained_comparison, stray_range,         stray_else,           braces_in_expression, missing_else,
    scan_in_expression, hyper_of_expression, missing_value,        second_statement,
    missing_line_name,
};

/* ---- what could have followed -------------------------------------------------------------------- */

/* Symbols worth naming, in the order in which they are named; after an operand, those that would only extend it are
 * left out. */
static const struct {
    int kind;
    const char *text;
} nameable[] = {
    {TOK_ASSIGN, "`=`"},
    {TOK_UPDATE, "`<-`"},
    {TOK_COLON, "`:`"},
    {TOK_LPAREN, "`(`"},
    {TOK_LBRACKET, "`[`"},
    {TOK_RPAREN, "`)`"},
    {TOK_RBRACKET, "`]`"},
    {TOK_COMMA, "`,`"},
    {TOK_DOTS, "`..`"},
    {TOK_THEN, "`then`"},
    {TOK_ELSE, "`else`"},
    {TOK_IN, "`in`"},
    {TOK_OVER, "`over`"},
    {TOK_WITH, "`with`"},
    {TOK_INIT, "`init`"},
    {TOK_LE, "`<=`"},
    {TOK_LBRACE, "`{`"},
    {TOK_STRING, "a string"},
    {TOK_NEWLINE, "the end of the line"},
    {TOK_RBRACE, "`}`"},
};

static bool is_extension(const Situation *s, int kind) {
    switch (kind) {
    case TOK_LBRACKET:
    case TOK_LPAREN:
    case TOK_LE: return after_operand(s);
    case TOK_DOTS: return expects(s, TOK_COMMA);
    case TOK_COLON: return after_operand(s) && expects(s, TOK_COMMA);
    case TOK_RBRACE: return expects(s, TOK_NEWLINE);
    default: return false;
    }
}

enum { MAX_NAMED = 4 };

static int wanted(const Situation *s, const char *names[MAX_NAMED]) {
    int n = 0;
    if (expects_expression(s)) {
        names[n++] = "an expression";
        if (expects(s, TOK_RPAREN)) names[n++] = "`)`";
        if (expects(s, TOK_RBRACKET)) names[n++] = "`]`";
        return n;
    }
    if (expects(s, TOK_INT) && expects(s, TOK_LPAREN))
        names[n++] = "a value";
    else if (expects(s, TOK_INT))
        names[n++] = "a number";
    else if (expects(s, TOK_NAME))
        names[n++] = "a name";
    for (size_t i = 0; i < sizeof nameable / sizeof *nameable && n < MAX_NAMED; i++)
        if (expects(s, nameable[i].kind) && !expects(s, TOK_INT) && !is_extension(s, nameable[i].kind))
            names[n++] = nameable[i].text;
    return n;
}

static const char *list(Arena *a, const char *const *names, int n) {
    const char *text = names[0];
    for (int i = 1; i < n; i++) text = arena_printf(a, "%s%s%s", text, i + 1 < n ? ", " : " or ", names[i]);
    return text;
}

static void expectation(const Situation *s) {
    Arena *a = s->p->arena;
    const char *names[MAX_NAMED];
    const int n = wanted(s, names);
    const char *found = described(a, s->found);
    const bool opens = s->previous->kind == TOK_NEWLINE;
    if (n == 0)
        diag_report(s->diag, E0112, s->at, "%s cannot stand here", found);
    else if (opens)
        diag_report(s->diag, E0112, s->at, "expected %s, found %s", list(a, names, n), found);
    else
        diag_report(s->diag, E0112, s->at, "expected %s after %s, found %s", list(a, names, n),
                    described(a, s->previous), found);
}

void syntax_error(Parser *p, const Token *previous, const Token *found, const int *expected, int n_expected) {
    Situation s = {.p = p,
                   .diag = p->diag,
                   .previous = previous,
                   .found = found,
                   .expected = expected,
                   .n_expected = n_expected,
                   .at = found->loc};
    static const Token line_end = {.kind = TOK_NEWLINE};
    if (found->first && previous->loc.line == p->joint.loc.line && previous->loc.col == p->joint.loc.col)
        s.found = found = &line_end; /* the mistake is above: nothing follows an operator on its line */
    if (ends_line(found->kind) && previous->loc.line > 0) {
        s.at.line = s.at.end_line = previous->loc.end_line;
        s.at.col = previous->loc.end_col;
        s.at.end_col = s.at.col + 1;
    }
    for (size_t i = 0; i < sizeof explanations / sizeof *explanations; i++)
        if (explanations[i](&s)) return;
    expectation(&s);
}
