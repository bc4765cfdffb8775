/* The rules of wgmma's asynchrony: fences, groups, waits, registers and operands in flight, descriptors.  Every wrong
 * kernel must be reported with the right kind, and no correct twin, however operations land. */
#include "ptxsim_driver.h"
#include <stdbool.h>
#include <unistd.h>

enum { THREADS = 128 };

/* A of ones and B of ones, without a swizzle: blocks of 8 rows by 16 bytes, two of them along K, then the next 8 rows.
 * A at 0, B at 2048, room for another B at 2304.  FILL writes them, READY makes them visible. */
#define HEAD                                                                                                          \
    ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 out)\n{\n.reg .b64 %p<4>, %a, %b, %e<4>; "  \
    ".reg .b32 %x<8>, %f<4>; .reg .f32 %d<8>; .reg .pred %q, %t, %w; .shared .align 1024 .b8 s[4096];\n"              \
    "ld.param.u64 %p0, [out]; mov.u32 %x0, %tid.x; mad.wide.u32 %p0, %x0, 16, %p0; setp.eq.u32 %t, 0, 0; "            \
    "shl.b32 %x1, %x0, 4; mov.u32 %x2, s; add.u32 %x2, %x2, %x1; mov.u32 %x3, 0x3c003c00; setp.lt.u32 %w, %x0, 32;\n" \
    "mov.b64 %a, 0x0000001000080000; mov.b64 %b, 0x0000001000080080;\n"                                               \
    "mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0; mov.f32 %d4, %d0; mov.f32 %d5, "  \
    "%d0; "                                                                                                           \
    "mov.f32 %d6, %d0; mov.f32 %d7, %d0; mov.b32 %f0, %x3; mov.b32 %f1, %x3; mov.b32 %f2, %x3; mov.b32 %f3, %x3;\n"
#define FILL "st.shared.v4.b32 [%x2], {%x3,%x3,%x3,%x3}; @%w st.shared.v4.b32 [%x2+2048], {%x3,%x3,%x3,%x3};\n"
#define PROXY "fence.proxy.async;\n"
#define BAR "bar.sync 0;\n"
#define FENCE "wgmma.fence.sync.aligned;\n"
#define MMA_OF(d, a, b) "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " d ", " a ", " b ", %t, 1, 1, 0, 0;\n"
#define D "{%d0,%d1,%d2,%d3}"
#define D2 "{%d4,%d5,%d6,%d7}"
#define MMA MMA_OF(D, "%a", "%b")
#define MMA_REGISTERS "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " D ", {%f0,%f1,%f2,%f3}, %b, %t, 1, 1, 0;\n"
#define MMA_WIDE \
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}, %a, %b, %t, 1, 1, 0, 0;\n"
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT "wgmma.wait_group.sync.aligned 0;\n"
#define WAIT1 "wgmma.wait_group.sync.aligned 1;\n"
#define STORE "st.global.v4.f32 [%p0], " D ";\n"
#define STORE2 "st.global.v4.f32 [%p0], " D2 ";\n"
#define TAIL "ret;\n}\n"
#define READY FILL PROXY BAR

typedef struct Rule {
    const char *name, *kind; /* kind NULL: must be silent; `want`, or a NULL kind: D must be it in every place */
    float want;
    const char *text;
    unsigned threads; /* 0: 128 */
} Rule;

static const Rule RULES[] = {
    {"as it should be", NULL, 16, HEAD READY FENCE MMA COMMIT WAIT STORE TAIL, 0},
    {"four in one group", NULL, 64, HEAD READY FENCE MMA MMA MMA MMA COMMIT WAIT STORE TAIL, 0},
    {"fence of the proxies by the reader", NULL, 16, HEAD FILL BAR PROXY FENCE MMA COMMIT WAIT STORE TAIL, 0},
    {"no fence of the proxies", "race", 0, HEAD FILL BAR FENCE MMA COMMIT WAIT STORE TAIL, 0},
    {"fence of the proxies by one warp only", "race", 0,
     HEAD FILL BAR "@%w fence.proxy.async;\n" FENCE MMA COMMIT WAIT STORE TAIL, 0},
    {"no barrier", "race", 0, HEAD FILL PROXY FENCE MMA COMMIT WAIT STORE TAIL, 0},
    {"operands never written", "uninitialised", 0, HEAD BAR FENCE MMA COMMIT WAIT STORE TAIL, 0},
    {"no wgmma.fence", "missing-fence", 0, HEAD READY MMA COMMIT WAIT STORE TAIL, 0},
    {"accumulators written after the fence", "missing-fence", 0,
     HEAD READY FENCE "mov.f32 %d1, 0f00000000;\n" MMA COMMIT WAIT STORE TAIL, 0},
    {"others written after the fence", NULL, 16,
     HEAD READY FENCE "mov.f32 %d5, 0f3f800000;\n" MMA COMMIT WAIT STORE TAIL, 0},
    {"accumulators read between two products", "missing-fence", 0,
     HEAD READY FENCE MMA COMMIT WAIT STORE MMA COMMIT WAIT STORE TAIL, 0},
    {"accumulators read between, with a fence", NULL, 32,
     HEAD READY FENCE MMA COMMIT WAIT STORE FENCE MMA COMMIT WAIT STORE TAIL, 0},
    {"fragments written after the fence", "missing-fence", 0,
     HEAD READY FENCE "mov.b32 %f2, 0;\n" MMA_REGISTERS COMMIT WAIT STORE TAIL, 0},
    {"fragments in registers", NULL, 16, HEAD READY FENCE MMA_REGISTERS COMMIT WAIT STORE TAIL, 0},
    {"fragments overwritten before the wait", "register-in-flight", 0,
     HEAD READY FENCE MMA_REGISTERS COMMIT "mov.b32 %f2, 0;\n" WAIT STORE TAIL, 0},
    {"fragments overwritten after the wait", NULL, 16,
     HEAD READY FENCE MMA_REGISTERS COMMIT WAIT "mov.b32 %f2, 0;\n" STORE TAIL, 0},
    {"accumulators read before the wait", "wgmma-wait", 16, HEAD READY FENCE MMA COMMIT STORE WAIT TAIL, 0},
    {"accumulators written before the wait", "register-in-flight", 0,
     HEAD READY FENCE MMA COMMIT "mov.f32 %d1, 0f00000000;\n" WAIT STORE TAIL, 0},
    {"no commit", "missing-wait", 0, HEAD READY FENCE MMA WAIT TAIL, 0},
    {"no commit, and a read", "wgmma-wait", 16, HEAD READY FENCE MMA WAIT STORE TAIL, 0},
    {"no wait", "missing-wait", 0, HEAD READY FENCE MMA COMMIT TAIL, 0},
    {"a wait for all but the last", "wgmma-wait", 16, HEAD READY FENCE MMA COMMIT WAIT1 STORE WAIT TAIL, 0},
    {"the older of two groups", NULL, 16,
     HEAD READY FENCE MMA COMMIT MMA_OF(D2, "%a", "%b") COMMIT WAIT1 STORE WAIT TAIL, 0},
    {"the younger of two groups", "wgmma-wait", 16,
     HEAD READY FENCE MMA COMMIT MMA_OF(D2, "%a", "%b") COMMIT WAIT1 STORE2 WAIT TAIL, 0},
    {"the younger of two groups, waited for", NULL, 16,
     HEAD READY FENCE MMA COMMIT MMA_OF(D2, "%a", "%b") COMMIT WAIT STORE2 TAIL, 0},
    {"another shape on accumulators in flight", "register-in-flight", 0,
     HEAD READY FENCE MMA MMA_WIDE COMMIT WAIT STORE TAIL, 0},
    {"another shape after the wait, no fence", "missing-fence", 0,
     HEAD READY FENCE MMA COMMIT WAIT MMA_WIDE COMMIT WAIT STORE TAIL, 0},
    {"another shape after wait and fence", NULL, 32,
     HEAD READY FENCE MMA COMMIT WAIT FENCE MMA_WIDE COMMIT WAIT STORE TAIL, 0},
    {"operand overwritten before the wait", "race", 0, HEAD READY FENCE MMA COMMIT FILL WAIT STORE TAIL, 0},
    {"operand overwritten by who did not wait", "race", 0, HEAD READY FENCE MMA COMMIT BAR FILL WAIT STORE TAIL, 0},
    {"operand overwritten after the wait", NULL, 16, HEAD READY FENCE MMA COMMIT WAIT BAR FILL STORE TAIL, 0},
    {"operand read by others meanwhile", NULL, 16,
     HEAD READY FENCE MMA COMMIT "ld.shared.b32 %x5, [%x2];\n" WAIT STORE TAIL, 0},
    {"one warp stays away", "deadlock", 0, HEAD READY FENCE "@%w bra.uni OUT;\n" MMA COMMIT WAIT STORE "OUT:\n" TAIL,
     0},
    {"one warp has another descriptor", "divergent-barrier", 0,
     HEAD READY FENCE "@%w mov.b64 %b, 0x0000001000080090;\n" MMA COMMIT WAIT STORE TAIL, 0},
    {"one warp has another instruction", "divergent-barrier", 0,
     HEAD READY FENCE "@%w bra.uni TWO;\n" MMA "bra.uni DONE;\nTWO:\n" MMA "DONE:\n" COMMIT WAIT STORE TAIL, 0},
    {"half a warp", "divergent-barrier", 0,
     HEAD READY FENCE "and.b32 %x5, %x0, 16; setp.eq.u32 %q, %x5, 0;\n@%q " MMA COMMIT WAIT STORE TAIL, 0},
    {"lanes disagree on the descriptor", "bad-descriptor", 0,
     HEAD READY FENCE
     "and.b32 %x5, %x0, 31; cvt.u64.u32 %e0, %x5; setp.eq.u32 %q, %x5, 31; @%q add.u64 %b, %b, 16;\n" MMA COMMIT WAIT
         STORE TAIL,
     0},
    {"three warps", "divergent-barrier", 0, HEAD FILL PROXY BAR FENCE MMA COMMIT WAIT STORE TAIL, 96},
    {"reserved bits", "bad-descriptor", 0,
     HEAD READY FENCE "mov.b64 %b, 0x0001001000080080;\n" MMA COMMIT WAIT STORE TAIL, 0},
    {"base offset without a swizzle", "bad-descriptor", 0,
     HEAD READY FENCE "mov.b64 %b, 0x0002001000080080;\n" MMA COMMIT WAIT STORE TAIL, 0},
    {"swizzled, off the pattern's start", "bad-descriptor", 0,
     HEAD READY "@%w st.shared.v4.b32 [%x2+2560], {%x3,%x3,%x3,%x3}; fence.proxy.async; bar.sync 0;\n" FENCE
                "mov.b64 %b, 0x4000004000080088;\n" MMA COMMIT WAIT STORE TAIL,
     0},
    {"operand past the end", "out-of-bounds", 0,
     HEAD READY FENCE "mov.b64 %b, 0x0000001000080400;\n" MMA COMMIT WAIT STORE TAIL, 0},
    {"a stride that leads to bytes never written", "uninitialised", 0,
     HEAD READY FENCE "mov.b64 %b, 0x0000001000300080;\n" MMA COMMIT WAIT STORE TAIL, 0},
};

static void check_rule(const Rule *r, const char *path) {
    float out[4 * THREADS] = {0};
    char kinds[2048];
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    CUfunction f = load_kernel(r->text, "k");
    CUdeviceptr p = upload(out, sizeof out);
    launch1(f, 1, r->threads ? r->threads : THREADS, (void *[]){&p});
    cu.cuCtxSynchronize();
    const bool goes_on = !r->kind || r->want != 0;
    if (goes_on) assert_int_equal(cu.cuMemcpyDtoH_v2(out, p, sizeof out), CUDA_SUCCESS);
    read_kinds(path, kinds, sizeof kinds);
    if (r->kind ? !strstr(kinds, r->kind) : kinds[0] != '\0')
        fail_msg("%s: expected %s, found '%s'", r->name, r->kind ? r->kind : "nothing", kinds);
    for (int k = 0; goes_on && k < 4 * THREADS; k++)
        if (out[k] != r->want) fail_msg("%s: %g instead of %g", r->name, out[k], r->want);
    cu.cuMemFree_v2(p);
    cu.cuCtxDestroy_v2(cu.context);
    remove(path);
}

static void rules(void **state) {
    (void)state;
    static const char *const LANDING[] = {"early", "late", "random"};
    char path[64] = "/tmp/ptxsim_wgmma_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    remove(path);
    setenv("PTXSIM_REPORT", path, 1);
    for (int seed = 0; seed < 6; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("PTXSIM_SEED", text, 1);
        setenv("PTXSIM_LANDING", LANDING[seed % 3], 1);
        for (size_t k = 0; k < sizeof RULES / sizeof *RULES; k++) check_rule(&RULES[k], path);
    }
    unsetenv("PTXSIM_SEED");
    unsetenv("PTXSIM_LANDING");
    unsetenv("PTXSIM_REPORT");
}

static void what_does_not_exist(void **state) {
    (void)state;
    static const char *const TEXT[] = {
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%d0,%d1,%d2,%d3,%d4,%d5}, %a, %b, %t, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {%d0,%d1,%d2,%d3}, %a, %b, %t, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {%d0,%d1,%d2,%d3}, %a, %b, %t, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2}, %a, %b, %t, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %a, %b, %t, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %a, %b, %t, 1, 1, 0, 2;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %a, %b, %t, 1, 1, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%d0,%d1,%d2,%d3}, %a, %b, %t, 1, 1, 0, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %x0, %b, %t, 1, 1, 0, 0;",
        "wgmma.mma_async.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %a, %b, %t, 1, 1, 0, 0;",
        "wgmma.wait_group.sync.aligned %x0;",
        "wgmma.fence.sync;",
        "wgmma.nonsense.sync.aligned;",
    };
    CUmodule module;
    for (size_t k = 0; k < sizeof TEXT / sizeof *TEXT; k++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s%s", HEAD, TEXT[k], TAIL);
        if (cu.cuModuleLoadData(&module, text) != CUDA_ERROR_INVALID_PTX) fail_msg("accepted: %s", TEXT[k]);
    }
    assert_int_equal(
        cu.cuModuleLoadData(
            &module,
            ".version 8.4\n.target sm_90\n.address_size 64\n.entry k()\n{\nwgmma.fence.sync.aligned; ret;\n}\n"),
        CUDA_ERROR_INVALID_PTX);
}

int main(void) {
    setenv("PTXSIM_DEVICE", "sm_90", 0);
    driver_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules), cmocka_unit_test_setup_teardown(what_does_not_exist, context_setup, context_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
