/* jacobian_gemm: a contraction with an indicator operand does what the indicator says, instead of multiplying with it.
 *
 *     sum_e float(ids[e] == v) * x[e, c]      =  scatter(x, ids)[v, c]
 *     sum_v float(ids[e] == v) * t[v, c]      =  t[ids[e], c], 0 where no v is ids[e]
 *     sum_ev float(ids[e] == v) * x[e, c]     =  sum_e of x[e, c] where ids[e] is one of the v
 *     max_e where(ids[e] == v, x[e, c], -inf) =  scatter_max(x, ids)[v, c]; min likewise.  By canonicalize, before autodiff: the
 *                                                derivative of the left side looks for the first of all ids, row by row
 *
 * Along dims that ids and the other operand share, as samples of a batch, row v of sample b is row b * V + v of all.  A term
 * whose indicator is 0 is left out, be its other factor infinite or NaN (docs/numerics.md).
 * Its constants are from `./dev bench fusion`. */
#include "passes/rewrite/rewrite.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include <math.h>
#include <string.h>

/* Rows from which on it pays: of fewer a product takes no longer, and programs of their own are too few. */
enum { LEAST_ROWS = 64, LEAST_TERMS = 1 << 16 };

typedef struct Indicator {
    Rewriter *r;
    const Contract *c;
    Node *const *in;
    int at;              /* which operand */
    Node *ids;
    int row;             /* the loop over rows */
    int64_t rows;
    int loop[MAX_RANK];  /* by dim of ids */
    bool batch[MAX_RANK];/* by dim of ids: the rows have it too */
    int64_t samples;     /* of those dims */
    bool chosen;         /* it comes of where(ids == v, x, 0): no factor of x counts where ids is none of the rows, be it infinite */
    Op reduce;           /* OP_SUM, or OP_RMAX, OP_RMIN of one operand */
} Indicator;

static bool is_loop_of(const Indicator *x, int loop) {
    bool found = false;
    for (int d = 0; d < x->ids->shape->rank; d++) found |= x->loop[d] == loop;
    return found;
}

/* The loop that a dim of an operand is, alone and whole; -1: none. */
static int whole_loop(const Indicator *x, const Affine *e, Dim extent) {
    const int loop = affine_single_loop(x->c, e);
    return loop >= 0 && dim_equal(x->c->extent[loop], extent) ? loop : -1;
}

/* Some other operand than `but`, or a guard, has the loop. */
static bool is_used(const Indicator *x, int loop, int but) {
    bool used = false;
    for (int k = 0; k < x->c->n_operands; k++) used |= k != x->at && k != but && contract_mentions(x->c, x->in, k, loop);
    for (int i = 0; i < x->c->n_guards; i++) used |= x->c->guard[i].e.coef[loop] != 0;
    return used;
}

/* float(ids == iota), whatever else its dims are: along them it is the same. */
static bool find_ids(Indicator *x, const Node *equal, int side) {
    const Node *iota = rewrite_seen(x->r, equal->in[side], OP_IOTA), *b = rewrite_seen(x->r, equal->in[1 - side], OP_BROADCAST);
    if (!iota || !b || b->attr->n_axes == 0) return false;
    const Affine *map = x->c->map[x->at];
    bool legal = true;
    x->ids = b->in[0];
    x->row = whole_loop(x, &map[iota->attr->axis], equal->shape->dim[iota->attr->axis]);
    for (int d = 0, id = 0; d < equal->shape->rank; d++) {
        const bool of_ids = id < b->attr->n_axes && b->attr->axes[id] == d, of_row = d == iota->attr->axis;
        const int loop = whole_loop(x, &map[d], equal->shape->dim[d]);
        legal &= !(of_ids && of_row) && (loop >= 0 || (!of_ids && !of_row && affine_always_in(x->c, &map[d], 0, equal->shape->dim[d])));
        legal &= !of_ids || (loop != x->row);
        if (of_ids) x->loop[id++] = loop;
    }
    for (int d = 0; d < x->ids->shape->rank; d++)
        for (int other = 0; other < d; other++) legal &= x->loop[d] != x->loop[other];
    return legal && x->row >= 0 && shape_is_fixed(*x->ids->shape) && dim_is_fixed(x->c->extent[x->row]);
}

static bool find_indicator(Indicator *x) {
    for (x->at = 0; x->at < x->c->n_operands; x->at++) {
        const Node *cast = rewrite_seen(x->r, x->in[x->at], OP_CAST);
        const Node *equal = rewrite_seen(x->r, cast && cast->dtype == DT_F32 ? cast->in[0] : x->in[x->at], OP_EQ);
        if (!equal || equal->in[0]->dtype != DT_I32 || !(find_ids(x, equal, 0) || find_ids(x, equal, 1))) continue;
        x->rows = x->c->extent[x->row].bound;
        return x->rows >= LEAST_ROWS && (double)x->rows * (double)shape_elements(*x->ids->shape) >= LEAST_TERMS;
    }
    return false;
}

/* ---- contractions without the indicator ----------------------------------------------------------------------------- */
/* Under construction: `to` says by old loop which new one it is, -1: none yet. */
typedef struct Rest {
    Contract c;
    Affine map[MAX_LOOPS][MAX_RANK];
    Node *in[MAX_LOOPS];
    int to[MAX_LOOPS];
} Rest;

static void add_loop(Rest *s, const Contract *old, int loop) {
    if (s->to[loop] >= 0) return;
    s->to[loop] = s->c.n_loops;
    s->c.extent[s->c.n_loops++] = old->extent[loop];
}

static Affine renumbered(const Rest *s, const Affine *e, int n_loops) {
    Affine a = {.c = e->c, .divisor = e->divisor};
    for (int l = 0; l < n_loops; l++)
        if (e->coef[l]) a.coef[s->to[l]] = e->coef[l];
    return a;
}

static void begin_rest(Rest *s) {
    memset(s, 0, sizeof *s);
    for (int l = 0; l < MAX_LOOPS; l++) s->to[l] = -1;
}

static void add_operand(Rest *s, const Indicator *x, int k) {
    const int at = s->c.n_operands++;
    s->in[at] = x->in[k];
    for (int d = 0; d < x->in[k]->shape->rank; d++) s->map[at][d] = renumbered(s, &x->c->map[k][d], x->c->n_loops);
}

/* One operand's dims, each once: as they are, or in another order. */
static bool is_moved(const Rest *s, int8_t *perm) {
    const Shape *shape = s->in[0]->shape;
    unsigned seen = 0;
    bool moved = s->c.n_operands == 1 && s->c.n_loops == s->c.n_out && shape->rank == s->c.n_out && s->c.n_guards == 0;
    for (int d = 0; d < shape->rank && moved; d++) {
        const int loop = affine_single_loop(&s->c, &s->map[0][d]);
        moved = loop >= 0 && dim_equal(s->c.extent[loop], shape->dim[d]);
        if (!moved || seen >> loop & 1) return false;
        perm[loop] = (int8_t)d, seen |= 1u << loop;
    }
    return moved;
}

static Node *finish_rest(Rest *s, const Indicator *x) {
    int8_t perm[MAX_RANK];
    s->c.map = s->map;
    s->c.guard = ARENA_ARRAY(x->r->scratch, Guard, x->c->n_guards + 1);
    for (int i = 0; i < x->c->n_guards; i++) {
        s->c.guard[i] = x->c->guard[i];
        s->c.guard[i].e = renumbered(s, &x->c->guard[i].e, x->c->n_loops);
    }
    s->c.n_guards = x->c->n_guards;
    if (is_moved(s, perm)) return rewrite_transpose(x->r, s->in[0], perm);
    return rewrite_op(x->r, OP_CONTRACT, s->c.n_operands, s->in, &(Attr){.contract = &s->c});
}

/* ---- ids of all samples ---------------------------------------------------------------------------------------------- */
static Node *element(Rewriter *r, Op op, Node *a, Node *b) { return rewrite_op(r, op, 2, (Node *[]){a, b}, NULL); }

static Node *is_row(const Indicator *x) {
    const Shape *s = x->ids->shape;
    Node *zero = rewrite_const(x->r, DT_I32, *s, 0), *rows = rewrite_const(x->r, DT_I32, *s, (double)x->rows);
    return element(x->r, OP_AND, element(x->r, OP_GE, x->ids, zero), element(x->r, OP_LT, x->ids, rows));
}

/* ids + (number of the sample) * rows, -1 where they are none of the rows. */
static Node *ids_of_all(const Indicator *x) {
    const Shape *s = x->ids->shape;
    Node *first = NULL;
    int64_t stride = x->rows;
    if (x->samples == 1) return x->ids;
    for (int d = s->rank - 1; d >= 0; d--) {
        if (!x->batch[d]) continue;
        Node *number = rewrite_node(x->r, OP_IOTA, 0, NULL, &(Attr){.axis = d, .dtype = DT_I32}, DT_I32, *s);
        Node *begins = element(x->r, OP_MUL, number, rewrite_const(x->r, DT_I32, *s, (double)stride));
        first = first ? element(x->r, OP_ADD, first, begins) : begins;
        stride *= s->dim[d].bound;
    }
    Node *in[] = {is_row(x), element(x->r, OP_ADD, x->ids, first), rewrite_const(x->r, DT_I32, *s, -1)};
    return rewrite_op(x->r, OP_SELECT, 3, in, NULL);
}

static bool count_samples(Indicator *x) {
    x->samples = 1;
    for (int d = 0; d < x->ids->shape->rank; d++)
        if (x->batch[d]) x->samples *= x->ids->shape->dim[d].bound;
    return (double)x->samples * (double)x->rows < INT32_MAX / 2;
}

/* ---- sums and extremes by ids -------------------------------------------------------------------------------------------- */
static Node *scattered(const Indicator *x, Node *terms) {
    const bool least = x->reduce == OP_RMIN;
    Node *in[] = {least ? rewrite_op(x->r, OP_NEG, 1, &terms, NULL) : terms, ids_of_all(x)};
    Node *rows = rewrite_op(x->r, x->reduce == OP_SUM ? OP_SCATTER_ADD : OP_SCATTER_MAX, 2, in, &(Attr){.extent = dim_fixed(x->samples * x->rows)});
    return least ? rewrite_op(x->r, OP_NEG, 1, &rows, NULL) : rows;
}

static Node *as_scatter(Indicator *x) {
    const Contract *c = x->c;
    const int rank = x->ids->shape->rank;
    if (is_used(x, x->row, -1)) return NULL;
    for (int d = 0; d < rank; d++) x->batch[d] = x->loop[d] < c->n_out;
    if (!count_samples(x)) return NULL;
    Rest s;
    begin_rest(&s);
    for (int d = 0; d < rank; d++) add_loop(&s, c, x->loop[d]);
    for (int l = 0; l < c->n_out; l++)
        if (l != x->row) add_loop(&s, c, l);
    s.c.n_out = s.c.n_loops;
    if (s.c.n_out > MAX_RANK || c->n_out > MAX_RANK) return NULL;
    for (int l = c->n_out; l < c->n_loops; l++) add_loop(&s, c, l);
    if (x->reduce != OP_SUM && s.c.n_loops > s.c.n_out) return NULL;
    Shape shape = {.rank = s.c.n_out};
    for (int l = 0; l < s.c.n_out; l++) shape.dim[l] = s.c.extent[l];
    for (int k = 0; k < c->n_operands; k++)
        if (k != x->at) add_operand(&s, x, k);
    if (!s.c.n_operands && (c->n_guards || s.c.n_loops > s.c.n_out)) return NULL;
    Node *terms = s.c.n_operands ? finish_rest(&s, x) : rewrite_const(x->r, DT_F32, shape, 1);
    Node *rows = scattered(x, terms);
    /* [samples * rows, others] to [samples.., rows, others], then as the loops are */
    Shape apart = {0};
    int8_t perm[MAX_RANK];
    int place[MAX_LOOPS];
    for (int d = 0; d < rank; d++)
        if (x->batch[d]) place[x->loop[d]] = apart.rank, apart.dim[apart.rank++] = c->extent[x->loop[d]];
    place[x->row] = apart.rank, apart.dim[apart.rank++] = c->extent[x->row];
    for (int l = 0; l < c->n_out; l++)
        if (l != x->row && !is_loop_of(x, l)) place[l] = apart.rank, apart.dim[apart.rank++] = c->extent[l];
    for (int l = 0; l < c->n_out; l++) perm[l] = (int8_t)place[l];
    return rewrite_transpose(x->r, rewrite_reshape(x->r, rows, apart), perm);
}

/* ---- lookups ------------------------------------------------------------------------------------------------------------- */
/* The only other operand that has the row's loop, as one dim alone: its number, and which dim; -1: none. */
static int find_table(const Indicator *x, int *dim) {
    int table = -1, times = 0;
    for (int k = 0; k < x->c->n_operands; k++) {
        if (k == x->at || !contract_mentions(x->c, x->in, k, x->row)) continue;
        table = k;
        for (int d = 0; d < x->in[k]->shape->rank; d++) {
            if (!x->c->map[k][d].coef[x->row]) continue;
            times++;
            if (whole_loop(x, &x->c->map[k][d], x->in[k]->shape->dim[d]) != x->row) return -1;
            *dim = d;
        }
    }
    return times == 1 && !is_used(x, x->row, table) ? table : -1;
}

/* A table is there to be looked up if it lies in memory anyway, or is walked many times over; elsewhere it may be made of a product
 * and never be in memory, as the logits are of which a loss picks the label's. */
static bool pays_to_look_up(const Indicator *x, const Node *table) {
    enum { WALKS = 4 };
    double terms = 1;
    for (int l = 0; l < x->c->n_loops; l++) terms *= (double)x->c->extent[l].bound;
    const bool walked = terms >= WALKS * (double)shape_elements(*table->shape);
    while (op_info[table->op].cls == CLASS_MOVE && table->n_in == 1) table = table->in[0];
    return walked || table->op == OP_PARAM || table->op == OP_STATE || table->op == OP_INPUT;
}

/* All loops but the rows'. */
static void add_other_loops(Rest *s, const Indicator *x) {
    for (int l = 0; l < x->c->n_loops; l++) {
        if (l == x->c->n_out) s->c.n_out = s->c.n_loops;
        if (l != x->row) add_loop(s, x->c, l);
    }
}

/* The terms where ids are rows, and 0 elsewhere, then what is summed of them; NULL: they have too many dims. */
static Node *where_row(const Indicator *x, Rest *s) {
    const int first = s->c.n_out, rank = s->c.n_loops;
    int8_t perm[MAX_RANK], axes[MAX_RANK], summed[MAX_RANK];
    int n = 0;
    if (rank > MAX_RANK) return NULL;
    s->c.n_out = rank;
    for (int l = 0; l < rank; l++)
        for (int id = 0; id < x->ids->shape->rank; id++)
            if (s->to[x->loop[id]] == l) perm[n] = (int8_t)id, axes[n++] = (int8_t)l;
    for (int l = first; l < rank; l++) summed[l - first] = (int8_t)l;
    Node *terms = s->c.n_operands ? finish_rest(s, x) : rewrite_const(x->r, DT_F32, shape_make(rank, s->c.extent), 1);
    Node *mask = rewrite_broadcast(x->r, rewrite_transpose(x->r, is_row(x), perm), *terms->shape, axes);
    Node *in[] = {mask, terms, rewrite_const(x->r, DT_F32, *terms->shape, 0)};
    Node *kept = rewrite_op(x->r, OP_SELECT, 3, in, NULL);
    return rank > first ? rewrite_reduce(x->r, OP_SUM, kept, rank - first, summed) : kept;
}

/* An operand whose first dims are those of ids; its number. */
static int add_by_ids(Rest *s, const Indicator *x, Node *operand) {
    const int at = s->c.n_operands++;
    s->in[at] = operand;
    for (int d = 0; d < x->ids->shape->rank; d++) {
        s->map[at][d] = (Affine){.divisor = 1};
        s->map[at][d].coef[s->to[x->loop[d]]] = 1;
    }
    return at;
}

/* Nothing else has the rows, over which the sum goes: of an id that is one of them it has one term. */
static Node *as_count(const Indicator *x) {
    Rest s;
    begin_rest(&s);
    add_other_loops(&s, x);
    for (int k = 0; k < x->c->n_operands; k++)
        if (k != x->at) add_operand(&s, x, k);
    if (s.c.n_operands < 2 || x->chosen) return !s.c.n_operands && x->c->n_guards ? NULL : where_row(x, &s);
    add_by_ids(&s, x, rewrite_op(x->r, OP_CAST, 1, (Node *[]){is_row(x)}, &(Attr){.dtype = DT_F32}));
    return finish_rest(&s, x);
}

static Node *as_gather(Indicator *x) {
    const Contract *c = x->c;
    const int rank = x->ids->shape->rank;
    int row_dim = 0, n = 0, of_ids[MAX_RANK];
    const int table = find_table(x, &row_dim);
    if (table < 0 || !shape_is_fixed(*x->in[table]->shape) || !pays_to_look_up(x, x->in[table])) return NULL;
    Node *t = x->in[table];
    int8_t perm[MAX_RANK];
    bool taken[MAX_RANK] = {0};
    /* samples first, in the order of ids; then rows, then the rest */
    for (int d = 0; d < rank; d++) {
        of_ids[d] = -1;
        for (int k = 0; k < t->shape->rank; k++)
            if (!taken[k] && whole_loop(x, &c->map[table][k], t->shape->dim[k]) == x->loop[d] && of_ids[d] < 0) of_ids[d] = k;
        x->batch[d] = of_ids[d] >= 0;
        if (x->batch[d]) perm[n++] = (int8_t)of_ids[d], taken[of_ids[d]] = true;
    }
    if (!count_samples(x)) return NULL;
    perm[n++] = (int8_t)row_dim, taken[row_dim] = true;
    Shape flat = {.rank = 1, .dim = {dim_fixed(x->samples * x->rows)}};
    for (int k = 0; k < t->shape->rank; k++)
        if (!taken[k]) perm[n++] = (int8_t)k, flat.dim[flat.rank++] = t->shape->dim[k];
    if (rank + flat.rank - 1 > MAX_RANK) return NULL;
    Node *rows = rewrite_reshape(x->r, rewrite_transpose(x->r, t, perm), flat);
    Node *found = rewrite_op(x->r, OP_GATHER, 2, (Node *[]){rows, ids_of_all(x)}, NULL);
    Rest s;
    begin_rest(&s);
    add_other_loops(&s, x);
    for (int k = 0; k < c->n_operands; k++)
        if (k != x->at && k != table) add_operand(&s, x, k);
    const int at = add_by_ids(&s, x, found);
    for (int k = 0, d = rank; k < t->shape->rank; k++)
        if (!taken[k]) s.map[at][d++] = renumbered(&s, &c->map[table][k], c->n_loops);
    return x->chosen && s.c.n_operands > 1 ? where_row(x, &s) : finish_rest(&s, x);
}

static Node *by_indicator(Rewriter *r, const Contract *c, Node *const *in, bool chosen) {
    Indicator x = {.r = r, .c = c, .in = in, .chosen = chosen, .reduce = OP_SUM};
    if (c->to_f32 || !find_indicator(&x)) return NULL;
    for (int k = 0; k < c->n_operands; k++)
        if (k != x.at && in[k]->dtype != DT_F32) return NULL;
    if (x.row < c->n_out) return as_scatter(&x);
    return is_used(&x, x.row, -1) ? as_gather(&x) : as_count(&x);
}

/* ---- sums ------------------------------------------------------------------------------------------------------------------ */
enum { FACTORS = 6 };

typedef struct Factors {
    Node *at[FACTORS];
    int n;
    double scale; /* the product of constants */
    bool chosen;  /* of Indicator */
} Factors;

/* The factors of a sum's terms: of products, and of where(a == b, x, 0), which is x times an indicator, but for what is infinite
 * (chosen).  false: too many. */
static bool factors_of(Rewriter *r, Node *terms, Factors *f) {
    const Node *product = rewrite_seen(r, terms, OP_MUL), *chosen = rewrite_seen(r, terms, OP_SELECT);
    const Node *other = chosen ? rewrite_seen(r, chosen->in[2], OP_CONST) : NULL;
    const Node *wide = chosen ? rewrite_seen(r, chosen->in[0], OP_BROADCAST) : NULL;
    if (other && other->attr->value == 0 && rewrite_seen(r, wide ? wide->in[0] : chosen->in[0], OP_EQ)) product = chosen;
    f->chosen |= product && product == chosen;
    if (product) return factors_of(r, product->in[0], f) && factors_of(r, product->in[1], f);
    if (terms->op == OP_CONST && isfinite(terms->attr->value)) {
        f->scale *= terms->attr->value;
        return true;
    }
    if (f->n == FACTORS) return false;
    f->at[f->n++] = terms;
    return true;
}

/* Dims that the reduction leaves, then those over which it goes; factors are read there, through broadcasts. */
typedef struct Reduction {
    Factors f;
    Affine map[FACTORS][MAX_RANK];
    Contract c;
} Reduction;

static void read_factors(Rewriter *r, const Node *n, Reduction *x) {
    int loop_of[MAX_RANK];
    bool summed[MAX_RANK] = {0};
    const Shape *s = n->in[0]->shape;
    memset(x->map, 0, sizeof x->map);
    x->c = (Contract){.map = x->map, .n_operands = x->f.n};
    for (int i = 0; i < n->attr->n_axes; i++) summed[n->attr->axes[i]] = true;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < s->rank; d++) {
            if (summed[d] != (pass == 1)) continue;
            loop_of[d] = x->c.n_loops;
            x->c.extent[x->c.n_loops++] = s->dim[d];
            x->c.n_out += pass == 0;
        }
    for (int k = 0; k < x->f.n; k++) {
        Node **at = &x->f.at[k];
        const Node *b = rewrite_seen(r, *at, OP_BROADCAST);
        if (b) *at = b->in[0];
        for (int d = 0; d < (*at)->shape->rank; d++) {
            x->map[k][d] = (Affine){.divisor = 1};
            x->map[k][d].coef[loop_of[b ? b->attr->axes[d] : d]] = 1;
        }
    }
}

static Node *sum_by_indicator(Rewriter *r, const Node *n) {
    Reduction x = {.f.scale = 1};
    if (n->dtype != DT_F32 || n->in[0]->shape->rank > MAX_LOOPS || !factors_of(r, n->in[0], &x.f)) return NULL;
    read_factors(r, n, &x);
    Node *sum = by_indicator(r, &x.c, x.f.at, x.f.chosen);
    return !sum || x.f.scale == 1 ? sum : element(r, OP_MUL, sum, rewrite_const(r, DT_F32, *sum->shape, x.f.scale));
}

Node *rule_extremum_by_ids(Rewriter *r, const Node *n) {
    const Node *chosen = rewrite_seen(r, n->in[0], OP_SELECT);
    const Node *other = chosen ? rewrite_seen(r, chosen->in[2], OP_CONST) : NULL;
    if (!other || other->attr->value != scalar_identity(n->op, n->dtype) || n->dtype != DT_F32 || chosen->shape->rank > MAX_LOOPS) return NULL;
    Reduction x = {.f = {.at = {chosen->in[0], chosen->in[1]}, .n = 2}};
    read_factors(r, n, &x);
    Indicator by = {.r = r, .c = &x.c, .in = x.f.at, .reduce = n->op};
    return find_indicator(&by) && by.at == 0 && by.row < x.c.n_out ? as_scatter(&by) : NULL;
}

Node *rule_indicator(Rewriter *r, const Node *n) {
    return n->op == OP_SUM ? sum_by_indicator(r, n) : by_indicator(r, n->attr->contract, n->in, false);
}
