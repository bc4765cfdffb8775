/* The Jacobian of contract.  With y[o] = sum_l A[e(l)] B[f(l)] .., the adjoint of A is
 *
 *     dA[p] = sum over l with e(l) == p of dy[o(l)] B[f(l)] ..
 *
 * a contraction again: its output loops are A's dims p, and each equation e_d(l) == p_d is solved for
 * one of the loops, which then disappears.  A loop with coefficient k becomes an affine expression over
 * the divisor |k|.  Substituting a quotient E/D is closed, because (a*E/D + r)/v = (a*E + D*r)/(D*v)
 * and the guard 0 <= E/D < extent keeps D | E.  That guard is dropped where dy or another operand is
 * read at exactly this loop: the read itself leaves out what is not an index. */
#include "passes/jacobian.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { VARS = MAX_RANK + MAX_LOOPS };               /* A's dims, then the loops of the forward contraction */
static const int64_t COEF_LIMIT = (int64_t)1 << 40; /* beyond it an equation stays a guard */

typedef struct Wide {
    int64_t c, coef[VARS], divisor;
} Wide;

typedef struct WideGuard {
    GuardKind kind;
    Wide e;
    int64_t lo;
    Dim hi;
} WideGuard;

typedef struct Solver {
    const Contract *forward;
    int rank; /* of A */
    int n_vars;
    Dim extent[VARS];
    bool gone[VARS]; /* solved for */
    bool read_exactly[VARS];
    Wide (*map)[MAX_RANK]; /* [dy, other operands][dim] */
    int n_maps;
    VEC(WideGuard) guards;
    VEC(Wide) equations; /* == 0 */
} Solver;

static int64_t gcd(int64_t a, int64_t b) {
    a = llabs(a), b = llabs(b);
    while (b) {
        int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

/* Cancels the common factor; the value and the exactness of the division stay. */
static void wide_reduce(Wide *w, bool equation) {
    int64_t common = gcd(w->c, equation ? 0 : w->divisor);
    for (int i = 0; i < VARS; i++) common = gcd(common, w->coef[i]);
    if (common <= 1) return;
    w->c /= common;
    for (int i = 0; i < VARS; i++) w->coef[i] /= common;
    w->divisor = equation ? 1 : w->divisor / common;
}

/* s * a + t * b in the numerators; false when a number grows past the limit. */
static bool wide_combine(const Wide *a, int64_t s, const Wide *b, int64_t t, Wide *out) {
    for (int i = 0; i <= VARS; i++) {
        int64_t x = i < VARS ? a->coef[i] : a->c, y = i < VARS ? b->coef[i] : b->c, v;
        if (__builtin_mul_overflow(x, s, &x) || __builtin_mul_overflow(y, t, &y) || __builtin_add_overflow(x, y, &v))
            return false;
        if (v > COEF_LIMIT || v < -COEF_LIMIT) return false;
        *(i < VARS ? &out->coef[i] : &out->c) = v;
    }
    return true;
}

/* Replaces var by value (an expression over its divisor) in w. */
static bool wide_substitute(Wide *w, int var, const Wide *value, bool equation) {
    int64_t a = w->coef[var];
    if (a == 0) return true;
    Wide rest = *w, out = *w;
    rest.coef[var] = 0;
    if (!wide_combine(&rest, value->divisor, value, a, &out)) return false;
    if (!equation && __builtin_mul_overflow(w->divisor, value->divisor, &out.divisor)) return false;
    wide_reduce(&out, equation);
    if (out.divisor > COEF_LIMIT) return false;
    *w = out;
    return true;
}

/* ---- setting up -------------------------------------------------------------------------------- */
static Wide widen(const Affine *e, int rank, int n_loops) {
    Wide w = {.c = e->c, .divisor = e->divisor};
    memcpy(&w.coef[rank], e->coef, sizeof(int64_t) * (size_t)n_loops);
    return w;
}

static Wide wide_var(int var) {
    Wide w = {.divisor = 1};
    w.coef[var] = 1;
    return w;
}

/* The loop this subscript is, alone and whole; -1 otherwise. */
static int wide_single(const Wide *w) {
    int found = -1;
    for (int i = 0; i < VARS; i++) {
        if (w->coef[i] == 0) continue;
        if (found >= 0 || w->coef[i] != 1) return -1;
        found = i;
    }
    return w->c == 0 && w->divisor == 1 ? found : -1;
}

static void add_operand(Solver *s, const Node *operand, const Affine *map) {
    Wide *out = s->map[s->n_maps++];
    for (int d = 0; d < operand->shape.rank; d++) {
        out[d] = widen(&map[d], s->rank, s->forward->n_loops);
        int loop = wide_single(&out[d]);
        if (loop >= 0 && dim_equal(s->extent[loop], operand->shape.dim[d])) s->read_exactly[loop] = true;
    }
}

static void setup(Solver *s, Arena *a, const Node *n, int k) {
    const Contract *c = n->attr->contract;
    Shape shape = n->in[k]->shape;
    s->forward = c, s->rank = shape.rank, s->n_vars = shape.rank + c->n_loops;
    memcpy(s->extent, shape.dim, sizeof(Dim) * (size_t)shape.rank);
    memcpy(s->extent + shape.rank, c->extent, sizeof(Dim) * (size_t)c->n_loops);
    s->map = arena_alloc(a, sizeof *s->map * (size_t)c->n_operands);
    s->n_maps = 1; /* dy is read at the forward output loops */
    for (int o = 0; o < c->n_out; o++) {
        s->map[0][o] = wide_var(shape.rank + o);
        s->read_exactly[shape.rank + o] = true;
    }
    for (int i = 0; i < c->n_operands; i++)
        if (i != k) add_operand(s, n->in[i], c->map[i]);
    for (int i = 0; i < c->n_guards; i++) {
        const Guard *guard = &c->guard[i];
        WideGuard w = {guard->kind, widen(&guard->e, shape.rank, c->n_loops), guard->lo, guard->hi};
        vec_push(a, s->guards, w);
    }
    for (int d = 0; d < shape.rank; d++) {
        Wide equation = widen(&c->map[k][d], shape.rank, c->n_loops);
        equation.coef[d] = -equation.divisor;
        equation.divisor = 1;
        wide_reduce(&equation, true);
        vec_push(a, s->equations, equation);
    }
}

/* ---- solving -------------------------------------------------------------------------------------- */
static int count_candidates(const Solver *s, const Wide *equation) {
    int n = 0;
    for (int i = s->rank; i < s->n_vars; i++) n += equation->coef[i] != 0;
    return n;
}

/* Solving for the longest loop leaves the least work; a coefficient of one leaves no divisor. */
static int choose_loop(const Solver *s, const Wide *equation) {
    int best = -1;
    for (int i = s->rank; i < s->n_vars; i++) {
        if (equation->coef[i] == 0) continue;
        if (best < 0 || s->extent[i].bound > s->extent[best].bound ||
            (s->extent[i].bound == s->extent[best].bound && llabs(equation->coef[i]) < llabs(equation->coef[best])))
            best = i;
    }
    return best;
}

/* The equation with the fewest loops to choose from: subscripts that are one loop come first. */
static int choose_equation(const Solver *s) {
    int best = 0, least = INT_MAX;
    for (int i = 0; i < s->equations.n; i++) {
        int n = count_candidates(s, &s->equations.at[i]);
        if (n < least) best = i, least = n;
    }
    return best;
}

static bool substitute_all(Solver *s, const int *ranks, int var, const Wide *value) {
    for (int m = 0; m < s->n_maps; m++)
        for (int d = 0; d < ranks[m]; d++)
            if (!wide_substitute(&s->map[m][d], var, value, false)) return false;
    for (int i = 0; i < s->guards.n; i++) {
        WideGuard *guard = &s->guards.at[i];
        if (!wide_substitute(&guard->e, var, value, guard->kind == GUARD_EQ)) return false;
    }
    for (int i = 0; i < s->equations.n; i++)
        if (!wide_substitute(&s->equations.at[i], var, value, true)) return false;
    return true;
}

/* A private copy of everything that a substitution changes, so that one that overflows can be undone. */
static Solver snapshot(Arena *a, const Solver *s) {
    Solver copy = *s;
    copy.map = arena_dup(a, s->map, sizeof *s->map * (size_t)s->n_maps);
    copy.guards.at = arena_dup(a, s->guards.at, sizeof(WideGuard) * (size_t)s->guards.n);
    copy.guards.cap = copy.guards.n;
    copy.equations.at = arena_dup(a, s->equations.at, sizeof(Wide) * (size_t)s->equations.n);
    copy.equations.cap = copy.equations.n;
    return copy;
}

static void add_guard(Solver *s, Arena *a, GuardKind kind, Wide e, Dim hi) {
    WideGuard guard = {.kind = kind, .e = e, .hi = hi};
    vec_push(a, s->guards, guard);
}

/* Takes one equation and solves it, or keeps it as a guard. */
static void solve_one(Solver *s, Arena *a, const int *ranks) {
    int index = choose_equation(s);
    Wide equation = s->equations.at[index];
    s->equations.at[index] = vec_last(s->equations);
    s->equations.n--;
    int var = choose_loop(s, &equation);
    if (var < 0) {
        add_guard(s, a, GUARD_EQ, equation, dim_fixed(0));
        return;
    }
    int64_t coef = equation.coef[var];
    Wide value = {.divisor = llabs(coef)}, zero = {0};
    equation.coef[var] = 0;
    Solver before = snapshot(a, s);
    if (wide_combine(&equation, coef < 0 ? 1 : -1, &zero, 0, &value) && substitute_all(s, ranks, var, &value)) {
        s->gone[var] = true;
        if (!s->read_exactly[var]) add_guard(s, a, GUARD_RANGE, value, s->extent[var]);
        return;
    }
    *s = before;
    equation.coef[var] = coef;
    add_guard(s, a, GUARD_EQ, equation, dim_fixed(0));
}

/* ---- dropping guards that always hold ------------------------------------------------------------- */
typedef struct Interval {
    int64_t lo, hi;
} Interval;

static Interval wide_interval(const Solver *s, const Wide *w) {
    Interval r = {w->c, w->c};
    for (int i = 0; i < s->n_vars; i++) {
        int64_t last = s->extent[i].bound > 0 ? s->extent[i].bound - 1 : 0, reach;
        bool wide = __builtin_mul_overflow(w->coef[i], last, &reach);
        int64_t *side = reach < 0 ? &r.lo : &r.hi;
        if (wide || __builtin_add_overflow(*side, reach, side)) return (Interval){INT64_MIN, INT64_MAX};
    }
    return r;
}

static bool guard_holds(const Solver *s, const WideGuard *guard) {
    Interval r = wide_interval(s, &guard->e);
    if (guard->kind == GUARD_EQ) return r.lo == 0 && r.hi == 0;
    if (guard->e.divisor != 1 || guard->lo > r.lo) return false;
    if (dim_is_fixed(guard->hi)) return r.hi < guard->hi.bound;
    int var = wide_single(&guard->e);
    return var >= 0 && dim_equal(guard->hi, s->extent[var]);
}

/* ---- the new contraction --------------------------------------------------------------------------- */
static Affine narrow(const Wide *w, const int *position) {
    Affine e = {.c = w->c, .divisor = w->divisor};
    for (int i = 0; i < VARS; i++)
        if (w->coef[i]) e.coef[position[i]] = w->coef[i];
    return e;
}

static Node *build(const Solver *s, Graph *g, const int *ranks, Node *const *in) {
    Contract c = {.n_out = s->rank, .n_operands = s->n_maps};
    int position[VARS] = {0};
    for (int i = 0; i < s->n_vars; i++) {
        if (s->gone[i]) continue;
        if (c.n_loops == MAX_LOOPS) return NULL;
        position[i] = c.n_loops;
        c.extent[c.n_loops++] = s->extent[i];
    }
    c.map = arena_alloc(g->arena, sizeof *c.map * (size_t)s->n_maps);
    for (int m = 0; m < s->n_maps; m++)
        for (int d = 0; d < ranks[m]; d++) c.map[m][d] = narrow(&s->map[m][d], position);
    c.guard = ARENA_ARRAY(g->arena, Guard, s->guards.n);
    for (int i = 0; i < s->guards.n; i++) {
        const WideGuard *w = &s->guards.at[i];
        if (!guard_holds(s, w)) c.guard[c.n_guards++] = (Guard){w->kind, narrow(&w->e, position), w->lo, w->hi};
    }
    const Attr attr = {.contract = &c};
    DType dtype;
    Shape shape = {0};
    const char *why;
    bool legal = graph_infer(g->arena, OP_CONTRACT, s->n_maps, in, &attr, &dtype, &shape, &why);
    return legal ? graph_contract(g, s->n_maps, in, &c) : NULL; /* past a limit of contract */
}

Node *jacobian_contract(PassContext *c, Graph *g, Node *n, int k, Node *dy) {
    const Contract *forward = n->attr->contract;
    Arena *scratch = arena_new();
    Solver s = {0};
    setup(&s, scratch, n, k);
    Node **in = ARENA_ARRAY(scratch, Node *, forward->n_operands);
    int *ranks = ARENA_ARRAY(scratch, int, forward->n_operands);
    in[0] = dy;
    for (int i = 0, m = 1; i < forward->n_operands; i++)
        if (i != k) in[m++] = n->in[i];
    for (int i = 0; i < forward->n_operands; i++) ranks[i] = in[i]->shape.rank;
    while (s.equations.n > 0) solve_one(&s, scratch, ranks);
    Node *result = build(&s, g, ranks, in);
    arena_free(scratch);
    if (!result && c->report) {
        c->failed = true;
        c->report(c->user, true, n->loc,
                  "the gradient of this indexed sum passes the limits of an indexed sum (16 indices)",
                  "split it into two sums with fewer indices");
    }
    return result;
}
