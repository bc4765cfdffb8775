/* Driver: order within and between streams, work that lands late, events, callbacks, captures, and graphs whose
 * branches run in any order. */
#include "ptxsim_driver.h"

static const char APPEND[] = PTX_HEAD /* list[++list[0]] = value */
    ".entry append(.param .u64 list, .param .u32 value)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [list]; ld.param.u32 %r1, [value]; ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1;\n"
    "mad.wide.u32 %rd2, %r2, 4, %rd1; st.global.u32 [%rd2], %r1; st.global.u32 [%rd1], %r2; ret;\n}\n";
enum { ROOM = 64 };

static CUfunction append;
static CUdeviceptr list;

static int setup(void **state) {
    const int r = context_setup(state);
    append = load_kernel(APPEND, "append");
    list = upload(NULL, 4 * ROOM);
    cu.cuMemsetD32_v2(list, 0, ROOM);
    return r;
}
static int teardown(void **state) {
    unsetenv("PTXSIM_ASYNC");
    unsetenv("PTXSIM_SEED");
    cu.cuMemFree_v2(list);
    return context_teardown(state);
}

static void add(CUstream s, uint32_t value) {
    assert_int_equal(cu.cuLaunchKernel(append, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&list, &value}, NULL), CUDA_SUCCESS);
}

/* What was appended, as digits. */
static uint64_t digits(void) {
    uint32_t all[ROOM];
    uint64_t n = 0;
    assert_int_equal(cu.cuMemcpyDtoH_v2(all, list, sizeof all), CUDA_SUCCESS);
    for (uint32_t k = 1; k <= all[0]; k++) n = n * 10 + all[k];
    return n;
}

static CUstream stream_new(unsigned flags) {
    CUstream s;
    assert_int_equal(cu.cuStreamCreate(&s, flags), CUDA_SUCCESS);
    return s;
}

static void order_between_streams(void **state) {
    (void)state;
    CUstream a = stream_new(CU_STREAM_NON_BLOCKING), b = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent e;
    cu.cuEventCreate(&e, 0);
    setenv("PTXSIM_ASYNC", "late", 1);
    add(a, 1);
    assert_int_equal(cu.cuEventRecord(e, a), CUDA_SUCCESS);
    add(a, 2);
    assert_int_equal(cu.cuStreamWaitEvent(b, e, 0), CUDA_SUCCESS);
    add(b, 3);
    assert_int_equal(cu.cuEventQuery(e), CUDA_ERROR_NOT_READY);
    assert_int_equal(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    assert_int_equal(cu.cuStreamSynchronize(b), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventQuery(e), CUDA_SUCCESS);
    assert_int_equal(digits(), 13); /* stream a has not been waited for beyond the event */
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(digits(), 132);
    cu.cuEventDestroy_v2(e);
    cu.cuStreamDestroy_v2(a);
    cu.cuStreamDestroy_v2(b);
}

static void legacy_stream_waits(void **state) {
    (void)state;
    CUstream blocking = stream_new(0), other = stream_new(CU_STREAM_NON_BLOCKING);
    setenv("PTXSIM_ASYNC", "late", 1);
    add(other, 9);
    add(blocking, 1);
    add(NULL, 2);
    add(blocking, 3);
    cu.cuStreamSynchronize(blocking);
    assert_int_equal(digits(), 123);
    cu.cuStreamDestroy_v2(blocking);
    cu.cuStreamDestroy_v2(other);
}

static void late_copies_show_early_reuse(void **state) {
    (void)state;
    uint32_t *pinned, pageable = 5, got[3];
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    cu.cuMemAllocHost_v2((void **)&pinned, 4);
    setenv("PTXSIM_ASYNC", "late", 1);
    *pinned = 4;
    cu.cuMemcpyHtoDAsync_v2(list + 4, pinned, 4, s);
    cu.cuMemcpyHtoDAsync_v2(list + 8, &pageable, 4, s); /* read before the call returns */
    *pinned = 6;
    pageable = 7;
    cu.cuStreamSynchronize(s);
    cu.cuMemcpyDtoH_v2(got, list, sizeof got);
    assert_true(got[1] == 6 && got[2] == 5);
    *pinned = 0;
    cu.cuMemcpyDtoHAsync_v2(pinned, list + 4, 4, s);
    assert_int_equal(*pinned, 0);
    cu.cuMemcpyDtoHAsync_v2(&pageable, list + 4, 4, s); /* waits */
    assert_true(pageable == 6 && *pinned == 6);
    cu.cuMemFreeHost(pinned);
    cu.cuStreamDestroy_v2(s);
}

static int called, refused;
static void count_call(void *data) {
    called += *(int *)data;
    refused = cu.cuCtxSynchronize();
}
static void on_stream(CUstream s, CUresult r, void *data) {
    (void)s;
    if (!r) count_call(data);
}

static void host_functions(void **state) {
    (void)state;
    int three = 3;
    CUstream s = stream_new(0);
    called = 0;
    assert_int_equal(cu.cuLaunchHostFunc(s, count_call, &three), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamAddCallback(s, on_stream, &three, 0), CUDA_SUCCESS);
    assert_int_equal(called, 6);
    assert_int_equal(refused, CUDA_ERROR_NOT_PERMITTED);
    cu.cuStreamDestroy_v2(s);
}

static void event_times(void **state) {
    (void)state;
    CUevent a, b, untimed;
    float ms = -1;
    cu.cuEventCreate(&a, 0);
    cu.cuEventCreate(&b, 0);
    cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING);
    assert_int_equal(cu.cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE); /* not recorded */
    cu.cuEventRecord(a, NULL);
    add(NULL, 1);
    cu.cuEventRecord(b, NULL);
    cu.cuEventRecord(untimed, NULL);
    assert_int_equal(cu.cuEventElapsedTime(&ms, a, b), CUDA_SUCCESS);
    assert_true(ms >= 0 && ms < 10000);
    assert_int_equal(cu.cuEventElapsedTime(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
    setenv("PTXSIM_ASYNC", "late", 1);
    cu.cuEventRecord(b, NULL);
    assert_int_equal(cu.cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    cu.cuEventSynchronize(b);
    cu.cuEventDestroy_v2(a);
    cu.cuEventDestroy_v2(b);
    cu.cuEventDestroy_v2(untimed);
}

/* ---- captures --------------------------------------------------------------------------------------------------- */
static void captured_fork_and_join(void **state) {
    (void)state;
    CUstream a = stream_new(0), b = stream_new(0);
    CUevent fork, join;
    CUgraph g, spoilt;
    CUgraphExec e;
    CUdeviceptr p;
    size_t nodes = 0, edges = 0;
    int status;
    cu.cuEventCreate(&fork, 0);
    cu.cuEventCreate(&join, 0);
    assert_int_equal(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    add(a, 1);
    cu.cuEventRecord(fork, a);
    assert_int_equal(cu.cuStreamWaitEvent(b, fork, 0), CUDA_SUCCESS);
    cu.cuStreamIsCapturing(b, &status);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    add(b, 2);
    add(a, 3);
    assert_int_equal(cu.cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
    cu.cuEventRecord(join, b);
    cu.cuStreamWaitEvent(a, join, 0);
    add(a, 4);
    assert_int_equal(cu.cuStreamEndCapture(b, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(cu.cuStreamEndCapture(a, &g), CUDA_SUCCESS);
    assert_int_equal(digits(), 0); /* nothing ran */
    cu.cuGraphGetNodes(g, NULL, &nodes);
    cu.cuGraphGetEdges(g, NULL, NULL, &edges);
    assert_true(nodes == 4 && edges == 4);
    assert_int_equal(cu.cuGraphInstantiateWithFlags(&e, g, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphLaunch(e, a), CUDA_SUCCESS);
    assert_int_equal(digits(), 1234);
    /* what may not be done meanwhile spoils the capture */
    cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(cu.cuStreamSynchronize(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cu.cuStreamEndCapture(a, &spoilt), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    cu.cuStreamEndCapture(a, &spoilt);
    cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED);
    cu.cuEventRecord(fork, a);
    cu.cuStreamWaitEvent(b, fork, 0);
    add(b, 1);
    assert_int_equal(cu.cuStreamEndCapture(a, &spoilt), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    cu.cuGraphExecDestroy(e);
    cu.cuGraphDestroy(g);
    assert_null(spoilt);
    cu.cuEventDestroy_v2(fork);
    cu.cuEventDestroy_v2(join);
    cu.cuStreamDestroy_v2(a);
    cu.cuStreamDestroy_v2(b);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */
static CUgraphNode node(CUgraph g, const CUgraphNode *after, size_t n, uint32_t value) {
    CUgraphNode made;
    const CUDA_KERNEL_NODE_PARAMS p = {.func = append,
                                       .gridDimX = 1,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 1,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = (void *[]){&list, &value}};
    assert_int_equal(cu.cuGraphAddKernelNode(&made, g, after, n, &p), CUDA_SUCCESS);
    return made;
}

/* 1 before 2 and 3 and 4, these before 5. */
static CUgraph diamond(CUgraphNode *at) {
    CUgraph g;
    cu.cuGraphCreate(&g, 0);
    at[0] = node(g, NULL, 0, 1);
    for (uint32_t k = 1; k < 4; k++) at[k] = node(g, at, 1, k + 1);
    at[4] = node(g, &at[1], 3, 5);
    return g;
}

static void branches_in_any_order(void **state) {
    (void)state;
    CUgraphNode at[5];
    CUgraph g = diamond(at);
    CUgraphExec e;
    uint64_t seen[6] = {0};
    int different = 0;
    cu.cuGraphInstantiateWithFlags(&e, g, 0);
    cu.cuGraphLaunch(e, NULL);
    assert_int_equal(digits(), 12345); /* without a seed as they were added */
    for (int seed = 1; seed < 200 && different < 6; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("PTXSIM_SEED", text, 1);
        cu.cuMemsetD32_v2(list, 0, 1);
        cu.cuGraphLaunch(e, NULL);
        const uint64_t d = digits();
        assert_true(d / 10000 == 1 && d % 10 == 5);
        int k = 0;
        while (k < different && seen[k] != d) k++;
        if (k == different) seen[different++] = d;
    }
    assert_int_equal(different, 6);
    cu.cuGraphExecDestroy(e);
    cu.cuGraphDestroy(g);
}

static void child_clone_update(void **state) {
    (void)state;
    CUgraphNode at[5], child, last, found;
    CUgraph inner = diamond(at), outer, clone;
    CUgraphExec e;
    CUgraphExecUpdateResultInfo info;
    cu.cuGraphCreate(&outer, 0);
    CUgraphNode first = node(outer, NULL, 0, 8);
    assert_int_equal(cu.cuGraphAddChildGraphNode(&child, outer, &first, 1, inner), CUDA_SUCCESS);
    last = node(outer, &child, 1, 9);
    assert_int_equal(cu.cuGraphClone(&clone, outer), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphNodeFindInClone(&found, last, clone), CUDA_SUCCESS);
    assert_ptr_not_equal(found, last);
    assert_int_equal(cu.cuGraphDestroy(inner), CUDA_SUCCESS); /* the child is a copy */
    assert_int_equal(cu.cuGraphInstantiateWithFlags(&e, outer, 0), CUDA_SUCCESS);
    setenv("PTXSIM_SEED", "5", 1);
    cu.cuGraphLaunch(e, NULL);
    uint64_t d = digits();
    assert_true(d / 100000 == 81 && d % 100 == 59);
    /* another value, the same shape; then another shape */
    uint32_t seven = 7;
    const CUDA_KERNEL_NODE_PARAMS p = {.func = append,
                                       .gridDimX = 1,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 1,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = (void *[]){&list, &seven}};
    assert_int_equal(cu.cuGraphKernelNodeSetParams(found, &p), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphExecUpdate_v2(e, clone, &info), CUDA_SUCCESS);
    cu.cuMemsetD32_v2(list, 0, 1);
    cu.cuGraphLaunch(e, NULL);
    d = digits();
    assert_true(d / 100000 == 81 && d % 100 == 57);
    assert_int_equal(cu.cuGraphExecKernelNodeSetParams(e, first, &p), CUDA_SUCCESS); /* its nodes keep their names */
    assert_int_equal(cu.cuGraphRemoveDependencies(clone, NULL, NULL, 0), CUDA_SUCCESS);
    node(clone, &found, 1, 3);
    assert_int_equal(cu.cuGraphExecUpdate_v2(e, clone, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    unsigned enabled = 9;
    assert_int_equal(cu.cuGraphNodeSetEnabled(e, last, 0), CUDA_SUCCESS);
    cu.cuGraphNodeGetEnabled(e, last, &enabled);
    assert_int_equal(enabled, 0);
    cu.cuMemsetD32_v2(list, 0, 1);
    cu.cuGraphLaunch(e, NULL);
    d = digits();
    assert_true(d / 10000 == 71 && d % 10 == 5);
    assert_int_equal(cu.cuGraphDestroyNode(first), CUDA_SUCCESS);
    size_t roots = 0;
    cu.cuGraphGetRootNodes(outer, NULL, &roots);
    assert_int_equal(roots, 1);
    cu.cuGraphExecDestroy(e);
    cu.cuGraphDestroy(outer);
    cu.cuGraphDestroy(clone);
}

static void graph_of_a_module_that_is_gone(void **state) {
    (void)state;
    CUgraphNode at[5];
    CUgraph g = diamond(at);
    CUgraphExec e;
    cu.cuGraphInstantiateWithFlags(&e, g, 0);
    cu.cuModuleUnload(loaded[--loaded_count]);
    const uint64_t before = findings();
    assert_int_equal(cu.cuGraphLaunch(e, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(findings(), before + 1);
    cu.cuGraphExecDestroy(e);
    cu.cuGraphDestroy(g);
}

/* A programmatic edge orders kernels as a full one does; a device before sm_90 has none, nor have copies. */
static void programmatic_edges(void **state) {
    (void)state;
    const CUgraphEdgeData early = {.from_port = 1, .type = 1}, unknown = {.from_port = 1};
    CUgraphEdgeData told[2];
    CUgraphNode at[2], from[2], to[2], fill;
    CUgraph g;
    CUgraphExec e;
    CUdevice device;
    int major = 0;
    size_t n = 2;
    cu.cuDeviceGet(&device, 0);
    cu.cuDeviceGetAttribute(&major, 75, device); /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
    cu.cuGraphCreate(&g, 0);
    at[0] = node(g, NULL, 0, 1);
    at[1] = node(g, NULL, 0, 2);
    const CUDA_MEMSET_NODE_PARAMS zeros = {.dst = list + 4 * (ROOM - 1), .elementSize = 4, .width = 1, .height = 1};
    CUcontext context;
    cu.cuCtxGetCurrent(&context);
    assert_int_equal(cu.cuGraphAddMemsetNode(&fill, g, NULL, 0, &zeros, context), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphAddDependencies_v2(g, &at[0], &at[1], &unknown, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuGraphAddDependencies_v2(g, &fill, &at[1], &early, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuGraphAddDependencies_v2(g, &at[0], &at[1], &early, 1), major < 9 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS);
    if (major < 9) assert_int_equal(cu.cuGraphAddDependencies_v2(g, &at[0], &at[1], NULL, 1), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphGetEdges_v2(g, from, to, told, &n), CUDA_SUCCESS);
    assert_true(n == 1 && from[0] == at[0] && to[0] == at[1] && told[0].type == (major >= 9) && told[0].from_port == (major >= 9));
    assert_int_equal(cu.cuGraphInstantiateWithFlags(&e, g, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuGraphLaunch(e, NULL), CUDA_SUCCESS);
    assert_int_equal(digits(), 12);
    assert_int_equal(cu.cuGraphRemoveDependencies_v2(g, &at[0], &at[1], major < 9 ? NULL : &early, 1), CUDA_SUCCESS);
    cu.cuGraphExecDestroy(e);
    cu.cuGraphDestroy(g);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        RUN(order_between_streams), RUN(legacy_stream_waits), RUN(late_copies_show_early_reuse),
        RUN(host_functions),        RUN(event_times),         RUN(captured_fork_and_join),
        RUN(branches_in_any_order), RUN(child_clone_update),  RUN(graph_of_a_module_that_is_gone), RUN(programmatic_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
