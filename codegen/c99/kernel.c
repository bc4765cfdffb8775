/* One kernel as one C function: grid loops, then the block, each instruction that is not inline as a loop nest. */
#include "codegen/c99/internal.h"
#include "ir/memory.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_block(Printer *p, const Block *b);

/* ---- scopes -------------------------------------------------------------------------------------------- */
static void close_scope(Printer *p) {
    p->depth--;
    c99_line(p, "}");
    for (int v = 0; v < p->k->types.n; v++)
        if (p->val[v].temporary && p->val[v].temporary_depth > p->depth) p->val[v].temporary = NULL;
}

static bool is_single(const Printer *p, int axis) {
    const Dim d = p->k->axes.at[axis].extent;
    return dim_is_fixed(d) && d.bound == 1;
}

/* Where the loop begins and ends: its own bounds, within the axis. */
static void print_bounds(Printer *p, const Inst *loop, const char **first, const char **end) {
    const AxisName *a = &p->axis[loop->axis];
    if (loop->from) {
        *first = c99_unique(p->arena, &p->names, arena_printf(p->arena, "%s_from", a->index));
        c99_line(p, "%s %s = (%s)(%s);", a->type, *first, a->type, c99_index(p, loop->from, false).s);
        c99_line(p, "%s = %s < 0 ? 0 : %s%s;", *first, *first, *first,
                 a->step == 1 ? "" : arena_printf(p->arena, " - %s %% %d", *first, a->step));
    }
    if (loop->to) {
        const char *to = c99_unique(p->arena, &p->names, arena_printf(p->arena, "%s_to", a->index));
        c99_line(p, "%s %s = (%s)(%s);", a->type, to, a->type, c99_index(p, loop->to, false).s);
        c99_line(p, "%s = %s < %s ? %s : %s;", to, to, *end, to, *end);
        *end = to;
    }
}

/* A grid or loop axis: one index at a time, or tile by tile when lanes remain.  `loop`: the instruction, of a loop
 * axis.  False if it needs no loop. */
static bool open_axis(Printer *p, int axis, const Inst *loop) {
    AxisName *a = &p->axis[axis];
    const Dim d = p->k->axes.at[axis].extent;
    if (is_single(p, axis)) return false;
    const char *extent = c99_extent(p, d);
    const bool lanes = c99_has_lanes(p, axis);
    const char *name = lanes ? a->base : a->index, *first = "0", *end = extent;
    if (loop) print_bounds(p, loop, &first, &end);
    const char *next = a->step == 1 ? arena_printf(p->arena, "%s++", name) : arena_printf(p->arena, "%s += %d", name, a->step);
    c99_line(p, "for (%s %s = %s; %s < %s; %s) {", a->type, name, first, name, end, next);
    p->depth++;
    if (!lanes)
        a->open = true;
    else if (dim_is_fixed(d) && d.bound % a->step == 0)
        c99_line(p, "const %s %s = %s + %d;", a->type, a->end, a->base, a->step);
    else
        c99_line(p, "const %s %s = %s - %s < %d ? %s : %s + %d;", a->type, a->end, extent, a->base, a->step, extent,
                 a->base, a->step);
    return true;
}

static void close_axis(Printer *p, int axis, bool opened) {
    if (!opened) return;
    p->axis[axis].open = false;
    close_scope(p);
}

static void open_lanes(Printer *p, int axis) {
    AxisName *a = &p->axis[axis];
    const bool span = p->k->axes.at[axis].kind == AXIS_SPAN;
    const Dim d = p->k->axes.at[axis].extent;
    const char *first = span ? "0" : a->base, *end = span ? c99_extent(p, d) : a->end;
    const char *last = span && dim_is_fixed(d) ? arena_printf(p->arena, "%lld", (long long)d.bound - 1)
                                               : arena_printf(p->arena, "%s - 1", end);
    if (a->descends)
        c99_line(p, "for (%s %s = %s; %s >= %s; %s--) {", a->type, a->index, last, a->index, first, a->index);
    else
        c99_line(p, "for (%s %s = %s; %s < %s; %s++) {", a->type, a->index, first, a->index, end, a->index);
    p->depth++;
    a->open = true;
}

/* Opens lanes axes[from .. to), printing before each loop what does not change inside it. */
static void open_nest(Printer *p, int from, int to, const int8_t *axes, int n, const int *values) {
    for (int i = from; i < to; i++) {
        for (int v = 0; v < n; v++) c99_prepare(p, values[v]);
        open_lanes(p, axes[i]);
    }
}

static void close_nest(Printer *p, int n, const int8_t *axes) {
    for (int i = n - 1; i >= 0; i--) close_axis(p, axes[i], true);
}

/* ---- storage ------------------------------------------------------------------------------------------------ */
static char *dimensions(Printer *p, const TileType *t) {
    int8_t axes[MAX_TILE_AXES];
    int64_t bytes = dtype_bytes(t->dtype);
    char *s = arena_strdup(p->arena, "");
    const int n = c99_lane_axes(p, t, axes);
    for (int i = 0; i < n; i++) {
        const Axis *x = &p->k->axes.at[axes[i]];
        int64_t lanes = x->kind == AXIS_SPAN ? x->extent.bound : p->axis[axes[i]].step;
        if (lanes < 1) lanes = 1;
        s = arena_printf(p->arena, "%s[%" PRId64 "]", s, lanes);
        if (__builtin_mul_overflow(bytes, lanes, &bytes)) bytes = INT64_MAX / 2;
    }
    if (n && __builtin_add_overflow(p->array_bytes, bytes, &p->array_bytes)) p->array_bytes = INT64_MAX / 2;
    p->n_values++;
    return s;
}

/* Gives value a variable of its own; declares it unless it is to be declared with its first value. */
static bool declare(Printer *p, int value) {
    Val *v = &p->val[value];
    v->storage = arena_printf(p->arena, "v%d", value);
    v->storage_type = p->k->types.at[value];
    const char *dims = dimensions(p, &v->storage_type);
    if (!*dims) return false;
    c99_line(p, "%s %s%s;", c99_type(v->storage_type.dtype, false), v->storage, dims);
    return true;
}

/* value's storage <- source, lane by lane; a scalar is declared here. */
static void declare_from(Printer *p, int value, int source) {
    int8_t axes[MAX_TILE_AXES];
    const int n = c99_lane_axes(p, &p->k->types.at[value], axes);
    if (!declare(p, value)) {
        const char *text = c99_value(p, source).s;
        c99_line(p, "%s %s = %s;", c99_type(p->k->types.at[value].dtype, false), p->val[value].storage, text);
        return;
    }
    open_nest(p, 0, n, axes, 1, &source);
    const char *text = c99_value(p, source).s;
    c99_line(p, "%s = %s;", c99_place(p, value), text);
    close_nest(p, n, axes);
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */
static void print_named(Printer *p, const Inst *i) {
    int8_t axes[MAX_TILE_AXES];
    const int n = c99_lane_axes(p, &i->type, axes);
    if (n == 0) {
        c99_name(p, i->result);
        return;
    }
    declare(p, i->result);
    open_nest(p, 0, n, axes, i->n_in, i->in);
    const char *text = c99_compute(p, i).s;
    c99_line(p, "%s = %s;", c99_place(p, i->result), text);
    close_nest(p, n, axes);
}

static void print_store(Printer *p, const Inst *i) {
    int8_t axes[MAX_TILE_AXES];
    const int n = c99_nest(p, i, axes);
    open_nest(p, 0, n, axes, i->n_in, i->in);
    const char *condition = i->n_in > 1 ? c99_value(p, i->in[1]).s : NULL;
    const DType t = p->k->buffers.at[i->buffer].dtype;
    const char *value = c99_to_memory(p, t, c99_value(p, i->in[0])).s, *element = c99_element(p, i);
    if (condition)
        c99_line(p, "if (%s) %s = %s;", condition, element, value);
    else
        c99_line(p, "%s = %s;", element, value);
    close_nest(p, n, axes);
}

/* place op= x, by the op's own spelling where C has no such assignment */
static void print_update(Printer *p, Op op, DType t, const char *place, Text x) {
    if (dtype_is_float(t) && !dtype_is_low(t) && (op == OP_ADD || op == OP_MUL)) {
        c99_line(p, "%s %c= %s;", place, op == OP_ADD ? '+' : '*', x.s);
        return;
    }
    c99_line(p, "%s = %s;", place, c99_operation(p, op, t, t, (Text[]){{place, LEVEL_ATOM}, x}).s);
}

/* The carry that the DOT may update in place, or -1. */
static int carry_of(const Printer *p, const Inst *dot) {
    if (!p->loop || p->loop->kind != TI_FOR) return -1;
    const Inst *yield = vec_last(p->loop->body);
    for (int c = 0; c < p->loop->n_carry; c++)
        if (yield->in[c] == dot->result && c99_is_in_place(p, p->loop, c)) return p->loop->carry[c];
    return -1;
}

static Text product(Printer *p, const Inst *dot) {
    const DType factor = p->k->types.at[dot->in[0]].dtype, t = dtype_is_low(factor) ? DT_F32 : factor;
    const Text x = c99_value(p, dot->in[0]), y = c99_value(p, dot->in[1]);
    return c99_operation(p, OP_MUL, t, t, (Text[]){x, y});
}

static void print_dot(Printer *p, const Inst *i) {
    int8_t axes[MAX_TILE_AXES], kept[MAX_TILE_AXES];
    const int n = c99_nest(p, i, axes), n_kept = c99_lane_axes(p, &i->type, kept), carry = carry_of(p, i);
    bool start = i->in[2] != carry;
    if (carry >= 0) {
        p->val[i->result].storage = p->val[carry].storage;
        p->val[i->result].storage_type = p->val[carry].storage_type;
    } else if (!declare(p, i->result)) {
        const char *text = c99_value(p, i->in[2]).s;
        c99_line(p, "%s %s = %s;", c99_type(i->type.dtype, false), p->val[i->result].storage, text);
        start = false;
    }
    open_nest(p, 0, n_kept, axes, i->n_in, i->in);
    const char *place = c99_place(p, i->result);
    if (start) {
        const char *text = c99_value(p, i->in[2]).s;
        c99_line(p, "%s = %s;", place, text);
    }
    open_nest(p, n_kept, n, axes, 2, i->in);
    const Text x = product(p, i);
    print_update(p, OP_ADD, i->type.dtype, place, x);
    close_nest(p, n, axes);
}

static void print_reduce(Printer *p, const Inst *i) {
    int8_t axes[MAX_TILE_AXES], kept[MAX_TILE_AXES];
    const int n = c99_nest(p, i, axes), n_kept = c99_lane_axes(p, &i->type, kept);
    const char *start = c99_literal(p->arena, i->type.dtype, scalar_identity(i->op, i->type.dtype));
    const bool array = declare(p, i->result);
    if (!array) c99_line(p, "%s %s = %s;", c99_type(i->type.dtype, false), p->val[i->result].storage, start);
    open_nest(p, 0, n_kept, axes, 1, i->in);
    const char *place = c99_place(p, i->result);
    if (array) c99_line(p, "%s = %s;", place, start);
    open_nest(p, n_kept, n, axes, 1, i->in);
    const Text x = c99_value(p, i->in[0]);
    print_update(p, scalar_step(i->op), i->type.dtype, place, x);
    close_nest(p, n, axes);
}

/* ---- loops and conditions ---------------------------------------------------------------------------------------- */
static void share_storage(Printer *p, int to, int from) {
    p->val[to].storage = p->val[from].storage;
    p->val[to].storage_type = p->val[from].storage_type;
}

static void use_results(Printer *p, const Inst *i) {
    for (int c = 0; c < i->n_carry; c++)
        if (p->val[i->results[c]].uses == 0) c99_line(p, "(void)%s;", p->val[i->results[c]].storage);
}

static void print_body(Printer *p, const Inst *i) {
    const Inst *outer = p->loop;
    p->loop = i;
    print_block(p, &i->body);
    p->loop = outer;
}

/* Slot j of the instruction starts as init[j], in the enclosing loop's own variable where it can. */
static void start_slot(Printer *p, const Inst *i, int j) {
    const int value = i->kind == TI_FOR ? i->carry[j] : i->results[j];
    const Inst *inner;
    for (int c = 0; p->loop && c < p->loop->n_carry; c++)
        if (c99_shared_slot(p, p->loop, c, &inner) == j && inner == i) {
            share_storage(p, value, p->loop->carry[c]);
            return;
        }
    declare_from(p, value, i->init[j]);
}

static void print_for(Printer *p, const Inst *i) {
    for (int c = 0; c < i->n_carry; c++) start_slot(p, i, c);
    const bool opened = open_axis(p, i->axis, i);
    print_body(p, i);
    close_axis(p, i->axis, opened);
    for (int c = 0; c < i->n_carry; c++) share_storage(p, i->results[c], i->carry[c]);
    use_results(p, i);
}

static void print_if(Printer *p, const Inst *i) {
    for (int c = 0; c < i->n_carry; c++) start_slot(p, i, c);
    const char *condition = c99_value(p, i->in[0]).s;
    c99_line(p, "if (%s) {", condition);
    p->depth++;
    print_body(p, i);
    close_scope(p);
    use_results(p, i);
}

static int target_of(const Inst *loop, int c) { return loop->kind == TI_FOR ? loop->carry[c] : loop->results[c]; }

static bool is_assigned(const Printer *p, const Inst *loop, const Inst *yield, int c) {
    if (loop->kind != TI_FOR) return true;
    const Inst *inner;
    return yield->in[c] != loop->carry[c] && !c99_is_in_place(p, loop, c) && c99_shared_slot(p, loop, c, &inner) < 0;
}

/* The value is `target + in[1]`, not computed yet and not needed elsewhere. */
static bool adds_to(const Printer *p, int value, int target) {
    const Val *v = &p->val[value];
    const Inst *i = v->def;
    return i && !v->temporary && !v->storage && v->uses == 1 && i->kind == TI_ELEMENT && i->op == OP_ADD &&
           dtype_is_float(i->type.dtype) && !dtype_is_low(i->type.dtype) &&
           p->val[i->in[0]].storage == p->val[target].storage;
}

/* Assigns, in one nest, all carries with the same lanes as carry `first`: all are computed before any changes. */
static void print_yield_nest(Printer *p, const Inst *yield, int first, bool *done) {
    int8_t axes[MAX_TILE_AXES], other[MAX_TILE_AXES];
    const Inst *loop = p->loop;
    int member[MAX_YIELDS], value[MAX_YIELDS] = {0}, m = 0;
    const int n = c99_lane_axes(p, &p->k->types.at[loop->results[first]], axes);
    for (int c = first; c < loop->n_carry; c++) {
        if (done[c] || c99_lane_axes(p, &p->k->types.at[loop->results[c]], other) != n ||
            memcmp(axes, other, (size_t)n))
            continue;
        done[c] = true;
        value[m] = yield->in[c];
        member[m++] = c;
    }
    open_nest(p, 0, n, axes, m, value);
    const char *text[MAX_YIELDS];
    const bool adds = m == 1 && adds_to(p, value[0], target_of(loop, member[0]));
    if (adds) value[0] = p->val[value[0]].def->in[1];
    for (int j = 0; j < m; j++) {
        text[j] = c99_value(p, value[j]).s;
        if (m == 1 || p->val[value[j]].temporary) continue;
        const char *next = arena_printf(p->arena, "next%d", target_of(loop, member[j]));
        c99_line(p, "const %s %s = %s;", c99_type(p->k->types.at[value[j]].dtype, false), next, text[j]);
        text[j] = next;
    }
    for (int j = 0; j < m; j++) {
        const char *place = c99_place(p, target_of(loop, member[j]));
        c99_line(p, "%s %s %s;", place, adds ? "+=" : "=", text[j]);
    }
    close_nest(p, n, axes);
}

static void print_yield(Printer *p, const Inst *yield) {
    int8_t axes[MAX_TILE_AXES];
    const Inst *loop = p->loop;
    if (!loop || loop->n_carry > MAX_YIELDS) {
        p->failed = "a loop carries too many values";
        return;
    }
    bool done[MAX_YIELDS];
    for (int c = 0; c < loop->n_carry; c++) done[c] = !is_assigned(p, loop, yield, c);
    for (int lanes = MAX_TILE_AXES; lanes >= 0; lanes--)
        for (int c = 0; c < loop->n_carry; c++)
            if (!done[c] && c99_lane_axes(p, &p->k->types.at[loop->results[c]], axes) == lanes)
                print_yield_nest(p, yield, c, done);
}

/* Id number n, in row-major order. */
static const char *id_at(Printer *p, const Inst *i, const char *n) {
    const Buffer *ids = &p->k->buffers.at[i->source];
    const char *sum = NULL;
    int64_t dense = 1;
    bool is_dense = true;
    for (int d = ids->rank - 1; d >= 0; dense *= ids->dim[d--].bound) {
        is_dense &= ids->stride[d] == dense || ids->dim[d].bound == 1;
        const char *digit = dense > 1 ? arena_printf(p->arena, "%s / %" PRId64, n, dense) : n;
        if (d) digit = arena_printf(p->arena, "%s %% %" PRId64, digit, ids->dim[d].bound);
        if (ids->stride[d] != 1) digit = arena_printf(p->arena, "%s * %" PRId64, digit, ids->stride[d]);
        sum = sum ? arena_printf(p->arena, "%s + %s", digit, sum) : digit;
    }
    return arena_printf(p->arena, "%s[%s]", p->buffer[i->source], is_dense || !sum ? n : sum);
}

/* A counting sort, of all rows at once: counts, where each row ends, and, once its positions are written from the last to the
 * first, where it begins. */
static void print_bucket(Printer *p, const Inst *i) {
    const char *out = p->buffer[i->buffer], *r = c99_unique(p->arena, &p->names, "row"), *n = c99_unique(p->arena, &p->names, "n"),
               *id = c99_unique(p->arena, &p->names, "id"), *here = id_at(p, i, n);
    const long long rows = p->k->axes.at[i->axis].extent.bound;
    long long ids = 1;
    for (int d = 0; d < p->k->buffers.at[i->source].rank; d++) ids *= p->k->buffers.at[i->source].dim[d].bound;
    c99_line(p, "for (int32_t %s = 0; %s <= %lld; %s++) {", r, r, rows, r);
    c99_line(p, "    %s[%s] = 0;", out, r);
    c99_line(p, "}");
    c99_line(p, "for (int32_t %s = 0; %s < %lld; %s++) {", n, n, ids, n);
    c99_line(p, "    const int32_t %s = %s;", id, here);
    c99_line(p, "    if (%s >= 0 && %s < %lld) {", id, id, rows);
    c99_line(p, "        %s[%s]++;", out, id);
    c99_line(p, "    }");
    c99_line(p, "}");
    c99_line(p, "for (int32_t %s = 1; %s <= %lld; %s++) {", r, r, rows, r);
    c99_line(p, "    %s[%s] += %s[%s - 1];", out, r, out, r);
    c99_line(p, "}");
    c99_line(p, "for (int32_t %s = %lld; %s >= 0; %s--) {", n, ids - 1, n, n);
    c99_line(p, "    const int32_t %s = %s;", id, here);
    c99_line(p, "    if (%s >= 0 && %s < %lld) {", id, id, rows);
    c99_line(p, "        %s[%lld + --%s[%s]] = %s;", out, rows + 1, out, id, n);
    c99_line(p, "    }");
    c99_line(p, "}");
    p->n_values += 4;
}

static void print_inst(Printer *p, const Inst *i) {
    if (i->result >= 0 && p->val[i->result].uses == 0) return; /* nothing reads it */
    if (c99_is_inline(p, i)) {
        if (p->val[i->result].hold == HOLD_NAMED) print_named(p, i);
        return;
    }
    switch (i->kind) {
    case TI_STORE: print_store(p, i); break;
    case TI_BUCKET: print_bucket(p, i); break;
    case TI_REDUCE: print_reduce(p, i); break;
    case TI_DOT: print_dot(p, i); break;
    case TI_FOR: print_for(p, i); break;
    case TI_IF: print_if(p, i); break;
    case TI_YIELD: print_yield(p, i); break;
    default: break;
    }
}

static void print_block(Printer *p, const Block *b) {
    for (int n = 0; n < b->n; n++) print_inst(p, b->at[n]);
}

/* ---- the function ------------------------------------------------------------------------------------------------ */
static void name_all(Printer *p) {
    Kernel *k = p->k;
    p->buffer = ARENA_ARRAY(p->arena, const char *, k->buffers.n + 1);
    p->sym = ARENA_ARRAY(p->arena, const char *, k->n_syms + 1);
    for (int i = 0; i < k->buffers.n; i++)
        p->buffer[i] = c99_unique(p->arena, &p->names, c99_identifier(p->arena, k->buffers.at[i].name));
    for (int i = 0; i < k->n_syms; i++)
        p->sym[i] =
            c99_unique(p->arena, &p->names,
                       k->sym_names ? c99_identifier(p->arena, k->sym_names[i]) : arena_printf(p->arena, "S%d", i));
    for (int i = 0; i < k->axes.n; i++) {
        AxisName *a = &p->axis[i];
        a->index = c99_unique(p->arena, &p->names, c99_identifier(p->arena, k->axes.at[i].name));
        a->base = c99_unique(p->arena, &p->names, arena_printf(p->arena, "%s_base", a->index));
        a->end = c99_unique(p->arena, &p->names, arena_printf(p->arena, "%s_end", a->index));
        a->type = k->axes.at[i].extent.bound > INT32_MAX - 65536 ? "int64_t" : "int32_t";
    }
}

static bool mentions(const char *text, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += n) {
        const bool left = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
        const bool right = isalnum((unsigned char)at[n]) || at[n] == '_';
        if (!left && !right) return true;
    }
    return false;
}

/* All rows are walked where they are put into buckets. */
static bool is_bucketed(const Kernel *k, int axis) {
    bool found = false;
    for (int n = 0; n < k->body.n; n++) found |= k->body.at[n]->kind == TI_BUCKET && k->body.at[n]->axis == axis;
    return found;
}

/* The body as text, from the grid loops inwards. */
static char *print_grid(Printer *p) {
    TextStream t;
    bool opened[MAX_AXES];
    p->f = text_open(&t);
    p->depth = 1;
    for (int i = 0; i < p->k->axes.n; i++)
        opened[i] = p->k->axes.at[i].kind == AXIS_GRID && !is_bucketed(p->k, i) && open_axis(p, i, NULL);
    print_block(p, &p->k->body);
    for (int i = p->k->axes.n - 1; i >= 0; i--) close_axis(p, i, opened[i]);
    return text_close(&t);
}

/* A comment that cannot end early. */
static void print_comment(FILE *f, const Kernel *k) {
    if (!k->comment || !*k->comment) return;
    fputs("/* ", f);
    for (const char *c = k->comment; *c; c++)
        fputc(*c == '/' && c > k->comment && c[-1] == '*' ? '|' : *c < ' ' && *c >= 0 ? ' ' : *c, f);
    fputs(" */\n", f);
}

/* 0 or 1, as a truth is. */
static bool is_truth(const Printer *p, int value) {
    const Inst *i = p->val[value].def;
    while (i && i->kind == TI_REDUCE) i = p->val[i->in[0]].def;
    if (!i || i->kind != TI_ELEMENT) return false;
    if (i->op == OP_CAST) return p->k->types.at[i->in[0]].dtype == DT_BOOL;
    const Inst *a = i->op == OP_SELECT ? p->val[i->in[1]].def : NULL, *b = a ? p->val[i->in[2]].def : NULL;
    return a && b && a->kind == TI_CONST && b->kind == TI_CONST && fabs(a->value) <= 1 && fabs(b->value) <= 1;
}

/* Does the block read at a place that is a truth? */
static bool reads_by_truth(const Printer *p, const Block *block) {
    bool found = false;
    for (int n = 0; n < block->n && !found; n++) {
        const Inst *i = block->at[n];
        for (int d = 0; d < i->n_index && i->kind == TI_LOAD; d++)
            for (int t = 0; t < i->index[d]->n; t++)
                found |= i->index[d]->term[t].atom.kind == ATOM_VALUE && is_truth(p, i->index[d]->term[t].atom.id);
        found |= reads_by_truth(p, &i->body);
    }
    return found;
}

static void print_signature(Printer *p, FILE *f, const char *name) {
    const char *comma = "", *scalar = "";
    if (reads_by_truth(p, &p->k->body)) {
        c99_use(p->unit, C99_SCALAR);
        scalar = "FUSEC_SCALAR ";
    }
    int column = fprintf(f, "%sFUSEC_KERNEL %s(", scalar, name);
    const int indent = column;
    for (int i = 0; i < p->k->buffers.n + p->k->n_syms; i++) {
        const Buffer *b = i < p->k->buffers.n ? &p->k->buffers.at[i] : NULL;
        char *arg = b ? arena_printf(p->arena, "%s%s *%s%s", b->written ? "" : "const ", c99_type(b->dtype, true),
                                     b->in_place ? "" : "restrict ", p->buffer[i])
                      : arena_printf(p->arena, "int32_t %s", p->sym[i - p->k->buffers.n]);
        if (*comma && column + (int)strlen(arg) > 116) {
            fprintf(f, ",\n%*s", indent, "");
            column = indent;
            comma = "";
        }
        column += fprintf(f, "%s%s", comma, arg);
        comma = ", ";
    }
    fputs(indent == column && !*comma ? "void) {\n" : ") {\n", f);
}

/* Every scalar, array and argument, and three indices per axis; arguments are passed, and kept where nothing is optimised. */
static void note_stack(const Printer *p) {
    const int64_t arguments = p->k->buffers.n + p->k->n_syms, values = p->n_values + arguments + 3 * p->k->axes.n;
    C99Stack *most = &p->unit->stack;
    if (2 * arguments > most->arguments) most->arguments = 2 * arguments;
    if (p->array_bytes > most->arrays) most->arrays = p->array_bytes;
    if (values > most->values) most->values = values;
}

const char *c99_kernel(C99Unit *u, Kernel *k, const char *name) {
    Printer p = {.unit = u, .arena = u->arena, .k = k};
    c99_unique(p.arena, &p.names, name);
    name_all(&p);
    c99_analyse(&p);
    char *body = print_grid(&p);
    TextStream t;
    FILE *f = text_open(&t);
    if (!p.failed) {
        print_comment(f, k);
        print_signature(&p, f, name);
        for (int i = 0; i < k->buffers.n; i++)
            if (!mentions(body, p.buffer[i])) fprintf(f, "    (void)%s;\n", p.buffer[i]);
        for (int i = 0; i < k->n_syms; i++)
            if (!mentions(body, p.sym[i])) fprintf(f, "    (void)%s;\n", p.sym[i]);
        fprintf(f, "%s}\n", body);
    }
    char *text = text_close(&t);
    if (!p.failed) {
        vec_push(u->arena, u->kernels, arena_strdup(u->arena, text));
        if (strstr(body, "FUSEC_INF") || strstr(body, "FUSEC_NAN")) c99_use(u, C99_FLOAT);
        note_stack(&p);
    }
    free(text);
    free(body);
    return p.failed;
}
