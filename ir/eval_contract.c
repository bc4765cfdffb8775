/* float64 evaluation of contract: all loops, conditions tested as soon as they are decided, the
 * innermost loop reduced to an interval and a strided product where no divisor stands in it. */
#include "ir/eval.h"
#include <string.h>

/* lo <= affine / divisor < hi, division exact: a guard, or a read staying inside its operand. */
typedef struct Condition {
    const int64_t *coef; /* by loop */
    int64_t c, divisor, lo, hi;
    int decided; /* position in the loop order after which the value is known; -1: constant */
    int operand; /* of which this is a subscript, or -1 */
    int64_t stride;
} Condition;

typedef struct Walk {
    const EvalNode *e;
    const Contract *c;
    int n_operands, n_conditions;
    Condition *condition;
    int64_t *value;                                   /* by condition: of the affine, under the loops entered so far */
    int order[MAX_LOOPS];                             /* loop by position, innermost last */
    int64_t extent[MAX_LOOPS], out_stride[MAX_LOOPS]; /* by loop */
    bool divides_inside;  /* a divisor stands in a condition decided by the innermost loop */
    int64_t *base, *step; /* by operand: element offset at the start of the innermost loop, and per iteration */
    const double **data;  /* by operand */
} Walk;

static bool holds(const Condition *k, int64_t value) {
    if (k->divisor == 1) return value >= k->lo && value < k->hi;
    if (value % k->divisor != 0) return false;
    value /= k->divisor;
    return value >= k->lo && value < k->hi;
}

/* The loop with most iterations goes innermost; the others keep their order. */
static void order_loops(Walk *w) {
    int n = w->c->n_loops, longest = 0;
    for (int l = 1; l < n; l++) {
        if (w->extent[l] >= w->extent[longest]) longest = l;
    }
    for (int l = 0, at = 0; l < n; l++) {
        if (l != longest) w->order[at++] = l;
    }
    if (n > 0) w->order[n - 1] = longest;
}

static void add_condition(Walk *w, const Affine *a, int64_t lo, int64_t hi, int operand, int64_t stride) {
    Condition *k = &w->condition[w->n_conditions++];
    *k = (Condition){.coef = a->coef,
                     .c = a->c,
                     .divisor = a->divisor,
                     .lo = lo,
                     .hi = hi,
                     .decided = -1,
                     .operand = operand,
                     .stride = stride};
    for (int p = 0; p < w->c->n_loops; p++) {
        if (a->coef[w->order[p]] != 0) k->decided = p;
    }
    if (k->divisor != 1 && k->decided == w->c->n_loops - 1) w->divides_inside = true;
}

static void add_conditions(Walk *w) {
    const Contract *c = w->c;
    int most = c->n_guards;
    for (int i = 0; i < w->n_operands; i++) most += w->e->node->in[i]->shape->rank;
    w->condition = ARENA_ARRAY(w->e->arena, Condition, most);
    w->value = ARENA_ARRAY(w->e->arena, int64_t, most);
    for (int i = 0; i < w->n_operands; i++) {
        const Tensor *t = &w->e->values[w->e->node->in[i]->id];
        int64_t stride[MAX_RANK];
        tensor_strides(t, stride);
        w->data[i] = t->data;
        for (int d = 0; d < t->rank; d++) add_condition(w, &c->map[i][d], 0, t->dim[d], i, stride[d]);
    }
    for (int i = 0; i < c->n_guards; i++) {
        const Guard *g = &c->guard[i];
        bool range = g->kind == GUARD_RANGE;
        add_condition(w, &g->e, range ? g->lo : 0, range ? dim_at(g->hi, w->e->env->syms) : 1, -1, 0);
    }
    for (int i = 0; i < w->n_conditions; i++) w->value[i] = w->condition[i].c;
}

/* i32 products and sums wrap; they are exact in 32-bit unsigned arithmetic. */
static void add_term(const Walk *w, double *out, const int64_t *at) {
    if (w->e->node->dtype == DT_I32) {
        uint32_t p = 1;
        for (int i = 0; i < w->n_operands; i++) p *= (uint32_t)(int64_t)w->data[i][at[i]];
        *out = (double)(int32_t)((uint32_t)(int64_t)*out + p);
        return;
    }
    double p = 1;
    for (int i = 0; i < w->n_operands; i++) p *= w->data[i][at[i]];
    *out += p;
}

/* Offsets of all operands under the present values. */
static void locate(Walk *w) {
    memset(w->base, 0, sizeof *w->base * (size_t)w->n_operands);
    for (int i = 0; i < w->n_conditions; i++) {
        const Condition *k = &w->condition[i];
        if (k->operand >= 0) w->base[k->operand] += w->value[i] / k->divisor * k->stride;
    }
}

/* Every iteration tested by itself. */
static void inner_checked(Walk *w, int loop, double *out) {
    for (int64_t x = 0; x < w->extent[loop]; x++) {
        bool all = true;
        for (int i = 0; i < w->n_conditions && all; i++) {
            const Condition *k = &w->condition[i];
            if (k->coef[loop] != 0) all = holds(k, w->value[i]);
        }
        if (all) {
            locate(w);
            add_term(w, out + x * w->out_stride[loop], w->base);
        }
        for (int i = 0; i < w->n_conditions; i++) w->value[i] += w->condition[i].coef[loop];
    }
    for (int i = 0; i < w->n_conditions; i++) w->value[i] -= w->condition[i].coef[loop] * w->extent[loop];
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* The x in [*from, *to) with lo <= value + coef * x < hi. */
static void clip(const Condition *k, int64_t value, int64_t coef, int64_t *from, int64_t *to) {
    int64_t first, last; /* inclusive */
    if (coef > 0) {
        first = -floor_div(value - k->lo, coef);
        last = floor_div(k->hi - 1 - value, coef);
    } else {
        first = -floor_div(k->hi - 1 - value, -coef);
        last = floor_div(value - k->lo, -coef);
    }
    if (first > *from) *from = first;
    if (last + 1 < *to) *to = last + 1;
}

/* out[x] += a[x] * b[x].  The usual steps are loops of their own, for the compiler to vectorize; a sum into one place is
 * kept in four registers, whose latencies overlap. */
static void add_products(double *restrict out, int64_t so, const double *a, int64_t sa, const double *b, int64_t sb,
                         int64_t n) {
    if (so == 0) {
        double part[4] = {0};
        int64_t x = 0;
        for (; x + 4 <= n; x += 4)
            for (int k = 0; k < 4; k++) part[k] += a[(x + k) * sa] * b[(x + k) * sb];
        for (; x < n; x++) part[0] += a[x * sa] * b[x * sb];
        *out += part[0] + part[1] + (part[2] + part[3]);
    } else if (so == 1 && sa == 0 && sb == 1) {
        const double factor = *a;
        for (int64_t x = 0; x < n; x++) out[x] += factor * b[x];
    } else if (so == 1 && sa == 1 && sb == 0) {
        const double factor = *b;
        for (int64_t x = 0; x < n; x++) out[x] += a[x] * factor;
    } else {
        for (int64_t x = 0; x < n; x++) out[x * so] += a[x * sa] * b[x * sb];
    }
}

static void inner_strided(Walk *w, int loop, double *out) {
    int64_t from = 0, to = w->extent[loop];
    memset(w->step, 0, sizeof *w->step * (size_t)w->n_operands);
    for (int i = 0; i < w->n_conditions; i++) {
        const Condition *k = &w->condition[i];
        int64_t coef = k->coef[loop];
        if (coef == 0) continue;
        clip(k, w->value[i], coef, &from, &to);
        if (k->operand >= 0) w->step[k->operand] += coef * k->stride;
    }
    if (from >= to) return;
    locate(w);
    for (int i = 0; i < w->n_operands; i++) w->base[i] += from * w->step[i];
    int64_t so = w->out_stride[loop];
    out += from * so;
    if (w->n_operands == 2 && w->e->node->dtype != DT_I32) {
        add_products(out, so, w->data[0] + w->base[0], w->step[0], w->data[1] + w->base[1], w->step[1], to - from);
        return;
    }
    for (int64_t x = from; x < to; x++, out += so) {
        add_term(w, out, w->base);
        for (int i = 0; i < w->n_operands; i++) w->base[i] += w->step[i];
    }
}

static bool decided_hold(const Walk *w, int position) {
    for (int i = 0; i < w->n_conditions; i++) {
        if (w->condition[i].decided == position && !holds(&w->condition[i], w->value[i])) return false;
    }
    return true;
}

static void walk(Walk *w, int position, double *out) {
    int loop = w->order[position];
    if (position == w->c->n_loops - 1) {
        if (w->divides_inside) {
            inner_checked(w, loop, out);
        } else {
            inner_strided(w, loop, out);
        }
        return;
    }
    for (int64_t x = 0; x < w->extent[loop]; x++) {
        if (decided_hold(w, position)) walk(w, position + 1, out + x * w->out_stride[loop]);
        for (int i = 0; i < w->n_conditions; i++) w->value[i] += w->condition[i].coef[loop];
    }
    for (int i = 0; i < w->n_conditions; i++) w->value[i] -= w->condition[i].coef[loop] * w->extent[loop];
}

void eval_contract(EvalNode *e) {
    const Contract *c = e->node->attr->contract;
    Walk w = {.e = e, .c = c, .n_operands = e->node->n_in};
    for (int l = 0; l < c->n_loops; l++) {
        int64_t extent = dim_at(c->extent[l], e->env->syms);
        w.extent[l] = extent < 0 ? 0 : extent;
    }
    tensor_strides(e->out, w.out_stride);
    order_loops(&w);
    w.base = ARENA_ARRAY(e->arena, int64_t, w.n_operands);
    w.step = ARENA_ARRAY(e->arena, int64_t, w.n_operands);
    w.data = ARENA_ARRAY(e->arena, const double *, w.n_operands);
    add_conditions(&w);
    if (!decided_hold(&w, -1)) return;
    if (c->n_loops > 0) {
        walk(&w, 0, e->out->data);
    } else {
        locate(&w);
        add_term(&w, e->out->data, w.base);
    }
}
