/* Extents: arithmetic on scale * S + offset, saturating far past every limit. */
#include "ir/shape.h"
#include <string.h>

#define SATURATED ((int64_t)1 << 62)

static int64_t mul(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r) || r > SATURATED || r < -SATURATED) {
        return (a < 0) == (b < 0) ? SATURATED : -SATURATED;
    }
    return r;
}

static int64_t add(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r) || r > SATURATED || r < -SATURATED) return a < 0 ? -SATURATED : SATURATED;
    return r;
}

Dim dim_mul_const(Dim d, int64_t k) {
    if (k == 1) return d;
    if (dim_is_fixed(d) || k == 0) return dim_fixed(mul(d.bound, k));
    return (Dim){.bound = mul(d.bound, k), .sym = d.sym, .scale = mul(d.scale, k), .offset = mul(d.offset, k)};
}

Dim dim_add_const(Dim d, int64_t k) {
    if (k == 0) return d;
    if (dim_is_fixed(d)) return dim_fixed(add(d.bound, k));
    return (Dim){.bound = add(d.bound, k), .sym = d.sym, .scale = d.scale, .offset = add(d.offset, k)};
}

bool dim_mul(Dim a, Dim b, Dim *out) {
    if (!dim_is_fixed(a) && !dim_is_fixed(b)) return false;
    *out = dim_is_fixed(b) ? dim_mul_const(a, b.bound) : dim_mul_const(b, a.bound);
    return true;
}

bool dim_add(Dim a, Dim b, Dim *out) {
    if (dim_is_fixed(b)) {
        *out = dim_add_const(a, b.bound);
    } else if (dim_is_fixed(a)) {
        *out = dim_add_const(b, a.bound);
    } else if (a.sym == b.sym) {
        int64_t scale = add(a.scale, b.scale), offset = add(a.offset, b.offset);
        *out = scale == 0 ? dim_fixed(offset)
                          : (Dim){.bound = add(a.bound, b.bound), .sym = a.sym, .scale = scale, .offset = offset};
    } else {
        return false;
    }
    return true;
}

int64_t dim_at(Dim d, const int64_t *syms) {
    return dim_is_fixed(d) ? d.bound : add(mul(d.scale, syms[d.sym]), d.offset);
}

/* The extent when the dim's symbol has value s. */
static int64_t dim_value(Dim d, int64_t s) {
    if (!dim_is_fixed(d)) d.sym = 0;
    return dim_at(d, &s);
}

/* First and last must lie inside when the symbol has value s. */
static bool part_inside_at(Dim x, Dim lo, Dim n, int64_t step, int64_t s) {
    int64_t count = dim_value(n, s), first = dim_value(lo, s), last, extent = dim_value(x, s);
    if (count <= 0) return true;
    if (__builtin_mul_overflow(count - 1, step, &last) || __builtin_add_overflow(last, first, &last)) return false;
    return first >= 0 && first < extent && last >= 0 && last < extent;
}

/* Everything is linear in the one symbol, so that its ends decide: S at the bound, and S = 1 or the least S for which
 * there are elements. */
bool dim_part_inside(Dim x, Dim lo, Dim n, int64_t step) {
    const Dim with_sym = !dim_is_fixed(x) ? x : !dim_is_fixed(n) ? n : lo;
    const Dim all[] = {x, lo, n};
    for (int i = 0; i < 3; i++)
        if (!dim_is_fixed(all[i]) && all[i].sym != with_sym.sym) return false;
    int64_t most = 0, least = 0;
    if (!dim_is_fixed(with_sym)) {
        most = (with_sym.bound - with_sym.offset) / with_sym.scale;
        least = most < 1 ? most : 1;
        if (!dim_is_fixed(n) && n.scale > 0 && n.scale + n.offset < 1) least = (n.scale - n.offset) / n.scale;
    }
    return part_inside_at(x, lo, n, step, most) && part_inside_at(x, lo, n, step, least);
}

const Shape scalar_shape;

Shape shape_make(int rank, const Dim *dims) {
    Shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) s.dim[i] = dims[i];
    return s;
}

Shape shape_fixed(int rank, const int64_t *extents) {
    Shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) s.dim[i] = dim_fixed(extents[i]);
    return s;
}

bool shape_is_fixed(Shape s) {
    for (int i = 0; i < s.rank; i++) {
        if (!dim_is_fixed(s.dim[i])) return false;
    }
    return true;
}

int64_t shape_elements(Shape s) {
    int64_t n = 1;
    for (int i = 0; i < s.rank; i++) n = mul(n, s.dim[i].bound);
    return n;
}

bool shape_elements_checked(Shape s, int64_t *out) {
    bool fits = true;
    *out = shape_elements(s);
    for (int d = 0; d < s.rank; d++) fits &= s.dim[d].bound <= MAX_ELEMENTS;
    return fits && *out <= MAX_ROUNDED;
}

char *shape_text(Arena *a, Shape s) {
    bool named = false;
    for (int i = 0; i < s.rank; i++) named |= s.dim[i].name != NULL || !dim_is_fixed(s.dim[i]);
    char *text = arena_strdup(a, "[");
    for (int i = 0; i < s.rank; i++) {
        Dim d = s.dim[i];
        const char *between = i == 0 ? "" : named ? ", " : ",";
        const char *relation = !dim_is_fixed(d) ? "<=" : d.name ? "=" : "";
        text = arena_printf(a, "%s%s%s%s%lld", text, between, d.name ? d.name : "", relation, (long long)d.bound);
    }
    return arena_printf(a, "%s]", text);
}

bool reshape_next(const Shape *from, const Shape *to, ReshapeGroup *g) {
    int i = g->i0 = g->i1, o = g->o0 = g->o1;
    if (i == from->rank && o == to->rank) return false;
    if (i < from->rank && o < to->rank && dim_equal(from->dim[i], to->dim[o])) {
        g->i1++, g->o1++;
    } else if (i < from->rank && dim_is_unit(from->dim[i])) {
        g->i1++;
    } else if (o < to->rank && dim_is_unit(to->dim[o])) {
        g->o1++;
    } else {
        int64_t pi = i < from->rank ? from->dim[i++].bound : 1, po = o < to->rank ? to->dim[o++].bound : 1;
        while (pi != po && (i < from->rank || o < to->rank)) {
            if ((pi < po && i < from->rank) || o == to->rank) pi *= from->dim[i++].bound;
            else po *= to->dim[o++].bound;
        }
        g->i1 = i, g->o1 = o;
    }
    return true;
}

const char reshape_refused[] = "this reshape merges or splits a bounded dimension that is not the outermost one";
const char reshape_remedy[] = "move the bounded dimension to the front with transpose first";

bool reshape_fits(const Shape *from, const Shape *to) {
    ReshapeGroup g = {0};
    if (shape_elements(*from) == 0) return true;
    while (reshape_next(from, to, &g)) {
        for (int d = g.i0 + 1; d < g.i1; d++)
            if (!dim_is_fixed(from->dim[d])) return false;
        for (int d = g.o0 + 1; d < g.o1; d++)
            if (!dim_is_fixed(to->dim[d])) return false;
    }
    return true;
}
