/* Index expressions: normal form, range analysis and simplifying constructors.
 *
 * Normal form: terms sorted by atom, equal atoms merged, no zero coefficient.  Coefficients that
 * overflow wrap (two's complement), and every bound derived from an overflow is "unknown", so that
 * absurd inputs give absurd addresses, which the interpreter and the verifier catch, never a crash. */
#include "ir/integer.h"
#include "ir/tile.h"
#include <assert.h>
#include <string.h>

/* ---- int64 arithmetic ------------------------------------------------------------------------ */
static int64_t floor_div(int64_t a, int64_t d) { return a / d - (a % d < 0); } /* d > 0 */
static int64_t floor_mod(int64_t a, int64_t d) { return a % d < 0 ? a % d + d : a % d; }

/* ---- order and equality ------------------------------------------------------------------------- */
static int index_compare(const Index *x, const Index *y);

static int compare64(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int atom_compare(const Atom *x, const Atom *y) {
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->kind == ATOM_DIV || x->kind == ATOM_MOD) {
        const int c = index_compare(x->num, y->num);
        return c ? c : index_compare(x->den, y->den);
    }
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    if (x->kind != ATOM_VALUE) return 0;
    return x->lo != y->lo ? compare64(x->lo, y->lo) : compare64(x->hi, y->hi);
}

static int index_compare(const Index *x, const Index *y) {
    if (x == y) return 0;
    for (int i = 0; i < x->n && i < y->n; i++) {
        const int c = atom_compare(&x->term[i].atom, &y->term[i].atom);
        if (c) return c;
        if (x->term[i].coef != y->term[i].coef) return compare64(x->term[i].coef, y->term[i].coef);
    }
    return x->n != y->n ? (x->n < y->n ? -1 : 1) : compare64(x->c, y->c);
}

bool index_equal(const Index *x, const Index *y) { return index_compare(x, y) == 0; }

bool index_is_const(const Index *x, int64_t *c) {
    if (x->n) return false;
    if (c) *c = x->c;
    return true;
}

/* ---- construction --------------------------------------------------------------------------------- */
const Index *index_make(Arena *a, int64_t c, int n, const Term *term) {
    Term *t = ARENA_ARRAY(a, Term, n ? n : 1);
    int used = 0;
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < used && atom_compare(&t[at].atom, &term[i].atom) < 0) at++;
        if (at < used && atom_compare(&t[at].atom, &term[i].atom) == 0) {
            t[at].coef = wrap_add(t[at].coef, term[i].coef);
            continue;
        }
        memmove(t + at + 1, t + at, sizeof *t * (size_t)(used - at));
        t[at] = term[i];
        used++;
    }
    int kept = 0;
    for (int i = 0; i < used; i++)
        if (t[i].coef) t[kept++] = t[i];
    Index *x = ARENA_NEW(a, Index);
    *x = (Index){.c = c, .n = kept, .term = t};
    return x;
}

const Index *index_const(Arena *a, int64_t c) { return index_make(a, c, 0, NULL); }

static const Index *index_atom(Arena *a, Atom atom) { return index_make(a, 0, 1, &(Term){.coef = 1, .atom = atom}); }

const Index *index_axis(Kernel *k, int axis) {
    assert(axis >= 0 && axis < k->axes.n);
    return index_atom(k->arena, (Atom){.kind = ATOM_AXIS, .id = axis});
}

const Index *index_tile(Kernel *k, int axis) { return index_atom(k->arena, (Atom){.kind = ATOM_TILE, .id = axis}); }

const Index *index_extent(Kernel *k, Dim d) {
    if (dim_is_fixed(d)) return index_const(k->arena, d.bound);
    const Term t = {.coef = d.scale, .atom = {.kind = ATOM_EXTENT, .id = d.sym}};
    return index_make(k->arena, d.offset, 1, &t);
}

const Index *index_value(Kernel *k, int value, int64_t lo, int64_t hi) {
    if (lo >= hi) lo = hi = 0;
    return index_atom(k->arena, (Atom){.kind = ATOM_VALUE, .id = value, .lo = lo, .hi = hi});
}

/* a*x + b*y + c, merged only. */
static const Index *combine(Arena *a, const Index *x, int64_t cx, const Index *y, int64_t cy) {
    Term *t = ARENA_ARRAY(a, Term, x->n + y->n + 1);
    for (int i = 0; i < x->n; i++) t[i] = (Term){wrap_mul(x->term[i].coef, cx), x->term[i].atom};
    for (int i = 0; i < y->n; i++) t[x->n + i] = (Term){wrap_mul(y->term[i].coef, cy), y->term[i].atom};
    return index_make(a, wrap_add(wrap_mul(x->c, cx), wrap_mul(y->c, cy)), x->n + y->n, t);
}

static const Index *plus_const(Arena *a, const Index *x, int64_t c) {
    return index_make(a, wrap_add(x->c, c), x->n, x->term);
}

/* The term of x whose atom is q's only atom, if q is a bare atom. */
static int find_bare(const Index *x, const Index *q) {
    if (q->n != 1 || q->c || q->term[0].coef != 1) return -1;
    for (int i = 0; i < x->n; i++)
        if (atom_compare(&x->term[i].atom, &q->term[0].atom) == 0) return i;
    return -1;
}

/* c*d*(n / d) + c*(n mod d) is c*n: what reshape there and back leaves behind. */
static const Index *recombine(Kernel *k, const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *m = &x->term[i].atom;
        int64_t d, want;
        if (m->kind != ATOM_MOD || !index_is_const(m->den, &d)) continue;
        if (__builtin_mul_overflow(x->term[i].coef, d, &want)) continue;
        const Index *q = index_div(k, m->num, m->den);
        const int at = find_bare(x, q);
        if (at < 0 || x->term[at].coef != want) continue;
        Term *t = arena_dup(k->arena, x->term, sizeof *t * (size_t)x->n);
        t[i].coef = t[at].coef = 0;
        const Index *rest = index_make(k->arena, x->c, x->n, t);
        return recombine(k, combine(k->arena, rest, 1, m->num, x->term[i].coef));
    }
    return x;
}

const Index *index_add(Kernel *k, const Index *x, const Index *y) {
    return recombine(k, combine(k->arena, x, 1, y, 1));
}

const Index *index_scale(Kernel *k, const Index *x, int64_t c) {
    return combine(k->arena, x, c, index_const(k->arena, 0), 0);
}

/* ---- ranges ------------------------------------------------------------------------------------------- */
/* The largest value of a symbol: declared, or implied by a dimension that follows it. */
static bool sym_bound(const Kernel *k, int sym, int64_t *bound) {
    if (sym < 0) return false;
    if (k->sym_bounds && sym < k->n_syms) {
        *bound = k->sym_bounds[sym];
        return true;
    }
    for (int i = 0; i < k->axes.n; i++) {
        const Dim *d = &k->axes.at[i].extent;
        int64_t span;
        if (d->sym != sym || d->scale <= 0 || __builtin_sub_overflow(d->bound, d->offset, &span)) continue;
        *bound = floor_div(span, d->scale);
        return *bound >= 0;
    }
    return false;
}

static bool div_range(const Kernel *k, const Atom *a, int64_t *lo, int64_t *hi) {
    int64_t nlo, nhi, dlo, dhi;
    if (!index_range(k, a->num, &nlo, &nhi) || !index_range(k, a->den, &dlo, &dhi) || dhi < 1) return false;
    if (dlo < 1) dlo = 1; /* the divisor is positive wherever it is used */
    *lo = floor_div(nlo, nlo < 0 ? dlo : dhi);
    *hi = floor_div(nhi, nhi < 0 ? dhi : dlo);
    return true;
}

static bool mod_range(const Kernel *k, const Atom *a, int64_t *lo, int64_t *hi) {
    int64_t nlo, nhi, dlo, dhi;
    if (!index_range(k, a->den, &dlo, &dhi) || dhi < 1) return false;
    if (dlo < 1) dlo = 1;
    *lo = 0;
    *hi = dhi - 1;
    if (!index_range(k, a->num, &nlo, &nhi) || nlo < 0) return true;
    if (nhi < dlo) *lo = nlo;
    if (nhi < *hi) *hi = nhi;
    return true;
}

static bool atom_range(const Kernel *k, const Atom *a, int64_t *lo, int64_t *hi) {
    *lo = 0;
    switch (a->kind) {
    case ATOM_AXIS: /* an axis of extent 0 has no lanes: any range is right */
        if (a->id < 0 || a->id >= k->axes.n) return false;
        *hi = k->axes.at[a->id].extent.bound > 0 ? k->axes.at[a->id].extent.bound - 1 : 0;
        return true;
    case ATOM_EXTENT: return sym_bound(k, a->id, hi);
    case ATOM_TILE:
        if (a->id < 0 || a->id >= k->axes.n || k->axes.at[a->id].step < 1) return false;
        *hi = k->axes.at[a->id].extent.bound > 0 ? (k->axes.at[a->id].extent.bound - 1) / k->axes.at[a->id].step : 0;
        return true;
    case ATOM_VALUE:
        *lo = a->lo;
        *hi = a->hi - 1;
        return a->lo < a->hi;
    case ATOM_DIV: return div_range(k, a, lo, hi);
    case ATOM_MOD: return mod_range(k, a, lo, hi);
    }
    return false;
}

bool index_range(const Kernel *k, const Index *x, int64_t *lo, int64_t *hi) {
    int64_t l = x->c, h = x->c;
    for (int i = 0; i < x->n; i++) {
        const int64_t coef = x->term[i].coef;
        int64_t al, ah;
        if (!atom_range(k, &x->term[i].atom, &al, &ah)) return false;
        if (__builtin_mul_overflow(al, coef, &al) || __builtin_mul_overflow(ah, coef, &ah)) return false;
        if (__builtin_add_overflow(l, coef > 0 ? al : ah, &l)) return false;
        if (__builtin_add_overflow(h, coef > 0 ? ah : al, &h)) return false;
    }
    *lo = l;
    *hi = h;
    return true;
}

bool index_fits_i32(const Kernel *k, const Index *x) {
    int64_t lo, hi;
    return index_range(k, x, &lo, &hi) && lo >= INT32_MIN && hi <= INT32_MAX;
}

/* ---- division by a constant -------------------------------------------------------------------------------- */
/* x = d*q + r with every coefficient of r in (-d, d) and its constant in [0, d). */
static void split(Arena *a, const Index *x, int64_t d, const Index **q, const Index **r) {
    Term *tq = ARENA_ARRAY(a, Term, x->n + 1), *tr = ARENA_ARRAY(a, Term, x->n + 1);
    for (int i = 0; i < x->n; i++) {
        tq[i] = (Term){x->term[i].coef / d, x->term[i].atom};
        tr[i] = (Term){x->term[i].coef % d, x->term[i].atom};
    }
    *q = index_make(a, floor_div(x->c, d), x->n, tq);
    *r = index_make(a, floor_mod(x->c, d), x->n, tr);
}

/* Finds g > 1 dividing d with r = g*A + s, 0 <= s < g always and A not constant:
 * then r / d = A / (d/g) and r mod d = g*(A mod (d/g)) + s. */
static bool factor(Kernel *k, const Index *r, int64_t d, int64_t *g, const Index **big, const Index **small) {
    for (int i = 0; i < r->n; i++) {
        *g = gcd64(r->term[i].coef, d);
        if (*g <= 1) continue;
        Term *ta = ARENA_ARRAY(k->arena, Term, r->n), *ts = ARENA_ARRAY(k->arena, Term, r->n);
        int na = 0, ns = 0;
        for (int j = 0; j < r->n; j++) {
            const Term t = r->term[j];
            if (t.coef % *g == 0)
                ta[na++] = (Term){t.coef / *g, t.atom};
            else
                ts[ns++] = t;
        }
        int64_t lo, hi;
        *small = index_make(k->arena, floor_mod(r->c, *g), ns, ts);
        if (!index_range(k, *small, &lo, &hi) || lo < 0 || hi >= *g) continue;
        *big = index_make(k->arena, floor_div(r->c, *g), na, ta);
        return true;
    }
    return false;
}

static const Index *raw(Kernel *k, AtomKind kind, const Index *x, const Index *d) {
    return index_atom(k->arena, (Atom){.kind = kind, .num = x, .den = d});
}

/* floor(r / d) for an r that split() has reduced. */
static const Index *div_reduced(Kernel *k, const Index *r, int64_t d) {
    Arena *a = k->arena;
    int64_t lo, hi, g, inner, product;
    const Index *big, *small;
    if (index_range(k, r, &lo, &hi) && floor_div(lo, d) == floor_div(hi, d)) return index_const(a, floor_div(lo, d));
    if (factor(k, r, d, &g, &big, &small)) return index_div(k, big, index_const(a, d / g));
    for (int i = 0; i < r->n; i++) { /* (x/a + y)/b = (x + a*y)/(a*b) */
        const Atom *q = &r->term[i].atom;
        if (r->term[i].coef != 1 || q->kind != ATOM_DIV || !index_is_const(q->den, &inner) || inner <= 0) continue;
        if (__builtin_mul_overflow(inner, d, &product)) continue;
        const Index *y = combine(a, r, 1, index_atom(a, *q), -1);
        return index_div(k, combine(a, q->num, 1, y, inner), index_const(a, product));
    }
    const Atom *only = r->n == 1 && r->term[0].coef == 1 ? &r->term[0].atom : NULL;
    if (only && only->kind == ATOM_MOD && r->c == 0 && index_is_const(only->den, &inner) && inner > 0 && inner % d == 0)
        /* (x mod (a*d)) / d = (x/d) mod a */
        return index_mod(k, index_div(k, only->num, index_const(a, d)), index_const(a, inner / d));
    return raw(k, ATOM_DIV, r, index_const(a, d));
}

/* Division by a run-time value: only what holds whatever it is. */
static const Index *div_general(Kernel *k, const Index *x, const Index *d) {
    int64_t lo, hi, dlo, dhi;
    if (x->n == 0 && x->c == 0) return x;
    if (index_range(k, x, &lo, &hi) && index_range(k, d, &dlo, &dhi) && lo >= 0 && hi < dlo)
        return index_const(k->arena, 0);
    if (x->n == d->n && d->n > 0 && d->term[0].coef > 0 && x->term[0].coef % d->term[0].coef == 0) {
        const int64_t m = x->term[0].coef / d->term[0].coef;
        if (index_equal(x, index_scale(k, d, m))) return index_const(k->arena, m);
    }
    return raw(k, ATOM_DIV, x, d);
}

const Index *index_div(Kernel *k, const Index *x, const Index *d) {
    int64_t c;
    if (!index_is_const(d, &c) || c <= 0) return div_general(k, x, d);
    const Index *q, *r;
    split(k->arena, x, c, &q, &r);
    return index_add(k, q, div_reduced(k, r, c));
}

/* ---- remainder ------------------------------------------------------------------------------------------------ */
/* Inside "mod d", coef * (y mod m) is coef * y when d divides coef * m. */
static const Index *strip_mods(Kernel *k, const Index *x, int64_t d) {
    for (int i = 0; i < x->n; i++) {
        const Term t = x->term[i];
        int64_t m, whole;
        if (t.atom.kind != ATOM_MOD || !index_is_const(t.atom.den, &m)) continue;
        if (__builtin_mul_overflow(t.coef, m, &whole) || whole % d) continue;
        const Index *rest = combine(k->arena, x, 1, index_make(k->arena, 0, 1, &t), -1);
        return strip_mods(k, combine(k->arena, rest, 1, t.atom.num, t.coef), d);
    }
    return x;
}

static const Index *mod_reduced(Kernel *k, const Index *r, int64_t d) {
    Arena *a = k->arena;
    int64_t lo, hi, g;
    const Index *big, *small;
    if (index_range(k, r, &lo, &hi) && floor_div(lo, d) == floor_div(hi, d))
        return plus_const(a, r, wrap_mul(-d, floor_div(lo, d)));
    if (factor(k, r, d, &g, &big, &small)) return combine(a, index_mod(k, big, index_const(a, d / g)), g, small, 1);
    return raw(k, ATOM_MOD, r, index_const(a, d));
}

const Index *index_mod(Kernel *k, const Index *x, const Index *d) {
    int64_t c, lo, hi, dlo, dhi;
    if (index_is_const(d, &c) && c > 0) {
        const Index *q, *r;
        split(k->arena, strip_mods(k, x, c), c, &q, &r);
        return mod_reduced(k, r, c);
    }
    if (x->n == 0 && x->c == 0) return x;
    if (index_range(k, x, &lo, &hi) && index_range(k, d, &dlo, &dhi) && lo >= 0 && hi < dlo) return x;
    if (index_equal(x, d)) return index_const(k->arena, 0);
    return raw(k, ATOM_MOD, x, d);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */
static bool mentions(const Kernel *k, const Atom *a, int axis);

static bool index_mentions(const Kernel *k, const Index *x, int axis) {
    for (int i = 0; i < x->n; i++)
        if (mentions(k, &x->term[i].atom, axis)) return true;
    return false;
}

static bool mentions(const Kernel *k, const Atom *a, int axis) {
    switch (a->kind) {
    case ATOM_AXIS: return a->id == axis;
    case ATOM_EXTENT:
    case ATOM_TILE: return false;
    case ATOM_VALUE: return a->id >= 0 && a->id < k->types.n && tile_type_has(&k->types.at[a->id], axis);
    case ATOM_DIV:
    case ATOM_MOD: return index_mentions(k, a->num, axis) || index_mentions(k, a->den, axis);
    }
    return false;
}

bool index_gathers(const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        const bool quotient = a->kind == ATOM_DIV || a->kind == ATOM_MOD;
        if (a->kind == ATOM_VALUE || (quotient && (index_gathers(a->num) || index_gathers(a->den)))) return true;
    }
    return false;
}

bool subscripts_gather(const Inst *i) {
    for (int d = 0; d < i->n_index; d++)
        if (index_gathers(i->index[d])) return true;
    return false;
}

bool index_affine_in(const Kernel *k, const Index *x, int axis, int64_t *coef) {
    *coef = 0;
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_AXIS && a->id == axis)
            *coef = x->term[i].coef;
        else if (mentions(k, a, axis))
            return false;
    }
    return true;
}

bool access_step(const Kernel *k, const Inst *access, int axis, int64_t *step) {
    const Buffer *b = &k->buffers.at[access->buffer];
    int64_t coef;
    *step = 0;
    for (int d = 0; d < access->n_index; d++) {
        if (!index_affine_in(k, access->index[d], axis, &coef)) return false;
        *step += coef * b->stride[d];
    }
    return true;
}

static void add_axis(TileType *t, int axis) {
    int at = 0;
    while (at < t->n_axes && t->axis[at] < axis) at++;
    if ((at < t->n_axes && t->axis[at] == axis) || t->n_axes == MAX_TILE_AXES) return;
    memmove(t->axis + at + 1, t->axis + at, sizeof *t->axis * (size_t)(t->n_axes - at));
    t->axis[at] = (int8_t)axis;
    t->n_axes++;
}

void index_axes(const Kernel *k, const Index *x, TileType *t) {
    for (int axis = 0; axis < k->axes.n; axis++)
        if (index_mentions(k, x, axis)) add_axis(t, axis);
}
