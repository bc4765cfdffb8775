/* Reductions across registers, lanes and warps; products from shared memory. */
#include "codegen/nvptx/simt.h"
#include <string.h>

static bool is_over(const Inst *i, int axis) {
    for (int n = 0; n < i->n_over; n++)
        if (i->over[n] == axis) return true;
    return false;
}

/* ---- across lanes ------------------------------------------------------------------------------------------- */
static LLVMValueRef shuffle(Simt *s, DType t, LLVMValueRef v, unsigned bit) {
    const Emit *e = s->e;
    const bool is_float = LLVMTypeOf(v) == e->f32;
    const char *name = is_float ? "llvm.nvvm.shfl.sync.bfly.f32" : "llvm.nvvm.shfl.sync.bfly.i32";
    LLVMValueRef x = is_float ? v : LLVMBuildZExtOrBitCast(e->b, v, e->i32, "");
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, NULL, 0);
    LLVMValueRef args[] = {LLVMConstInt(e->i32, 0xFFFFFFFFu, false), x, LLVMConstInt(e->i32, bit, false),
                           LLVMConstInt(e->i32, 31, false)};
    LLVMValueRef r = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
    return t == DT_BOOL ? LLVMBuildTrunc(e->b, r, e->i1, "") : r;
}

/* Across warps: every thread leaves its partial, reads those whose thread differs in the given bits only, and
 * combines them in one order, so that all copies of the result are the same to the bit. */
static void across_warps(Simt *s, Op op, DType t, unsigned bits, LLVMValueRef *v, int n) {
    const Emit *e = s->e;
    LLVMTypeRef type = emit_memory_type(e, t);
    LLVMValueRef array = simt_shared_array(s, type, (int64_t)s->k->threads * n);
    simt_before_write(s, true);
    for (int j = 0; j < n; j++) {
        LLVMValueRef at = LLVMBuildAdd(e->b, s->thread, LLVMConstInt(e->i32, (unsigned)(j * s->k->threads), false), "");
        LLVMBuildStore(e->b, emit_to_memory(e, t, v[j]), LLVMBuildInBoundsGEP2(e->b, type, array, &at, 1, ""));
    }
    simt_before_read(s);
    LLVMValueRef rest = LLVMBuildAnd(e->b, s->thread, LLVMConstInt(e->i32, ~bits & (unsigned)(s->k->threads - 1), false), "");
    for (int j = 0; j < n; j++) {
        LLVMValueRef sum = NULL;
        for (unsigned with = 0;; with = (with - bits) & bits) { /* every subset of bits, in increasing order */
            LLVMValueRef at = LLVMBuildAdd(e->b, rest, LLVMConstInt(e->i32, with + (unsigned)(j * s->k->threads), false), "");
            LLVMValueRef x = emit_from_memory(e, t, LLVMBuildLoad2(e->b, type, LLVMBuildInBoundsGEP2(e->b, type, array, &at, 1, ""), ""));
            sum = sum ? emit_combine(e, op, t, sum, x) : x;
            if (with == bits) break;
        }
        v[j] = sum;
    }
}

/* ---- across registers ---------------------------------------------------------------------------------------- */
/* Bits of the thread's number by which elements that are summed differ. */
static unsigned bits_over(const Simt *s, const Inst *i) {
    unsigned bits = 0;
    for (int d = 0; d < i->n_over; d++) bits |= s->axis[i->over[d]].threads;
    return bits;
}

void simt_reduce_begin(Simt *s, const Inst *i) { s->reg[i->result] = ARENA_ARRAY(s->arena, LLVMValueRef, simt_slots(s, &i->type)); }

void simt_reduce_slots(Simt *s, const Inst *i, const int *slot, int n) {
    const Emit *e = s->e;
    const TileType *from = &s->k->types.at[i->in[0]];
    const DType t = i->type.dtype;
    LLVMValueRef *out = s->reg[i->result];
    TileType over = {.dtype = t};
    for (int d = 0; d < i->n_over; d++) over.axis[over.n_axes++] = i->over[d];
    for (int r = 0; r < n; r++) {
        Coords c = {0};
        simt_coords(s, from, slot[r], &c);
        LLVMValueRef v = simt_value(s, i->in[0], &c), inside = simt_inside(s, &c, &over);
        if (inside) v = LLVMBuildSelect(e->b, inside, v, emit_identity(e, i->op, t), "");
        const int to = simt_slot(s, &i->type, &c);
        out[to] = out[to] ? emit_combine(e, i->op, t, out[to], v) : v;
    }
}

/* ---- sums that meet in shared memory ----------------------------------------------------------------------------
 *
 * A sum over a tile of accumulators that is only stored.  Lanes first halve what they hold: of two neighbouring sums a lane keeps
 * the one that a bit of its number says, and gives the other away.  Then every sum of a warp is in one lane, and goes to
 * the warp's row of an array; a thread for each sum adds the rows in order and stores it.  Either half reads the thread's number
 * again: the places that follow from it would wait in registers through the products. */
static LLVMValueRef thread_bit(const Simt *s, unsigned bit) {
    LLVMValueRef b = LLVMBuildAnd(s->e->b, s->thread, LLVMConstInt(s->e->i32, bit, false), "");
    return LLVMBuildICmp(s->e->b, LLVMIntNE, b, LLVMConstNull(s->e->i32), "");
}

/* The number that the thread's bits under the mask make, those beside each other closed up. */
static LLVMValueRef bits_of_thread(const Simt *s, unsigned mask) {
    Spread p = {0};
    for (int b = 0; b < MAX_SPREAD; b++)
        if (mask >> b & 1) p.bit[p.n++] = (int8_t)b;
    return simt_lane(s, &p);
}

/* Of the thread's n sums along the axis (-> *n) those that it has for all lanes; where the first is contiguous along the axis.
 * *lanes keeps the bits of lanes that have the same ones. */
static LLVMValueRef halve(Simt *s, const Inst *i, int axis, unsigned *lanes, int *n, int *merged, LLVMValueRef *v) {
    const Emit *e = s->e;
    const DType t = i->type.dtype;
    LLVMValueRef at = s->lane[axis];
    for (unsigned bit = 1; bit < 32; bit *= 2) {
        if (!(*lanes & bit)) continue;
        const bool half = *n % 2 == 0;
        LLVMValueRef odd = thread_bit(s, bit);
        for (int j = 0; j < (half ? *n / 2 : *n); j++) {
            LLVMValueRef mine = half ? LLVMBuildSelect(e->b, odd, v[2 * j + 1], v[2 * j], "") : v[j];
            LLVMValueRef given = half ? LLVMBuildSelect(e->b, odd, v[2 * j], v[2 * j + 1], "") : v[j];
            v[j] = emit_combine(e, i->op, t, mine, shuffle(s, t, given, bit));
        }
        if (!half) continue;
        const unsigned step = (unsigned)spread_offset(&s->k->axes.at[axis], *merged);
        LLVMValueRef there = LLVMBuildSelect(e->b, odd, LLVMConstInt(e->i32, step, false), LLVMConstNull(e->i32), "");
        at = LLVMBuildAdd(e->b, at, there, "");
        *n /= 2;
        *merged *= 2;
        *lanes &= ~bit;
    }
    return at;
}

/* This thread is the one of those with the same bits under the mask cleared that stores. */
static LLVMBasicBlockRef by_first(Simt *s, unsigned mask) {
    const Emit *e = s->e;
    LLVMBasicBlockRef one = emit_block(e, s->fn, "one"), all = emit_block(e, s->fn, "all");
    LLVMValueRef others = LLVMBuildAnd(e->b, s->thread, LLVMConstInt(e->i32, mask, false), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, others, LLVMConstNull(e->i32), ""), one, all);
    LLVMPositionBuilderAtEnd(e->b, one);
    return all;
}

/* The element at `at` (i32) along the axis, in the row that begins at `row` (i32, floats). */
static LLVMValueRef met_place(Simt *s, const Inst *sum, LLVMValueRef row, LLVMValueRef at) {
    const Emit *e = s->e;
    LLVMValueRef left_out = LLVMBuildUDiv(e->b, at, LLVMConstInt(e->i32, MEET_RUN, false), "");
    left_out = LLVMBuildMul(e->b, left_out, LLVMConstInt(e->i32, MEET_PAD, false), "");
    LLVMValueRef place = LLVMBuildAdd(e->b, row, LLVMBuildAdd(e->b, at, left_out, ""), "");
    place = LLVMBuildMul(e->b, place, LLVMConstInt(e->i32, sizeof(float), false), "");
    place = LLVMBuildAdd(e->b, place, LLVMConstInt(e->i32, (unsigned long long)s->plan.offset[sum->result], false), "");
    LLVMValueRef group = simt_group(s), apart = LLVMConstInt(e->i32, (unsigned long long)s->plan.apart, false);
    if (group) place = LLVMBuildAdd(e->b, place, LLVMBuildMul(e->b, group, apart, ""), "");
    return LLVMBuildInBoundsGEP2(e->b, e->i8, s->dynamic, &place, 1, "");
}

static void meet(Simt *s, const Inst *i, const Meeting *m) {
    const Emit *e = s->e;
    const Axis *axis = &s->k->axes.at[m->axis];
    const unsigned over = bits_over(s, i), warps = over & ~31u;
    unsigned lanes = over & 31u;
    LLVMValueRef *v = s->reg[i->result];
    int n = simt_slots(s, &i->type), merged = 1;
    const SimtThread before = simt_thread_again(s);
    LLVMValueRef at = halve(s, i, m->axis, &lanes, &n, &merged, v);
    LLVMValueRef row = LLVMBuildMul(e->b, bits_of_thread(s, warps), LLVMConstInt(e->i32, (unsigned)m->row, false), "");
    const unsigned same = lanes | ((unsigned)(s->k->threads - 1) & ~over & ~s->axis[m->axis].threads);
    simt_before_write(s, true);
    LLVMBasicBlockRef all = same ? by_first(s, same) : NULL;
    for (int j = 0; j < n; j++) {
        LLVMValueRef offset = LLVMConstInt(e->i32, (unsigned)spread_offset(axis, j * merged), false);
        LLVMBuildStore(e->b, v[j], met_place(s, i, row, LLVMBuildAdd(e->b, at, offset, "")));
    }
    if (all) LLVMBuildBr(e->b, all);
    if (all) LLVMPositionBuilderAtEnd(e->b, all);
    simt_thread_back(s, &before);
}

/* The rows at one place, added in order, to where the sum is stored. */
static void store_met(Simt *s, const Inst *i, const Inst *sum, const Meeting *m, LLVMValueRef at) {
    const Emit *e = s->e;
    Coords c = {0};
    LLVMValueRef total = NULL;
    for (int row = 0; row < m->rows; row++) {
        LLVMValueRef begin = LLVMConstInt(e->i32, (unsigned)(row * m->row), false);
        LLVMValueRef x = LLVMBuildLoad2(e->b, e->f32, met_place(s, sum, begin, at), "");
        total = total ? emit_combine(e, sum->op, DT_F32, total, x) : x;
    }
    c.offset[m->axis] = at;
    LLVMBuildStore(e->b, total, simt_address(s, i, &c));
}

bool simt_store_met(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    const Inst *sum = s->def[i->in[0]];
    Meeting m;
    if (!s->dynamic || !sum || sum->kind != TI_REDUCE || !stage_meeting(s->k, sum, &m)) return false;
    simt_before_read(s);
    const SimtThread before = simt_thread_again(s);
    for (int from = 0; from < m.step; from += s->k->threads) {
        LLVMBasicBlockRef then = emit_block(e, s->fn, "sum"), done = emit_block(e, s->fn, "summed");
        LLVMValueRef at = LLVMBuildAdd(e->b, s->thread, LLVMConstInt(e->i32, (unsigned)from, false), "");
        LLVMValueRef inside = LLVMBuildICmp(e->b, LLVMIntULT, at, LLVMConstInt(e->i32, (unsigned)m.step, false), "");
        const TileType along = {.n_axes = 1, .axis = {(int8_t)m.axis}};
        Coords c = {0};
        c.offset[m.axis] = at;
        LLVMBuildCondBr(e->b, simt_and(s, simt_inside(s, &c, &along), inside), then, done);
        LLVMPositionBuilderAtEnd(e->b, then);
        store_met(s, i, sum, &m, at);
        LLVMBuildBr(e->b, done);
        LLVMPositionBuilderAtEnd(e->b, done);
    }
    simt_thread_back(s, &before);
    return true;
}

/* ---- the instruction ------------------------------------------------------------------------------------------------ */
void simt_reduce_end(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    const DType t = i->type.dtype;
    const int n = simt_slots(s, &i->type);
    const unsigned bits = bits_over(s, i);
    LLVMValueRef *out = s->reg[i->result];
    Meeting m;
    if (s->dynamic && stage_meeting(s->k, i, &m)) {
        meet(s, i, &m);
        return;
    }
    for (unsigned bit = 1; bit < 32; bit *= 2)
        for (int j = 0; j < n && (bits & bit); j++) out[j] = emit_combine(e, i->op, t, out[j], shuffle(s, t, out[j], bit));
    if (bits & ~31u) across_warps(s, i->op, t, bits & ~31u, out, n);
}

void simt_reduce(Simt *s, const Inst *i) {
    const TileType *from = &s->k->types.at[i->in[0]];
    simt_reduce_begin(s, i);
    simt_reduce_slots(s, i, simt_all_slots(s, from), simt_slots(s, from));
    simt_reduce_end(s, i);
}

/* ---- products ----------------------------------------------------------------------------------------------------- */
/* A factor at one summed place, for every register of its other axes: read once, used along the other side. */
typedef struct HeldFactor {
    TileType kept; /* its axes that are not summed */
    LLVMValueRef *v;
} HeldFactor;

/* A run of the staged tile's innermost axis, which begins at c: into the registers that hold it. */
static void read_run(Simt *s, const HeldFactor *f, int value, const Coords *c, int width) {
    StageLayout l;
    LLVMValueRef *run = ARENA_ARRAY(s->arena, LLVMValueRef, width);
    Coords at = *c;
    stage_layout(s->k, s->def[value], &l);
    simt_staged_run(s, value, c, width, run);
    for (int r = 0; r < width; r++, at.reg[l.minor]++) f->v[simt_slot(s, &f->kept, &at)] = run[r];
}

/* Sums are taken one place at a time. */
static int run_width(const Simt *s, const Inst *dot, int value) {
    StageLayout l;
    if (!s->shared[value]) return 1;
    stage_layout(s->k, s->def[value], &l);
    return l.minor < 0 || is_over(dot, l.minor) ? 1 : simt_staged_width(s, value);
}

static HeldFactor factor(Simt *s, const Inst *i, int value, const Coords *summed) {
    const TileType *t = &s->k->types.at[value];
    HeldFactor f = {.kept = {.dtype = t->dtype}};
    TileType over = {.dtype = t->dtype};
    for (int d = 0; d < t->n_axes; d++)
        if (is_over(i, t->axis[d])) over.axis[over.n_axes++] = t->axis[d];
        else f.kept.axis[f.kept.n_axes++] = t->axis[d];
    const int n = simt_slots(s, &f.kept), width = run_width(s, i, value);
    f.v = ARENA_ARRAY(s->arena, LLVMValueRef, n);
    for (int slot = 0; slot < n; slot++) {
        Coords c = *summed;
        simt_coords(s, &f.kept, slot, &c);
        if (f.v[slot]) continue; /* of a run that began before */
        if (width > 1)
            read_run(s, &f, value, &c, width);
        else
            f.v[slot] = simt_value(s, value, &c);
        LLVMValueRef inside = s->def[value] && s->def[value]->kind == TI_STAGE ? NULL : simt_inside(s, &c, &over);
        if (inside) f.v[slot] = LLVMBuildSelect(s->e->b, inside, f.v[slot], emit_const(s->e, t->dtype, 0), "");
    }
    return f;
}

void simt_dot(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    if (i->by == BY_MMA) {
        mma_dot(s, i);
        return;
    }
    const int n = simt_slots(s, &i->type);
    LLVMValueRef *acc = ARENA_ARRAY(s->arena, LLVMValueRef, n);
    int total = 1;
    for (int d = 0; d < i->n_over; d++) total *= s->k->axes.at[i->over[d]].step;
    for (int slot = 0; slot < n; slot++) {
        Coords c = {0};
        simt_coords(s, &i->type, slot, &c);
        acc[slot] = simt_value(s, i->in[2], &c);
    }
    for (int at = 0; at < total; at++) {
        Coords summed = {0};
        for (int d = i->n_over - 1, rest = at; d >= 0; d--) {
            const int step = s->k->axes.at[i->over[d]].step;
            summed.offset[i->over[d]] = LLVMConstInt(e->i32, (unsigned)(rest % step), false);
            rest /= step;
        }
        const HeldFactor x = factor(s, i, i->in[0], &summed), y = factor(s, i, i->in[1], &summed);
        for (int slot = 0; slot < n; slot++) {
            Coords c = {0};
            simt_coords(s, &i->type, slot, &c);
            acc[slot] = emit_fma(e, i->type.dtype, x.v[simt_slot(s, &x.kept, &c)], y.v[simt_slot(s, &y.kept, &c)], acc[slot]);
        }
    }
    s->reg[i->result] = acc;
}
