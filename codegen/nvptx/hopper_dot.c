/* DOT by wgmma: a warpgroup multiplies tiles that lie in shared memory.
 *
 * Fragments, descriptors and the layouts they describe: PTX ISA, "Register Fragments and Shared Memory Matrix
 * Layouts" and "Matrix-descriptor" of wgmma.  A descriptor holds addresses in units of 16 bytes: the start in bits
 * 0-13, the leading dimension's offset in 16-29, the stride dimension's in 32-45, the swizzle in 62-63. */
#include "codegen/nvptx/hopper.h"
#include "ir/tile_schedule.h"

enum { MOST_COLUMNS = 256, MOST_REGISTERS = 256, K_BYTES = 32, GROUP_ROWS = 8 };

/* One factor as the instruction sees it. */
typedef struct DescribedFactor {
    const Inst *stage;
    StageLayout layout;
    int side; /* the axis that is not summed: m or n */
    bool k_major;
    LLVMValueRef start; /* i64: descriptor of the warpgroup's part at the first k */
} DescribedFactor;

typedef struct Product {
    Simt *s;
    const Inst *i;
    int m, n, k; /* axes */
    DescribedFactor a, b;
    int columns;            /* of one instruction */
    int m_blocks, n_blocks; /* instructions per warpgroup and K step */
    LLVMValueRef *acc;      /* by slot of the result */
    bool from_registers;    /* the rows */
    LLVMValueRef *rows;     /* then: four registers by block of rows and K step */
} Product;

static const Axis *axis_of(const Product *p, int x) { return &p->s->k->axes.at[x]; }

/* ---- what the schedule says -------------------------------------------------------------------------------------- */
/* Elements along the axis from one warpgroup to the next; 0: they all have the same ones. */
static int64_t warpgroup_step(const Axis *x) {
    for (int b = 0; b < x->spread.n; b++)
        if (x->spread.bit[b] >= 7) return (int64_t)1 << b;
    return 0;
}

static int64_t instruction_columns(const Axis *n) {
    const int64_t apart = warpgroup_step(n), all = apart ? apart : n->step;
    for (int64_t parts = 1;; parts++)
        if (all % parts == 0 && all / parts <= MOST_COLUMNS) return all / parts;
}

static DescribedFactor factor(const Product *p, int value, int side) {
    DescribedFactor f = {.stage = p->s->def[value], .side = side};
    stage_layout(p->s->k, f.stage, &f.layout);
    f.k_major = f.layout.minor == p->k;
    return f;
}

/* The verifier has seen to the spreads; what is left is what wgmma asks beyond mma. */
static bool open_product(Simt *s, const Inst *i, Product *p) {
    MatrixAxes x;
    *p = (Product){.s = s, .i = i};
    if (!matrix_axes(s->k, i, &x)) return false;
    p->m = x.row, p->n = x.col, p->k = x.sum;
    p->a = factor(p, i->in[0], p->m);
    p->b = factor(p, i->in[1], p->n);
    p->columns = (int)instruction_columns(axis_of(p, p->n));
    p->m_blocks = s->axis[p->m].regs / 2;
    p->n_blocks = s->axis[p->n].regs * 4 / p->columns;
    p->from_registers = hopper_from_registers(p->a.stage, i);
    return p->columns % 8 == 0 && p->a.layout.swizzle && p->b.layout.swizzle && (p->b.k_major || p->b.layout.bytes == 2);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
static uint64_t descriptor_bits(const DescribedFactor *f) {
    const uint64_t swizzle = f->layout.swizzle == 128 ? 1 : f->layout.swizzle == 64 ? 2 : 3;
    const uint64_t leading = f->k_major ? 1 : (uint64_t)f->layout.panel_stride * (uint64_t)f->layout.bytes / 16;
    const uint64_t stride = GROUP_ROWS * (uint64_t)f->layout.swizzle / 16;
    return leading << 16 | stride << 32 | swizzle << 62;
}

/* Bytes from the tile's start to element (side, k); both multiples of what one instruction takes. */
static int64_t place(const DescribedFactor *f, int64_t side, int64_t k) {
    const int64_t minor = f->k_major ? k : side, row = f->k_major ? side : k;
    const StageLayout *l = &f->layout;
    return (minor / l->panel * l->panel_stride + minor % l->panel) * l->bytes + row * l->swizzle;
}

/* Of the first m rows or n columns of this thread's warpgroup. */
static void open_factor(const Product *p, DescribedFactor *f) {
    const Emit *e = p->s->e;
    LLVMValueRef at = hopper_tile(p->s, f->stage);
    const int64_t apart = warpgroup_step(axis_of(p, f->side));
    if (apart) {
        LLVMValueRef by = hopper_i32(e, place(f, apart, 0));
        at = LLVMBuildAdd(e->b, at, LLVMBuildMul(e->b, p->s->hopper->warpgroup, by, ""), "");
    }
    at = LLVMBuildLShr(e->b, LLVMBuildAnd(e->b, at, hopper_i32(e, 0x3ffff), ""), hopper_i32(e, 4), "");
    at = LLVMBuildZExt(e->b, at, e->i64, "");
    f->start = LLVMBuildOr(e->b, at, LLVMConstInt(e->i64, descriptor_bits(f), false), "");
}

static LLVMValueRef descriptor(const Product *p, const DescribedFactor *f, int64_t side, int64_t k) {
    return LLVMBuildAdd(p->s->e->b, f->start, emit_i64(p->s->e, place(f, side, k) / 16), "");
}

/* ---- rows from registers ------------------------------------------------------------------------------------------------
 * Words of a tile that is laid out across the sum.  Lane 4 g + t holds rows g and g + 8 at sums t and t + 4.  Odd lanes read t + 4
 * first: of four lines of the swizzle, two by two exchange the same chunks, which t + 4 has in the line's other half. */
enum { FRAGMENT = 4 };

/* i32: bytes from the tile's start to the word that this lane reads first (turn 0), or second. */
static LLVMValueRef lane_word(const Product *p, int turn) {
    const Emit *e = p->s->e;
    LLVMValueRef offset[MAX_AXES], t = LLVMBuildAnd(e->b, p->s->thread, hopper_i32(e, 3), "");
    LLVMValueRef odd = LLVMBuildXor(e->b, LLVMBuildAnd(e->b, t, hopper_i32(e, 1), ""), hopper_i32(e, turn), "");
    for (int a = 0; a < MAX_AXES; a++) offset[a] = hopper_i32(e, 0);
    offset[p->m] = p->s->lane[p->m];
    offset[p->k] = LLVMBuildAdd(e->b, t, LLVMBuildMul(e->b, odd, hopper_i32(e, 4), ""), "");
    LLVMValueRef at = stage_element(p->s, &p->a.layout, offset);
    return LLVMBuildMul(e->b, at, hopper_i32(e, 4), "");
}

static LLVMValueRef word_at(const Product *p, LLVMValueRef tile, LLVMValueRef lane, int row, int64_t k) {
    const Emit *e = p->s->e;
    int offset[MAX_AXES] = {0};
    offset[p->m] = row;
    offset[p->k] = (int)k;
    const int64_t at = stage_place(&p->a.layout, offset), low = at % STAGE_PERIOD;
    if (low) lane = LLVMBuildXor(e->b, lane, hopper_i32(e, low), "");
    LLVMValueRef args[] = {LLVMBuildAdd(e->b, tile, lane, "")};
    const char *text = arena_printf(p->s->arena, "ld.shared.b32 $0, [$1+%d];", (int)(at - low));
    return hopper_asm(e, e->i32, text, "=r,r,~{memory}", 1, args);
}

static void load_rows(Product *p, int64_t step) {
    const Emit *e = p->s->e;
    const Axis *m = axis_of(p, p->m);
    const int64_t steps = axis_of(p, p->k)->step / step;
    LLVMValueRef tile = hopper_tile(p->s, p->a.stage), lane[2] = {lane_word(p, 0), lane_word(p, 1)};
    LLVMValueRef odd = LLVMBuildTrunc(e->b, p->s->thread, LLVMInt1TypeInContext(e->context), "");
    p->rows = ARENA_ARRAY(p->s->arena, LLVMValueRef, FRAGMENT * steps * p->m_blocks);
    for (int64_t n = 0; n < steps * p->m_blocks; n++)
        for (int half = 0; half < 2; half++) {
            const int row = spread_offset(m, 2 * (int)(n % p->m_blocks) + half);
            LLVMValueRef first = word_at(p, tile, lane[0], row, n / p->m_blocks * step),
                         second = word_at(p, tile, lane[1], row, n / p->m_blocks * step);
            p->rows[FRAGMENT * n + half] = LLVMBuildSelect(e->b, odd, second, first, "");
            p->rows[FRAGMENT * n + half + 2] = LLVMBuildSelect(e->b, odd, first, second, "");
        }
}

/* ---- accumulators ------------------------------------------------------------------------------------------------ */
/* Slot of the result that is register d of the fragment of one block. */
static int slot_of(const Product *p, int m_block, int n_block, int d) {
    Coords c = {0};
    c.reg[p->m] = 2 * m_block + d / 2 % 2;
    c.reg[p->n] = n_block * (p->columns / 4) + d / 4 * 2 + d % 2;
    return simt_slot(p->s, &p->i->type, &c);
}

static const char *list_of_registers(Arena *a, int n) {
    char *text = arena_alloc(a, (size_t)n * 6 + 8), *at = text;
    at += sprintf(at, "{");
    for (int i = 0; i < n; i++) at += sprintf(at, "%s$%d", i ? "," : "", i);
    sprintf(at, "}");
    return text;
}

/* n floats out, the same in, then what else goes in. */
static const char *tied(Arena *a, int n, const char *rest) {
    char *text = arena_alloc(a, (size_t)n * 9 + 64), *at = text;
    for (int i = 0; i < n; i++) at += sprintf(at, "=f,");
    for (int i = 0; i < n; i++) at += sprintf(at, "%d,", i);
    sprintf(at, "%s", rest);
    return text;
}

static LLVMTypeRef floats(const Simt *s, int n) {
    LLVMTypeRef *types = ARENA_ARRAY(s->arena, LLVMTypeRef, n);
    for (int i = 0; i < n; i++) types[i] = s->e->f32;
    return LLVMStructTypeInContext(s->e->context, types, (unsigned)n, false);
}

static void fence(const Simt *s) { hopper_asm(s->e, s->e->none, "wgmma.fence.sync.aligned;", "~{memory}", 0, NULL); }
void hopper_dot_commit(Simt *s) {
    hopper_asm(s->e, s->e->none, "wgmma.commit_group.sync.aligned;", "~{memory}", 0, NULL);
}

/* The registers go through the instruction, so that nothing is moved across it. */
static void wait_for(Simt *s, LLVMValueRef *reg, int n, int pending) {
    const char *text = arena_printf(s->arena, "wgmma.wait_group.sync.aligned %d;", pending);
    LLVMValueRef out = hopper_asm(s->e, floats(s, n), text, tied(s->arena, n, "~{memory}"), n, reg);
    for (int i = 0; i < n; i++) reg[i] = LLVMBuildExtractValue(s->e->b, out, (unsigned)i, "");
}

/* Reads the carried accumulators into all[], or writes them back; how many there are. */
static int carried(Simt *s, const Inst *loop, const int *values, LLVMValueRef *all, bool back) {
    const Inst *yield = loop->body.at[loop->body.n - 1];
    int n = 0;
    for (int c = 0; c < loop->n_carry; c++) {
        if (!s->def[yield->in[c]] || s->def[yield->in[c]]->kind != TI_DOT) continue;
        LLVMValueRef *reg = s->reg[values[c]];
        const int slots = simt_slots(s, &s->k->types.at[values[c]]);
        for (int slot = 0; slot < slots; slot++, n++) {
            if (back)
                reg[slot] = all[n];
            else
                all[n] = reg[slot];
        }
    }
    return n;
}

void hopper_dot_wait(Simt *s, const Inst *loop, const int *values, int pending) {
    LLVMValueRef all[MOST_REGISTERS];
    const int n = carried(s, loop, values, all, false);
    wait_for(s, all, n, pending);
    carried(s, loop, values, all, true);
}

/* ---- the instruction --------------------------------------------------------------------------------------------- */
static const char *format_of(DType t) { return t == DT_F16 ? "f16" : t == DT_BF16 ? "bf16" : "tf32"; }

static const char *instruction_text(const Product *p) {
    Arena *a = p->s->arena;
    const char *type = format_of(p->a.stage->type.dtype);
    const int n = p->columns / 2, rows = p->from_registers ? FRAGMENT : 1; /* registers */
    const char *transposed = p->a.layout.bytes == 2 ? arena_printf(a, ", %d, %d", !p->a.k_major, !p->b.k_major) : "";
    const char *first = p->from_registers ? arena_printf(a, "{$%d, $%d, $%d, $%d}", 2 * n, 2 * n + 1, 2 * n + 2, 2 * n + 3)
                                          : arena_printf(a, "$%d", 2 * n);
    return arena_printf(a,
                        "{ .reg .pred p; setp.ne.b32 p, $%d, 0; wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s %s, %s, $%d, p, 1, "
                        "1%s; }",
                        2 * n + rows + 1, p->columns, K_BYTES / p->a.layout.bytes, type, type, list_of_registers(a, n), first,
                        2 * n + rows, transposed);
}

/* acc: the fragment in and out; keep, i32: 0 to begin at zero. */
static void multiply(const Product *p, int m_block, int n_block, int64_t k, LLVMValueRef keep) {
    Simt *s = p->s;
    const Axis *m = axis_of(p, p->m), *n = axis_of(p, p->n);
    const int registers = p->columns / 2;
    LLVMValueRef args[MOST_COLUMNS / 2 + FRAGMENT + 2];
    int at = registers;
    for (int d = 0; d < registers; d++) args[d] = p->acc[slot_of(p, m_block, n_block, d)];
    const int64_t fragment = k / (K_BYTES / p->a.layout.bytes) * p->m_blocks + m_block;
    for (int r = 0; r < FRAGMENT && p->from_registers; r++) args[at++] = p->rows[FRAGMENT * fragment + r];
    if (!p->from_registers) args[at++] = descriptor(p, &p->a, spread_offset(m, 2 * m_block), k);
    args[at++] = descriptor(p, &p->b, spread_offset(n, n_block * (p->columns / 4)), k);
    args[at++] = keep;
    const char *inputs = p->from_registers ? "r,r,r,r,l,r,~{memory}" : "l,l,r,~{memory}";
    LLVMValueRef out = hopper_asm(s->e, floats(s, registers), instruction_text(p), tied(s->arena, registers, inputs), at, args);
    for (int d = 0; d < registers; d++)
        p->acc[slot_of(p, m_block, n_block, d)] = LLVMBuildExtractValue(s->e->b, out, (unsigned)d, "");
}

/* i32: does the first K step add to the accumulator?  Not if that is zero: in the first iteration of a loop that
 * begins at zeros, or always. */
static const Inst *loop_that_carries(const Block *b, int value, int *c) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n], *inside;
        for (*c = 0; i->kind == TI_FOR && *c < i->n_carry; (*c)++)
            if (i->carry[*c] == value) return i;
        if ((inside = loop_that_carries(&i->body, value, c))) return inside;
    }
    return NULL;
}

static LLVMValueRef adds(const Simt *s, const Inst *dot) {
    const Emit *e = s->e;
    const Inst *def = s->def[dot->in[2]];
    int c;
    if (def) return hopper_i32(e, !(def->kind == TI_FULL && def->value == 0));
    const Inst *loop = loop_that_carries(&s->k->body, dot->in[2], &c), *init = loop ? s->def[loop->init[c]] : NULL;
    if (!init || init->kind != TI_FULL || init->value != 0) return hopper_i32(e, 1);
    LLVMValueRef later = LLVMBuildICmp(e->b, LLVMIntNE, s->base[loop->axis], emit_i64(e, 0), "");
    return LLVMBuildZExt(e->b, later, e->i32, "");
}

static bool is_deferred(const Simt *s, const Inst *dot) {
    const HopperLayout *l = &s->hopper->layout;
    for (int r = 0; r < l->n_rings; r++)
        for (int n = 0; l->ring[r].deferred && n < l->ring[r].loop->body.n; n++)
            if (l->ring[r].loop->body.at[n] == dot) return true;
    return false;
}

void hopper_dot(Simt *s, const Inst *i) {
    Product p;
    if (!open_product(s, i, &p)) {
        s->failed = true;
        return;
    }
    const int slots = simt_slots(s, &i->type), step = K_BYTES / p.a.layout.bytes;
    p.acc = ARENA_ARRAY(s->arena, LLVMValueRef, slots);
    for (int slot = 0; slot < slots; slot++) {
        Coords c = {0};
        simt_coords(s, &i->type, slot, &c);
        p.acc[slot] = simt_value(s, i->in[2], &c);
    }
    if (p.from_registers)
        load_rows(&p, step);
    else
        open_factor(&p, &p.a);
    open_factor(&p, &p.b);
    fence(s);
    for (int64_t k = 0; k < axis_of(&p, p.k)->step; k += step)
        for (int m = 0; m < p.m_blocks; m++)
            for (int n = 0; n < p.n_blocks; n++) multiply(&p, m, n, k, k ? hopper_i32(s->e, 1) : adds(s, i));
    s->reg[i->result] = p.acc;
    if (is_deferred(s, i)) return;
    hopper_dot_commit(s);
    wait_for(s, p.acc, slots, 0);
}
