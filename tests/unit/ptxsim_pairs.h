/* Wrong kernels, each with the finding that it must give, and correct twins that must give none, under every way in
 * which asynchronous operations may land. */
#pragma once
#include "ptxsim_driver.h"
#include <stdbool.h>
#include <unistd.h>

#define HEAD_90 ".version 8.5\n.target sm_90a\n.address_size 64\n"

typedef struct Pair {
    const char *name, *kind; /* NULL: must be silent; "any": whatever, as it depends on the landing */
    const char *text;        /* kernel k(in, out) */
} Pair;

typedef struct Setting {
    unsigned grid, threads;
    const void *in;
    size_t in_bytes, out_bytes;
} Setting;

static char pairs_path[64];

static inline void run_pair(const Pair *c, const Setting *s) {
    char kinds[2048];
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    CUfunction f = load_kernel(c->text, "k");
    CUdeviceptr in = upload(s->in, s->in_bytes), out = upload(NULL, s->out_bytes);
    launch1(f, s->grid, s->threads, (void *[]){&in, &out});
    cu.cuCtxSynchronize();
    read_kinds(pairs_path, kinds, sizeof kinds);
    const bool any = c->kind && strcmp(c->kind, "any") == 0;
    const bool as_said = c->kind && !any ? strstr(kinds, c->kind) != NULL : any == (kinds[0] != 0);
    if (!as_said)
        fail_msg("%s (landing %s, seed %s): findings: %s", c->name, getenv("PTXSIM_LANDING"), getenv("PTXSIM_SEED"),
                 kinds);
    cu.cuMemFree_v2(in);
    cu.cuMemFree_v2(out);
    cu.cuCtxDestroy_v2(cu.context);
}

static inline void run_pairs(const Pair *pair, size_t count, const Setting *s) {
    static const struct { const char *landing, *seed; } ORDERS[] = {
        {"late", "0"}, {"early", "0"}, {"random", "0"}, {"late", "5"}, {"early", "9"}, {"random", "7"}};
    strcpy(pairs_path, "/tmp/ptxsim_pairs_XXXXXX");
    const int fd = mkstemp(pairs_path);
    assert_true(fd >= 0);
    close(fd);
    remove(pairs_path);
    setenv("PTXSIM_REPORT", pairs_path, 1);
    setenv("PTXSIM_MAX_STEPS", "300000", 1);
    for (size_t k = 0; k < sizeof ORDERS / sizeof *ORDERS; k++) {
        setenv("PTXSIM_LANDING", ORDERS[k].landing, 1);
        setenv("PTXSIM_SEED", ORDERS[k].seed, 1);
        for (size_t n = 0; n < count; n++) run_pair(&pair[n], s);
    }
    unsetenv("PTXSIM_LANDING");
    unsetenv("PTXSIM_SEED");
    unsetenv("PTXSIM_REPORT");
    unsetenv("PTXSIM_MAX_STEPS");
}

/* Runs k(in, out) of `text` under every landing and hands each result to `check`. */
static inline void each_landing(const char *text, const Setting *s, void (*check)(const void *out)) {
    static const char *const LANDING[] = {"late", "early", "random"};
    uint8_t *result = malloc(s->out_bytes);
    assert_non_null(result);
    for (int k = 0; k < 3; k++) {
        setenv("PTXSIM_LANDING", LANDING[k], 1);
        CUdeviceptr in = upload(s->in, s->in_bytes), out = upload(NULL, s->out_bytes);
        cu.cuMemsetD8_v2(out, 0xee, s->out_bytes);
        assert_int_equal(launch1(load_kernel(text, "k"), s->grid, s->threads, (void *[]){&in, &out}), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyDtoH_v2(result, out, s->out_bytes), CUDA_SUCCESS);
        check(result);
        cu.cuMemFree_v2(in);
        cu.cuMemFree_v2(out);
    }
    unsetenv("PTXSIM_LANDING");
    free(result);
}

/* The kernel with `body` in place of HOLE is no PTX: refused with the line of HOLE. */
static inline void refuse(const char *kernel, const char *body) {
    const char *hole = strstr(kernel, "HOLE");
    char text[8192], log[512] = "", line[32];
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES}, number = 1;
    void *values[] = {log, (void *)sizeof log};
    CUmodule module;
    assert_non_null(hole);
    for (const char *c = kernel; c < hole; c++) number += *c == '\n';
    snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - kernel), kernel, body, hole + strlen("HOLE"));
    snprintf(line, sizeof line, "%d", number);
    if (cu.cuModuleLoadDataEx(&module, text, 2, options, values) != CUDA_ERROR_INVALID_PTX || !strstr(log, line))
        fail_msg("%s: not refused with its line: %s", body, log);
}
