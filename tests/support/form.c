#include "tests/support/form.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t form_points(const Form *f) {
    int64_t n = 1;
    for (int i = 0; i < f->n; i++) n *= f->extent[i];
    return n;
}

static int64_t results(const Form *f) {
    int64_t n = 1;
    for (int i = 0; i < f->n_out; i++) n *= f->extent[i];
    return n;
}

static int64_t elements(const FormOperand *o) {
    int64_t n = 1;
    for (int d = 0; d < o->rank; d++) n *= o->dim[d];
    return n;
}

static int64_t addends(const Form *f) {
    switch (f->epilogue) {
    case EPILOGUE_BIAS: return f->extent[f->n_out - 1];
    case EPILOGUE_ADD: return results(f);
    default: return 0;
    }
}

/* ---- text ---------------------------------------------------------------------------------------------------- */
static void put_affine(FILE *to, const FormAffine *x, int n) {
    bool first = true;
    if (x->over != 1) fputc('(', to);
    for (int i = 0; i < n; i++) {
        const int c = x->coef[i];
        if (!c) continue;
        fputs(c < 0 ? (first ? "-" : " - ") : first ? "" : " + ", to);
        if (abs(c) != 1) fprintf(to, "%d*", abs(c));
        fprintf(to, "i%d", i);
        first = false;
    }
    if (first)
        fprintf(to, "%d", x->add);
    else if (x->add)
        fprintf(to, " %c %d", x->add < 0 ? '-' : '+', abs(x->add));
    if (x->over != 1) fprintf(to, ") / %d", x->over);
}

static void put_dims(FILE *to, int n, const int *dim) {
    fputc('[', to);
    for (int d = 0; d < n; d++) fprintf(to, "%s%d", d ? ", " : "", dim[d]);
    fputc(']', to);
}

static const char *name_of(const Form *f, int operand) { return operand && !f->same ? "k" : "x"; }

static void put_read(FILE *to, const Form *f, int operand, int number) {
    const FormOperand *o = &f->operand[operand];
    fprintf(to, "%s%s%d[", o->relu ? "relu_" : "", name_of(f, operand), number);
    for (int d = 0; d < o->rank; d++) {
        if (d) fputs(", ", to);
        put_affine(to, &o->at[d], f->n);
    }
    fputc(']', to);
}

static void put_indices(FILE *to, const Form *f, int from, int end) {
    fputc('[', to);
    for (int i = from; i < end; i++) fprintf(to, "%si%d in 0..%d", i > from ? ", " : "", i, f->extent[i]);
    fputs("] ", to);
}

static void put_indexed(FILE *to, const Form *f, int number) {
    fprintf(to, "    y%d", number);
    put_indices(to, f, 0, f->n_out);
    fputs("= ", to);
    if (f->n > f->n_out) {
        fputs("sum", to);
        put_indices(to, f, f->n_out, f->n);
    }
    put_read(to, f, f->swapped, number);
    fputs(" * ", to);
    put_read(to, f, !f->swapped, number);
    fputc('\n', to);
}

/* Index 0 is a row or the batch; the operand's last two dims lie turned if its first does not go along the rows. */
static void put_factor(FILE *to, const Form *f, int operand, int number) {
    const FormOperand *o = &f->operand[operand];
    const int summed = f->n - 1, last = o->rank - 1;
    const bool turned = operand ? o->at[last].coef[summed] != 0 : o->at[last].coef[summed] == 0;
    fprintf(to, turned ? "transpose(%s%s%d)" : "%s%s%d", o->relu ? "relu_" : "", name_of(f, operand), number);
}

static void put_product(FILE *to, const Form *f, int number) {
    fprintf(to, "    y%d = ", number);
    put_factor(to, f, 0, number);
    fputs(" @ ", to);
    put_factor(to, f, 1, number);
    fputc('\n', to);
}

static void put_tensor(FILE *to, const FormSetting *s, const char *name, int number, int rank, const int *dim,
                       bool variable) {
    if (s->train && variable)
        fprintf(to, "    %s%d = param ", name, number);
    else
        fprintf(to, "    input %s%d : f32", name, number);
    put_dims(to, rank, dim);
    fputs(s->train && variable ? " init zeros\n" : "\n", to);
}

static void put_operands(FILE *to, const Form *f, int number, const FormSetting *s) {
    const FormOperand *k = &f->operand[1];
    put_tensor(to, s, "x", number, f->operand[0].rank, f->operand[0].dim, true);
    if (f->diagonal)
        fprintf(to,
                "    k%d = where(iota(%d, axis = 1, rank = 2) == iota(%d, axis = 0, rank = 2) - 3, 2.0, 1.0)\n", number,
                k->dim[1], k->dim[0]);
    else if (!f->same)
        put_tensor(to, s, "k", number, k->rank, k->dim, true);
    for (int o = 0; o < FORM_OPERANDS; o++)
        if (f->operand[o].relu && (!o || !f->same || !f->operand[0].relu))
            fprintf(to, "    relu_%s%d = relu(%s%d)\n", name_of(f, o), number, name_of(f, o), number);
    put_tensor(to, s, "u", number, f->n_out, f->extent, false);
    if (f->epilogue == EPILOGUE_BIAS) put_tensor(to, s, "b", number, 1, &f->extent[f->n_out - 1], false);
    if (f->epilogue == EPILOGUE_ADD) put_tensor(to, s, "b", number, f->n_out, f->extent, false);
}

static void put_form(FILE *to, const Form *f, int number, const FormSetting *s) {
    static const char *const epilogue[EPILOGUES] = {"y%d", "relu(y%d + b%d)", "y%d + b%d", "2.0 * y%d"};
    fprintf(to, "    # %s, data %llu\n", f->family, (unsigned long long)f->seed);
    put_operands(to, f, number, s);
    (f->spelling == SPELT_AT ? put_product : put_indexed)(to, f, number);
    fprintf(to, "    z%d = ", number);
    fprintf(to, epilogue[f->epilogue], number, number);
    fprintf(to, "\n    output z%d\n", number);
    if (s->train) return;
    fprintf(to, "    output dx%d = vjp(z%d, x%d, u%d)\n", number, number, number, number);
    if (!f->same && !f->diagonal) fprintf(to, "    output dk%d = vjp(z%d, k%d, u%d)\n", number, number, number, number);
}

char *form_text(Arena *a, const Form *f, int n, const FormSetting *s) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    fputs("model m {\n", to);
    if (s->precision) fprintf(to, "    precision %s\n", s->precision);
    for (int i = 0; i < n; i++) put_form(to, &f[i], i, s);
    for (int i = 0; i < n && s->train; i++) fprintf(to, "%ssum(z%d * u%d)", i ? " + " : "    loss = ", i, i);
    if (s->train) fputs("\n    output loss\n    train loss with sgd(lr = 0.1)\n", to);
    fputs("}\n", to);
    fclose(to);
    char *kept = arena_strdup(a, text);
    free(text);
    return kept;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */
/* All indices, the last varying fastest, with the subscripts' numerators. */
typedef struct Walk {
    const Form *f;
    int index[FORM_INDICES];
    int64_t top[FORM_OPERANDS][FORM_RANK];
    int64_t result; /* which, row-major */
} Walk;

static Walk walk_begin(const Form *f) {
    Walk w = {.f = f};
    for (int o = 0; o < FORM_OPERANDS; o++)
        for (int d = 0; d < f->operand[o].rank; d++) w.top[o][d] = f->operand[o].at[d].add;
    return w;
}

static void move_index(Walk *w, int i, int by) {
    w->index[i] += by;
    for (int o = 0; o < FORM_OPERANDS; o++)
        for (int d = 0; d < w->f->operand[o].rank; d++) w->top[o][d] += (int64_t)by * w->f->operand[o].at[d].coef[i];
}

static bool walk_next(Walk *w) {
    int i = w->f->n - 1;
    for (; i >= 0 && w->index[i] + 1 == w->f->extent[i]; i--) move_index(w, i, -w->index[i]);
    if (i < 0) return false;
    if (i < w->f->n_out) w->result++;
    move_index(w, i, 1);
    return true;
}

/* The element that is read, or -1. */
static int64_t element_at(const Walk *w, int operand) {
    const FormOperand *o = &w->f->operand[operand];
    int64_t at = 0;
    for (int d = 0; d < o->rank; d++) {
        const int64_t top = w->top[operand][d], over = o->at[d].over;
        if (top % over || top < 0 || top / over >= o->dim[d]) return -1;
        at = at * o->dim[d] + top / over;
    }
    return at;
}

static double *drawn(Arena *a, TestRandom *r, int64_t n, int most) {
    double *x = ARENA_ARRAY(a, double, n + 1);
    for (int64_t i = 0; i < n; i++) x[i] = test_below(r, 2 * most + 1) - most;
    return x;
}

static double *read_as(Arena *a, const double *x, int64_t n, bool relu) {
    double *y = arena_dup(a, x, sizeof *x * (size_t)(n + 1));
    for (int64_t i = 0; i < n && relu; i++) y[i] = fmax(x[i], 0);
    return y;
}

static void forward(const Form *f, const double *x, const double *k, double *y) {
    Walk w = walk_begin(f);
    do {
        const int64_t i = element_at(&w, 0), j = element_at(&w, 1);
        if (i >= 0 && j >= 0) y[w.result] += x[i] * k[j];
    } while (walk_next(&w));
}

static void backward(const Form *f, const double *x, const double *k, const double *dy, double *dx, double *dk) {
    Walk w = walk_begin(f);
    do {
        const int64_t i = element_at(&w, 0), j = element_at(&w, 1);
        if (i < 0 || j < 0) continue;
        dx[i] += dy[w.result] * k[j];
        dk[j] += dy[w.result] * x[i];
    } while (walk_next(&w));
}

/* y -> z, and the derivative by y. */
static void finish(const Form *f, const FormValues *v, double *y, double *dy) {
    for (int64_t i = 0; i < v->ny; i++) {
        const double before = y[i];
        dy[i] = v->u[i];
        if (f->epilogue == EPILOGUE_SCALE) v->z[i] = 2 * before, dy[i] *= 2;
        if (f->epilogue == EPILOGUE_NONE) v->z[i] = before;
        if (f->epilogue == EPILOGUE_ADD) v->z[i] = before + v->b[i];
        if (f->epilogue != EPILOGUE_BIAS) continue;
        const double sum = before + v->b[i % v->nb];
        v->z[i] = fmax(sum, 0);
        dy[i] *= sum > 0;
    }
}

static FormValues draw_values(Arena *a, const Form *f, const FormSetting *s) {
    TestRandom r = {f->seed * 0x9E3779B97F4A7C15u + 1};
    const int most = s->precision ? 1 : 6; /* sums stay below 256, exact in bf16 */
    FormValues v = {.nx = elements(&f->operand[0]), .nk = elements(&f->operand[1]), .ny = results(f), .nb = addends(f)};
    v.x = drawn(a, &r, v.nx, most);
    v.k = f->same ? v.x : drawn(a, &r, v.nk, most);
    v.u = drawn(a, &r, v.ny, most);
    v.b = drawn(a, &r, v.nb, most);
    for (int64_t i = 0; i < v.nk && f->diagonal; i++)
        v.k[i] = i % f->operand[1].dim[1] == i / f->operand[1].dim[1] - 3 ? 2 : 1;
    v.z = ARENA_ARRAY(a, double, v.ny + 1);
    v.dx = ARENA_ARRAY(a, double, v.nx + 1);
    v.dk = ARENA_ARRAY(a, double, v.nk + 1);
    return v;
}

FormValues form_values(Arena *a, const Form *f, const FormSetting *s) {
    FormValues v = draw_values(a, f, s);
    double *x = read_as(a, v.x, v.nx, f->operand[0].relu), *k = read_as(a, v.k, v.nk, f->operand[1].relu);
    double *y = ARENA_ARRAY(a, double, v.ny + 1), *dy = ARENA_ARRAY(a, double, v.ny + 1);
    forward(f, x, k, y);
    finish(f, &v, y, dy);
    backward(f, x, k, dy, v.dx, v.dk);
    for (int64_t i = 0; i < v.nx && f->operand[0].relu; i++) v.dx[i] *= v.x[i] > 0;
    for (int64_t i = 0; i < v.nk && f->operand[1].relu; i++) v.dk[i] *= v.k[i] > 0;
    for (int64_t i = 0; i < v.nx && f->same; i++) v.dx[i] += v.dk[i];
    return v;
}

/* ---- smaller ------------------------------------------------------------------------------------------------------- */
static bool fewer(int *value, int least, int how) {
    const int was = *value, to[] = {least, (was + least) / 2, was - 1};
    *value = to[how];
    return *value < was && *value >= least;
}

/* An operand's dim that goes along one whole index shrinks with it. */
static bool smaller_extent(Form *f, int i, int how) {
    const int was = f->extent[i];
    if (!fewer(&f->extent[i], 1, how)) return false;
    for (int o = 0; o < FORM_OPERANDS; o++)
        for (int d = 0; d < f->operand[o].rank; d++) {
            const FormAffine *at = &f->operand[o].at[d];
            bool alone = at->coef[i] == 1 && at->add == 0 && at->over == 1 && f->operand[o].dim[d] == was;
            for (int j = 0; j < f->n; j++) alone = alone && (j == i || at->coef[j] == 0);
            if (alone && !f->same) f->operand[o].dim[d] = f->extent[i];
        }
    return true;
}

static bool smaller_dim(Form *f, int o, int d, int how) {
    if (d >= f->operand[o].rank || f->spelling == SPELT_AT || !fewer(&f->operand[o].dim[d], 1, how)) return false;
    if (f->same) f->operand[1 - o].dim[d] = f->operand[o].dim[d];
    return true;
}

static bool plainer(Form *f, int which) {
    switch (which) {
    case 0: return f->epilogue != EPILOGUE_NONE && (f->epilogue = EPILOGUE_NONE, true);
    case 1: return f->operand[0].relu && (f->operand[0].relu = false, true);
    case 2: return f->operand[1].relu && (f->operand[1].relu = false, true);
    default: return f->swapped && (f->swapped = false, true);
    }
}

bool form_smaller(const Form *f, int *step, Form *out) {
    enum { HOWS = 3, EXTENTS = FORM_INDICES * HOWS, DIMS = FORM_OPERANDS * FORM_RANK * HOWS, ALL = 4 + EXTENTS + DIMS };
    for (; *step < ALL; ++*step) {
        const int s = *step;
        bool ok;
        *out = *f;
        if (s < 4)
            ok = plainer(out, s);
        else if (s < 4 + EXTENTS)
            ok = (s - 4) / HOWS < f->n && smaller_extent(out, (s - 4) / HOWS, (s - 4) % HOWS);
        else
            ok = smaller_dim(out, (s - 4 - EXTENTS) / HOWS / FORM_RANK, (s - 4 - EXTENTS) / HOWS % FORM_RANK,
                             (s - 4 - EXTENTS) % HOWS);
        if (ok && ++*step) return true;
    }
    return false;
}
