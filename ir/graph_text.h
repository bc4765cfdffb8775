/* The graph's text form, shared by print.c, parse.c and the lexer. */
#ifndef FUSEC_IR_GRAPH_TEXT_H
#define FUSEC_IR_GRAPH_TEXT_H
#include "ir/graph.h"

extern const char *const phase_text[3];       /* by Phase; "" for forward, which is not printed */
extern const char loop_letter[MAX_LOOPS + 1]; /* the printed name of a contraction's loops */

/* Token kinds past single characters, which stand for themselves. */
typedef enum {
    TOKEN_END = 256, /* of the text, or after an error */
    TOKEN_NAME,
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_STRING,
    TOKEN_VALUE, /* %12 */
    TOKEN_ARROW, /* -> */
    TOKEN_GETS,  /* <- */
    TOKEN_LE,    /* <= */
    TOKEN_EQ,    /* == */
    TOKEN_RANGE  /* .. */
} TokenKind;

typedef struct Token {
    int kind; /* TokenKind, or a character */
    const char *text;
    int length;
    int line, col;
    int64_t integer; /* INTEGER, VALUE */
    double number;   /* INTEGER, FLOAT */
} Token;

/* Copying a Lexer saves its place.  After an error every token is TOKEN_END, so that callers' loops
 * end; the first error stays. */
typedef struct Lexer {
    Arena *arena;
    const char *at;
    int line, col;
    Token token;
    const char *error;
} Lexer;

Lexer graph_lexer_start(Arena *a, const char *text); /* at the first token */
void graph_lexer_next(Lexer *l);
void graph_lexer_fail(Lexer *l, const Token *where, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool graph_lexer_is(const Lexer *l, int kind);
bool graph_lexer_word(Lexer *l, const char *word);             /* takes it if it is there */
bool graph_lexer_take(Lexer *l, int kind);                     /* likewise */
void graph_lexer_expect(Lexer *l, int kind, const char *what); /* takes it or fails */
bool token_is(const Token *t, const char *word);
/* A string token's characters; names with NUL or bad escapes fail. */
const char *graph_lexer_string(Lexer *l);

#endif
