/* A kernel for SIMT: one pass over its instructions, each emitted for every register of the calling thread.
 *
 * Loops and conditions depend on values that are the same in all threads of a program, so that barriers
 * are met by all.  Values that only feed shared memory are evaluated where they are staged. */
#include "codegen/nvptx/hopper.h"
#include <limits.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------------------- */
typedef struct At {
    Simt *s;
    const Coords *c;
} At;
static LLVMValueRef axis_of(void *user, int axis) {
    const At *at = user;
    return simt_axis_index(at->s, at->c, axis);
}
static LLVMValueRef base_of(void *user, int axis) { return ((const At *)user)->s->base[axis]; }
static LLVMValueRef extent_of(void *user, int sym) { return ((const At *)user)->s->sym[sym]; }
static LLVMValueRef value_of(void *user, int value) {
    const At *at = user;
    return simt_value(at->s, value, at->c);
}

static IndexSource index_source(At *at) {
    return (IndexSource){.user = at, .kernel = at->s->k, .bits = 64, .axis = axis_of, .base = base_of, .extent = extent_of, .value = value_of};
}

LLVMValueRef simt_index(Simt *s, const Index *x, const Coords *c) {
    At at = {s, c};
    const IndexSource source = index_source(&at);
    return emit_index(s->e, &source, x);
}

void simt_loop_bounds(Simt *s, const Inst *loop, LLVMValueRef *first, LLVMValueRef *end) {
    const Coords none = {0};
    At at = {s, &none};
    const IndexSource source = index_source(&at);
    emit_loop_bounds(s->e, &source, loop, s->extent[loop->axis], first, end);
}

static LLVMValueRef element(Simt *s, const Inst *i, const Coords *c) {
    LLVMValueRef in[4];
    for (int n = 0; n < i->n_in; n++) in[n] = simt_value(s, i->in[n], c);
    return emit_element(s->e, i->op, i->type.dtype, s->k->types.at[i->in[i->n_in - 1]].dtype, i->n_in, in);
}

static LLVMValueRef evaluate(Simt *s, const Inst *i, const Coords *c) {
    switch (i->kind) {
    case TI_CONST:
    case TI_FULL: return emit_const(s->e, i->type.dtype, i->value);
    case TI_INDEX: return emit_index_i32(s->e, s->k, i->index[0], simt_index(s, i->index[0], c));
    case TI_LOAD: return simt_load(s, i, c);
    default: return element(s, i, c);
    }
}

LLVMValueRef simt_value(Simt *s, int value, const Coords *c) {
    if (s->shared[value]) return simt_staged(s, value, c);
    if (s->run[value]) return emit_from_memory(s->e, s->k->types.at[value].dtype, LLVMBuildExtractElement(s->e->b, s->run[value], LLVMConstInt(s->e->i32, (unsigned)s->run_at, false), ""));
    if (s->reg[value]) return s->reg[value][simt_slot(s, &s->k->types.at[value], c)];
    return evaluate(s, s->def[value], c);
}

static LLVMValueRef *registers(Simt *s, const TileType *t) { return ARENA_ARRAY(s->arena, LLVMValueRef, simt_slots(s, t)); }

void simt_evaluate_slot(Simt *s, const Inst *i, int slot) {
    Coords c = {0};
    if (i->kind == TI_LOAD && simt_load_registers(s, i, slot)) return;
    simt_coords(s, &i->type, slot, &c);
    s->reg[i->result][slot] = evaluate(s, i, &c);
}

static void eager(Simt *s, const Inst *i) {
    s->reg[i->result] = registers(s, &i->type);
    for (int slot = 0; slot < simt_slots(s, &i->type); slot++)
        if (!s->reg[i->result][slot]) simt_evaluate_slot(s, i, slot);
}

/* ---- structure ---------------------------------------------------------------------------------------------- */
void simt_phis(Simt *s, const Inst *i, const int *values, LLVMValueRef **phi) {
    for (int n = 0; n < i->n_carry; n++) {
        const TileType *t = &s->k->types.at[values[n]];
        phi[n] = registers(s, t);
        for (int slot = 0; slot < simt_slots(s, t); slot++) phi[n][slot] = LLVMBuildPhi(s->e->b, emit_type(s->e, t->dtype), "");
    }
}

void simt_incoming(Simt *s, const Inst *i, LLVMValueRef **phi, const int *values, LLVMBasicBlockRef *from) {
    for (int n = 0; n < i->n_carry; n++) {
        const TileType *t = &s->k->types.at[values[n]];
        for (int slot = 0; slot < simt_slots(s, t); slot++) {
            Coords c = {0};
            simt_coords(s, t, slot, &c);
            LLVMValueRef v = simt_value(s, values[n], &c);
            *from = LLVMGetInsertBlock(s->e->b);
            LLVMAddIncoming(phi[n][slot], &v, from, 1);
        }
    }
    *from = LLVMGetInsertBlock(s->e->b);
}

static const Inst *yield_of(const Inst *i) { return i->body.at[i->body.n - 1]; }

static void loop(Simt *s, const Inst *i) {
    if (i->ahead && !s->hopper) {
        pipeline_loop(s, i);
        return;
    }
    if (s->hopper) hopper_loop_begin(s, i);
    const Emit *e = s->e;
    const Axis *axis = &s->k->axes.at[i->axis];
    LLVMBasicBlockRef head = emit_block(e, s->fn, "loop"), body = emit_block(e, s->fn, "body"), done = emit_block(e, s->fn, "done");
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    LLVMValueRef **phi = ARENA_ARRAY(s->arena, LLVMValueRef *, i->n_carry + 1), first, end;
    simt_loop_bounds(s, i, &first, &end);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMValueRef at = LLVMBuildPhi(e->b, e->i64, "");
    simt_phis(s, i, i->init, phi);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(from));
    simt_incoming(s, i, phi, i->init, &from);
    LLVMAddIncoming(at, &first, &from, 1);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, at, end, ""), body, done);
    LLVMPositionBuilderAtEnd(e->b, body);
    s->base[i->axis] = at;
    for (int n = 0; n < i->n_carry; n++) s->reg[i->carry[n]] = phi[n];
    const bool around = s->around;
    s->shared_read = s->shared_written = s->old_read = s->around = true; /* by the iteration before */
    simt_block(s, &i->body);
    if (s->hopper) hopper_body_end(s, i);
    LLVMBasicBlockRef last;
    simt_incoming(s, i, phi, yield_of(i)->in, &last);
    LLVMValueRef next = LLVMBuildAdd(e->b, at, emit_i64(e, axis->step), "");
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(at, &next, &last, 1);
    LLVMPositionBuilderAtEnd(e->b, done);
    for (int n = 0; n < i->n_carry; n++) s->reg[i->results[n]] = phi[n];
    s->shared_read = s->shared_written = s->old_read = true;
    s->around = around; /* there may have been no iteration */
    if (s->hopper) hopper_loop_done(s, i);
}

static void condition(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    Coords none = {0};
    LLVMValueRef cond = simt_value(s, i->in[0], &none);
    LLVMBasicBlockRef body = emit_block(e, s->fn, "then"), done = emit_block(e, s->fn, "endif");
    LLVMValueRef **phi = ARENA_ARRAY(s->arena, LLVMValueRef *, i->n_carry + 1);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), last;
    LLVMPositionBuilderAtEnd(e->b, done);
    simt_phis(s, i, i->results, phi);
    LLVMPositionBuilderAtEnd(e->b, from);
    simt_incoming(s, i, phi, i->init, &from);
    LLVMBuildCondBr(e->b, cond, body, done);
    LLVMPositionBuilderAtEnd(e->b, body);
    const bool around = s->around;
    simt_block(s, &i->body);
    simt_incoming(s, i, phi, yield_of(i)->in, &last);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    for (int n = 0; n < i->n_carry; n++) s->reg[i->results[n]] = phi[n];
    s->shared_read = s->shared_written = s->old_read = true;
    s->around = around;
}

void simt_instruction(Simt *s, const Inst *i) {
    switch (i->kind) {
    case TI_STORE: i->by == BY_TMA ? hopper_store(s, i) : simt_store(s, i); break;
    case TI_BUCKET: simt_bucket(s, i); break;
    case TI_REDUCE: simt_reduce(s, i); break;
    case TI_DOT: i->by == BY_WGMMA ? hopper_dot(s, i) : simt_dot(s, i); break;
    case TI_STAGE: i->by == BY_TMA ? hopper_stage(s, i) : simt_stage(s, i); break;
    case TI_FOR: loop(s, i); break;
    case TI_IF: condition(s, i); break;
    case TI_YIELD: break;
    default:
        if (!s->only[i->result]) eager(s, i);
        break;
    }
}

void simt_block(Simt *s, const Block *b) {
    for (int n = 0; n < b->n;) {
        const int to = n + block_run(b, n);
        if (to > n) simt_run(s, b, n, to);
        else simt_instruction(s, b->at[n]);
        n = to > n ? to : n + 1;
    }
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */
static void define(Simt *s, const Block *b) {
    for (int n = 0; n < b->n; n++) {
        if (b->at[n]->result >= 0) s->def[b->at[n]->result] = b->at[n];
        define(s, &b->at[n]->body);
    }
}

static LLVMValueRef special_register(const Emit *e, const char *name) {
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, NULL, 0);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, NULL, 0, "");
}

static LLVMValueRef run_time_extent(const Simt *s, Dim d) {
    const Emit *e = s->e;
    if (dim_is_fixed(d)) return emit_i64(e, d.bound);
    return emit_int_add(e, emit_int_scale(e, s->sym[d.sym], d.scale), emit_i64(e, d.offset));
}

static void spread_axes(Simt *s) {
    for (int x = 0; x < s->k->axes.n; x++) {
        const Axis *a = &s->k->axes.at[x];
        s->axis[x] = (AxisSpread){.regs = spread_registers(a), .vector = spread_vector(a), .threads = spread_threads(a),
                                  .exact = dim_is_fixed(a->extent) && a->extent.bound > 0 && a->extent.bound % a->step == 0};
    }
}

static LLVMValueRef divide(const Emit *e, LLVMValueRef *rest, LLVMValueRef by) {
    LLVMValueRef digit = LLVMBuildURem(e->b, *rest, by, "");
    *rest = LLVMBuildUDiv(e->b, *rest, by, "");
    return digit;
}

void simt_within_group(const Emit *e, LLVMValueRef within, LLVMValueRef tiles, LLVMValueRef left, int group, LLVMValueRef at[2]) {
    LLVMValueRef g = LLVMConstInt(e->i32, (unsigned)group, false), is_last = LLVMBuildICmp(e->b, LLVMIntULT, left, g, "");
    if (!LLVMIsConstant(tiles)) {
        at[1] = divide(e, &within, LLVMBuildSelect(e->b, is_last, left, g, ""));
        at[0] = within;
        return;
    }
    const unsigned last = (unsigned)LLVMConstIntGetZExtValue(tiles) % (unsigned)group;
    LLVMValueRef row = within, tile = divide(e, &row, g);
    at[0] = row, at[1] = tile;
    if (!last) return;
    tile = divide(e, &within, LLVMConstInt(e->i32, last, false));
    at[0] = LLVMBuildSelect(e->b, is_last, within, row, "");
    at[1] = LLVMBuildSelect(e->b, is_last, tile, at[1], "");
}

/* A grid with one axis in groups of G: `program` counts, inside each group, its G tiles first (fewer in the last one).
 * Returns the axis's tile; *program becomes the number without it, of the axes around it and inside. */
static LLVMValueRef ordered(const Emit *e, LLVMValueRef *program, LLVMValueRef tiles, LLVMValueRef inside, int group) {
    LLVMValueRef g = LLVMConstInt(e->i32, (unsigned)group, false), around = *program;
    LLVMValueRef here = divide(e, &around, LLVMBuildMul(e->b, tiles, inside, "")), at = here;
    LLVMValueRef within = divide(e, &at, LLVMBuildMul(e->b, g, inside, "")), first = LLVMBuildMul(e->b, at, g, "");
    LLVMValueRef left = LLVMBuildSub(e->b, tiles, first, ""), place[2];
    simt_within_group(e, within, tiles, left, group, place);
    *program = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, around, inside, ""), place[0], "");
    return LLVMBuildAdd(e->b, first, place[1], "");
}

/* The programs of `group` places along the other axes (fewer in the last group) are numbered by this axis first.  Returns its
 * tile; *program becomes the place. */
static LLVMValueRef slowest(const Emit *e, const Axis *a, LLVMValueRef *program, LLVMValueRef tiles, LLVMValueRef places) {
    LLVMValueRef g = LLVMConstInt(e->i32, (unsigned)a->slowest, false), group = *program;
    LLVMValueRef within = divide(e, &group, LLVMBuildMul(e->b, g, tiles, "")), first = LLVMBuildMul(e->b, group, g, "");
    LLVMValueRef left = LLVMBuildSub(e->b, places, first, ""), fewer = LLVMBuildICmp(e->b, LLVMIntULT, left, g, "");
    LLVMValueRef tile = within, place = divide(e, &tile, LLVMBuildSelect(e->b, fewer, left, g, ""));
    *program = LLVMBuildAdd(e->b, first, place, "");
    if (!a->down) return tile;
    return LLVMBuildSub(e->b, LLVMBuildSub(e->b, tiles, LLVMConstInt(e->i32, 1, false), ""), tile, "");
}

static void count_tiles(const Simt *s, LLVMValueRef tiles[]) {
    const Emit *e = s->e;
    for (int x = s->k->axes.n - 1; x >= 0; x--) {
        const Axis *a = &s->k->axes.at[x];
        if (a->kind != AXIS_GRID) continue;
        LLVMValueRef up = LLVMBuildAdd(e->b, s->extent[x], emit_i64(e, a->step - 1), "");
        tiles[x] = LLVMBuildTrunc(e->b, LLVMBuildUDiv(e->b, up, emit_i64(e, a->step), ""), e->i32, "");
    }
}

void simt_program(Simt *s, LLVMValueRef program) {
    const Emit *e = s->e;
    LLVMValueRef tiles[MAX_AXES], tile[MAX_AXES] = {0}, inside = LLVMConstInt(e->i32, 1, false), places = inside;
    int first = -1;
    count_tiles(s, tiles);
    for (int x = s->k->axes.n - 1; x >= 0; x--) {
        const Axis *a = &s->k->axes.at[x];
        if (a->kind != AXIS_GRID) continue;
        if (a->order) tile[x] = ordered(e, &program, tiles[x], inside, a->order);
        inside = LLVMBuildMul(e->b, inside, tiles[x], "");
        if (a->slowest) first = x;
        else places = LLVMBuildMul(e->b, places, tiles[x], "");
    }
    if (first >= 0) tile[first] = slowest(e, &s->k->axes.at[first], &program, tiles[first], places);
    for (int x = s->k->axes.n - 1; x >= 0; x--) {
        if (s->k->axes.at[x].kind != AXIS_GRID) continue;
        if (!tile[x]) tile[x] = divide(e, &program, tiles[x]);
        s->base[x] = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, tile[x], e->i64, ""), emit_i64(e, s->k->axes.at[x].step), "");
    }
}

/* Lane offsets and, for grid axes, the program's place. */
static void place_program(Simt *s) {
    const Emit *e = s->e;
    LLVMValueRef program = special_register(e, "llvm.nvvm.read.ptx.sreg.ctaid.x");
    if (s->before) program = LLVMBuildSub(e->b, program, LLVMConstInt(e->i32, (unsigned)s->before, false), "");
    s->thread = special_register(e, "llvm.nvvm.read.ptx.sreg.tid.x");
    if (s->hopper) hopper_threads(s);
    for (int x = s->k->axes.n - 1; x >= 0; x--) {
        const Axis *a = &s->k->axes.at[x];
        s->lane[x] = simt_lane(s, &a->spread);
        s->extent[x] = run_time_extent(s, a->extent);
        s->base[x] = emit_i64(e, 0);
    }
    simt_program(s, program);
}

/* The buffers of the program's member, each once: to select them where they are used takes an instruction for each member and
 * buffer, a branch as many as the member has buffers. */
static void enter_member(Simt *s) {
    const Emit *e = s->e;
    const int axis = kernel_family_axis(s->k), n = axis < 0 ? 0 : (int)s->k->axes.at[axis].extent.bound;
    if (n < 2) return;
    LLVMBasicBlockRef member[MAX_FAMILY], after = emit_block(e, s->fn, "member");
    for (int m = 0; m < n; m++) member[m] = emit_block(e, s->fn, "");
    LLVMValueRef which = LLVMBuildSwitch(e->b, LLVMBuildTrunc(e->b, s->base[axis], e->i32, ""), member[0], (unsigned)n - 1);
    for (int m = 0; m < n; m++) {
        if (m) LLVMAddCase(which, LLVMConstInt(e->i32, (unsigned)m, false), member[m]);
        LLVMPositionBuilderAtEnd(e->b, member[m]);
        LLVMBuildBr(e->b, after);
    }
    LLVMPositionBuilderAtEnd(e->b, after);
    for (int b = 0; b < s->k->buffers.n; b++) {
        if (!s->k->buffers.at[b].family) continue;
        LLVMValueRef here = LLVMBuildPhi(e->b, LLVMTypeOf(s->buffer[b]), "");
        LLVMAddIncoming(here, &s->buffer[b], member, (unsigned)n);
        s->buffer[b] = here;
    }
}

static void annotate(const Emit *e, LLVMValueRef fn, const char *what, int value) {
    LLVMMetadataRef md[] = {LLVMValueAsMetadata(fn), LLVMMDStringInContext2(e->context, what, strlen(what)),
                            LLVMValueAsMetadata(LLVMConstInt(e->i32, (unsigned)value, false))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, md, 3);
    LLVMAddNamedMetadataOperand(e->module, "nvvm.annotations", LLVMMetadataAsValue(e->context, node));
}

static int count_dots(const Block *b, By by) {
    int found = 0;
    for (int n = 0; n < b->n; n++) found += (b->at[n]->kind == TI_DOT && b->at[n]->by == by) + count_dots(&b->at[n]->body, by);
    return found;
}

/* The elements that a thread has of all products by threads. */
static int all_sums(const Kernel *k, const Block *b) {
    int all = 0;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        int sums = i->kind == TI_DOT && i->by == BY_NONE;
        for (int d = 0; d < i->type.n_axes && sums; d++) sums *= spread_registers(&k->axes.at[i->type.axis[d]]);
        all += sums + all_sums(k, &i->body);
    }
    return all;
}

/* Blocks that a multiprocessor is to hold.  Many sums want registers more than that; elsewhere 128 registers are enough.  Without
 * a number, or with one that leaves room to load everything at once, the assembler spills. */
static int least_resident(const Kernel *k) {
    enum { THREADS = 512, FEW_SUMS = 8 };
    const int sums = all_sums(k, &k->body);
    int least = INT_MAX;
    for (int i = 0; i < k->bundle.n; i++) {
        const int own = least_resident(k->bundle.at[i].kernel);
        if (own < least) least = own;
    }
    if (k->bundle.n) return least;
    if (count_dots(&k->body, BY_MMA)) return 1;
    if (sums) return sums > FEW_SUMS ? 2 : 3;
    return k->threads > THREADS ? 1 : THREADS / k->threads;
}

static void open_function(Simt *s) {
    const Emit *e = s->e;
    const int nb = s->k->buffers.n, first_map = nb + s->k->n_syms, n = first_map + (s->hopper ? s->hopper->layout.first[s->hopper->layout.n_maps] : 0);
    LLVMTypeRef *params = ARENA_ARRAY(s->arena, LLVMTypeRef, n + 1);
    for (int i = 0; i < n; i++)
        params[i] = i < nb ? LLVMPointerTypeInContext(e->context, SPACE_GLOBAL_PTR) : i < first_map ? e->i32 : e->ptr;
    s->fn = LLVMAddFunction(e->module, s->k->name, LLVMFunctionType(e->none, params, (unsigned)n, false));
    LLVMSetFunctionCallConv(s->fn, 71); /* ptx_kernel */
    annotate(e, s->fn, "kernel", 1);
    annotate(e, s->fn, "maxntidx", kernel_block_threads(s->k));
    if (s->hopper) annotate(e, s->fn, "minctasm", 1); /* setmaxnreg wants to know */
    else if (s->k->registers[0]) annotate(e, s->fn, "maxnreg", s->k->registers[0]);
    else annotate(e, s->fn, "minctasm", least_resident(s->k));
    emit_fn_attribute(e, s->fn, "nounwind");
    LLVMAddTargetDependentFunctionAttr(s->fn, "no-jump-tables", "true");
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, s->fn, ""));
    for (int i = 0; i < nb; i++) {
        s->buffer[i] = LLVMGetParam(s->fn, (unsigned)i);
        emit_param_attribute(e, s->fn, i, "align", 16);
        if (!s->k->buffers.at[i].in_place) emit_param_attribute(e, s->fn, i, "noalias", 0);
    }
    if (s->hopper) hopper_parameters(s, first_map);
    for (int i = 0; i < s->k->n_syms; i++) s->sym[i] = LLVMBuildSExt(e->b, LLVMGetParam(s->fn, (unsigned)(nb + i)), e->i64, "");
}

static Simt simt_open(const Emit *e, const Kernel *k, Arena *arena) {
    Simt s = {.e = e, .k = k, .launch = k, .arena = arena};
    s.buffer = ARENA_ARRAY(arena, LLVMValueRef, k->buffers.n + 1);
    s.sym = ARENA_ARRAY(arena, LLVMValueRef, k->n_syms + 1);
    s.only = ARENA_ARRAY(arena, bool, k->types.n + 1);
    s.def = ARENA_ARRAY(arena, const Inst *, k->types.n + 1);
    s.reg = ARENA_ARRAY(arena, LLVMValueRef *, k->types.n + 1);
    s.load_run = ARENA_ARRAY(arena, LoadRun, k->types.n + 1);
    s.shared = ARENA_ARRAY(arena, LLVMValueRef, k->types.n + 1);
    kernel_staged_only(k, s.only);
    define(&s, &k->body);
    return s;
}

/* The kernel's programs go on at `here`, with the threads that it has, the launch's others after that; ends the block. */
static void enter_bundled(const Simt *s, LLVMBasicBlockRef here, LLVMBasicBlockRef further) {
    const Emit *e = s->e;
    LLVMValueRef end = LLVMConstInt(e->i32, (unsigned)(s->before + kernel_programs(s->k, NULL)), false);
    LLVMValueRef program = special_register(e, "llvm.nvvm.read.ptx.sreg.ctaid.x");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, program, end, ""), here, further);
    LLVMPositionBuilderAtEnd(e->b, here);
    if (s->k->threads == s->launch->threads) return;
    LLVMBasicBlockRef working = emit_block(e, s->fn, ""), idle = emit_block(e, s->fn, "");
    LLVMValueRef threads = LLVMConstInt(e->i32, (unsigned)s->k->threads, false), own = special_register(e, "llvm.nvvm.read.ptx.sreg.tid.x");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, own, threads, ""), working, idle);
    LLVMPositionBuilderAtEnd(e->b, idle);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, working);
}

static bool emit_bundled(const Simt *whole, const Bundled *p, int64_t before) {
    Kernel own = *p->kernel;
    own.arena = whole->arena;
    const Emit *e = whole->e;
    Simt s = simt_open(e, &own, whole->arena);
    if (!kernel_may_be_bundled(&own) || kernel_check_spreads(s.arena, &own)) return false;
    LLVMBasicBlockRef here = emit_block(e, whole->fn, "bundled"), further = emit_block(e, whole->fn, "further");
    s.fn = whole->fn;
    s.before = before;
    s.launch = whole->k;
    enter_bundled(&s, here, further);
    for (int i = 0; i < own.buffers.n; i++) s.buffer[i] = whole->buffer[p->buffer[i]];
    for (int i = 0; i < own.n_syms; i++) s.sym[i] = whole->sym[i];
    spread_axes(&s);
    stage_open(&s);
    place_program(&s);
    enter_member(&s);
    simt_block(&s, &own.body);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, further);
    return !s.failed;
}

/* Source: PTX ISA, griddepcontrol.  Those that follow this kernel are launched when all blocks of it are here; they wait in turn. */
void simt_wait_for_others(const Simt *s) {
    if (!s->launch->dependent) return;
    hopper_asm(s->e, s->e->none, "griddepcontrol.wait;", "~{memory}", 0, NULL);
    hopper_asm(s->e, s->e->none, "griddepcontrol.launch_dependents;", "~{memory}", 0, NULL);
}

static bool simt_bundle(Simt *s) {
    int64_t before = 0;
    bool ok = true;
    open_function(s);
    simt_wait_for_others(s);
    for (int i = 0; i < s->k->bundle.n; i++) {
        ok &= emit_bundled(s, &s->k->bundle.at[i], before);
        before += kernel_programs(s->k->bundle.at[i].kernel, NULL);
    }
    LLVMBuildRetVoid(s->e->b);
    return ok;
}

bool simt_kernel(const Emit *e, const Kernel *k, Arena *arena) {
    Simt s = simt_open(e, k, arena);
    Hopper hopper = {0};
    if (k->bundle.n) return simt_bundle(&s);
    if (k->threads < 1 || kernel_check_spreads(arena, k)) return false;
    if (hopper_wanted(k)) s.hopper = &hopper;
    if (s.hopper && hopper_layout(arena, k, &hopper.layout)) return false;
    spread_axes(&s);
    open_function(&s);
    if (!s.hopper) simt_wait_for_others(&s); /* else behind what sets up its barriers */
    stage_open(&s);
    place_program(&s);
    if (!s.hopper) enter_member(&s);
    if (s.hopper) hopper_kernel(&s);
    else simt_block(&s, &k->body);
    LLVMBuildRetVoid(e->b);
    return !s.failed;
}
