/* Driver behaviour: graphs, limits, look-up of symbols, errors that stay, device choice. */
#include "ptxsim_driver.h"

static const char STEP[] = PTX_HEAD
    ".entry step(.param .u64 p, .param .u32 mul, .param .u32 add)\n{\n.reg .b32 %r<5>; .reg .b64 %rd<2>;\n"
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [mul]; ld.param.u32 %r2, [add]; ld.global.u32 %r3, [%rd1];\n"
    "mad.lo.u32 %r4, %r3, %r1, %r2; st.global.u32 [%rd1], %r4; ret;\n}\n"
    ".entry wild() { .reg .b64 %rd<2>; mov.u64 %rd1, 16; st.global.u32 [%rd1], 1; ret; }\n";

static CUDA_KERNEL_NODE_PARAMS node_params(CUfunction f, void **params) {
    return (CUDA_KERNEL_NODE_PARAMS){.func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
                                     .blockDimZ = 1, .kernelParams = params};
}

static void graphs(void **state) {
    (void)state;
    uint32_t value = 1, mul = 3, add = 1, mul2 = 10, add2 = 0;
    CUfunction f = load_kernel(STEP, "step");
    CUdeviceptr p = upload(&value, sizeof value);
    CUgraph g;
    CUgraphNode a, b, c;
    CUgraphExec e;
    CUDA_KERNEL_NODE_PARAMS first = node_params(f, (void *[]){&p, &mul, &add}), second = node_params(f, (void *[]){&p, &mul2, &add2});
    assert_int_equal(cu.cuGraphCreate(&g, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphAddKernelNode_v2(&a, g, NULL, 0, &second), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphAddKernelNode(&b, g, &a, 1, &first), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphAddEmptyNode(&c, g, &b, 1), CUDA_SUCCESS);
    mul = 99; /* parameters were copied */
    assert_int_equal(cu.cuGraphInstantiateWithFlags(&e, g, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphLaunch(e, NULL), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(&value, p, sizeof value);
    assert_int_equal(value, 31);
    mul = 2;
    assert_int_equal(cu.cuGraphExecKernelNodeSetParams(e, b, &first), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphExecKernelNodeSetParams(e, c, &first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuGraphLaunch(e, NULL), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(&value, p, sizeof value);
    assert_int_equal(value, 621);
    assert_int_equal(cu.cuGraphAddDependencies(g, &c, &a, 1), CUDA_SUCCESS); /* a cycle */
    CUgraphExec cyclic;
    assert_int_equal(cu.cuGraphInstantiateWithFlags(&cyclic, g, 0), CUDA_ERROR_INVALID_VALUE);
    cu.cuGraphExecDestroy(e);
    cu.cuGraphDestroy(g);
    cu.cuMemFree_v2(p);
}

static void limits(void **state) {
    (void)state;
    uint32_t one = 1;
    CUfunction f = load_kernel(STEP, "step");
    CUdeviceptr p = upload(&one, sizeof one), q;
    void *params[] = {&p, &one, &one};
    assert_int_equal(launch1(f, 1, 1025, params), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch1(f, 0, 1, params), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 49153, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuFuncSetAttribute(f, 8, 232449), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemAlloc_v2(&q, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(launch1(f, 1, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch1(f, 1, 1, params), CUDA_SUCCESS);
    cu.cuMemFree_v2(p);
}

static void failures_stay_with_the_context(void **state) {
    (void)state;
    const char *name;
    CUdeviceptr p;
    assert_int_equal(launch1(load_kernel(STEP, "wild"), 1, 1, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name);
    assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(cu.cuGetErrorName((CUresult)12345, &name), CUDA_ERROR_INVALID_VALUE);
    cu.cuCtxDestroy_v2(cu.context);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_SUCCESS);
    cu.cuMemFree_v2(p);
}

static void symbols_by_version(void **state) {
    (void)state;
    void *fn = NULL;
    int status = -1;
    assert_int_equal(cu.cuGetProcAddress_v2("cuCtxCreate", &fn, 12000, 0, &status), CUDA_SUCCESS);
    assert_ptr_equal(fn, *(void **)&cu.cuCtxCreate_v3);
    assert_int_equal(cu.cuGetProcAddress_v2("cuCtxCreate", &fn, 11000, 0, &status), CUDA_SUCCESS);
    assert_ptr_equal(fn, *(void **)&cu.cuCtxCreate_v2);
    assert_int_equal(cu.cuGetProcAddress_v2("cuNothing", &fn, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_null(fn);
    assert_int_equal(status, 1);
}

static void devices(void **state) {
    (void)state;
    int major, minor, value;
    for (int k = 0; k < 2; k++) {
        setenv("PTXSIM_DEVICE", k ? "sm_80" : "sm_90", 1);
        assert_int_equal(cu.cuDeviceComputeCapability(&major, &minor, 0), CUDA_SUCCESS);
        assert_int_equal(major * 10 + minor, k ? 80 : 90);
        assert_int_equal(cu.cuDeviceGetAttribute(&value, 97, 0), CUDA_SUCCESS);
        assert_int_equal(value, k ? 166912 : 232448);
    }
    setenv("PTXSIM_DEVICE", "sm_12", 1);
    assert_int_equal(cu.cuInit(0), CUDA_ERROR_NO_DEVICE);
    unsetenv("PTXSIM_DEVICE");
    assert_int_equal(cu.cuDeviceGet(&value, 1), CUDA_ERROR_INVALID_DEVICE);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {RUN(graphs), RUN(limits), RUN(failures_stay_with_the_context),
                                       RUN(symbols_by_version), RUN(devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
