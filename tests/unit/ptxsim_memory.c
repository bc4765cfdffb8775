/* Driver: memory of both sides, pools, pointers, copies in one to three dimensions, tensor maps. */
#include "ptxsim_driver.h"
#include "tools/ptxsim/exec/tensor_map.h"

static void allocations(void **state) {
    (void)state;
    size_t before, after, total, pitch, bytes;
    CUdeviceptr p, base;
    cu.cuMemGetInfo_v2(&before, &total);
    assert_int_equal(cu.cuMemAllocPitch_v2(&p, &pitch, 100, 3, 4), CUDA_SUCCESS);
    assert_true(pitch >= 100 && pitch % 256 == 0);
    cu.cuMemGetInfo_v2(&after, &total);
    assert_int_equal(before - after, pitch * 3);
    assert_int_equal(cu.cuMemGetAddressRange_v2(&base, &bytes, p + 70), CUDA_SUCCESS);
    assert_true(base == p && bytes == pitch * 3);
    assert_int_equal(cu.cuMemGetAddressRange_v2(&base, &bytes, p + bytes), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cu.cuMemFree_v2(p), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemAlloc_v2(&p, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuMemAllocPitch_v2(&p, &pitch, 100, 3, 3), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemAllocManaged(&p, 4, 1), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cu.cuMemFree_v2(0), CUDA_SUCCESS);
}

static void host_memory(void **state) {
    (void)state;
    static char own[100];
    void *pinned;
    unsigned flags, type;
    CUdeviceptr p;
    const uint64_t found = findings();
    assert_int_equal(cu.cuMemHostAlloc(&pinned, 64, 2), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemHostGetFlags(&flags, pinned), CUDA_SUCCESS);
    assert_int_equal(flags, 2);
    assert_int_equal(cu.cuMemHostGetDevicePointer_v2(&p, pinned, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)pinned),
                     CUDA_SUCCESS);
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    assert_int_equal(cu.cuMemHostRegister_v2(own, sizeof own, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemHostRegister_v2(own + 50, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_int_equal(findings(), found);
    assert_int_equal(cu.cuMemFreeHost(own), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemHostUnregister(own), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_int_equal(cu.cuMemFreeHost(pinned), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(findings(), found + 3);
}

static void pointers(void **state) {
    (void)state;
    CUdeviceptr p = upload(NULL, 100), start = 1;
    uint32_t type = 9, managed = 9;
    size_t size = 9;
    CUcontext context;
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[] = {&type, &start, &size, &managed};
    assert_int_equal(cu.cuPointerGetAttributes(4, attributes, data, p + 7), CUDA_SUCCESS);
    assert_true(type == CU_MEMORYTYPE_DEVICE && start == p && size == 100 && managed == 0);
    assert_int_equal(cu.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p), CUDA_SUCCESS);
    assert_ptr_equal(context, cu.context);
    assert_int_equal(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&type),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuPointerGetAttributes(4, attributes, data, (uintptr_t)&type), CUDA_SUCCESS);
    assert_true(type == 0 && size == 0);
    cu.cuMemFree_v2(p);
}

static void planes(void **state) {
    (void)state;
    uint8_t in[4][6], out[2][3], cube[2][4][6], back[2][2][2];
    for (int k = 0; k < 24; k++) in[k / 6][k % 6] = (uint8_t)k;
    for (int k = 0; k < 48; k++) cube[k / 24][k / 6 % 4][k % 6] = (uint8_t)(k + 1);
    CUdeviceptr p = upload(in, sizeof in), q = upload(cube, sizeof cube);
    const CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = p,
                               .srcPitch = 6,
                               .srcXInBytes = 2,
                               .srcY = 1,
                               .dstMemoryType = CU_MEMORYTYPE_HOST,
                               .dstHost = out,
                               .dstPitch = 3,
                               .WidthInBytes = 3,
                               .Height = 2};
    assert_int_equal(cu.cuMemcpy2D_v2(&two), CUDA_SUCCESS);
    assert_memory_equal(out, ((uint8_t[]){8, 9, 10, 14, 15, 16}), 6);
    CUDA_MEMCPY2D beyond = two;
    beyond.srcY = 3;
    assert_int_equal(cu.cuMemcpy2D_v2(&beyond), CUDA_ERROR_INVALID_VALUE);
    const CUDA_MEMCPY3D three = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                 .srcDevice = q,
                                 .srcPitch = 6,
                                 .srcHeight = 4,
                                 .srcXInBytes = 1,
                                 .srcY = 2,
                                 .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                 .dstDevice = (uintptr_t)back,
                                 .dstPitch = 2,
                                 .dstHeight = 2,
                                 .WidthInBytes = 2,
                                 .Height = 2,
                                 .Depth = 2};
    assert_int_equal(cu.cuMemcpy3D_v2(&three), CUDA_SUCCESS);
    assert_memory_equal(back, ((uint8_t[]){14, 15, 20, 21, 38, 39, 44, 45}), 8);
    assert_int_equal(cu.cuMemsetD2D16_v2(p, 6, 0x0101, 2, 4), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyDtoH_v2(in, p, sizeof in), CUDA_SUCCESS);
    assert_memory_equal(in[3], ((uint8_t[]){1, 1, 1, 1, 22, 23}), 6);
    assert_int_equal(cu.cuMemsetD2D16_v2(p, 3, 1, 2, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpy(p, q, 24), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpy((uintptr_t)in, p, 24), CUDA_SUCCESS);
    assert_memory_equal(in, cube, 24);
    assert_int_equal(cu.cuMemcpyPeer(p, cu.context, q, cu.context, 4), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    cu.cuMemFree_v2(p);
    cu.cuMemFree_v2(q);
}

static void pools(void **state) {
    (void)state;
    CUmemoryPool first, own;
    CUdeviceptr p, q;
    uint64_t used, high;
    const CUmemPoolProps properties = {.allocType = 1, .location = {.type = 1}};
    assert_int_equal(cu.cuDeviceGetDefaultMemPool(&first, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemPoolCreate(&own, &properties), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAllocAsync(&p, 1000, NULL), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAllocFromPoolAsync(&q, 500, own, NULL), CUDA_SUCCESS);
    cu.cuMemPoolGetAttribute(first, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    assert_int_equal(used, 1000);
    assert_int_equal(cu.cuMemFreeAsync(q, NULL), CUDA_SUCCESS);
    cu.cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    cu.cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high);
    assert_true(used == 0 && high == 500);
    const uint64_t found = findings();
    assert_int_equal(cu.cuMemFreeAsync(q, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(findings(), found + 1);
    assert_int_equal(cu.cuMemFree_v2(p), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemPoolDestroy(own), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemPoolDestroy(first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemAllocFromPoolAsync(&q, 500, own, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* ---- tensor maps ------------------------------------------------------------------------------------------------ */
typedef struct MapArguments {
    int type, rank;
    uint64_t address, dim[5], stride[4];
    uint32_t box[5], step[5];
    int interleave, swizzle, l2, fill;
} MapArguments;
static const MapArguments SOUND = {TENSOR_FLOAT16, 3,          0x1000,    {64, 32, 8},
                                   {128, 4096},    {32, 8, 2}, {1, 1, 1}, INTERLEAVE_NONE,
                                   SWIZZLE_64B,    2,          FILL_NAN};

static CUresult encode(const MapArguments *a, CUtensorMap *map) {
    return cu.cuTensorMapEncodeTiled(map, a->type, (uint32_t)a->rank, (void *)(uintptr_t)a->address, a->dim, a->stride,
                                     a->box, a->step, a->interleave, a->swizzle, a->l2, a->fill);
}

static void tensor_maps(void **state) {
    (void)state;
    CUtensorMap map;
    TensorMap t;
    assert_int_equal(encode(&SOUND, &map), CUDA_SUCCESS);
    memcpy(&t, &map, sizeof t);
    assert_true(t.magic == TENSOR_MAP_MAGIC && t.type == TENSOR_FLOAT16 && t.rank == 3 && t.address == 0x1000);
    assert_true(t.dim[1] == 32 && t.dim[3] == 1 && t.stride[1] == 4096 && t.stride[2] == 0 && t.box[0] == 32 &&
                t.box[4] == 1);
    assert_true(t.swizzle == SWIZZLE_64B && t.fill == FILL_NAN && t.l2_promotion == 2 && t.element_stride[2] == 1);
    assert_int_equal(cu.cuTensorMapReplaceAddress(&map, (void *)0x2000), CUDA_SUCCESS);
    memcpy(&t, &map, sizeof t);
    assert_int_equal(t.address, 0x2000);
    assert_int_equal(cu.cuTensorMapReplaceAddress(&map, (void *)0x2008), CUDA_ERROR_INVALID_VALUE);
}

/* Half an image of 32 x 8 pixels with 64 channels, under a window of 3 x 3. */
typedef struct WindowArguments {
    MapArguments tensor;
    int lower[3], upper[3];
    uint32_t channels, pixels;
} WindowArguments;

static CUresult encode_window(const WindowArguments *w, CUtensorMap *map) {
    const MapArguments *a = &w->tensor;
    return cu.cuTensorMapEncodeIm2col(map, a->type, (uint32_t)a->rank, (void *)(uintptr_t)a->address, a->dim, a->stride,
                                      w->lower, w->upper, w->channels, w->pixels, a->step, a->interleave, a->swizzle, a->l2,
                                      a->fill);
}

static void window_maps(void **state) {
    (void)state;
    static const WindowArguments sound = {
        {TENSOR_FLOAT16, 4, 0x1000, {64, 32, 8, 2}, {128, 4096, 32768}, {0}, {1, 2, 1, 1}, 0, SWIZZLE_64B, 2, FILL_ZERO},
        {-1, -1}, {-1, -1}, 32, 128};
    CUtensorMap map;
    TensorMap t;
    assert_int_equal(encode_window(&sound, &map), CUDA_SUCCESS);
    memcpy(&t, &map, sizeof t);
    assert_true(t.im2col == 1 && t.channels == 32 && t.pixels == 128 && t.lower[1] == -1 && t.upper[0] == -1);
    assert_true(t.dim[3] == 2 && t.stride[2] == 32768 && t.element_stride[1] == 2);
#define WINDOW(result, change)                                           \
    do {                                                                 \
        WindowArguments a = sound;                                       \
        change;                                                          \
        const CUresult r = encode_window(&a, &map);                      \
        if (r != (result)) fail_msg("%s: %d", #change, r);               \
    } while (0)
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.tensor.rank = 2);
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.tensor.stride[0] = 136);
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.channels = 64); /* more than the swizzle exchanges */
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.channels = 4);
    WINDOW(CUDA_SUCCESS, a.pixels = 1024);
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.pixels = 1025);
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.pixels = 0);
    WINDOW(CUDA_SUCCESS, a.lower[0] = -128);
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.lower[0] = -129);
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.upper[1] = 128);
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.upper[1] = -9); /* nothing is left of it */
    WINDOW(CUDA_ERROR_INVALID_VALUE, a.tensor.step[2] = 9);
#undef WINDOW
}

static void tensor_map_rules(void **state) {
    (void)state;
    CUtensorMap map;
#define RULE(result, change)                               \
    do {                                                   \
        MapArguments a = SOUND;                            \
        change;                                            \
        const CUresult r = encode(&a, &map);               \
        if (r != (result)) fail_msg("%s: %d", #change, r); \
    } while (0)
#define BAD(change) RULE(CUDA_ERROR_INVALID_VALUE, change)
#define GOOD(change) RULE(CUDA_SUCCESS, change)
    BAD(a.type = 13);
    BAD(a.type = -1);
    GOOD(a.type = TENSOR_BFLOAT16);
    BAD(a.rank = 0);
    BAD(a.rank = 6);
    GOOD(a.rank = 1);
    GOOD(a.rank = 2);
    BAD(a.address = 0x1008);
    GOOD(a.address = 0x1010);
    BAD(a.address = 0);
    BAD(a.dim[1] = 0);
    BAD(a.dim[0] = (UINT64_C(1) << 32) + 1);
    GOOD(a.dim[2] = UINT64_C(1) << 32);
    BAD(a.stride[0] = 136);
    BAD(a.stride[1] = UINT64_C(1) << 40);
    GOOD(a.stride[1] = (UINT64_C(1) << 40) - 16);
    BAD(a.box[1] = 0);
    BAD(a.box[1] = 257);
    GOOD(a.box[1] = 256);
    BAD(a.box[0] = 4);
    BAD(a.box[0] = 12);
    GOOD(a.box[0] = 16); /* a multiple of 16 bytes */
    BAD(a.box[0] = 40);
    GOOD((a.box[0] = 64, a.swizzle = SWIZZLE_128B)); /* within the swizzle's span */
    BAD((a.box[0] = 32, a.swizzle = SWIZZLE_32B));
    BAD((a.box[0] = 72, a.swizzle = SWIZZLE_128B));
    GOOD((a.box[0] = 256, a.swizzle = SWIZZLE_NONE));
    BAD(a.step[2] = 0);
    BAD(a.step[2] = 9);
    GOOD(a.step[2] = 8);
    BAD(a.interleave = 3);
    BAD(a.swizzle = 4);
    BAD(a.l2 = 4);
    BAD(a.fill = 2);
    BAD(a.type = TENSOR_INT32);
    GOOD((a.type = TENSOR_UINT16, a.fill = FILL_ZERO)); /* NaN fill is for floats */
    GOOD((a.interleave = INTERLEAVE_16B, a.box[0] = 4));
    BAD((a.interleave = INTERLEAVE_16B, a.rank = 2));
    GOOD((a.interleave = INTERLEAVE_32B, a.swizzle = SWIZZLE_32B));
    BAD(a.interleave = INTERLEAVE_32B);
    BAD((a.interleave = INTERLEAVE_32B, a.swizzle = SWIZZLE_32B, a.address = 0x1010));
    BAD((a.interleave = INTERLEAVE_32B, a.swizzle = SWIZZLE_32B, a.stride[0] = 144));
    assert_int_equal(encode(&SOUND, (CUtensorMap *)(void *)((char *)&map + 8)), CUDA_ERROR_INVALID_VALUE);
    setenv("PTXSIM_DEVICE", "sm_80", 1);
    assert_int_equal(encode(&SOUND, &map), CUDA_ERROR_NOT_SUPPORTED);
    unsetenv("PTXSIM_DEVICE");
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {RUN(allocations), RUN(host_memory), RUN(pointers),        RUN(planes),
                                       RUN(pools),       RUN(tensor_maps), RUN(tensor_map_rules), RUN(window_maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
