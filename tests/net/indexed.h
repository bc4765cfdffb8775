// Indexed definitions: what the two kinds of body share, the product of factors and the tree.
#pragma once
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"

enum { MAX_FACTORS = 4, MAX_NODES = 28 };
typedef enum { F_READ, F_SQUARE, F_TANH, F_ABS, F_INDEX, F_COMPARE, F_FORMS } FactorKind;
typedef enum {
    N_NUMBER, N_INDEX, N_MOD, N_READ, N_NEG, N_SIN, N_TANH, N_ABS, N_SQUARE, N_ADD, N_SUB, N_MUL, N_DIV, N_MAX, N_MIN,
    N_WHERE_INDEX, N_WHERE_VALUE, N_SUM, N_MOST, N_LEAST, N_PROD
} NodeKind;

typedef struct {
    int coefficient[MAX_INDICES], add, over; // (sum + add) / over
    int ids;                                 // argument that is read at the one index, or -1
} Subscript;
typedef struct {
    FactorKind kind;
    int arg, index, other; // F_INDEX: float(index); F_COMPARE: float(index < other)
    Subscript at[MAX_RANK];
} Factor;
typedef struct {
    NodeKind kind;
    int child[3];
    int from, to; // a reduction's indices; elsewhere two of those that are visible
    double number;
    Factor read;
} Node;
struct Body {
    int left, count; // indices: on the left, all
    int low[MAX_INDICES], high[MAX_INDICES];
    bool stated[MAX_INDICES], follows[MAX_INDICES], fixed[MAX_INDICES]; // follows: its range is of a bounded axis
    int reduction; // -1: none
    int nfactors;
    bool beside; // the last factor stands beside the reduction
    double scale;
    bool integer; // its reads are of integers, and so is what it gives
    Factor factor[MAX_FACTORS];
    int nnodes; // of a tree, whose root is the last; then there are no factors
    Node node[MAX_NODES];
};

int index_whole(const Subscript *s); // the one index that the subscript is, or -1
bool draw_read(Gen *g, Value *v, Body *b, Factor *f, int visible);
bool fits_read(const Prog *p, const Value *v, Body *b, const Factor *f, bool *seen);
bool settle_ranges(Value *v, const bool *seen);
int read_factor(const Eval *e, const Value *v, const Factor *f, const int *index); // -1: outside
void print_read(FILE *f, const Prog *p, const Value *v, const Factor *x, bool torch);
void print_binders(FILE *f, const Body *b, int from, int to, bool torch);
void print_lambda(FILE *f, int from, int to);
char index_letter(int i);
bool infer_tree(const Prog *p, Value *v);
void print_tree(FILE *f, const Prog *p, const Value *v, bool torch);
