/* Dimensions, types and index expressions of Tile IR text.  Expressions are rebuilt as written, without simplification, so
 * that printing what was parsed gives the text back. */
#include "ir/tile_text.h"
#include <ctype.h>
#include <string.h>

enum { MAX_TERMS = 256, MAX_DIVISIONS = 48 };

/* ---- dimensions and types ----------------------------------------------------------------------------------- */
/* 64, or [scale*]S[+offset]<=bound */
bool text_dim(Parser *p, Dim *out) {
    const char *name;
    *out = (Dim){.sym = NO_SYM, .scale = 1};
    text_skip(p);
    if (isdigit((unsigned char)*p->at) || *p->at == '-') {
        int64_t n;
        if (!text_integer(p, -MAX_ELEMENTS, MAX_ELEMENTS, &n)) return false;
        if (!text_accept(p, "*")) {
            out->bound = n;
            out->scale = 0;
            return n >= 0 || text_fail(p, "a dimension is negative");
        }
        out->scale = n;
    }
    if (!text_word(p, &name)) return false;
    out->sym = text_find_sym(p, name);
    if (out->sym < 0) return text_fail(p, arena_printf(p->a, "no symbol is named `%s`", name));
    if (text_accept(p, "+")) {
        if (!text_integer(p, 0, MAX_ELEMENTS, &out->offset)) return false;
    } else if (*p->at == '-' && !text_integer(p, -MAX_ELEMENTS, 0, &out->offset)) {
        return false;
    }
    return text_expect(p, "<=") && text_integer(p, 0, MAX_ELEMENTS, &out->bound);
}

bool text_dtype(Parser *p, DType *out) {
    const char *name;
    text_skip(p);
    const char *const start = p->at;
    if (!text_word(p, &name)) return false;
    return dtype_parse(name, out) || text_fail_at(p, start, arena_printf(p->a, "no dtype is named `%s`", name));
}

static bool type_axis(Parser *p, TileType *t) {
    int axis, step;
    if (!text_axis_name(p, &axis) || !text_expect(p, ":") || !text_small(p, 0, INT32_MAX, &step)) return false;
    if (step != p->k->axes.at[axis].step) return text_fail(p, "the tile is not as long as the axis's step");
    if (t->n_axes == MAX_TILE_AXES) return text_fail(p, "too many axes");
    *t = tile_type_union(*t, (TileType){.n_axes = 1, .axis = {(int8_t)axis}});
    return true;
}

bool text_type(Parser *p, TileType *t) {
    *t = (TileType){0};
    if (!text_dtype(p, &t->dtype)) return false;
    if (!text_accept(p, "[")) return true;
    do {
        if (!type_axis(p, t)) return false;
    } while (text_accept(p, ","));
    return text_expect(p, "]");
}

/* ---- index expressions ------------------------------------------------------------------------------------------ */
static const Index *expression(Parser *p);

static const Index *atom(Parser *p, Atom a) { return index_make(p->a, 0, 1, &(Term){.coef = 1, .atom = a}); }

static const Index *gathered(Parser *p) {
    Atom a = {.kind = ATOM_VALUE};
    if (!text_value(p, &a.id)) return NULL;
    if (text_accept(p, "{")) {
        if (!text_integer(p, INT64_MIN, INT64_MAX, &a.lo) || !text_expect(p, "..") ||
            !text_integer(p, INT64_MIN, INT64_MAX, &a.hi) || !text_expect(p, "}"))
            return NULL;
        if (a.lo >= a.hi) return text_fail(p, "the range is empty"), NULL;
    }
    return atom(p, a);
}

static const Index *factor(Parser *p) {
    const char *name;
    int64_t c;
    text_skip(p);
    if (isdigit((unsigned char)*p->at)) return text_integer(p, 0, INT64_MAX, &c) ? index_const(p->a, c) : NULL;
    if (*p->at == '%') return gathered(p);
    const bool tile = *p->at == '@';
    if (text_accept(p, "(")) {
        if (++p->depth > MAX_DEPTH) return text_fail(p, "nested too deeply"), NULL;
        const Index *x = expression(p);
        p->depth--;
        return x && text_expect(p, ")") ? x : NULL;
    }
    if (tile) p->at++;
    const bool symbol = !tile && text_accept(p, "$");
    if (!text_word(p, &name)) return NULL;
    const int axis = symbol ? -1 : text_find_axis(p, name), sym = text_find_sym(p, name);
    if (axis >= 0) return atom(p, (Atom){.kind = tile ? ATOM_TILE : ATOM_AXIS, .id = axis});
    if (sym >= 0) return atom(p, (Atom){.kind = ATOM_EXTENT, .id = sym});
    return text_fail(p, arena_printf(p->a, "no axis or symbol is named `%s`", name)), NULL;
}

static const Index *multiply(Parser *p, const Index *x, const Index *y) {
    int64_t c;
    if (index_is_const(x, &c)) return index_scale(p->k, y, c);
    if (index_is_const(y, &c)) return index_scale(p->k, x, c);
    return text_fail(p, "one factor of a product is constant"), NULL;
}

static const Index *product(Parser *p) {
    const Index *x = factor(p);
    while (x) {
        const bool div = text_accept(p, "/"), mod = !div && text_accept(p, "mod"),
                   mul = !div && !mod && text_accept(p, "*");
        if (!div && !mod && !mul) break;
        if (++p->divisions > MAX_DIVISIONS) return text_fail(p, "the expression is too long"), NULL;
        const Index *y = factor(p);
        if (!y) return NULL;
        x = mul ? multiply(p, x, y) : atom(p, (Atom){.kind = div ? ATOM_DIV : ATOM_MOD, .num = x, .den = y});
    }
    return x;
}

static const Index *expression(Parser *p) {
    VEC(Term) terms = {0};
    int64_t c = 0, sign = text_accept(p, "-") ? -1 : 1;
    for (;;) {
        const Index *x = product(p);
        if (!x) return NULL;
        x = index_scale(p->k, x, sign);
        c = (int64_t)((uint64_t)c + (uint64_t)x->c);
        for (int i = 0; i < x->n; i++) vec_push(p->a, terms, x->term[i]);
        if (terms.n > MAX_TERMS) return text_fail(p, "the expression is too long"), NULL;
        if (text_accept(p, "+"))
            sign = 1;
        else if (text_accept(p, "-"))
            sign = -1;
        else
            return index_make(p->a, c, terms.n, terms.at);
    }
}

bool text_bound(Parser *p, const Index **x) {
    p->divisions = 0;
    return (*x = expression(p)) != NULL;
}

bool text_index(Parser *p, Inst *i) {
    if (i->n_index == MAX_RANK) return text_fail(p, "too many indices");
    return text_bound(p, &i->index[i->n_index++]);
}
