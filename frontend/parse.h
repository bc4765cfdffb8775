/* From text to tree, in three layers that only ast_parse puts together:
 *     lexer.l    characters -> tokens: words, numbers, strings, symbols, one NEWLINE per line
 *     tokens.c   tokens -> tokens: newlines that end no statement vanish, contextual keywords are told from
 *                names, brackets are matched; one token of lookahead and a stack of open brackets
 *     parser.y   tokens -> tree: a plain LALR(1) grammar
 * syntax_error.c words what the parser could not read.  This header is private to the four. */
#ifndef FUSEC_FRONTEND_PARSE_H
#define FUSEC_FRONTEND_PARSE_H
#include "frontend/ast.h"
#include "frontend/diag.h"

enum {
    MAX_FILE_BYTES = 16 << 20,
    MAX_NESTING = 200, /* brackets, braces and `else if` inside each other */
    MAX_HEIGHT = 1000  /* of an expression tree: a long chain of operators is as high as it is long */
};

typedef struct Token {
    int kind; /* a TOK_ of the grammar, 0 at the end of the file */
    SrcLoc loc;
    const char *text; /* the word or symbol as written; of a STRING: its value */
    int64_t integer;
    double number;
    bool first; /* first of its line */
    int indent; /* column of the first token of its line */
} Token;

/* `normal(0.02)` after `init` */
typedef struct Init {
    Name name;
    ArgList args;
} Init;

typedef struct Lexer Lexer;
/* Errors go to `d`, unless `quiet`; what cannot be read is a token of kind TOK_DSLerror, from which the grammar
 * recovers without a word of its own. */
Lexer *lexer_open(Arena *a, Diag *d, int file);
void lexer_next(Lexer *lexer, Token *token, bool quiet);
void lexer_close(Lexer *lexer);

typedef struct Bracket {
    Token open;
    bool binders; /* of a reduction: what follows them is its body */
    int else_ifs; /* of the `if` chain at this level, each of which nests the tree once more */
} Bracket;

typedef struct Parser {
    Arena *arena;
    Diag *diag;
    Lexer *lexer;
    Ast *ast;

    Token held, peeked; /* read but not yet given: first the one held, then the one peeked */
    bool has_held, has_peeked;
    Token last, before_last; /* what the grammar was given last; kind NEWLINE at the start */
    VEC(Bracket) open;
    int nesting;
    Bracket suspect; /* a `{` whose `}` stood at another indentation, if any */
    bool has_suspect;
    int closing;     /* virtual `}` still to be given, after a missing one was reported */
    bool close_line; /* then a NEWLINE */
    int loop_depth;  /* brackets open at a `repeat` that waits for its `{`, -1: none waits */
    int line_indent; /* of the statement being read */
    bool binders_closed; /* the last token closed the binders of a reduction */
    Token joint;     /* the last token outside brackets that a newline followed without ending a statement */
    bool panic;      /* an error was reported: silence until the end of the line or a brace */
    int muted_depth; /* silence even in the blocks of this statement, up to a NEWLINE at this depth; -1: none */
    bool refused;    /* a limit was passed: the rest of the file is not read */
} Parser;

/* The next token for the grammar, its kind being the result. */
int tokens_next(Parser *p, Token *token);
/* The grammar could not use the last token: silence until the line ends, unless it just did. */
void tokens_panic(Parser *p);
/* The same for the blocks that the statement opens. */
void tokens_mute(Parser *p);
bool tokens_silent(const Parser *p);
/* Reports that a limit was passed; what follows reads as the end of the file. */
void tokens_refuse(Parser *p, SrcLoc loc, const char *what, int limit);
bool token_ends_operand(int kind);
bool token_is_reserved(int kind);

/* Reports why `found` cannot follow what was given before it; `expected` are the kinds that can. */
void syntax_error(Parser *p, const Token *previous, const Token *found, const int *expected, int n_expected);

/* Constructors: `loc` is the whole expression; each refuses a tree that grows too high. */
Expr *expr_new(Parser *p, ExprKind kind, SrcLoc loc);
Expr *expr_done(Parser *p, Expr *e); /* computes the height from the operands */
Expr *expr_binary(Parser *p, AstOp op, SrcLoc loc, Expr *a, Expr *b);
Expr *expr_unary(Parser *p, AstOp op, SrcLoc loc, Expr *a);
Stmt *stmt_new(Parser *p, StmtKind kind, SrcLoc loc);
Top *top_new(Parser *p, TopKind kind, SrcLoc loc, Name name);
/* Appends, and reports a positional argument after a named one. */
void args_push(Parser *p, ArgList *args, Arg arg);

#endif
