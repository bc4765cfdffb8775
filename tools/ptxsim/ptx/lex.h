/* Tokens of PTX text (PTX ISA, "Syntax").  A dotted word (".f32", ".entry") is one token, so that
 * "ld.global.f32" is a word followed by two dotted words.  Token text points into the source. */
#pragma once
#include <stdint.h>
#include <stddef.h>

typedef enum TokenKind {
    TOK_END,
    TOK_WORD,   /* identifier: register, label, function, opcode, "_" */
    TOK_DOT,    /* dotted word, text without the dot */
    TOK_INT,    /* integer in `bits` */
    TOK_F32,    /* 0fXXXXXXXX: IEEE bits in `bits` */
    TOK_F64,    /* 0dXXXXXXXXXXXXXXXX or a decimal float: IEEE double bits in `bits` */
    TOK_STRING, /* text without the quotes */
    TOK_PUNCT,  /* one character */
    TOK_BAD,    /* a byte that starts no token, or a malformed number, string or comment */
} TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *text;
    uint32_t length;
    int32_t line, column; /* from 1 */
    uint64_t bits;
    char punct;
    const char *problem; /* TOK_BAD: what is wrong */
} Token;

typedef struct Lexer {
    const char *at, *end, *line_start;
    int32_t line;
} Lexer;

void lex_init(Lexer *, const char *text, size_t length);
Token lex_next(Lexer *);
