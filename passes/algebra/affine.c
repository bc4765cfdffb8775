#include "passes/algebra/affine.h"
#include "ir/integer.h"
#include <stdlib.h>

int affine_single_loop(const Contract *c, const Affine *e) {
    int found = -1;
    if (e->c != 0 || e->divisor != 1) return -1;
    for (int l = 0; l < c->n_loops; l++) {
        if (e->coef[l] == 0) continue;
        if (found >= 0 || e->coef[l] != 1) return -1;
        found = l;
    }
    return found;
}

bool loop_read_whole(const Contract *c, Node *const *in, int loop) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++)
            if (affine_single_loop(c, &c->map[k][d]) == loop && dim_equal(c->extent[loop], in[k]->shape->dim[d]))
                return true;
    return false;
}

void affine_reduce(Affine *e) {
    int64_t common = gcd64(e->divisor, e->c);
    for (int l = 0; l < MAX_LOOPS && common > 1; l++) common = gcd64(common, e->coef[l]);
    if (common <= 1) return;
    e->c /= common, e->divisor /= common;
    for (int l = 0; l < MAX_LOOPS; l++) e->coef[l] /= common;
}

bool affine_interval(const Contract *c, const Affine *e, int64_t *lo, int64_t *hi) {
    *lo = *hi = e->c;
    for (int l = 0; l < c->n_loops; l++) {
        int64_t last = c->extent[l].bound > 0 ? c->extent[l].bound - 1 : 0, reach;
        if (__builtin_mul_overflow(e->coef[l], last, &reach)) return false;
        int64_t *side = reach < 0 ? lo : hi;
        if (__builtin_add_overflow(*side, reach, side)) return false;
    }
    return true;
}

bool affine_always_in(const Contract *c, const Affine *e, int64_t lo, Dim hi) {
    Affine reduced = *e;
    int64_t least, most;
    affine_reduce(&reduced);
    if (reduced.divisor != 1 || !affine_interval(c, &reduced, &least, &most) || least < lo) return false;
    if (dim_is_fixed(hi)) return most < hi.bound;
    int loop = affine_single_loop(c, &reduced);
    return loop >= 0 && dim_equal(c->extent[loop], hi);
}

bool guard_always_holds(const Contract *c, const Guard *g) {
    int64_t lo, hi;
    if (g->kind == GUARD_RANGE) return affine_always_in(c, &g->e, g->lo, g->hi);
    return affine_interval(c, &g->e, &lo, &hi) && lo == 0 && hi == 0;
}

bool affine_scale_add(const Affine *e, int64_t scale, int64_t add, Affine *out) {
    const int64_t limit = (int64_t)1 << AFFINE_LIMIT_BITS;
    int64_t moved;
    *out = *e;
    if (__builtin_mul_overflow(e->c, scale, &out->c) || __builtin_mul_overflow(add, e->divisor, &moved) ||
        __builtin_add_overflow(out->c, moved, &out->c) || llabs(out->c) > limit)
        return false;
    for (int l = 0; l < MAX_LOOPS; l++)
        if (__builtin_mul_overflow(e->coef[l], scale, &out->coef[l]) || llabs(out->coef[l]) > limit) return false;
    affine_reduce(out);
    return true;
}
