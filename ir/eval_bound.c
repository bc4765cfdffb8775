#include "ir/eval_bound.h"
#include "ir/integer.h"
#include "ir/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A rounded f32 value is off by up to NOISE_SINGLE units, which is beyond the bounds of all functions
 * (docs/numerics.md); one of a lower dtype may lie between two of it.  A sum of n terms by sqrt(n) / 4 times that, of
 * the sum of magnitudes: n is at most IN_PARTS, since longer ones are made of parts (docs/numerics.md, Sums). */
static const double NOISE_SINGLE = 8, NOISE_LOW = 2, SUM_GROWTH = 0.25, IN_PARTS = 8192;
/* The bound is SAFETY times the farthest that any draw moved the element, but not less than MEDIAN_PART of what is
 * usual in its tensor; nor than what is usual of its own magnitude. */
static const double SAFETY = 4, MEDIAN_PART = 0.25, STORED = 4;
/* Where opposite draws do not move an element to opposite sides, by this part of how far they do, rounding has no linear
 * effect (a normalization of a few samples that are nearly equal): six draws do not show how far it can go. */
static const double BENT = 0.25, BENT_SAFETY = 64;
enum { PAIRS = 3, FLIPPED = 4, SAMPLES = 999 };

double dtype_rounding(DType t) {
    switch (t) {
    case DT_BF16: return 0x1p-8;
    case DT_F16:
    case DT_TF32: return 0x1p-11;
    case DT_F32: return 0x1p-24;
    default: return 0;
    }
}

/* Half of the least subnormal. */
static double least_rounding(DType t) { return t == DT_F16 ? 0x1p-25 : t == DT_BF16 ? 0x1p-134 : 0x1p-150; }

typedef struct Study {
    Arena *scratch;
    const Graph *g;
    const EvalEnv *env;
    const Tensor *value; /* by id: exact */
    Tensor *magnitude;   /* by id, only while a sum's scale is found: absolute values */
    double **scale;      /* by id, element: noise is up to that; NULL: none */
    double **other;      /* by id, element: on the other side of the jump; NULL: none is near its edge */
    bool **flips;        /* by id, element: other has a value */
    double **spread;     /* by id, of those asked about */
    double **moved;      /* likewise: by the first draw of a pair, with its sign */
    double **bend;       /* likewise: by both of a pair together, the most */
    const bool *asked;   /* by id */
    bool any_flip;
    int draw;
} Study;

/* ---- what is rounded, and by how much ---------------------------------------------------------------------------- */
static bool takes_operand(Op op) {
    switch (op) {
    case OP_NEG:
    case OP_ABS:
    case OP_MAX:
    case OP_MIN:
    case OP_SELECT:
    case OP_RMAX:
    case OP_RMIN:
    case OP_GATHER:
    case OP_SCATTER_MAX:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_SIGN:
    case OP_BITS:
    case OP_STOP_GRADIENT: return true;
    default: return op_info[op].cls == CLASS_SOURCE || op_info[op].cls == CLASS_MOVE;
    }
}

static bool is_function(Op op) {
    return op_is_transcendental(op) && op_info[op].ulps > 0.5 && op != OP_RSQRT;
}

static bool has_exact_value(Op op, const double *x) {
    switch (op_info[op].exact) {
    case EXACT_NOWHERE: return false;
    case EXACT_AT_0: return x[0] == 0;
    case EXACT_AT_1: return x[0] == 1;
    case EXACT_POWER: return x[0] == 1 || x[1] == 0;
    }
    return false;
}

static bool is_in(DType t, double x) { return x == scalar_round(dtype_is_low(t) ? t : DT_F32, x); }

/* Is element e rounded, its operands being exact? */
static bool rounds_element(const Study *s, const Node *n, int64_t e) {
    double x[4] = {0};
    for (int k = 0; k < n->n_in && k < 4; k++) x[k] = s->value[n->in[k]->id].data[e];
    if (is_function(n->op)) return !has_exact_value(n->op, x);
    const double v = scalar_op(n->op, n->dtype, x);
    if (n->op == OP_MOD && !is_in(DT_F32, floor(x[0] / x[1]) * x[1])) return true;
    if (n->op == OP_RSQRT && !is_in(DT_F32, sqrt(x[0]))) return true;
    return !is_in(n->dtype, v);
}

/* How many terms an element is the sum of, at most. */
static double terms_of(const Study *s, const Node *n) {
    const Tensor *out = &s->value[n->id];
    double terms = 1;
    if (n->op == OP_SCAN) return (double)out->dim[n->attr->axis] * n->n_in; /* a rounding of each product */
    if (n->op == OP_SCATTER_ADD) return (double)tensor_elements(&s->value[n->in[1]->id]);
    if (n->op != OP_CONTRACT)
        return (double)tensor_elements(&s->value[n->in[0]->id]) /
               (double)(tensor_elements(out) + !tensor_elements(out));
    for (int l = n->attr->contract->n_out; l < n->attr->contract->n_loops; l++)
        terms *= (double)n->attr->contract->extent[l].bound;
    return terms;
}

static bool is_product(const Node *n) { return n->op == OP_PROD || (n->op == OP_SCAN && n->attr->scan == SCAN_PROD); }

static void take_magnitude(Study *s, Arena *a, const Node *x) {
    Tensor *t = &s->magnitude[x->id];
    *t = s->value[x->id];
    const int64_t n = tensor_elements(t);
    t->data = ARENA_ARRAY(a, double, n + 1);
    for (int64_t i = 0; i < n; i++) t->data[i] = fabs(s->value[x->id].data[i]);
}

/* The sums of the terms' magnitudes; indices stay as they are. */
static void sum_magnitudes(Study *s, const Node *n, Tensor *out) {
    Arena *a = arena_new();
    EvalNode e = {.arena = a, .node = n, .env = s->env, .values = s->magnitude, .out = out};
    for (int k = 0; k < n->n_in; k++) {
        if (dtype_is_float(n->in[k]->dtype))
            take_magnitude(s, a, n->in[k]);
        else
            s->magnitude[n->in[k]->id] = s->value[n->in[k]->id];
        if (k < 4) e.in[k] = &s->magnitude[n->in[k]->id];
    }
    if (n->op == OP_CONTRACT)
        eval_contract(&e);
    else if (op_info[n->op].cls == CLASS_INDEXED)
        eval_indexed(&e);
    else
        eval_reduce(&e);
    arena_free(a);
}

/* Few bits: all sums and products of them are exact in f32, in any order. */
static bool is_coarse(const Tensor *t) {
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++)
        if (t->data[i] * 16 != nearbyint(t->data[i] * 16)) return false;
    return true;
}

static bool sums_exactly(const Study *s, const Node *n, const Tensor *magnitude) {
    int64_t count = tensor_elements(magnitude);
    for (int64_t i = 0; i < count; i++)
        if (!(magnitude->data[i] <= 4096)) return false;
    bool coarse = n->n_in <= 3;
    for (int k = 0; coarse && k < n->n_in; k++) coarse = is_coarse(&s->value[n->in[k]->id]);
    return coarse;
}

static double low_noise(const Node *n, double v) {
    return dtype_is_low(n->dtype) ? NOISE_LOW * fmax(dtype_rounding(n->dtype) * fabs(v), least_rounding(n->dtype)) : 0;
}

static void scale_sum(Study *s, const Node *n) {
    const Tensor *v = &s->value[n->id];
    const int64_t count = tensor_elements(v);
    const double terms = terms_of(s, n), unit = NOISE_SINGLE * dtype_rounding(DT_F32);
    const double growth = SUM_GROWTH * sqrt(n->op == OP_SCAN ? terms : fmin(terms, IN_PARTS));
    Tensor magnitude = *v;
    magnitude.data = s->scale[n->id] = ARENA_ARRAY(s->scratch, double, count + 1);
    if (is_product(n))
        for (int64_t i = 0; i < count; i++) magnitude.data[i] = fabs(v->data[i]) * terms;
    else
        sum_magnitudes(s, n, &magnitude);
    const bool exact = sums_exactly(s, n, &magnitude), single = terms <= 1 && n->n_in == 1;
    for (int64_t i = 0; i < count; i++) {
        const double sum = exact || single ? 0 : unit * fmax(1, growth) * magnitude.data[i];
        const double low = is_in(n->dtype, v->data[i]) && exact ? 0 : low_noise(n, v->data[i]);
        magnitude.data[i] = sum + low;
    }
}

static void scale_element(Study *s, const Node *n) {
    const Tensor *v = &s->value[n->id];
    const int64_t count = tensor_elements(v);
    double *scale = s->scale[n->id] = ARENA_ARRAY(s->scratch, double, count + 1);
    for (int64_t i = 0; i < count; i++)
        if (isfinite(v->data[i]) && rounds_element(s, n, i))
            scale[i] = fmax(NOISE_SINGLE * dtype_rounding(DT_F32) * fabs(v->data[i]), least_rounding(DT_F32)) +
                       low_noise(n, v->data[i]);
}

static void find_scale(Study *s, const Node *n) {
    if (!dtype_is_float(n->dtype) || takes_operand(n->op) || n->dtype == DT_F64) return;
    if (op_info[n->op].cls == CLASS_ELEMENT)
        scale_element(s, n);
    else
        scale_sum(s, n);
}

/* ---- jumps ------------------------------------------------------------------------------------------------------- */
static bool is_jump(const Node *n) {
    if (n->n_in == 0 || !dtype_is_float(n->in[0]->dtype)) return false;
    if (n->op == OP_CAST) return !dtype_is_float(n->dtype);
    return n->op == OP_FLOOR || n->op == OP_CEIL || n->op == OP_SIGN || n->op == OP_MOD || n->op == OP_ARGMAX || n->op == OP_SCATTER_ARGMAX ||
           (n->op >= OP_EQ && n->op <= OP_GE);
}

static void note_flip(Study *s, const Node *n, int64_t e, double other) {
    const int64_t count = tensor_elements(&s->value[n->id]);
    if (!s->flips[n->id]) {
        s->flips[n->id] = ARENA_ARRAY(s->scratch, bool, count);
        s->other[n->id] = ARENA_ARRAY(s->scratch, double, count);
    }
    s->flips[n->id][e] = s->any_flip = true;
    s->other[n->id][e] = other;
}

static bool is_same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

/* x mod y with the whole part that it has when exact. */
static double freeze_mod(Study *s, const Node *n, const Tensor *values, int64_t e) {
    const double x = s->value[n->in[0]->id].data[e], y = s->value[n->in[1]->id].data[e], whole = floor(x / y);
    const double x1 = values[n->in[0]->id].data[e], y1 = values[n->in[1]->id].data[e], whole1 = floor(x1 / y1);
    if (!is_same(whole, whole1)) note_flip(s, n, e, x - whole1 * y);
    return x1 - whole * y1;
}

static void freeze(Study *s, const Node *n, const Tensor *values, const Tensor *out) {
    const double *exact = s->value[n->id].data;
    const int64_t count = tensor_elements(out);
    for (int64_t e = 0; e < count; e++) {
        if (n->op == OP_MOD) {
            out->data[e] = freeze_mod(s, n, values, e);
            continue;
        }
        if (!is_same(out->data[e], exact[e])) note_flip(s, n, e, out->data[e]);
        out->data[e] = exact[e];
    }
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* In half a unit to one of either sign.  A function of equal values is off by the same, and of their negatives by the negative.
 * Each sum is off by its own: equal ones add their terms in other orders, and do not cancel to the bit. */
static double noise_of(const Study *s, const Node *n, int64_t e, double exact) {
    const double size = fabs(exact);
    uint64_t h;
    memcpy(&h, &size, sizeof h);
    if (op_info[n->op].cls != CLASS_ELEMENT) h = hash_mix(hash_mix(h, (uint64_t)n->id), (uint64_t)e);
    h = (h ^ (uint64_t)(s->draw / 2 + 1) * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    h = (h ^ h >> 29) * 0x94D049BB133111EBu;
    h ^= h >> 32;
    const double noise = 0.5 + 0.5 * (double)(uint32_t)(h >> 11) * 0x1p-32;
    const uint64_t negative = (uint64_t)((h & 1) == 0) ^ (uint64_t)(s->draw % 2) ^ (uint64_t)(exact < 0); /* no branch: it is drawn */
    uint64_t bits;
    memcpy(&bits, &noise, sizeof bits);
    bits ^= negative << 63;
    double signed_noise;
    memcpy(&signed_noise, &bits, sizeof bits);
    return signed_noise;
}

static void disturb(void *user, const Node *n, const Tensor *values, const Tensor *out) {
    Study *s = user;
    if (is_jump(n)) freeze(s, n, values, out);
    const double *scale = s->scale[n->id], *exact = s->value[n->id].data;
    const int64_t count = scale ? tensor_elements(out) : 0;
    for (int64_t e = 0; e < count; e++)
        if (scale[e] > 0) out->data[e] += scale[e] * noise_of(s, n, e, exact[e]);
}

static double distance(double x, double y) {
    if (is_same(x, y)) return 0;
    const double d = fabs(x - y);
    return isnan(d) ? INFINITY : d;
}

static void widen(Study *s, int id, const Tensor *drawn) {
    const int64_t count = s->spread[id] ? tensor_elements(drawn) : 0;
    const bool second = s->draw % 2;
    for (int64_t e = 0; e < count; e++) {
        const double x = drawn->data[e], exact = s->value[id].data[e], by = is_same(x, exact) ? 0 : x - exact;
        s->spread[id][e] = fmax(s->spread[id][e], distance(x, exact));
        if (second) s->bend[id][e] = fmax(s->bend[id][e], fabs(s->moved[id][e] + by));
        s->moved[id][e] = by;
    }
}

static bool draw_all(Study *s, const char **error) {
    for (s->draw = 0; s->draw < 2 * PAIRS; s->draw++) {
        Arena *a = arena_new();
        EvalEnv env = *s->env;
        env.watch = disturb;
        env.user = s;
        env.keep = s->asked;
        const Tensor *drawn = graph_eval(a, s->g, &env, error);
        for (int i = 0; drawn && i < s->g->nodes.n; i++) widen(s, i, &drawn[i]);
        arena_free(a);
        if (!drawn) return false;
    }
    return true;
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */
static int by_size(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Of spread, or of spread over magnitude; infinite ones are not usual. */
static double usual(const double *spread, const double *over, int64_t count) {
    double sample[SAMPLES + 1];
    const int64_t step = count / SAMPLES + 1;
    int n = 0;
    for (int64_t e = 0; e < count; e += step) {
        const double size = over ? fabs(over[e]) : 1, x = spread[e] / size;
        if (isfinite(x) && size > 0) sample[n++] = x;
    }
    if (!n) return 0;
    qsort(sample, (size_t)n, sizeof *sample, by_size);
    return sample[n / 2];
}

static void set_bound(Arena *a, const Study *s, int id, Bound *b) {
    const Node *n = s->g->nodes.at[id];
    const double *value = s->value[id].data, *spread = s->spread[id];
    const int64_t count = tensor_elements(&s->value[id]);
    b->within = ARENA_ARRAY(a, double, count + 1);
    b->undecided = ARENA_ARRAY(a, bool, count + 1);
    if (dtype_is_float(n->dtype)) {
        const double median = MEDIAN_PART * usual(spread, NULL, count), relative = usual(spread, value, count);
        const double stored = STORED * dtype_rounding(n->dtype);
        for (int64_t e = 0; e < count; e++) {
            const double size = isfinite(value[e]) ? fabs(value[e]) : 0;
            const double most = fmax(spread[e], fmax(median, relative * size));
            const bool bent = s->bend[id][e] > BENT * spread[e];
            b->within[e] = (bent ? BENT_SAFETY : SAFETY) * most + stored * size;
        }
    }
    for (int64_t e = 0; e < count; e++) b->n_undecided += b->undecided[e] = !isfinite(b->within[e]);
}

/* Comparisons of the same two values come out together: of the one that is greater, and of the one that is not. */
static uint64_t decision_of(const Node *n) {
    if (n->op < OP_EQ || n->op > OP_GE) return hash_mix(0, (uint64_t)n->id);
    const uint64_t x = (uint64_t)n->in[0]->id, y = (uint64_t)n->in[1]->id;
    return hash_mix(hash_mix(1, x < y ? x : y), x < y ? y : x);
}

/* All of them, and then any half: the effects of two on one element may be opposite. */
static bool is_flipped(const Study *s, const Node *n, int64_t e) {
    const uint64_t place = hash_mix(hash_mix((uint64_t)s->draw, decision_of(n)), (uint64_t)e), h = hash_mix(place, 0);
    return s->flips[n->id][e] && (s->draw == 0 || h >> 63);
}

static void flip(void *user, const Node *n, const Tensor *values, const Tensor *out) {
    Study *s = user;
    const bool *flips = s->flips[n->id];
    const int64_t count = flips ? tensor_elements(out) : 0;
    (void)values;
    for (int64_t e = 0; e < count; e++)
        if (is_flipped(s, n, e)) out->data[e] = s->other[n->id][e];
}

static bool compare_flipped(Study *s, Bounds *b, const char **error) {
    Arena *a = arena_new();
    EvalEnv env = *s->env;
    env.watch = flip;
    env.user = s;
    env.keep = s->asked;
    const Tensor *flipped = graph_eval(a, s->g, &env, error);
    for (int i = 0; flipped && i < s->g->nodes.n; i++) {
        Bound *x = &b->bound[i];
        const int64_t count = x->within ? tensor_elements(&flipped[i]) : 0;
        for (int64_t e = 0; e < count; e++) {
            if (x->undecided[e] || distance(flipped[i].data[e], s->value[i].data[e]) <= x->within[e]) continue;
            x->undecided[e] = true;
            x->n_undecided++;
        }
    }
    arena_free(a);
    return flipped;
}

static bool find_undecided(Study *s, Bounds *b, const char **error) {
    bool ok = true;
    for (s->draw = 0; s->draw < FLIPPED && s->any_flip && ok; s->draw++) ok = compare_flipped(s, b, error);
    return ok;
}

/* What its dtype does not reach is infinite in it.  Is there any, or is that for the run to see: a loss is scaled so that f16
 * just reaches its gradients? */
static bool find_overflows(Study *s, const Node *n) {
    const int64_t count = dtype_is_float(n->dtype) && n->dtype != DT_F64 ? tensor_elements(&s->value[n->id]) : 0;
    bool any = n->dtype == DT_F16 || n->precision == PRECISION_F16;
    for (int64_t e = 0; e < count; e++) {
        const double v = s->value[n->id].data[e];
        if (!isfinite(v) || isfinite(scalar_round(n->dtype, v))) continue;
        note_flip(s, n, e, copysign(INFINITY, v));
        any = true;
    }
    return any;
}

Bounds *graph_eval_bounds(Arena *a, const Graph *g, const EvalEnv *env, const bool *asked, const char **error) {
    const int n = g->nodes.n;
    Bounds *b = ARENA_NEW(a, Bounds);
    Study s = {.scratch = arena_new(), .g = g, .env = env, .asked = asked};
    s.value = b->value = graph_eval(a, g, env, error);
    b->bound = ARENA_ARRAY(a, Bound, n + 1);
    s.magnitude = ARENA_ARRAY(s.scratch, Tensor, n + 1);
    s.scale = ARENA_ARRAY(s.scratch, double *, n + 1);
    s.other = ARENA_ARRAY(s.scratch, double *, n + 1);
    s.flips = ARENA_ARRAY(s.scratch, bool *, n + 1);
    s.spread = ARENA_ARRAY(s.scratch, double *, n + 1);
    s.moved = ARENA_ARRAY(s.scratch, double *, n + 1);
    s.bend = ARENA_ARRAY(s.scratch, double *, n + 1);
    for (int i = 0; i < n && s.value; i++) {
        find_scale(&s, g->nodes.at[i]);
        b->overflows |= find_overflows(&s, g->nodes.at[i]);
        if (!asked[i]) continue;
        const int64_t count = tensor_elements(&s.value[i]);
        s.spread[i] = ARENA_ARRAY(s.scratch, double, count + 1);
        s.moved[i] = ARENA_ARRAY(s.scratch, double, count + 1);
        s.bend[i] = ARENA_ARRAY(s.scratch, double, count + 1);
    }
    bool ok = s.value && draw_all(&s, error);
    for (int i = 0; ok && i < n; i++)
        if (asked[i]) set_bound(a, &s, i, &b->bound[i]);
    ok = ok && find_undecided(&s, b, error);
    arena_free(s.scratch);
    return ok ? b : NULL;
}

bool bound_holds(DType t, double got, double want, double within) {
    if (is_same(got, want) || fabs(got - want) <= within) return true;
    return dtype_is_float(t) && is_same(got, scalar_round(t, want));
}
