// `repeat` with its index, and calls that share the parameters of a layer: what they are and what they compute.
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include "tests/net/scan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static const Shape *shape_of(const Prog *p, const Value *v, int k) { return &p->at[v->arg[k]].shape; }
static int below(Gen *g, int n) { return random_below(&g->random, n); }

int index_now(const Eval *e, int header) { return block_attr(&e->prog->at[header], A_LOW) + e->round[header]; }
int least_index(const Value *header) { return block_attr(header, A_LOW); }
int most_index(const Prog *p, const Value *header) {
    int outer = block_attr(header, A_FOLLOWS);
    return least_index(header) + block_attr(header, A_ROUNDS) - 1 + (outer ? most_index(p, &p->at[outer - 1]) : 0);
}

// ---- calls that share ------------------------------------------------------------------------------------------------------
static bool body_has_state(const Prog *p, int header) {
    static const char *const names[] = {"state", "cache", "batchnorm"};
    bool has = false;
    for (int i = header + 1, end = end_of(p, header); i < end; i++)
        for (int k = 0; k < 3; k++) has |= !strcmp(ops[p->at[i].op].name, names[k]);
    return has;
}
static bool may_share(const Prog *p, int end, int scope) {
    int h = p->at[end].arg[0];
    const Value *header = &p->at[h];
    bool named = is_layer(header) && block_attr(header, A_NAMED);
    return named && layer_of(p, header->scope) == layer_of(p, scope) && !(in_rounds(p, scope) && body_has_state(p, h));
}
// What computes the same, in the same text, from operands of other extents.
static bool any_extents(const Value *v) {
    static const char *const names[] = {
        "linear", "layernorm", "rmsnorm", "matmul", "transpose", "softmax", "conv2d", "self_attention", "sum", "mean", "max",
        "param", "number", "zeros", "ones", "float b", "float i", "not", "index at", "slice at", "by index", "if index", "scan"};
    const Op *op = &ops[v->op];
    bool any = is_scan_part(v) || op->infer == infer_same || op->infer == infer_broadcast || op->infer == infer_compare;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) any |= !strcmp(op->name, names[k]);
    return any && strcmp(op->name, "state"); // whose extents stand in the text
}
// The program with the body of the layer as it is in a call; NULL: not for these arguments.
static Prog *as_called(const Prog *p, const Value *call) {
    int end = call->arg[0], h = p->at[end].arg[0];
    Prog *q = malloc(sizeof *q);
    if (!q) abort();
    *q = *p;
    for (int k = 0; k < p->at[h].nargs; k++) q->at[h].arg[k] = call->arg[k + 1];
    for (int i = h + 1; i <= end; i++) {
        Value *v = &q->at[i];
        bool part = i == end || in_scope(p, i, h + 1), same = true;
        for (int k = 0; part && k < v->nargs; k++) same &= shape_equal(&q->at[v->arg[k]].shape, &p->at[p->at[i].arg[k]].shape);
        if (!part || v->dead || (same && !is_scan_part(v))) continue;
        if (any_extents(v) && ops[v->op].infer(q, v) && shape_size(&v->shape) < 2048) continue;
        free(q);
        return NULL;
    }
    return q;
}
Shape shape_in_call(const Prog *p, const Value *call, int id) {
    Prog *q = as_called(p, call);
    Shape s = q ? q->at[id].shape : (Shape){0};
    free(q);
    return s;
}
// operands: the end of the first call, the arguments
bool infer_call(const Prog *p, Value *v) {
    v->type = D_NONE, v->shape = (Shape){0};
    if (!is_end(&p->at[v->arg[0]]) || !may_share(p, v->arg[0], v->scope)) return false;
    const Value *header = &p->at[p->at[v->arg[0]].arg[0]];
    if (v->nargs != header->nargs + 1) return false;
    for (int k = 0; k < header->nargs; k++)
        if (p->at[v->arg[k + 1]].type != p->at[header->arg[k]].type) return false;
    Prog *q = as_called(p, v);
    bool possible = q != NULL;
    free(q);
    return possible;
}
// The body is evaluated again, and then its values are what they were.
void eval_call(Eval *e, const Value *v, Tensor *out) {
    const Prog *p = e->prog;
    Prog *q = as_called(p, v);
    if (!q) abort(); // it was inferred
    int id = (int)(v - p->at), end = v->arg[0], h = p->at[end].arg[0], count = emissions(p, end);
    size_t bytes = (size_t)(end - h) * sizeof(Tensor);
    Tensor *body = eval_block(e, bytes), *kept = e->kept[id] = eval_block(e, (size_t)count * sizeof *kept);
    memcpy(body, e->value + h, bytes);
    memcpy(e->owner[h], e->instance[h], MAX_PATH);
    forget_body(e, h);
    for (int k = 0; k < p->at[h].nargs; k++) {
        int formal = header_name(p, h, k);
        if (formal >= 0) e->value[formal] = arg(e, v, k + 1);
    }
    e->prog = q;
    eval_range(e, h + 1, end);
    e->prog = p;
    free(q);
    for (int k = 0; k < count; k++) kept[k] = e->value[p->at[end].arg[1 + k]];
    memcpy(e->value + h, body, bytes);
    *out = t_number(e, 0);
}
// Now and then all arguments are longer or shorter, along their first axis.
static Value resized(const Value *formal, int from, int to) {
    Value v = *formal;
    if (to && v.shape.rank && v.shape.n[0] == from && !(v.shape.bounded & 1)) v.shape.n[0] = to;
    return v;
}
// Something of that type and shape: what there is, the latest more often, or new.
static int pick_like(Gen *g, const Value *like) {
    int found = -1;
    for (int i = 0; i < g->prog->count; i++) {
        const Value *v = &g->prog->at[i];
        bool fits = !v->inlined && v->type == like->type && shape_equal(&v->shape, &like->shape) && visible(g->prog, g->scope, i);
        if (fits && (found < 0 || below(g, 3))) found = i;
    }
    return found >= 0 && below(g, 6) ? found : fresh(g, like->type, like->shape);
}
bool propose_sharing(Gen *g, Value *v) {
    const Prog *p = g->prog;
    int end = -1, seen = 0;
    for (int i = 0; i < p->count; i++)
        if (is_end(&p->at[i]) && may_share(p, i, g->scope) && below(g, ++seen) == 0) end = i;
    if (end < 0) return false;
    Value call = {.op = op_named("sharing call"), .nargs = 1, .arg = {end}};
    const Value *header = &p->at[p->at[end].arg[0]];
    const Shape *first = &p->at[header->arg[0]].shape;
    int from = first->rank > 1 && !(first->bounded & 1) ? first->n[0] : 0, to = from && below(g, 3) == 0 ? 1 + below(g, 5) : 0;
    for (int k = 0; k < header->nargs; k++) {
        Value like = resized(&p->at[header->arg[k]], from, to);
        if (!take(&call, pick_like(g, &like))) return false;
    }
    int made = push_value(g, call);
    return made >= 0 && draw_results(g, made, v);
}

// ---- the index of a `repeat` -----------------------------------------------------------------------------------------------
enum { I_TIMES, I_PLUS, I_POWER, I_OVER, I_MINUS, I_EIGHTHS, I_HALF, I_ODD, I_TWO, I_FORMS };
// One of the loops around what is drawn.
static int some_loop(Gen *g) {
    int found = -1, seen = 0;
    for (int s = g->scope; s && !is_layer(&g->prog->at[s - 1]); s = g->prog->at[s - 1].scope)
        if (is_repeat(&g->prog->at[s - 1]) && below(g, ++seen) == 0) found = s - 1;
    return found;
}
static bool loop_there(const Prog *p, const Value *v, int loop) {
    return is_repeat(&p->at[loop]) && visible(p, v->scope, loop + 1);
}

// attrs: the loop, form, a number, another loop
bool propose_by_index(Gen *g, Value *v) {
    int loop = some_loop(g);
    if (loop < 0) return false;
    v->nattrs = 4, v->attr[0] = loop, v->attr[1] = below(g, I_FORMS);
    v->attr[2] = 1 + below(g, 3) - least_index(&g->prog->at[loop]);
    v->attr[3] = some_loop(g);
    return take(v, pick(g, D_F, 0, 3));
}
bool propose_int_by_index(Gen *g, Value *v) {
    static const int forms[] = {I_TIMES, I_PLUS, I_MINUS, I_HALF, I_ODD, I_TWO};
    int a = pick(g, D_I, 0, 3);
    if (!propose_by_index(g, v)) return false;
    v->attr[1] = forms[below(g, 6)];
    v->nargs = 0;
    return take(v, a);
}
bool infer_by_index(const Prog *p, Value *v) {
    infer_same(p, v);
    v->type = p->at[v->arg[0]].type;
    bool of_floats = v->attr[1] == I_POWER || v->attr[1] == I_OVER || v->attr[1] == I_EIGHTHS;
    bool well = v->attr[2] + least_index(&p->at[v->attr[0]]) > 0 && (v->type == D_F || (v->type == D_I && !of_floats));
    return well && loop_there(p, v, v->attr[0]) && loop_there(p, v, v->attr[3]);
}
static Tensor constant(Eval *e, Type type, double x) {
    Tensor t = t_number(e, x);
    t.type = type;
    return t;
}
void eval_by_index(Eval *e, const Value *v, Tensor *out) {
    Tensor x = arg(e, v, 0);
    int i = index_now(e, v->attr[0]), j = index_now(e, v->attr[3]), c = v->attr[2];
    switch (v->attr[1]) {
    case I_TIMES: *out = t_point2(e, T_MUL, x, constant(e, x.type, i)); break;
    case I_PLUS: *out = t_point2(e, T_ADD, x, constant(e, x.type, i)); break;
    case I_POWER: *out = t_point2(e, T_MUL, x, t_number(e, pow(0.5, i))); break;
    case I_OVER: *out = t_point2(e, T_DIV, x, t_number(e, i + c)); break;
    case I_MINUS: *out = t_point2(e, T_SUB, x, constant(e, x.type, 3 * i)); break;
    case I_EIGHTHS: *out = t_point2(e, T_MUL, x, t_number(e, 1 - i / 8.0)); break;
    case I_HALF: *out = t_point2(e, T_MUL, x, constant(e, x.type, floor(i / 2.0))); break;
    case I_ODD: *out = t_point2(e, T_ADD, x, constant(e, x.type, i - 2 * floor(i / 2.0))); break;
    default: *out = t_point2(e, T_ADD, x, constant(e, x.type, 2 * i + j)); break;
    }
}
static void print_number_by_index(FILE *f, const Prog *p, const Value *v) {
    int i = v->attr[0], c = v->attr[2];
    print_arg(f, p, v->arg[0], false);
    switch (v->attr[1]) {
    case I_TIMES: fprintf(f, " * i%d", i); break;
    case I_PLUS: fprintf(f, " + i%d", i); break;
    case I_POWER: fprintf(f, " * 0.5^i%d", i); break;
    case I_OVER: fprintf(f, c < 0 ? " / (i%d - %d)" : " / (i%d + %d)", i, c < 0 ? -c : c); break;
    case I_MINUS: fprintf(f, " - 3 * i%d", i); break;
    case I_EIGHTHS: fprintf(f, " * (1 - i%d / 8.0)", i); break;
    case I_HALF: fprintf(f, " * floor_div(i%d, 2)", i); break;
    case I_ODD: fprintf(f, " + mod(i%d, 2)", i); break;
    default: fprintf(f, " + (2 * i%d + i%d)", i, v->attr[3]); break;
    }
}

// x[.., i + 1, ..] or x[.., i + 1:i + 3, ..].  attrs: the loop, the axis, what is added to the index, whether it counts from the
// end, how many, their step
enum { X_LOOP, X_AXIS, X_ADD, X_FROM_END, X_COUNT, X_STEP };
static int place_at(const Value *v, const Shape *s, int index) {
    return v->attr[X_FROM_END] ? s->n[v->attr[X_AXIS]] - 1 - index + v->attr[X_ADD] : index + v->attr[X_ADD];
}
bool propose_index_at(Gen *g, Value *v) {
    int loop = some_loop(g), a = pick(g, below(g, 6) ? D_F : D_I, 1, 3);
    if (loop < 0 || a < 0) return false;
    const Value *header = &g->prog->at[loop];
    int low = least_index(header), high = most_index(g->prog, header), slice = ops[v->op].code, axis;
    int count = slice ? 1 + below(g, 3) : 1, step = slice && below(g, 3) == 0 ? 2 : 1, span = high - low + 1 + (count - 1) * step;
    for (axis = 0; axis < g->prog->at[a].shape.rank; axis++)
        if (g->prog->at[a].shape.n[axis] >= span && !(g->prog->at[a].shape.bounded >> axis & 1)) break;
    if (axis == g->prog->at[a].shape.rank) {
        axis = below(g, 2);
        Shape s = flat_shape(2, 1 + below(g, 4), 1 + below(g, 4));
        s.n[axis] = span + below(g, 3);
        a = fresh(g, g->prog->at[a].type, s);
    }
    if (a < 0) return false;
    int room = g->prog->at[a].shape.n[axis] - span, from_end = !slice && below(g, 3) == 0;
    int attr[] = {loop, axis, from_end ? low - below(g, room + 1) : below(g, room + 1) - low, from_end, count, step};
    v->nattrs = 6;
    memcpy(v->attr, attr, sizeof attr);
    return take(v, a);
}
bool infer_index_at(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    int axis = v->attr[X_AXIS], slice = ops[v->op].code, reach = (v->attr[X_COUNT] - 1) * v->attr[X_STEP];
    v->type = p->at[v->arg[0]].type, v->shape = *s;
    if (axis >= s->rank || s->bounded >> axis & 1 || v->type == D_NONE || !loop_there(p, v, v->attr[X_LOOP])) return false;
    const Value *loop = &p->at[v->attr[X_LOOP]];
    int first = place_at(v, s, least_index(loop)), last = place_at(v, s, most_index(p, loop));
    if (first < 0 || last < 0 || first + reach >= s->n[axis] || last + reach >= s->n[axis]) return false;
    if (slice) v->shape.n[axis] = v->attr[X_COUNT];
    else v->shape = reduced_shape(s, 1u << axis, false);
    return true;
}
void eval_index_at(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int axis = v->attr[X_AXIS], slice = ops[v->op].code, at[MAX_RANK], from[MAX_RANK];
    int place = place_at(v, &a.shape, index_now(e, v->attr[X_LOOP]));
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        for (int d = 0; d < a.shape.rank; d++) {
            int along = slice || d < axis ? d : d - 1;
            from[d] = d != axis ? at[along] : place + (slice ? at[d] * v->attr[X_STEP] : 0);
        }
        out->id[i] = a.id[ravel(&a.shape, from)];
    }
}
static void print_sum(FILE *f, int i, int add) {
    fprintf(f, add ? "i%d %c %d" : "i%d", i, add < 0 ? '-' : '+', add < 0 ? -add : add);
}
static void print_index_at(FILE *f, const Prog *p, const Value *v) {
    int i = v->attr[X_LOOP], add = v->attr[X_ADD], reach = v->attr[X_COUNT] * v->attr[X_STEP];
    print_arg(f, p, v->arg[0], false);
    fputc('[', f);
    for (int d = 0; d < v->attr[X_AXIS]; d++) fputs(":, ", f);
    if (v->attr[X_FROM_END]) fprintf(f, "%d - i%d", add - 1, i);
    else print_sum(f, i, add);
    if (ops[v->op].code) fputc(':', f), print_sum(f, i, add + reach);
    if (ops[v->op].code && v->attr[X_STEP] > 1) fprintf(f, ":%d", v->attr[X_STEP]);
    fputc(']', f);
}

// Another value in some rounds.  attrs: the loop, form, a number
bool propose_if_index(Gen *g, Value *v) {
    int loop = some_loop(g), a = pick(g, D_F, 0, 3);
    if (loop < 0 || a < 0) return false;
    v->nattrs = 3, v->attr[0] = loop, v->attr[1] = below(g, 3), v->attr[2] = least_index(&g->prog->at[loop]) + below(g, 3);
    return take(v, a) && take(v, pick_like(g, &g->prog->at[a]));
}
bool infer_if_index(const Prog *p, Value *v) {
    const Value *a = &p->at[v->arg[0]], *b = &p->at[v->arg[1]];
    v->type = a->type, v->shape = a->shape;
    return a->type == D_F && b->type == D_F && shape_equal(&a->shape, &b->shape) && loop_there(p, v, v->attr[0]);
}
void eval_if_index(Eval *e, const Value *v, Tensor *out) {
    int i = index_now(e, v->attr[0]), c = v->attr[2];
    bool holds = v->attr[1] == 0 ? i == c : v->attr[1] == 1 ? i > c : i % 2 == 0;
    *out = arg(e, v, holds ? 0 : 1);
}
static void print_if_index(FILE *f, const Prog *p, const Value *v) {
    static const char *const forms[] = {"(if i%d == %d then ", "(if i%d > %d then ", "(if mod(i%d, 2) == 0 then "};
    fprintf(f, forms[v->attr[1]], v->attr[0], v->attr[2]);
    print_arg(f, p, v->arg[0], false);
    fprintf(f, " else ");
    print_arg(f, p, v->arg[1], false);
    fputc(')', f);
}

void print_by_index(FILE *f, const Prog *p, int id) {
    const Value *v = &p->at[id];
    if (ops[v->op].eval == eval_index_at) print_index_at(f, p, v);
    else if (ops[v->op].eval == eval_if_index) print_if_index(f, p, v);
    else print_number_by_index(f, p, v);
}
