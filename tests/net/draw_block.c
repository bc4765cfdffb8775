// How `repeat` and layers are drawn: the header, a body of the statements that programs have everywhere, and what is left behind.
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include "tests/net/scan.h"

static int below(Gen *g, int n) { return random_below(&g->random, n); }
static bool room_for_block(const Gen *g) { return depth_of(g) < 3 && g->prog->count < MAX_VALUES - 50; }
enum { MOST_CARRIED = 100 };

// One of these, drawn as a statement.
static void draw_one_of(Gen *g, const char *const *names, int count) { draw_statement(g, op_named(names[below(g, count)])); }
static void draw_linear(Gen *g) {
    static const char *const layers[] = {"linear", "linear", "cache", "state", "batchnorm", "rmsnorm"};
    draw_one_of(g, layers, 6);
}

static void take_attr(Value *h, int attr) { h->attr[h->nattrs++] = attr; }
static int some_outer_loop(const Gen *g) {
    const Prog *p = g->prog;
    int loop = g->scope - 1;
    return loop >= 0 && is_repeat(&p->at[loop]) && least_index(&p->at[loop]) >= 0 ? loop : -1;
}
static int draw_loop_header(Gen *g) {
    static const int lows[] = {0, 0, 0, 1, 2, 5};
    Value h = {.op = op_named("repeat header")};
    int carries = below(g, 4) == 0 ? 0 : 1 + (below(g, 3) == 0), outer = below(g, 3) == 0 ? some_outer_loop(g) : -1;
    while (h.nargs < carries) {
        int a = pick(g, below(g, 8) ? D_F : D_I, 0, 3);
        if (a < 0 || shape_size(&g->prog->at[a].shape) > MOST_CARRIED || !take(&h, a)) return -1;
        take_attr(&h, -1);
    }
    take_attr(&h, 1);
    take_attr(&h, lows[below(g, 6)]);
    take_attr(&h, 1 + below(g, depth_of(g) ? 3 : 4));
    take_attr(&h, carries ? outer + 1 : 0);
    return push_value(g, h);
}
static void draw_loop_body(Gen *g, int header) {
    static const char *const with_index[] = {"by index", "index at", "slice at", "by index", "index at", "if index",
                                             "int by index"};
    static const char *const calls[] = {"sharing", "layer", "sharing", "repeat in", "vjp"};
    for (int n = below(g, 3); n > 0 && g->budget; n--) draw_one_of(g, with_index, 7);
    if (below(g, 3) == 0) draw_linear(g);
    if (below(g, 3) == 0 && g->budget) draw_one_of(g, calls, 5);
    if (g->budget) draw_body(g, header);
    if (below(g, 3) == 0 && g->budget) draw_one_of(g, with_index, 7);
}
// Where nothing is owned, nor called that may own, there may be no round at all.
static void settle_rounds(Gen *g, int header, bool emits) {
    Prog *p = g->prog;
    Value *h = &p->at[header];
    bool may = !emits && below(g, 8) == 0;
    for (int i = header + 1; i < p->count; i++)
        may &= !owns(p, i) && !(is_leaf(&p->at[i]) && p->at[i].scope) && !is_header(&p->at[i]) && !is_sharing(&p->at[i]);
    if (may && !block_attr(h, A_FOLLOWS)) h->attr[h->nargs + A_ROUNDS] = 0;
}
// What is made from a sequence; -1: nothing.
static int read_sequence(Gen *g, int id) {
    const Shape s = g->prog->at[id].shape;
    Value v = {.nargs = 1, .arg = {id}, .nattrs = 1};
    int form = below(g, 7);
    static const char *const names[] = {"reverse", "index", "sum", "cumsum", "transpose", "matmul", "softmax"};
    v.op = op_named(names[form]);
    if (form == 1)
        for (int d = 0; d < s.rank; d++) v.attr[3 * d + 1] = s.n[d], v.attr[3 * d + 2] = 1;
    if (form == 1) v.nattrs = 3 * s.rank, v.attr[0] = s.n[0] - 1, v.attr[2] = -1;
    if (form == 2) v.nattrs = 2, v.attr[0] = 1;
    if (form == 3) v.nattrs = 3, v.attr[1] = below(g, 2);
    if (form == 6) v.attr[0] = 1;
    if (form == 5 && !take(&v, fresh(g, D_F, flat_shape(2, s.n[s.rank - 1], 1 + below(g, 3))))) return -1;
    return push_value(g, v);
}
// Sequences are read, most of them.
void read_results(Gen *g, int from) {
    for (int i = from, n = g->prog->count; i < n; i++) {
        const Value *v = &g->prog->at[i];
        if (!is_scan_result(v) || v->type != D_F || v->scope != g->scope || v->shape.bounded) continue;
        bool emitted = v->attr[0] < emissions(g->prog, v->arg[0]) && is_repeat(&g->prog->at[g->prog->at[v->arg[0]].arg[0]]);
        if (emitted && below(g, 3)) read_sequence(g, i);
    }
}
bool propose_repeated(Gen *g, Value *v) {
    if (!room_for_block(g)) return false;
    int outer = g->scope, header = draw_loop_header(g), end = -1;
    if (header < 0) return false;
    const Value *h = &g->prog->at[header];
    int count = block_attr(h, A_FOLLOWS) ? 0 : !h->nargs ? 1 + below(g, 2) : below(g, 3);
    g->scope = header + 1;
    if (draw_names(g, header)) {
        draw_loop_body(g, header);
        settle_rounds(g, header, count > 0);
        end = draw_end(g, header, count);
    }
    g->scope = outer;
    return end >= 0 && draw_results(g, end, v);
}

static int draw_layer_header(Gen *g) {
    Value h = {.op = op_named("layer header")};
    int operands = 1 + (below(g, 2) == 0) + (below(g, 5) == 0);
    while (h.nargs < operands) {
        int k = below(g, 12), a = pick(g, k < 10 ? D_F : k == 10 ? D_I : D_B, h.nargs ? 0 : 1, 3);
        if (a < 0 || !take(&h, a)) return -1;
        take_attr(&h, 0);
    }
    take_attr(&h, 1);
    take_attr(&h, below(g, 4) > 0);
    return push_value(g, h);
}
static void draw_layer_body(Gen *g) {
    static const char *const blocks[] = {"repeat in", "repeat in", "layer", "sharing", "scan", "vjp", "jacobian"};
    if (below(g, 5)) draw_linear(g);
    if (below(g, 2) && g->budget) draw_one_of(g, blocks, 5);
    for (int n = 1 + below(g, 4); n > 0 && g->budget; n--) draw_statement(g, -1);
    if (below(g, 4) == 0 && g->budget) draw_one_of(g, blocks, 7);
}
bool propose_layered(Gen *g, Value *v) {
    if (!room_for_block(g)) return false;
    int outer = g->scope, header = draw_layer_header(g), end = -1;
    if (header < 0) return false;
    g->scope = header + 1;
    if (draw_names(g, header)) {
        draw_layer_body(g);
        if (g->budget) end = draw_end(g, header, 1 + (below(g, 3) == 0));
    }
    g->scope = outer;
    return end >= 0 && draw_results(g, end, v);
}
