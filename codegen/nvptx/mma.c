/* DOT by mma: mma.sync.m16n8k16 on bf16 and f16, .m16n8k8 on tf32, f32 sums.
 *
 * The accumulator's registers are the instruction's: ir/tile_schedule.c's MatrixForm holds rows and columns to its
 * fragments.  The first factor may be in registers; else factors come from shared memory with ldmatrix, four 8x8 blocks
 * at a time, transposed where the summed axis is not the contiguous one.  A lane's address is that of its place in the
 * first block, plus constants: a swizzle exchanges bits, so that of a constant those under a kilobyte are XORed and the
 * others added.
 * Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", "ldmatrix". */
#include "codegen/nvptx/simt.h"
#include "ir/tile_schedule.h"

enum { ROW_BLOCK = 16, COLUMN_BLOCK = 8 };

typedef struct FragmentFactor {
    Simt *s;
    int value, across, along; /* the axis that is not summed; the one that is */
    StageLayout layout;
    LLVMValueRef lane, base;      /* i32, bytes: of this lane's element in block 0; of the slot */
    int pair;                     /* columns: elements from a block to the next */
    bool rows, transposed, words; /* words: read one element at a time */
} FragmentFactor;

static LLVMValueRef i32(const Simt *s, int64_t v) { return LLVMConstInt(s->e->i32, (unsigned long long)v, true); }
static LLVMValueRef bits(const Simt *s, LLVMValueRef lane, unsigned mask, int shift) {
    LLVMValueRef v = LLVMBuildLShr(s->e->b, lane, i32(s, shift), "");
    return LLVMBuildAnd(s->e->b, v, i32(s, mask), "");
}
static LLVMValueRef sum(const Simt *s, LLVMValueRef x, LLVMValueRef y) { return LLVMBuildAdd(s->e->b, x, y, ""); }
static LLVMValueRef times(const Simt *s, LLVMValueRef x, int64_t by) {
    return LLVMBuildMul(s->e->b, x, i32(s, by), "");
}

/* What of an axis's spread is over warps. */
static LLVMValueRef warp_offset(const Simt *s, int axis) {
    Spread p = s->k->axes.at[axis].spread;
    for (int b = 0; b < p.n; b++)
        if (p.bit[b] < 5) p.bit[b] = SPREAD_REGISTER;
    return simt_lane(s, &p);
}

/* The element whose 16-byte row (or word) this lane addresses, of the four blocks that one ldmatrix reads: rows are
 * read as (rows 0-7, 8-15) x (k low, k high), columns as (k low, k high) x (block, next block). */
static void lane_place(const FragmentFactor *f, LLVMValueRef *across, LLVMValueRef *along) {
    const Simt *s = f->s;
    const int half = 16 / f->layout.bytes; /* summed elements in 16 bytes */
    LLVMValueRef lane = bits(s, s->thread, 31, 0), row = bits(s, lane, 7, 0), first = bits(s, lane, 1, 3),
                 second = bits(s, lane, 1, 4);
    if (f->words) {
        *across = bits(s, lane, 7, 2);
        *along = bits(s, lane, 3, 0);
        return;
    }
    LLVMValueRef high = f->rows ? second : first, next = times(s, f->rows ? first : second, f->pair);
    *across = f->transposed ? next : sum(s, row, next);
    *along = f->transposed ? sum(s, row, times(s, high, half)) : times(s, high, half);
}

static FragmentFactor factor_of(Simt *s, int value, int across, int along, bool rows) {
    FragmentFactor f = {.s = s, .value = value, .across = across, .along = along, .rows = rows};
    const Axis *axis = &s->k->axes.at[across];
    stage_layout(s->k, s->def[value], &f.layout);
    f.pair = rows ? 8 : s->axis[across].regs > 2 ? spread_offset(axis, 2) : 0;
    f.words = f.layout.bytes == 4 && f.layout.minor == across;
    f.transposed = f.layout.minor == across;
    LLVMValueRef offset[MAX_AXES], in_block, in_sum;
    for (int a = 0; a < MAX_AXES; a++) offset[a] = i32(s, 0);
    lane_place(&f, &in_block, &in_sum);
    offset[f.across] = sum(s, warp_offset(s, across), in_block);
    offset[f.along] = in_sum;
    f.lane = times(s, stage_element(s, &f.layout, offset), f.layout.bytes);
    f.base = stage_address(s, value);
    return f;
}

/* i32: the lane's address, moved by constants. */
static LLVMValueRef address(const FragmentFactor *f, int across, int along, int *rest) {
    int offset[MAX_AXES] = {0};
    offset[f->across] = across;
    offset[f->along] = along;
    const int64_t at = stage_place(&f->layout, offset);
    const int64_t low = f->layout.swizzle ? at % STAGE_PERIOD : 0;
    *rest = (int)(at - low);
    LLVMValueRef lane = low ? LLVMBuildXor(f->s->e->b, f->lane, i32(f->s, low), "") : f->lane;
    return sum(f->s, f->base, lane);
}

static void load_blocks(const FragmentFactor *f, int n, int across, int along, LLVMValueRef *out) {
    const Simt *s = f->s;
    const Emit *e = s->e;
    int rest;
    LLVMValueRef at = address(f, across, along, &rest);
    static const char *const results[] = {[2] = "{$0, $1}, [$2", [4] = "{$0, $1, $2, $3}, [$4"};
    const char *text = arena_printf(s->arena, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s+%d];", n,
                                    f->transposed ? ".trans" : "", results[n], rest);
    LLVMTypeRef each[] = {e->i32, e->i32, e->i32, e->i32};
    LLVMTypeRef type = LLVMStructTypeInContext(e->context, each, (unsigned)n, false);
    LLVMValueRef v = simt_asm(e, type, text, n == 4 ? "=r,=r,=r,=r,r,~{memory}" : "=r,=r,r,~{memory}", 1, &at);
    for (int b = 0; b < n; b++) out[b] = LLVMBuildExtractValue(e->b, v, (unsigned)b, "");
}

static LLVMValueRef load_word(const FragmentFactor *f, int across, int along) {
    const Simt *s = f->s;
    int rest;
    LLVMValueRef at = address(f, across, along, &rest);
    return simt_asm(s->e, s->e->i32, arena_printf(s->arena, "ld.shared.b32 $0, [$1+%d];", rest), "=r,r,~{memory}", 1,
                    &at);
}

static void round_all(const FragmentFactor *f, int n, LLVMValueRef *v) {
    const Simt *s = f->s;
    if (!stage_rounds(s, f->value)) return;
    for (int r = 0; r < n; r++) v[r] = simt_asm(s->e, s->e->i32, "cvt.rna.tf32.f32 $0, $1;", "=r,r", 1, &v[r]);
}

/* Fragments of one step along the sum: for rows 4 registers per 16, for columns 2 per 8. */
static void load_rows(const FragmentFactor *f, int block, int along, LLVMValueRef *out) {
    const int at = spread_offset(&f->s->k->axes.at[f->across], 2 * block);
    if (!f->words) load_blocks(f, 4, at, along, out);
    for (int r = 0; r < 4 && f->words; r++) out[r] = load_word(f, at + 8 * (r & 1), along + 4 * (r >> 1));
    round_all(f, 4, out);
}

static void load_columns(const FragmentFactor *f, int block, int blocks, int along, LLVMValueRef *out) {
    const Axis *axis = &f->s->k->axes.at[f->across];
    if (!f->words) load_blocks(f, 2 * blocks, spread_offset(axis, 2 * block), along, out);
    for (int r = 0; r < 2 * blocks && f->words; r++)
        out[r] = load_word(f, spread_offset(axis, 2 * (block + (r >> 1))), along + 4 * (r & 1));
    round_all(f, 2 * blocks, out);
}

/* The same from registers: the sum is spread as an accumulator's columns, whose pairs of neighbours are the instruction's pairs
 * of the sum. */
static void pack_rows(Simt *s, const Inst *dot, const MatrixAxes *m, int block, int along, LLVMValueRef *out) {
    const Emit *e = s->e;
    const DType t = s->k->types.at[dot->in[0]].dtype;
    const TileType over = {.n_axes = 1, .axis = {(int8_t)m->sum}};
    for (int r = 0; r < 4; r++) {
        LLVMValueRef pair[2];
        for (int n = 0; n < 2; n++) {
            Coords c = {0};
            c.reg[m->row] = 2 * block + (r & 1);
            c.reg[m->sum] = 2 * (along / COLUMN_BLOCK + (r >> 1)) + n;
            pair[1 - n] = simt_value(s, dot->in[0], &c);
            LLVMValueRef inside = simt_inside(s, &c, &over);
            if (inside) pair[1 - n] = LLVMBuildSelect(e->b, inside, pair[1 - n], emit_const(e, DT_F32, 0), "");
        }
        out[r] = simt_asm(e, e->i32, t == DT_BF16 ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f", 2, pair);
    }
}

static const char *operand_type(DType t) { return t == DT_BF16 ? "bf16" : t == DT_F16 ? "f16" : "tf32"; }

static void multiply(const Simt *s, DType t, LLVMValueRef const *a, LLVMValueRef const *b, LLVMValueRef *c[4]) {
    const Emit *e = s->e;
    const char *type = operand_type(t);
    const char *text =
        arena_printf(s->arena,
                     "mma.sync.aligned.m16n8k%d.row.col.f32.%s.%s.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, "
                     "{$8, $9}, {$10, $11, $12, $13};",
                     t == DT_TF32 ? 8 : 16, type, type);
    LLVMTypeRef each[] = {e->f32, e->f32, e->f32, e->f32};
    LLVMValueRef args[] = {a[0], a[1], a[2], a[3], b[0], b[1], *c[0], *c[1], *c[2], *c[3]};
    LLVMValueRef v = simt_asm(e, LLVMStructTypeInContext(e->context, each, 4, false), text,
                              "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", 10, args);
    for (int n = 0; n < 4; n++) *c[n] = LLVMBuildExtractValue(e->b, v, (unsigned)n, "");
}

/* One step: all fragments, then all products.  x NULL: the rows are in registers. */
static void step(const FragmentFactor *x, const FragmentFactor *y, const Inst *i, const MatrixAxes *m, int along, LLVMValueRef *acc) {
    Simt *s = y->s;
    const int rows = s->axis[m->row].regs / 2, columns = s->axis[m->col].regs / 2;
    LLVMValueRef *a = ARENA_ARRAY(s->arena, LLVMValueRef, 4 * rows),
                 *b = ARENA_ARRAY(s->arena, LLVMValueRef, 2 * columns);
    for (int n = 0; n < rows; n++) x ? load_rows(x, n, along, a + 4 * n) : pack_rows(s, i, m, n, along, a + 4 * n);
    for (int n = 0; n < columns; n += 2) load_columns(y, n, n + 1 < columns ? 2 : 1, along, b + 2 * n);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            LLVMValueRef *part[4];
            for (int n = 0; n < 4; n++) {
                Coords at = {0};
                at.reg[m->row] = 2 * r + n / 2;
                at.reg[m->col] = 2 * c + n % 2;
                part[n] = &acc[simt_slot(s, &i->type, &at)];
            }
            multiply(s, s->k->types.at[i->in[0]].dtype, a + 4 * r, b + 2 * c, part);
        }
}

void mma_dot(Simt *s, const Inst *i) {
    const int n = simt_slots(s, &i->type), bytes = dtype_bytes(s->k->types.at[i->in[0]].dtype);
    LLVMValueRef *acc = ARENA_ARRAY(s->arena, LLVMValueRef, n);
    MatrixAxes m;
    matrix_axes(s->k, i, &m);
    for (int slot = 0; slot < n; slot++) {
        Coords c = {0};
        simt_coords(s, &i->type, slot, &c);
        acc[slot] = simt_value(s, i->in[2], &c);
    }
    simt_before_read(s);
    const bool staged = s->shared[i->in[0]] != NULL;
    const FragmentFactor x = staged ? factor_of(s, i->in[0], m.row, m.sum, true) : (FragmentFactor){0};
    const FragmentFactor y = factor_of(s, i->in[1], m.col, m.sum, false);
    for (int along = 0; along < s->k->axes.at[m.sum].step; along += 32 / bytes) step(staged ? &x : NULL, &y, i, &m, along, acc);
    s->reg[i->result] = acc;
}
