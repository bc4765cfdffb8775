/* The syntax tree, as the grammar builds it: no names resolved, nothing checked. */
#ifndef FUSEC_FRONTEND_AST_H
#define FUSEC_FRONTEND_AST_H
#include "ir/arena.h"
#include "ir/ops.h"
#include "ir/vec.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef VEC(Expr *) ExprList;
typedef VEC(Stmt *) StmtList;

typedef struct Name {
    const char *text;
    SrcLoc loc;
} Name;
typedef VEC(Name) NameList;

/* A call argument or formal: `name = value`, where value may be a range. */
typedef struct Arg {
    Name name;   /* text NULL when positional */
    Expr *value; /* formals: the default, or NULL */
} Arg;
typedef VEC(Arg) ArgList;

/* One item between brackets after an expression: an index, `...`, or lo:hi:step (each may be NULL). */
typedef enum { ITEM_INDEX, ITEM_ELLIPSIS, ITEM_SLICE } ItemKind;
typedef struct Item {
    ItemKind kind;
    Expr *index, *lo, *hi, *step;
    SrcLoc loc;
} Item;
typedef VEC(Item) ItemList;

/* `h in 0..H/2`; range NULL when not given */
typedef struct Binder {
    Name name;
    Expr *range; /* EXPR_RANGE */
} Binder;
typedef VEC(Binder) BinderList;

typedef enum {
    EXPR_INT, EXPR_FLOAT, EXPR_BOOL, EXPR_STRING,
    EXPR_NAME,
    EXPR_LIST,     /* [a, b] */
    EXPR_RANGE,    /* a..b: after `in` and as argument values only */
    EXPR_UNARY,    /* - not */
    EXPR_BINARY,   /* + - * / @ ^ == != < > <= >= and or */
    EXPR_IF,       /* if c then a else b */
    EXPR_REDUCE,   /* sum[binders] body; also max min prod */
    EXPR_CALL,     /* name(args) as instance, or sharing instance */
    EXPR_METHOD,   /* a.name or a.name(args): x.dim(0), x.rank */
    EXPR_SUBSCRIPT,/* a[items] */
    EXPR_FILL,     /* zeros [..] / ones [..] */
    EXPR_LIKE,     /* zeros like a / ones like a */
    EXPR_PARAM,    /* param [shape] init kind(args) as name */
    EXPR_HYPER     /* hyper 1e-3 as name */
} ExprKind;

typedef enum {
    AST_NEG, AST_NOT, AST_ADD, AST_SUB, AST_MUL, AST_DIV, AST_MATMUL, AST_POW,
    AST_EQ, AST_NE, AST_LT, AST_GT, AST_LE, AST_GE, AST_AND, AST_OR
} AstOp;

struct Expr {
    ExprKind kind;
    SrcLoc loc;        /* the whole expression; end_col is one past its last byte */
    int height;        /* of the tree: 1 without operands; at most 1000, so that walks may recurse */
    AstOp op;          /* UNARY BINARY */
    int64_t integer;   /* INT; BOOL: 0 or 1; FILL LIKE: 0 zeros, 1 ones */
    double number;     /* FLOAT; HYPER */
    Name name;         /* NAME CALL METHOD; STRING: text; REDUCE: "sum"..; PARAM: init kind */
    Name as;           /* CALL PARAM HYPER; text NULL when absent */
    Name sharing;      /* CALL; likewise */
    Expr *a, *b, *c;   /* operands; RANGE a..b; IF a then b else c; REDUCE body a; SUBSCRIPT METHOD LIKE a */
    ExprList list;     /* LIST; FILL and PARAM shape */
    ArgList args;      /* CALL METHOD; PARAM: arguments of init */
    bool has_args;     /* METHOD: parentheses were written */
    ItemList items;    /* SUBSCRIPT */
    BinderList binders;/* REDUCE */
};

/* `x over xs axis 1` (over set) or `h = init` (over NULL) */
typedef struct ScanSeq {
    Name name;
    Expr *over, *axis, *init;
} ScanSeq;
typedef struct Scan {
    VEC(ScanSeq) seqs;
    StmtList body;
} Scan;

/* a pick of `only`: "c2.w"[..., 0:8] */
typedef struct Pick {
    Name pattern;
    ItemList items;
    bool sliced;
} Pick;
typedef struct Train {
    Name loss, optimizer;
    ArgList args;
    VEC(Pick) only;
    Expr *clip_norm; /* NULL: none */
} Train;

typedef enum {
    STMT_ASSIGN,     /* names = values; or names = scan */
    STMT_INDEXED,    /* name[binders] = value */
    STMT_UPDATE,     /* name <- value */
    STMT_RETURN, STMT_EMIT, /* values */
    STMT_IF,         /* value, body, orelse */
    STMT_REPEAT,     /* value times, or index in range value, as name, body; names = what it emits */
    STMT_SCAN,       /* scan without names */
    STMT_CHECKPOINT, /* body */
    STMT_SAVE, STMT_RECOMPUTE, /* names */
    STMT_STATE,      /* name = value */
    STMT_INPUT,      /* name : type shape in range */
    STMT_OUTPUT,     /* name [: type] [= value] */
    STMT_PRECISION,  /* name ["weights" name] */
    STMT_TRAIN
} StmtKind;

struct Stmt {
    StmtKind kind;
    SrcLoc loc;
    NameList names;      /* ASSIGN SAVE RECOMPUTE REPEAT; others use names.at[0] */
    ExprList values;     /* ASSIGN RETURN EMIT; others use values.at[0] */
    BinderList binders;  /* INDEXED */
    Scan *scan;          /* SCAN, ASSIGN from scan */
    StmtList body, orelse;
    bool has_else;
    Name as, index;      /* REPEAT, TRAIN as; text NULL when absent */
    Name dtype;          /* INPUT */
    ExprList shape;      /* INPUT */
    Expr *range;         /* INPUT, or NULL */
    Train *train;
};

typedef enum { TOP_DIM, TOP_LET, TOP_FN, TOP_LAYER, TOP_OPTIMIZER, TOP_MODEL, TOP_USE } TopKind;
typedef struct Top {
    TopKind kind;
    SrcLoc loc;
    Name name;           /* USE: the string */
    Expr *value;         /* DIM LET */
    bool bounded;        /* DIM: `<=` */
    ArgList formals;
    StmtList body;
} Top;

typedef struct Ast {
    VEC(Top *) tops;     /* `dim A = 1, B = 2` gives two */
    int file;
} Ast;

#endif
