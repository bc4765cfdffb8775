/* Modules: PTX text, its variables in device memory, its functions. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>

enum { LAST_JIT_OPTION = 36, CHUNK = 1 << 16, LOG = 2048 };

/* ---- module variables --------------------------------------------------------------------------------- */
static uint64_t variable_allocate(void *self, const char *name, uint64_t bytes, uint32_t align, bool constant) {
    SimModule *m = self;
    if (m->variable_count == m->variable_capacity) {
        const size_t capacity = m->variable_capacity ? 2 * m->variable_capacity : 16;
        CUdeviceptr *grown = realloc(m->variables, capacity * sizeof *grown);
        if (!grown) return 0;
        m->variables = grown;
        m->variable_capacity = capacity;
    }
    Allocation *a = memory_allocate(&m->object.context->memory, bytes, align);
    if (!a) return 0;
    a->constant = constant;
    a->module = true;
    a->name = name;
    memset(a->written, 1, bytes); /* module variables begin as zeros */
    m->variables[m->variable_count++] = a->address;
    return a->address;
}

static void variable_initialise(void *self, uint64_t address, uint64_t offset, const void *data, uint64_t bytes) {
    SimModule *m = self;
    Allocation *a = memory_find(&m->object.context->memory, address);
    if (a && offset + bytes <= a->bytes) memcpy(a->data + offset, data, bytes);
}

void module_unload(SimModule *m) {
    for (size_t k = 0; k < m->variable_count; k++) memory_free(&m->object.context->memory, m->variables[k]);
    for (SimFunction *f = m->functions, *next; f; f = next) {
        next = f->next;
        object_free(f);
    }
    if (m->module) module_free(m->module);
    free(m->variables);
    object_free(m);
}

/* ---- JIT options -------------------------------------------------------------------------------------- */
/* The last value given for an option; NULL: not given. */
static void **option_value(unsigned n, const int *options, void **values, int option) {
    void **found = NULL;
    for (unsigned k = 0; k < n; k++)
        if (options[k] == option) found = &values[k];
    return found;
}

static uint32_t option_number(unsigned n, const int *options, void **values, int option, uint32_t otherwise) {
    void **v = option_value(n, options, values, option);
    return v ? (uint32_t)(uintptr_t)*v : otherwise;
}

/* Writes a log where the options ask for it; the size option then holds the bytes written. */
static void write_log(unsigned n, const int *options, void **values, int buffer_option, const char *text) {
    void **buffer = option_value(n, options, values, buffer_option),
         **size = option_value(n, options, values, buffer_option + 1);
    if (!size) return;
    const size_t room = (uint32_t)(uintptr_t)*size;
    size_t used = 0;
    if (buffer && *buffer && room) used = (size_t)snprintf(*buffer, room, "%s", text);
    *size = (void *)(uintptr_t)(used >= room && room ? room : used);
}

static CUresult check_options(unsigned n, const int *options, void **values) {
    if (n && (!options || !values)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < n; k++)
        if (options[k] < 0 || options[k] > LAST_JIT_OPTION) return CUDA_ERROR_INVALID_VALUE;
    const uint32_t device = (uint32_t)driver_device()->capability;
    if (option_number(n, options, values, CU_JIT_TARGET, device) > device) return CUDA_ERROR_INVALID_VALUE;
    return option_number(n, options, values, CU_JIT_OPTIMIZATION_LEVEL, 4) > 4 ? CUDA_ERROR_INVALID_VALUE
                                                                               : CUDA_SUCCESS;
}

/* ---- loading ------------------------------------------------------------------------------------------ */
typedef enum ImageKind { IMAGE_TEXT, IMAGE_ELF, IMAGE_FATBIN } ImageKind;
static ImageKind image_kind(const unsigned char *p) {
    if (p[0] == 0x7f && p[1] == 'E') return IMAGE_ELF;
    return p[0] == 0x50 && p[1] == 0xed ? IMAGE_FATBIN : IMAGE_TEXT;
}

/* What a kernel declares, against what the device has.  Registers in use cannot be told from PTX. */
static CUresult check_kernel(const Function *fn, char *log, size_t room) {
    const DeviceSpec *d = driver_device();
    const uint64_t threads = (uint64_t)fn->max_threads[0] * fn->max_threads[1] * fn->max_threads[2];
    const uint64_t required = (uint64_t)fn->required_threads[0] * fn->required_threads[1] * fn->required_threads[2];
    const uint64_t cluster = (uint64_t)fn->required_cluster[0] * fn->required_cluster[1] * fn->required_cluster[2];
    const char *what = NULL;
    if (fn->shared_bytes > (uint32_t)d->shared_block) what = "uses too much shared data";
    if (fn->param_bytes > LARGE_PARAMETER_BYTES) what = "formal parameter space overflowed";
    if ((fn->has_max_threads && threads > MAX_THREADS) || (fn->has_required_threads && required > MAX_THREADS))
        what = "declares more threads than a block can have";
    if ((cluster || fn->explicit_cluster || fn->max_cluster_rank) && d->capability < 90)
        what = "has clusters, which need sm_90";
    if (cluster > MAX_CLUSTER) what = "declares too large a cluster";
    if (what) snprintf(log, room, "ptxas error   : line %d:%d: entry function '%s' %s", fn->line, fn->column, fn->name, what);
    return what ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

static CUresult check_kernels(const Module *m, char *log, size_t room) {
    enum { LARGE_PARAMETER_VERSION = 81 };
    for (const Function *fn = m->functions; fn; fn = fn->next) {
        if (!fn->entry || !fn->defined) continue;
        const CUresult r = check_kernel(fn, log, room);
        if (r) return r;
        if (fn->param_bytes <= PARAMETER_BYTES || m->version >= LARGE_PARAMETER_VERSION) continue;
        snprintf(log, room,
                 "ptxas error   : line %d:%d: entry function '%s' has %u bytes of parameters: more than %d need PTX 8.1",
                 fn->line, fn->column, fn->name, fn->param_bytes, PARAMETER_BYTES);
        return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
}

static void describe(const Module *m, char *log, size_t room) {
    size_t used = 0;
    log[0] = '\0';
    for (const Function *fn = m->functions; fn && used < room; fn = fn->next)
        if (fn->entry && fn->defined)
            used += (size_t)snprintf(log + used, room - used,
                                     "ptxas info    : %s: %u virtual registers, %u bytes smem, %u bytes lmem, "
                                     "%u bytes cmem[0]\n",
                                     fn->name, fn->register_count, fn->shared_bytes, fn->local_bytes, fn->param_bytes);
}

static CUresult parse(SimModule *m, const char *image, char *log, size_t room) {
    ParseError error = {0};
    const ModuleMemory memory = {.self = m, .allocate = variable_allocate, .initialise = variable_initialise};
    m->module = module_parse(image, strlen(image), driver_device()->capability, &memory, &error);
    if (m->module) return check_kernels(m->module, log, room);
    snprintf(log, room, "ptxas error   : line %d:%d: %s", error.line, error.column, error.text);
    return CUDA_ERROR_INVALID_PTX;
}

static void set_wall_time(unsigned n, const int *options, void **values) {
    void **v = option_value(n, options, values, CU_JIT_WALL_TIME);
    const float milliseconds = 0;
    if (v) memcpy(v, &milliseconds, sizeof milliseconds);
}

CUresult module_load(Context *c, SimModule **out, const void *image, unsigned n, const int *options, void **values) {
    char errors[LOG] = "", info[LOG] = "";
    CUresult r = check_options(n, options, values);
    if (r) return r;
    if (image_kind(image) != IMAGE_TEXT) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    SimModule *m = object_new(OBJECT_MODULE, c, sizeof *m);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    r = parse(m, image, errors, sizeof errors);
    if (!r && option_number(n, options, values, CU_JIT_LOG_VERBOSE, 0)) describe(m->module, info, sizeof info);
    write_log(n, options, values, CU_JIT_ERROR_LOG_BUFFER, errors);
    write_log(n, options, values, CU_JIT_INFO_LOG_BUFFER, info);
    set_wall_time(n, options, values);
    if (r)
        module_unload(m);
    else
        *out = m;
    counters.module_loads += !r;
    return r;
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, int *options, void **values) {
    SimModule *m;
    if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = module_load(current_context(), &m, image, n, options, values);
    if (!r) *module = object_handle(m);
    return r;
}
CUresult sim_cuModuleLoadData(CUmodule *module, const void *image) {
    return sim_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}
CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *image) { return sim_cuModuleLoadData(module, image); }

CUresult read_image(const char *path, char **text) {
    FILE *f = path ? fopen(path, "rb") : NULL;
    size_t used = 0, got;
    *text = NULL;
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_FILE_NOT_FOUND;
    do {
        char *grown = realloc(*text, used + CHUNK + 1);
        if (!grown) break;
        *text = grown;
        got = fread(*text + used, 1, CHUNK, f);
        used += got;
    } while (got);
    fclose(f);
    if (!*text) return CUDA_ERROR_OUT_OF_MEMORY;
    (*text)[used] = '\0';
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleLoad(CUmodule *module, const char *path) {
    char *text;
    CUresult r = read_image(path, &text);
    if (!r) r = sim_cuModuleLoadData(module, text);
    free(text);
    return r;
}

/* ---- what a module holds ------------------------------------------------------------------------------ */
CUresult sim_cuModuleUnload(CUmodule module) {
    SimModule *m = object_find(module, OBJECT_MODULE);
    if (!m || m->object.internal) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = context_drain(m->object.context); /* its kernels may be queued */
    module_unload(m);
    return r;
}

CUresult module_find_function(SimModule *m, const char *name, SimFunction **out) {
    const Function *fn = module_function(m->module, name);
    if (!fn || !fn->entry || !fn->defined) return CUDA_ERROR_NOT_FOUND;
    for (*out = m->functions; *out; *out = (*out)->next)
        if ((*out)->fn == fn) return CUDA_SUCCESS;
    SimFunction *f = object_new(OBJECT_FUNCTION, m->object.context, sizeof *f);
    if (!f) return CUDA_ERROR_OUT_OF_MEMORY;
    f->module = m;
    f->fn = fn;
    f->max_dynamic = f->carveout = -1;
    f->next = m->functions;
    *out = m->functions = f;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    SimFunction *f;
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    SimModule *m = object_find(module, OBJECT_MODULE);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = module_find_function(m, name, &f);
    if (!r) *function = object_handle(f);
    return r;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    SimModule *m = object_find(module, OBJECT_MODULE);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    const Variable *v = module_variable(m->module, name);
    if (!v || v->space == SPACE_SHARED) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = v->address;
    if (bytes) *bytes = v->bytes;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetLoadingMode(int *mode) {
    enum { EAGER = 1 };
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = EAGER;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
    const SimModule *m = object_find(module, OBJECT_MODULE);
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    *count = 0;
    for (const Function *fn = m->module->functions; fn; fn = fn->next) *count += fn->entry && fn->defined;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module) {
    SimModule *m = object_find(module, OBJECT_MODULE);
    unsigned n = 0;
    if (!functions) return CUDA_ERROR_INVALID_VALUE;
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    for (const Function *fn = m->module->functions; fn && n < count; fn = fn->next) {
        SimFunction *f;
        if (!fn->entry || !fn->defined) continue;
        const CUresult r = module_find_function(m, fn->name, &f);
        if (r) return r;
        functions[n++] = object_handle(f);
    }
    return CUDA_SUCCESS;
}
