// How scans are drawn: the header, a body of the statements that programs have everywhere, and what is left behind.
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include "tests/net/scan.h"

static int below(Gen *g, int n) { return random_below(&g->random, n); }

static int made(Gen *g, const char *op, int nargs, const int *args, int attr) {
    Value v = {.op = op_named(op), .number = 1, .nattrs = 1, .attr = {attr}, .inlined = below(g, 3) == 0};
    for (int k = 0; k < nargs; k++)
        if (!take(&v, args[k])) return -1;
    return push_value(g, v);
}
static int unary(Gen *g, const char *op, int a) { return made(g, op, 1, (int[]){a}, 0); }
static int binary(Gen *g, const char *op, int a, int b) { return made(g, op, 2, (int[]){a, b}, 0); }

static int constant(Gen *g, Type type) {
    static const char *const names[] = {"real", "integer", "truth"};
    Value v = {.op = op_named(names[type]), .type = type, .number = some_number(g), .nattrs = 1, .inlined = true};
    v.attr[0] = type == D_B ? below(g, 2) : below(g, 5) - 1;
    return push_value(g, v);
}
// What broadcasts to the shape and no further.
static int pick_within(Gen *g, const Shape *to, Type type) {
    Shape s;
    for (int tries = 0; tries < 4; tries++) {
        int a = pick_broadcast(g, to, type);
        if (a >= 0 && broadcast_shapes(&g->prog->at[a].shape, to, &s) && shape_equal(&s, to)) return a;
    }
    return fresh(g, type, *to);
}
int depth_of(const Gen *g) {
    int n = 0;
    for (int s = g->scope; s; s = g->prog->at[s - 1].scope) n++;
    return n;
}

// ---- the header ------------------------------------------------------------------------------------------------------------
enum { MOST_ROUNDS = 8, MOST_INNER = 3 };
static int some_length(Gen *g) {
    static const int lengths[] = {1, 2, 3, 5, 7, 8, 3, 2, 8, 12};
    if (below(g, 25) == 0) return 0;
    return depth_of(g) || g->large ? 1 + below(g, MOST_INNER) : lengths[below(g, 10)];
}
// The axis of a tensor that there is; -1: none will do.
static int axis_there(Gen *g, int a, int rounds) {
    const Shape *s = &g->prog->at[a].shape;
    int found = -1, seen = 0, most = depth_of(g) || g->large ? MOST_INNER : MOST_ROUNDS;
    for (int d = 0; d < s->rank; d++)
        if (!(s->bounded >> d & 1) && s->n[d] <= most && (rounds < 0 || s->n[d] == rounds) && below(g, ++seen) == 0) found = d;
    return shape_size(s) <= (g->large ? 9000 : 400) ? found : -1;
}
// Of a program of many tiles places may be large, and the rounds are few.
static int some_side(Gen *g, int size) {
    if (g->large) return size > 20 ? 1 + below(g, 70) : 1 + below(g, 20);
    return size > 12 ? 1 + below(g, 2) : below(g, 4) ? 1 + below(g, 5) : some_extent(g) % 10;
}
static int new_sequence(Gen *g, Type type, int axis, int rounds) {
    Shape s = {.rank = axis + 1 + below(g, axis ? 2 : 4)};
    if (s.rank == 1) s.rank += below(g, 3);
    for (int d = 0, size = 1; d < s.rank; d++) {
        s.n[d] = d == axis ? rounds : some_side(g, size);
        if (d != axis) size *= s.n[d];
    }
    int d = below(g, s.rank);
    if (g->prog->bound && below(g, 3) == 0 && d != axis) s.n[d] = some_bounded_extent(g), s.bounded = 1u << d;
    return fresh(g, type, s);
}
// Now and then it is turned round or made by a layer, in place.
static int turned(Gen *g, int a, int axis) {
    int last = a < 0 ? 0 : g->prog->at[a].shape.rank - 1, form = below(g, 20);
    if (a < 0 || form > 3) return a;
    if (form == 0 && axis < last && g->prog->at[a].type == D_F)
        return push_value(g, (Value){.op = op_named("linear"), .nargs = 1, .arg = {a}, .nattrs = 2, .attr = {1 + below(g, 5), below(g, 2)}, .inlined = true});
    return push_value(g, (Value){.op = op_named("reverse"), .nargs = 1, .arg = {a}, .nattrs = 1, .attr = {axis}, .inlined = below(g, 2)});
}
static bool add_sequence(Gen *g, Value *h, int *rounds) {
    int k = below(g, 100), a = -1, axis = -1;
    Type type = k < 76 ? D_F : k < 90 ? D_I : D_B;
    for (int tries = 0; tries < 3 && axis < 0; tries++) {
        a = h->nargs && !g->prog->at[h->arg[0]].inlined && below(g, 4) == 0 ? h->arg[0] : below(g, 3) ? pick(g, type, 1 + (below(g, 4) > 0), 4) : -1; // one tensor read twice
        axis = a < 0 ? -1 : axis_there(g, a, *rounds);
    }
    if (axis < 0) {
        *rounds = *rounds < 0 ? some_length(g) : *rounds;
        axis = below(g, below(g, 2) ? 1 : 3);
        a = new_sequence(g, type, axis, *rounds);
    }
    if (a >= 0) *rounds = g->prog->at[a].shape.n[axis];
    h->attr[h->nattrs++] = axis;
    return take(h, turned(g, a, axis));
}
// A carry is much like a place of the sequence.
static Shape carry_shape(Gen *g, Shape s) {
    int last = s.rank - 1, form = below(g, 10);
    if (form == 0) return (Shape){0};
    if (form < 3 && s.rank) s.rank = last, s.bounded &= ~(1u << last);
    else if (form < 6 && s.rank) s.n[last] = 1 + below(g, 6), s.bounded &= ~(1u << last);
    else if (form == 6 && s.rank < 3) s.n[s.rank++] = 1 + below(g, 4);
    return s;
}
static int most_carried(const Gen *g) { return g->large ? 3000 : 100; }
static int first_value(Gen *g, const Shape *place) {
    int k = below(g, 100);
    Type type = k % 10 < 7 ? D_F : k % 10 < 9 ? D_I : D_B;
    Shape s = carry_shape(g, *place);
    if (shape_size(&s) > most_carried(g)) s = (Shape){0};
    if (k < 16) return constant(g, type);
    if (k < 40) return push_value(g, (Value){.op = op_named(below(g, 3) ? "zeros" : "ones"), .type = D_F, .shape = s, .inlined = below(g, 3) > 0});
    if (k < 75) return fresh(g, type, s);
    return k < 90 ? pick_within(g, place, type) : pick(g, type, 0, 3);
}
static void shuffle(Gen *g, Value *h) {
    for (int k = h->nargs - 1; k > 0; k--) {
        int i = below(g, k + 1), arg = h->arg[k], axis = h->attr[k];
        h->arg[k] = h->arg[i], h->attr[k] = h->attr[i];
        h->arg[i] = arg, h->attr[i] = axis;
    }
}
static int draw_header(Gen *g) {
    Value h = {.op = op_named("scan header")};
    int rounds = -1, sequences = 1 + (below(g, 4) == 0) + (below(g, 8) == 0), carries = below(g, 9) == 0 ? 0 : 1 + (below(g, 3) == 0) + (below(g, 5) == 0);
    while (h.nargs < sequences)
        if (!add_sequence(g, &h, &rounds)) return -1;
    Shape place = reduced_shape(&g->prog->at[h.arg[0]].shape, 1u << h.attr[0], false);
    for (; carries > 0; carries--) {
        int a = first_value(g, &place);
        h.attr[h.nattrs++] = -1;
        if (a < 0 || shape_size(&g->prog->at[a].shape) > 2 * most_carried(g) || !take(&h, a)) return -1;
    }
    if (below(g, 3) == 0) shuffle(g, &h);
    h.attr[h.nattrs++] = below(g, 8) ? 1 : 2 + below(g, 2);
    return push_value(g, h);
}
bool draw_names(Gen *g, int header) {
    for (int k = 0; k < g->prog->at[header].nargs; k++)
        if (push_value(g, (Value){.op = op_named("scan name"), .nargs = 1, .arg = {header}, .nattrs = 1, .attr = {k}}) < 0) return false;
    return true;
}

// ---- the body --------------------------------------------------------------------------------------------------------------
static int product(Gen *g, int h) {
    const Shape *s = &g->prog->at[h].shape;
    int n = s->rank ? s->n[s->rank - 1] : 0;
    if (n < 1 || n > (g->large ? 70 : 9) || s->bounded >> (s->rank - 1) & 1) return unary(g, "sin", h);
    if (below(g, 2)) return binary(g, "matmul", h, fresh(g, D_F, flat_shape(2, n, n)));
    return push_value(g, (Value){.op = op_named("linear"), .nargs = 1, .arg = {h}, .nattrs = 2, .attr = {n, below(g, 2)}, .inlined = below(g, 2)});
}
// linear(concat(x, h, axis = -1), n), where the two have all other axes in common
static int joined(Gen *g, int h, int x) {
    const Shape *s = &g->prog->at[h].shape;
    int last = s->rank - 1;
    if (last < 0 || s->n[last] < 1 || s->n[last] > (g->large ? 70 : 9)) return -1;
    int n = s->n[last], both = made(g, "concat", 2, (int[]){x, h}, last);
    if (both < 0) return -1;
    return push_value(g, (Value){.op = op_named("linear"), .nargs = 1, .arg = {both}, .nattrs = 2, .attr = {n, 1}, .inlined = below(g, 2)});
}
// What is read more than once has a statement, for it may own parameters.
static int named(Gen *g, int a) {
    if (a >= 0) g->prog->at[a].inlined = false;
    return a;
}
static int gated(Gen *g, int h, int x) {
    int gate = named(g, unary(g, "sigmoid", product(g, h)));
    return binary(g, "add", binary(g, "mul", gate, h), binary(g, "mul", binary(g, "sub", number(g, 1), gate), unary(g, "tanh", x)));
}
static int float_cell(Gen *g, int h) {
    Shape s = g->prog->at[h].shape;
    int x = pick_within(g, &s, D_F), both;
    switch (below(g, 9)) {
    case 0: case 1: return unary(g, "tanh", binary(g, "add", product(g, h), x));
    case 2: return gated(g, h, x);
    case 3: return binary(g, "add", binary(g, "mul", h, number(g, 0.5)), x);
    case 4: return binary(g, "add", binary(g, "mul", h, pick_within(g, &s, D_F)), x);
    case 5: return binary(g, "add", unary(g, below(g, 2) ? "layernorm" : "rmsnorm", h), x);
    case 6: return binary(g, below(g, 2) ? "max2" : "min2", h, x);
    case 7: return made(g, "where", 3, (int[]){h, x, pick_within(g, &s, D_B)}, 0);
    default:
        both = joined(g, h, pick(g, D_F, s.rank, s.rank));
        return both < 0 ? unary(g, "tanh", binary(g, "mul", h, x)) : unary(g, below(g, 2) ? "tanh" : "sigmoid", both);
    }
}
static int integer_cell(Gen *g, int h) {
    static const char *const forms[] = {"iadd", "imax", "imin", "isub"};
    if (below(g, 2)) return made(g, "iaddc", 1, &h, 1 + below(g, 2));
    return binary(g, forms[below(g, 4)], h, pick_within(g, &g->prog->at[h].shape, D_I));
}
static int truth_cell(Gen *g, int h) {
    if (below(g, 3) == 0) return unary(g, "not", h);
    return binary(g, below(g, 2) ? "and" : "or", h, pick_within(g, &g->prog->at[h].shape, D_B));
}
static void draw_cells(Gen *g, int header) {
    for (int k = 0; k < g->prog->at[header].nargs; k++) {
        int h = header_name(g->prog, header, k);
        if (!is_carry(&g->prog->at[header], k) || below(g, 4) == 0) continue;
        Type type = g->prog->at[h].type;
        named(g, type == D_F ? float_cell(g, h) : type == D_I ? integer_cell(g, h) : truth_cell(g, h));
    }
}
void draw_body(Gen *g, int header) {
    bool early = below(g, 2);
    if (early) draw_cells(g, header);
    for (int n = below(g, depth_of(g) > 1 ? 3 : 6); n > 0 && g->budget; n--) draw_statement(g, -1);
    if (below(g, depth_of(g) > 1 ? 20 : 6) == 0) draw_statement(g, op_named("scan"));
    if (!early && g->budget) draw_cells(g, header);
}

// Each time that a scan is done it has parameters of its own; one that has any is done once.
static void settle_times(Gen *g, int header) {
    Prog *p = g->prog;
    for (int i = header; i < p->count; i++)
        if (owns(p, i) || (is_leaf(&p->at[i]) && p->at[i].scope)) p->at[header].attr[p->at[header].nargs] = 1;
}

// ---- the end ---------------------------------------------------------------------------------------------------------------
static bool reads(const Prog *p, int y, int x) {
    if (y == x) return true;
    for (int k = 0; k < p->at[y].nargs; k++)
        if (reads(p, p->at[y].arg[k], x)) return true;
    return false;
}
static bool of_body(const Gen *g, int i) { return g->prog->at[i].scope == g->scope && g->prog->at[i].type != D_NONE; }

// A value of the body that a carry may become, best one that is made from it.
static int found_next(Gen *g, int header, int carry) {
    const Prog *p = g->prog;
    int found = -1, seen = 0, best = -1;
    for (int i = header + 1; i < p->count; i++) {
        const Value *v = &p->at[i], *c = &p->at[carry];
        if (!of_body(g, i) || v->inlined || i == carry || !becomes(&p->at[header], v, c)) continue;
        int worth = 2 * reads(p, i, carry) + !(is_scan_part(v) && v->arg[0] == header);
        if (worth < best) continue;
        seen = worth > best ? 1 : seen + 1, best = worth;
        if (below(g, seen) == 0 || below(g, 3) == 0) found = i;
    }
    return found;
}
static int next_value(Gen *g, int header, int carry) {
    const Value *c = &g->prog->at[carry];
    int k = below(g, 100), found = found_next(g, header, carry);
    if (found >= 0 && k < 90) return found;
    if (is_repeat(&g->prog->at[header])) return c->type == D_F ? binary(g, "mul", carry, number(g, -0.75)) : carry;
    if (k < 93) return carry;
    if (k < 95) return c->type == D_F ? number(g, some_number(g)) : constant(g, c->type);
    if (k < 97 || c->type == D_B) return pick_within(g, &c->shape, c->type);
    return c->type == D_F ? binary(g, "mul", carry, number(g, -0.75)) : made(g, "iaddc", 1, &carry, 1);
}
static int some_emission(Gen *g, int header) {
    const Prog *p = g->prog;
    const Value *h = &p->at[header];
    int found = -1, seen = 0, axis = emission_axis(h), most = (g->large ? 20000 : 1024) / (rounds_of(p, h) + 1);
    bool outer = below(g, 20) == 0, layer = is_layer(h);
    if (axis == 0 && !layer && below(g, 40) == 0) return constant(g, (Type)below(g, 3));
    for (int i = 0; i < p->count; i++) {
        const Value *v = &p->at[i];
        bool here = outer && !layer ? v->scope == 0 && v->nargs && visible(p, g->scope, i) : of_body(g, i);
        if (layer && (is_scan_name(v) || !v->nargs) && below(g, 8)) continue;
        if (!here || v->inlined || v->type == D_NONE || v->shape.rank < axis || v->shape.rank >= MAX_RANK || shape_size(&v->shape) > most) continue;
        if (below(g, ++seen) == 0 || below(g, layer ? 2 : 4) == 0) found = i;
    }
    if (found < 0 || p->at[found].type != D_F || below(g, 8)) return found;
    return push_value(g, (Value){.op = op_named("tanh"), .nargs = 1, .arg = {found}, .inlined = true});
}
int draw_end(Gen *g, int header, int count) {
    Value end = {.op = op_named("scan end")};
    int k = count < 0 ? below(g, 100) : 0;
    if (count < 0) count = k < 14 ? 0 : k < 72 ? 1 : k < 93 ? 2 : 3;
    if (!carries_of(&g->prog->at[header]) && count == 0) count = 1;
    take(&end, header);
    for (k = 0; k < g->prog->at[header].nargs; k++)
        if (is_carry(&g->prog->at[header], k) && !take(&end, next_value(g, header, header_name(g->prog, header, k)))) return -1;
    for (; count > 0; count--)
        if (!take(&end, some_emission(g, header))) return -1;
    settle_times(g, header);
    return g->budget ? push_value(g, end) : -1;
}
// The names that are left behind; v becomes the last.
bool draw_results(Gen *g, int end, Value *v) {
    const Prog *p = g->prog;
    const Value *header = &p->at[p->at[is_sharing(&p->at[end]) ? p->at[end].arg[0] : end].arg[0]];
    int count = emissions(p, end), operands = is_layer(header) ? 0 : header->nargs, list[16], n = 0;
    for (int k = 0; k < count + operands; k++) {
        bool carry = k >= count && is_carry(header, k - count);
        if (k < count || below(g, 10) < (carry ? 6 : 2) || (n == 0 && carry && k == count + operands - 1)) list[n++] = k;
    }
    if (n == 0) list[n++] = below(g, operands);
    for (int k = 0; k < n; k++) {
        *v = (Value){.op = v->op, .nargs = 1, .arg = {end}, .nattrs = 1, .attr = {list[k]}};
        if (k < n - 1 && push_value(g, *v) < 0) return false;
    }
    return true;
}
bool propose_scanned(Gen *g, Value *v) {
    int outer = g->scope, depth = depth_of(g);
    if (depth > 1) return false;
    int header = draw_header(g), end = -1;
    if (header < 0) return false;
    g->scope = header + 1;
    if (draw_names(g, header)) {
        draw_body(g, header);
        end = draw_end(g, header, -1);
    }
    g->scope = outer;
    return end >= 0 && draw_results(g, end, v);
}
