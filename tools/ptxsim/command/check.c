/* ptxsim check: does the software GPU take this PTX?  It is loaded through the library, as a program would. */
#include "ir/memory.h"
#include "tools/ptxsim/command/command.h"
#include "tools/ptxsim/driver/cuda_api.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Loader {
    void *library;
    CUresult (*init)(unsigned);
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUresult (*destroy)(CUcontext);
    CUresult (*load)(CUmodule *, const void *, unsigned, int *, void **);
    CUresult (*unload)(CUmodule);
} Loader;

static bool open_loader(Loader *l) {
    char *folder = library_folder();
    char path[4200];
    if (!folder) return false;
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    free(folder);
    *l = (Loader){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!l->library) {
        fprintf(stderr, "ptxsim: %s\n", dlerror());
        return false;
    }
    *(void **)&l->init = dlsym(l->library, "cuInit");
    *(void **)&l->create = dlsym(l->library, "cuCtxCreate_v2");
    *(void **)&l->destroy = dlsym(l->library, "cuCtxDestroy_v2");
    *(void **)&l->load = dlsym(l->library, "cuModuleLoadDataEx");
    *(void **)&l->unload = dlsym(l->library, "cuModuleUnload");
    if (l->init && l->create && l->destroy && l->load && l->unload && !l->init(0)) return true;
    fprintf(stderr, "ptxsim: %s cannot be used\n", path);
    return false;
}

static char *read_text(const char *path) {
    FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
    TextStream t;
    FILE *to = f ? text_open(&t) : NULL;
    for (int c; f && (c = getc(f)) != EOF;) putc(c, to);
    const bool read = f && !ferror(f);
    if (!read) fprintf(stderr, "ptxsim: %s: %s\n", path, strerror(errno));
    if (f && f != stdin) fclose(f);
    if (read) return text_close(&t);
    if (f) free(text_close(&t));
    return NULL;
}

static bool check_file(const Loader *l, const char *path) {
    char log[4096] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    CUmodule module;
    char *text = read_text(path);
    if (!text) return false;
    const CUresult r = l->load(&module, text, 2, options, values);
    free(text);
    if (!r) l->unload(module);
    else fprintf(stderr, "%s: %s%s", path, log[0] ? log : "cannot be loaded", log[0] && strchr(log, '\n') ? "" : "\n");
    return !r;
}

int command_check(int argc, char **argv) {
    Loader l;
    CUcontext context;
    bool ok = true;
    if (argc < 2 || argv[1][0] == '-') {
        fputs("usage: ptxsim check FILE.ptx...\n", stderr);
        return EXIT_USAGE;
    }
    if (!getenv("PTXSIM_DEVICE")) setenv("PTXSIM_DEVICE", "sm_90", 1); /* takes code for older ones too */
    if (!open_loader(&l)) return EXIT_ERROR;
    if (l.create(&context, 0, 0)) {
        fputs("ptxsim: no context can be made: out of memory\n", stderr);
        return EXIT_ERROR;
    }
    for (int k = 1; k < argc; k++) ok = check_file(&l, argv[k]) && ok;
    l.destroy(context);
    dlclose(l.library);
    return ok ? EXIT_OK : EXIT_ERROR;
}
