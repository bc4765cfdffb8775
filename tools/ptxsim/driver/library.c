/* Libraries: code that belongs to no context; each context that uses it gets a module of its own, when it does. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct Library {
    Object object;
    char *text;
    CUmodule *modules; /* one per context so far; stale where a context has ended */
    size_t count;
    struct Kernel *kernels;
} Library;
typedef struct Kernel {
    Object object;
    Library *library;
    char *name;
    struct {
        int attribute, value;
    } set[2]; /* max dynamic shared memory, carve-out: for modules to come */
    int set_count;
    struct Kernel *next;
} Kernel;

void library_free(void *object) {
    Library *l = object;
    for (Kernel *k = l->kernels, *next; k; k = next) {
        next = k->next;
        free(k->name);
        object_free(k);
    }
    for (size_t m = 0; m < l->count; m++) {
        SimModule *module = object_peek(l->modules[m], OBJECT_MODULE);
        if (module) module_unload(module);
    }
    free(l->modules);
    free(l->text);
    object_free(l);
}

/* The library's module in the current context, loaded now if it is the first use. */
static CUresult module_in(Library *l, Context *c, unsigned n, int *options, void **values, SimModule **out) {
    for (size_t k = 0; k < l->count; k++) {
        *out = object_peek(l->modules[k], OBJECT_MODULE);
        if (*out && (*out)->object.context == c) return CUDA_SUCCESS;
    }
    CUmodule *grown = realloc(l->modules, (l->count + 1) * sizeof *grown);
    if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
    l->modules = grown;
    const CUresult r = module_load(c, out, l->text, n, options, values);
    if (r) return r;
    (*out)->object.internal = true;
    l->modules[l->count++] = object_handle(*out);
    return CUDA_SUCCESS;
}

/* With a context at hand the code is compiled at once, so that its errors are those of this call. */
static CUresult load(CUlibrary *library, const char *code, unsigned n, int *options, void **values) {
    SimModule *m;
    CUresult r = CUDA_SUCCESS;
    Library *l = object_new(OBJECT_LIBRARY, NULL, sizeof *l);
    if (!l) return CUDA_ERROR_OUT_OF_MEMORY;
    l->text = strdup(code);
    if (!l->text) r = CUDA_ERROR_OUT_OF_MEMORY;
    Context *c = current_context();
    if (!r && c) r = module_in(l, c, n, options, values, &m);
    if (r)
        library_free(l);
    else
        *library = object_handle(l);
    return r;
}

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, int *jit_options, void **jit_values,
                               unsigned jit_count, int *options, void **values, unsigned count) {
    if (!library || !code || (count && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
    const unsigned char *p = code;
    if (p[0] == 0x7f || p[0] == 0x50) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return load(library, code, jit_count, jit_options, jit_values);
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit_options, void **jit_values,
                                   unsigned jit_count, int *options, void **values, unsigned count) {
    char *text;
    CUresult r = read_image(path, &text);
    if (!r) r = sim_cuLibraryLoadData(library, text, jit_options, jit_values, jit_count, options, values, count);
    free(text);
    return r;
}

CUresult sim_cuLibraryUnload(CUlibrary library) {
    Library *l = object_find(library, OBJECT_LIBRARY);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    for (Object *o = object_first(NULL); o; o = o->next)
        if (o->kind == OBJECT_CONTEXT) context_drain((Context *)o);
    library_free(l);
    return CUDA_SUCCESS;
}

/* ---- kernels ------------------------------------------------------------------------------------------ */
/* Is there such an entry?  Any context's module tells; without one, parsing tells when it is first used. */
static bool has_kernel(const Library *l, const char *name) {
    for (size_t k = 0; k < l->count; k++) {
        const SimModule *m = object_peek(l->modules[k], OBJECT_MODULE);
        const Function *fn = m ? module_function(m->module, name) : NULL;
        if (m) return fn && fn->entry && fn->defined;
    }
    return strstr(l->text, name) != NULL;
}

CUresult sim_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    if (!kernel || !name) return CUDA_ERROR_INVALID_VALUE;
    Library *l = object_find(library, OBJECT_LIBRARY);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    Kernel *k = l->kernels;
    while (k && strcmp(k->name, name) != 0) k = k->next;
    if (!k) {
        if (!has_kernel(l, name)) return CUDA_ERROR_NOT_FOUND;
        k = object_new(OBJECT_KERNEL, NULL, sizeof *k);
        if (!k) return CUDA_ERROR_OUT_OF_MEMORY;
        k->library = l;
        k->name = strdup(name);
        if (!k->name) {
            object_free(k);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        k->next = l->kernels;
        l->kernels = k;
    }
    *kernel = object_handle(k);
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
    SimModule *m;
    Library *l = object_find(library, OBJECT_LIBRARY);
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    Context *c = current_context();
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = module_in(l, c, 0, NULL, NULL, &m);
    return r ? r : sim_cuModuleGetFunctionCount(count, object_handle(m));
}

CUresult sim_cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    SimModule *m;
    Library *l = object_find(library, OBJECT_LIBRARY);
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = module_in(l, current_context(), 0, NULL, NULL, &m);
    if (!r) *module = object_handle(m);
    return r;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    CUmodule m;
    const CUresult r = sim_cuLibraryGetModule(&m, library);
    return r ? r : sim_cuModuleGetGlobal_v2(address, bytes, m, name);
}

CUresult kernel_function(CUkernel handle, SimFunction **f) {
    SimModule *m;
    Kernel *k = object_find(handle, OBJECT_KERNEL);
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    Context *c = current_context();
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = module_in(k->library, c, 0, NULL, NULL, &m);
    if (!r) r = module_find_function(m, k->name, f);
    for (int s = 0; !r && s < k->set_count; s++) r = function_set_attribute(*f, k->set[s].attribute, k->set[s].value);
    return r;
}

CUresult sim_cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    SimFunction *f;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = kernel_function(kernel, &f);
    if (!r) *function = object_handle(f);
    return r;
}

CUresult sim_cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device) {
    SimFunction *f;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_device(device);
    if (!r) r = kernel_function(kernel, &f);
    return r ? r : function_attribute(f, attribute, value);
}

/* Kept, so that it holds in every context. */
CUresult sim_cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device) {
    SimFunction *f;
    CUresult r = check_device(device);
    if (!r) r = kernel_function(kernel, &f);
    if (!r) r = function_set_attribute(f, attribute, value);
    if (r) return r;
    Kernel *k = object_peek(kernel, OBJECT_KERNEL);
    int at = 0;
    while (at < k->set_count && k->set[at].attribute != attribute) at++;
    if (at == (int)(sizeof k->set / sizeof *k->set)) return CUDA_SUCCESS;
    k->set[at].attribute = attribute;
    k->set[at].value = value;
    if (at == k->set_count) k->set_count++;
    return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetName(const char **name, CUkernel kernel) {
    const Kernel *k = object_find(kernel, OBJECT_KERNEL);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    *name = k->name;
    return CUDA_SUCCESS;
}
