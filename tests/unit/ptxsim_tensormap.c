/* Tensor maps that a kernel changes: a map of 16 x 4 floats with boxes of 4 x 2 becomes one of 16 x 2 with boxes of 8 x 2,
 * 256 bytes further on. */
#include "ptxsim_pairs.h"

#define HEAD                                                                                                           \
    ".version 8.5\n.target sm_90a\n.address_size 64\n"                                                                \
    ".entry k(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out)\n{\n"                                    \
    ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<4>; .shared .align 128 .b8 s[128]; .shared .align 128 .b8 box[64];\n" \
    ".shared .align 8 .b64 bar;\n"                                                                                     \
    "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;\n"               \
    "setp.lt.u32 %p2, %r1, 32; setp.lt.u32 %p3, %r1, 16; add.u64 %rd5, %rd1, 256; shl.b32 %r3, %r1, 2;\n"              \
    "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
#define TAKE                                                                                                           \
    "mov.u64 %rd3, map; mad.wide.u32 %rd4, %r1, 4, %rd3; mov.u32 %r2, s; add.u32 %r2, %r2, %r3;\n"                     \
    "@%p2 ld.param.u32 %r4, [%rd4]; @%p2 st.shared.u32 [%r2], %r4; bar.warp.sync -1;\n"
#define SET(field, type, value) "@%p1 tensormap.replace.tile." field ".shared::cta.b1024." type " [s], " value ";\n"
#define CHANGE                                                                                                         \
    SET("global_address", "b64", "%rd5") SET("box_dim", "b32", "0, 8") SET("global_dim", "b32", "1, 2")                 \
    SET("fill_mode", "b32", "0") SET("rank", "b32", "1") SET("global_stride", "b64", "0, 64")
#define GIVE "@!%p2 bra SKIP; bar.warp.sync -1;\n" GIVE_ONLY "SKIP:\n"
#define GIVE_ONLY                                                                                                      \
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [s], 128;\n"
#define ACQUIRE "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"
#define LOAD(who)                                                                                                      \
    "mov.u32 %r5, 8; mov.u32 %r6, 1; @" who " mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"                    \
    "@" who " cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2, {%r5, %r6}], [bar];\n" \
    "W: mbarrier.try_wait.parity.shared.b64 %p0, [bar], 0; @!%p0 bra W;\n"                                             \
    "mov.u32 %r2, box; add.u32 %r2, %r2, %r3; mul.wide.u32 %rd6, %r1, 4; add.u64 %rd6, %rd6, %rd2;\n"                  \
    "@%p3 ld.shared.u32 %r4, [%r2]; @%p3 st.global.u32 [%rd6+512], %r4;\n"
#define KERNEL(body) HEAD body "ret;\n}\n"
#define OTHER "setp.eq.u32 %p1, %r1, 32;\n"

static const Pair PAIRS[] = {
    {"changed and used", NULL, KERNEL(TAKE CHANGE GIVE "bar.sync 0;\n" ACQUIRE LOAD("%p1"))},
    {"used by another warp", NULL, KERNEL(TAKE CHANGE GIVE "bar.sync 0;\n" OTHER ACQUIRE LOAD("%p1"))},
    {"used by another warp, without a barrier", "race", KERNEL(TAKE CHANGE GIVE OTHER ACQUIRE LOAD("%p1"))},
    {"given by other lanes than changed it", NULL,
     KERNEL(TAKE "setp.eq.u32 %p1, %r1, 1;\n" CHANGE GIVE "bar.sync 0;\n" ACQUIRE LOAD("%p1"))},
    {"given without a barrier of the warp", "warp-synchronous",
     KERNEL(TAKE "setp.eq.u32 %p1, %r1, 1;\n" CHANGE "@!%p2 bra SKIP;\n" GIVE_ONLY "SKIP: bar.sync 0;\n")},
    {"never a map", "bad-copy",
     KERNEL("mov.u32 %r2, s; add.u32 %r2, %r2, %r3; @%p2 st.shared.u32 [%r2], %r1; bar.sync 0;\n" CHANGE)},
    {"a map nobody wrote", "uninitialised", KERNEL(CHANGE)},
    {"a box of nothing", "bad-copy", KERNEL(TAKE SET("box_dim", "b32", "1, 0"))},
    {"an odd stride", "bad-copy", KERNEL(TAKE SET("global_stride", "b64", "0, 24"))},
    {"a sixth dimension", "bad-copy", KERNEL(TAKE SET("rank", "b32", "5"))},
    {"an address at 8", "bad-copy", KERNEL(TAKE "add.u64 %rd5, %rd5, 8;\n" SET("global_address", "b64", "%rd5"))},
};

static uint32_t in[128];
static struct { _Alignas(64) uint8_t byte[128]; } map;

/* As run_pair, with the map before the buffers. */
static void run(const Pair *c, const char *seed) {
    char kinds[2048];
    uint32_t got[16];
    setenv("PTXSIM_SEED", seed, 1);
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    CUdeviceptr pi = upload(in, sizeof in), po = upload(NULL, 1024);
    const uint64_t size[] = {16, 4}, stride[] = {64};
    const uint32_t box[] = {4, 2}, steps[] = {1, 1};
    assert_int_equal(cu.cuTensorMapEncodeTiled((CUtensorMap *)&map, 7, 2, (void *)(uintptr_t)pi, size, stride, box, steps, 0, 0, 0, 0),
                     CUDA_SUCCESS);
    launch1(load_kernel(c->text, "k"), 1, 64, (void *[]){&map, &pi, &po});
    const CUresult r = cu.cuCtxSynchronize();
    read_kinds(pairs_path, kinds, sizeof kinds);
    if (c->kind ? !strstr(kinds, c->kind) : kinds[0] || r) fail_msg("%s (seed %s): findings: %s", c->name, seed, kinds);
    if (!c->kind) {
        assert_int_equal(cu.cuMemcpyDtoH_v2(got, po + 512, sizeof got), CUDA_SUCCESS);
        for (uint32_t k = 0; k < 16; k++) assert_int_equal(got[k], k < 8 ? in[64 + 16 + 8 + k] : 0);
    }
    cu.cuMemFree_v2(pi);
    cu.cuMemFree_v2(po);
    cu.cuCtxDestroy_v2(cu.context);
}

static void maps_change(void **state) {
    (void)state;
    static const char *const SEEDS[] = {"0", "3", "8"};
    for (uint32_t k = 0; k < 128; k++) in[k] = 1000 + k;
    strcpy(pairs_path, "/tmp/ptxsim_map_XXXXXX");
    const int fd = mkstemp(pairs_path);
    assert_true(fd >= 0);
    close(fd);
    remove(pairs_path);
    setenv("PTXSIM_REPORT", pairs_path, 1);
    for (size_t s = 0; s < 3; s++)
        for (size_t k = 0; k < sizeof PAIRS / sizeof *PAIRS; k++) run(&PAIRS[k], SEEDS[s]);
    unsetenv("PTXSIM_REPORT");
    unsetenv("PTXSIM_SEED");
}

static void wrong_forms(void **state) {
    (void)state;
    static const char *const FORMS[] = {
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 5, %r1;",
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], %r1, %r1;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%rd1], 13;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%rd1], %r1;",
        "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%rd1], 4;",
        "tensormap.replace.tile.fill_mode.global.b1024.b32 [%rd1], 2;",
        "tensormap.replace.tile.global_address.global.b1024.b32 [%rd1], %r1;",
        "tensormap.replace.tile.global_address.global.b64 [%rd1], %rd1;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [s], 64;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.acquire.gpu.sync.aligned [%rd2], [s], 128;"};
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    for (size_t k = 0; k < sizeof FORMS / sizeof *FORMS; k++) refuse(HEAD "HOLE\nret;\n}\n", FORMS[k]);
    cu.cuCtxDestroy_v2(cu.context);
}

int main(void) {
    driver_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_change), cmocka_unit_test(wrong_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
