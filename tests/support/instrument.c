/* Instrumentation of host code; see instrument.h.
 *
 * A walk over all instructions puts calls in front of them.  A function says when it begins and ends.  An array on its
 * stack gets PAD bytes on both sides, which nobody may touch, and is reported.  A load or store reports its address
 * and its bytes; one of vectors by a mask, the lanes whose bit is set; a gather or scatter, each lane by itself.  A
 * prefetch touches nothing. The walk comes before LLVM's passes: what they remove is reported as well, and what they
 * join still lies where it was reported, since none of them makes an access wider. The code runs in this process, so
 * that the calls go to addresses. */
#include "tests/support/instrument.h"
#include "codegen/llvm/emit.h"
#include "ir/memory.h"
#include <llvm-c/Target.h>
#include <stdio.h>
#include <string.h>

enum { PAD = 256 }; /* keeps every alignment that is asked for */

typedef enum { HOOK_ENTER, HOOK_LEAVE, HOOK_ALLOCATE, HOOK_ACCESS, HOOKS } HookKind;

typedef struct Hook {
    LLVMTypeRef type;
    LLVMValueRef fn;
} Hook;

typedef struct Instrumented {
    const Emit *e;
    LLVMTargetDataRef layout;
    Hook hook[HOOKS];
    const char *unknown; /* a function that takes memory, of which nothing is known */
} Instrumented;

/* ---- calls ----------------------------------------------------------------------------------------------- */
static Hook hook_at(const Emit *e, uintptr_t address, int n, LLVMTypeRef *params) {
    LLVMValueRef fn = LLVMConstIntToPtr(LLVMConstInt(e->i64, address, false), e->ptr);
    return (Hook){LLVMFunctionType(e->none, params, (unsigned)n, false), fn};
}

static void make_hooks(Instrumented *c, const MemoryHooks *hooks) {
    const Emit *e = c->e;
    LLVMTypeRef access[] = {e->ptr, e->i64, e->i64, e->i32};
    c->hook[HOOK_ENTER] = hook_at(e, (uintptr_t)hooks->enter, 1, access);
    c->hook[HOOK_LEAVE] = hook_at(e, (uintptr_t)hooks->leave, 0, NULL);
    c->hook[HOOK_ALLOCATE] = hook_at(e, (uintptr_t)hooks->allocate, 2, access);
    c->hook[HOOK_ACCESS] = hook_at(e, (uintptr_t)hooks->access, 4, access);
}

static void call(const Instrumented *c, HookKind kind, int n, LLVMValueRef *args) {
    LLVMBuildCall2(c->e->b, c->hook[kind].type, c->hook[kind].fn, args, (unsigned)n, "");
}

static void emit_access(const Instrumented *c, LLVMValueRef at, LLVMValueRef bytes, LLVMValueRef lanes, bool writes) {
    call(c, HOOK_ACCESS, 4, (LLVMValueRef[]){at, bytes, lanes, LLVMConstInt(c->e->i32, writes, false)});
}

static LLVMValueRef bytes_of(const Instrumented *c, LLVMTypeRef type) {
    return emit_i64(c->e, (int64_t)LLVMStoreSizeOfType(c->layout, type));
}

static void check_whole(const Instrumented *c, LLVMValueRef at, LLVMTypeRef type, bool writes) {
    emit_access(c, at, bytes_of(c, type), emit_i64(c->e, 1), writes);
}

/* ---- masked accesses ------------------------------------------------------------------------------------- */
static void check_masked(const Instrumented *c, LLVMValueRef at, LLVMTypeRef data, LLVMValueRef mask, bool writes) {
    const Emit *e = c->e;
    LLVMTypeRef bits = LLVMIntTypeInContext(e->context, LLVMGetVectorSize(LLVMTypeOf(mask)));
    LLVMValueRef lanes = LLVMBuildZExt(e->b, LLVMBuildBitCast(e->b, mask, bits, ""), e->i64, "");
    emit_access(c, at, bytes_of(c, LLVMGetElementType(data)), lanes, writes);
}

static void check_scattered(const Instrumented *c, LLVMValueRef at, LLVMTypeRef data, LLVMValueRef mask, bool writes) {
    const Emit *e = c->e;
    for (unsigned i = 0; i < LLVMGetVectorSize(data); i++) {
        LLVMValueRef lane = LLVMConstInt(e->i32, i, false);
        LLVMValueRef wanted = LLVMBuildExtractElement(e->b, mask, lane, "");
        emit_access(c, LLVMBuildExtractElement(e->b, at, lane, ""), bytes_of(c, LLVMGetElementType(data)),
                   LLVMBuildZExt(e->b, wanted, e->i64, ""), writes);
    }
}

/* Where the intrinsics have the operands that say what they touch. */
typedef enum { MASKED, SCATTERED, COPY, FILL, NOTHING } Touch;
static const struct {
    const char *begins;
    Touch touch;
    bool writes;
    unsigned pointer, mask;
} intrinsics[] = {
    {"llvm.masked.load.", MASKED, false, 0, 2},
    {"llvm.masked.store.", MASKED, true, 1, 3},
    {"llvm.masked.gather.", SCATTERED, false, 0, 2},
    {"llvm.masked.scatter.", SCATTERED, true, 1, 3},
    {"llvm.memcpy.", COPY, true, 0, 0},
    {"llvm.memset.", FILL, true, 0, 0},
    {"llvm.prefetch.", NOTHING, false, 0, 0},
};

static void check_intrinsic(const Instrumented *c, size_t which, LLVMValueRef inst) {
    const bool writes = intrinsics[which].writes;
    LLVMValueRef at = LLVMGetOperand(inst, intrinsics[which].pointer),
                 mask = LLVMGetOperand(inst, intrinsics[which].mask);
    LLVMTypeRef data = LLVMTypeOf(writes ? LLVMGetOperand(inst, 0) : inst);
    LLVMValueRef one = emit_i64(c->e, 1);
    switch (intrinsics[which].touch) {
    case MASKED: check_masked(c, at, data, mask, writes); break;
    case SCATTERED: check_scattered(c, at, data, mask, writes); break;
    case COPY:
        emit_access(c, LLVMGetOperand(inst, 1), LLVMGetOperand(inst, 2), one, false); /* and what it fills */
    /* fallthrough */
    case FILL: emit_access(c, at, LLVMGetOperand(inst, 2), one, true); break;
    case NOTHING: break;
    }
}

static bool takes_memory(const Instrumented *c, LLVMValueRef inst) {
    for (unsigned i = 0; i < LLVMGetNumArgOperands(inst); i++) {
        LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(inst, i));
        if (type == c->e->ptr) return true;
        if (LLVMGetTypeKind(type) == LLVMVectorTypeKind && LLVMGetElementType(type) == c->e->ptr) return true;
    }
    return false;
}

/* Functions with code are instrumented themselves. */
static void check_call(Instrumented *c, LLVMValueRef inst) {
    LLVMValueRef fn = LLVMGetCalledValue(inst);
    size_t n;
    if (!LLVMIsAFunction(fn) || !LLVMIsDeclaration(fn)) return;
    const char *name = LLVMGetValueName2(fn, &n);
    for (size_t i = 0; i < sizeof intrinsics / sizeof *intrinsics; i++)
        if (!strncmp(name, intrinsics[i].begins, strlen(intrinsics[i].begins))) {
            check_intrinsic(c, i, inst);
            return;
        }
    if (takes_memory(c, inst)) c->unknown = name;
}

/* ---- functions ------------------------------------------------------------------------------------------- */
static void pad_array(const Instrumented *c, LLVMValueRef array) {
    const Emit *e = c->e;
    LLVMTypeRef type = LLVMGetAllocatedType(array);
    const int64_t bytes = (int64_t)LLVMABISizeOfType(c->layout, type);
    LLVMValueRef wide = LLVMBuildAlloca(e->b, LLVMArrayType2(e->i8, (uint64_t)bytes + 2 * PAD), ""),
                 pad = emit_i64(e, PAD);
    LLVMSetAlignment(wide, LLVMGetAlignment(array));
    LLVMValueRef at = LLVMBuildGEP2(e->b, e->i8, wide, &pad, 1, "");
    call(c, HOOK_ALLOCATE, 2, (LLVMValueRef[]){at, emit_i64(e, bytes)});
    LLVMReplaceAllUsesWith(array, at);
    LLVMInstructionEraseFromParent(array);
}

static void instrument(Instrumented *c, LLVMValueRef inst) {
    LLVMPositionBuilderBefore(c->e->b, inst);
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMAlloca: pad_array(c, inst); break;
    case LLVMLoad: check_whole(c, LLVMGetOperand(inst, 0), LLVMTypeOf(inst), false); break;
    case LLVMStore: check_whole(c, LLVMGetOperand(inst, 1), LLVMTypeOf(LLVMGetOperand(inst, 0)), true); break;
    case LLVMCall: check_call(c, inst); break;
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg: c->unknown = "an atomic operation"; break;
    case LLVMRet: call(c, HOOK_LEAVE, 0, NULL); break;
    default: break;
    }
}

static void instrument_function(Instrumented *c, LLVMValueRef fn) {
    const Emit *e = c->e;
    size_t n;
    LLVMValueRef next, first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(fn));
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = next) {
            next = LLVMGetNextInstruction(i);
            if (i == first) {
                LLVMPositionBuilderBefore(e->b, i);
                LLVMValueRef name = LLVMBuildGlobalStringPtr(e->b, LLVMGetValueName2(fn, &n), "");
                call(c, HOOK_ENTER, 1, &name);
            }
            instrument(c, i);
        }
}

bool instrument_memory(const Emit *e, const void *hooks, char **error) {
    Instrumented c = {.e = e, .layout = LLVMGetModuleDataLayout(e->module)};
    make_hooks(&c, hooks);
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) instrument_function(&c, f);
    if (!c.unknown) return true;
    char text[256];
    snprintf(text, sizeof text, "checked code: what %.100s touches is not known", c.unknown);
    *error = memory_strdup(text);
    return false;
}
