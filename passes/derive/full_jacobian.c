/* Two ways to a full Jacobian: all rows at once (reverse, a seed per element of y) or all columns at once (forward, a
 * seed per element of x).  Both are emitted, the one that computes less stays.  If all of y comes through a value that
 * is smaller than x and y, the product of the Jacobians above and below it is the third.
 *
 * The product u -> u dy/dx is a reverse sweep from a seed that stands for any u.  It is linear in the seed, so that a
 * second sweep, through the first one to its seed, is the product v -> dy/dx v: forward mode without a second table of
 * rules.  batch_axes() runs either for all seeds of the identity. */
#include "passes/derive/full_jacobian.h"
#include "passes/derive/batch_axis.h"
#include "passes/derive/reverse_sweep.h"

typedef struct Request {
    PassContext *context;
    Graph *g;
    Arena *scratch;
    Phase phase;
    SrcLoc loc;
    int batch;  /* axis of y and x, or -1 */
    bool quiet; /* derivatives that are lost were reported already */
    Node *y, *x;
} Request;

static Node *placed(const Request *r, Node *n) {
    n->phase = r->phase;
    n->loc = r->loc;
    return n;
}

static Node *constant(const Request *r, DType t, Shape s) { return placed(r, graph_const(r->g, t, s, 0)); }

/* What x receives from a sweep that starts at y with `seed`; NULL: zero. */
static Node *product(const Request *r, Node *y, Node *x, Node *seed, bool quiet) {
    Sweep s = sweep_new(r->context, r->g, r->scratch, r->phase, y);
    s.quiet = quiet;
    sweep_by(&s, x);
    sweep_run(&s, seed);
    return sweep_adjoint(&s, x);
}

static int other_axes(const Node *n, int batch, int8_t *axes) {
    int count = 0;
    for (int d = 0; d < n->shape->rank; d++)
        if (d != batch) axes[count++] = (int8_t)d;
    return count;
}

typedef struct Way {
    Node *result; /* [seeds.., dims of `to`..]; NULL: passes a limit */
    double cost;
} Way;

static Way run(const Request *r, const Node *from, const Node *to) {
    int8_t axes[MAX_RANK];
    const int n = other_axes(from, r->batch, axes);
    Way w = {0};
    w.result = batch_axes(r->g, from, to, n, axes, &w.cost);
    return w;
}

/* [seeds.., dims of `to`] as [batch, y's others, x's others]; the seeds are y's (rows) or x's. */
static Node *arranged(const Request *r, const Way *w, bool rows) {
    int8_t perm[MAX_RANK];
    int n = 0, seeds = (rows ? r->y : r->x)->shape->rank - (r->batch >= 0), rank = w->result->shape->rank;
    if (r->batch >= 0) perm[n++] = (int8_t)(seeds + r->batch);
    for (int d = 0; rows && d < seeds; d++) perm[n++] = (int8_t)d;
    for (int d = seeds; d < rank; d++)
        if (r->batch < 0 || d != seeds + r->batch) perm[n++] = (int8_t)d;
    for (int d = 0; !rows && d < seeds; d++) perm[n++] = (int8_t)d;
    for (int d = 0; d < rank; d++)
        if (perm[d] != d) return placed(r, graph_transpose(r->g, w->result, perm));
    return w->result;
}

/* dy/dx directly, by the cheaper way; its shape is the request's.  Nothing is reported here. */
typedef struct DirectWay {
    Node *result; /* NULL: passes a limit */
    bool zero;    /* no path */
    double cost;
} DirectWay;

static DirectWay direct(const Request *r) {
    Node *u = constant(r, r->y->dtype, *r->y->shape), *w = product(r, r->y, r->x, u, r->quiet);
    if (!w) return (DirectWay){.zero = true};
    const Way rows = run(r, u, w);
    Way columns = {0};
    /* Columns sum over x's batch, rows over y's: they are the same where entries are independent. */
    if (r->batch < 0 || batch_is_independent(r->g, r->x, r->y, r->batch)) {
        Node *v = constant(r, r->x->dtype, *r->x->shape), *t = product(r, w, u, v, true);
        if (t) columns = run(r, v, t);
    }
    if (!rows.result && !columns.result) return (DirectWay){0};
    const bool by_rows = rows.result && (!columns.result || rows.cost <= columns.cost);
    const Way *chosen = by_rows ? &rows : &columns;
    return (DirectWay){.result = arranged(r, chosen, by_rows), .cost = chosen->cost};
}

/* ---- through a bottleneck -------------------------------------------------------------------- */
/* Elements of one entry of the batch. */
static double size_of(const Request *r, const Node *n) {
    double size = 1;
    for (int d = 0; d < n->shape->rank; d++)
        if (d != r->batch) size *= (double)n->shape->dim[d].bound;
    return size;
}

/* The smallest value that everything from x to y goes through, smaller than both; NULL: none. */
static Node *narrowest(const Request *r) {
    const int first = r->x->id, n = r->y->id - first + 1;
    int *last = ARENA_ARRAY(r->scratch, int, n), reach = 0; /* the last reader on a path to y; 0: is on none */
    bool *varies = ARENA_ARRAY(r->scratch, bool, n);
    double least = size_of(r, r->x) < size_of(r, r->y) ? size_of(r, r->x) : size_of(r, r->y);
    Node *found = NULL;
    varies[0] = true;
    last[n - 1] = n;
    for (int i = 1; i < n; i++) {
        const Node *at = r->g->nodes.at[first + i];
        for (int k = 0; k < at->n_in; k++)
            varies[i] |= at->in[k]->id >= first && varies[at->in[k]->id - first] && jacobian_exists(at, k);
    }
    for (int i = n - 1; i > 0; i--) {
        const Node *at = r->g->nodes.at[first + i];
        for (int k = 0; last[i] && varies[i] && k < at->n_in; k++) {
            const int in = at->in[k]->id - first;
            if (in >= 0 && varies[in] && jacobian_exists(at, k) && last[in] < i) last[in] = i;
        }
    }
    for (int i = 0; i < n - 1; i++) {
        Node *at = r->g->nodes.at[first + i];
        if (!varies[i] || !last[i]) continue;
        if (i > 0 && reach <= i && size_of(r, at) < least) found = at, least = size_of(r, at);
        if (last[i] > reach) reach = last[i];
    }
    return found;
}

/* dy/dh dh/dx as one contraction over h, or over h's axes but the batch. */
static Node *chained(const Request *r, Node *yh, Node *hx, const Node *h) {
    const int batch = r->batch >= 0, n_h = h->shape->rank - batch, n_y = yh->shape->rank - batch - n_h;
    const int n_x = hx->shape->rank - batch - n_h, n_out = batch + n_y + n_x;
    Affine map[2][MAX_RANK] = {0};
    Contract c = {.n_loops = n_out + n_h, .n_out = n_out, .n_operands = 2, .map = map};
    if (c.n_loops > MAX_LOOPS) return NULL;
    for (int d = 0; d < yh->shape->rank; d++) {
        const int loop = d < batch + n_y ? d : d + n_x; /* h's axes are the summed loops */
        map[0][d].divisor = map[0][d].coef[loop] = 1;
        c.extent[loop] = yh->shape->dim[d];
    }
    for (int d = 0; d < hx->shape->rank; d++) {
        const int loop = d < batch ? d : d < batch + n_h ? n_out + d - batch : d - n_h + n_y;
        map[1][d].divisor = map[1][d].coef[loop] = 1;
        c.extent[loop] = hx->shape->dim[d];
    }
    return placed(r, graph_contract(r->g, 2, (Node *[]){yh, hx}, &c));
}

/* A cheaper way than `whole` through the narrowest value: the product of two Jacobians, each by its own cheaper way. */
static Node *through_bottleneck(const Request *r, const DirectWay *whole) {
    Node *h = narrowest(r);
    if (!h || h->dtype != r->y->dtype) return NULL;
    if (r->batch >= 0) {
        if (r->batch >= h->shape->rank || !dim_equal(h->shape->dim[r->batch], r->x->shape->dim[r->batch])) return NULL;
        if (!batch_is_independent(r->g, r->x, h, r->batch) || !batch_is_independent(r->g, h, r->y, r->batch))
            return NULL;
    }
    const double entries = r->batch >= 0 ? (double)h->shape->dim[r->batch].bound : 1;
    Request upper = *r, lower = *r;
    upper.x = h, lower.y = h;
    upper.quiet = lower.quiet = true;
    const DirectWay yh = direct(&upper), hx = direct(&lower);
    const double joined = entries * size_of(r, r->y) * size_of(r, h) * size_of(r, r->x);
    if (!yh.result || !hx.result || yh.cost + hx.cost + joined >= whole->cost) return NULL;
    return chained(r, yh.result, hx.result, h);
}

static void report_limit(const Request *r) {
    PassContext *c = r->context;
    c->failed = true;
    if (c->report)
        c->report(c->user, COMPLAINT_ERROR, r->loc,
                  "this Jacobian passes a limit: tensors on the way would have more than 10 axes, or a sum more than "
                  "16 indices",
                  "bring y or x to fewer axes first, for instance flatten(y), or name the batch axis by batch = ..");
}

static Node *expanded(const Request *r) {
    const DirectWay whole = direct(r);
    if (!whole.result && !whole.zero) report_limit(r);
    if (!whole.result) return NULL;
    Node *shorter = through_bottleneck(r, &whole);
    return shorter ? shorter : whole.result;
}

Node *full_jacobian(PassContext *c, Graph *g, const Node *request, Phase phase, Node *y, Node *x) {
    const Request r = {.context = c,
                       .g = g,
                       .scratch = arena_new(),
                       .phase = phase,
                       .loc = request->loc,
                       .batch = request->attr->axis,
                       .y = y,
                       .x = x};
    Node *result = expanded(&r);
    arena_free(r.scratch);
    return result ? result : constant(&r, request->dtype, *request->shape);
}
