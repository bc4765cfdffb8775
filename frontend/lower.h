/* Inside the front end: lowering is an abstract interpreter over the tree.  Values are constants or
 * graph nodes; calls are inlined, `repeat` is unrolled, `if` on constants is decided.  It runs once
 * per entry; after an error an expression yields a poison value that silences what follows. */
#ifndef FUSEC_FRONTEND_LOWER_H
#define FUSEC_FRONTEND_LOWER_H
#include "frontend/program.h"

enum {
    MAX_REPEAT = 100000,   /* iterations of one repeat */
    MAX_EVAL_DEPTH = 2000, /* expressions inside expressions, calls inlined */
    MAX_LIST = 1 << 16,
    MAX_LIST_DEPTH = 8
};
enum { MAX_NODES = 1 << 20, MAX_STATEMENTS = 2000000 }; /* per entry */

/* ---- names of parameters and states (paths.c) ----------------------------------------------
 * Built from the inside out: a body collects relative paths, and the call that ends adds its
 * component.  Instances without `as` add none unless one of their paths is taken. */
typedef struct PathEntry {
    const char *path;
    bool state;
    int index; /* into Lower.params or Lower.states */
} PathEntry;
typedef struct PathScope {
    VEC(PathEntry) entries;
    NameMap taken;
} PathScope;

/* A call `as NAME`: what it declared, in order, for those that share it. */
typedef struct Instance {
    const char *name;
    const Top *top;
    int n_params, n_states;
    const int *param, *state; /* indices into Lower.params, Lower.states */
} Instance;

typedef struct Binding {
    const char *name;
    Value value;
    int state; /* index into Lower.states, or -1 */
} Binding;

/* One running body: of a call, a model, an optimizer. */
typedef struct Body Body;
struct Body {
    const Top *top; /* NULL for top-level expressions */
    SrcLoc call;    /* of a fn or layer: the call that runs it */
    bool library;
    Body *up;
    VEC(Binding) bindings;
    VEC(Instance) instances;
    PathScope *paths;
    bool returned, poisoned;
    Value result;
    int target; /* optimizer: index of the parameter updated, else -1 */
    bool target_updated;
    const struct IndexSpace *space; /* inside an indexed definition: values are per element */
    bool exact;                     /* the text of an indexed definition: no subscript wraps or rounds */
    bool subscript;                 /* a subscript of such: a rounded quotient is one that is written there */
};

typedef struct ParamRef {
    const char *path;
    Shape shape;
    DType dtype;  /* in memory */
    Node *source; /* PARAM; entry init: NULL */
    Node *node;   /* its value in f32; entry init: the initial one, rounded as in memory */
    Node *next;   /* step: the new value */
    SrcLoc loc;
    int decl;           /* index in the model's table */
    VEC(Node *) random; /* init: their stream is the declaration's index */
} ParamRef;
typedef struct StateRef {
    const char *path;
    Node *node, *next; /* next: after the last `<-`, else NULL */
    Node *init;
    SrcLoc loc;
    int decl;
    bool optimizer;
    bool outcome; /* TensorDecl.outcome */
    int line;     /* TensorDecl.line */
} StateRef;
typedef struct OutputRef {
    const char *name;
    Node *node;
    SrcLoc loc;
} OutputRef;
typedef struct SharedNode {
    uint64_t key; /* hash of what it computes */
    Node *node;   /* NULL: an empty slot */
} SharedNode;

/* What a round of a scan but the first, or a call that shares an instance, has in place of parameters and states of its
 * own: those of that round or instance, in order. */
typedef struct Reuse {
    bool on;
    Instance of; /* of a scan without name and top */
    int next_param, next_state;
} Reuse;

/* One of a model's `train` lines, and the value of its loss. */
typedef struct TrainLine {
    const Stmt *s;
    Value loss;
} TrainLine;

typedef struct ScanRun ScanRun;   /* lower_scan.c */
typedef struct Emission Emission; /* lower_emit.c */

typedef struct Lower {
    Arena *arena;   /* what a value or the model refers to */
    Arena *scratch; /* gone after the run */
    Diag *diag;
    Program *program;
    Model *model;
    Graph *g;
    Entry entry;
    bool training;
    bool declaring; /* the first run: fills the model's tables */
    Phase phase;
    bool f16;            /* some block said `precision f16`: the loss is scaled */
    int loss_scale;      /* the first of its states */
    DType weights;       /* of the block being lowered: what parameters are in memory */
    Precision precision; /* of the block being lowered; what optimizers compute is f32 */
    SrcLoc loc;          /* innermost user expression */
    Body *body;
    int depth, call_depth, index_depth;
    int most_nodes; /* MAX_NODES of the program, and what lowering makes beside */
    int64_t statements;
    bool stopped; /* a limit was hit: unwind quietly */
    VEC(ParamRef) params;
    VEC(int) drawn, kept; /* parameters, states, in the order in which the program had them */
    Reuse reuse;
    ScanRun *scan;        /* the innermost one */
    Emission *emission;   /* of the innermost scan, or repeat that is bound to names */
    VEC(StateRef) states;
    VEC(OutputRef) outputs;
    VEC(Node *) inputs; /* by declaration */
    VEC(Node *) hypers;
    VEC(Node *) dropouts; /* RANDOM nodes of the program, in order; streams follow the parameters' */
    VEC(SrcLoc) reported; /* line and column of what was said, so that unrolling says it once */
    VEC(TrainLine) trains;
    Node *step, *seed;
    SharedNode *shared; /* by hash of what they compute (lower_share.c) */
    int shared_n, shared_cap;
} Lower;

/* Entries init and derive: states are what they begin as, and nothing is known of a call. */
static inline bool lower_starts(const Lower *L) { return L->entry == ENTRY_INIT || L->entry == ENTRY_DERIVE; }

/* ---- diagnostics: `help` may be NULL; an error in library code is shown at the user's call ---- */
Value lower_fail(Lower *L, DiagCode code, SrcLoc loc, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void lower_warn(Lower *L, DiagCode code, SrcLoc loc, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- expressions (lower_expr.c) and statements (lower_stmt.c) ------------------------------------ */
Value lower_expr(Lower *L, const Expr *e);
Value lower_named(Lower *L, const Expr *e, const char *name);                  /* the whole right side of `name =` */
bool lower_const_int(Lower *L, const Expr *e, const char *what, int64_t *out); /* false: reported */
Value lower_arg_value(Lower *L, const Expr *e);                                /* also ranges */
Value lower_global(Lower *L, Global *g);
void lower_scan(Lower *L, const Stmt *s); /* lower_scan.c */
void lower_block(Lower *L, const StmtList *body);
Binding *body_find(Body *b, const char *name);
void body_bind(Lower *L, const char *name, Value v);
Value lower_tuple(Lower *L, int n, const Value *at, ValueKind kind);
Value lower_results(Lower *L, const Expr *e);             /* may be a TUPLE, which lower_expr refuses */
bool lower_condition(Lower *L, const Expr *e, bool *out); /* a constant boolean; false: reported */

/* ---- what scans and repeats emit (lower_emit.c): values of each round, side by side along a new axis ---------- */
struct Emission {
    const Stmt *s; /* bound to as many names as there are values */
    const char *what;
    int axis;      /* of the result */
    NodeList *out; /* by value, by round */
    bool empty;    /* the rounds are none, and that one is for the types */
    bool emitted;  /* in this round */
    bool failed;   /* something was reported */
    Emission *outer;
};
void emission_open(Lower *L, Emission *e, const Stmt *s, const char *what, int axis);
bool emission_round_ended(Lower *L, Emission *e); /* false, reported: nothing was emitted, or what was is wrong */
void emission_close(Lower *L, Emission *e, bool ok); /* binds the names; ok: all went well */
void lower_emit(Lower *L, const Stmt *s);

/* A tensor at a place along an axis, without it; of an empty axis zeros (lower_scan.c). */
Node *place_along(Lower *L, Node *x, int axis, int64_t i);

/* ---- carries that are linear in themselves (lower_recurrence.c) ------------------------------------------------- */
typedef struct Recurrence Recurrence;
/* first: by place in the header; NULL: the carries are not looked at. */
Recurrence *recurrence_new(Lower *L, const Scan *scan, Node *const *first, int64_t rounds);
Node *recurrence_mark(Recurrence *r, int round, int carry, Node *value); /* what the round has in its place */
void recurrence_next(Recurrence *r, int round, int carry, Node *value);  /* what the round made of it */
/* After the rounds: where all carries are so, what is emitted and their last values are made from prefixes. */
void recurrence_solve(Recurrence *r, int axis, Emission *e, Node **carry);

/* ---- calls (lower_call.c) ------------------------------------------------------------------------ */
typedef struct ArgValue {
    Name name; /* text NULL when positional */
    Value value;
    SrcLoc loc;
} ArgValue;
/* Evaluates one argument; `name` is the formal it is bound to, or NULL. */
typedef Value (*ArgEval)(Lower *L, void *context, const Expr *e, const char *name);
Value lower_call(Lower *L, const Expr *e, ArgEval eval, void *context);
Value lower_plain_arg(Lower *L, void *context, const Expr *e, const char *name);
/* Binds `first`, then the arguments, then defaults to the formals of `top` in `b`; false: reported. */
bool lower_bind_formals(Lower *L, Body *b, const Top *top, int n_first, const Value *first, int n, const ArgValue *args,
                        SrcLoc loc);
/* The arguments of a call to a definition whose first `skip` formals are given otherwise. */
ArgValue *lower_args(Lower *L, const Top *top, int skip, const ArgList *args, ArgEval eval, void *context);

/* ---- constants (lower_const.c) ----------------------------------------------------------------- */
Value const_binary(Lower *L, AstOp op, Value a, Value b, SrcLoc loc);
Value const_unary(Lower *L, AstOp op, Value a, SrcLoc loc);
bool val_is_const_number(Value v);            /* INT FLOAT BOOL DIM */
/* (a*S + b) / k, rounded down, is again an extent where k divides a; elsewhere, reported, how much is rounded depends on S. */
Value dim_divide(Lower *L, Dim d, int64_t k, SrcLoc loc);
int64_t common_divisor(int64_t a, int64_t b); /* the greatest, >= 0; of 0 and b: |b| */

/* ---- tensors (lower_tensor.c) --------------------------------------------------------------------- */
Node *t_node(Lower *L, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape s);     /* placed and counted */
Node *t_new_node(Lower *L, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape s); /* never shared */
Node *shared_node(Lower *L, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape s);
Node *t_const(Lower *L, DType t, Shape s, double v);
/* A tensor of equal elements that the program writes as one: a value of its own, by which it may differentiate, so that
 * no other takes its place.  Numbers in arithmetic are t_const: made once, and moved by making them in another shape.
 */
Node *t_fill(Lower *L, DType t, Shape s, double v);
bool is_number(const Lower *L, const Node *a);
Node *t_unary(Lower *L, Op op, Node *a);
Node *t_binary(Lower *L, Op op, Node *a, Node *b); /* equal shapes */
Node *t_select(Lower *L, Node *c, Node *a, Node *b);
Node *t_cast(Lower *L, Node *a, DType t);
Node *t_reshape(Lower *L, Node *a, Shape s);
Node *t_transpose(Lower *L, Node *a, const int8_t *perm);
Node *t_broadcast(Lower *L, Node *a, Shape s, const int8_t *axes);
Node *t_expand(Lower *L, Node *a, Shape s); /* aligned at the right, extents of 1 repeat */
Node *t_reduce(Lower *L, Op op, Node *a, int n, const int8_t *axes);
Node *t_iota(Lower *L, Shape s, int axis);
Node *t_extent(Lower *L, Dim d); /* i32 scalar */
Node *t_slice(Lower *L, Node *a, const Dim *lo, const int64_t *step, Shape s);
Node *t_stack(Lower *L, int n, Node *const *at, int axis); /* tensors of one type side by side along a new axis */
bool check_shape(Lower *L, Shape s, SrcLoc loc);    /* limits of extents and elements; false: reported */
bool check_declared(Lower *L, Shape s, SrcLoc loc); /* the same of what lies in memory: inputs, outputs, parameters, states */
bool check_contract(Lower *L, int n, Node *const *in, const Attr *attr,
                    SrcLoc loc);                            /* likewise, of a sum of products */
bool t_join_shapes(Lower *L, Shape a, Shape b, Shape *out); /* broadcasting; false when they disagree */
/* A value as a tensor of dtype t (constants convert); NULL: reported. `like` DT_COUNT: by its own kind. */
Node *value_node(Lower *L, Value v, DType t, SrcLoc loc);
DType value_dtype(Value v);
Value v_binary(Lower *L, AstOp op, Value a, Value b, SrcLoc loc);
Value v_unary(Lower *L, AstOp op, Value a, SrcLoc loc);
/* Brings n values to one dtype and shape; false: reported. */
bool v_unify(Lower *L, int n, const Value *v, Node **out, const char *what, SrcLoc loc);
Value v_pointwise(Lower *L, Op op, int n, const Value *v, const char *what, SrcLoc loc); /* tensors, one at least */
Value v_matmul(Lower *L, Value a, Value b, SrcLoc loc);
Value v_cast(Lower *L, Value v, DType t, SrcLoc loc);

/* ---- shapes and subscripts (lower_shape.c) ---------------------------------------------------------- */
bool lower_shape_list(Lower *L, const ExprList *list, Shape *out); /* [a, b, ..]; false: reported */
bool value_shape(Lower *L, Value list, SrcLoc loc, Shape *out);
/* An axis argument (INT, LIST, RANGE, ALL) as sorted axes; -1 when reported, else their number. */
int value_axes(Lower *L, Value v, int rank, SrcLoc loc, int8_t *axes);
/* Do `length` elements from `start` on lie inside whatever the value of the bounded dimension? */
bool part_inside(Value start, Value length, Dim extent, int64_t step);
Value lower_subscript(Lower *L, const Expr *e);
/* Of an indexed definition: false, reported, where a constant subscript wraps, is outside, or was rounded. */
bool subscript_inside(Lower *L, int64_t i, Dim extent, SrcLoc loc);
bool subscript_whole(Lower *L, Value v, SrcLoc loc);
Value v_gather(Lower *L, Node *table, int axis, Node *ids);

/* ---- built-in functions (lower_builtin.c, lower_move.c, lower_derivative.c) -------------------------------------- */
typedef struct Builtin Builtin;
typedef struct BuiltinCall {
    const Builtin *builtin;
    const Value *arg; /* one per formal, in order */
    int n_more;       /* variadic: positional values */
    const Value *more;
    SrcLoc loc;
} BuiltinCall;
struct Builtin {
    const char *name;
    const char *formals; /* "x axis=all keep=false"; a leading "*" takes all positional arguments */
    Value (*run)(Lower *L, const BuiltinCall *c);
    Op op;
    bool pointwise; /* may stand in an indexed definition */
};
const Builtin *builtin_find(const char *name);
/* Formal i as text; false past the end.  `has_default` tells whether it may be left out. */
bool builtin_formal(const Builtin *b, int i, char name[32], bool *variadic, bool *has_default, Value *value);
int builtin_names(const char **out, int max);
extern const Builtin builtins_math[], builtins_move[], builtins_derivative[]; /* ended by a NULL name */

/* ---- indexed definitions (lower_index.c) ---------------------------------------------------------------- */
Value lower_indexed(Lower *L, const BinderList *left, const Expr *body, SrcLoc loc);
Value lower_reduction(Lower *L, const Expr *e); /* sum[..] outside a definition: no left indices */

/* What the program has declared, or taken again, since so many parameters and states. */
Instance lower_declared(Lower *L, int drawn, int kept);
/* ---- parameters, states, hypers (lower_param.c), paths (paths.c) ------------------------------------------- */
Value lower_param(Lower *L, const Expr *e, const char *name);
Value lower_hyper(Lower *L, const Expr *e, const char *name);
void lower_state(Lower *L, const Stmt *s);
void paths_add(Lower *L, PathScope *scope, const char *path, bool state, int index, SrcLoc loc);
/* Moves what `inner` collected into `outer` under `as`, or under none, or under `fallback` when taken. */
void paths_merge(Lower *L, PathScope *outer, const PathScope *inner, const char *as, const char *fallback, SrcLoc loc);

/* ---- training (lower_train.c) --------------------------------------------------------------------------------- */
/* After the model's body: gradients of the selected parameters and, in entry step, their updates.
 * gradient[i] is that of params.at[i], NULL when it is not trained. */
void lower_train(Lower *L, PathScope *paths, Node **gradient);

/* ---- parameters in 16 bits (lower_weights.c) --------------------------------------------------------------------- */
/* New values of parameters that have no master in f32, rounded up or down at random, so that small updates add up. */
void round_weights(Lower *L);

/* ---- loss scaling (lower_scale.c): where the program has f16, or must check for what is not finite ------------------------------ */
Node *state_of_step(Lower *L, PathScope *paths, const char *path, DType t, double value); /* a scalar; the last of L->states */
void declare_loss_scale(Lower *L, PathScope *paths);                                      /* the scale's states */
Node *scale_loss(Lower *L, Node *loss);
Node *unscale_gradient(Lower *L, Node *g);
/* Makes all updates depend on whether the gradients, still scaled, are finite. */
void skip_on_overflow(Lower *L, Node *const *scaled);

#endif
