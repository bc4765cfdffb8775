// Draws programs: operands among what there is, each new value evaluated at once and kept only if its numbers can be compared.
#include "tests/net/scan.h"
#include "tests/net/tensor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int extents[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 0, 4, 6};

int some_extent(Gen *g) {
    static const int wide[] = {32, 33, 64, 65, 96, 127, 128, 130, 192, 200, 257, 64};
    int k = random_below(&g->random, 100);
    if (g->large && k < 60) return wide[random_below(&g->random, 12)];
    if (k == 0) return 0;
    if (k < 70) return extents[random_below(&g->random, 6)];
    return k < 90 ? extents[5 + random_below(&g->random, 5)] : extents[random_below(&g->random, 13)];
}
double some_number(Gen *g) {
    static const double list[] = {0.5, 2, -1, 0.1, -0.75, 1.5, 3, -0.3, 0.25, 1};
    return list[random_below(&g->random, 10)];
}

static bool fits(const Gen *g, int i, Type type, int low, int high) {
    const Value *v = &g->prog->at[i];
    return !v->inlined && v->type == type && v->shape.rank >= low && v->shape.rank <= high && visible(g->prog, g->scope, i);
}
static Shape some_shape(Gen *g, int low, int high) {
    Shape s = {.rank = low + random_below(&g->random, (high > 3 ? 3 : high) - low + 1)};
    if (low > 3) s.rank = low;
    for (int d = 0; d < s.rank; d++) s.n[d] = some_extent(g);
    while (shape_size(&s) > (g->large ? 9000 : 600))
        for (int d = 0; d < s.rank; d++) s.n[d] = s.n[d] > 2 ? (s.n[d] + 1) / 2 : s.n[d];
    return s;
}
// A bounded axis, in programs that have one.
static Shape maybe_bounded(Gen *g, Shape s) {
    if (!g->prog->bound || s.rank < 1 || !random_chance(&g->random, 60)) return s;
    int d = random_chance(&g->random, 60) ? 0 : random_below(&g->random, s.rank);
    s.n[d] = some_bounded_extent(g);
    s.bounded = 1u << d;
    return s;
}
static int constant_bool(Gen *g, Shape s) { // a comparison of something new
    int a = fresh(g, D_F, s), zero = number(g, 0.1);
    if (a < 0) return -1;
    return push_value(g, (Value){.op = op_named("gt"), .nargs = 2, .arg = {a, zero}, .inlined = true});
}

static int worth(const Gen *g, int i, bool local, bool computed) {
    const Value *v = &g->prog->at[i];
    return 2 * (local && v->scope == g->scope) + (computed && v->nargs);
}
int pick(Gen *g, Type type, int low, int high) {
    int found = -1, seen = 0;
    bool latest = random_chance(&g->random, 40), computed = random_chance(&g->random, 60); // long chains are wanted too
    bool local = g->scope && random_chance(&g->random, 70); // what a body computes is made from what is in it
    for (int i = 0; i < g->prog->count; i++) {
        if (!fits(g, i, type, low, high)) continue;
        int gain = found < 0 ? 1 : worth(g, i, local, computed) - worth(g, found, local, computed);
        seen = gain > 0 ? 1 : seen + (gain == 0);
        if (gain > 0 || (gain == 0 && (latest || random_below(&g->random, seen) == 0))) found = i;
    }
    if (found >= 0 && !random_chance(&g->random, 8)) return found;
    return fresh(g, type, maybe_bounded(g, some_shape(g, low, high)));
}

// Something that broadcasts to the shape: what there is, or new with some extents of 1 or fewer axes.
int pick_broadcast(Gen *g, const Shape *to, Type type) {
    int found = -1, seen = 0;
    bool local = g->scope && random_chance(&g->random, 50);
    for (int i = 0; i < g->prog->count; i++) {
        Shape s;
        const Value *v = &g->prog->at[i];
        if (local && v->scope != g->scope) continue;
        if (fits(g, i, type, 0, MAX_RANK) && broadcast_shapes(&v->shape, to, &s) && shape_size(&s) <= 2048 && random_below(&g->random, ++seen) == 0) found = i;
    }
    if (found >= 0 && !random_chance(&g->random, 18)) return found;
    Shape s = *to;
    int drop = random_chance(&g->random, 30) ? random_below(&g->random, s.rank + 1) : 0;
    s.rank -= drop;
    s.bounded >>= drop;
    for (int d = 0; d < s.rank; d++) {
        s.n[d] = to->n[d + drop];
        if (random_chance(&g->random, 15)) s.n[d] = 1, s.bounded &= ~(1u << d);
    }
    return fresh(g, type, s);
}

int fresh(Gen *g, Type type, Shape s) {
    if (type == D_B && random_chance(&g->random, 60)) return constant_bool(g, s);
    Value v = {.op = op_named("input"), .type = type, .shape = s};
    bool fixed = s.bounded == 0;
    int draw = random_below(&g->random, 10), outside = layer_of(g->prog, g->scope) + 1; // but in the same text
    if (type == D_F && fixed && draw < 6) v.op = op_named("param"), v.scope = random_chance(&g->random, 50) ? g->scope : outside;
    else if (type == D_F && fixed && draw == 9) v.op = op_named(random_chance(&g->random, 50) ? "ones" : "zeros");
    if (v.op == op_named("input") && type == D_F) v.nattrs = 1, v.attr[0] = random_chance(&g->random, 12) ? 1 + random_below(&g->random, 2) : 0;
    v.low = random_chance(&g->random, 70) ? 0 : -2;
    v.high = v.low + 1 + random_below(&g->random, 8);
    return push_value(g, v);
}

int number(Gen *g, double x) { return push_value(g, (Value){.op = op_named("number"), .type = D_F, .number = x, .inlined = true}); }

static bool comparable(Gen *g, int id) {
    const Tensor *t = &g->eval.value[id];
    double largest = 0, worst = 0;
    for (int i = 0; i < shape_size(&t->shape); i++) {
        const Scalar *s = &g->eval.tape.at[t->id[i]];
        if (!isfinite(s->value)) return random_chance(&g->random, 1) && !isnan(s->value);
        largest = fmax(largest, fabs(s->value));
        worst = fmax(worst, isinf(s->error) ? 0 : s->error);
    }
    return t->type == D_I ? largest < 1e9 : largest < 1e4 && (g->prog->precision || worst < 0.01 * (1 + largest));
}

int push_value(Gen *g, Value v) {
    Prog *p = g->prog;
    if (p->count == MAX_VALUES - 1 || (is_input(&v) && layer_of(p, g->scope) >= 0)) return -1;
    for (int k = 0; k < v.nargs; k++)
        if (v.arg[k] < 0) return -1;
    int id = p->count, params = g->eval.nparams, states = g->eval.nstates;
    p->at[id] = v;
    Value *w = &p->at[id];
    if (!is_leaf(w)) w->scope = g->scope;
    w->name = id;
    if (!ops[v.op].infer(p, w) || shape_size(&w->shape) > (g->large ? 20000 : 2048) || w->shape.rank > MAX_RANK) return -1;
    p->count++;
    if (ops[v.op].eval == ops[op_named("input")].eval) g->eval.inputs[id] = input_data(p, id);
    eval_values(&g->eval, p);
    if (!g->eval.tape.full && !g->eval.unsure && (v.nargs == 0 || comparable(g, id))) return id;
    p->count--;
    g->eval.unsure = false;
    g->eval.value[id] = (Tensor){0};
    if (g->eval.tape.full) g->eval.tape.count = 0, g->budget = 0;
    free(g->eval.inputs[id]);
    g->eval.inputs[id] = NULL;
    eval_forget(&g->eval, params, states);
    return -1;
}

static int draw_op(Random *r, int count) {
    int total = 0;
    for (int i = 0; i < count; i++) total += ops[i].weight;
    int k = random_below(r, total), i = 0;
    while (k >= ops[i].weight) k -= ops[i++].weight;
    return i;
}

static void roll_back(Gen *g, int values, int params, int states) {
    for (int i = values; i < g->prog->count; i++) {
        free(g->eval.inputs[i]);
        g->eval.inputs[i] = NULL;
        g->eval.value[i] = (Tensor){0};
        free(g->prog->at[i].body);
    }
    g->prog->count = values;
    eval_forget(&g->eval, params, states);
}
void draw_statement(Gen *g, int op) {
    static const char *const products[] = {"matmul", "matmul", "linear", "self product", "conv2d", "self_attention"};
    Value v = {.op = op < 0 ? draw_op(&g->random, g->ops) : op, .number = 1};
    if (op < 0 && g->large && random_chance(&g->random, 60)) v.op = op_named(products[random_below(&g->random, 6)]);
    int values = g->prog->count, params = g->eval.nparams, states = g->eval.nstates;
    if (ops[v.op].propose(g, &v) && push_value(g, v) >= 0) {
        if (v.op == op_named("repeat in")) read_results(g, values);
        return;
    }
    free(v.body);
    roll_back(g, values, params, states);
}

// ---- what is done with the values ------------------------------------------------------------------------------------------
static void mark_used(const Prog *p, bool *used) {
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < p->at[i].nargs; k++) used[p->at[i].arg[k]] = true;
}
static bool leaf(const Value *v) { return v->nargs == 0; }

// The loss: the sum of means of what nothing reads, squared now and then.
static int loss_of(Gen *g, const bool *used) {
    int total = -1;
    for (int i = 0, n = g->prog->count; i < n; i++) {
        const Value *v = &g->prog->at[i];
        if (used[i] || v->type != D_F || leaf(v) || v->inlined || v->scope || shape_size(&v->shape) == 0) continue;
        int x = i;
        if (random_chance(&g->random, 50)) x = push_value(g, (Value){.op = op_named("mul"), .nargs = 2, .arg = {i, i}, .inlined = true});
        if (x >= 0 && v->shape.rank) x = push_value(g, (Value){.op = op_named(random_chance(&g->random, 50) ? "mean" : "sum"), .nargs = 1, .arg = {x}, .nattrs = 2,
                                                        .attr = {(1 << v->shape.rank) - 1, 0}, .inlined = true});
        if (x < 0) continue;
        total = total < 0 ? x : push_value(g, (Value){.op = op_named("add"), .nargs = 2, .arg = {total, x}, .inlined = true});
    }
    if (total < 0) return -1;
    g->prog->at[total].inlined = false;
    return total;
}

static bool may_be_output(Gen *g, int i, const bool *used) {
    const Value *v = &g->prog->at[i];
    if (v->inlined || v->scope || v->type == D_NONE || is_loss(g->prog, i)) return false;
    if (leaf(v)) return is_input(v) && random_chance(&g->random, 3);
    return !used[i] || random_chance(&g->random, 15);
}
static void choose_outputs(Gen *g, const bool *used) {
    Prog *p = g->prog;
    for (int i = p->count - 1; i >= 0 && p->nresults < 4; i--) {
        if (!may_be_output(g, i, used)) continue;
        bool narrow = p->at[i].type == D_F && random_chance(&g->random, 8);
        p->stored_as[p->nresults] = narrow ? 1 + random_below(&g->random, 2) : 0;
        p->results[p->nresults++] = i;
    }
}

static void choose_run(Gen *g) {
    static const char *const passes[] = {"-fno-canonicalize", "-fno-jacobian_gemm", "-fno-split", "-fno-layout", "-fno-fuse", "-fno-family", "-fno-schedule"};
    Prog *p = g->prog;
    if (random_chance(&g->random, 20)) p->without = passes[random_below(&g->random, 7)];
    if (random_chance(&g->random, 50)) p->arch = 1 + random_below(&g->random, 3);
    p->accumulate = random_chance(&g->random, 15), p->want = random_chance(&g->random, 20);
    if (random_chance(&g->random, 40)) p->threads = 1 + random_below(&g->random, 4);
}
static void choose_training(Gen *g) {
    Prog *p = g->prog;
    p->steps = 1 + random_below(&g->random, 3);
    Line *l = &p->line[0];
    l->optimizer = random_chance(&g->random, 65) ? O_NONE : (Optimizer)(1 + random_below(&g->random, 5));
    if (p->precision == P_F16) p->steps = 1; // the first of two may be left out (loss scaling)
    l->rate = 0.125;
    l->hyper = random_chance(&g->random, 25);
    l->schedule = random_chance(&g->random, 15);
    p->sqrt_checkpoint = p->loss >= 0 && random_chance(&g->random, has_scan(p) ? 40 : 15);
    choose_run(g);
    l->clip = random_chance(&g->random, 25) ? 0.5 : 0;
}

// What was to be written in place and is read by nothing has no text.
static void drop_unread(Prog *p) {
    for (int i = p->count - 1; i >= 0; i--) {
        bool read = false;
        for (int y = i + 1; y < p->count; y++)
            for (int k = 0; k < p->at[y].nargs; k++) read |= p->at[y].arg[k] == i && !p->at[y].dead;
        p->at[i].dead |= p->at[i].inlined && !read;
    }
}
// Groups have changed the names of what they own, and what was tried in blocks and not kept has left some.
static void fresh_paths(Gen *g) {
    if (!g->prog->ngroups && g->ops == common_ops()) return;
    if (!g->prog->ngroups) drop_unread(g->prog);
    eval_forget(&g->eval, 0, 0);
    eval_values(&g->eval, g->prog);
}
static int derivative(Gen *g) {
    static const char *const names[] = {"vjp", "jvp", "jacobian", "jacobian batch"};
    return op_named(names[random_below(&g->random, 4)]);
}
static int scan_op(Gen *g, bool scans) {
    if (!scans || random_chance(&g->random, 50)) return -1;
    if (!has_scan(g->prog)) return op_named("scan");
    return random_chance(&g->random, 30) ? derivative(g) : -1;
}
// Programs of scans have one, and then more often than others a derivative; those of layers have several blocks.
static int some_op(Gen *g, Kind what) {
    static const char *const blocks[] = {"repeat in", "layer", "sharing", "sharing"};
    if (what != DRAW_LAYERS) return scan_op(g, what == DRAW_SCANS);
    int k = random_below(&g->random, 100);
    return k < 50 ? -1 : k < 58 ? derivative(g) : op_named(blocks[random_below(&g->random, 4)]);
}
static void draw_statements(Gen *g, int n, Kind what) {
    Prog *p = g->prog;
    bool scans = what == DRAW_SCANS, layers = what == DRAW_LAYERS;
    for (int i = 0, tries = 0; i < n && tries < 4 * n && g->budget; tries++) {
        int before = p->count;
        draw_statement(g, some_op(g, what));
        i += p->count > before && !leaf(&p->at[p->count - 1]);
    }
    for (int tries = 0; scans && tries < 12 && g->budget && !has_scan(p); tries++) draw_statement(g, op_named("scan"));
    for (int tries = 0; layers && tries < 12 && g->budget && !has_scan(p); tries++)
        draw_statement(g, op_named(tries % 2 ? "layer" : "repeat in"));
}

// More programs have a precision where it may be stated in blocks.
static void choose_stated(Gen *g) {
    Prog *p = g->prog;
    if (!p->precision && random_chance(&g->random, 12)) p->precision = (Precision)(1 + random_below(&g->random, 3));
    p->stated = random_below(&g->random, 3);
}
void generate(Prog *p, uint64_t seed, Kind what) {
    Gen g = {.prog = p, .random = {seed}, .far = what == DRAW_FAR, .ops = what == DRAW_LAYERS ? op_count : common_ops()};
    *p = (Prog){.loss = -1, .seed = seed};
    random_bits(&g.random);
    g.large = random_chance(&g.random, 7);
    g.eval.tape.limit = g.large ? 3000000 : 400000;
    if (g.large && random_chance(&g.random, 50)) p->precision = (Precision)(1 + random_below(&g.random, 3));
    g.eval.seed = seed;
    g.eval.training = true;
    g.eval.inputs = calloc(MAX_VALUES, sizeof *g.eval.inputs);
    if (!g.eval.inputs) abort();
    if (random_chance(&g.random, 12)) p->precision = (Precision)(1 + random_below(&g.random, 3));
    if (random_chance(&g.random, 25)) p->bound = 1 + random_below(&g.random, 17), p->extent = 1 + random_below(&g.random, p->bound);
    if (what == DRAW_LAYERS) choose_stated(&g);
    int n = g.large ? 2 : 1 + random_below(&g.random, random_chance(&g.random, 60) ? 6 : random_chance(&g.random, 70) ? 20 : 45);
    g.budget = 1;
    draw_statements(&g, n, what);
    bool used[MAX_VALUES] = {false};
    mark_used(p, used);
    if (g.budget && random_chance(&g.random, 75)) p->loss = loss_of(&g, used);
    choose_outputs(&g, used);
    choose_training(&g);
    if (what == DRAW_LAYERS) p->plain = true;
    else draw_groups(&g);
    eval_reset(&g.eval);
    fresh_paths(&g);
    if (what == DRAW_LAYERS) choose_lines(&g);
    else choose_only(&g);
    name_values(p);
    for (int i = 0; i < MAX_VALUES; i++) free(g.eval.inputs[i]);
    free(g.eval.inputs);
    eval_free(&g.eval);
}
