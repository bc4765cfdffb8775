// Random programs of the net: an abstract form of their own, from which come the source text, the values (on a tape) and the same
// program for PyTorch.  A program is a list of values; what is not `inlined` is a statement `vK = ...`.
#pragma once
#include "tests/net/tape.h"
#include <stdint.h>
#include <stdio.h>

enum { MAX_PATH = 96, MAX_RANK = 6 };
enum { MAX_ARGS = 8, MAX_ATTRS = 16, MAX_VALUES = 160, MAX_GROUPS = 3, MAX_SCALARS = 1 << 18, MAX_INDICES = 8 };

typedef enum { D_F, D_I, D_B, D_NONE } Type;      // D_NONE: the header and the end of a block, which are no values
typedef enum { AS_F32, AS_BF16, AS_F16 } Storage; // of inputs and outputs

typedef struct {
    int rank, n[MAX_RANK];
    unsigned bounded; // axes whose extent follows the bounded dimension S
} Shape;

typedef struct Body Body; // of an indexed definition
typedef struct Prog Prog;

typedef struct {
    int op;       // into ops[]
    Type type;
    Shape shape;
    int nargs, arg[MAX_ARGS];
    int nattrs;
    int attr[MAX_ATTRS];
    double number;
    Body *body;
    int low, high; // of an integer input
    bool inlined, dead;
    int scope; // 1 + the header of the block in whose body it stands; 0: in none
    int name;  // the value whose name it has in the text, itself or one that is read no more
} Value;

// Values low .. high that are printed as a function or a layer of their own, called where the last of them stands.
typedef struct { int low, high; bool layer, named; Precision precision; } Group;

typedef enum { O_NONE, O_SGD, O_MOMENTUM, O_ADAM, O_ADAMW, O_OWN } Optimizer;

enum { MAX_LINES = 3, MAX_PATTERNS = 4 };
// A `train` line.  What trains is selected by patterns of paths; without any it is all that no other line selects.
typedef struct {
    int loss;
    Optimizer optimizer;
    double rate, clip;
    bool hyper, schedule;
    bool named; // line0, line1 ..: its steps are counted
    int npatterns;
    char only[MAX_PATTERNS][MAX_PATH];
} Line;

struct Prog {
    int count;
    Value at[MAX_VALUES];
    int results[4], nresults, stored_as[4]; // Storage
    // of a function; outputs of a model
    int loss;                 // value, or -1; of the first line
    Line line[MAX_LINES];
    int nlines; // 0 as well where there is one
    int nturns, turn[3]; // steps of these lines alone, by turns; 0: all in every step
    Precision precision;
    enum { IN_MODEL, IN_BLOCKS, IN_BOTH } stated; // where the text states the precision
    int steps;
    bool sqrt_checkpoint;
    bool accumulate, want; // grad: called twice, the gradients added; infer: the first output only
    int threads, arch; // how it is run; 0: the default
    const char *without; // a pass that is left out, or NULL
    int ngroups;
    Group group[MAX_GROUPS];
    bool plain;          // no value has another's name
    int bound, extent; // dim S <= bound, and what this run says; 0: no such dimension
    uint64_t seed;
};

// ---- random numbers ------------------------------------------------------------------------------------------------------
typedef struct { uint64_t state; } Random;
uint64_t random_bits(Random *r);
int random_below(Random *r, int n);
static inline bool random_chance(Random *r, int percent) { return random_below(r, 100) < percent; }

// ---- evaluation ----------------------------------------------------------------------------------------------------------
typedef struct { Shape shape; Type type; int *id; } Tensor;
typedef struct { char path[96]; Shape shape; Tensor now, next; double *first, *data, *error, *m, *v, *m_error, *v_error; } Param;

typedef struct {
    Tape tape;
    const Prog *prog;
    Tensor value[MAX_VALUES];
    Param *params;
    int nparams;
    Param *states;
    int nstates;
    double **inputs; // of the model's values
    int round[MAX_VALUES];    // of the header of a block
    char owner[MAX_VALUES][MAX_PATH]; // of the header of a layer: what the paths in its body begin with, in this call
    char instance[MAX_VALUES][MAX_PATH]; // and in the last call that shares nothing
    Tensor *kept[MAX_VALUES]; // of the end of a scan: what was emitted, then the last values of the header's names
    uint64_t seed;
    int step;
    bool training;
    bool unsure; // an index that rounding may change was read at
    void **blocks;
    int nblocks;
} Eval;

int shape_size(const Shape *s);
bool shape_equal(const Shape *a, const Shape *b);
Tensor tensor_make(Eval *e, Shape s, Type t);
Tensor eval_param(Eval *e, const char *path, Shape s, double scale, double offset);
Tensor eval_state(Eval *e, const char *path, Shape s, double initial);
Tensor eval_state_from(Eval *e, const char *path, Tensor first);
void state_set(Eval *e, const char *path, Tensor next); // what it is from now on, and in the next step
void commit_states(Eval *e);
void path_of_value(const Prog *p, int id, const char *name, char *path); // of what the value owns: 96 bytes
void path_now(const Eval *e, int id, const char *name, char *path);      // in the rounds and calls that it stands in
void eval_values(Eval *e, const Prog *p);
void eval_range(Eval *e, int from, int to); // of e->prog
void *eval_block(Eval *e, size_t bytes);    // zeros, until the next reset
void eval_reset(Eval *e); // forgets values, keeps parameters
void eval_forget(Eval *e, int params, int states); // all but the first so many
void eval_free(Eval *e);
double *input_data(const Prog *p, int value);
bool is_input(const Value *v);
// A bounded axis has an extent scale * S + shift of few forms; S is 2 or more where they are used, so that the extent tells which.
bool extent_form(const Prog *p, int n, int *scale, int *shift); // false: none of them
bool extent_sum(const Prog *p, int n, bool n_bounded, int m, bool m_bounded); // n + m is such an extent again, whatever S is
bool extent_scaled(const Prog *p, int n, int factor, int to, int divisor);    // n * factor == to * divisor, whatever S is
void print_bounded(FILE *f, const Prog *p, int n);

// ---- operations ----------------------------------------------------------------------------------------------------------
typedef struct Gen {
    Prog *prog;
    Random random;
    Eval eval;
    int budget; // of indexed terms
    bool large; // few statements on tensors of many tiles
    bool far;   // some subscripts go beyond 32 bits
    int ops;    // so many of the table are drawn
    int scope;  // of what is drawn
} Gen;

typedef struct {
    const char *name;
    int weight;
    bool (*propose)(Gen *g, Value *v);      // arguments and attributes
    bool (*infer)(const Prog *p, Value *v); // shape and type; false: not a program
    void (*eval)(Eval *e, const Value *v, Tensor *out);
    const char *dsl, *torch; // templates; torch NULL: the same
    int code;                // for eval: a TapeOp or a form
} Op;
extern const Op ops[];
extern const int op_count;
int common_ops(void); // those of all programs; the others are drawn with --layers only
int op_named(const char *name);

// What proposals are made of.
int pick(Gen *g, Type type, int min_rank, int max_rank); // a value, or -1
int pick_broadcast(Gen *g, const Shape *to, Type type);
int fresh(Gen *g, Type type, Shape s);                   // a new parameter or input
void draw_statement(Gen *g, int op);                     // -1: any operation
int push_value(Gen *g, Value v);                         // infers and evaluates; -1: not kept
int number(Gen *g, double x);
double some_number(Gen *g);
int some_extent(Gen *g);
int some_bounded_extent(Gen *g);
bool infer_indexed(const Prog *p, Value *v);
bool propose_indexed(Gen *g, Value *v);
void eval_indexed(Eval *e, const Value *v, Tensor *out);
void print_indexed(FILE *f, const Prog *p, int id, bool torch);
void print_loop(FILE *f, const Prog *p, int id, bool torch);
void print_cache(FILE *f, const Prog *p, int id, bool torch);
void print_shape(FILE *f, const Shape *s);
void print_state(FILE *f, const Prog *p, int id, bool torch);
void print_statement(FILE *f, const Prog *p, int id, bool torch);
void print_constant(FILE *f, const Prog *p, int n); // in one of its forms
void print_indent(FILE *f, const Prog *p, int id);
void print_scan(FILE *f, const Prog *p, int id, bool torch);
void print_layers(FILE *f, const Prog *p);
void print_by_index(FILE *f, const Prog *p, int id);
void print_value(FILE *f, const Prog *p, int i, bool torch);
void print_leaf(FILE *f, const Prog *p, int id, bool torch);
void print_group(FILE *f, const Prog *p, int group);
void print_group_call(FILE *f, const Prog *p, int group);
int group_of(const Prog *p, int id); // -1: none
bool owns(const Prog *p, int id);    // parameters or states, itself or in what is written in place
void draw_groups(Gen *g);
void names_in(const Prog *p, int id, bool *named); // what the text of a value names, through what is written in place
void name_values(Prog *p);
int name_of(const Prog *p, int id, bool torch);

typedef enum { DRAW_ANY, DRAW_FAR, DRAW_SCANS, DRAW_LAYERS } Kind; // DRAW_SCANS: a scan in every program
void generate(Prog *p, uint64_t seed, Kind what);
bool infer_all(Prog *p);
bool uses_bound(const Prog *p); // some live value has an extent S
void print_dsl(FILE *f, const Prog *p);
void print_torch(FILE *f, const Prog *p);
void print_arg(FILE *f, const Prog *p, int id, bool torch);
void prog_free(Prog *p);

// ---- training ------------------------------------------------------------------------------------------------------------
int lines_of(const Prog *p);
int loss_of_line(const Prog *p, int k);
bool trains_in(const Prog *p, int line, int step); // step from 1
bool is_loss(const Prog *p, int id);
int line_of(const Prog *p, const char *path); // of a parameter; -1: it does not train
void choose_lines(Gen *g);
void choose_only(Gen *g);
void drop_line(Prog *p, int k); // but for the first
void print_optimizer(FILE *f, const Prog *p); // one of its own
void print_training(FILE *f, const Prog *p);
