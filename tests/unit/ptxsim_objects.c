/* Driver: modules with their options, libraries, functions and limits, launches with attributes, handles that are gone,
 * leaks, counters, and calls made to fail. */
#include "ptxsim_driver.h"

#define PTX_90 ".version 8.1\n.target sm_90\n.address_size 64\n"
static const char STORE[] = ".entry store(.param .u64 to, .param .u32 value)\n{\n.reg .b32 %r<3>; .reg .b64 %rd<3>;\n"
                            "ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [value]; st.global.u32 [%rd1], %r1; ret;\n}\n";
/* stores %cluster_nctaid.x */
static const char CLUSTERS[] = PTX_90
    ".entry free(.param .u64 to) { .reg .b32 %r<3>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [to]; mov.u32 %r1, %ctaid.x;\n"
    "mad.wide.u32 %rd2, %r1, 4, %rd1; mov.u32 %r2, %cluster_nctaid.x; st.global.u32 [%rd2], %r2; ret; }\n"
    ".entry must(.param .u64 to) .explicitcluster { ret; }\n"
    ".entry four(.param .u64 to) .reqnctapercluster 4 { ret; }\n"
    ".entry most(.param .u64 to) .maxclusterrank 2 { ret; }\n";

/* ---- modules ---------------------------------------------------------------------------------------------------- */
static void jit_logs(void **state) {
    (void)state;
    char error[200], info[400];
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                     CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                     CU_JIT_LOG_VERBOSE,      CU_JIT_TARGET};
    void *values[] = {error, (void *)sizeof error, info, (void *)sizeof info, (void *)1, (void *)80};
    char text[1024];
    CUmodule m;
    snprintf(text, sizeof text, PTX_HEAD "%s", STORE);
    assert_int_equal(cu.cuModuleLoadDataEx(&m, text, 6, options, values), CUDA_SUCCESS);
    assert_int_equal((uintptr_t)values[1], 0);
    assert_int_equal((uintptr_t)values[3], strlen(info));
    assert_non_null(strstr(info, "store"));
    cu.cuModuleUnload(m);
    values[1] = (void *)sizeof error;
    values[3] = (void *)sizeof info;
    assert_int_equal(cu.cuModuleLoadDataEx(&m, PTX_HEAD ".entry k() {\n  bogus.b32 %r1;\n}\n", 6, options, values),
                     CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(error, "line 5"));
    assert_int_equal((uintptr_t)values[1], strlen(error));
    values[1] = (void *)8; /* a log that does not fit is cut */
    assert_int_equal(cu.cuModuleLoadDataEx(&m, PTX_HEAD "bogus", 2, options, values), CUDA_ERROR_INVALID_PTX);
    assert_int_equal(strlen(error), 7);
    values[5] = (void *)100;
    assert_int_equal(cu.cuModuleLoadDataEx(&m, text, 6, options, values), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuModuleLoadData(&m, "\x7f"
                                             "ELF"),
                     CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(cu.cuModuleLoad(&m, "/nonexistent.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

static void refused_at_load(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        PTX_HEAD ".entry k() { .shared .b8 s[49153]; st.shared.u8 [s], 1; ret; }\n",
        PTX_HEAD ".entry k() .maxntid 1025 { ret; }\n",
        PTX_HEAD ".entry k(.param .b8 p[4097]) { ret; }\n",
        PTX_90 ".entry k(.param .b8 p[32765]) { ret; }\n",
        PTX_90 ".entry k() .reqnctapercluster 17 { ret; }\n",
    };
    CUmodule m;
    for (size_t k = 0; k < sizeof TEXTS / sizeof *TEXTS; k++)
        if (cu.cuModuleLoadData(&m, TEXTS[k]) != CUDA_ERROR_INVALID_PTX) fail_msg("%s", TEXTS[k]);
    load_kernel(PTX_90 ".entry k(.param .b8 p[32764]) { ret; }\n", "k");
    load_kernel(PTX_HEAD ".entry k() .maxnreg 256 { ret; }\n", "k"); /* ignored, as ptxas does with a warning */
    load_kernel(PTX_HEAD ".entry k() .maxnreg 255 { .shared .b8 s[49152]; st.shared.u8 [s], 1; ret; }\n", "k");
}

static void libraries(void **state) {
    (void)state;
    char text[1024];
    CUlibrary l;
    CUkernel k;
    CUfunction f;
    CUmodule m;
    CUcontext other;
    const char *name;
    uint32_t value = 7, got = 0;
    int shared;
    const uint64_t live = cu.live();
    CUdeviceptr p = upload(NULL, 4);
    snprintf(text, sizeof text, PTX_HEAD "%s", STORE);
    assert_int_equal(cu.cuLibraryLoadData(&l, text, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuLibraryGetKernel(&k, l, "nothing"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cu.cuLibraryGetKernel(&k, l, "store"), CUDA_SUCCESS);
    assert_int_equal(cu.cuKernelGetName(&name, k), CUDA_SUCCESS);
    assert_string_equal(name, "store");
    assert_int_equal(cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, k, 0),
                     CUDA_SUCCESS);
    assert_int_equal(launch1((CUfunction)(void *)k, 1, 1, (void *[]){&p, &value}),
                     CUDA_SUCCESS); /* a kernel is a function */
    cu.cuMemcpyDtoH_v2(&got, p, 4);
    assert_int_equal(got, 7);
    assert_int_equal(cu.cuLibraryGetModule(&m, l), CUDA_SUCCESS);
    assert_int_equal(cu.cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE); /* it is the library's */
    cu.cuMemFree_v2(p);
    assert_int_equal(cu.cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuKernelGetFunction(&f, k), CUDA_SUCCESS);
    cu.cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f);
    assert_int_equal(shared, 60000);
    cu.cuCtxDestroy_v2(other);
    assert_int_equal(cu.cuCtxSetCurrent(cu.context), CUDA_SUCCESS);
    assert_int_equal(cu.cuLibraryUnload(l), CUDA_SUCCESS);
    assert_int_equal(cu.cuKernelGetFunction(&f, k), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.live(), live);
}

/* ---- functions -------------------------------------------------------------------------------------------------- */
static void attributes(void **state) {
    (void)state;
    int v, grid, threads;
    size_t room;
    CUfunction f = load_kernel(PTX_90 ".entry k(.param .u64 a, .param .u32 b) .maxntid 128, 2 .maxnreg 64 {\n"
                                      ".shared .b8 s[1000]; st.shared.u8 [s], 1; ret; }\n",
                               "k");
    static const int EXPECTED[][2] = {{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 256},
                                      {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1000},
                                      {CU_FUNC_ATTRIBUTE_PTX_VERSION, 90},
                                      {CU_FUNC_ATTRIBUTE_BINARY_VERSION, 90},
                                      {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 48152},
                                      {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1},
                                      {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 0}};
    for (size_t k = 0; k < sizeof EXPECTED / sizeof *EXPECTED; k++) {
        assert_int_equal(cu.cuFuncGetAttribute(&v, EXPECTED[k][0], f), CUDA_SUCCESS);
        assert_int_equal(v, EXPECTED[k][1]);
    }
    assert_int_equal(cu.cuFuncGetAttribute(&v, 16, f), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 3), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448 - 1000),
                     CUDA_SUCCESS);
    assert_int_equal(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448 - 999),
                     CUDA_ERROR_INVALID_VALUE);
    size_t offset, bytes;
    assert_int_equal(cu.cuFuncGetParamInfo(f, 1, &offset, &bytes), CUDA_SUCCESS);
    assert_true(offset == 8 && bytes == 4);
    assert_int_equal(cu.cuFuncGetParamInfo(f, 2, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    /* 64 registers: 32 warps of 2048 each; shared memory: 228 KiB less 1 KiB and 1000 bytes a block */
    cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 256, 0);
    assert_int_equal(v, 4);
    cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 32, 0);
    assert_int_equal(v, 32);
    cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 32, 100000);
    assert_int_equal(v, 2);
    cu.cuOccupancyMaxPotentialBlockSize(&grid, &threads, f, NULL, 0, 0);
    assert_true(threads == 256 && grid == 4 * 132);
    cu.cuOccupancyAvailableDynamicSMemPerBlock(&room, f, 2, 256);
    assert_int_equal(room, 233472 / 2 - 1024 - 1000);
}

static CUresult launch_with(CUfunction f, unsigned grid, CUlaunchAttribute *attribute, unsigned n, void **params) {
    const CUlaunchConfig c = {grid, 1, 1, 32, 1, 1, 0, NULL, attribute, n};
    return cu.cuLaunchKernelEx(&c, f, params, NULL);
}
static CUlaunchAttribute cluster_of(unsigned x) {
    return (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {x, 1, 1}}};
}

static void clusters(void **state) {
    (void)state;
    uint32_t seen[16] = {0};
    int v;
    CUfunction any = load_kernel(CLUSTERS, "free"), must = load_kernel(CLUSTERS, "must"),
               four = load_kernel(CLUSTERS, "four"), most = load_kernel(CLUSTERS, "most");
    CUdeviceptr p = upload(NULL, sizeof seen);
    void *params[] = {&p};
    CUlaunchAttribute two = cluster_of(2), eight = cluster_of(8), sixteen = cluster_of(16), zero = cluster_of(0);
    assert_int_equal(launch_with(any, 16, &two, 1, params), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(seen, p, sizeof seen);
    assert_true(seen[0] == 2 && seen[15] == 2);
    assert_int_equal(launch_with(any, 3, &two, 1, params),
                     CUDA_ERROR_INVALID_CLUSTER_SIZE); /* does not divide the grid */
    assert_int_equal(launch_with(any, 16, &zero, 1, params), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch_with(any, 16, &eight, 1, params), CUDA_SUCCESS);
    assert_int_equal(launch_with(any, 16, &sixteen, 1, params), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(cu.cuFuncSetAttribute(any, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1), CUDA_SUCCESS);
    assert_int_equal(launch_with(any, 16, &sixteen, 1, params), CUDA_SUCCESS);
    assert_int_equal(launch_with(must, 2, NULL, 0, params), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch_with(must, 2, &two, 1, params), CUDA_SUCCESS);
    assert_int_equal(launch_with(four, 8, NULL, 0, params), CUDA_SUCCESS);
    assert_int_equal(launch_with(four, 6, NULL, 0, params), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch_with(four, 8, &two, 1, params), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch_with(most, 8, &eight, 1, params), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    cu.cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, four);
    assert_int_equal(v, 4);
    const CUlaunchConfig config = {16, 1, 1, 1024, 1, 1, 0, NULL, &two, 1};
    cu.cuOccupancyMaxActiveClusters(&v, any, &config);
    assert_int_equal(v, 132);
    cu.cuMemFree_v2(p);
}

static void launch_attributes(void **state) {
    (void)state;
    char text[1024];
    snprintf(text, sizeof text, PTX_HEAD "%s", STORE);
    CUfunction f = load_kernel(text, "store"), greedy = load_kernel(PTX_HEAD ".entry k() .maxnreg 128 { ret; }\n", "k");
    uint32_t value = 3;
    CUdeviceptr p = upload(&value, 4);
    void *params[] = {&p, &value};
    CUlaunchAttribute all[] = {{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                .value = {.programmaticStreamSerializationAllowed = 1}},
                               {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = -1}},
                               {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}}};
    CUlaunchAttribute unknown = {.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE};
    assert_int_equal(launch_with(f, 1, all, 3, params), CUDA_SUCCESS);
    assert_int_equal(launch_with(f, 1, &unknown, 1, params), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cu.cuLaunchCooperativeKernel(f, 132 * 32 + 1, 1, 1, 32, 1, 1, 0, NULL, params),
                     CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    assert_int_equal(launch1(greedy, 1, 512, NULL), CUDA_SUCCESS);
    assert_int_equal(launch1(greedy, 1, 513, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES); /* 128 * 544 registers */
    size_t bytes = 12;
    struct {
        CUdeviceptr to;
        uint32_t value;
    } block = {p, 44};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    assert_int_equal(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(&value, p, 4);
    assert_int_equal(value, 44);
    bytes = 11;
    assert_int_equal(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_INVALID_VALUE);
    cu.cuMemFree_v2(p);
}

/* ---- handles and leaks ------------------------------------------------------------------------------------------ */
static void handles_that_are_gone(void **state) {
    (void)state;
    CUstream s;
    CUevent e;
    CUgraph g;
    CUgraphNode n;
    CUgraphExec x;
    CUmodule m;
    CUfunction f;
    CUcontext c;
    char text[1024];
    snprintf(text, sizeof text, PTX_HEAD "%s", STORE);
    cu.cuStreamCreate(&s, 0);
    cu.cuEventCreate(&e, 0);
    cu.cuGraphCreate(&g, 0);
    cu.cuGraphAddEmptyNode(&n, g, NULL, 0);
    cu.cuGraphInstantiateWithFlags(&x, g, 0);
    cu.cuModuleLoadData(&m, text);
    cu.cuModuleGetFunction(&f, m, "store");
    cu.cuCtxCreate_v2(&c, 0, 0);
    cu.cuCtxDestroy_v2(c);
    assert_int_equal(cu.cuCtxSetCurrent(cu.context), CUDA_SUCCESS);
    uint64_t found = findings();
    for (int round = 0; round < 2; round++) { /* the second time all are gone */
        const CUresult wanted = round ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
        assert_int_equal(cu.cuStreamDestroy_v2(s), wanted);
        assert_int_equal(cu.cuEventDestroy_v2(e), wanted);
        assert_int_equal(cu.cuGraphExecDestroy(x), round ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
        assert_int_equal(cu.cuGraphDestroy(g), round ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
        assert_int_equal(cu.cuModuleUnload(m), wanted);
    }
    assert_int_equal(findings(), found + 5);
    assert_int_equal(cu.cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuEventRecord(e, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuGraphLaunch(x, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuGraphAddEmptyNode(&n, g, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuModuleGetFunction(&f, m, "store"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(launch1(f, 1, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuCtxPushCurrent_v2(c), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.cuStreamSynchronize((CUstream)(uintptr_t)0x123456789), CUDA_ERROR_INVALID_HANDLE); /* made up */
    assert_int_equal(cu.cuEventRecord((CUevent)(void *)cu.context, NULL), CUDA_ERROR_INVALID_HANDLE); /* another kind */
    assert_true(findings() >= found + 14);
}

static void leaks(void **state) {
    (void)state;
    CUcontext c;
    CUstream s;
    CUevent e;
    CUgraph g;
    CUgraphExec x;
    CUmodule m;
    CUdeviceptr p;
    void *pinned;
    static char own[8];
    const uint64_t live = cu.live(), found = findings();
    cu.cuCtxCreate_v2(&c, 0, 0);
    cu.cuStreamCreate(&s, 0);
    cu.cuEventCreate(&e, 0);
    cu.cuGraphCreate(&g, 0);
    cu.cuGraphInstantiateWithFlags(&x, g, 0);
    cu.cuModuleLoadData(&m, PTX_HEAD ".global .u32 word; .entry k() { ret; }\n");
    cu.cuMemAlloc_v2(&p, 4);
    cu.cuMemAllocHost_v2(&pinned, 8);
    cu.cuMemHostRegister_v2(own, sizeof own, 0);
    assert_int_equal(cu.live(), live + 9);
    assert_int_equal(cu.destroy(c), CUDA_SUCCESS);
    assert_int_equal(findings(), found + 8); /* all but the context, which is what is given back */
    assert_int_equal(cu.live(), live);
    cu.cuCtxCreate_v2(&c, 0, 0);
    cu.cuEventCreate(&e, 0);
    setenv("PTXSIM_CHECKS", "-leak", 1);
    cu.destroy(c);
    unsetenv("PTXSIM_CHECKS");
    assert_int_equal(findings(), found + 8);
    assert_int_equal(cu.cuCtxSetCurrent(cu.context), CUDA_SUCCESS);
}

/* ---- counters and faults ---------------------------------------------------------------------------------------- */
static void counted(void **state) {
    (void)state;
    char text[1024], here[4];
    ptxsim_counters n;
    uint32_t value = 1;
    void *pinned;
    snprintf(text, sizeof text, PTX_HEAD "%s", STORE);
    CUfunction f = load_kernel(text, "store");
    cu.mark("counted");
    CUdeviceptr p = upload(NULL, 4);
    cu.cuMemAllocHost_v2(&pinned, 4);
    launch1(f, 1, 1, (void *[]){&p, &value});
    cu.cuMemcpyDtoHAsync_v2(pinned, p, 4, NULL);
    cu.counters(&n);
    assert_true(n.allocations == 2 && n.kernel_launches == 1 && n.copies == 1 && n.copied_bytes == 4 && n.calls == 4);
    assert_true(n.synchronisations == 0 && n.pageable_copies == 0 && n.frees == 0 && n.module_loads == 0);
    cu.cuMemcpyDtoHAsync_v2(here, p, 4, NULL);
    cu.cuMemcpyDtoH_v2(pinned, p, 4);
    cu.cuCtxSynchronize();
    cu.cuMemFree_v2(p);
    cu.cuMemFreeHost(pinned);
    cu.counters(&n);
    assert_true(n.pageable_copies == 1 && n.synchronisations == 2 && n.frees == 2);
    cu.cuProfilerStart();
    cu.counters(&n);
    assert_int_equal(n.calls, 0);
    cu.cuProfilerStop();
}

static void faults(void **state) {
    (void)state;
    CUdeviceptr p, q;
    CUstream s;
    uint32_t word = 1;
    const char *symbol;
    setenv("PTXSIM_FAIL", "alloc:2,copy:1,cuStreamCreate:1,sync:1,free:1", 1);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&q, 4), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuMemcpyHtoD_v2(p, &word, 4), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.cuMemcpyHtoD_v2(p, &word, 4), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamCreate(&s, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_LAUNCH_FAILED); /* done all the same */
    cu.ptxsim_fault(&symbol);
    assert_string_equal(symbol, "cuMemFree_v2");
    const uint64_t found = findings();
    assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(findings(), found + 1);
    setenv("PTXSIM_FAIL", "any:2", 1);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamQuery(NULL), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cu.cuMemFree_v2(p), CUDA_SUCCESS);
    unsetenv("PTXSIM_FAIL");
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {
        RUN(jit_logs),          RUN(refused_at_load),       RUN(libraries), RUN(attributes), RUN(clusters),
        RUN(launch_attributes), RUN(handles_that_are_gone), RUN(leaks),     RUN(counted),    RUN(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
