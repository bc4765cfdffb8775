#include "ir/tile_flat.h"

static bool add_index(FlatAccess *f, const Index *x, int64_t by);

/* x / c and x mod c; or, x being y / p, y / (p * c) and x mod c. */
static bool are_halves(const Atom *quotient, const Atom *remainder) {
    int64_t d, c, p;
    if (!index_is_const(quotient->den, &d) || !index_is_const(remainder->den, &c)) return false;
    const Index *x = remainder->num;
    if (d == c && index_equal(quotient->num, x)) return true;
    if (x->c || x->n != 1 || x->term[0].coef != 1 || x->term[0].atom.kind != ATOM_DIV) return false;
    const Atom *inner = &x->term[0].atom;
    return index_is_const(inner->den, &p) && d == p * c && index_equal(quotient->num, inner->num);
}

/* E * (x / c) + F * (x mod c) is F * x where E = F * c. */
static bool meet(FlatAccess *f, const Atom *a, int64_t coef) {
    int64_t c;
    if (!index_is_const(a->den, &c)) return false;
    for (int i = 0; i < f->n_divided; i++) {
        const Atom *b = f->divided[i].atom, *quotient = a->kind == ATOM_DIV ? a : b,
                   *remainder = a->kind == ATOM_DIV ? b : a;
        if (b->kind == a->kind || !are_halves(quotient, remainder) || !index_is_const(remainder->den, &c)) continue;
        const int64_t outer = a->kind == ATOM_DIV ? coef : f->divided[i].coef;
        const int64_t inner = a->kind == ATOM_DIV ? f->divided[i].coef : coef;
        if (outer != inner * c) continue;
        f->divided[i] = f->divided[--f->n_divided];
        return add_index(f, remainder->num, inner);
    }
    if (f->n_divided == 2 * MAX_RANK) return false;
    f->divided[f->n_divided].atom = a;
    f->divided[f->n_divided++].coef = coef;
    return true;
}

static bool add_index(FlatAccess *f, const Index *x, int64_t by) {
    f->constant += by * x->c;
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        const int64_t coef = by * x->term[i].coef;
        if (a->kind == ATOM_AXIS)
            f->stride[a->id] += coef;
        else if ((a->kind != ATOM_DIV && a->kind != ATOM_MOD) || !meet(f, a, coef))
            return false;
    }
    return true;
}

bool index_is_nothing(const Index *x) {
    FlatAccess f = {0};
    bool nothing = add_index(&f, x, 1) && f.constant == 0 && f.n_divided == 0;
    for (int a = 0; a < MAX_AXES; a++) nothing &= f.stride[a] == 0;
    return nothing;
}

bool access_flatten(const Kernel *k, const Inst *access, FlatAccess *f) {
    *f = (FlatAccess){0};
    const Buffer *b = &k->buffers.at[access->buffer];
    for (int d = 0; d < access->n_index; d++)
        if (!add_index(f, access->index[d], b->stride[d])) return false;
    return true;
}
