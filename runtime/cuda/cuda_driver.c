/* libcuda: opened, looked up, its errors told. */
#include "runtime/cuda/cuda_internal.h"
#include <dlfcn.h>
#include <string.h>

FUSEC_WEAK void fusec_cuda_say(fusec_cuda *c, const char *text) {
    if (!c->log || !c->log_bytes || !text) return;
    while (*text && c->log_used + 1 < c->log_bytes) c->log[c->log_used++] = *text++;
    c->log[c->log_used] = 0;
}

FUSEC_WEAK void fusec_cuda_say_number(fusec_cuda *c, int64_t n) {
    char digits[24];
    int at = (int)sizeof digits - 1;
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    digits[at] = 0;
    do digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) != 0);
    if (n < 0) digits[--at] = '-';
    fusec_cuda_say(c, digits + at);
}

FUSEC_WEAK fusec_status fusec_cuda_check(fusec_cuda *c, int result, const char *what) {
    const char *name = NULL, *text = NULL;
    if (result == 0) return FUSEC_OK;
    fusec_cuda_say(c, what);
    fusec_cuda_say(c, ": ");
    if (c->driver.cuGetErrorName(result, &name) == 0 && name)
        fusec_cuda_say(c, name);
    else
        fusec_cuda_say_number(c, result);
    if (c->driver.cuGetErrorString(result, &text) == 0 && text) {
        fusec_cuda_say(c, ": ");
        fusec_cuda_say(c, text);
    }
    fusec_cuda_say(c, "\n");
    switch (result) {
    case FUSEC_CU_OUT_OF_MEMORY: return FUSEC_E_MEMORY;
    case FUSEC_CU_NO_DEVICE:
    case FUSEC_CU_NO_BINARY_FOR_GPU: return FUSEC_E_DEVICE;
    default: return FUSEC_E_DRIVER;
    }
}

FUSEC_WEAK int fusec_cuda_has(fusec_cuda *c, int present, const char *symbol) {
    if (present) return 1;
    fusec_cuda_say(c, "libcuda is too old: it has no ");
    fusec_cuda_say(c, symbol);
    fusec_cuda_say(c, "\n");
    return 0;
}

/* C99 has no conversion from void * to a function pointer; POSIX promises that they look alike. */
static int cuda_look_up(fusec_cuda *c, const char *symbol, void *function, size_t bytes) {
    void *found = dlsym(c->driver.library, symbol);
    memcpy(function, &found, bytes);
    return found != NULL;
}

static int cuda_find(fusec_cuda *c, const char *symbol, void *function, size_t bytes) {
    return fusec_cuda_has(c, cuda_look_up(c, symbol, function, bytes), symbol);
}

FUSEC_WEAK fusec_status fusec_cuda_open(fusec_cuda *c, const char *library) {
    int complete = 1;
    if (!library) library = "libcuda.so.1";
    c->driver.library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!c->driver.library) {
        const char *why = dlerror();
        fusec_cuda_say(c, "no CUDA driver: ");
        fusec_cuda_say(c, why ? why : library);
        fusec_cuda_say(c, "\n");
        return FUSEC_E_DRIVER;
    }
#define CUDA_FIND(symbol, parameters) \
    complete = complete && cuda_find(c, #symbol, &c->driver.symbol, sizeof c->driver.symbol);
    FUSEC_CU_FUNCTIONS(CUDA_FIND)
#undef CUDA_FIND
#define CUDA_FIND(symbol, parameters) (void)cuda_look_up(c, #symbol, &c->driver.symbol, sizeof c->driver.symbol);
    FUSEC_CU_OPTIONAL(CUDA_FIND)
#undef CUDA_FIND
    if (complete) return FUSEC_OK;
    dlclose(c->driver.library);
    c->driver.library = NULL;
    return FUSEC_E_DRIVER;
}

FUSEC_WEAK fusec_status fusec_cuda_enter(fusec_cuda *c) {
    c->log_used = 0;
    if (c->log && c->log_bytes) c->log[0] = 0;
    return fusec_cuda_check(c, c->driver.cuCtxPushCurrent_v2(c->context), "cuCtxPushCurrent");
}

FUSEC_WEAK void fusec_cuda_leave(fusec_cuda *c) {
    void *context;
    (void)c->driver.cuCtxPopCurrent_v2(&context); /* fails only if the context is gone, which the next call tells */
}
