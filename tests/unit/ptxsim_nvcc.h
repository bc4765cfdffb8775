/* CUDA C++ as nvcc compiles it, where it is installed, for tests that run it on the software GPU. */
#pragma once
#include "ptxsim_driver.h"
#include <math.h>
#include <unistd.h>

static inline const char *find_nvcc(void) {
    static const char *const PLACES[] = {"/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"};
    for (size_t k = 0; k < sizeof PLACES / sizeof *PLACES; k++)
        if (access(PLACES[k], X_OK) == 0) return PLACES[k];
    return NULL;
}

/* PTX of tests/golden/ptxsim/NAME.cu, to be freed; NULL when there is no nvcc or it does not know the architecture. */
static inline char *nvcc_ptx(const char *name, const char *arch) {
    char path[64] = "/tmp/ptxsim_nvcc_XXXXXX", command[1024];
    const char *nvcc = find_nvcc();
    setenv("PTXSIM_CHECKS", "all=error", 1); /* these kernels have no habits to be forgiven */
    const int fd = nvcc ? mkstemp(path) : -1;
    if (fd < 0) return NULL;
    snprintf(command, sizeof command, "%s -ptx -arch=%s %s/tests/golden/ptxsim/%s.cu -o %s", nvcc, arch, SOURCE_DIR,
             name, path);
    const int r = system(command);
    const off_t bytes = lseek(fd, 0, SEEK_END);
    char *text = calloc((size_t)(bytes > 0 ? bytes : 0) + 1, 1);
    const int ok = !r && bytes > 0 && text && pread(fd, text, (size_t)bytes, 0) == bytes;
    close(fd);
    remove(path);
    if (ok) return text;
    free(text);
    return NULL;
}

static inline int nvcc_missing(void) {
    puts("nvcc is not here, or does not compile the kernels: skipped");
    return 77;
}

static inline float noise(int i) { return (float)((i * 7919) % 2003) / 1001.5f - 1.0f; }

static inline CUresult run2(CUfunction f, unsigned gx, unsigned gy, unsigned bx, unsigned by, void **params) {
    return cu.cuLaunchKernel(f, gx, gy, 1, bx, by, 1, 0, NULL, params, NULL);
}

static inline void use_seed(unsigned seed) {
    char text[16];
    snprintf(text, sizeof text, "%u", seed);
    setenv("PTXSIM_SEED", text, 1);
}
