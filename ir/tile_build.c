/* Building Tile IR: kernels, axes, buffers, instructions, and the one type rule that the builder,
 * the parser and the verifier share. */
#include "ir/tile.h"
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ------------------------------------------------------------------------------------- */
const char *const by_name[N_BY] = {
    [BY_NONE] = "",       [BY_THREADS] = "threads", [BY_ASYNC] = "async",   [BY_TMA] = "tma",
    [BY_MMA] = "mma",     [BY_WGMMA] = "wgmma",     [BY_WINDOW] = "window", [BY_CHANNELS] = "channels",
    [BY_INNER] = "inner", [BY_BLOCKS] = "blocks",   [BY_LOOPS] = "loops"};

const char *const way_name[N_WAYS] = {
    [WAY_NONE] = "",           [WAY_IN_PLACE] = "in_place", [WAY_STREAMED] = "streamed",
    [WAY_SWEPT] = "swept",     [WAY_COPIED] = "copied",     [WAY_PACKED] = "packed",
    [WAY_TRANSPOSED] = "transposed", [WAY_BOX] = "box",     [WAY_STRIPS] = "strips"};
const char *const prefetch_name[N_PREFETCH] = {
    [PREFETCH_OPEN] = "", [PREFETCH_NONE] = "none", [PREFETCH_X] = "x", [PREFETCH_Y] = "y", [PREFETCH_BOTH] = "both"};
const char *const start_name[N_STARTS] = {
    [START_NONE] = "", [START_ADDS] = "adds", [START_FRESH] = "fresh", [START_STORES] = "stores"};

Kernel *kernel_new(Arena *a, const char *name) {
    Kernel *k = ARENA_NEW(a, Kernel);
    k->arena = a;
    k->name = arena_strdup(a, name);
    return k;
}

static bool name_taken(const Kernel *k, const char *name) {
    for (int i = 0; i < k->axes.n; i++)
        if (strcmp(k->axes.at[i].name, name) == 0) return true;
    for (int i = 0; i < k->buffers.n; i++)
        if (strcmp(k->buffers.at[i].name, name) == 0) return true;
    for (int i = 0; k->sym_names && i < k->n_syms; i++)
        if (strcmp(k->sym_names[i], name) == 0) return true;
    return false;
}

/* A C identifier that no axis, buffer or symbol of the kernel has yet. */
static const char *unique_name(Kernel *k, const char *wanted) {
    char *base = arena_printf(k->arena, "%s%s", isalpha((unsigned char)*wanted) || *wanted == '_' ? "" : "_", wanted);
    for (char *c = base; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    const char *name = base;
    for (int n = 1; name_taken(k, name); n++) name = arena_printf(k->arena, "%s_%d", base, n);
    return name;
}

bool buffers_overlap(const Kernel *k, int a, int b) {
    return a == b || (k->buffers.at[a].in_place && k->buffers.at[a].in_place == k->buffers.at[b].in_place);
}

int kernel_groups(const Kernel *k) { return k->alternate > 1 ? k->alternate : 1; }
int kernel_block_threads(const Kernel *k) { return k->threads * kernel_groups(k) + k->producer; }

int kernel_family_axis(const Kernel *k) {
    for (int x = 0; x < k->axes.n; x++)
        if (k->axes.at[x].family) return x;
    return -1;
}

int kernel_axis(Kernel *k, const char *name, AxisKind kind, Dim extent, int step) {
    assert(k->axes.n < MAX_AXES && step >= 1);
    const Axis a = {.name = unique_name(k, name), .kind = kind, .extent = extent, .step = step};
    vec_push(k->arena, k->axes, a);
    return k->axes.n - 1;
}

int kernel_buffer(Kernel *k, const char *name, DType t, Shape s, const int64_t *stride, bool written) {
    Buffer b = {.name = unique_name(k, name), .dtype = t, .rank = s.rank, .written = written};
    int64_t dense = 1;
    for (int d = s.rank - 1; d >= 0; d--) {
        b.dim[d] = s.dim[d];
        b.stride[d] = stride ? stride[d] : dense;
        if (s.dim[d].bound > 0 && __builtin_mul_overflow(dense, s.dim[d].bound, &dense)) dense = MAX_ELEMENTS;
    }
    vec_push(k->arena, k->buffers, b);
    return k->buffers.n - 1;
}

/* ---- types --------------------------------------------------------------------------------------------- */
/* Adds b's axes to t; false past MAX_TILE_AXES. */
static bool add_axes(TileType *t, const TileType *b) {
    TileType r = {.dtype = t->dtype};
    for (int i = 0, j = 0; i < t->n_axes || j < b->n_axes;) {
        const int x = i < t->n_axes ? t->axis[i] : INT8_MAX, y = j < b->n_axes ? b->axis[j] : INT8_MAX;
        if (r.n_axes == MAX_TILE_AXES) return false;
        r.axis[r.n_axes++] = (int8_t)(x < y ? x : y);
        i += x <= y;
        j += y <= x;
    }
    *t = r;
    return true;
}

TileType tile_type_union(TileType a, TileType b) {
    const bool fits = add_axes(&a, &b);
    assert(fits);
    (void)fits;
    return a;
}

/* Removes `over` from t; false if one of them is not there. */
static bool drop_axes(TileType *t, const Inst *i) {
    for (int o = 0; o < i->n_over; o++) {
        if (!tile_type_has(t, i->over[o])) return false;
        int kept = 0;
        for (int x = 0; x < t->n_axes; x++)
            if (t->axis[x] != i->over[o]) t->axis[kept++] = t->axis[x];
        t->n_axes = kept;
    }
    return true;
}

static bool fail(const char **why, const char *message) {
    *why = message;
    return false;
}

static const TileType *type_of(const Kernel *k, const Inst *i, int n) { return &k->types.at[i->in[n]]; }

static bool infer_memory(const Kernel *k, const Inst *i, TileType *out, const char **why) {
    if (i->buffer < 0 || i->buffer >= k->buffers.n) return fail(why, "no such buffer");
    const Buffer *b = &k->buffers.at[i->buffer];
    if (i->n_index != b->rank) return fail(why, "as many indices as the buffer has dimensions are needed");
    const int mask = i->kind == TI_LOAD ? 0 : 1;
    if (i->n_in < mask || i->n_in > mask + 1) return fail(why, "wrong number of operands");
    *out = (TileType){.dtype = b->dtype};
    for (int d = 0; d < i->n_index; d++) index_axes(k, i->index[d], out);
    if (i->n_in > mask && type_of(k, i, mask)->dtype != DT_BOOL) return fail(why, "the mask is not bool");
    if (i->kind == TI_STORE)
        return type_of(k, i, 0)->dtype == b->dtype || fail(why, "the stored value has another dtype than the buffer");
    if (i->n_in && !add_axes(out, type_of(k, i, 0))) return fail(why, "too many axes");
    return true;
}

static bool all_dtype(const Kernel *k, const Inst *i, int from, DType t) {
    for (int n = from; n < i->n_in; n++)
        if (type_of(k, i, n)->dtype != t) return false;
    return true;
}

static bool element_operands(const Kernel *k, const Inst *i, const char **why) {
    const DType first = type_of(k, i, 0)->dtype;
    switch (i->op) {
    case OP_SELECT:
        if (first != DT_BOOL) return fail(why, "the condition is not bool");
        return all_dtype(k, i, 2, type_of(k, i, 1)->dtype) || fail(why, "the two choices differ in dtype");
    case OP_AND:
    case OP_OR:
    case OP_NOT: return all_dtype(k, i, 0, DT_BOOL) || fail(why, "operands are not bool");
    case OP_PHILOX: return all_dtype(k, i, 0, DT_I32) || fail(why, "operands are not i32");
    default: return all_dtype(k, i, 1, first) || fail(why, "operands differ in dtype");
    }
}

static bool infer_element(const Kernel *k, const Inst *i, TileType *out, const char **why) {
    if (i->op < 0 || i->op >= OP_COUNT || op_info[i->op].cls != CLASS_ELEMENT)
        return fail(why, "not an elementwise operation");
    if (i->n_in != op_info[i->op].arity) return fail(why, "wrong number of operands");
    if (!element_operands(k, i, why)) return false;
    *out = (TileType){.dtype = i->type.dtype}; /* TYPE_ATTR: as stated */
    for (int n = 0; n < i->n_in; n++)
        if (!add_axes(out, type_of(k, i, n))) return fail(why, "too many axes");
    switch (op_info[i->op].type) {
    case TYPE_SAME: out->dtype = type_of(k, i, 0)->dtype; break;
    case TYPE_SECOND: out->dtype = type_of(k, i, 1)->dtype; break;
    case TYPE_BOOL: out->dtype = DT_BOOL; break;
    case TYPE_I32: out->dtype = DT_I32; break;
    case TYPE_ATTR: break;
    }
    return i->op != OP_PHILOX || out->dtype == DT_F32 || fail(why, "philox gives f32");
}

static bool infer_reduce(const Kernel *k, const Inst *i, TileType *out, const char **why) {
    if (i->op != OP_SUM && i->op != OP_RMAX && i->op != OP_RMIN && i->op != OP_PROD)
        return fail(why, "not a reduction");
    if (i->n_in != 1) return fail(why, "wrong number of operands");
    *out = *type_of(k, i, 0);
    return drop_axes(out, i) || fail(why, "reduces over an axis that the operand has not");
}

static bool infer_dot(const Kernel *k, const Inst *i, TileType *out, const char **why) {
    if (i->n_in != 3) return fail(why, "wrong number of operands");
    if (type_of(k, i, 0)->dtype != type_of(k, i, 1)->dtype) return fail(why, "factors differ in dtype");
    *out = *type_of(k, i, 0);
    out->dtype = type_of(k, i, 2)->dtype;
    if (!add_axes(out, type_of(k, i, 1))) return fail(why, "too many axes");
    if (!drop_axes(out, i)) return fail(why, "sums over an axis that neither factor has");
    for (int o = 0; o < i->n_over; o++)
        if (tile_type_has(type_of(k, i, 2), i->over[o])) return fail(why, "sums over an axis of the accumulator");
    return add_axes(out, type_of(k, i, 2)) || fail(why, "too many axes");
}

static bool operands_exist(const Kernel *k, const Inst *i) {
    for (int n = 0; n < i->n_in; n++)
        if (i->in[n] < 0 || i->in[n] >= k->types.n) return false;
    for (int o = 0; o < i->n_over; o++)
        if (i->over[o] < 0 || i->over[o] >= k->axes.n) return false;
    return true;
}

bool tile_infer(const Kernel *k, const Inst *i, TileType *out, const char **why) {
    *out = i->type;
    if (!operands_exist(k, i)) return fail(why, "no such value or axis");
    switch (i->kind) {
    case TI_CONST: return i->type.n_axes == 0 || fail(why, "a constant has no axes; use full");
    case TI_FULL: return true;
    case TI_INDEX:
        if (i->n_index != 1) return fail(why, "one index expression is needed");
        *out = (TileType){.dtype = DT_I32};
        index_axes(k, i->index[0], out);
        return true;
    case TI_LOAD:
    case TI_STORE: return infer_memory(k, i, out, why);
    case TI_ELEMENT: return infer_element(k, i, out, why);
    case TI_REDUCE: return infer_reduce(k, i, out, why);
    case TI_DOT: return infer_dot(k, i, out, why);
    case TI_STAGE:
        if (i->n_in != 1) return fail(why, "wrong number of operands");
        *out = *type_of(k, i, 0);
        return true;
    case TI_BUCKET:
    case TI_FOR:
    case TI_IF:
    case TI_YIELD: return true;
    }
    return fail(why, "unknown instruction");
}

/* ---- instructions ------------------------------------------------------------------------------------------ */
static int *dup_ints(Builder *b, int n, const int *v) {
    return n ? arena_dup(b->k->arena, v, sizeof *v * (size_t)n) : NULL;
}

static int new_value(Kernel *k, TileType t) {
    vec_push(k->arena, k->types, t);
    return k->types.n - 1;
}

static Inst *append(Builder *b, Inst proto, int n_in, const int *in) {
    Inst *i = arena_dup(b->k->arena, &proto, sizeof proto);
    i->result = -1;
    i->n_in = n_in;
    i->in = dup_ints(b, n_in, in);
    vec_push(b->k->arena, *b->block, i);
    return i;
}

/* A violation of the type rule is a bug in the caller: stop with its words. */
static void infer_or_die(Builder *b, Inst *i) {
    const char *why = "";
    if (tile_infer(b->k, i, &i->type, &why)) return;
    fprintf(stderr, "fusec: kernel %s: %s\n", b->k->name, why);
    abort();
}

static int finish(Builder *b, Inst *i) {
    infer_or_die(b, i);
    return i->result = new_value(b->k, i->type);
}

int tile_const(Builder *b, DType t, double v) {
    return finish(b, append(b, (Inst){.kind = TI_CONST, .type = {.dtype = t}, .value = v}, 0, NULL));
}

int tile_full(Builder *b, TileType t, double v) {
    return finish(b, append(b, (Inst){.kind = TI_FULL, .type = t, .value = v}, 0, NULL));
}

static const Index **dup_index(Builder *b, int n, const Index *const *e) {
    return n ? arena_dup(b->k->arena, e, sizeof *e * (size_t)n) : NULL;
}

int tile_index(Builder *b, const Index *e) {
    return finish(b, append(b, (Inst){.kind = TI_INDEX, .n_index = 1, .index = dup_index(b, 1, &e)}, 0, NULL));
}

int tile_load(Builder *b, int buffer, const Index **index, int mask, double other) {
    const int rank = b->k->buffers.at[buffer].rank;
    const Inst p = {
        .kind = TI_LOAD, .buffer = buffer, .n_index = rank, .index = dup_index(b, rank, index), .value = other};
    return finish(b, append(b, p, mask >= 0, &mask));
}

void tile_store(Builder *b, int buffer, const Index **index, int value, int mask) {
    const int rank = b->k->buffers.at[buffer].rank;
    const Inst p = {.kind = TI_STORE, .buffer = buffer, .n_index = rank, .index = dup_index(b, rank, index)};
    Inst *i = append(b, p, mask >= 0 ? 2 : 1, (int[]){value, mask});
    infer_or_die(b, i);
    i->type = (TileType){0};
}

void tile_bucket(Builder *b, int buffer, int source, int axis) {
    append(b, (Inst){.kind = TI_BUCKET, .buffer = buffer, .source = source, .axis = axis}, 0, NULL);
}

int tile_element(Builder *b, Op op, DType t, int n, const int *in) {
    return finish(b, append(b, (Inst){.kind = TI_ELEMENT, .op = op, .type = {.dtype = t}}, n, in));
}

static void set_over(Inst *i, int n, const int8_t *over) {
    assert(n >= 0 && n <= MAX_TILE_AXES);
    i->n_over = n;
    for (int o = 0; o < n; o++) i->over[o] = over[o];
}

int tile_reduce(Builder *b, Op op, int v, int n_over, const int8_t *over) {
    Inst *i = append(b, (Inst){.kind = TI_REDUCE, .op = op}, 1, &v);
    set_over(i, n_over, over);
    return finish(b, i);
}

int tile_dot(Builder *b, int x, int y, int acc, int n_over, const int8_t *over) {
    Inst *i = append(b, (Inst){.kind = TI_DOT}, 3, (int[]){x, y, acc});
    set_over(i, n_over, over);
    return finish(b, i);
}

int tile_stage(Builder *b, int v, Space space) {
    return finish(b, append(b, (Inst){.kind = TI_STAGE, .space = space}, 1, &v));
}

static Inst *begin(Builder *b, Inst proto, int n_in, const int *in, int n, const int *init, Builder *inside) {
    proto.n_carry = n;
    proto.init = dup_ints(b, n, init);
    Inst *i = append(b, proto, n_in, in);
    *inside = (Builder){.k = b->k, .block = &i->body};
    return i;
}

static void end(Builder *inside, Inst *i, const int *yield, int *results) {
    append(inside, (Inst){.kind = TI_YIELD}, i->n_carry, yield);
    i->results = ARENA_ARRAY(inside->k->arena, int, i->n_carry + 1);
    for (int c = 0; c < i->n_carry; c++) {
        i->results[c] = new_value(inside->k, inside->k->types.at[i->init[c]]);
        if (results) results[c] = i->results[c];
    }
}

Inst *tile_for_begin(Builder *b, int axis, int n, const int *init, int *carry, Builder *inside) {
    Inst *i = begin(b, (Inst){.kind = TI_FOR, .axis = axis}, 0, NULL, n, init, inside);
    i->carry = ARENA_ARRAY(b->k->arena, int, n + 1);
    for (int c = 0; c < n; c++) carry[c] = i->carry[c] = new_value(b->k, b->k->types.at[init[c]]);
    return i;
}

void tile_for_end(Builder *inside, Inst *loop, const int *yield, int *results) { end(inside, loop, yield, results); }

Inst *tile_if_begin(Builder *b, int cond, int n, const int *init, Builder *inside) {
    return begin(b, (Inst){.kind = TI_IF}, 1, &cond, n, init, inside);
}

void tile_if_end(Builder *inside, Inst *iff, const int *yield, int *results) { end(inside, iff, yield, results); }
