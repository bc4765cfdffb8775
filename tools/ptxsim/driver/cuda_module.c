/* Modules and functions. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- module variables --------------------------------------------------------------------------------- */
static uint64_t variable_allocate(void *self, const char *name, uint64_t bytes, uint32_t align, bool constant) {
    CUmodule m = self;
    if (m->variable_count == m->variable_capacity) {
        const size_t capacity = m->variable_capacity ? 2 * m->variable_capacity : 16;
        CUdeviceptr *grown = realloc(m->variables, capacity * sizeof *grown);
        if (!grown) return 0;
        m->variables = grown;
        m->variable_capacity = capacity;
    }
    Allocation *a = memory_allocate(&m->context->memory, bytes, align);
    if (!a) return 0;
    a->constant = constant;
    a->module = true;
    a->name = name;
    memset(a->written, 1, bytes); /* module variables begin as zeros */
    m->variables[m->variable_count++] = a->address;
    return a->address;
}

static void variable_initialise(void *self, uint64_t address, uint64_t offset, const void *data, uint64_t bytes) {
    CUmodule m = self;
    Allocation *a = memory_find(&m->context->memory, address);
    if (a && offset + bytes <= a->bytes) memcpy(a->data + offset, data, bytes);
}

static void module_delete(CUmodule m) {
    for (size_t k = 0; k < m->variable_count; k++) memory_free(&m->context->memory, m->variables[k]);
    for (CUfunction f = m->functions, next; f; f = next) {
        next = f->next;
        free(f);
    }
    module_free(m->module);
    free(m->variables);
    free(m);
}

/* ---- JIT options -------------------------------------------------------------------------------------- */
/* Writes a log where the options ask for it; the size option then holds the bytes written. */
static void write_log(unsigned n, const int *options, void **values, int buffer_option, const char *text) {
    char *buffer = NULL;
    void **size = NULL;
    for (unsigned k = 0; k < n; k++) {
        if (options[k] == buffer_option) buffer = values[k];
        if (options[k] == buffer_option + 1) size = &values[k];
    }
    if (!size) return;
    const size_t room = (uintptr_t)*size > UINT32_MAX ? UINT32_MAX : (size_t)(uintptr_t)*size;
    size_t used = 0;
    if (buffer && room) used = (size_t)snprintf(buffer, room, "%s", text);
    *size = (void *)(uintptr_t)(used >= room && room ? room : used);
}

static bool is_binary(const unsigned char *p) {
    return (p[0] == 0x7f && p[1] == 'E') || (p[0] == 0x50 && p[1] == 0xed); /* ELF, fat binary */
}

static CUresult load(CUcontext c, CUmodule *out, const char *image, unsigned n, int *options, void **values) {
    ParseError error = {0};
    char log[400] = "";
    CUmodule m = calloc(1, sizeof *m);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    m->context = c;
    const ModuleMemory memory = {.self = m, .allocate = variable_allocate, .initialise = variable_initialise};
    m->module = module_parse(image, strlen(image), driver_device()->capability, &memory, &error);
    if (!m->module) snprintf(log, sizeof log, "ptxas error : line %d:%d: %s", error.line, error.column, error.text);
    write_log(n, options, values, CU_JIT_ERROR_LOG_BUFFER, log);
    write_log(n, options, values, CU_JIT_INFO_LOG_BUFFER, "");
    if (!m->module) {
        module_delete(m);
        return CUDA_ERROR_INVALID_PTX;
    }
    m->next = c->modules;
    c->modules = m;
    *out = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, int *options, void **values) {
    CUresult r;
    if (!module || !image || (n && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    if (is_binary(image)) return driver_leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
    return driver_leave(load(c, module, image, n, options, values));
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) { return cuModuleLoadDataEx(module, image, 0, NULL, NULL); }

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    FILE *f = fopen(path, "rb");
    if (!f) return CUDA_ERROR_FILE_NOT_FOUND;
    char *text = NULL;
    size_t used = 0, got;
    do {
        char *grown = realloc(text, used + (1 << 16) + 1);
        if (!grown) break;
        text = grown;
        got = fread(text + used, 1, 1 << 16, f);
        used += got;
    } while (got);
    fclose(f);
    if (!text) return CUDA_ERROR_OUT_OF_MEMORY;
    text[used] = '\0';
    const CUresult r = cuModuleLoadData(module, text);
    free(text);
    return r;
}

static CUmodule *find_module(CUcontext c, CUmodule m) {
    CUmodule *link = &c->modules;
    while (*link && *link != m) link = &(*link)->next;
    return *link ? link : NULL;
}

CUresult cuModuleUnload(CUmodule module) {
    CUresult r;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    CUmodule *link = find_module(c, module);
    if (!link) return driver_leave(CUDA_ERROR_INVALID_HANDLE);
    *link = module->next;
    module_delete(module);
    return driver_leave(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CUresult r;
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    if (!find_module(c, module)) return driver_leave(CUDA_ERROR_INVALID_HANDLE);
    const Function *fn = module_function(module->module, name);
    if (!fn || !fn->entry || !fn->defined) return driver_leave(CUDA_ERROR_NOT_FOUND);
    for (*function = module->functions; *function; *function = (*function)->next)
        if ((*function)->fn == fn) return driver_leave(CUDA_SUCCESS);
    CUfunction f = calloc(1, sizeof *f);
    if (!f) return driver_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *f = (struct CUfunc_st){.module = module, .fn = fn, .max_dynamic = -1, .next = module->functions};
    *function = module->functions = f;
    return driver_leave(CUDA_SUCCESS);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    CUresult r;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    if (!find_module(c, module)) return driver_leave(CUDA_ERROR_INVALID_HANDLE);
    const Variable *v = module_variable(module->module, name);
    if (!v || v->space == SPACE_SHARED) return driver_leave(CUDA_ERROR_NOT_FOUND);
    if (address) *address = v->address;
    if (bytes) *bytes = v->bytes;
    return driver_leave(CUDA_SUCCESS);
}

/* ---- functions ---------------------------------------------------------------------------------------- */
static uint64_t product(const uint32_t v[3]) { return (uint64_t)v[0] * v[1] * v[2]; }

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction f) {
    if (!value || !f) return CUDA_ERROR_INVALID_VALUE;
    const DeviceSpec *d = driver_device();
    const Function *fn = f->fn;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = fn->has_max_threads && product(fn->max_threads) < 1024 ? (int)product(fn->max_threads) : 1024;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)fn->shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)fn->local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = fn->register_count < 255 ? (int)fn->register_count : 255; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = f->module->module->target; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = d->capability; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->max_dynamic >= 0 ? f->max_dynamic : d->shared_block - (int)fn->shared_bytes;
        break;
    default: *value = 0; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value) {
    if (!f) return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
    if (value < 0 || (int64_t)value + f->fn->shared_bytes > driver_device()->shared_optin) return CUDA_ERROR_INVALID_VALUE;
    f->max_dynamic = value;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction f) {
    if (!name || !f) return CUDA_ERROR_INVALID_VALUE;
    *name = f->fn->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction f, int config) {
    (void)config;
    return f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads, size_t dynamic_shared) {
    if (!blocks || !f || threads < 1 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
    const DeviceSpec *d = driver_device();
    const int rounded = (threads + WARP - 1) / WARP * WARP;
    const uint64_t shared = f->fn->shared_bytes + dynamic_shared + 1024; /* the system's own part of each block */
    int n = d->threads_sm / rounded;
    if (n > d->blocks_sm) n = d->blocks_sm;
    if ((uint64_t)n > (uint64_t)d->shared_sm / shared) n = (int)((uint64_t)d->shared_sm / shared);
    *blocks = n;
    return CUDA_SUCCESS;
}
