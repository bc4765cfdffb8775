/* Reads Tile IR text (index expressions and types: tile_parse_index.c).  Scoping is the verifier's business:
 * the parser only makes sure that everything it builds can be looked at safely. */
#include "ir/tile_text.h"
#include <ctype.h>
#include <string.h>

/* ---- values -------------------- */
static bool define(Parser *p, int v, TileType t) {
    while (p->k->types.n <= v) {
        vec_push(p->a, p->k->types, (TileType){0});
        vec_push(p->a, p->defined, 0);
    }
    if (p->defined.at[v]) return text_fail(p, arena_printf(p->a, "%%%d is defined twice", v));
    p->defined.at[v] = 1;
    p->k->types.at[v] = t;
    return true;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */
static bool block(Parser *p, Block *b);

static Inst *new_inst(Parser *p, TileOp kind) {
    Inst *i = ARENA_NEW(p->a, Inst);
    i->kind = kind;
    i->result = -1;
    return i;
}

static void set_in(Inst *i, const Ints *list) {
    i->n_in = list->n;
    i->in = list->at;
}

/* %x[i, j] */
static bool access(Parser *p, Inst *i) {
    i->index = ARENA_ARRAY(p->a, const Index *, MAX_RANK);
    if (!text_buffer_name(p, &i->buffer) || !text_expect(p, "[")) return false;
    if (text_accept(p, "]")) return true;
    do {
        if (!text_index(p, i)) return false;
    } while (text_accept(p, ","));
    return text_expect(p, "]");
}

static bool load(Parser *p, Inst *i) {
    Ints in = {0};
    int mask;
    if (!access(p, i)) return false;
    if (!text_accept(p, "where")) return true;
    if (!text_value(p, &mask) || !text_expect(p, "else") || !text_number(p, &i->value)) return false;
    vec_push(p->a, in, mask);
    set_in(i, &in);
    return true;
}

enum { MOST_OF_BLOCK = 1 << 16 };

static bool count(Parser *p, const char *name, int *out) {
    return !text_accept(p, name) || text_small(p, 1, MOST_OF_BLOCK, out);
}

/* rows 2:7, rows 12 */
static bool pair(Parser *p, const char *name, int out[2]) {
    if (!text_accept(p, name)) return true;
    return text_small(p, 1, MOST_OF_BLOCK, &out[0]) && (!text_accept(p, ":") || text_small(p, 1, MOST_OF_BLOCK, &out[1]));
}

static bool way(Parser *p, const char *factor, FactorWay *out) {
    if (!text_accept(p, factor)) return true;
    for (int w = WAY_NONE + 1; w < N_WAYS && *out == WAY_NONE; w++)
        if (text_accept(p, way_name[w])) *out = (FactorWay)w;
    return *out != WAY_NONE || text_fail(p, "no factor comes so");
}

static bool prefetch(Parser *p, DotPrefetch *out) {
    if (!text_accept(p, "prefetch")) return true;
    for (int n = PREFETCH_OPEN + 1; n < N_PREFETCH && *out == PREFETCH_OPEN; n++)
        if (text_accept(p, prefetch_name[n])) *out = (DotPrefetch)n;
    return *out != PREFETCH_OPEN || text_fail(p, "none, x, y or both are prefetched");
}

static bool host_schedule(Parser *p, HostSchedule *s) {
    if (!pair(p, "rows", s->rows) || !count(p, "columns", &s->columns) || !pair(p, "taps", s->taps)) return false;
    if (!count(p, "axes", &s->axes) || !count(p, "sums", &s->sums) || !count(p, "strip", &s->strip)) return false;
    if (!way(p, "x", &s->x) || !way(p, "y", &s->y) || !prefetch(p, &s->prefetch)) return false;
    for (int n = START_NONE + 1; n < N_STARTS && s->start == START_NONE; n++)
        if (text_accept(p, start_name[n])) s->start = (DotStart)n;
    return true;
}

/* by threads 16, by tma multicast, by blocks rows 12: one of the ways that `allowed` (bits) names. */
static bool by(Parser *p, Inst *i, unsigned allowed) {
    if (!text_accept(p, "by")) return true;
    for (int b = BY_NONE + 1; b < N_BY && i->by == BY_NONE; b++)
        if (allowed >> b & 1 && text_accept(p, by_name[b])) i->by = (By)b;
    if (i->by == BY_NONE) return text_fail(p, "this instruction is not done by that");
    if (i->by == BY_TMA && i->kind == TI_STAGE) i->multicast = text_accept(p, "multicast");
    if (by_is_host_form(i->by)) return host_schedule(p, &i->host);
    return (i->by != BY_THREADS && i->by != BY_ASYNC) || text_small(p, 1, 16, &i->bytes);
}

static bool store(Parser *p, Inst *i) {
    Ints in = {0};
    int v;
    if (!access(p, i) || !text_expect(p, ",") || !text_value(p, &v)) return false;
    vec_push(p->a, in, v);
    if (text_accept(p, "where")) {
        if (!text_value(p, &v)) return false;
        vec_push(p->a, in, v);
    }
    set_in(i, &in);
    return by(p, i, 1u << BY_THREADS | 1u << BY_TMA);
}

static bool over(Parser *p, Inst *i) {
    int axis;
    if (!text_expect(p, "over")) return false;
    do {
        if (i->n_over == MAX_TILE_AXES) return text_fail(p, "too many axes");
        if (!text_axis_name(p, &axis)) return false;
        i->over[i->n_over++] = (int8_t)axis;
    } while (text_accept(p, ","));
    return true;
}

/* [minor AXIS] [swizzle BYTES] [by ..] */
static bool placed(Parser *p, Inst *i) {
    int axis;
    if (text_accept(p, "minor")) {
        if (!text_axis_name(p, &axis)) return false;
        i->minor = axis + 1;
    }
    if (text_accept(p, "swizzle") && !text_small(p, 32, 128, &i->swizzle)) return false;
    return by(p, i, 1u << BY_THREADS | 1u << BY_ASYNC | 1u << BY_TMA);
}

static bool stage(Parser *p, Inst *i) {
    static const char *const space[] = {"register", "local", "shared"};
    Ints in = {0};
    if (!text_values(p, &in) || !text_expect(p, "->")) return false;
    set_in(i, &in);
    for (int s = SPACE_REGISTER; s <= SPACE_SHARED; s++) {
        i->space = (Space)s;
        if (text_accept(p, space[s])) return placed(p, i);
    }
    return text_fail(p, "expected register, local or shared");
}

static bool operation(Parser *p, Inst *i) {
    Ints in = {0};
    if (!text_values(p, &in)) return false;
    set_in(i, &in);
    if (i->kind == TI_ELEMENT) return true;
    const unsigned host = (1u << (BY_LOOPS + 1)) - (1u << BY_WINDOW);
    return over(p, i) && (i->kind != TI_DOT || by(p, i, 1u << BY_MMA | 1u << BY_WGMMA | host));
}

static bool index_value_inst(Parser *p, Inst *i) {
    i->index = ARENA_ARRAY(p->a, const Index *, MAX_RANK);
    return text_index(p, i);
}

/* What follows `%n =`, up to the type. */
static bool operator(Parser *p, Inst *i) {
    const char *name;
    text_skip(p);
    const char *const start = p->at;
    if (!text_word(p, &name)) return false;
    if (strcmp(name, "const") == 0 || strcmp(name, "full") == 0) {
        i->kind = *name == 'c' ? TI_CONST : TI_FULL;
        return text_number(p, &i->value);
    }
    if (strcmp(name, "index") == 0) return i->kind = TI_INDEX, index_value_inst(p, i);
    if (strcmp(name, "load") == 0) return i->kind = TI_LOAD, load(p, i);
    if (strcmp(name, "stage") == 0) return i->kind = TI_STAGE, stage(p, i);
    if (strcmp(name, "dot") == 0) return i->kind = TI_DOT, operation(p, i);
    if (op_parse(name, &i->op) && (op_info[i->op].cls == CLASS_ELEMENT || op_info[i->op].cls == CLASS_REDUCE)) {
        i->kind = op_info[i->op].cls == CLASS_ELEMENT ? TI_ELEMENT : TI_REDUCE;
        return operation(p, i);
    }
    return text_fail_at(p, start, arena_printf(p->a, "no instruction is named `%s`", name));
}

static bool same_type(const TileType *x, const TileType *y) {
    return x->dtype == y->dtype && x->n_axes == y->n_axes &&
           memcmp(x->axis, y->axis, sizeof *x->axis * (size_t)x->n_axes) == 0;
}

static bool needs_type(const Inst *i) {
    return i->kind == TI_CONST || i->kind == TI_FULL || (i->kind == TI_ELEMENT && op_info[i->op].type == TYPE_ATTR);
}

/* The type may be left out where it follows from the operands; where it stands it must be right. */
static bool typed(Parser *p, Inst *i) {
    TileType stated;
    const char *why = "";
    const bool has = text_accept(p, ":");
    if (has && !text_type(p, &stated)) return false;
    if (has)
        i->type = stated;
    else if (needs_type(i))
        return text_fail(p, "expected `:` and a type");
    if (!tile_infer(p->k, i, &i->type, &why)) return text_fail(p, why);
    return !has || same_type(&stated, &i->type) || text_fail(p, "the instruction gives another type");
}

static bool plain(Parser *p, Block *b, int result) {
    Inst *i = new_inst(p, TI_CONST);
    if (!operator(p, i) || !typed(p, i)) return false;
    i->result = result;
    vec_push(p->a, *b, i);
    return define(p, result, i->type);
}

static bool store_inst(Parser *p, Block *b) {
    Inst *i = new_inst(p, TI_STORE);
    TileType unused;
    const char *why = "";
    if (!store(p, i)) return false;
    if (!tile_infer(p->k, i, &unused, &why)) return text_fail(p, why);
    vec_push(p->a, *b, i);
    return true;
}

static bool bucket_inst(Parser *p, Block *b) {
    Inst *i = new_inst(p, TI_BUCKET);
    vec_push(p->a, *b, i);
    return text_buffer_name(p, &i->buffer) && text_expect(p, ",") && text_buffer_name(p, &i->source) && text_expect(p, "over") &&
           text_axis_name(p, &i->axis);
}

static bool yield_inst(Parser *p, Block *b) {
    Inst *i = new_inst(p, TI_YIELD);
    Ints in = {0};
    text_skip(p);
    if (*p->at == '%' && !text_values(p, &in)) return false;
    set_in(i, &in);
    vec_push(p->a, *b, i);
    return true;
}

/* carry %1 = %0, %4 = %3 */
static bool carries(Parser *p, Ints *carry, Ints *init) {
    int c, v;
    do {
        if (!text_value_number(p, &c) || !text_expect(p, "=") || !text_value(p, &v)) return false;
        if (!define(p, c, p->k->types.at[v])) return false;
        vec_push(p->a, *carry, c);
        vec_push(p->a, *init, v);
    } while (text_accept(p, ","));
    return true;
}

static bool body(Parser *p, Inst *i) {
    if (!text_expect(p, "{")) return false;
    if (++p->depth > MAX_DEPTH) return text_fail(p, "nested too deeply");
    const bool ok = block(p, &i->body);
    p->depth--;
    return ok && text_expect(p, "}");
}

static bool nested(Parser *p, Block *b, TileOp kind, const Ints *results) {
    Inst *i = new_inst(p, kind);
    Ints in = {0}, init = {0}, carry = {0};
    int cond;
    if (kind == TI_FOR) {
        if (!text_axis_name(p, &i->axis)) return false;
        if (text_accept(p, "from") && !text_bound(p, &i->from)) return false;
        if (text_accept(p, "to") && !text_bound(p, &i->to)) return false;
        if (text_accept(p, "ahead") && !text_small(p, 1, MAX_AHEAD, &i->ahead)) return false;
        if (text_accept(p, "carry") && !carries(p, &carry, &init)) return false;
    } else {
        if (!text_value(p, &cond) || (text_accept(p, "init") && !text_values(p, &init))) return false;
        vec_push(p->a, in, cond);
    }
    if (init.n != results->n) return text_fail(p, "as many results as carried values are needed");
    set_in(i, &in);
    i->n_carry = init.n;
    i->init = init.at;
    i->carry = carry.at;
    i->results = results->at;
    vec_push(p->a, *b, i);
    if (!body(p, i)) return false;
    for (int c = 0; c < init.n; c++)
        if (!define(p, results->at[c], p->k->types.at[init.at[c]])) return false;
    return true;
}

static bool statement(Parser *p, Block *b) {
    Ints results = {0};
    int v;
    if (text_accept(p, "store")) return store_inst(p, b);
    if (text_accept(p, "bucket")) return bucket_inst(p, b);
    if (text_accept(p, "yield")) return yield_inst(p, b);
    if (text_accept(p, "for")) return nested(p, b, TI_FOR, &results);
    if (text_accept(p, "if")) return nested(p, b, TI_IF, &results);
    do {
        if (!text_value_number(p, &v)) return false;
        vec_push(p->a, results, v);
    } while (text_accept(p, ","));
    if (!text_expect(p, "=")) return false;
    if (text_accept(p, "for")) return nested(p, b, TI_FOR, &results);
    if (text_accept(p, "if")) return nested(p, b, TI_IF, &results);
    return results.n == 1 ? plain(p, b, results.at[0]) : text_fail(p, "one result is needed");
}

static bool block(Parser *p, Block *b) {
    for (text_skip(p); *p->at && *p->at != '}'; text_skip(p))
        if (!statement(p, b)) return false;
    return true;
}

/* ---- head -------------------------------------------------------------------------------------------------------- */
static bool syms(Parser *p) {
    const char *name;
    int64_t bound;
    if (!text_accept(p, "<")) return true;
    do {
        if (!text_word(p, &name)) return false;
        if (text_find_sym(p, name) >= 0) return text_fail(p, "two symbols have one name");
        vec_push(p->a, p->sym_names, name);
        if (!text_accept(p, "<=")) continue;
        if (!text_integer(p, 0, MAX_ELEMENTS, &bound)) return false;
        vec_push(p->a, p->sym_bounds, bound);
    } while (text_accept(p, ","));
    if (p->sym_bounds.n && p->sym_bounds.n != p->sym_names.n)
        return text_fail(p, "all symbols have bounds or none has");
    p->k->n_syms = p->sym_names.n;
    p->k->sym_names = p->sym_names.at;
    p->k->sym_bounds = p->sym_bounds.at;
    return text_expect(p, ">");
}

static bool strides(Parser *p, int64_t *stride, int rank) {
    if (!text_expect(p, "[")) return false;
    for (int d = 0; d < rank; d++)
        if ((d && !text_expect(p, ",")) || !text_integer(p, 0, MAX_ELEMENTS, &stride[d])) return false;
    return text_expect(p, "]");
}

static bool buffer(Parser *p) {
    const char *name;
    DType t;
    Shape s = {0};
    int64_t stride[MAX_RANK];
    if (!text_expect(p, "%") || !text_word(p, &name) || !text_expect(p, ":") || !text_dtype(p, &t) || !text_expect(p, "["))
        return false;
    for (int b = 0; b < p->k->buffers.n; b++)
        if (strcmp(p->k->buffers.at[b].name, name) == 0) return text_fail(p, "two buffers have one name");
    while (!text_accept(p, "]")) {
        if (s.rank == MAX_RANK) return text_fail(p, "too many dimensions");
        if ((s.rank && !text_expect(p, ",")) || !text_dim(p, &s.dim[s.rank])) return false;
        s.rank++;
    }
    const bool given = text_accept(p, "strides");
    if (given && !strides(p, stride, s.rank)) return false;
    const int n = kernel_buffer(p->k, name, t, s, given ? stride : NULL, text_accept(p, "out"));
    p->k->buffers.at[n].name = name;
    return !text_accept(p, "family") || text_small(p, 1, MAX_FAMILY, &p->k->buffers.at[n].family);
}

static bool buffers(Parser *p) {
    if (!text_expect(p, "(")) return false;
    if (text_accept(p, ")")) return true;
    do {
        if (!buffer(p)) return false;
    } while (text_accept(p, ","));
    return text_expect(p, ")");
}

/* r r t0 t1 */
static bool spread(Parser *p, Spread *s) {
    for (;;) {
        int t = SPREAD_REGISTER;
        text_skip(p);
        const bool on_thread = *p->at == 't' && isdigit((unsigned char)p->at[1]);
        if (!on_thread && !text_accept(p, "r")) return s->n > 0 || text_fail(p, "expected r or a thread bit, such as t0");
        p->at += on_thread;
        if (on_thread && !text_small(p, 0, MAX_SPREAD, &t)) return false;
        if (s->n == MAX_SPREAD) return text_fail(p, "the spread has too many bits");
        s->bit[s->n++] = (int8_t)t;
    }
}

static bool axis(Parser *p, AxisKind kind) {
    Axis x = {.kind = kind};
    if (p->k->axes.n == MAX_AXES) return text_fail(p, "too many axes");
    if (!text_word(p, &x.name)) return false;
    if (text_find_axis(p, x.name) >= 0) return text_fail(p, "two axes have one name");
    if (!text_expect(p, "in") || !text_expect(p, "0") || !text_expect(p, "..") || !text_dim(p, &x.extent)) return false;
    if (!text_expect(p, "step") || !text_small(p, 1, INT32_MAX / 2, &x.step)) return false;
    if (text_accept(p, "spread") && !spread(p, &x.spread)) return false;
    if (text_accept(p, "cluster") && !text_small(p, 1, INT32_MAX / 2, &x.cluster)) return false;
    if (text_accept(p, "order") && !text_small(p, 1, INT32_MAX / 2, &x.order)) return false;
    if (text_accept(p, "slowest")) {
        if (!text_small(p, 1, INT32_MAX / 2, &x.slowest)) return false;
        x.down = text_accept(p, "down");
    }
    x.family = text_accept(p, "family");
    vec_push(p->a, p->k->axes, x);
    return true;
}

static bool axes(Parser *p) {
    static const char *const kind[] = {"grid", "loop", "span"};
    for (bool found = true; found;) {
        found = false;
        for (int k = AXIS_GRID; k <= AXIS_SPAN && !found; k++) {
            found = text_accept(p, kind[k]);
            if (found && !axis(p, (AxisKind)k)) return false;
        }
    }
    return true;
}

/* The first `#` line above the kernel says where it comes from. */
static void comment(Parser *p) {
    while (isspace((unsigned char)*p->at)) p->at++;
    if (*p->at != '#') return;
    const char *start = p->at + 1 + (p->at[1] == ' ');
    p->k->comment = arena_strndup(p->a, start, strcspn(start, "\n"));
}

/* N [alternate N] [producer N] [registers N:N] [persistent] [dependent] */
static bool threads(Parser *p) {
    Kernel *k = p->k;
    if (!text_small(p, 1, INT32_MAX / 2, &k->threads)) return false;
    if (text_accept(p, "alternate") && !text_small(p, 1, INT32_MAX / 2, &k->alternate)) return false;
    if (text_accept(p, "producer") && !text_small(p, 1, INT32_MAX / 2, &k->producer)) return false;
    if (text_accept(p, "registers") && !(text_small(p, 0, 255, &k->registers[0]) && text_expect(p, ":") &&
                                         text_small(p, 0, 255, &k->registers[1])))
        return false;
    k->persistent = text_accept(p, "persistent");
    k->dependent = text_accept(p, "dependent");
    return true;
}

static bool head(Parser *p) {
    comment(p);
    if (!text_expect(p, "kernel") || !text_expect(p, "@") || !text_word(p, &p->k->name)) return false;
    if (!syms(p) || !buffers(p)) return false;
    return !text_accept(p, "threads") || threads(p);
}

/* (%a, %b): the bundle's buffers, as many as the kernel has. */
static bool buffers_of_bundled(Parser *p, const Ints *named, int n) {
    return named->n == n || text_fail(p, "a bundled kernel has more or fewer buffers than are named");
}

/* bundled (%a, %b) { kernel .. } */
static bool bundled(Parser *p) {
    Ints named = {0};
    int b;
    if (!text_expect(p, "(")) return false;
    while (!text_accept(p, ")")) {
        if ((named.n && !text_expect(p, ",")) || !text_buffer_name(p, &b)) return false;
        vec_push(p->a, named, b);
    }
    if (!text_expect(p, "{")) return false;
    Parser inside = {.a = p->a, .text = p->text, .at = p->at, .k = kernel_new(p->a, "")};
    const bool ok = head(&inside) && axes(&inside) && block(&inside, &inside.k->body) && text_expect(&inside, "}") &&
                    buffers_of_bundled(&inside, &named, inside.k->buffers.n);
    p->at = inside.at;
    p->error = inside.error;
    vec_push(p->a, named, 0); /* there is an array, of no buffers too */
    const Bundled one = {inside.k, named.at};
    vec_push(p->a, p->k->bundle, one);
    return ok;
}

static bool kernel(Parser *p) {
    if (!head(p)) return false;
    while (text_accept(p, "bundled"))
        if (!bundled(p)) return false;
    if (!p->k->bundle.n && (!axes(p) || !block(p, &p->k->body))) return false;
    text_skip(p);
    return *p->at == 0 || text_fail(p, "unexpected text after the kernel");
}

Kernel *kernel_parse(Arena *a, const char *text, const char **error) {
    Parser p = {.a = a, .text = text, .at = text, .k = kernel_new(a, "")};
    const bool ok = kernel(&p);
    *error = p.error;
    return ok ? p.k : NULL;
}
