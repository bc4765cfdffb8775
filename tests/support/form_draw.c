/* The families of forms, with extents around the boundaries of vectors, blocks and tiles. */
#include "tests/support/form.h"
#include <string.h>

static int edge(TestRandom *r, int most) {
    static const int edges[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13, 15, 16,  17,  18,  23,  24,  25,  27,  28,
                                29, 31, 32, 33, 36, 47, 48, 49, 63, 64, 65, 95, 96, 97,  127, 128, 129, 191, 192, 193,
                                255, 256, 257, 383, 384, 385, 511, 512, 513, 767, 768, 769, 1023, 1024, 1025};
    static const int usual[] = {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512, 1024};
    const int n = (int)(sizeof edges / sizeof *edges), n_usual = (int)(sizeof usual / sizeof *usual);
    if (most < 1) most = 1;
    const int way = test_below(r, 6);
    if (way == 0) return 1 + test_below(r, most);
    for (;;) {
        const int e = way < 3 ? usual[test_below(r, n_usual)] : edges[test_below(r, n)];
        if (e <= most) return e;
    }
}

/* Channels: often a few, or some that fill a vector together with their neighbours. */
static int channels(TestRandom *r, int most) {
    static const int few[] = {1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 8, 8, 8, 12, 16, 32};
    return test_below(r, 3) ? few[test_below(r, 16)] : edge(r, most);
}

/* A new index; the result's come first. */
static int add_index(Form *f, int extent) {
    f->extent[f->n] = extent;
    return f->n++;
}

static FormAffine *add_dim(FormOperand *o, int dim) {
    FormAffine *at = &o->at[o->rank];
    *at = (FormAffine){.over = 1};
    o->dim[o->rank++] = dim;
    return at;
}

/* A dim that goes along index i. */
static void add_along(Form *f, int operand, int i) { add_dim(&f->operand[operand], f->extent[i])->coef[i] = 1; }

/* The rest of the indices are summed. */
static void results_end(Form *f) { f->n_out = f->n; }

/* ---- products --------------------------------------------------------------------------------------------------- */
static Form product(TestRandom *r, int m, int n, int k) {
    Form f = {.family = "product"};
    const bool columns_first = test_below(r, 5) == 0, turn_x = test_below(r, 2), turn_k = test_below(r, 2);
    const int first = add_index(&f, columns_first ? n : m), second = add_index(&f, columns_first ? m : n);
    const int row = columns_first ? second : first, column = columns_first ? first : second;
    results_end(&f);
    const int sum = add_index(&f, k);
    add_along(&f, 0, turn_x ? sum : row);
    add_along(&f, 0, turn_x ? row : sum);
    add_along(&f, 1, turn_k ? column : sum);
    add_along(&f, 1, turn_k ? sum : column);
    if (!columns_first && test_below(r, 2)) f.spelling = SPELT_AT;
    return f;
}

static Form draw_product(TestRandom *r) { return product(r, edge(r, 200), edge(r, 300), edge(r, 400)); }

static Form draw_thin(TestRandom *r) {
    Form f = test_below(r, 2) ? product(r, 1 + test_below(r, 9), edge(r, 700), edge(r, 700))
                              : product(r, edge(r, 700), 1 + test_below(r, 9), edge(r, 700));
    f.family = "thin product";
    return f;
}

static Form draw_diagonal(TestRandom *r) {
    Form f = {.family = "factor of iota"};
    const int row = add_index(&f, edge(r, 40)), column = add_index(&f, edge(r, 100));
    results_end(&f);
    const int sum = add_index(&f, edge(r, 100));
    add_along(&f, 0, row);
    add_along(&f, 0, sum);
    add_along(&f, 1, sum);
    add_along(&f, 1, column);
    f.diagonal = true;
    f.spelling = test_below(r, 2) ? SPELT_AT : SPELT_INDEXED;
    return f;
}

/* The batch is outside or inside, in one factor or both. */
static Form draw_batch(TestRandom *r) {
    Form f = {.family = "batched product"};
    const bool inside = test_below(r, 2), shared = test_below(r, 4) == 0, rows_first = test_below(r, 3) == 0;
    const int size = 1 + test_below(r, 9);
    int batch = 0, row = 0;
    if (rows_first) row = add_index(&f, edge(r, 100));
    batch = add_index(&f, size);
    if (!rows_first) row = add_index(&f, edge(r, 100));
    const int column = add_index(&f, edge(r, 100));
    results_end(&f);
    const int sum = add_index(&f, edge(r, 100));
    for (int o = 0; o < FORM_OPERANDS; o++) {
        const bool turned = test_below(r, 2), has_batch = !o || !shared;
        const int outer = o ? (turned ? column : sum) : turned ? sum : row;
        const int inner = o ? (turned ? sum : column) : turned ? row : sum;
        if (has_batch && !inside) add_along(&f, o, batch);
        add_along(&f, o, outer);
        if (has_batch && inside) add_along(&f, o, batch);
        add_along(&f, o, inner);
    }
    if (!inside && !shared && !rows_first && test_below(r, 2)) f.spelling = SPELT_AT;
    return f;
}

/* Inner products by row, a matrix and a vector, outer products. */
static Form draw_rows(TestRandom *r) {
    Form f = {.family = "rows"};
    const int kind = test_below(r, 3), row = add_index(&f, edge(r, 300));
    const int other = kind == 2 ? add_index(&f, edge(r, 300)) : -1;
    results_end(&f);
    const int sum = kind == 2 ? -1 : add_index(&f, edge(r, 700));
    add_along(&f, 0, row);
    if (kind != 2) add_along(&f, 0, sum);
    if (kind == 0) add_along(&f, 1, row);
    add_along(&f, 1, kind == 2 ? other : sum);
    return f;
}

/* x with itself: its columns, or turned. */
static Form draw_self(TestRandom *r) {
    Form f = {.family = "product of one tensor with itself", .same = true};
    const int n = edge(r, 65), row = add_index(&f, n), column = add_index(&f, n);
    results_end(&f);
    const int sum = add_index(&f, test_below(r, 2) ? n : edge(r, 100));
    const bool square = f.extent[sum] == n, turned = test_below(r, 2);
    add_along(&f, 0, turned ? sum : row);
    add_along(&f, 0, turned ? row : sum);
    const bool also = square ? test_below(r, 2) : turned;
    add_along(&f, 1, also ? sum : column);
    add_along(&f, 1, also ? column : sum);
    if (test_below(r, 2)) f.spelling = SPELT_AT;
    return f;
}

/* ---- windows ------------------------------------------------------------------------------------------------------ */
typedef struct Window {
    int taps, stride, dilation, padding, places, image; /* image elements; places: how many results */
} Window;

/* As models have them: whole steps, the border as wide as the window needs. */
static Window usual_window(TestRandom *r, int most) {
    static const int of[][3] = {{1, 1, 0}, {3, 1, 1}, {3, 1, 1}, {5, 1, 2}, {3, 2, 1}, {3, 2, 1}, {2, 2, 0}, {4, 2, 1},
                                {4, 2, 1}, {6, 2, 2}, {1, 2, 0}, {3, 3, 0}, {6, 3, 2}, {4, 4, 0}, {7, 2, 3}, {5, 2, 2}};
    const int *u = of[test_below(r, 16)];
    Window w = {.taps = u[0], .stride = u[1], .dilation = 1, .padding = u[2], .places = edge(r, most)};
    w.places += w.stride - 1 - (w.places + w.stride - 1) % w.stride;
    w.image = w.places * w.stride;
    return w;
}

static Window draw_window(TestRandom *r, int most) {
    if (test_below(r, 2)) return usual_window(r, most);
    static const int strides[] = {1, 1, 1, 2, 2, 3, 4};
    Window w = {.taps = 1 + test_below(r, 5), .stride = strides[test_below(r, 7)], .dilation = 1 + test_below(r, 3)};
    if (test_below(r, 2)) w.dilation = 1;
    w.padding = test_below(r, w.taps + 1);
    w.places = edge(r, most);
    const int fits = (w.places - 1) * w.stride + (w.taps - 1) * w.dilation + 1 - 2 * w.padding;
    w.image = fits + test_below(r, 3) - 1;
    if (w.image < 1) w.image = 1;
    return w;
}

/* x[place * stride + tap * dilation - padding] */
static void add_sliding(Form *f, int operand, const Window *w, int place, int tap) {
    FormAffine *at = add_dim(&f->operand[operand], w->image);
    at->coef[place] = w->stride;
    at->coef[tap] = w->dilation;
    at->add = -w->padding;
}

/* A transposed convolution reads x[(place + padding - tap * dilation) / stride]. */
static void add_spread(Form *f, int operand, const Window *w, int place, int tap) {
    const int image = (w->places + 2 * w->padding - (w->taps - 1) * w->dilation - 1) / w->stride + 1;
    FormAffine *at = add_dim(&f->operand[operand], image > 0 ? image : 1);
    at->coef[place] = 1;
    at->coef[tap] = -w->dilation;
    at->add = w->padding;
    at->over = w->stride;
}

enum { MOST_SLIDING = 3 };
typedef struct Convolution {
    int n, place[MOST_SLIDING], tap[MOST_SLIDING];
    Window window[MOST_SLIDING];
} Convolution;

static Convolution draw_convolution(TestRandom *r, int n) {
    static const int most[] = {200, 40, 12};
    Convolution c = {.n = n};
    for (int d = 0; d < n; d++) c.window[d] = draw_window(r, most[n - 1]);
    for (int d = 1; d < n && test_below(r, 3); d++) { /* mostly the same along every dim, but for the size */
        const Window w = c.window[d];
        c.window[d] = c.window[0];
        c.window[d].places = w.places;
        c.window[d].image = c.window[0].image + (w.places - c.window[0].places) * c.window[0].stride;
        if (c.window[d].image < 1) c.window[d].image = 1;
    }
    return c;
}

static void add_places(Form *f, Convolution *c) {
    for (int d = 0; d < c->n; d++) c->place[d] = add_index(f, c->window[d].places);
}
static void add_taps(Form *f, Convolution *c) {
    for (int d = 0; d < c->n; d++) c->tap[d] = add_index(f, c->window[d].taps);
}
static void add_image(Form *f, const Convolution *c, bool transposed) {
    for (int d = 0; d < c->n; d++)
        (transposed ? add_spread : add_sliding)(f, 0, &c->window[d], c->place[d], c->tap[d]);
}

/* [n, places.., f] = sum[taps.., c] x[n, .., c] * k[taps.., c, f]; or with channels first. */
static Form draw_conv(TestRandom *r) {
    Form f = {.family = "convolution"};
    const int sliding = 1 + (test_below(r, 3) > 0) + (test_below(r, 8) == 0);
    const bool transposed = test_below(r, 3) == 0, channels_first = test_below(r, 6) == 0;
    Convolution c = draw_convolution(r, sliding);
    if (transposed) f.family = "transposed convolution";
    const int image = add_index(&f, 1 + test_below(r, 3));
    int out = 0;
    if (channels_first) out = add_index(&f, channels(r, 40));
    add_places(&f, &c);
    if (!channels_first) out = add_index(&f, channels(r, 70));
    results_end(&f);
    add_taps(&f, &c);
    const int in = add_index(&f, channels(r, 70));
    add_along(&f, 0, image);
    if (channels_first) add_along(&f, 0, in);
    add_image(&f, &c, transposed);
    if (!channels_first) add_along(&f, 0, in);
    if (channels_first) add_along(&f, 1, out), add_along(&f, 1, in);
    for (int d = 0; d < c.n; d++) add_along(&f, 1, c.tap[d]);
    if (!channels_first) add_along(&f, 1, in), add_along(&f, 1, out);
    return f;
}

static Form draw_depthwise(TestRandom *r) {
    Form f = {.family = "depthwise convolution"};
    const int sliding = 1 + (test_below(r, 4) > 0);
    const bool transposed = test_below(r, 6) == 0;
    Convolution c = draw_convolution(r, sliding);
    const int image = add_index(&f, 1 + test_below(r, 3));
    add_places(&f, &c);
    const int channel = add_index(&f, channels(r, 300));
    results_end(&f);
    add_taps(&f, &c);
    add_along(&f, 0, image);
    add_image(&f, &c, transposed);
    add_along(&f, 0, channel);
    for (int d = 0; d < c.n; d++) add_along(&f, 1, c.tap[d]);
    add_along(&f, 1, channel);
    return f;
}

static Form draw_groups(TestRandom *r) {
    Form f = {.family = "convolution in groups"};
    const int sliding = 1 + (test_below(r, 4) > 0);
    Convolution c = draw_convolution(r, sliding);
    const int image = add_index(&f, 1 + test_below(r, 2));
    add_places(&f, &c);
    const int group = add_index(&f, edge(r, 33)), out = add_index(&f, channels(r, 17));
    results_end(&f);
    add_taps(&f, &c);
    const int in = add_index(&f, channels(r, 17));
    add_along(&f, 0, image);
    add_image(&f, &c, false);
    add_along(&f, 0, group);
    add_along(&f, 0, in);
    for (int d = 0; d < c.n; d++) add_along(&f, 1, c.tap[d]);
    const bool group_first = test_below(r, 2);
    add_along(&f, 1, group_first ? group : in);
    add_along(&f, 1, group_first ? in : group);
    add_along(&f, 1, out);
    return f;
}

/* A kernel's gradient as a program writes it: the places are summed. */
static Form draw_correlation(TestRandom *r) {
    Form f = {.family = "sum over places"};
    const int sliding = 1 + (test_below(r, 3) > 0);
    const bool depthwise = test_below(r, 3) == 0;
    Convolution c = draw_convolution(r, sliding);
    add_taps(&f, &c);
    const int in = add_index(&f, channels(r, 70)), out = depthwise ? in : add_index(&f, channels(r, 70));
    results_end(&f);
    const int image = add_index(&f, 1 + test_below(r, 3));
    add_places(&f, &c);
    add_along(&f, 0, image);
    add_image(&f, &c, false);
    add_along(&f, 0, in);
    add_along(&f, 1, image);
    for (int d = 0; d < c.n; d++) add_along(&f, 1, c.place[d]);
    add_along(&f, 1, out);
    return f;
}

/* ---- any subscripts ------------------------------------------------------------------------------------------------ */
static FormAffine draw_affine(TestRandom *r, const Form *f) {
    FormAffine x = {.over = test_below(r, 4) ? 1 : 1 + test_below(r, 3)};
    const int terms = 1 + test_below(r, 2);
    for (int t = 0; t < terms; t++) {
        const int c = test_below(r, 2) ? 1 : test_below(r, 7) - 3;
        x.coef[test_below(r, f->n)] = c;
    }
    x.add = test_below(r, 3) ? 0 : test_below(r, 9) - 4;
    return x;
}

static int spread_of(const Form *f, const FormAffine *x) {
    int top = x->add;
    for (int i = 0; i < f->n; i++)
        if (x->coef[i] > 0) top += x->coef[i] * (f->extent[i] - 1);
    return top < 0 ? 1 : top / x->over + 1;
}

static bool has_index(const FormAffine *x, int n) {
    for (int i = 0; i < n; i++)
        if (x->coef[i]) return true;
    return false;
}

static void add_any(TestRandom *r, Form *f, int operand) {
    const FormAffine x = draw_affine(r, f);
    if (!has_index(&x, f->n)) return; /* a constant outside its tensor is an error */
    const int spread = spread_of(f, &x), less = test_below(r, 3) ? 0 : test_below(r, 4);
    *add_dim(&f->operand[operand], spread > less ? spread - less : 1) = x;
}

static bool reads_index(const Form *f, int i) {
    for (int o = 0; o < FORM_OPERANDS; o++)
        for (int d = 0; d < f->operand[o].rank; d++)
            if (f->operand[o].at[d].coef[i]) return true;
    return false;
}

static Form draw_strided(TestRandom *r) {
    Form f = {.family = "strided reads"};
    const int out = 1 + test_below(r, 3), summed = test_below(r, 4);
    for (int i = 0; i < out; i++) add_index(&f, edge(r, 40));
    results_end(&f);
    for (int i = 0; i < summed; i++) add_index(&f, edge(r, 20));
    for (int o = 0; o < FORM_OPERANDS; o++)
        for (int d = 0, n = 1 + test_below(r, 3); d < n; d++) add_any(r, &f, o);
    for (int i = 0; i < f.n; i++)
        if (!reads_index(&f, i)) add_along(&f, i % FORM_OPERANDS, i);
    for (int o = 0; o < FORM_OPERANDS; o++)
        if (!f.operand[o].rank) add_along(&f, o, 0);
    return f;
}

/* ---- all of them ----------------------------------------------------------------------------------------------------- */
static Form draw_family(TestRandom *r) {
    typedef Form Draw(TestRandom *);
    static Draw *const draw[] = {draw_product, draw_product,   draw_thin,   draw_diagonal, draw_batch,  draw_batch,
                                 draw_rows,    draw_self,      draw_conv,   draw_conv,     draw_conv,   draw_conv, draw_depthwise,
                                 draw_depthwise, draw_groups,  draw_groups, draw_correlation, draw_strided, draw_strided};
    return draw[test_below(r, (int)(sizeof draw / sizeof *draw))](r);
}

Form form_draw(TestRandom *r, int64_t points, const char *family) {
    Form f = draw_family(r);
    while (form_points(&f) > points || !strstr(f.family, family)) f = draw_family(r);
    f.seed = test_random(r) >> 40;
    f.swapped = f.spelling == SPELT_INDEXED && test_below(r, 3) == 0;
    f.epilogue = test_below(r, 2) ? EPILOGUE_NONE : (FormEpilogue)test_below(r, EPILOGUES);
    for (int o = 0; o < FORM_OPERANDS; o++) f.operand[o].relu = !(o && f.diagonal) && test_below(r, 6) == 0;
    return f;
}
