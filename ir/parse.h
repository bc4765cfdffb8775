/* Reading graph text; private to parse.c (declarations, nodes, results) and parse_part.c (what they consist of).  After an
 * error, which the lexer keeps, everything reads as something harmless. */
#ifndef FUSEC_IR_PARSE_H
#define FUSEC_IR_PARSE_H
#include "ir/graph_text.h"

typedef struct Parse {
    Lexer lex;
    Arena *arena;
    Graph *graph;
    Model *model;
    int n_loops; /* names of the contraction being read */
    Token loop[MAX_LOOPS];
} Parse;

Dim graph_parse_dim(Parse *p);       /* 64, or a multiple of a symbol plus a constant */
Affine graph_parse_affine(Parse *p); /* of the loops' names, perhaps over a divisor */
int64_t graph_parse_integer(Parse *p, int64_t least, int64_t most);
double graph_parse_number(Parse *p);
const char *graph_parse_name(Parse *p);
void graph_parse_type(Parse *p, DType *t, Shape *s);

#endif
