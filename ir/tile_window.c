/* Pixels under a sliding window as the copy engine fetches them; see tile_tensor_map.h.
 *
 * A subscript of an image's dimension is step * pixel + tap: the pixel's number in that dimension is a digit of the index of
 * one axis, the tap depends on others.  The least tap is where the window's places begin, what a tap has beyond it is the
 * offset that the instruction takes.  Sources: PTX ISA, "Tensors", im2col mode; CUDA Driver API, cuTensorMapEncodeIm2col. */
#include "ir/tile_stage.h"
#include "ir/tile_flat.h"
#include "ir/tile_tensor_map.h"

enum { MAX_STEP = 8, MAX_PIXELS = 1024, LEAST_RANK = 3 };

typedef struct WindowView {
    Kernel *k;
    const Inst *load;
    const Buffer *b;
    int minor, pixel, panel; /* axes; elements */
    int64_t inner;           /* pixels of the dimensions inside the one at hand */
} WindowView;

static bool mentions(const Kernel *k, const Index *x, int axis) {
    TileType t = {0};
    bool found = false;
    index_axes(k, x, &t);
    for (int d = 0; d < t.n_axes; d++) found |= t.axis[d] == axis;
    return found;
}

/* ---- one subscript ------------------------------------------------------------------------------------------ */
/* step * digit + rest, the digit being (pixel axis / inner) mod count. */
typedef struct Subscript {
    int64_t step, count;
    bool last; /* no mod: the digit goes on */
    const Index *digit, *rest;
} Subscript;

static bool is_axis(const Index *x, int axis) {
    return x->c == 0 && x->n == 1 && x->term[0].coef == 1 && x->term[0].atom.kind == ATOM_AXIS && x->term[0].atom.id == axis;
}

/* axis / inner */
static bool is_quotient(const Index *x, int axis, int64_t inner) {
    int64_t by;
    if (inner == 1) return is_axis(x, axis);
    if (x->c || x->n != 1 || x->term[0].coef != 1 || x->term[0].atom.kind != ATOM_DIV) return false;
    return is_axis(x->term[0].atom.num, axis) && index_is_const(x->term[0].atom.den, &by) && by == inner;
}

static bool read_digit(const WindowView *v, const Term *t, Subscript *s) {
    const Index *alone = index_make(v->k->arena, 0, 1, &(Term){1, t->atom});
    if (s->digit) return false;
    s->step = t->coef;
    s->digit = alone;
    if (t->atom.kind == ATOM_MOD)
        return is_quotient(t->atom.num, v->pixel, v->inner) && index_is_const(t->atom.den, &s->count);
    s->last = true;
    s->count = v->k->axes.at[v->pixel].extent.bound / v->inner;
    return is_quotient(alone, v->pixel, v->inner);
}

static bool read_subscript(const WindowView *v, const Index *x, Subscript *s) {
    const Index *none = index_const(v->k->arena, 0);
    *s = (Subscript){.step = 1, .count = 1, .rest = index_const(v->k->arena, x->c)};
    for (int i = 0; i < x->n; i++) {
        const Index *alone = index_make(v->k->arena, 0, 1, &x->term[i]);
        if (!mentions(v->k, alone, v->pixel))
            s->rest = index_add(v->k, s->rest, alone);
        else if (!read_digit(v, &x->term[i], s))
            return false;
    }
    if (!s->digit) s->digit = none;
    return true;
}

/* ---- dimensions ------------------------------------------------------------------------------------------------ */
/* The same for all of a panel: nothing else of the tile moves it. */
static bool is_tap(const WindowView *v, const Index *x) {
    int64_t slope;
    for (int a = 0; a < v->k->axes.n; a++)
        if (a != v->minor && v->k->axes.at[a].step > 1 && mentions(v->k, x, a)) return false;
    return index_run(v->k, x, v->minor, v->panel, &slope) && slope == 0;
}

/* How far corners may lie from the image, and how far taps reach: by the number of dimensions. */
static bool corners_fit(const MapWindow *w, int64_t taps, int rank) {
    static const int corner[] = {[3] = 1 << 15, [4] = 1 << 7, [5] = 1 << 4}, reach[] = {[3] = 1 << 16, [4] = 1 << 8, [5] = 1 << 5};
    return w->lower >= -corner[rank] && w->lower < corner[rank] && w->upper >= -corner[rank] && w->upper < corner[rank] &&
           taps < reach[rank];
}

static const char *add_window(WindowView *v, int d, TensorMap *m) {
    const Dim extent = v->b->dim[d];
    const Index *x = v->load->index[d];
    int64_t lo, hi;
    Subscript s;
    if (!read_subscript(v, x, &s)) return "its subscripts are not those of a sliding window";
    if (s.last && !dim_is_fixed(v->k->axes.at[v->pixel].extent)) return "its image has no fixed size";
    if (!dim_is_fixed(extent) || s.count < 1 || s.step < 1 || s.step > MAX_STEP) return "its window takes no such steps";
    if (!is_tap(v, s.rest) || !index_range(v->k, s.rest, &lo, &hi)) return "its taps are not those of one panel";
    MapWindow *w = &m->window[m->windows++];
    *w = (MapWindow){.lower = (int)lo, .step = (int)s.step, .tap = index_add(v->k, s.rest, index_const(v->k->arena, -lo))};
    const int64_t upper = lo + s.step * (s.count - 1) + 1 - extent.bound;
    w->upper = (int)upper;
    if (lo != w->lower || upper != w->upper || !corners_fit(w, hi - lo, v->b->rank)) return "its window reaches too far";
    m->at[m->windows] = index_add(v->k, index_scale(v->k, s.digit, s.step), index_const(v->k->arena, lo));
    m->dim[m->windows] = (MapDim){v->pixel, 1, 0, extent, v->b->stride[d] * dtype_bytes(v->b->dtype)};
    v->inner *= s.count;
    return NULL;
}

static bool is_times(Dim x, Dim y, int64_t by) {
    if (x.bound != y.bound * by || dim_is_fixed(x) != dim_is_fixed(y)) return false;
    return dim_is_fixed(x) || (x.sym == y.sym && x.scale == y.scale * by && x.offset == y.offset * by);
}

/* Images follow one another; where pixels are summed those past the last have to be 0, as past the last image they are. */
static const char *add_images(WindowView *v, TensorMap *m) {
    const Axis *pixels = &v->k->axes.at[v->pixel];
    const int last = v->b->rank - 1;
    int64_t first = -1;
    Subscript s;
    if (!read_subscript(v, v->load->index[0], &s) || s.step != 1 || !is_tap(v, s.rest)) return "its images are not in a row";
    if (!s.last && (!dim_is_fixed(pixels->extent) || pixels->extent.bound != v->inner * s.count)) return "its images are no axis";
    const bool ends = index_is_const(s.rest, &first) && first == 0 && is_times(pixels->extent, v->b->dim[0], v->inner);
    const bool whole = dim_is_fixed(pixels->extent) && pixels->extent.bound % pixels->step == 0;
    if (pixels->kind != AXIS_GRID && !ends && !whole) return "pixels past the last are not 0";
    m->at[last] = v->load->index[0];
    m->dim[last] = (MapDim){v->pixel, 1, 0, v->b->dim[0], v->b->stride[0] * dtype_bytes(v->b->dtype)};
    return NULL;
}

static const char *add_channels(const WindowView *v, TensorMap *m) {
    const int last = v->b->rank - 1;
    const Index *x = v->load->index[last];
    int64_t slope;
    if (v->b->stride[last] != 1 || !index_run(v->k, x, v->minor, v->panel, &slope) || slope != 1)
        return "its channels do not lie together";
    for (int a = 0; a < v->k->axes.n; a++)
        if (a != v->minor && v->k->axes.at[a].step > 1 && mentions(v->k, x, a)) return "its channels depend on its pixels";
    if (!dim_is_fixed(v->b->dim[last])) return "its channels have no fixed number";
    m->at[0] = x;
    m->dim[0] = (MapDim){v->minor, 1, 0, v->b->dim[last], dtype_bytes(v->b->dtype)};
    return NULL;
}

/* ---- the mask ---------------------------------------------------------------------------------------------------- */
static bool is_number(const WindowView *v, int value, Dim d) {
    const Inst *i = block_definition(&v->k->body, value);
    if (i && i->kind == TI_CONST) return dim_is_fixed(d) && i->value == (double)d.bound;
    return i && i->kind == TI_INDEX && index_equal(i->index[0], index_extent(v->k, d));
}

/* Only that subscripts lie in their extents: what the copy engine looks at itself. */
static bool asks_for_range(const WindowView *v, int value) {
    const Inst *i = block_definition(&v->k->body, value);
    if (!i || i->kind != TI_ELEMENT) return false;
    if (i->op == OP_AND) return asks_for_range(v, i->in[0]) && asks_for_range(v, i->in[1]);
    const Inst *left = block_definition(&v->k->body, i->in[0]);
    bool found = false;
    for (int d = 0; d < v->load->n_index && left && left->kind == TI_INDEX; d++) {
        if (!index_equal(left->index[0], v->load->index[d])) continue;
        found |= i->op == OP_LT ? is_number(v, i->in[1], v->b->dim[d]) : i->op == OP_GE && is_number(v, i->in[1], dim_fixed(0));
    }
    return found;
}

/* ---- images whose pixels are rows ------------------------------------------------------------------------------------- */
/* x < extent, as the mask says: a subscript of the image that the rows are. */
typedef struct Range {
    const Index *x;
    int64_t extent;
} Range;
typedef struct Ranges {
    int n;
    Range at[FUSEC_MAP_RANK];
} Ranges;

static void collect_ranges(const WindowView *v, int value, Ranges *r) {
    const Inst *i = block_definition(&v->k->body, value);
    if (!i || i->kind != TI_ELEMENT || i->n_in != 2) return;
    const Inst *left = block_definition(&v->k->body, i->in[0]), *right = block_definition(&v->k->body, i->in[1]);
    int64_t extent;
    if (i->op == OP_AND) {
        collect_ranges(v, i->in[0], r);
        collect_ranges(v, i->in[1], r);
    } else if (i->op == OP_LT && left && left->kind == TI_INDEX && right && right->kind == TI_INDEX &&
               index_is_const(right->index[0], &extent) && extent > 0 && r->n < FUSEC_MAP_RANK - 2) {
        r->at[r->n++] = (Range){left->index[0], extent};
    }
}

static bool divided(Dim d, int64_t by, Dim *out) {
    *out = d;
    if (d.bound % by || (!dim_is_fixed(d) && (d.scale % by || d.offset % by))) return false;
    out->bound /= by;
    if (!dim_is_fixed(d)) out->scale /= by, out->offset /= by;
    return true;
}

/* Rows [pixel, channel] as [image, .., channel]: the mask has the subscripts between, and the row is what they make. */
static bool unfold(WindowView *v) {
    Ranges r = {0};
    if (v->b->rank != 2 || !v->load->n_in) return false;
    collect_ranges(v, v->load->in[0], &r);
    if (!r.n) return false;
    Inst *load = arena_dup(v->k->arena, v->load, sizeof *load);
    Buffer *b = arena_dup(v->k->arena, v->b, sizeof *b);
    const int last = r.n + 1;
    const Index **index = ARENA_ARRAY(v->k->arena, const Index *, last + 1), *row = v->load->index[0];
    int64_t pixels = 1, inner = 1;
    for (int d = r.n; d > 0; d--) {
        const WindowView at = {.k = v->k, .pixel = v->pixel, .inner = inner};
        Subscript s;
        if (!read_subscript(&at, r.at[d - 1].x, &s)) return false;
        index[d] = r.at[d - 1].x;
        row = index_add(v->k, row, index_scale(v->k, index[d], -pixels));
        b->dim[d] = dim_fixed(r.at[d - 1].extent);
        b->stride[d] = v->b->stride[0] * pixels;
        pixels *= r.at[d - 1].extent;
        inner *= s.count;
    }
    index[0] = index_div(v->k, index_axis(v->k, v->pixel), index_const(v->k->arena, inner));
    index[last] = v->load->index[1];
    b->dim[last] = v->b->dim[1];
    b->stride[last] = v->b->stride[1];
    b->stride[0] = v->b->stride[0] * pixels;
    b->rank = last + 1;
    load->index = index;
    load->n_index = last + 1;
    const bool same = index_is_nothing(index_add(v->k, row, index_scale(v->k, index[0], -pixels)));
    v->load = load;
    v->b = b;
    return same && divided(v->b->dim[0], pixels, &b->dim[0]);
}

/* ---- the map ------------------------------------------------------------------------------------------------------- */
static int pixel_axis(const Kernel *k, const Inst *stage) {
    int found = -1;
    for (int d = 0; d < stage->type.n_axes; d++) {
        const int x = stage->type.axis[d];
        if (x == stage->minor - 1 || k->axes.at[x].step == 1) continue;
        if (found >= 0) return -1;
        found = x;
    }
    return found;
}

static const char *check_strides(const TensorMap *m) {
    for (int d = 1; d < m->rank; d++)
        if (m->dim[d].stride <= 0 || m->dim[d].stride % MAP_ALIGN) return "rows do not lie at multiples of 16 bytes";
    return NULL;
}

const char *kernel_window_map(const Kernel *k, const Inst *stage, const Inst *load, TensorMap *out) {
    WindowView v = {(Kernel *)k, load, &k->buffers.at[load->buffer], stage->minor - 1, pixel_axis(k, stage), 0, 1};
    const bool tile = load->kind == TI_LOAD && v.pixel >= 0 && stage->swizzle;
    if (!tile || ((v.b->rank < LEAST_RANK || v.b->rank > FUSEC_MAP_RANK) && !unfold(&v))) return "it is no image under a window";
    const int row = k->axes.at[v.minor].step, pixels = k->axes.at[v.pixel].step;
    v.panel = stage->swizzle / dtype_bytes(v.b->dtype);
    if (stage->multicast || pixels > MAX_PIXELS || v.panel > MAP_MAX_BOX || row % v.panel) return "its tile is no column of pixels";
    if (load->n_in && (load->value != 0 || !asks_for_range(&v, v.load->in[0]))) return "it is masked";
    out->rank = v.b->rank;
    out->panels = row / v.panel;
    out->split = 1;
    out->box[0] = v.panel;
    out->box[1] = pixels;
    const char *why = add_channels(&v, out);
    for (int d = v.b->rank - 2; d > 0 && !why; d--) why = add_window(&v, d, out);
    if (!why) why = add_images(&v, out);
    return why ? why : check_strides(out);
}
