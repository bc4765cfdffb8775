/* Elimination of loops by equations, in integers. */
#include "passes/algebra/contract_solve.h"
#include "ir/integer.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const int64_t COEF_LIMIT = (int64_t)1 << 40; /* beyond it an equation stays a guard */

typedef struct WideGuard {
    GuardKind kind;
    Wide e;
    int64_t lo;
    Dim hi;
} WideGuard;

typedef struct WideMap {
    Wide dim[MAX_RANK];
} WideMap;

struct Solver {
    Arena *arena;
    int rank, n_vars;
    Dim extent[SOLVE_VARS];
    bool gone[SOLVE_VARS]; /* solved for */
    bool read_exactly[SOLVE_VARS];
    VEC(Node *) operands;
    VEC(WideMap) maps; /* by operand */
    VEC(WideGuard) guards;
    VEC(Wide) equations; /* == 0 */
    bool overflow;
};

/* Cancels the common factor; the value and the exactness of the division stay. */
static void wide_reduce(Wide *w, bool equation) {
    int64_t common = gcd64(w->c, equation ? 0 : w->divisor);
    for (int i = 0; i < SOLVE_VARS; i++) common = gcd64(common, w->coef[i]);
    if (common <= 1) return;
    w->c /= common;
    for (int i = 0; i < SOLVE_VARS; i++) w->coef[i] /= common;
    w->divisor = equation ? 1 : w->divisor / common;
}

/* s * a + t * b in the numerators; false when a number grows past the limit. */
static bool wide_combine(const Wide *a, int64_t s, const Wide *b, int64_t t, int64_t limit, Wide *out) {
    for (int i = 0; i <= SOLVE_VARS; i++) {
        int64_t x = i < SOLVE_VARS ? a->coef[i] : a->c, y = i < SOLVE_VARS ? b->coef[i] : b->c, v;
        if (__builtin_mul_overflow(x, s, &x) || __builtin_mul_overflow(y, t, &y) || __builtin_add_overflow(x, y, &v))
            return false;
        if (v > limit || v < -limit) return false;
        *(i < SOLVE_VARS ? &out->coef[i] : &out->c) = v;
    }
    return true;
}

/* Replaces var by value (an expression over its divisor) in w. */
static bool wide_substitute(Wide *w, int var, const Wide *value, bool equation) {
    int64_t a = w->coef[var];
    if (a == 0) return true;
    Wide rest = *w, out = *w;
    rest.coef[var] = 0;
    if (!wide_combine(&rest, value->divisor, value, a, COEF_LIMIT, &out)) return false;
    if (!equation && __builtin_mul_overflow(w->divisor, value->divisor, &out.divisor)) return false;
    wide_reduce(&out, equation);
    if (out.divisor > COEF_LIMIT) return false;
    *w = out;
    return true;
}

/* ---- setting up -------------------------------------------------------------------------------- */
Solver *solver_new(Arena *a, int rank, const Dim *out, int n_loops, const Dim *loops) {
    Solver *s = arena_alloc(a, sizeof *s);
    *s = (Solver){.arena = a, .rank = rank, .n_vars = rank + n_loops};
    if (rank) memcpy(s->extent, out, sizeof(Dim) * (size_t)rank);
    if (n_loops) memcpy(s->extent + rank, loops, sizeof(Dim) * (size_t)n_loops);
    return s;
}

Wide solver_var(int var) {
    Wide w = {.divisor = 1};
    w.coef[var] = 1;
    return w;
}

Wide solver_widen(const Solver *s, const Affine *e, int first, int n) {
    Wide w = {.c = e->c, .divisor = e->divisor};
    memcpy(&w.coef[s->rank + first], e->coef, sizeof(int64_t) * (size_t)n);
    return w;
}

/* The variable this form is, alone and whole; -1 otherwise. */
static int wide_single(const Wide *w) {
    int found = -1;
    for (int i = 0; i < SOLVE_VARS; i++) {
        if (w->coef[i] == 0) continue;
        if (found >= 0 || w->coef[i] != 1) return -1;
        found = i;
    }
    return w->c == 0 && w->divisor == 1 ? found : -1;
}

void solver_operand(Solver *s, Node *x, const Wide *map) {
    WideMap all = {0};
    for (int d = 0; d < x->shape->rank; d++) {
        all.dim[d] = map[d];
        int var = wide_single(&map[d]);
        if (var >= 0 && dim_equal(s->extent[var], x->shape->dim[d])) s->read_exactly[var] = true;
    }
    vec_push(s->arena, s->operands, x);
    vec_push(s->arena, s->maps, all);
}

void solver_guard(Solver *s, const Guard *g, int first, int n) {
    const WideGuard w = {g->kind, solver_widen(s, &g->e, first, n), g->lo, g->hi};
    const Wide zero = {.divisor = 1};
    if (g->kind == GUARD_EQ)
        solver_equation(s, &w.e, &zero);
    else
        vec_push(s->arena, s->guards, w);
}

void solver_product(Solver *s, const Node *x, const Wide *at) {
    const Contract *c = x->attr->contract;
    Wide map[MAX_RANK];
    for (int d = 0; d < c->n_out; d++) {
        const Wide loop = solver_var(s->rank + d);
        solver_equation(s, &loop, &at[d]);
    }
    for (int i = 0; i < x->n_in; i++) {
        for (int d = 0; d < x->in[i]->shape->rank; d++) map[d] = solver_widen(s, &c->map[i][d], 0, c->n_loops);
        solver_operand(s, x->in[i], map);
    }
    for (int i = 0; i < c->n_guards; i++) solver_guard(s, &c->guard[i], 0, c->n_loops);
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

void solver_equation(Solver *s, const Wide *e, const Wide *value) {
    Wide equation = {.divisor = 1};
    if (!wide_combine(e, value->divisor, value, -e->divisor, INT64_MAX, &equation)) {
        s->overflow = true;
        return;
    }
    wide_reduce(&equation, true);
    vec_push(s->arena, s->equations, equation);
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

static bool substitute_all(Solver *s, int var, const Wide *value) {
    for (int m = 0; m < s->maps.n; m++)
        for (int d = 0; d < s->operands.at[m]->shape->rank; d++)
            if (!wide_substitute(&s->maps.at[m].dim[d], var, value, false)) return false;
    for (int i = 0; i < s->guards.n; i++) {
        WideGuard *guard = &s->guards.at[i];
        if (!wide_substitute(&guard->e, var, value, guard->kind == GUARD_EQ)) return false;
    }
    for (int i = 0; i < s->equations.n; i++)
        if (!wide_substitute(&s->equations.at[i], var, value, true)) return false;
    return true;
}

/* A private copy of everything that a substitution changes, so that one that overflows can be undone. */
static Solver snapshot(const Solver *s) {
    Arena *a = s->arena;
    Solver copy = *s;
    copy.maps.at = arena_dup(a, s->maps.at, sizeof(WideMap) * (size_t)s->maps.n);
    copy.maps.cap = copy.maps.n;
    copy.guards.at = arena_dup(a, s->guards.at, sizeof(WideGuard) * (size_t)s->guards.n);
    copy.guards.cap = copy.guards.n;
    copy.equations.at = arena_dup(a, s->equations.at, sizeof(Wide) * (size_t)s->equations.n);
    copy.equations.cap = copy.equations.n;
    return copy;
}

static void add_guard(Solver *s, GuardKind kind, Wide e, Dim hi) {
    WideGuard guard = {.kind = kind, .e = e, .hi = hi};
    vec_push(s->arena, s->guards, guard);
}

/* Takes one equation and solves it, or keeps it as a guard. */
static void solve_one(Solver *s) {
    int index = choose_equation(s);
    Wide equation = s->equations.at[index];
    s->equations.at[index] = vec_last(s->equations);
    s->equations.n--;
    int var = choose_loop(s, &equation);
    if (var < 0) {
        add_guard(s, GUARD_EQ, equation, dim_fixed(0));
        return;
    }
    int64_t coef = equation.coef[var];
    Wide value = {.divisor = llabs(coef)}, zero = {0};
    equation.coef[var] = 0;
    Solver before = snapshot(s);
    if (wide_combine(&equation, coef < 0 ? 1 : -1, &zero, 0, COEF_LIMIT, &value) && substitute_all(s, var, &value)) {
        s->gone[var] = true;
        if (!s->read_exactly[var]) add_guard(s, GUARD_RANGE, value, s->extent[var]);
        return;
    }
    *s = before;
    equation.coef[var] = coef;
    add_guard(s, GUARD_EQ, equation, dim_fixed(0));
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
    for (int i = 0; i < SOLVE_VARS; i++)
        if (w->coef[i]) e.coef[position[i]] = w->coef[i];
    return e;
}

static void narrow_guards(const Solver *s, const int *position, Contract *c) {
    c->guard = ARENA_ARRAY(s->arena, Guard, s->guards.n);
    for (int i = 0; i < s->guards.n; i++) {
        const WideGuard *w = &s->guards.at[i];
        if (!guard_holds(s, w)) c->guard[c->n_guards++] = (Guard){w->kind, narrow(&w->e, position), w->lo, w->hi};
    }
}

bool solver_contract(Solver *s, Contract *out, Node **operands) {
    if (s->overflow) return false;
    while (s->equations.n > 0) solve_one(s);
    Contract c = {.n_out = s->rank, .n_operands = s->maps.n};
    int position[SOLVE_VARS] = {0};
    for (int i = 0; i < s->n_vars; i++) {
        if (s->gone[i]) continue;
        if (c.n_loops == MAX_LOOPS) return false;
        position[i] = c.n_loops;
        c.extent[c.n_loops++] = s->extent[i];
    }
    c.map = arena_alloc(s->arena, sizeof *c.map * (size_t)s->maps.n);
    for (int m = 0; m < s->maps.n; m++) {
        operands[m] = s->operands.at[m];
        for (int d = 0; d < operands[m]->shape->rank; d++) c.map[m][d] = narrow(&s->maps.at[m].dim[d], position);
    }
    narrow_guards(s, position, &c);
    *out = c;
    const Attr attr = {.contract = &c};
    DType dtype;
    Shape shape = {0};
    const char *why;
    return graph_infer(s->arena, OP_CONTRACT, s->maps.n, operands, &attr, &dtype, &shape, &why);
}

Node *solver_build(Solver *s, Graph *g) {
    Contract c;
    Node **in = ARENA_ARRAY(s->arena, Node *, s->maps.n);
    return solver_contract(s, &c, in) ? graph_contract(g, s->maps.n, in, &c) : NULL;
}
