/* precision: places dtypes on the forward graph, where the program said `precision bf16`, f16 or tf32.
 *
 * Needs: a legal graph, its gradients not expanded yet: the derivative of a cast is a cast, so that the backward graph
 * follows.  Keeps: the results' dtypes, and their values up to rounding.  Afterwards no node carries a precision.  It
 * runs again after autodiff, for what has become the last use of a low value (precision_raise.c).
 *
 * A value is LOW (stored in f16 or bf16), HIGH (f32, for the sake of its accuracy) or NEUTRAL (f32, but it adapts to
 * what it meets: parameters, inputs, constants).  In a block of precision P
 *   - a contraction casts its operands to P, sums in f32 and rounds once to P; a gather from a parameter is one with
 *     a matrix of zeros and ones.  With tf32 only the operands are rounded.
 *   - movement keeps its operand's dtype;
 *   - cheap elementwise ops on LOW values stay LOW, each rounded; constants that P cannot represent make one compute in
 * f32 before it rounds;
 *   - transcendental ops, reductions, what elementwise ops make from HIGH values, and what only a sum reads, are HIGH;
 *   - a HIGH value that a contraction of P reads is rounded to P for all its readers: it is kept once. */
#include "passes/precision/precision.h"
#include "passes/algebra/access.h"
#include <math.h>

typedef enum { NEUTRAL, LOW, HIGH } Kind;

typedef struct Place {
    Graph *g;
    Arena *scratch;
    Node **copy; /* by old id */
    Node **cast; /* by old id: the value in another dtype, as last asked for */
    Kind *kind;
    DType *feeds;   /* the low dtype in which a contraction reads it, perhaps moved; DT_COUNT: none does */
    bool *by;       /* a derivative is taken by it */
    bool *sum_only; /* only sums and products over axes read it, perhaps through elementwise ops */
} Place;

static DType low_dtype(Precision p) {
    static const DType of[PRECISION_COUNT] = {DT_COUNT, DT_COUNT, DT_BF16, DT_F16};
    return of[p];
}

bool precision_moves(const Node *n) {
    return op_info[n->op].cls == CLASS_MOVE || node_is_view(n) || n->op == OP_STOP_GRADIENT;
}

static bool adds_up(Op op) { return op == OP_SUM || op == OP_PROD || op == OP_SCAN; }

/* ---- nodes ------------------------------------------------------------------------------------ */
static Node *placed(Node *made, const Node *at) {
    made->phase = at->phase;
    made->remat = at->remat;
    made->loc = at->loc;
    return made;
}

Node *precision_cast(Graph *g, Node *x, DType t, const Node *at) {
    if (x->dtype == t || !dtype_is_float(x->dtype)) return x;
    return placed(graph_cast(g, x, t), at);
}

Node *precision_remake(Graph *g, const Node *n, Node *const *in) {
    DType dtype;
    Shape shape = *n->shape;
    const char *why;
    if (!graph_infer(g->arena, n->op, n->n_in, in, n->attr, &dtype, &shape, &why)) return NULL;
    Node *made = graph_node(g, n->op, n->n_in, in, NULL, dtype, *n->shape);
    if (op_info[n->op].type != TYPE_ATTR || dtype == n->dtype) made->attr = n->attr; /* never edited */
    return placed(made, n);
}

/* An old value in dtype t.  A parameter is cast where it is read from memory, below what moves it; but a view of tf32
 * would be f32, and what a derivative is taken by must be read itself. */
static Node *in_dtype(Place *p, const Node *old, DType t) {
    Node *x = p->copy[old->id], **known = &p->cast[old->id];
    if (x->dtype == t || !dtype_is_float(x->dtype)) return x;
    if (*known && (*known)->dtype == t) return *known;
    const bool below = p->kind[old->id] == NEUTRAL && !p->by[old->id] && old->n_in == 1 && precision_moves(old) &&
                       op_info[old->op].cls != CLASS_SPECIAL && (t != DT_TF32 || !node_is_view(old));
    if (!below) return *known = precision_cast(p->g, x, t, old);
    Node *source = in_dtype(p, old->in[0], t);
    return *known = precision_remake(p->g, old, &source);
}

static Node **operands(Place *p, const Node *n) {
    Node **in = ARENA_ARRAY(p->scratch, Node *, n->n_in + 1);
    for (int k = 0; k < n->n_in; k++) in[k] = p->copy[n->in[k]->id];
    return in;
}

static Node **operands_in(Place *p, const Node *n, DType t) {
    Node **in = ARENA_ARRAY(p->scratch, Node *, n->n_in + 1);
    for (int k = 0; k < n->n_in; k++) in[k] = in_dtype(p, n->in[k], t);
    return in;
}

static void set(Place *p, const Node *n, Node *made, Kind kind) {
    p->copy[n->id] = made;
    p->kind[n->id] = dtype_is_low(made->dtype) ? LOW : kind;
}

/* ---- elementwise ------------------------------------------------------------------------------- */
typedef struct Operands {
    bool low, high;          /* some are */
    bool inexact, too_large; /* some constant is not in the dtype; not even in its range */
    bool same;               /* the low ones have the dtype asked about */
} Operands;

static Operands look_at(const Place *p, const Node *n, DType t) {
    Operands o = {.same = true};
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = p->copy[n->in[k]->id];
        const Kind kind = p->kind[n->in[k]->id];
        if (!dtype_is_float(x->dtype)) continue;
        o.low |= kind == LOW;
        o.high |= kind == HIGH;
        o.same &= kind != LOW || x->dtype == t;
        if (x->op != OP_CONST || t == DT_COUNT || kind == LOW) continue;
        const double value = x->attr->value, rounded = scalar_round(t, value);
        o.inexact |= rounded != value && !isnan(value);
        o.too_large |= isfinite(value) && !isfinite(rounded);
    }
    return o;
}

/* Comparing is exact in f32, and in P where all there is to compare is in P. */
static void place_comparison(Place *p, const Node *n) {
    const DType low = low_dtype(n->precision);
    const Operands o = look_at(p, n, low);
    bool exact = low != DT_COUNT && o.low && o.same && !o.high && !o.inexact;
    for (int k = 0; k < n->n_in; k++) exact &= p->kind[n->in[k]->id] == LOW || p->copy[n->in[k]->id]->op == OP_CONST;
    set(p, n, precision_remake(p->g, n, operands_in(p, n, exact ? low : DT_F32)), NEUTRAL);
}

static void place_cast(Place *p, const Node *n) {
    Node *x = p->copy[n->in[0]->id];
    Node *made = x->dtype == n->dtype ? x : precision_remake(p->g, n, &x);
    const bool exact = x->dtype == DT_BOOL || p->kind[n->in[0]->id] != HIGH; /* truth, and an input of 16 bits */
    set(p, n, made, dtype_is_float(n->dtype) && (!exact || x->dtype == DT_I32) ? HIGH : NEUTRAL);
}

static void place_element(Place *p, const Node *n) {
    const DType low = low_dtype(n->precision);
    const Operands o = look_at(p, n, low);
    const bool stays =
        low != DT_COUNT && o.low && !o.high && !o.too_large && !op_is_transcendental(n->op) && !p->sum_only[n->id];
    if (n->op == OP_CAST) {
        place_cast(p, n);
    } else if (n->dtype == DT_BOOL) {
        place_comparison(p, n);
    } else if (stays && !o.inexact) {
        set(p, n, precision_remake(p->g, n, operands_in(p, n, low)), LOW);
    } else {
        Node *made = precision_remake(p->g, n, operands_in(p, n, DT_F32));
        if (stays) made = precision_cast(p->g, made, low, n);
        set(p, n, made, o.low || o.high || op_is_transcendental(n->op) ? HIGH : NEUTRAL);
    }
}

/* ---- movement, reductions, contractions ---------------------------------------------------------- */
/* Operands that are put together agree: HIGH before LOW before NEUTRAL. */
static void place_move(Place *p, const Node *n) {
    DType t = DT_COUNT;
    Kind kind = NEUTRAL;
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = p->copy[n->in[k]->id];
        if (!dtype_is_float(x->dtype)) continue;
        if (p->kind[n->in[k]->id] > kind) kind = p->kind[n->in[k]->id];
        if (kind == LOW && p->kind[n->in[k]->id] == LOW) {
            if (t != DT_COUNT && t != x->dtype) kind = HIGH;
            t = x->dtype;
        }
    }
    set(p, n, precision_remake(p->g, n, operands_in(p, n, kind == LOW ? t : DT_F32)), kind);
}

/* The greatest and the least value are exact in any dtype; what is computed from them is not low all the same. */
static void place_reduce(Place *p, const Node *n) {
    Node *made = precision_remake(p->g, n, adds_up(n->op) ? operands_in(p, n, DT_F32) : operands(p, n));
    set(p, n, precision_cast(p->g, made, DT_F32, n), HIGH);
}

static void place_contract(Place *p, const Node *n) {
    const DType low = low_dtype(n->precision);
    const DType t = n->precision == PRECISION_TF32 ? DT_TF32 : low == DT_COUNT ? DT_F32 : low;
    set(p, n, precision_remake(p->g, n, operands_in(p, n, t)), HIGH);
}

static void place_indexed(Place *p, const Node *n) {
    const DType low = low_dtype(n->precision);
    const Kind kind = p->kind[n->in[0]->id];
    Node **in = operands(p, n);
    if (op_is_scatter(n->op) && adds_up(op_scattered(n->op))) in[0] = in_dtype(p, n->in[0], DT_F32);
    Node *made = precision_remake(p->g, n, in);
    if (n->op == OP_GATHER && kind == NEUTRAL && low != DT_COUNT) made = precision_cast(p->g, made, low, n);
    if (op_is_scatter(n->op)) made = precision_cast(p->g, made, DT_F32, n);
    set(p, n, made, n->op == OP_GATHER ? kind : HIGH);
}

/* Derivatives are f32, of values in f32: what they are by has been widened (place_node). */
static void place_derivative(Place *p, const Node *n) {
    Node **in = operands(p, n);
    in[0] = in_dtype(p, n->in[0], DT_F32);
    if (n->op == OP_VJP) in[2] = in_dtype(p, n->in[2], DT_F32);
    set(p, n, precision_remake(p->g, n, in), HIGH);
}

static void place_source(Place *p, const Node *n) {
    Node *made = graph_node(p->g, n->op, n->n_in, operands(p, n), NULL, n->dtype, *n->shape);
    made->attr = n->attr;
    set(p, n, placed(made, n), n->op == OP_STATE || n->op == OP_RANDOM ? HIGH : NEUTRAL);
}

static void place_node(Place *p, const Node *n) {
    switch (precision_moves(n) ? CLASS_MOVE : op_info[n->op].cls) {
    case CLASS_SOURCE: place_source(p, n); break;
    case CLASS_ELEMENT: place_element(p, n); break;
    case CLASS_REDUCE: place_reduce(p, n); break;
    case CLASS_CONTRACT: place_contract(p, n); break;
    case CLASS_INDEXED: place_indexed(p, n); break;
    case CLASS_MOVE: place_move(p, n); break;
    case CLASS_SPECIAL: place_derivative(p, n); break;
    }
    const DType feeds = p->feeds[n->id];
    if (p->kind[n->id] == HIGH && !precision_moves(n) && feeds != DT_COUNT && feeds == low_dtype(n->precision))
        set(p, n, precision_cast(p->g, p->copy[n->id], feeds, n), LOW);
    if (p->by[n->id] && p->kind[n->id] == LOW) set(p, n, precision_cast(p->g, p->copy[n->id], DT_F32, n), NEUTRAL);
}

/* ---- the walk ---------------------------------------------------------------------------------------- */
static void look_ahead(Place *p, const Graph *g) {
    bool *read = ARENA_ARRAY(p->scratch, bool, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        p->feeds[i] = DT_COUNT;
        p->sum_only[i] = true;
    }
    for (int i = 0; i < g->results.n; i++) p->sum_only[g->results.at[i].value->id] = false;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.at[i];
        p->by[n->n_in > 1 ? n->in[1]->id : 0] |= n->op == OP_GRADIENT || n->op == OP_VJP || n->op == OP_JACOBIAN;
        const bool moves = precision_moves(n), passes = moves || op_info[n->op].cls == CLASS_ELEMENT;
        const bool sums = adds_up(n->op) || (passes && read[i] && p->sum_only[i]);
        const DType reads_in = n->op == OP_CONTRACT && !moves ? low_dtype(n->precision)
                               : moves                        ? p->feeds[i]
                                                              : DT_COUNT;
        for (int k = 0; k < n->n_in; k++) {
            const int in = n->in[k]->id;
            if (reads_in != DT_COUNT) p->feeds[in] = reads_in;
            p->sum_only[in] &= sums;
            read[in] = true;
        }
    }
}

static bool asks_for_precision(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->precision != PRECISION_F32 || dtype_is_low(g->nodes.at[i]->dtype)) return true;
    return false;
}

static DType declared(const Model *m, const Result *r) {
    if (r->kind == RESULT_GRAD) return DT_F32;
    return r->kind == RESULT_OUTPUT  ? m->outputs.at[r->decl].dtype
           : r->kind == RESULT_STATE ? m->states.at[r->decl].dtype
                                     : m->params.at[r->decl].dtype;
}

static Graph *place(PassContext *c, Graph *g) {
    const int n = g->nodes.n;
    Place p = {.g = graph_new_from(c->arena, g), .scratch = arena_new()};
    p.copy = ARENA_ARRAY(p.scratch, Node *, n);
    p.cast = ARENA_ARRAY(p.scratch, Node *, n);
    p.kind = ARENA_ARRAY(p.scratch, Kind, n);
    p.feeds = ARENA_ARRAY(p.scratch, DType, n);
    p.sum_only = ARENA_ARRAY(p.scratch, bool, n);
    p.by = ARENA_ARRAY(p.scratch, bool, n);
    look_ahead(&p, g);
    for (int i = 0; i < n; i++) place_node(&p, g->nodes.at[i]);
    for (int i = 0; i < g->results.n; i++) {
        const Result *r = &g->results.at[i];
        graph_result(p.g, r->kind, r->decl, in_dtype(&p, r->value, declared(g->model, r)));
    }
    arena_free(p.scratch);
    graph_prune(p.g);
    return p.g;
}

static bool is_marked(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->precision != PRECISION_F32) return true;
    return false;
}

Graph *pass_precision(PassContext *c, Graph *g) {
    if (!asks_for_precision(g)) return g;
    return precision_raise(c, is_marked(g) ? place(c, g) : g);
}
