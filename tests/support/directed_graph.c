/* Sources, operands, and the programs. */
#include "tests/support/directed.h"
#include "tests/support/low_precision.h"
#include <math.h>
#include <string.h>

/* ---- shapes --------------------------------------------------------------------------------------------------- */
Shape directed_shape(Directed *x, int min_rank) {
    static const int sizes[] = {1, 2, 2, 3, 3, 4, 5, 6};
    Shape s = {.rank = min_rank + pick_below(x, 4 - min_rank)};
    if (x->o.bounded && s.rank && pick_below(x, 4) == 0)
        s.dim[0] = (Dim){.bound = x->g->model->syms.at[0].bound, .sym = 0, .scale = 1};
    else if (s.rank)
        s.dim[0] = dim_fixed(sizes[pick_below(x, 8)]);
    for (int d = 1; d < s.rank; d++) s.dim[d] = dim_fixed(sizes[pick_below(x, 8)]);
    if (x->o.empty && s.rank && pick_below(x, 30) == 0) s.dim[pick_below(x, s.rank)] = dim_fixed(0);
    return s;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */
Node *directed_keep(Directed *x, Node *n, Range r) {
    while (x->range.n <= n->id) {
        vec_push(x->a, x->range, (Range){0});
        vec_push(x->a, x->read, false);
    }
    x->range.at[n->id] = r;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->id < x->read.n) x->read.at[n->in[k]->id] = true;
    vec_push(x->a, x->pool, n);
    return n;
}

Node *directed_emit(Directed *x, Op op, int n, Node *const *in, const Attr *attr, Shape shape) {
    static const Attr none = {0};
    DType t;
    Range r;
    const char *why;
    if (!attr) attr = &none;
    for (int k = 0; k < n; k++)
        if (!in[k]) return NULL;
    if (!graph_infer(x->a, op, n, in, attr, &t, &shape, &why)) return NULL;
    if (shape.rank > 5 || shape_elements(shape) > x->most || !directed_range(x, op, n, in, attr, t, shape, &r)) return NULL;
    if (op == OP_CONTRACT) return directed_keep(x, graph_contract(x->g, n, in, attr->contract), r);
    return directed_keep(x, graph_node(x->g, op, n, in, attr, t, shape), r);
}

Need directed_need(Op op, int operand) {
    switch (op) {
    case OP_LOG:
    case OP_SQRT:
    case OP_RSQRT: return NEED_POSITIVE;
    case OP_LOG1P: return NEED_ABOVE;
    case OP_EXP:
    case OP_PROD: return NEED_SMALL;
    case OP_DIV:
    case OP_MOD: return operand == 1 ? NEED_NONZERO : NEED_ANY;
    case OP_POW: return operand == 0 ? NEED_POSITIVE : NEED_SMALL;
    default: return NEED_ANY;
    }
}

bool directed_fits(const Directed *x, const Node *n, Need need) {
    const Range r = x->range.at[n->id];
    if (n->dtype != DT_F32) return true;
    switch (need) {
    case NEED_POSITIVE: return r.lo >= 0.2 && r.hi <= 8;
    case NEED_ABOVE: return r.lo >= -0.6;
    case NEED_NONZERO: return r.lo >= 0.3 || r.hi <= -0.3;
    case NEED_SMALL: return r.lo >= -3 && r.hi <= 3;
    default: return true;
    }
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */
static Node *declare(Directed *x, Op op, DType t, Shape s, Range r, bool has_range) {
    Model *m = x->g->model;
    static const char *const prefix[] = {"x", "high", "low"};
    const char *name = prefix[t != DT_F32 ? 0 : r.lo == 1 ? 1 : r.hi == -1 ? 2 : 0];
    TensorDecl d = {.dtype = t, .shape = s, .has_range = has_range, .lo = (int64_t)r.lo, .hi = (int64_t)r.hi + 1};
    Attr at = {.dtype = t};
    d.trainable = op == OP_PARAM && t == DT_F32;
    at.decl = op == OP_PARAM ? m->params.n : op == OP_STATE ? m->states.n : m->inputs.n;
    d.name = arena_printf(x->a, "%s%s%d", name, op == OP_PARAM ? "p" : op == OP_STATE ? "s" : "", at.decl);
    if (op == OP_PARAM)
        vec_push(x->a, m->params, d);
    else if (op == OP_STATE)
        vec_push(x->a, m->states, d);
    else
        vec_push(x->a, m->inputs, d);
    return directed_keep(x, graph_node(x->g, op, 0, NULL, &at, t, s), r);
}

static Node *new_leaf(Directed *x, DType t, Shape s, Need need) {
    static const Op ops[] = {OP_PARAM, OP_INPUT, OP_STATE, OP_PARAM, OP_INPUT};
    static const Range high = {1, 2}, low = {-2, -1}, around = {-1.5, 1.5};
    Op op = ops[pick_below(x, 5)];
    if (op == OP_PARAM && !shape_is_fixed(s)) op = OP_INPUT;
    if (t == DT_BOOL) return declare(x, op, t, s, (Range){0, 1}, false);
    if (t == DT_I32) return declare(x, op, t, s, (Range){-(pick_below(x, 2) * 2), 3}, true);
    Range r = need == NEED_POSITIVE || need == NEED_ABOVE ? high
              : need == NEED_NONZERO && pick_below(x, 2)  ? low
              : need == NEED_NONZERO                      ? high
                                                          : around;
    if (need == NEED_ANY && pick_below(x, 3) == 0) r = pick_below(x, 2) ? high : low;
    return declare(x, op, t, s, r, false);
}

Node *directed_leaf(Directed *x, DType t, Shape s, Need need) {
    for (int tries = 0; tries < 20 && pick_below(x, 4); tries++) {
        Node *n = x->pool.at[pick_below(x, x->pool.n)];
        if (op_info[n->op].cls == CLASS_SOURCE && n->n_in == 0 && n->dtype == t && shape_equal(*n->shape, s) &&
            directed_fits(x, n, need))
            return n;
    }
    return new_leaf(x, t, s, need);
}

Node *directed_operand(Directed *x, DType t, Shape s, Need need) {
    for (int tries = 0; tries < 24; tries++) {
        Node *n = x->pool.at[pick_below(x, x->pool.n)];
        if (n->dtype == t && shape_equal(*n->shape, s) && directed_fits(x, n, need) &&
            (tries > 12 || !x->read.at[n->id]))
            return n;
    }
    return directed_leaf(x, t, s, need);
}

/* ---- edges to order ---------------------------------------------------------------------------------------------- */
static Node *found(Directed *x, Op op) {
    int first = pick_below(x, x->pool.n);
    for (int i = 0; i < x->pool.n; i++) {
        Node *n = x->pool.at[(first + i) % x->pool.n];
        if (n->op == op) return n;
    }
    return NULL;
}

/* What failed attempts leave in the graph, nothing reads. */
static bool make_edge(Directed *x, Op from, Op to) {
    const int arity = op_info[to].arity < 0 ? 2 : op_info[to].arity;
    const Shape base = x->base;
    for (int tries = 0; tries < 200; tries++) {
        const int before = x->pool.n;
        Node *v = tries < 4 ? found(x, from) : NULL;
        x->scalars = to == OP_RANDOM && tries % 4;
        if (x->scalars) x->base = shape_scalar();
        if (!v) v = directed_op(x, from, NULL, 0);
        x->scalars = false;
        x->base = base;
        for (int k = 0, first = pick_below(x, arity); v && k < arity; k++)
            if (directed_op(x, to, v, (first + k) % arity)) return true;
        x->pool.n = before;
    }
    return false;
}

enum { CHUNK = 8 }; /* pairs in a row, which share their producer */

typedef struct Pairs {
    int n;
    Op at[OP_COUNT * OP_COUNT][2];
} Pairs;

static const Pairs *legal_pairs(void) {
    static Pairs p;
    for (Op from = 0; from < OP_COUNT && (p.n == 0 || from > 0); from++)
        for (Op to = 0; to < OP_COUNT; to++) {
            if (!pair_is_legal(from, to) || pair_excluded(from, to)) continue;
            p.at[p.n][0] = from;
            p.at[p.n++][1] = to;
        }
    return &p;
}

/* After many vain attempts a pair is given up: coverage_report will name it. */
static int missing(const DirectedSet *set, const Op *pair) {
    enum { PATIENCE = 60 };
    if (set->failed[pair[0]][pair[1]] >= PATIENCE) return 0;
    const int n = (int)coverage_least() + 5 - (int)set->so_far->pair[pair[0]][pair[1]];
    return n > 0 ? n : 0;
}

/* Every program takes its part of what is missing: chunks from all over the list. */
static void make_edges(Directed *x, DirectedSet *set, Entry e) {
    const Pairs *p = legal_pairs();
    int left = 0;
    for (int i = 0; i < p->n; i++) left += missing(set, p->at[i]);
    const int programs = set->programs - set->made, share = e == ENTRY_INFER ? 9 : 3; /* of five, on average */
    int want = left * share / (5 * (programs > 4 ? programs - 4 : 1)) + 1;
    if (programs < 40) want = INT32_MAX; /* once through all that is missing */
    for (int seen = 0; seen < p->n && want > 0;) {
        for (int i = 0; i < CHUNK; i++, seen++) {
            const Op *pair = p->at[(set->cursor + i) % p->n];
            const int often = programs < 100 ? (missing(set, pair) + 3) / 4 : missing(set, pair) > 0;
            for (int j = 0; j < often; j++) {
                const bool made = make_edge(x, pair[0], pair[1]);
                if (!made) set->failed[pair[0]][pair[1]]++;
                want -= made;
            }
        }
        set->cursor = (set->cursor + (pick_below(x, 4) ? CHUNK : 37 * CHUNK)) % p->n;
    }
}

/* Four times as often as asked: an earlier rule may take one, or a pass be left out. */
static void make_rules(Directed *x, DirectedSet *set) {
    enum { ALL = PATTERN_COUNT + IDIOMS };
    const int n = (ALL * (int)coverage_least() * 4 + set->programs - 1) / set->programs;
    for (int i = 0; i < n; i++, set->rule = (set->rule + 1) % ALL) {
        if (set->rule < PATTERN_COUNT)
            directed_pattern(x, set->rule);
        else
            directed_idiom(x, set->rule - PATTERN_COUNT);
    }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
static void add_output(Directed *x, const char *name, Node *v) {
    TensorDecl d = {.name = name, .dtype = v->dtype, .shape = *v->shape};
    vec_push(x->a, x->g->model->outputs, d);
    graph_result(x->g, RESULT_OUTPUT, x->g->model->outputs.n - 1, v);
}

static Node *total(Directed *x, Node *n) {
    int8_t axes[MAX_RANK];
    for (int d = 0; d < n->shape->rank; d++) axes[d] = (int8_t)d;
    n = graph_unary(x->g, OP_TANH, n);
    return n->shape->rank ? graph_reduce(x->g, OP_SUM, n, n->shape->rank, axes) : n;
}

/* What nothing reads is a result; values of one dtype and shape are first joined by twos, by ops that hide no error. */
static Node *joined(Directed *x, Node *n) {
    static const Op ops[DT_COUNT][3] = {
        [DT_F32] = {OP_ADD, OP_SUB, OP_MUL}, [DT_I32] = {OP_ADD, OP_SUB, OP_SUB}, [DT_BOOL] = {OP_NE, OP_EQ, OP_NE}};
    for (int i = 0; i < x->pool.n; i++) {
        Node *other = x->pool.at[i];
        if (other == n || x->read.at[other->id] || other->n_in == 0) continue;
        if (other->dtype != n->dtype || !shape_same(other->shape, n->shape)) continue;
        Node *both = directed_emit(x, ops[n->dtype][pick_below(x, 3)], 2, (Node *[]){n, other}, NULL, shape_scalar());
        if (both) return both;
    }
    return n;
}

/* NULL: of a failed attempt only. */
static Node *param_node(Directed *x, int decl) {
    for (int i = 0; i < x->pool.n; i++)
        if (x->pool.at[i]->op == OP_PARAM && x->pool.at[i]->attr->decl == decl) return x->pool.at[i];
    return NULL;
}

static void add_gradients(Directed *x, Entry e, Node *loss) {
    add_output(x, "loss", loss);
    for (int p = 0; p < x->g->model->params.n; p++) {
        Node *w = param_node(x, p);
        if (!w || w->dtype != DT_F32) continue;
        Node *d = graph_op(x->g, OP_GRADIENT, 2, (Node *[]){loss, w}, NULL);
        d->phase = PHASE_BACKWARD;
        if (e == ENTRY_GRAD) {
            graph_result(x->g, RESULT_GRAD, p, d);
            continue;
        }
        Node *rate = graph_const(x->g, DT_F32, *d->shape, 0.125);
        Node *next = graph_binary(x->g, OP_SUB, w, graph_binary(x->g, OP_MUL, d, rate));
        next->phase = PHASE_UPDATE;
        graph_result(x->g, RESULT_PARAM, p, next);
    }
}

/* A state takes a value of its shape now and then. */
static void add_states(Directed *x) {
    for (int s = 0; s < x->g->model->states.n; s++) {
        const TensorDecl *d = &x->g->model->states.at[s];
        if (pick_below(x, 2)) continue;
        graph_result(x->g, RESULT_STATE, s, directed_operand(x, d->dtype, d->shape, NEED_ANY));
    }
}

static void add_results(Directed *x, Entry e) {
    Node *loss = NULL;
    add_states(x);
    for (int i = 0, y = 0; i < x->pool.n; i++) {
        Node *n = x->pool.at[i];
        if (x->read.at[n->id] || (op_info[n->op].cls == CLASS_SOURCE && n->n_in == 0)) continue;
        if (e == ENTRY_INFER || n->dtype != DT_F32) {
            Node *both = joined(x, n);
            if (both != n) continue; /* it comes later in the pool */
        }
        if (e == ENTRY_INFER || n->dtype != DT_F32) {
            add_output(x, arena_printf(x->a, "y%d", y++), n);
            continue;
        }
        Node *t = total(x, n);
        loss = loss ? graph_binary(x->g, OP_ADD, loss, t) : t;
    }
    if (e != ENTRY_INFER) add_gradients(x, e, loss ? loss : total(x, directed_leaf(x, DT_F32, x->base, NEED_ANY)));
}

DirectedSet *directed_set(Arena *a, int programs, uint64_t seed) {
    DirectedSet *set = ARENA_NEW(a, DirectedSet);
    *set = (DirectedSet){.programs = programs, .seed = seed, .so_far = ARENA_NEW(a, Coverage)};
    return set;
}

Graph *directed_next(DirectedSet *set, Arena *a, Entry e, RandomOptions o) {
    Model *m = ARENA_NEW(a, Model);
    Directed x = {.a = a, .most = 400, .r = {((set->seed << 32) + (uint64_t)set->made + 1) * 0x9E3779B97F4A7C15u}, .o = o};
    for (int i = 0; i < 8; i++) test_random(&x.r);
    m->name = "directed";
    vec_push(a, m->files, "directed");
    if (o.bounded) vec_push(a, m->syms, (SymDecl){"S", 2 + pick_below(&x, 5)});
    vec_push(a, m->hypers, (HyperDecl){"h", 0.75});
    x.g = graph_new(a, m, e);
    x.base = directed_shape(&x, 1);
    new_leaf(&x, DT_F32, x.base, NEED_ANY);
    make_edges(&x, set, e);
    make_rules(&x, set);
    add_results(&x, e);
    graph_prune(x.g);
    graph_renumber(x.g);
    if (o.low) low_precision(a, x.g, &x.r);
    coverage_count(set->so_far, x.g);
    set->made++;
    return x.g;
}
