/* What an expression means to the lowering interpreter: a constant, a tensor (a graph node), or
 * several results.  Values are small and passed by value; what they point at lives in the arena. */
#ifndef FUSEC_FRONTEND_VALUE_H
#define FUSEC_FRONTEND_VALUE_H
#include "ir/graph.h"

typedef enum {
    VAL_POISON, /* after an error: whatever uses it is silent */
    VAL_NONE,
    VAL_ALL,
    VAL_BOOL,
    VAL_INT,
    VAL_FLOAT,
    VAL_STRING,
    VAL_DIM, /* an extent that follows a bounded dimension */
    VAL_LIST,
    VAL_RANGE, /* at[0] .. at[1] */
    VAL_TUPLE, /* several results of one call */
    VAL_TENSOR
} ValueKind;

typedef struct Value Value;
struct Value {
    ValueKind kind;
    bool inexact;     /* INT: comes from a quotient with a remainder */
    int64_t i;        /* INT BOOL; LIST: how deep lists stand in lists */
    double f;         /* FLOAT */
    const char *text; /* STRING; INT: the dimension's name, or NULL */
    Dim dim;          /* DIM */
    int n;            /* LIST TUPLE RANGE */
    Value *at;
    Node *node; /* TENSOR */
};

static inline Value val_poison(void) { return (Value){.kind = VAL_POISON}; }
static inline Value val_int(int64_t i) { return (Value){.kind = VAL_INT, .i = i}; }
static inline Value val_float(double f) { return (Value){.kind = VAL_FLOAT, .f = f}; }
static inline Value val_bool(bool b) { return (Value){.kind = VAL_BOOL, .i = b}; }
static inline Value val_string(const char *s) { return (Value){.kind = VAL_STRING, .text = s}; }
static inline Value val_tensor(Node *n) { return (Value){.kind = n ? VAL_TENSOR : VAL_POISON, .node = n}; }
static inline bool val_is_number(Value v) { return v.kind == VAL_INT || v.kind == VAL_FLOAT; }

/* A fixed extent is an INT that keeps its name, a bounded one is a DIM. */
Value val_dim(Dim d);
/* The extent that an INT >= 0 or a DIM stands for; false for anything else. */
bool val_as_dim(Value v, Dim *out);
double val_number(Value v); /* of INT, FLOAT, BOOL */
/* "an integer", "a tensor f32[B=32, 8]": for messages */
const char *val_describe(Arena *a, Value v);
/* Equality of constants; values of different kinds differ (numbers compare by value). */
bool val_equal(Value x, Value y);
/* x*kx + y*ky of INT and DIM values; false when the two follow different symbols. */
bool val_dim_combine(Value x, int64_t kx, Value y, int64_t ky, Value *out);

#endif
