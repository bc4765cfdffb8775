/* The state of the Tile IR reader; private to tile_text.c (words and names), tile_parse_index.c
 * (types, subscripts) and tile_parse.c (instructions, kernels).
 * Every function returns false (or NULL) after an error; the first error is kept. */
#ifndef FUSEC_IR_TILE_TEXT_H
#define FUSEC_IR_TILE_TEXT_H
#include "ir/tile.h"

enum { MAX_VALUES = 1 << 20, MAX_DEPTH = 48 }; /* value numbers in a text; parentheses and bodies */

typedef struct Parser {
    Arena *a;
    const char *text, *at;
    const char *error; /* the first */
    Kernel *k;
    VEC(char) defined; /* by value number */
    VEC(const char *) sym_names;
    VEC(int64_t) sym_bounds;
    int depth, divisions; /* of parentheses and bodies; of the current index expression */
} Parser;
typedef VEC(int) Ints;

bool text_fail(Parser *p, const char *message);                       /* here */
bool text_fail_at(Parser *p, const char *start, const char *message); /* at an earlier place */
void text_skip(Parser *p);                                            /* white space and comments */
bool text_accept(Parser *p, const char *s);                           /* a word or punctuation, if it is next */
bool text_expect(Parser *p, const char *s);
bool text_word(Parser *p, const char **out);
bool text_integer(Parser *p, int64_t least, int64_t most, int64_t *out);
bool text_small(Parser *p, int64_t least, int64_t most, int *out); /* bounds within int */
bool text_number(Parser *p, double *out);
int text_find_axis(const Parser *p, const char *name); /* -1: none */
int text_find_sym(const Parser *p, const char *name);
bool text_axis_name(Parser *p, int *out);
bool text_buffer_name(Parser *p, int *out);  /* %name */
bool text_value_number(Parser *p, int *out); /* %n, defined or not */
bool text_value(Parser *p, int *out);        /* %n, defined */
bool text_values(Parser *p, Ints *list);     /* one or more */

bool text_dim(Parser *p, Dim *out);     /* 64, or [scale*]S[+offset]<=bound */
bool text_dtype(Parser *p, DType *out);
bool text_type(Parser *p, TileType *t); /* f32[m:64,k:16] */
bool text_index(Parser *p, Inst *i);    /* an expression, added to i->index */
bool text_bound(Parser *p, const Index **x); /* one of a loop's bounds */

#endif
