/* PTX or a cubin becomes kernels; what the JIT compiler says goes to the log. */
#include "runtime/cuda/cuda_internal.h"
#include <stdio.h>
#include <string.h>

enum { CUDA_JIT_LOG = 4096, CUDA_STATIC_SHARED = 48 << 10, CUDA_MAX_IMAGE = 1 << 30 };

/* ---- the image as one text, in pinned memory that is given back soon -------------------------------------------- */
static fusec_status cuda_join(fusec_cuda *c, const char *const *lines, void **text) {
    size_t n = 1, at = 0;
    fusec_status s;
    for (const char *const *l = lines; *l; l++) n += strlen(*l);
    s = fusec_cuda_check(c, c->driver.cuMemAllocHost_v2(text, n), "cuMemAllocHost");
    if (s != FUSEC_OK) {
        *text = NULL;
        return s;
    }
    for (const char *const *l = lines; *l; l++) {
        const size_t length = strlen(*l);
        memcpy((char *)*text + at, *l, length);
        at += length;
    }
    ((char *)*text)[at] = 0;
    return FUSEC_OK;
}

static fusec_status cuda_file_failed(fusec_cuda *c, const char *path) {
    fusec_cuda_say(c, path);
    fusec_cuda_say(c, ": cannot be read\n");
    return FUSEC_E_FILE;
}

static fusec_status cuda_read_file(fusec_cuda *c, const char *path, void **text) {
    FILE *f = fopen(path, "rb");
    long n = -1;
    fusec_status s = FUSEC_OK;
    if (f && fseek(f, 0, SEEK_END) == 0) n = ftell(f);
    if (n <= 0 || n > CUDA_MAX_IMAGE || fseek(f, 0, SEEK_SET) != 0) s = cuda_file_failed(c, path);
    if (s == FUSEC_OK) {
        s = fusec_cuda_check(c, c->driver.cuMemAllocHost_v2(text, (size_t)n + 1), "cuMemAllocHost");
        if (s != FUSEC_OK) *text = NULL;
    }
    if (s == FUSEC_OK) {
        if (fread(*text, 1, (size_t)n, f) != (size_t)n) s = cuda_file_failed(c, path);
        ((char *)*text)[n] = 0;
    }
    if (f) fclose(f);
    return s;
}

/* ---- architecture ------------------------------------------------------------------------------------------------ */
static void cuda_say_device(fusec_cuda *c, int capability) {
    char name[128] = "";
    fusec_cuda_say(c, "device ");
    fusec_cuda_say_number(c, c->device);
    if (c->driver.cuDeviceGetName(name, (int)sizeof name, c->device) == 0) {
        fusec_cuda_say(c, " (");
        fusec_cuda_say(c, name);
        fusec_cuda_say(c, ")");
    }
    fusec_cuda_say(c, " is sm_");
    fusec_cuda_say_number(c, capability);
    fusec_cuda_say(c, "\n");
}

/* PTX for sm_80 runs on 8.0 and newer; for sm_90a on 9.0 alone.  A cubin says nothing here: the driver checks it. */
static fusec_status cuda_check_architecture(fusec_cuda *c, const char *image) {
    static const char directive[] = ".target sm_";
    int major = 0, minor = 0, needed = 0;
    const char *at = image[0] == 0x7f ? NULL : strstr(image, directive);
    fusec_status s = fusec_cuda_check(c, c->driver.cuDeviceGetAttribute(&major, FUSEC_CU_CAPABILITY_MAJOR, c->device),
                                      "cuDeviceGetAttribute");
    if (s == FUSEC_OK)
        s = fusec_cuda_check(c, c->driver.cuDeviceGetAttribute(&minor, FUSEC_CU_CAPABILITY_MINOR, c->device),
                             "cuDeviceGetAttribute");
    if (s != FUSEC_OK || !at) return s;
    for (at += sizeof directive - 1; *at >= '0' && *at <= '9' && needed < 10000; at++)
        needed = 10 * needed + (*at - '0');
    if (*at == 'a' ? 10 * major + minor == needed : 10 * major + minor >= needed) return FUSEC_OK;
    fusec_cuda_say(c, "the kernels are for sm_");
    fusec_cuda_say_number(c, needed);
    fusec_cuda_say(c, *at == 'a' ? "a alone; " : " and newer; ");
    cuda_say_device(c, 10 * major + minor);
    return FUSEC_E_DEVICE;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
static fusec_status cuda_jit(fusec_cuda *c, const void *image) {
    char info[CUDA_JIT_LOG] = "", error[CUDA_JIT_LOG] = "";
    int options[] = {FUSEC_CU_JIT_INFO_LOG, FUSEC_CU_JIT_INFO_LOG_BYTES, FUSEC_CU_JIT_ERROR_LOG,
                     FUSEC_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {info, (void *)(uintptr_t)(sizeof info - 1), error, (void *)(uintptr_t)(sizeof error - 1)};
    void *module = NULL;
    const int result = c->driver.cuModuleLoadDataEx(&module, image, 4, options, values);
    const fusec_status s = fusec_cuda_check(c, result, "cuModuleLoadDataEx");
    if (s == FUSEC_OK) c->module = module;
    info[sizeof info - 1] = error[sizeof error - 1] = 0;
    fusec_cuda_say(c, error);
    if (error[0]) fusec_cuda_say(c, "\n");
    fusec_cuda_say(c, info);
    if (info[0]) fusec_cuda_say(c, "\n");
    return s;
}

FUSEC_WEAK fusec_status fusec_cuda_load_module(fusec_cuda *c, const fusec_cuda_image *image) {
    void *text = NULL;
    const char *data = (const char *)image->data;
    fusec_status s = FUSEC_OK;
    if (image->path)
        s = cuda_read_file(c, image->path, &text);
    else if (image->lines)
        s = cuda_join(c, image->lines, &text);
    if (text) data = (const char *)text;
    if (s == FUSEC_OK) s = cuda_check_architecture(c, data);
    if (s == FUSEC_OK) s = cuda_jit(c, data);
    if (text) (void)c->driver.cuMemFreeHost(text);
    return s;
}

/* The manifest's kernels, by name, into c->functions. */
FUSEC_WEAK fusec_status fusec_cuda_find_kernels(fusec_cuda *c) {
    for (uint32_t i = 0; i < c->manifest->n_kernels; i++) {
        const fusec_kernel *k = &c->manifest->kernels[i];
        fusec_status s = fusec_cuda_check(c, c->driver.cuModuleGetFunction(&c->functions[i], c->module, k->name),
                                          "cuModuleGetFunction");
        if (s == FUSEC_OK && k->shared_bytes > CUDA_STATIC_SHARED)
            s = fusec_cuda_check(
                c, c->driver.cuFuncSetAttribute(c->functions[i], FUSEC_CU_MAX_DYNAMIC_SHARED, (int)k->shared_bytes),
                "cuFuncSetAttribute");
        if (s == FUSEC_OK) continue;
        fusec_cuda_say(c, "kernel ");
        fusec_cuda_say(c, k->name);
        fusec_cuda_say(c, "\n");
        return s;
    }
    return FUSEC_OK;
}
