/* Graph IR: SSA nodes over tensors, one graph per entry point.
 *
 * Nodes stand in topological order in Graph.nodes.  Elementwise operands have equal shapes:
 * broadcasting is explicit.  Passes either edit values in place or rebuild into a new graph;
 * graph_verify() states what is legal and runs after every pass in test builds. */
#ifndef FUSEC_IR_GRAPH_H
#define FUSEC_IR_GRAPH_H
#include "ir/arena.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "ir/vec.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- contract --------------------------------------------------------------------------
 * out[o_0, .., o_{n_out-1}] = sum over loops n_out.. n_loops-1, where every guard holds and every
 * read is in range, of the product of operand reads.  Loops 0 .. n_out-1 are the output dims in
 * order.  Operand d-th subscript: affine(loops), or affine / divisor where the term is left out
 * unless the division is exact.  A contract may have one operand and no summed loop: a view. */
typedef struct Affine {
    int64_t c;                /* constant */
    int64_t coef[MAX_LOOPS];  /* per loop */
    int64_t divisor;          /* >= 1; used by subscripts and GUARD_RANGE */
} Affine;

typedef enum {
    GUARD_RANGE, /* lo <= affine / divisor < hi, division exact */
    GUARD_EQ     /* affine == 0 (divisor 1) */
} GuardKind;
typedef struct Guard {
    GuardKind kind;
    Affine e;
    int64_t lo;
    Dim hi;
} Guard;

typedef struct Contract {
    int n_loops, n_out;
    Dim extent[MAX_LOOPS];
    int n_operands;
    Affine (*map)[MAX_RANK]; /* [operand][dim of operand] */
    int n_guards;
    Guard *guard;
    bool to_f32; /* operands of f16 or bf16, result f32: the sum, kept in f32, is not rounded; of tf32 it never is */
} Contract;

/* What an op computes in where the program said so: `precision`.  Elementwise ops, reductions, contractions and gathers
 * of the forward graph carry it from lowering to pass_precision, which places dtypes by it and clears it. */
typedef enum { PRECISION_F32, PRECISION_TF32, PRECISION_BF16, PRECISION_F16, PRECISION_COUNT } Precision;
extern const char *const precision_name[PRECISION_COUNT];
bool op_has_precision(Op op);

/* The prefix y along an axis of x: y[i] = y[i-1] + x[i], from 0; y[i-1] * x[i], from 1; a second operand's a[i] * y[i-1] + x[i], from 0,
 * and x[i] where a[i] is 0: an infinity or NaN before it is forgotten. */
typedef enum { SCAN_SUM, SCAN_PROD, SCAN_LINEAR } ScanKind;

/* Attributes; which are meaningful follows from the op (ops.def). */
typedef struct Attr {
    int decl;                 /* PARAM STATE INPUT HYPER: index into the model's list */
    double value;             /* CONST, PAD */
    int axis;                 /* IOTA, SCAN, CONCAT */
    int stream;               /* RANDOM */
    DType dtype;              /* TYPE_ATTR ops: equals Node.dtype */
    Dim extent;               /* EXTENT; rows of scatters and of SLICE_AT's result */
    int n_axes;               /* TRANSPOSE BROADCAST; reductions (axes strictly increasing, may be none) */
    int8_t axes[MAX_RANK];
    Dim lo[MAX_RANK];         /* SLICE start (at run time lo = scale*S+offset, may be a bounded Dim), PAD */
    Dim hi[MAX_RANK];         /* PAD; SLICE: number of elements, the result's extents */
    int64_t step[MAX_RANK];   /* SLICE */
    ScanKind scan;
    bool reverse, exclusive;  /* SCAN; exclusive: y[i-1] in place of y[i], not of SCAN_LINEAR */
    const Contract *contract;
} Attr;

typedef struct Node Node;
typedef struct NodePool NodePool; /* node_pool.h */
struct Node { /* one line of the cache: walks over the graphs of deep models wait for memory */
    int id; /* position in Graph.nodes */
    Op op : 8;
    DType dtype : 8;
    Phase phase : 8;
    Precision precision : 7;
    bool again : 1; /* a clone for the backward pass (rematerialize.c): in no kernel of the forward one */
    int remat; /* 0, or which recomputation, or chunk of rows, this is: equal nodes with different numbers are never merged */
    int n_in;
    Node **in;
    const Attr *attr; /* never NULL; of the graph's pool, so that nodes share it */
    const Shape *shape; /* likewise */
    SrcLoc loc;
};
typedef VEC(Node *) NodeList;

/* ---- model-level declarations: the same for all entries ---------------------------------- */
typedef struct TensorDecl {
    const char *name; /* parameter path "h.3.qkv.w", state path, input or output name */
    DType dtype;
    Shape shape;
    bool has_range;   /* inputs: every value in [lo, hi) */
    int64_t lo, hi;
    bool trainable;   /* params: updated by `train` */
    bool outcome;     /* states: an i32 scalar, twice the number of steps that were skipped because a gradient was not
                         finite, plus 1 if the last of them was so at the least loss scale */
    bool derived;     /* states: the initial value is computed from parameters; entry derive computes it again */
    int line;         /* params, states: 1 + the only of the model's `lines` that changes it; 0: every step may */
    SrcLoc loc;
} TensorDecl;
enum { MAX_LINES = 15 };
typedef struct Model {
    const char *name;
    VEC(TensorDecl) params;
    VEC(TensorDecl) states; /* layer states first, optimizer states after */
    VEC(TensorDecl) inputs;
    VEC(TensorDecl) outputs;
    VEC(HyperDecl) hypers;
    VEC(SymDecl) syms;
    VEC(const char *) lines; /* `train` lines by name, each of which may be a step by itself; "" has no name.  Empty if none has */
    VEC(const char *) files; /* source files by SrcLoc.file */
} Model;

/* What an entry computes.  `target` is the PARAM or STATE node that is replaced (PARAM, STATE) or
 * differentiated by (GRAD), NULL for OUTPUT. `decl` indexes the model's list of that kind. */
typedef enum { RESULT_OUTPUT, RESULT_GRAD, RESULT_PARAM, RESULT_STATE } ResultKind;
typedef struct Result {
    ResultKind kind;
    int decl;
    Node *value;
} Result;


/* init: results are PARAM and STATE, of seed.  infer: OUTPUT and STATE.
 * grad: OUTPUT, STATE and GRAD.  step: OUTPUT, STATE, PARAM. */
typedef struct Graph {
    Arena *arena; /* of the nodes */
    NodePool *pool; /* shared by a graph and those made of it */
    Model *model;
    Entry entry;
    bool canonical;  /* pass_canonicalize made it, and nothing was added since: there is nothing left for it to do */
    int chunks;      /* pass_chunk: Node.remat up to this are chunks of rows, greater ones recomputations */
    bool edited;     /* nodes or results were added or moved since this was last set to false */
    VEC(Node *) nodes;
    VEC(Result) results;
} Graph;

Graph *graph_new(Arena *a, Model *m, Entry e);
/* Empty, of the model and the entry of g, to be made of its nodes. */
Graph *graph_new_from(Arena *a, const Graph *g);
Graph *graph_duplicate(Arena *a, const Graph *g); /* nodes and results too */

/* ---- building: every function infers shape and dtype, folds nothing ------------------------
 * Operands must be legal (the front end has checked them; a violation is a bug and aborts). */
/* Raw, nothing inferred; copies in[] and attr (NULL: none), and sets attr.dtype for TYPE_ATTR ops. */
Node *graph_node(Graph *g, Op op, int n_in, Node *const *in, const Attr *attr, DType dtype, Shape shape);
/* One like n, with other operands. */
Node *graph_node_like(Graph *g, const Node *n, Node *const *in);
Node *graph_op(Graph *g, Op op, int n_in, Node *const *in, const Attr *attr); /* infers by the table's shape rule */
Node *graph_const(Graph *g, DType t, Shape s, double value);
Node *graph_unary(Graph *g, Op op, Node *a);
Node *graph_binary(Graph *g, Op op, Node *a, Node *b);
Node *graph_select(Graph *g, Node *c, Node *a, Node *b);
Node *graph_cast(Graph *g, Node *a, DType t);
Node *graph_reshape(Graph *g, Node *a, Shape s);
Node *graph_transpose(Graph *g, Node *a, const int8_t *perm);
Node *graph_broadcast(Graph *g, Node *a, Shape s, const int8_t *axes); /* axes[d]: out dim of in dim d */
Node *graph_reduce(Graph *g, Op op, Node *a, int n_axes, const int8_t *axes);
Node *graph_contract(Graph *g, int n, Node *const *in, const Contract *c);
Node *graph_iota(Graph *g, Shape s, int axis);
void graph_result(Graph *g, ResultKind k, int decl, Node *value);

/* Shape and dtype by the op's rule; false with a message (in arena) if the operands do not fit.
 * *shape is read as well where an op does not determine it: PARAM STATE INPUT CONST IOTA RANDOM have
 * a shape of their own, RESHAPE and BROADCAST are asked for one.  graph_op takes all other ops.
 * attr may be NULL where the op has none.
 *
 * RANDOM draws scalar_philox(seed, step, attr.stream, i), i the row-major index in the layout at the
 * BOUND, so that an element does not depend on the run-time extents of the others.
 * ARGMAX is the first of the greatest, NaN the greatest of all.  SLICE must lie inside for every S in [1, bound]. */
bool graph_infer(Arena *a, Op op, int n_in, Node *const *in, const Attr *attr, DType *dtype, Shape *shape, const char **why);

static inline int64_t node_bytes(const Node *n) { return shape_elements(*n->shape) * dtype_bytes(n->dtype); } /* at the bound */

/* users[first[n->id] .. first[n->id + 1]) are the nodes that read n, in order, once per operand. */
typedef struct Uses {
    int *first;
    Node **user;
} Uses;
Uses graph_uses(Arena *a, const Graph *g);
void graph_renumber(Graph *g); /* sets ids to positions */

/* Keeps what results need, in the same order; drops the rest.  Ids are positions before and after. */
void graph_prune(Graph *g);

/* ---- text (print.c, parse.c): parses back to an identical graph ---------------------------- */
void graph_print(FILE *f, const Graph *g);
Graph *graph_parse(Arena *a, const char *text, const char **error); /* NULL and "line:col: message" */

/* ---- verify.c: NULL, or the first violation in words ---------------------------------------- */
const char *graph_verify(Arena *a, const Graph *g);

/* ---- eval.c: float64 reference ------------------------------------------------------------------
 * Tensors are dense row-major doubles of run-time shape (extents under `syms`). */
typedef struct Tensor {
    int rank;
    int64_t dim[MAX_RANK];
    double *data;
} Tensor;
typedef struct EvalEnv {
    const int64_t *syms;   /* run-time extents, by Model.syms */
    const Tensor *params, *states, *inputs; /* by decl index */
    const double *hypers;
    int64_t step, seed;
    bool accumulate;       /* what ACCUMULATE reads */
    /* NULL, or called when a node has its value, which it may change: `values` are those before it, by id */
    void (*watch)(void *user, const Node *n, const Tensor *values, const Tensor *out);
    void *user;
    const bool *keep; /* by id: whose values are asked for; that of others is NULL once it is used.  NULL: of all */
} EvalEnv;
int64_t tensor_elements(const Tensor *t);
/* Values of all nodes (by id) or of the results only; NULL with *error on unsupported (GRADIENT). */
Tensor *graph_eval(Arena *a, const Graph *g, const EvalEnv *env, const char **error); /* [nodes.n] */

#endif
