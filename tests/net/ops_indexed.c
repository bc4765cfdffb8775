// Indexed definitions: ranges, affine and divided subscripts, gathers; a product of factors, reduced or not, and a term beside it.
#include "tests/net/indexed.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char letters[] = "ijklmnop";
static const char *reductions[] = {"sum", "max", "min", "prod"};
char index_letter(int i) { return letters[i]; }

static int below(Gen *g, int n) { return random_below(&g->random, n); }
static bool reads(const Factor *f) { return f->kind <= F_ABS; }

int index_whole(const Subscript *s) {
    int found = -1;
    if (s->add || s->over != 1 || s->ids >= 0) return -1;
    for (int i = 0; i < MAX_INDICES; i++) {
        if (!s->coefficient[i]) continue;
        if (s->coefficient[i] != 1 || found >= 0) return -1;
        found = i;
    }
    return found;
}
static bool constant(const Subscript *s) {
    for (int i = 0; i < MAX_INDICES; i++)
        if (s->coefficient[i]) return false;
    return true;
}

// ---- drawing -------------------------------------------------------------------------------------------------------------
static Subscript draw_subscript(Gen *g, const Body *b, int extent, int visible) {
    Subscript s = {.over = 1, .ids = -1};
    int form = below(g, 100), i = below(g, visible);
    if (form < 8 && extent > 0) {
        s.add = below(g, extent);
        return s;
    }
    s.coefficient[i] = 1;
    if (form < 55) return s;
    s.coefficient[i] = 1 + below(g, 3);
    if (form % 3 == 0) s.coefficient[i] = -s.coefficient[i];
    if (below(g, 2)) s.coefficient[below(g, visible)] += below(g, 3) - 1;
    s.add = below(g, 5) - (s.coefficient[i] < 0 ? 0 : 2);
    if (form > 85) s.over = 2 + below(g, 2);
    if (g->far && below(g, 3) == 0) s.coefficient[i] *= 1 << (16 + below(g, 14));
    (void)b;
    return constant(&s) ? (Subscript){.coefficient = {[0] = 1}, .over = 1, .ids = -1} : s;
}
static bool draw_factor(Gen *g, Value *v, Body *b, Factor *f, int visible) {
    *f = (Factor){.kind = below(g, 3) ? F_READ : (FactorKind)below(g, F_FORMS), .arg = -1};
    if (b->integer && f->kind != F_SQUARE && f->kind != F_INDEX) f->kind = F_READ;
    f->index = below(g, visible), f->other = below(g, visible);
    return !reads(f) || draw_read(g, v, b, f, visible);
}
bool draw_read(Gen *g, Value *v, Body *b, Factor *f, int visible) {
    Type type = b->integer ? D_I : D_F;
    int a = v->nargs && below(g, 4) == 0 ? v->arg[0] : below(g, 3) ? pick(g, type, below(g, 8) > 0, 4) : -1; // one tensor read twice
    if (a < 0) {
        Shape s = {.rank = 1 + below(g, 3)};
        for (int d = 0; d < s.rank; d++) s.n[d] = 1 + below(g, 7);
        a = fresh(g, type, s);
    }
    for (f->arg = 0; f->arg < v->nargs && v->arg[f->arg] != a; f->arg++) {}
    if (f->arg == v->nargs && !take(v, a)) return false;
    const Shape *s = &g->prog->at[a].shape;
    for (int d = 0; d < s->rank; d++) f->at[d] = draw_subscript(g, b, s->n[d], visible);
    return true;
}
// A range is the extent of what the index reads by itself, or any.
static void draw_ranges(Gen *g, const Value *v, Body *b) {
    for (int i = 0; i < b->count; i++) {
        b->low[i] = 0, b->high[i] = 1 + below(g, 6), b->stated[i] = true;
        for (int f = 0; f < b->nfactors; f++) {
            if (!reads(&b->factor[f])) continue;
            const Shape *s = &g->prog->at[v->arg[b->factor[f].arg]].shape;
            for (int d = 0; d < s->rank; d++)
                if (index_whole(&b->factor[f].at[d]) == i) b->high[i] = s->n[d], b->stated[i] = false;
        }
        if (below(g, 5) == 0) b->stated[i] = true, b->high[i] = 1 + below(g, 9);
        if (b->stated[i] && i >= b->left && below(g, 3) == 0) b->low[i] = below(g, 3) - 1;
    }
}
static void draw_gather(Gen *g, Value *v, Body *b) {
    Factor *f = &b->factor[below(g, b->nfactors)];
    if (!reads(f) || v->nargs == MAX_ARGS) return;
    int rank = g->prog->at[v->arg[f->arg]].shape.rank, i = below(g, b->left);
    int ids = fresh(g, D_I, flat_shape(1, b->high[i]));
    if (b->low[i] || rank < 1 || ids < 0) return;
    Subscript s = {.over = 1, .ids = v->nargs};
    s.coefficient[i] = 1;
    f->at[below(g, rank)] = s;
    take(v, ids);
}
static bool covers(const Body *b) { // every index is used or has a range
    long terms = 1;
    for (int i = 0; i < b->count; i++) terms *= b->high[i] > b->low[i] ? b->high[i] - b->low[i] : 1;
    return terms <= 3000;
}
bool propose_indexed(Gen *g, Value *v) {
    Body *b = calloc(1, sizeof *b);
    if (!b) abort();
    v->body = b;
    b->left = 1 + below(g, 3);
    b->reduction = below(g, 4) == 0 ? -1 : below(g, 3) ? 0 : below(g, 4);
    b->count = b->left + (b->reduction >= 0 ? 1 + below(g, 3) : 0);
    b->nfactors = 1 + below(g, 3);
    b->beside = b->reduction >= 0 && below(g, 5) == 0;
    b->integer = below(g, 8) == 0;
    b->scale = b->integer || below(g, 3) ? 1 : some_number(g);
    bool ok = true;
    for (int k = 0; k < b->nfactors; k++) ok = ok && draw_factor(g, v, b, &b->factor[k], b->count);
    if (ok && b->beside) ok = draw_factor(g, v, b, &b->factor[b->nfactors++], b->left);
    if (!ok || !v->nargs) return false;
    draw_ranges(g, v, b);
    if (below(g, 5) == 0) draw_gather(g, v, b);
    return covers(b);
}

bool fits_read(const Prog *p, const Value *v, Body *b, const Factor *f, bool *seen) {
    const Shape *s = &p->at[v->arg[f->arg]].shape;
    if (p->at[v->arg[f->arg]].type != (b->integer ? D_I : D_F)) return false;
    for (int d = 0; d < s->rank; d++) {
        const Subscript *x = &f->at[d];
        if (x->ids >= 0) {
            const Value *ids = &p->at[v->arg[x->ids]];
            int i = 0;
            while (!x->coefficient[i]) i++;
            bool follows = ids->shape.bounded & 1;
            seen[i] = true;
            b->follows[i] |= follows, b->fixed[i] |= !follows;
            if (ids->shape.rank != 1 || ids->shape.n[0] != b->high[i]) return false;
            continue;
        }
        bool bounded = s->bounded >> d & 1;
        if (x->over == 0 || (bounded && constant(x)) || (constant(x) && (x->add < 0 || x->add >= s->n[d]))) return false;
        int i = index_whole(x);
        if (i < 0) continue;
        seen[i] = true;
        if (!b->stated[i] && b->high[i] != s->n[d]) b->stated[i] = true;
        b->follows[i] |= bounded, b->fixed[i] |= !bounded;
    }
    return true;
}
bool settle_ranges(Value *v, const bool *seen) {
    Body *b = v->body;
    v->type = b->integer ? D_I : D_F;
    v->shape = (Shape){.rank = b->left};
    for (int i = 0; i < b->count; i++) {
        if (!seen[i]) b->stated[i] = true;
        bool follows = b->follows[i] && !b->stated[i], torn = b->follows[i] && b->fixed[i];
        b->follows[i] = b->fixed[i] = false;
        if (torn) return false;
        if (follows && i < b->left) v->shape.bounded |= 1u << i;
        if (!b->stated[i] && b->low[i]) return false;
        if (i < b->left) v->shape.n[i] = b->high[i];
    }
    return true;
}
bool infer_indexed(const Prog *p, Value *v) {
    Body *b = v->body;
    bool seen[MAX_INDICES] = {false};
    if (b->nnodes) return infer_tree(p, v);
    for (int f = 0; f < b->nfactors; f++)
        if (reads(&b->factor[f]) && !fits_read(p, v, b, &b->factor[f], seen)) return false;
    return settle_ranges(v, seen);
}

// ---- values --------------------------------------------------------------------------------------------------------------
static bool position(const Eval *e, const Value *v, const Subscript *s, const int *index, int *at) {
    int64_t sum = s->add;
    for (int i = 0; i < MAX_INDICES; i++) sum += (int64_t)s->coefficient[i] * (s->coefficient[i] ? index[i] : 0);
    const int64_t quotient = sum / s->over;
    *at = quotient > INT32_MAX || quotient < 0 ? -1 : (int)quotient;
    if (s->ids >= 0) *at = (int)e->tape.at[e->value[v->arg[s->ids]].id[sum]].value;
    return sum % s->over == 0;
}
int read_factor(const Eval *e, const Value *v, const Factor *f, const int *index) {
    const Tensor *t = &e->value[v->arg[f->arg]];
    int at[MAX_RANK];
    for (int d = 0; d < t->shape.rank; d++)
        if (!position(e, v, &f->at[d], index, &at[d]) || at[d] < 0 || at[d] >= t->shape.n[d]) return -1;
    return t->id[ravel(&t->shape, at)];
}
static int factor_value(Eval *e, const Value *v, const Factor *f, const int *index, bool *outside) {
    Tape *t = &e->tape;
    if (f->kind == F_INDEX) return tape_const(t, index[f->index]);
    if (f->kind == F_COMPARE) return tape_const(t, index[f->index] < index[f->other]);
    int x = read_factor(e, v, f, index);
    *outside |= x < 0;
    if (x < 0) x = tape_const(t, 0);
    if (f->kind == F_SQUARE) return tape_2(t, v->body->integer ? T_IMUL : T_MUL, x, x);
    if (f->kind == F_TANH) return tape_1(t, T_TANH, x);
    return f->kind == F_ABS ? tape_1(t, T_ABS, x) : x;
}
static int product(Eval *e, const Value *v, const int *index, bool *outside) {
    const Body *b = v->body;
    int n = b->nfactors - b->beside, r = b->scale == 1 ? -1 : tape_const(&e->tape, b->scale);
    for (int k = 0; k < n; k++) {
        int x = factor_value(e, v, &b->factor[k], index, outside);
        r = r < 0 ? x : tape_2(&e->tape, b->integer ? T_IMUL : T_MUL, r, x);
    }
    return r;
}
static bool advance(const Body *b, int *index) {
    for (int i = b->count - 1; i >= b->left; i--) {
        if (++index[i] < b->high[i]) return true;
        index[i] = b->low[i];
    }
    return false;
}
static int reduced(Eval *e, const Value *v, int *index) {
    static const TapeOp forms[2][4] = {{T_ADD, T_MAX, T_MIN, T_MUL}, {T_IADD, T_MAX, T_MIN, T_IMUL}};
    static const double nothing[2][4] = {{0, -INFINITY, INFINITY, 1}, {0, -2147483648.0, 2147483647.0, 1}};
    const Body *b = v->body;
    const TapeOp *op = forms[b->integer];
    const double *empty = nothing[b->integer];
    int sum = -1;
    bool some = true;
    for (int i = b->left; i < b->count; i++) some &= b->high[i] > b->low[i], index[i] = b->low[i];
    while (some) {
        bool outside = false;
        int term = product(e, v, index, &outside);
        if (!outside) sum = sum < 0 ? term : tape_2(&e->tape, op[b->reduction], sum, term);
        some = advance(b, index);
    }
    return sum < 0 ? tape_const(&e->tape, empty[b->reduction]) : sum;
}
// One contraction: a sum of a product of reads.
static bool contracts(const Body *b) {
    for (int k = 0; k < b->nfactors; k++)
        if (b->factor[k].kind != F_READ) return false;
    return b->reduction == 0 && b->scale == 1 && !b->beside && !b->integer;
}
void eval_indexed(Eval *e, const Value *v, Tensor *out) {
    const Body *b = v->body;
    Precision before = e->tape.precision;
    if (contracts(b)) e->tape.precision = P_F32;
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape) && !e->tape.full; i++) {
        int index[MAX_INDICES] = {0};
        bool outside = false;
        unravel(&v->shape, i, index);
        out->id[i] = b->reduction < 0 ? product(e, v, index, &outside) : reduced(e, v, index);
        if (b->beside) out->id[i] = tape_2(&e->tape, b->integer ? T_IADD : T_ADD, out->id[i], factor_value(e, v, &b->factor[b->nfactors - 1], index, &outside));
    }
    if (contracts(b)) end_sum(e, before, out);
}

// ---- text ----------------------------------------------------------------------------------------------------------------
static void print_subscript(FILE *f, const Prog *p, const Value *v, const Subscript *s, bool torch) {
    bool first = true;
    if (s->ids >= 0) fprintf(f, torch ? "ids(v%d, " : "v%d[", name_of(p, v->arg[s->ids], torch));
    if (s->over != 1) fprintf(f, torch ? "quotient(" : "(");
    for (int i = 0; i < MAX_INDICES; i++) {
        int c = s->coefficient[i];
        if (!c) continue;
        fprintf(f, "%s", c < 0 ? (first ? "-" : " - ") : first ? "" : " + ");
        if (abs(c) != 1) fprintf(f, "%d*", abs(c));
        fputc(letters[i], f);
        first = false;
    }
    if (first) fprintf(f, "%d", s->add);
    else if (s->add) fprintf(f, s->add < 0 ? " - %d" : " + %d", abs(s->add));
    if (s->over != 1) fprintf(f, torch ? ", %d)" : ") / %d", s->over);
    if (s->ids >= 0) fprintf(f, torch ? ")" : "]");
}
void print_read(FILE *f, const Prog *p, const Value *v, const Factor *x, bool torch) {
    bool scalar = p->at[v->arg[x->arg]].shape.rank == 0;
    fprintf(f, torch ? "rd(v%d" : scalar ? "v%d" : "v%d[", name_of(p, v->arg[x->arg], torch));
    for (int d = 0; d < p->at[v->arg[x->arg]].shape.rank; d++) {
        fprintf(f, "%s", d || torch ? ", " : "");
        print_subscript(f, p, v, &x->at[d], torch);
    }
    fputs(torch ? ")" : scalar ? "" : "]", f);
}
static void print_factor(FILE *f, const Prog *p, const Value *v, const Factor *x, bool torch) {
    if (x->kind == F_INDEX) {
        fprintf(f, v->body->integer ? "%c" : "float(%c)", letters[x->index]);
        return;
    }
    if (x->kind == F_COMPARE) {
        fprintf(f, "float(%c < %c)", letters[x->index], letters[x->other]);
        return;
    }
    fprintf(f, "%s", x->kind == F_TANH ? "tanh(" : x->kind == F_ABS ? "abs(" : "");
    print_read(f, p, v, x, torch);
    fprintf(f, "%s", x->kind == F_SQUARE ? (torch ? "**2" : "^2") : x->kind == F_READ ? "" : ")");
}
void print_binders(FILE *f, const Body *b, int from, int to, bool torch) {
    for (int i = from; i < to; i++) {
        fprintf(f, "%s", i > from ? ", " : "");
        if (torch) fprintf(f, "(%d, %d)", b->low[i], b->high[i]);
        else if (b->stated[i]) fprintf(f, "%c in %d..%d", letters[i], b->low[i], b->high[i]);
        else fputc(letters[i], f);
    }
}
void print_lambda(FILE *f, int from, int to) {
    fprintf(f, "], lambda ");
    for (int i = from; i < to; i++) fprintf(f, "%s%c", i > from ? ", " : "", letters[i]);
    fprintf(f, ": ");
}
static void print_product(FILE *f, const Prog *p, const Value *v, bool torch) {
    const Body *b = v->body;
    if (b->scale != 1) fprintf(f, "%.9g%s * ", b->scale, b->scale == floor(b->scale) ? ".0" : "");
    for (int k = 0; k < b->nfactors - b->beside; k++) {
        fprintf(f, "%s", k ? " * " : "");
        print_factor(f, p, v, &b->factor[k], torch);
    }
}
void print_indexed(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    const Body *b = v->body;
    fprintf(f, torch ? "v%d = indexed([" : "v%d[", name_of(p, id, torch));
    print_binders(f, b, 0, b->left, torch);
    if (torch) print_lambda(f, 0, b->left);
    else fprintf(f, "] = ");
    if (b->nnodes) {
        print_tree(f, p, v, torch);
        fprintf(f, torch ? ")\n" : "\n");
        return;
    }
    if (b->reduction >= 0) {
        fprintf(f, torch ? "reduced('%s', [" : "%s[", reductions[b->reduction]);
        print_binders(f, b, b->left, b->count, torch);
        if (torch) print_lambda(f, b->left, b->count);
        else fprintf(f, "] ");
    }
    print_product(f, p, v, torch);
    if (torch && b->reduction >= 0) fprintf(f, ")");
    if (b->beside) {
        fprintf(f, " + ");
        print_factor(f, p, v, &b->factor[b->nfactors - 1], torch);
    }
    fprintf(f, torch ? ")\n" : "\n");
}
