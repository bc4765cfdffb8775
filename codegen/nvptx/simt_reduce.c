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

void simt_reduce(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    const TileType *from = &s->k->types.at[i->in[0]];
    const DType t = i->type.dtype;
    const int n = simt_slots(s, &i->type), n_from = simt_slots(s, from);
    LLVMValueRef *out = ARENA_ARRAY(s->arena, LLVMValueRef, n);
    TileType over = {.dtype = t};
    unsigned bits = 0;
    for (int d = 0; d < i->n_over; d++) {
        over.axis[over.n_axes++] = i->over[d];
        bits |= s->axis[i->over[d]].threads;
    }
    for (int slot = 0; slot < n_from; slot++) {
        Coords c = {0};
        simt_coords(s, from, slot, &c);
        LLVMValueRef v = simt_value(s, i->in[0], &c), inside = simt_inside(s, &c, &over);
        if (inside) v = LLVMBuildSelect(e->b, inside, v, emit_identity(e, i->op, t), "");
        const int to = simt_slot(s, &i->type, &c);
        out[to] = out[to] ? emit_combine(e, i->op, t, out[to], v) : v;
    }
    for (unsigned bit = 1; bit < 32; bit *= 2)
        for (int j = 0; j < n && (bits & bit); j++) out[j] = emit_combine(e, i->op, t, out[j], shuffle(s, t, out[j], bit));
    if (bits & ~31u) across_warps(s, i->op, t, bits & ~31u, out, n);
    s->reg[i->result] = out;
}

/* ---- products ----------------------------------------------------------------------------------------------------- */
/* A factor at one summed place, for every register of its other axes: read once, used along the other side. */
typedef struct Factor {
    TileType kept; /* its axes that are not summed */
    LLVMValueRef *v;
} Factor;

/* A run of the staged tile's innermost axis, which begins at c: into the registers that hold it. */
static void read_run(Simt *s, const Factor *f, int value, const Coords *c, int width) {
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

static Factor factor(Simt *s, const Inst *i, int value, const Coords *summed) {
    const TileType *t = &s->k->types.at[value];
    Factor f = {.kept = {.dtype = t->dtype}};
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
        const Factor x = factor(s, i, i->in[0], &summed), y = factor(s, i, i->in[1], &summed);
        for (int slot = 0; slot < n; slot++) {
            Coords c = {0};
            simt_coords(s, &i->type, slot, &c);
            acc[slot] = emit_fma(e, i->type.dtype, x.v[simt_slot(s, &x.kept, &c)], y.v[simt_slot(s, &y.kept, &c)], acc[slot]);
        }
    }
    s->reg[i->result] = acc;
}
