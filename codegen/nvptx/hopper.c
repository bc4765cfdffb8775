/* The shape of an sm_90a kernel: who does what, and which programs a block walks. */
#include "codegen/nvptx/hopper.h"
#include <string.h>

/* ---- programs ---------------------------------------------------------------------------------------------- */
/* Tiles of a grid axis, i32; where the axis has clusters, groups of neighbouring tiles. */
static LLVMValueRef tiles_of(const Simt *s, int x) {
    const Emit *e = s->e;
    const Axis *a = &s->k->axes.at[x];
    const int64_t step = (int64_t)a->step * (a->cluster > 1 ? a->cluster : 1);
    LLVMValueRef up = LLVMBuildAdd(e->b, s->extent[x], emit_i64(e, step - 1), "");
    return LLVMBuildTrunc(e->b, LLVMBuildUDiv(e->b, up, emit_i64(e, step), ""), e->i32, "");
}

static LLVMValueRef all_programs(const Simt *s) {
    LLVMValueRef n = hopper_i32(s->e, 1);
    for (int x = 0; x < s->k->axes.n; x++)
        if (s->k->axes.at[x].kind == AXIS_GRID) n = LLVMBuildMul(s->e->b, n, tiles_of(s, x), "");
    return n;
}

static void put_at(Simt *s, int x, LLVMValueRef tile) {
    const Emit *e = s->e;
    const Axis *a = &s->k->axes.at[x];
    if (a->cluster > 1)
        tile = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, tile, hopper_i32(e, a->cluster), ""), s->hopper->rank, "");
    s->base[x] = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, tile, e->i64, ""), emit_i64(e, a->step), "");
}

static void divide(const Emit *e, LLVMValueRef n, LLVMValueRef by, LLVMValueRef *quotient, LLVMValueRef *rest) {
    *rest = LLVMBuildURem(e->b, n, by, "");
    *quotient = LLVMBuildUDiv(e->b, n, by, "");
}

/* Axes [from, to) in row-major order, the last one fastest; what is left of the number. */
static LLVMValueRef row_major(Simt *s, int from, int to, LLVMValueRef program) {
    for (int x = to - 1; x >= from; x--) {
        if (s->k->axes.at[x].kind != AXIS_GRID) continue;
        LLVMValueRef rest;
        divide(s->e, program, tiles_of(s, x), &program, &rest);
        put_at(s, x, rest);
    }
    return program;
}

/* Axis x in groups: within one, all of the axes after it, and for each of those the group's tiles. */
static LLVMValueRef grouped(Simt *s, int x, LLVMValueRef program) {
    const Emit *e = s->e;
    const Axis *a = &s->k->axes.at[x];
    const int group = a->cluster > 1 && a->order >= a->cluster ? a->order / a->cluster : a->order;
    LLVMValueRef inner = hopper_i32(e, 1), tiles = tiles_of(s, x), outer, number, in_group, at[2];
    for (int y = x + 1; y < s->k->axes.n; y++)
        if (s->k->axes.at[y].kind == AXIS_GRID) inner = LLVMBuildMul(e->b, inner, tiles_of(s, y), "");
    divide(e, program, LLVMBuildMul(e->b, tiles, inner, ""), &outer, &program);
    divide(e, program, LLVMBuildMul(e->b, inner, hopper_i32(e, group), ""), &number, &in_group);
    LLVMValueRef first = LLVMBuildMul(e->b, number, hopper_i32(e, group), ""),
                 left = LLVMBuildSub(e->b, tiles, first, "");
    simt_within_group(e, in_group, tiles, left, group, at);
    put_at(s, x, LLVMBuildAdd(e->b, first, at[1], ""));
    row_major(s, x + 1, s->k->axes.n, at[0]);
    return outer;
}

static void place(Simt *s, LLVMValueRef program) {
    for (int x = 0; x < s->k->axes.n; x++) {
        if (s->k->axes.at[x].kind != AXIS_GRID || s->k->axes.at[x].order <= 1) continue;
        row_major(s, 0, x, grouped(s, x, program));
        return;
    }
    row_major(s, 0, s->k->axes.n, program);
}

/* ---- roles ---------------------------------------------------------------------------------------------------- */
/* The block's programs, or clusters of them: one, or every n-th where the grid has n that stay; of those, a group's. */
static void each_program(Simt *s, bool of_group, void (*work)(Simt *s)) {
    const Emit *e = s->e;
    LLVMValueRef first = hopper_register(e, s->hopper->rank ? "%clusterid.x" : "%ctaid.x");
    if (!s->k->persistent) {
        place(s, first);
        work(s);
        return;
    }
    LLVMBasicBlockRef head = emit_block(e, s->fn, "programs"), body = emit_block(e, s->fn, "program"),
                      done = emit_block(e, s->fn, "end");
    LLVMValueRef grid = hopper_register(e, s->hopper->rank ? "%nclusterid.x" : "%nctaid.x"), all = all_programs(s);
    if (of_group) hopper_groups_walk(s, &first, &grid);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMValueRef program = LLVMBuildPhi(e->b, e->i32, "");
    LLVMAddIncoming(program, &first, &from, 1);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, program, all, ""), body, done);
    LLVMPositionBuilderAtEnd(e->b, body);
    place(s, program);
    work(s);
    LLVMValueRef next = LLVMBuildAdd(e->b, program, grid, "");
    from = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(program, &next, &from, 1);
    LLVMPositionBuilderAtEnd(e->b, done);
}

static void compute_program(Simt *s) {
    s->shared_read = s->shared_written = s->old_read = s->around = true; /* by the program before */
    simt_block(s, &s->k->body);
    hopper_body_end(s, NULL);
    if (s->hopper->group) hopper_skip(s, hopper_i32(s->e, s->k->alternate - 1));
}

static void set_registers(const Simt *s, int role) {
    const int n = s->k->registers[role];
    if (!n) return;
    const char *text = arena_printf(s->arena, "setmaxnreg.%s.sync.aligned.u32 %d;", role ? "dec" : "inc", n);
    hopper_asm(s->e, s->e->none, text, "~{memory}", 0, NULL);
}

static void fetch(Simt *s, LLVMBasicBlockRef end) {
    const Emit *e = s->e;
    LLVMBasicBlockRef one = emit_block(e, s->fn, "one");
    set_registers(s, 1);
    LLVMValueRef first =
        LLVMBuildICmp(e->b, LLVMIntEQ, s->hopper->block_thread, hopper_i32(e, s->k->threads * kernel_groups(s->k)), "");
    LLVMBuildCondBr(e->b, first, one, end);
    LLVMPositionBuilderAtEnd(e->b, one);
    for (int i = 0; i < s->hopper->layout.first[s->hopper->layout.n_maps]; i++)
        hopper_asm(e, e->none, "prefetch.tensormap [$0];", "l,~{memory}", 1, &s->hopper->map[i]);
    each_program(s, false, hopper_fetch_program);
    LLVMBuildBr(e->b, end);
}

static void compute(Simt *s, LLVMBasicBlockRef end) {
    set_registers(s, 0);
    if (s->hopper->group) hopper_skip(s, s->hopper->group);
    each_program(s, s->hopper->group != NULL, compute_program);
    hopper_stores_done(s);
    LLVMBuildBr(s->e->b, end);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */
/* 128 bytes each, by value, used in place. */
void hopper_parameters(Simt *s, int first) {
    enum { MAP_BYTES = 128, MAP_PARAM_ALIGN = 64 };
    const Emit *e = s->e;
    LLVMMetadataRef index[FUSEC_MAX_MAPS], md[3];
    const int n = s->hopper->layout.first[s->hopper->layout.n_maps];
    const unsigned kind = LLVMGetEnumAttributeKindForName("byval", 5);
    for (int i = 0; i < n; i++) {
        LLVMAttributeRef byval = LLVMCreateTypeAttribute(e->context, kind, LLVMArrayType2(e->i8, MAP_BYTES));
        s->hopper->map[i] = LLVMGetParam(s->fn, (unsigned)(first + i));
        LLVMAddAttributeAtIndex(s->fn, (LLVMAttributeIndex)(first + i + 1), byval);
        emit_param_attribute(e, s->fn, first + i, "align", MAP_PARAM_ALIGN);
        index[i] = LLVMValueAsMetadata(hopper_i32(e, first + i + 1));
    }
    md[0] = LLVMValueAsMetadata(s->fn);
    md[1] = LLVMMDStringInContext2(e->context, "grid_constant", 13);
    md[2] = LLVMMDNodeInContext2(e->context, index, (size_t)n);
    LLVMAddNamedMetadataOperand(e->module, "nvvm.annotations",
                                LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, md, 3)));
}

LLVMValueRef hopper_map(const Simt *s, int n) {
    const HopperLayout *l = &s->hopper->layout;
    return simt_of_member(s, l->first[n + 1] - l->first[n], &s->hopper->map[l->first[n]]);
}

/* The same in all threads of a warp, and known to be. */
static LLVMValueRef warpgroup(const Simt *s) {
    LLVMValueRef args[] = {LLVMBuildLShr(s->e->b, s->thread, hopper_i32(s->e, 7), "")};
    return hopper_asm(s->e, s->e->i32, "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", 1, args);
}

void hopper_kernel(Simt *s) {
    const Emit *e = s->e;
    Hopper *h = s->hopper;
    h->memory = s->dynamic_address;
    h->lane = LLVMBuildAnd(e->b, s->thread, hopper_i32(e, 31), "");
    h->warpgroup = warpgroup(s);
    if (kernel_cluster_axis(s->k) >= 0) h->rank = hopper_register(e, "%cluster_ctarank");
    hopper_groups_begin(s);
    hopper_rings_begin(s);
    simt_wait_for_others(s);
    LLVMBasicBlockRef fetching = emit_block(e, s->fn, "fetching"), computing = emit_block(e, s->fn, "computing"),
                      end = emit_block(e, s->fn, "finish");
    LLVMValueRef computes =
        LLVMBuildICmp(e->b, LLVMIntULT, h->block_thread, hopper_i32(e, s->k->threads * kernel_groups(s->k)), "");
    LLVMBuildCondBr(e->b, computes, computing, fetching);
    LLVMPositionBuilderAtEnd(e->b, fetching);
    fetch(s, end);
    LLVMPositionBuilderAtEnd(e->b, computing);
    compute(s, end);
    LLVMPositionBuilderAtEnd(e->b, end);
    if (h->rank) /* others may still send into this block's memory */
        hopper_asm(e, e->none, "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;", "~{memory}", 0, NULL);
}
