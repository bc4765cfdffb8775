// Scans: what their parts are, and what they compute, round by round.
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include "tests/net/scan.h"
#include <string.h>

bool is_header(const Value *v) { return ops[v->op].eval == eval_header; }
bool is_scan_name(const Value *v) { return ops[v->op].eval == eval_scan_name; }
bool is_end(const Value *v) { return ops[v->op].eval == eval_end; }
bool is_scan_result(const Value *v) { return ops[v->op].eval == eval_scanned; }
bool is_sharing(const Value *v) { return ops[v->op].eval == eval_call; }
bool is_scan_part(const Value *v) { return is_header(v) || is_scan_name(v) || is_end(v) || is_scan_result(v) || is_sharing(v); }
bool is_repeat(const Value *v) { return is_header(v) && ops[v->op].code == B_REPEAT; }
bool is_layer(const Value *v) { return is_header(v) && ops[v->op].code == B_LAYER; }
bool is_leaf(const Value *v) { return ops[v->op].eval == eval_input || ops[v->op].eval == eval_parameter; }

bool has_scan(const Prog *p) {
    for (int i = 0; i < p->count; i++)
        if (!p->at[i].dead && is_header(&p->at[i])) return true;
    return false;
}
int end_of(const Prog *p, int header) {
    for (int i = header + 1; i < p->count; i++)
        if (!p->at[i].dead && is_end(&p->at[i]) && p->at[i].arg[0] == header) return i;
    return -1;
}
int header_name(const Prog *p, int header, int k) {
    for (int i = header + 1; i < p->count; i++)
        if (is_scan_name(&p->at[i]) && p->at[i].arg[0] == header && p->at[i].attr[0] == k) return i;
    return -1;
}
int result_name(const Prog *p, int end, int k) {
    for (int i = end + 1; i < p->count; i++)
        if (is_scan_result(&p->at[i]) && p->at[i].arg[0] == end && p->at[i].attr[0] == k) return i;
    return -1;
}
bool is_scan(const Value *header) { return ops[header->op].code == B_SCAN; }
static int first_sequence(const Value *header) {
    int k = 0;
    while (k < header->nargs - 1 && is_carry(header, k)) k++;
    return k;
}
int emission_axis(const Value *header) { return is_scan(header) ? header->attr[first_sequence(header)] : 0; }
int rounds_of(const Prog *p, const Value *header) {
    int k = first_sequence(header);
    if (!is_scan(header)) return is_repeat(header) ? block_attr(header, A_ROUNDS) : 1;
    return p->at[header->arg[k]].shape.n[header->attr[k]];
}
int carries_of(const Value *header) {
    int n = 0;
    for (int k = 0; k < header->nargs; k++) n += is_carry(header, k);
    return n;
}
int next_of(const Prog *p, int end, int k) {
    const Value *header = &p->at[p->at[end].arg[0]];
    int n = 1;
    for (int i = 0; i < k; i++) n += is_carry(header, i);
    return p->at[end].arg[n];
}
static bool within(const Prog *p, int scope, int outer) {
    while (scope && scope != outer) scope = p->at[scope - 1].scope;
    return scope == outer;
}
// The body of a layer sees nothing outside of it.
bool visible(const Prog *p, int scope, int id) {
    while (scope && scope != p->at[id].scope && !is_layer(&p->at[scope - 1])) scope = p->at[scope - 1].scope;
    return scope == p->at[id].scope;
}
bool in_rounds(const Prog *p, int scope) {
    while (scope && !is_scan(&p->at[scope - 1])) scope = p->at[scope - 1].scope;
    return scope;
}
int layer_of(const Prog *p, int scope) {
    while (scope && !is_layer(&p->at[scope - 1])) scope = p->at[scope - 1].scope;
    return scope - 1;
}
int text_of(const Prog *p, int id) {
    const Value *v = &p->at[id];
    bool call = is_end(v) && is_layer(&p->at[v->arg[0]]);
    return layer_of(p, call ? p->at[v->arg[0]].scope : v->scope);
}
int emissions(const Prog *p, int end) {
    if (is_sharing(&p->at[end])) end = p->at[end].arg[0];
    return p->at[end].nargs - 1 - carries_of(&p->at[p->at[end].arg[0]]);
}
bool in_scope(const Prog *p, int id, int scope) { return within(p, p->at[id].scope, scope); }

// ---- shapes ----------------------------------------------------------------------------------------------------------------
static Shape without_axis(const Shape *s, int axis) { return reduced_shape(s, 1u << axis, false); }
static Shape with_axis(const Shape *s, int axis, int n) {
    Shape r = {.rank = s->rank + 1};
    for (int d = 0; d < r.rank; d++) {
        int from = d - (d > axis);
        r.n[d] = d == axis ? n : s->n[from];
        if (d != axis && s->bounded >> from & 1) r.bounded |= 1u << d;
    }
    return r;
}

// The rounds of a `repeat` may follow the index of one around it.
static bool follows(const Prog *p, const Value *v) {
    int outer = block_attr(v, A_FOLLOWS) - 1;
    return outer < 0 || (is_repeat(&p->at[outer]) && least_index(&p->at[outer]) >= 0 && visible(p, v->scope, outer + 1));
}
// attrs: of each operand the axis of a sequence; -1: a carry; then how often it is done
bool infer_header(const Prog *p, Value *v) {
    int rounds = -1;
    v->type = D_NONE, v->shape = (Shape){0};
    for (int k = 0; k < v->nargs; k++) {
        const Shape *s = &p->at[v->arg[k]].shape;
        int axis = v->attr[k];
        if (p->at[v->arg[k]].type == D_NONE) return false;
        if (axis < 0 || !is_scan(v)) continue;
        if (axis >= s->rank || s->bounded >> axis & 1 || (rounds >= 0 && s->n[axis] != rounds)) return false;
        rounds = s->n[axis];
    }
    return is_repeat(v) ? follows(p, v) : rounds >= 0 || is_layer(v);
}
static bool whole_operand(const Value *header, int k) { return is_carry(header, k) || !is_scan(header); }
// attr 0: the operand of the header
bool infer_scan_name(const Prog *p, Value *v) {
    const Value *header = &p->at[v->arg[0]];
    int k = v->attr[0];
    if (!is_header(header) || k >= header->nargs) return false;
    const Value *of = &p->at[header->arg[k]];
    v->type = of->type;
    v->shape = whole_operand(header, k) ? of->shape : without_axis(&of->shape, header->attr[k]);
    return true;
}
// In a `repeat` as it is, in a scan repeated where an extent is 1.
bool becomes(const Value *header, const Value *next, const Value *first) {
    Shape s;
    if (is_repeat(header)) return next->type == first->type && shape_equal(&next->shape, &first->shape);
    return next->type == first->type && broadcast_shapes(&next->shape, &first->shape, &s) && shape_equal(&s, &first->shape);
}
// operands: the header, what its carries become, what is emitted
bool infer_end(const Prog *p, Value *v) {
    const Value *header = &p->at[v->arg[0]];
    int n = 1;
    v->type = D_NONE, v->shape = (Shape){0};
    if (!is_header(header)) return false;
    for (int k = 0; k < header->nargs; k++)
        if (is_carry(header, k) && !becomes(header, &p->at[v->arg[n++]], &p->at[header->arg[k]])) return false;
    if (is_repeat(header) && n < v->nargs && (!rounds_of(p, header) || block_attr(header, A_FOLLOWS))) return false;
    if (is_layer(header) && n == v->nargs) return false;
    for (; n < v->nargs; n++) {
        const Value *y = &p->at[v->arg[n]];
        if (y->type == D_NONE || y->shape.rank >= MAX_RANK || emission_axis(header) > y->shape.rank) return false;
    }
    return true;
}
// attr 0: what is emitted is counted first, then the operands of the header
bool infer_scanned(const Prog *p, Value *v) {
    const Value *end = &p->at[v->arg[0]];
    if (is_sharing(end)) end = &p->at[end->arg[0]];
    if (!is_end(end)) return false;
    const Value *header = &p->at[end->arg[0]];
    int k = v->attr[0] - emissions(p, v->arg[0]);
    if (k >= (is_layer(header) ? 0 : header->nargs)) return false;
    const Value *y = &p->at[k < 0 ? end->arg[end->nargs + k] : header->arg[k]];
    v->type = y->type;
    if (is_sharing(&p->at[v->arg[0]])) v->shape = shape_in_call(p, &p->at[v->arg[0]], (int)(y - p->at));
    else if (is_layer(header)) v->shape = y->shape;
    else if (k < 0) v->shape = with_axis(&y->shape, emission_axis(header), rounds_of(p, header));
    else v->shape = is_carry(header, k) ? y->shape : without_axis(&y->shape, header->attr[k]);
    return true;
}

// ---- values ----------------------------------------------------------------------------------------------------------------
static int id_of(const Eval *e, const Value *v) { return (int)(v - e->prog->at); }

// Between a tensor and its part at one place of the axis; of an empty axis that is 0.
static void move_place(Tensor *whole, Tensor *part, int axis, int place, bool back) {
    int at[MAX_RANK], in[MAX_RANK];
    for (int i = 0; i < shape_size(&part->shape); i++) {
        unravel(&part->shape, i, at);
        for (int d = 0; d < whole->shape.rank; d++) in[d] = d == axis ? place : at[d - (d > axis)];
        int *there = &whole->id[ravel(&whole->shape, in)];
        if (back) *there = part->id[i];
        else part->id[i] = *there;
    }
}
static Tensor place_of(Eval *e, Tensor whole, int axis, int place) {
    Tensor r = tensor_make(e, without_axis(&whole.shape, axis), whole.type);
    if (whole.shape.n[axis]) move_place(&whole, &r, axis, place, false);
    for (int i = 0; !whole.shape.n[axis] && i < shape_size(&r.shape); i++) r.id[i] = tape_const(&e->tape, 0);
    return r;
}
void eval_integer(Eval *e, const Value *v, Tensor *out) {
    *out = t_number(e, v->attr[0]);
    out->type = v->type;
}
void eval_header(Eval *e, const Value *v, Tensor *out) {
    int id = id_of(e, v);
    char own[16] = "";
    e->round[id] = 0;
    if (is_layer(v) && block_attr(v, A_NAMED)) snprintf(own, sizeof own, "g%d.", id);
    if (is_layer(v)) path_now(e, id, own, e->owner[id]), memcpy(e->instance[id], e->owner[id], MAX_PATH);
    *out = t_number(e, 0);
}
void eval_scan_name(Eval *e, const Value *v, Tensor *out) {
    const Value *header = &e->prog->at[v->arg[0]];
    int k = v->attr[0];
    Tensor from = e->value[header->arg[k]];
    *out = whole_operand(header, k) ? from : place_of(e, from, header->attr[k], e->round[v->arg[0]]);
}
// What the carries become, by operand of the header; what has no name in the body needs none.
static void next_carries(Eval *e, int end, Tensor *next) {
    const Value *header = &e->prog->at[e->prog->at[end].arg[0]];
    for (int k = 0; k < header->nargs; k++)
        if (is_carry(header, k)) next[k] = t_broadcast(e, e->value[next_of(e->prog, end, k)], e->prog->at[header->arg[k]].shape);
}
// Values are those of a round to come.
void forget_body(Eval *e, int header) {
    const Prog *p = e->prog;
    for (int i = header + 1, end = end_of(p, header); i < end || (end < 0 && i < p->count); i++)
        if (in_scope(p, i, header + 1)) e->value[i] = (Tensor){0};
}
static void next_round(Eval *e, int end, int round, const Tensor *carry) {
    const Prog *p = e->prog;
    int h = p->at[end].arg[0];
    forget_body(e, h);
    e->round[h] = round;
    for (int k = 0; k < p->at[h].nargs; k++) {
        int name = header_name(p, h, k);
        if (is_carry(&p->at[h], k) && name >= 0) e->value[name] = carry[k];
    }
    eval_range(e, h + 1, end);
}
static void make_kept(Eval *e, const Value *v, Tensor *kept) {
    const Value *header = &e->prog->at[v->arg[0]];
    int count = emissions(e->prog, id_of(e, v)), rounds = rounds_of(e->prog, header);
    bool layer = is_layer(header);
    for (int k = 0; k < count && !layer; k++) {
        const Value *y = &e->prog->at[v->arg[v->nargs - count + k]];
        kept[k] = tensor_make(e, with_axis(&y->shape, emission_axis(header), rounds), y->type);
    }
    for (int k = 0; k < count && layer; k++) kept[k] = e->value[v->arg[1 + k]];
    for (int k = 0; k < header->nargs && !layer; k++) {
        Tensor from = e->value[header->arg[k]];
        kept[count + k] = is_carry(header, k) ? from : place_of(e, from, header->attr[k], rounds - 1);
    }
}
static int rounds_now(const Eval *e, const Value *header) {
    int outer = is_repeat(header) ? block_attr(header, A_FOLLOWS) : 0;
    return rounds_of(e->prog, header) + (outer ? index_now(e, outer - 1) : 0);
}
// The body's values are those of the first round.
void eval_end(Eval *e, const Value *v, Tensor *out) {
    const Value *header = &e->prog->at[v->arg[0]];
    int id = id_of(e, v), count = emissions(e->prog, id), axis = emission_axis(header), rounds = rounds_now(e, header);
    int all = rounds * times_of(header);
    Tensor *kept = e->kept[id] = eval_block(e, (size_t)(count + header->nargs) * sizeof *kept);
    make_kept(e, v, kept);
    for (int t = 0; t < all && !is_layer(header) && !e->tape.full; t++) {
        if (t) next_round(e, id, t % rounds, kept + count);
        if (e->tape.full) break;
        for (int k = 0; k < count; k++) move_place(&kept[k], &e->value[v->arg[v->nargs - count + k]], axis, t % rounds, true);
        next_carries(e, id, kept + count);
    }
    *out = t_number(e, 0);
}
void eval_scanned(Eval *e, const Value *v, Tensor *out) { *out = e->kept[v->arg[0]][v->attr[0]]; }
