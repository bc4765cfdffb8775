/* Bounds of loops: iterations that a mask makes empty are left out.
 *
 * A mask compares indices, `s <= j`.  On one side of a line through the index space it is false: there the value that it selects
 * is a constant, and if that leaves everything that the loop carries as it is (a maximum with -inf, a sum with exp(-inf), a
 * product with 0), the iterations that lie there whole need not run.  So the loop over s of the program whose rows end at
 * 128*@j + 127 ends there too: half of the work of a causal mask, and all but a band of a sliding window's.
 *
 * For each comparison of affine indices in a loop's body, and each outcome, the body is evaluated symbolically: constants are
 * folded, equal instructions are one expression (value numbering), and what is yielded is compared with what came in.  0 times a
 * value is 0 here, as where a masked load reads 0: an inf or NaN in what is left out does not spread (docs/numerics.md).
 *
 * Needs: a kernel, scheduled or not.  Keeps: the program, but for such inf and NaN.  Gives: Inst.from and Inst.to. */
#include "passes/kernel/emitter.h"
#include <math.h>
#include <string.h>

enum { MOST_INSTS = 512 /* of a loop's body: the evaluation compares each with all */ };

typedef enum { WHAT_VALUE, WHAT_CONST, WHAT_ELEMENT } What;

/* An expression.  Two values with equal ones are equal in all lanes. */
typedef struct Expr {
    What what;
    DType dtype;
    Op op;            /* ELEMENT */
    int n, in[4];     /* ELEMENT: expressions */
    double number;    /* CONST */
    const Index *at;  /* VALUE: an integer that is this index expression; NULL: something else */
    bool above_inf;   /* it is not -inf */
    const Inst *load; /* VALUE: what it was read by; NULL: it was not, or under a mask */
} Expr;

typedef struct Bounds {
    Kernel *k;
    Arena *arena;
    VEC(Expr) all;
    int *of;                 /* by value: its expression; -1: not evaluated */
    const Inst *assumed;     /* a comparison, and how it comes out */
    double outcome;
    const Inst **around;     /* loops around the one at hand, outermost first */
    int n_around;
} Bounds;

static int add(Bounds *b, Expr e) {
    vec_push(b->arena, b->all, e);
    return b->all.n - 1;
}

static int constant(Bounds *b, DType t, double v) {
    for (int i = 0; i < b->all.n; i++) {
        const Expr *e = &b->all.at[i];
        if (e->what == WHAT_CONST && e->dtype == t && !memcmp(&e->number, &v, sizeof v)) return i;
    }
    return add(b, (Expr){.what = WHAT_CONST, .dtype = t, .number = v, .above_inf = v != -INFINITY});
}

static int unknown(Bounds *b, DType t) { return add(b, (Expr){.what = WHAT_VALUE, .dtype = t}); }

static bool is_number(const Bounds *b, int e, double v) {
    return b->all.at[e].what == WHAT_CONST && b->all.at[e].number == v;
}
static bool is_const(const Bounds *b, int e) { return b->all.at[e].what == WHAT_CONST; }

/* ---- elementwise instructions ---------------------------------------------------------------------------------------- */
static int folded(Bounds *b, Op op, DType t, int n, const int *in) {
    double x[4];
    for (int i = 0; i < n; i++) {
        if (!is_const(b, in[i])) return -1;
        x[i] = b->all.at[in[i]].number;
    }
    return constant(b, t, scalar_round(t, scalar_op(op, t, x)));
}

/* x + y as an index, of integers that are such; NULL: not known, or not in 32 bits. */
static const Index *integer(const Bounds *b, int e) {
    const Expr *x = &b->all.at[e];
    if (x->dtype != DT_I32) return NULL;
    return x->what == WHAT_CONST ? index_const(b->k->arena, (int64_t)x->number) : x->at;
}

static int indexed(Bounds *b, Op op, const int *in) {
    const Index *x = integer(b, in[0]), *y = op == OP_NEG ? x : integer(b, in[1]), *z = NULL;
    int64_t c;
    if (!x || !y) return -1;
    if (op == OP_ADD) z = index_add(b->k, x, y);
    if (op == OP_SUB) z = index_add(b->k, x, index_scale(b->k, y, -1));
    if (op == OP_NEG) z = index_scale(b->k, x, -1);
    if (op == OP_MUL && index_is_const(y, &c)) z = index_scale(b->k, x, c);
    else if (op == OP_MUL && index_is_const(x, &c)) z = index_scale(b->k, y, c);
    if (!z || !index_fits_i32(b->k, z)) return -1;
    return add(b, (Expr){.what = WHAT_VALUE, .dtype = DT_I32, .at = z, .above_inf = true});
}

/* What is known of the result when one operand is a constant, or both are the same; -1: nothing. */
static int identity(Bounds *b, Op op, DType t, const int *in) {
    const int x = in[0], y = in[1];
    const bool real = dtype_is_float(t);
    switch (op) {
    case OP_SELECT:
        if (is_const(b, x)) return b->all.at[x].number != 0 ? y : in[2];
        return y == in[2] ? y : -1;
    case OP_AND: return is_number(b, x, 0) || is_number(b, y, 1) ? x : is_number(b, y, 0) || is_number(b, x, 1) ? y : -1;
    case OP_OR: return is_number(b, x, 1) || is_number(b, y, 0) ? x : is_number(b, y, 1) || is_number(b, x, 0) ? y : -1;
    case OP_MUL:
        if (is_number(b, x, 0) || is_number(b, y, 0)) return constant(b, t, 0);
        return is_number(b, x, 1) ? y : is_number(b, y, 1) ? x : -1;
    case OP_DIV:
        if (real && is_number(b, x, 0) && !is_number(b, y, 0)) return x;
        return is_number(b, y, 1) ? x : -1;
    case OP_ADD:
        if (real && is_number(b, x, -INFINITY)) return x;
        if (real && is_number(b, y, -INFINITY)) return y;
        return is_number(b, x, 0) ? y : is_number(b, y, 0) ? x : -1;
    case OP_SUB:
        if (is_number(b, y, 0)) return x;
        if (real && is_number(b, x, -INFINITY) && b->all.at[y].above_inf) return x;
        return x == y && b->all.at[x].above_inf ? constant(b, t, 0) : -1;
    case OP_MAX: return is_number(b, y, -INFINITY) || x == y ? x : is_number(b, x, -INFINITY) ? y : -1;
    case OP_MIN: return is_number(b, y, INFINITY) || x == y ? x : is_number(b, x, INFINITY) ? y : -1;
    default: return -1;
    }
}

static bool stays_above_inf(const Bounds *b, const Expr *e) {
    const bool x = b->all.at[e->in[0]].above_inf, y = e->n > 1 && b->all.at[e->in[1]].above_inf;
    switch (e->op) {
    case OP_CAST:
        /* A finite number may round to one that is not. */
        return x && (dtype_bytes(e->dtype) >= dtype_bytes(b->all.at[e->in[0]].dtype));
    case OP_MAX: return x || y;
    case OP_MIN: return x && y;
    case OP_EXP:
    case OP_ABS: return true;
    case OP_POW: return is_const(b, e->in[0]) && b->all.at[e->in[0]].number > 0;
    default: return e->dtype == DT_I32;
    }
}

static int element(Bounds *b, Op op, DType t, int n, const int *in) {
    int e = folded(b, op, t, n, in);
    if (e < 0) e = identity(b, op, t, (const int[]){in[0], n > 1 ? in[1] : in[0], n > 2 ? in[2] : in[0]});
    if (e < 0 && t == DT_I32 && (n == 2 || op == OP_NEG)) e = indexed(b, op, in);
    if (e >= 0) return e;
    Expr x = {.what = WHAT_ELEMENT, .dtype = t, .op = op, .n = n};
    for (int i = 0; i < n; i++) x.in[i] = in[i];
    for (int i = 0; i < b->all.n; i++) {
        const Expr *y = &b->all.at[i];
        if (y->what == WHAT_ELEMENT && y->dtype == t && y->op == op && y->n == n && !memcmp(y->in, x.in, sizeof x.in)) return i;
    }
    x.above_inf = stays_above_inf(b, &x);
    return add(b, x);
}

/* ---- a body ------------------------------------------------------------------------------------------------------------- */
static int expr_of(Bounds *b, int value) {
    if (b->of[value] < 0) b->of[value] = unknown(b, b->k->types.at[value].dtype);
    return b->of[value];
}

static int reduced(Bounds *b, const Inst *i) {
    const int x = expr_of(b, i->in[0]);
    const bool extreme = i->op == OP_RMAX || i->op == OP_RMIN;
    if (is_const(b, x) && (extreme || (i->op == OP_SUM && is_number(b, x, 0)) || (i->op == OP_PROD && is_number(b, x, 1)))) return x;
    return unknown(b, i->type.dtype);
}

static int product(Bounds *b, const Inst *i) {
    const int x = expr_of(b, i->in[0]), y = expr_of(b, i->in[1]);
    return is_number(b, x, 0) || is_number(b, y, 0) ? expr_of(b, i->in[2]) : unknown(b, i->type.dtype);
}

static int evaluated(Bounds *b, const Inst *i) {
    int in[4];
    if (i == b->assumed) return constant(b, DT_BOOL, b->outcome);
    switch (i->kind) {
    case TI_CONST:
    case TI_FULL: return constant(b, i->type.dtype, i->value);
    case TI_INDEX: {
        const Index *at = index_fits_i32(b->k, i->index[0]) ? i->index[0] : NULL;
        return add(b, (Expr){.what = WHAT_VALUE, .dtype = DT_I32, .at = at, .above_inf = true});
    }
    case TI_LOAD:
        if (i->n_in && is_number(b, expr_of(b, i->in[0]), 0)) return constant(b, i->type.dtype, i->value);
        return add(b, (Expr){.what = WHAT_VALUE, .dtype = i->type.dtype, .load = i->n_in ? NULL : i});
    case TI_ELEMENT:
        for (int k = 0; k < i->n_in && k < 4; k++) in[k] = expr_of(b, i->in[k]);
        return i->n_in > 4 || i->op == OP_RANDOM || i->op == OP_PHILOX ? unknown(b, i->type.dtype)
                                                                       : element(b, i->op, i->type.dtype, i->n_in, in);
    case TI_REDUCE: return reduced(b, i);
    case TI_DOT: return product(b, i);
    case TI_STAGE: return expr_of(b, i->in[0]);
    default: return unknown(b, i->type.dtype);
    }
}

static bool evaluate(Bounds *b, const Block *block);

/* A loop within: if one iteration keeps what enters, all do; else nothing is known of its results. */
static bool evaluate_loop(Bounds *b, const Inst *i) {
    bool same = true;
    for (int c = 0; c < i->n_carry; c++) b->of[i->carry[c]] = expr_of(b, i->init[c]);
    if (!evaluate(b, &i->body)) return false;
    const Inst *yield = i->body.at[i->body.n - 1];
    for (int c = 0; c < i->n_carry; c++) same &= expr_of(b, yield->in[c]) == expr_of(b, i->init[c]);
    for (int c = 0; c < i->n_carry; c++)
        b->of[i->results[c]] = same ? expr_of(b, i->init[c]) : unknown(b, b->k->types.at[i->results[c]].dtype);
    return true;
}

/* Does the store write what was read there? */
static bool keeps_memory(Bounds *b, const Inst *store) {
    const Inst *load = b->all.at[expr_of(b, store->in[0])].load;
    bool same = load && load->buffer == store->buffer;
    for (int d = 0; d < store->n_index && same; d++) same = index_equal(load->index[d], store->index[d]);
    return same;
}

static bool evaluate(Bounds *b, const Block *block) {
    for (int n = 0; n < block->n; n++) {
        const Inst *i = block->at[n];
        if (i->kind == TI_YIELD) continue;
        if (i->kind == TI_STORE && keeps_memory(b, i)) continue;
        if (i->kind == TI_STORE || i->kind == TI_IF) return false;
        if (i->kind == TI_FOR) {
            if (!evaluate_loop(b, i)) return false;
            continue;
        }
        b->of[i->result] = evaluated(b, i);
    }
    return true;
}

/* ---- sums that are compensated ------------------------------------------------------------------------------------------ */
static bool is_op(const Bounds *b, int e, Op op) { return b->all.at[e].what == WHAT_ELEMENT && b->all.at[e].op == op; }

/* `sum` is what emit_add_compensated() makes of `carry` when 0 is added, and `lost` what it carries beside: the same number
 * in two other parts. */
static bool adds_zero(const Bounds *b, int carry, int beside, int sum, int lost) {
    const Expr *s = &b->all.at[sum];
    if (!is_op(b, sum, OP_ADD) || s->in[0] != carry || !is_op(b, s->in[1], OP_SUB)) return false;
    const Expr *y = &b->all.at[s->in[1]];
    if (!is_number(b, y->in[0], 0) || y->in[1] != beside || !is_op(b, lost, OP_SELECT)) return false;
    const int more = b->all.at[lost].in[1];
    if (!is_number(b, b->all.at[lost].in[2], 0) || !is_op(b, more, OP_SUB)) return false;
    const Expr *m = &b->all.at[more];
    if (m->in[1] != s->in[1] || !is_op(b, m->in[0], OP_SUB)) return false;
    return b->all.at[m->in[0]].in[0] == sum && b->all.at[m->in[0]].in[1] == carry;
}

static bool keeps(Bounds *b, const Inst *loop) {
    const Inst *yield = loop->body.at[loop->body.n - 1];
    bool kept[2 * MAX_STREAM + 2] = {false};
    if (loop->n_carry > (int)(sizeof kept / sizeof *kept)) return false;
    for (int c = 0; c < loop->n_carry; c++) kept[c] = expr_of(b, yield->in[c]) == expr_of(b, loop->carry[c]);
    for (int c = 0; c < loop->n_carry; c++)
        for (int d = 0; d < loop->n_carry && !kept[c]; d++)
            if (adds_zero(b, expr_of(b, loop->carry[c]), expr_of(b, loop->carry[d]), expr_of(b, yield->in[c]), expr_of(b, yield->in[d])))
                kept[c] = kept[d] = true;
    for (int c = 0; c < loop->n_carry; c++)
        if (!kept[c]) return false;
    return loop->n_carry > 0;
}

/* ---- lines through the index space -------------------------------------------------------------------------------------- */
/* The program, and iterations of loops around, have one tile along it at a time. */
static bool has_one_tile(const Bounds *b, int axis) {
    bool around = b->k->axes.at[axis].kind == AXIS_GRID;
    for (int i = 0; i < b->n_around; i++) around |= b->around[i]->axis == axis;
    return around;
}

/* Of coef times num mod den or num / den, num such an axis, the least value in the program's tile, or less where the tile goes past a
 * multiple of den: from num's first value b to its last, e, num mod den is at least b - den * (e / den) and at most
 * e - den * (b / den).  NULL: something else. */
static const Index *least_of_part(const Bounds *b, const Term *t) {
    Kernel *k = b->k;
    const Atom *atom = &t->atom;
    int64_t den;
    if (atom->num->n != 1 || atom->num->c || !index_is_const(atom->den, &den)) return NULL;
    const Term *axis = &atom->num->term[0];
    if (axis->atom.kind != ATOM_AXIS || axis->coef != 1 || !has_one_tile(b, axis->atom.id)) return NULL;
    const int step = k->axes.at[axis->atom.id].step;
    const Index *by = index_const(b->k->arena, den), *first = index_scale(k, index_tile(k, axis->atom.id), step);
    const Index *last = index_add(k, first, index_const(b->k->arena, step - 1));
    if (den % step == 0) last = first; /* no tile goes past one */
    const Index *whole = index_div(k, (t->coef > 0) == (atom->kind == ATOM_DIV) ? first : last, by);
    if (atom->kind == ATOM_DIV) return index_scale(k, whole, t->coef);
    const Index *most = index_add(k, first, index_const(b->k->arena, step - 1));
    return index_scale(k, index_add(k, t->coef > 0 ? first : most, index_scale(k, whole, -den)), t->coef);
}

/* Of `x`, which is affine in axes and parts of them, the least value in the program's tile, but for the loop's axis, whose coefficient is *coef. */
static const Index *least_without(const Bounds *b, const Index *x, int axis, int64_t *coef) {
    Kernel *k = b->k;
    const Index *sum = index_const(b->k->arena, x->c);
    *coef = 0;
    for (int i = 0; i < x->n; i++) {
        const Term *t = &x->term[i];
        const Index *least;
        if (t->atom.kind == ATOM_AXIS && t->atom.id == axis) {
            *coef = t->coef;
            continue;
        }
        const Index *atom = index_make(b->k->arena, 0, 1, &(Term){.coef = 1, .atom = t->atom});
        if (t->atom.kind == ATOM_TILE || t->atom.kind == ATOM_EXTENT) {
            least = index_scale(k, atom, t->coef);
        } else if (t->atom.kind == ATOM_AXIS) {
            const Axis *a = &k->axes.at[t->atom.id];
            const bool one = has_one_tile(b, t->atom.id);
            const int64_t last = one ? a->step - 1 : a->extent.bound - 1;
            least = index_const(b->k->arena, t->coef < 0 ? t->coef * last : 0);
            if (one) least = index_add(k, least, index_scale(k, index_tile(k, t->atom.id), t->coef * a->step));
        } else if (t->atom.kind == ATOM_DIV || t->atom.kind == ATOM_MOD) {
            least = least_of_part(b, t);
        } else {
            return NULL;
        }
        if (!least) return NULL;
        sum = index_add(k, sum, least);
    }
    return sum;
}

/* The comparison comes out so where *x is 0 or more: false: it is none of integers, or of such that are not known. */
static bool line_of(const Bounds *b, const Inst *i, bool outcome, const Index **x) {
    Op op = i->op;
    const Index *l = integer(b, b->of[i->in[0]]), *r = integer(b, b->of[i->in[1]]);
    if (!l || !r) return false;
    if (!outcome) op = op == OP_LT ? OP_GE : op == OP_LE ? OP_GT : op == OP_GT ? OP_LE : OP_LT;
    const bool less = op == OP_LT || op == OP_LE;
    *x = less ? index_add(b->k, r, index_scale(b->k, l, -1)) : index_add(b->k, l, index_scale(b->k, r, -1));
    if (op == OP_LT || op == OP_GT) *x = index_add(b->k, *x, index_const(b->k->arena, -1));
    return true;
}

/* The tighter of two bounds: where the difference is known, else the first. */
static const Index *tighter(const Bounds *b, const Index *old, const Index *new, int sign) {
    int64_t more;
    if (!old) return new;
    const Index *by = index_add(b->k, new, index_scale(b->k, old, -1));
    return index_is_const(by, &more) && sign * more > 0 ? new : old;
}

/* rest + coef * s >= 0 for all of the program's lanes: there no iteration is needed. */
static void leave_out(const Bounds *b, Inst *loop, const Index *rest, int64_t coef) {
    const Index *by = index_const(b->k->arena, coef < 0 ? -coef : coef), *most = index_div(b->k, rest, by);
    if (coef < 0) /* up to rest / -coef */
        loop->from = tighter(b, loop->from, index_add(b->k, most, index_const(b->k->arena, 1)), 1);
    else /* from -rest / coef on, rounded up */
        loop->to = tighter(b, loop->to, index_scale(b->k, most, -1), -1);
}

static void forget(Bounds *b) {
    b->all.n = 0;
    for (int v = 0; v < b->k->types.n; v++) b->of[v] = -1;
}

/* What stands before the loop is known too, and before those around it; of what they carry nothing is. */
static void evaluate_before(Bounds *b, const Inst *loop) {
    const Block *block = &b->k->body;
    for (int depth = 0; depth <= b->n_around; depth++) {
        const Inst *next = depth < b->n_around ? b->around[depth] : loop;
        for (int n = 0; n < block->n && block->at[n] != next; n++)
            if (block->at[n]->result >= 0) b->of[block->at[n]->result] = evaluated(b, block->at[n]);
        block = &next->body;
    }
}

static bool is_comparison(const Inst *i) {
    return i->kind == TI_ELEMENT && (i->op == OP_LT || i->op == OP_LE || i->op == OP_GT || i->op == OP_GE);
}

static void try_comparison(Bounds *b, Inst *loop, const Inst *comparison) {
    for (int outcome = 0; outcome < 2; outcome++) {
        const Index *line, *rest;
        int64_t coef;
        forget(b);
        b->assumed = comparison, b->outcome = outcome;
        evaluate_before(b, loop);
        for (int c = 0; c < loop->n_carry; c++) b->of[loop->carry[c]] = unknown(b, b->k->types.at[loop->carry[c]].dtype);
        if (!evaluate(b, &loop->body) || !line_of(b, comparison, outcome, &line)) continue;
        rest = least_without(b, line, loop->axis, &coef);
        if (rest && coef && keeps(b, loop)) leave_out(b, loop, rest, coef);
    }
}

/* The copy engine's rings count iterations for all programs alike. */
static bool fetches_by_tma(const Block *block) {
    for (int n = 0; n < block->n; n++)
        if (block->at[n]->by == BY_TMA || fetches_by_tma(&block->at[n]->body)) return true;
    return false;
}

static bool is_known_when_run(const Index *x) {
    for (int i = 0; x && i < x->n; i++)
        if (x->term[i].atom.kind == ATOM_EXTENT) return true;
    return false;
}

/* A loop without a first iteration is no place where a product starts from zero, so bounds that leave out little are not worth
 * having; nor is one that adds nothing to the other.  What an extent leaves out is little only where it is as large as it may be. */
static void keep_what_pays(const Kernel *k, Inst *loop) {
    const double least = 0.1, share = kernel_loop_share(k, loop);
    const Index *from = loop->from, *to = loop->to;
    const bool from_extent = is_known_when_run(from), to_extent = is_known_when_run(to);
    loop->from = NULL;
    if (from_extent || kernel_loop_share(k, loop) > share) loop->from = from;
    loop->to = NULL;
    if (to_extent || kernel_loop_share(k, loop) > share) loop->to = to;
    if (share > 1 - least && !from_extent && !to_extent) loop->from = loop->to = NULL;
}

static int count_insts(const Block *block) {
    int n = block->n;
    for (int i = 0; i < block->n; i++) n += count_insts(&block->at[i]->body);
    return n;
}

/* Those of loops within too. */
static void try_comparisons(Bounds *b, Inst *loop, const Block *body) {
    for (int n = 0; n < body->n; n++) {
        if (is_comparison(body->at[n])) try_comparison(b, loop, body->at[n]);
        try_comparisons(b, loop, &body->at[n]->body);
    }
}

static void bound_loop(Bounds *b, Inst *loop) {
    if (loop->from || loop->to || count_insts(&loop->body) > MOST_INSTS || fetches_by_tma(&loop->body)) return; /* those of values in memory stand */
    try_comparisons(b, loop, &loop->body);
    keep_what_pays(b->k, loop);
}

/* Those that carry nothing are walked for their effects: the loops in them are bounded, each for its iteration. */
static void bound_loops(Bounds *b, Block *block) {
    for (int n = 0; n < block->n; n++) {
        Inst *loop = block->at[n];
        if (loop->kind != TI_FOR) continue;
        if (loop->n_carry) {
            bound_loop(b, loop);
            continue;
        }
        b->around[b->n_around++] = loop;
        bound_loops(b, &loop->body);
        b->n_around--;
    }
}

void kernel_bound_loops(Kernel *k) {
    Bounds b = {.k = k, .arena = arena_new()};
    b.of = ARENA_ARRAY(b.arena, int, k->types.n + 1);
    b.around = ARENA_ARRAY(b.arena, const Inst *, k->axes.n + 1);
    bound_loops(&b, &k->body);
    arena_free(b.arena);
}
