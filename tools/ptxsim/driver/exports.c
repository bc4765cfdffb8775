/* The exported functions: each takes the lock, counts itself, may be made to fail, and checks what it needs. */
#include "tools/ptxsim/driver/driver.h"

typedef struct Call {
    const char *name, *symbol;
    CallNeed need;
    CallKind kind;
} Call;

static bool done_anyway(CallKind k) { return k == CALL_FREE || k == CALL_DROP || k == CALL_SYNC; }

static CUresult check_need(CallNeed need) {
    if (need == NEED_ANY) return CUDA_SUCCESS;
    if (!driver_ready()) return CUDA_ERROR_NOT_INITIALIZED;
    if (need == NEED_INIT) return CUDA_SUCCESS;
    const Context *c = current_context();
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    return need == NEED_HEALTHY ? c->failed : CUDA_SUCCESS;
}

/* CUDA_SUCCESS under the lock, or an error without it.  *later: what the call returns although it is done. */
static CUresult call_begin(const Call *call, CUresult *later) {
    if (in_host_function() && call->need != NEED_ANY) return CUDA_ERROR_NOT_PERMITTED;
    driver_lock();
    const bool own = call->kind == CALL_OWN;
    counters.calls += !own;
    const CUresult injected = own ? CUDA_SUCCESS : fault_next(call->name, call->symbol, call->kind);
    *later = done_anyway(call->kind) ? injected : CUDA_SUCCESS;
    const CUresult r = injected && !*later ? injected : check_need(call->need);
    if (r)
        driver_unlock();
    else if (call->kind == CALL_SYNC)
        counters.synchronisations++;
    return r;
}

static CUresult call_end(CUresult r, CUresult later) {
    driver_unlock();
    return r ? r : later;
}

#define CUDA_EXPORT(name, since, symbol, need, kind, parameters, arguments) \
    CUresult symbol parameters {                                            \
        static const Call CALL = {#name, #symbol, need, kind};              \
        CUresult later;                                                     \
        const CUresult r = call_begin(&CALL, &later);                       \
        return r ? r : call_end(sim_##symbol arguments, later);             \
    }
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT

/* ---- symbols ------------------------------------------------------------------------------------------ */
typedef void (*AnyFunction)(void);
static const struct {
    const char *name;
    int since;
    AnyFunction function;
} SYMBOLS[] = {
#define CUDA_EXPORT(name, since, symbol, need, kind, parameters, arguments) {#name, since, (AnyFunction)symbol},
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
};

bool export_known(const char *name) {
    for (size_t k = 0; k < sizeof SYMBOLS / sizeof *SYMBOLS; k++)
        if (strcmp(name, SYMBOLS[k].name) == 0) return true;
#define CUDA_EXPORT(name_, since, symbol, need, kind, parameters, arguments) \
    if (strcmp(name, #symbol) == 0) return true;
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
    return false;
}

/* The newest form of a function that a program built for `version` knows.  The variants that flags ask for (legacy or
 * per-thread default stream) are the same functions here: work is ordered by the stream that a call names. */
CUresult sim_cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    int best = -1, state = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (!name || !function || flags > 3) return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    for (size_t k = 0; k < sizeof SYMBOLS / sizeof *SYMBOLS; k++) {
        if (strcmp(SYMBOLS[k].name, name) != 0) continue;
        if (state == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) state = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        if (SYMBOLS[k].since > version || SYMBOLS[k].since < best) continue;
        best = SYMBOLS[k].since;
        state = CU_GET_PROC_ADDRESS_SUCCESS;
        memcpy(function, &SYMBOLS[k].function, sizeof *function);
    }
    if (status) *status = state;
    return state == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult sim_cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return sim_cuGetProcAddress_v2(name, function, version, flags, NULL);
}
