// A state of several rows that is read and written in turn: some rows at a place, all of them shifted by one, or every element.
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include "tests/net/scan.h"

// attrs: how it begins, rows, a place, a loop or -1, then what is done with it, in order
enum { C_FIRST, C_ROWS, C_PLACE, C_LOOP, C_ACTIONS };
typedef enum { S_READ, S_AT_PLACE, S_AT_VALUE, S_AT_STEP, S_AT_INDEX, S_SHIFT, S_FILL, S_DECAY, S_ADD, S_KINDS } Action;
enum { F_ZEROS, F_ONES, F_PARAM };

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static int below(Gen *g, int n) { return random_below(&g->random, n); }
static bool by_value(const Prog *p, const Value *v) { return v->nargs > 1 && p->at[v->arg[1]].type == D_I; }
static int first_of(const Value *v) { return v->arg[v->nargs - 1]; } // the parameter that it begins as

static int pick_leaf(Gen *g, Type type, const Shape *s) {
    int found = -1, seen = 0;
    for (int i = 0; i < g->prog->count; i++) {
        const Value *v = &g->prog->at[i];
        bool fits = is_leaf(v) && v->type == type && is_input(v) == (type == D_I) && shape_equal(&v->shape, s);
        if (fits && visible(g->prog, g->scope, i) && below(g, ++seen) == 0) found = i;
    }
    return found >= 0 || type == D_F ? found : fresh(g, type, *s);
}
static int loop_around(const Gen *g) {
    int h = g->scope - 1;
    return h >= 0 && is_repeat(&g->prog->at[h]) && most_index(g->prog, &g->prog->at[h]) < 8 ? h : -1;
}
static void draw_actions(Gen *g, Value *v, int count, bool value) {
    int reads = 0;
    for (int k = 0; k < count; k++) {
        int a = below(g, S_KINDS);
        if (a == S_AT_VALUE && !value) a = S_AT_PLACE;
        if (a == S_AT_INDEX && v->attr[C_LOOP] < 0) a = S_READ;
        if (k == count - 1 && !reads) a = S_READ;
        reads += a == S_READ;
        v->attr[v->nattrs++] = a;
    }
}
bool propose_cache(Gen *g, Value *v) {
    int x = pick(g, D_F, 1, 3);
    if (x < 0 || in_rounds(g->prog, g->scope)) return false;
    Shape s = g->prog->at[x].shape, scalar = {0};
    int loop = loop_around(g), k = s.n[0];
    if (s.bounded || k < 1 || k > 6 || shape_size(&s) > 100) return false;
    s.n[0] = k + below(g, 4) + (loop >= 0 ? most_index(g->prog, &g->prog->at[loop]) : 0);
    int place = below(g, s.n[0] - k + 1), begin = pick_leaf(g, D_F, &s), at = below(g, 2) ? pick_leaf(g, D_I, &scalar) : -1;
    int attr[] = {begin >= 0 && below(g, 2) ? F_PARAM : below(g, 2), s.n[0], place, loop};
    for (v->nattrs = 0; v->nattrs < C_ACTIONS; v->nattrs++) v->attr[v->nattrs] = attr[v->nattrs];
    draw_actions(g, v, 2 + below(g, 5), at >= 0);
    return take(v, x) && (at < 0 || take(v, at)) && (attr[C_FIRST] != F_PARAM || take(v, begin));
}
static bool has_action(const Value *v, Action a) {
    bool has = false;
    for (int k = C_ACTIONS; k < v->nattrs; k++) has |= v->attr[k] == (int)a;
    return has;
}
bool infer_cache(const Prog *p, Value *v) {
    Shape part = p->at[v->arg[0]].shape;
    int loop = v->attr[C_LOOP], room = v->attr[C_ROWS] - part.n[0];
    v->type = D_F, v->shape = part;
    if (part.rank < 1 || part.bounded || part.n[0] < 1 || p->at[v->arg[0]].type != D_F || v->attr[C_PLACE] > room) return false;
    v->shape.n[0] = v->attr[C_ROWS];
    if (has_action(v, S_AT_VALUE) && (!by_value(p, v) || p->at[v->arg[1]].shape.rank)) return false;
    bool inside = loop >= 0 && is_repeat(&p->at[loop]) && visible(p, v->scope, loop + 1) && most_index(p, &p->at[loop]) <= room;
    if (has_action(v, S_AT_INDEX) && !inside) return false;
    if (v->attr[C_FIRST] != F_PARAM) return true;
    const Value *first = &p->at[first_of(v)];
    return is_leaf(first) && !is_input(first) && shape_equal(&first->shape, &v->shape);
}

// ---- values ----------------------------------------------------------------------------------------------------------------
static Tensor written(Eval *e, Tensor s, Tensor part, int start) {
    Tensor r = tensor_make(e, s.shape, D_F);
    int row = shape_size(&s.shape) / s.shape.n[0], size = shape_size(&part.shape);
    for (int i = 0; i < shape_size(&s.shape); i++) {
        int from = i - start * row;
        r.id[i] = from >= 0 && from < size ? part.id[from] : s.id[i];
    }
    return r;
}
static Tensor shifted(Eval *e, Tensor s, Tensor part) {
    Tensor r = tensor_make(e, s.shape, D_F);
    int size = shape_size(&s.shape), row = size / s.shape.n[0];
    for (int i = 0; i < size; i++) r.id[i] = i + row < size ? s.id[i + row] : part.id[i + row - size];
    return r;
}
static Tensor read_into(Eval *e, Tensor sum, Tensor s) { // of the first read, what is read
    return sum.id ? t_point2(e, T_SUB, sum, t_point2(e, T_MUL, t_number(e, 0.5), s)) : s;
}
static Tensor changed(Eval *e, const Value *v, Action a, Tensor s) {
    Tensor x = arg(e, v, 0);
    int step = e->step > 1 ? e->step : 1;
    switch (a) {
    case S_AT_PLACE: return written(e, s, x, v->attr[C_PLACE]);
    case S_AT_VALUE: return written(e, s, x, (int)e->tape.at[arg(e, v, 1).id[0]].value);
    case S_AT_STEP: return written(e, s, x, step % v->attr[C_ROWS]);
    case S_AT_INDEX: return written(e, s, x, index_now(e, v->attr[C_LOOP]));
    case S_SHIFT: return shifted(e, s, x);
    case S_FILL: return t_broadcast(e, t_number(e, 0.25), s.shape);
    case S_DECAY: return t_point2(e, T_MUL, t_number(e, 0.5), s);
    default: return t_point2(e, T_ADD, s, t_number(e, 1));
    }
}
void eval_cache(Eval *e, const Value *v, Tensor *out) {
    int id = (int)(v - e->prog->at), first = v->attr[C_FIRST];
    char own[32], path[MAX_PATH];
    snprintf(own, sizeof own, "s%d", id);
    path_now(e, id, own, path);
    Tensor begin = first == F_PARAM ? t_point2(e, T_MUL, t_number(e, 0.5), e->value[first_of(v)])
                                    : t_broadcast(e, t_number(e, first), v->shape);
    Tensor s = eval_state_from(e, path, begin);
    *out = (Tensor){0};
    for (int k = C_ACTIONS; k < v->nattrs && !e->tape.full; k++) {
        if (v->attr[k] == S_READ) *out = read_into(e, *out, s);
        else s = changed(e, v, (Action)v->attr[k], s);
    }
    state_set(e, path, s);
}

// ---- text ------------------------------------------------------------------------------------------------------------------
static void print_part(FILE *f, const Prog *p, int id) { print_arg(f, p, p->at[id].arg[0], false); }
static void print_written(FILE *f, const Prog *p, int id, Action a) {
    const Value *v = &p->at[id];
    fprintf(f, "update(s%d, ", id);
    print_part(f, p, id);
    fprintf(f, ", ");
    if (a == S_AT_PLACE) print_constant(f, p, v->attr[C_PLACE]);
    else if (a == S_AT_VALUE) print_arg(f, p, v->arg[1], false);
    else if (a == S_AT_STEP) fprintf(f, "mod(int(step), %d)", v->attr[C_ROWS]);
    else fprintf(f, "i%d", v->attr[C_LOOP]);
    fputc(')', f);
}
static void print_change(FILE *f, const Prog *p, int id, Action a) {
    fprintf(f, "s%d <- ", id);
    if (a == S_FILL) fprintf(f, "0.25");
    else if (a == S_DECAY) fprintf(f, "0.5 * s%d", id);
    else if (a == S_ADD) fprintf(f, "s%d + 1", id);
    else if (a != S_SHIFT) print_written(f, p, id, a);
    else fprintf(f, "concat(s%d[1:], ", id), print_part(f, p, id), fprintf(f, "[:1], axis = 0)");
}
static void print_first(FILE *f, const Prog *p, int id) {
    const Value *v = &p->at[id];
    fprintf(f, "state s%d = ", id);
    if (v->attr[C_FIRST] == F_PARAM) fprintf(f, "0.5 * "), print_arg(f, p, first_of(v), false);
    else fprintf(f, v->attr[C_FIRST] ? "ones " : "zeros "), print_shape(f, &v->shape);
}
void print_cache(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    int reads = 0;
    (void)torch;
    print_first(f, p, id);
    for (int k = C_ACTIONS; k < v->nattrs; k++) {
        fprintf(f, "\n    ");
        print_indent(f, p, id);
        if (v->attr[k] != S_READ) print_change(f, p, id, (Action)v->attr[k]);
        else if (reads++) fprintf(f, "v%d = v%d - 0.5 * s%d", p->at[id].name, p->at[id].name, id);
        else fprintf(f, "v%d = s%d", p->at[id].name, id);
    }
    fputc('\n', f);
}
