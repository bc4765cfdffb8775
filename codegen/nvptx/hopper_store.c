/* Tiles on their way out: from the accumulators' fragments into shared memory by stmatrix, from there to memory by the
 * copy engine.
 *
 * Source: PTX ISA, "stmatrix": matrix i of a warp's four takes its rows' addresses from lanes 8 i .. 8 i + 7, and from
 * every lane the pair of columns that an accumulator fragment has there. */
#include "codegen/nvptx/hopper.h"
#include "ir/tile_schedule.h"

enum { MATRIX = 8, MATRICES = 4 };

/* ---- from registers ---------------------------------------------------------------------------------------------- */
typedef struct Fragments {
    int row, column; /* axes */
    int matrices;    /* stored at once: neighbouring blocks of 8 columns */
} Fragments;

static bool begins_with(const Spread *s, int n, const int8_t *bits) {
    for (int b = 0; b < n; b++)
        if (b >= s->n || s->bit[b] != bits[b]) return false;
    return true;
}

/* Is the tile held as accumulators are, with columns innermost in shared memory? */
static bool fragments_of(const Simt *s, const Inst *stage, Fragments *f) {
    const MatrixForm *form = matrix_form(BY_WGMMA);
    const TileType *t = &stage->type;
    *f = (Fragments){-1, -1, MATRICES};
    for (int d = 0; d < t->n_axes; d++) {
        const Axis *x = &s->k->axes.at[t->axis[d]];
        if (begins_with(&x->spread, form->n_row, form->row))
            f->row = t->axis[d];
        else if (begins_with(&x->spread, form->n_col, form->col))
            f->column = t->axis[d];
        else if (x->step > 1)
            return false;
    }
    if (f->row < 0 || f->column < f->row || stage->minor - 1 != f->column || dtype_bytes(t->dtype) != 2) return false;
    const Axis *columns = &s->k->axes.at[f->column];
    while (f->matrices > 1 && s->axis[f->column].regs % (2 * f->matrices)) f->matrices /= 2;
    for (int n = 1; n < f->matrices; n++)
        if (spread_offset(columns, 2 * n) != MATRIX * n) return false;
    return !simt_first_copy(s, t);
}

/* The element before it was rounded to the tile's type, where it is a conversion of f32: one instruction rounds two. */
static LLVMValueRef unrounded(Simt *s, const Inst *stage, const Coords *c) {
    const Inst *cast = s->def[stage->in[0]];
    const bool rounds =
        cast && cast->kind == TI_ELEMENT && cast->op == OP_CAST && s->k->types.at[cast->in[0]].dtype == DT_F32;
    return simt_value(s, rounds ? cast->in[0] : stage->in[0], c);
}

/* i32: two neighbouring columns. */
static LLVMValueRef pack(Simt *s, const Inst *stage, Coords *c, int column) {
    LLVMValueRef low = unrounded(s, stage, c);
    c->reg[column]++;
    LLVMValueRef args[] = {unrounded(s, stage, c), low};
    c->reg[column]--;
    const char *text = stage->type.dtype == DT_BF16 ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;";
    return hopper_asm(s->e, s->e->i32, text, "=r,f,f", 2, args);
}

/* This lane's row of one of the matrices that begin at registers c. */
static LLVMValueRef row_address(Simt *s, const Inst *stage, const StageLayout *l, const Fragments *f, const Coords *c) {
    const Emit *e = s->e;
    LLVMValueRef offset[MAX_AXES] = {0}, lane = LLVMBuildAnd(e->b, s->thread, hopper_i32(e, 31), "");
    for (int d = 0; d < stage->type.n_axes; d++) offset[stage->type.axis[d]] = hopper_i32(e, 0);
    LLVMValueRef rows = LLVMBuildAnd(e->b, s->lane[f->row], hopper_i32(e, -MATRIX), "");
    LLVMValueRef columns = LLVMBuildAnd(e->b, s->lane[f->column], hopper_i32(e, -MATRIX), "");
    LLVMValueRef row = LLVMBuildAnd(e->b, lane, hopper_i32(e, MATRIX - 1), "");
    LLVMValueRef right = LLVMBuildAnd(e->b, lane, hopper_i32(e, MATRIX * (f->matrices - 1)), "");
    rows = hopper_add(e, rows, spread_offset(&s->k->axes.at[f->row], c->reg[f->row]));
    columns = hopper_add(e, columns, spread_offset(&s->k->axes.at[f->column], c->reg[f->column]));
    offset[f->row] = LLVMBuildAdd(e->b, rows, row, "");
    offset[f->column] = LLVMBuildAdd(e->b, columns, right, "");
    LLVMValueRef at = stage_element(s, l, offset);
    return LLVMBuildAdd(e->b, stage_address(s, stage->result), LLVMBuildMul(e->b, at, hopper_i32(e, l->bytes), ""), "");
}

static void store_matrices(Simt *s, const Inst *stage, const StageLayout *l, const Fragments *f, Coords *c) {
    static const char *const text[] = {[1] = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [$0], {$1};",
                                       [2] = "stmatrix.sync.aligned.m8n8.x2.shared.b16 [$0], {$1, $2};",
                                       [4] = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};"};
    static const char *const inputs[] = {[1] = "r,r,~{memory}", [2] = "r,r,r,~{memory}", [4] = "r,r,r,r,r,~{memory}"};
    LLVMValueRef args[1 + MATRICES] = {row_address(s, stage, l, f, c)};
    for (int n = 0; n < f->matrices; n++) {
        args[1 + n] = pack(s, stage, c, f->column);
        c->reg[f->column] += 2;
    }
    hopper_asm(s->e, s->e->none, text[f->matrices], inputs[f->matrices], 1 + f->matrices, args);
}

/* All registers of the matrices that one instruction stores are there, one after the other. */
static bool in_blocks(const int *slot, int n, int block) {
    for (int at = 0; at < n; at++)
        if (slot[at] % block != at % block || slot[at] - slot[at - at % block] != at % block) return false;
    return n % block == 0;
}

bool hopper_stage_registers(Simt *s, const Inst *stage, const int *slot, int n) {
    Fragments f;
    StageLayout l;
    if (!fragments_of(s, stage, &f) || !in_blocks(slot, n, 2 * f.matrices)) return false;
    stage_layout(s->k, stage, &l);
    for (int at = 0; at < n; at += 2 * f.matrices) {
        Coords c = {0};
        simt_coords(s, &stage->type, slot[at], &c);
        store_matrices(s, stage, &l, &f, &c);
    }
    return true;
}

/* ---- to memory --------------------------------------------------------------------------------------------------- */
static LLVMBasicBlockRef by_one_thread(Simt *s) {
    const Emit *e = s->e;
    LLVMBasicBlockRef one = emit_block(e, s->fn, "one"), all = emit_block(e, s->fn, "all");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, s->thread, hopper_i32(e, 0), ""), one, all);
    LLVMPositionBuilderAtEnd(e->b, one);
    return all;
}

static void until_all(Simt *s, LLVMBasicBlockRef all) {
    LLVMBuildBr(s->e->b, all);
    LLVMPositionBuilderAtEnd(s->e->b, all);
}

static int map_of(const Simt *s, const Inst *store) {
    for (int n = 0; n < s->hopper->layout.n_maps; n++)
        if (s->hopper->layout.copy[n] == store) return n;
    return -1;
}

/* Do their places in shared memory have bytes in common? */
static bool share_bytes(const Simt *s, const Inst *a, const Inst *b) {
    const Inst *const stage[] = {a, b};
    int64_t first[2], end[2];
    for (int n = 0; n < 2; n++) {
        StageLayout l;
        stage_layout(s->k, stage[n], &l);
        first[n] = s->plan.offset[stage[n]->result], end[n] = first[n] + l.slot * s->plan.slots[stage[n]->result];
    }
    return first[0] < end[1] && first[1] < end[0];
}

bool hopper_over_leaving(const Simt *s, const Inst *stage) {
    for (int n = 0; n < s->hopper->layout.n_maps; n++) {
        const Inst *copy = s->hopper->layout.copy[n];
        if (copy->kind == TI_STORE && share_bytes(s, s->def[copy->in[0]], stage)) return true;
    }
    return false;
}

void hopper_store(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    const int n = map_of(s, i);
    const TensorMap *m = &s->hopper->layout.map[n];
    StageLayout l;
    stage_layout(s->k, s->def[i->in[0]], &l);
    hopper_asm(e, e->none, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL);
    simt_barrier(s);
    LLVMBasicBlockRef all = by_one_thread(s);
    for (int p = 0; p < m->panels; p++) {
        LLVMValueRef dim[FUSEC_MAP_RANK];
        hopper_coordinates(s, m, p, dim);
        LLVMValueRef from = hopper_add(e, stage_address(s, i->in[0]), (int64_t)p * l.panel_stride * l.bytes);
        hopper_copy_out(e, s->arena, hopper_map(s, n), m->rank, dim, from);
    }
    hopper_asm(e, e->none, "cp.async.bulk.commit_group;", "~{memory}", 0, NULL);
    until_all(s, all);
}

void hopper_stores_read(Simt *s) {
    LLVMBasicBlockRef all = by_one_thread(s);
    hopper_asm(s->e, s->e->none, "cp.async.bulk.wait_group.read 0;", "~{memory}", 0, NULL);
    until_all(s, all);
    simt_barrier(s);
}

void hopper_stores_done(Simt *s) {
    bool any = false;
    for (int n = 0; n < s->hopper->layout.n_maps; n++) any |= s->hopper->layout.copy[n]->kind == TI_STORE;
    if (!any) return;
    LLVMBasicBlockRef all = by_one_thread(s);
    hopper_asm(s->e, s->e->none, "cp.async.bulk.wait_group 0;", "~{memory}", 0, NULL);
    until_all(s, all);
}
