/* Two ways to a full Jacobian: all rows at once (reverse, a seed per element of y) or all columns at once (forward, a
 * seed per element of x).  Both are emitted, the one that computes less stays.
 *
 * The product u -> u dy/dx is a reverse sweep from a seed that stands for any u.  It is linear in the seed, so that a
 * second sweep, through the first one to its seed, is the product v -> dy/dx v: forward mode without a second table of
 * rules.  batch_axes() runs either for all seeds of the identity. */
#include "passes/full_jacobian.h"
#include "passes/batch_axis.h"
#include "passes/reverse_sweep.h"

typedef struct Request {
    PassContext *context;
    Graph *g;
    Arena *scratch;
    Phase phase;
    SrcLoc loc;
    int batch; /* axis of y and x, or -1 */
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
    for (int d = 0; d < n->shape.rank; d++)
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
    int n = 0, seeds = (rows ? r->y : r->x)->shape.rank - (r->batch >= 0), rank = w->result->shape.rank;
    if (r->batch >= 0) perm[n++] = (int8_t)(seeds + r->batch);
    for (int d = 0; rows && d < seeds; d++) perm[n++] = (int8_t)d;
    for (int d = seeds; d < rank; d++)
        if (r->batch < 0 || d != seeds + r->batch) perm[n++] = (int8_t)d;
    for (int d = 0; !rows && d < seeds; d++) perm[n++] = (int8_t)d;
    for (int d = 0; d < rank; d++)
        if (perm[d] != d) return placed(r, graph_transpose(r->g, w->result, perm));
    return w->result;
}

static void report_limit(const Request *r) {
    PassContext *c = r->context;
    c->failed = true;
    if (c->report)
        c->report(c->user, true, r->loc,
                  "this Jacobian passes a limit: tensors on the way would have more than 10 axes, or a sum more than "
                  "16 indices",
                  "bring y or x to fewer axes first, for instance flatten(y), or name the batch axis by batch = ..");
}

Node *full_jacobian(PassContext *c, Graph *g, Arena *scratch, const Node *request, Node *y, Node *x) {
    const Request r = {.context = c,
                       .g = g,
                       .scratch = scratch,
                       .phase = request->phase,
                       .loc = request->loc,
                       .batch = request->attr->axis,
                       .y = y,
                       .x = x};
    Node *u = constant(&r, y->dtype, y->shape), *w = product(&r, y, x, u, false);
    if (!w) return constant(&r, request->dtype, request->shape);
    const Way rows = run(&r, u, w);
    /* Columns sum over x's batch, rows over y's: they are the same where entries are independent. */
    if (r.batch >= 0 && !batch_is_independent(g, x, y, r.batch)) {
        if (!rows.result) report_limit(&r);
        return rows.result ? arranged(&r, &rows, true) : constant(&r, request->dtype, request->shape);
    }
    Node *v = constant(&r, x->dtype, x->shape), *t = product(&r, w, u, v, true);
    const Way columns = t ? run(&r, v, t) : (Way){0};
    if (!rows.result && !columns.result) {
        report_limit(&r);
        return constant(&r, request->dtype, request->shape);
    }
    const bool by_rows = rows.result && (!columns.result || rows.cost <= columns.cost);
    return arranged(&r, by_rows ? &rows : &columns, by_rows);
}
