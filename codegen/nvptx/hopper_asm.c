/* PTX that LLVM has no instruction for, one at a time. */
#include "codegen/nvptx/hopper.h"
#include <string.h>

LLVMValueRef hopper_asm(const Emit *e, LLVMTypeRef type, const char *text, const char *constraints, int n,
                        LLVMValueRef *args) {
    enum { MOST = 300 };
    LLVMTypeRef params[MOST];
    for (int i = 0; i < n; i++) params[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef ft = LLVMFunctionType(type, params, (unsigned)n, false);
    LLVMValueRef fn = LLVMGetInlineAsm(ft, (char *)text, strlen(text), (char *)constraints, strlen(constraints), true,
                                       false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(e->b, ft, fn, args, (unsigned)n, "");
    const unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, kind, 0));
    return call;
}

LLVMValueRef hopper_i32(const Emit *e, int64_t v) { return LLVMConstInt(e->i32, (unsigned long long)v, true); }

LLVMValueRef hopper_add(const Emit *e, LLVMValueRef x, int64_t by) {
    return by ? LLVMBuildAdd(e->b, x, hopper_i32(e, by), "") : x;
}

LLVMValueRef hopper_register(const Emit *e, const char *name) {
    char text[64];
    snprintf(text, sizeof text, "mov.u32 $0, %s;", name);
    return hopper_asm(e, e->i32, text, "=r", 0, NULL);
}

/* ---- barriers ------------------------------------------------------------------------------------------------ */
void hopper_barrier_init(const Emit *e, LLVMValueRef at, int arrivals) {
    LLVMValueRef args[] = {at, hopper_i32(e, arrivals)};
    hopper_asm(e, e->none, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", 2, args);
}

void hopper_barrier_expect(const Emit *e, LLVMValueRef at, int64_t bytes) {
    LLVMValueRef args[] = {at, hopper_i32(e, bytes)};
    hopper_asm(e, e->none, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", 2, args);
}

void hopper_barrier_wait(const Emit *e, LLVMValueRef at, LLVMValueRef phase) {
    LLVMValueRef args[] = {at, phase};
    hopper_asm(
        e, e->none,
        "{ .reg .pred p; WAIT_${:uid}: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; @!p bra WAIT_${:uid}; }",
        "r,r,~{memory}", 2, args);
}

void hopper_barrier_arrive(const Emit *e, LLVMValueRef at, LLVMValueRef where) {
    LLVMValueRef args[] = {at, LLVMBuildZExt(e->b, where, e->i32, "")};
    hopper_asm(e, e->none, "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p mbarrier.arrive.shared::cta.b64 _, [$0]; }",
               "r,r,~{memory}", 2, args);
}

/* Says that a tile has been read: nothing that this thread wrote has to be seen beyond its block.  .release.cluster would
 * make the warp wait here, between products, for all that it has stored. */
void hopper_barrier_arrive_at(const Emit *e, LLVMValueRef at, LLVMValueRef rank, LLVMValueRef where) {
    LLVMValueRef args[] = {at, rank, LLVMBuildZExt(e->b, where, e->i32, "")};
    hopper_asm(e, e->none,
               "{ .reg .pred p; .reg .b32 there; setp.ne.b32 p, $2, 0; mov.b32 there, 0; @p mapa.shared::cluster.u32 there, $0, $1; "
               "@p mbarrier.arrive.shared::cluster.b64 _, [there]; }",
               "r,r,r,~{memory}", 3, args);
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */
/* ", {$2, $3}" for two dimensions from operand 2 on. */
static const char *coordinates(Arena *a, int rank, int from) {
    const char *text = arena_printf(a, "{$%d", from);
    for (int d = 1; d < rank; d++) text = arena_printf(a, "%s, $%d", text, from + d);
    return arena_printf(a, "%s}", text);
}

static const char *inputs(Arena *a, const char *first, int rank) {
    for (int d = 0; d < rank; d++) first = arena_printf(a, "%s,r", first);
    return arena_printf(a, "%s,~{memory}", first);
}

void hopper_copy_in(const Emit *e, Arena *a, LLVMValueRef to, LLVMValueRef map, int rank, LLVMValueRef *dim,
                    LLVMValueRef barrier, LLVMValueRef mask) {
    LLVMValueRef args[4 + FUSEC_MAP_RANK] = {to, map, barrier, mask ? mask : LLVMConstNull(e->i16)};
    for (int d = 0; d < rank; d++) args[4 + d] = dim[d];
    const char *text = arena_printf(
        a,
        "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes%s [$0], [$1, %s], [$2]%s;",
        rank, mask ? ".multicast::cluster" : "", coordinates(a, rank, 4), mask ? ", $3" : "");
    hopper_asm(e, e->none, text, inputs(a, "r,l,r,h", rank), 4 + rank, args);
}

void hopper_copy_window(const Emit *e, Arena *a, LLVMValueRef to, LLVMValueRef map, int rank, LLVMValueRef *dim,
                        LLVMValueRef *tap, LLVMValueRef barrier) {
    LLVMValueRef args[3 + 2 * FUSEC_MAP_RANK] = {to, map, barrier};
    for (int d = 0; d < rank; d++) args[3 + d] = dim[d];
    for (int d = 0; d < rank - 2; d++) args[3 + rank + d] = tap[d];
    const char *constraints = "r,l,r";
    for (int d = 0; d < 2 * rank - 2; d++) constraints = arena_printf(a, "%s,%s", constraints, d < rank ? "r" : "h");
    const char *text = arena_printf(
        a, "cp.async.bulk.tensor.%dd.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [$0], [$1, %s], [$2], %s;",
        rank, coordinates(a, rank, 3), coordinates(a, rank - 2, 3 + rank));
    hopper_asm(e, e->none, text, arena_printf(a, "%s,~{memory}", constraints), 1 + 2 * rank, args);
}

void hopper_copy_out(const Emit *e, Arena *a, LLVMValueRef map, int rank, LLVMValueRef *dim, LLVMValueRef from) {
    LLVMValueRef args[2 + FUSEC_MAP_RANK] = {map, from};
    for (int d = 0; d < rank; d++) args[2 + d] = dim[d];
    const char *text = arena_printf(a, "cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group [$0, %s], [$1];",
                                    rank, coordinates(a, rank, 2));
    hopper_asm(e, e->none, text, inputs(a, "l,r", rank), 2 + rank, args);
}
