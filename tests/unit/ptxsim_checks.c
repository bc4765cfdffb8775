/* Wrong kernels must be reported, each with the right kind; their correct twins must not. */
#include "ptxsim_driver.h"
#include <stdbool.h>
#include <unistd.h>

#define KERNEL(body) KERNEL_FOR(PTX_HEAD, body)
#define HEAD_90 ".version 8.1\n.target sm_90\n.address_size 64\n"
#define KERNEL_FOR(head, body)                                                                                                   \
    head ".extern .shared .align 16 .b8 dyn[];\n.const .align 4 .u32 table[4] = {1, 2, 3, 4};\n"                    \
             ".entry k(.param .u64 in, .param .u64 out)\n{\n"                                                          \
             ".reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .pred %p<6>; .reg .f32 %f<8>;\n"                               \
             ".shared .align 16 .b32 s[128]; .local .align 8 .b8 mine[32];\n"                                          \
             "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %laneid;\n"         \
             "mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2; shl.b32 %r3, %r1, 2;\n" body           \
             "\nret;\n}\n"

typedef struct Case {
    const char *name, *kind; /* kind NULL: must be silent */
    CUresult result;
    const char *text;
} Case;

enum { THREADS = 64 }; /* `in` and `out` hold that many words; `out` is never written before the launch */

static const Case CASES[] = {
    {"read past the end", "out-of-bounds", 700, KERNEL("ld.global.u32 %r4, [%rd3+4]; st.global.u32 [%rd4], %r4;")},
    {"read to the end", NULL, 0, KERNEL("ld.global.u32 %r4, [%rd3]; st.global.u32 [%rd4], %r4;")},
    {"read before the start", "out-of-bounds", 700, KERNEL("ld.global.u32 %r4, [%rd3-4]; st.global.u32 [%rd4], %r4;")},
    {"write past the end", "out-of-bounds", 700, KERNEL("st.global.u32 [%rd4+4], %r1;")},
    {"guarded write past the end", NULL, 0, KERNEL("setp.lt.u32 %p1, %r1, 63; @%p1 st.global.u32 [%rd4+4], %r1;")},
    {"vector straddles the end", "out-of-bounds", 700,
     KERNEL("shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, 16; mad.wide.u32 %rd5, %r4, 4, %rd1; "
            "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd5];")},
    {"vector within", NULL, 0,
     KERNEL("and.b32 %r4, %r1, 15; mad.wide.u32 %rd5, %r4, 16, %rd1; ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd5];")},
    {"null pointer", "out-of-bounds", 700, KERNEL("mov.u64 %rd5, 0; ld.u32 %r4, [%rd5];")},
    {"misaligned word", "misaligned", 716, KERNEL("ld.global.u32 %r4, [%rd1+2];")},
    {"misaligned vector", "misaligned", 716, KERNEL("ld.global.v2.u32 {%r4, %r5}, [%rd1+4];")},
    {"aligned vector", NULL, 0, KERNEL("ld.global.v2.u32 {%r4, %r5}, [%rd1+8];")},
    {"misaligned shared", "misaligned", 716, KERNEL("st.shared.u32 [s+1], %r1;")},
    {"uninitialised global", "uninitialised", 719, KERNEL("ld.global.u32 %r4, [%rd4];")},
    {"written global", NULL, 0, KERNEL("st.global.u32 [%rd4], %r1; ld.global.u32 %r4, [%rd4];")},
    {"half written global", "uninitialised", 719, KERNEL("st.global.u16 [%rd4], 1; ld.global.u32 %r4, [%rd4];")},
    {"atomic on uninitialised", "uninitialised", 719, KERNEL("red.global.add.u32 [%rd4], 1;")},
    {"uninitialised shared", "uninitialised", 719, KERNEL("mov.u32 %r4, s; add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4];")},
    {"written shared", NULL, 0,
     KERNEL("mov.u32 %r4, s; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r1; ld.shared.u32 %r5, [%r4];")},
    {"uninitialised local", "uninitialised", 719, KERNEL("ld.local.u32 %r4, [mine+4];")},
    {"written local", NULL, 0, KERNEL("st.local.u32 [mine+4], %r1; ld.local.u32 %r4, [mine+4];")},
    {"local out of bounds", "out-of-bounds", 700, KERNEL("st.local.u32 [mine+32], %r1;")},
    {"shared out of bounds", "out-of-bounds", 700, KERNEL("st.shared.u32 [s+512], %r1;")},
    {"shared last word", NULL, 0, KERNEL("setp.eq.u32 %p1, %r1, 5; @%p1 st.shared.u32 [s+508], %r1;")},
    {"dynamic shared without any", "out-of-bounds", 700, KERNEL("st.shared.u32 [dyn], %r1;")},
    {"constant written", "write-to-constant", 700, KERNEL("mov.u64 %rd5, table; st.global.u32 [%rd5], %r1;")},
    {"constant read", NULL, 0, KERNEL("mov.u64 %rd5, table; ld.const.u32 %r4, [%rd5+12]; ld.const.u32 %r4, [table];")},
    {"bar.warp.sync in both arms", NULL, 0,
     KERNEL("setp.lt.u32 %p1, %r2, 9; @%p1 bra LOW; bar.warp.sync -1; bra DONE;\nLOW: bar.warp.sync -1;\nDONE:")},
    {"bar.warp.sync in one arm", "missing-lanes", 719,
     KERNEL("setp.lt.u32 %p1, %r2, 9; @%p1 bra LOW; bra DONE;\nLOW: bar.warp.sync -1;\nDONE:")},
    {"lock among the lanes of a warp", NULL, 0, /* the one that has it goes on while the others spin */
     KERNEL("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s], 0; @%p1 st.shared.u32 [s+4], 0; bar.sync 0;\n"
            "SPIN: atom.acquire.cta.shared.cas.b32 %r5, [s], 0, 1; setp.ne.u32 %p1, %r5, 0; @%p1 bra SPIN;\n"
            "ld.shared.u32 %r6, [s+4]; add.u32 %r6, %r6, 1; st.shared.u32 [s+4], %r6;\n"
            "atom.release.cta.shared.exch.b32 %r7, [s], 0; bar.warp.sync -1; bar.sync 0;\n"
            "ld.shared.u32 %r6, [s+4]; setp.ne.u32 %p2, %r6, 64; @%p2 trap;")},
    {"no lock among the lanes of a warp", "race", 719,
     KERNEL("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s+4], 0; bar.sync 0;\n"
            "ld.shared.u32 %r6, [s+4]; add.u32 %r6, %r6, 1; st.shared.u32 [s+4], %r6;")},
    {"missing barrier", "race", 719,
     KERNEL("mov.u32 %r4, s; add.u32 %r5, %r4, %r3; st.shared.u32 [%r5], %r1; xor.b32 %r6, %r3, 128; add.u32 %r6, %r4, %r6;\n"
            "ld.shared.u32 %r7, [%r6];")},
    {"barrier in place", NULL, 0,
     KERNEL("mov.u32 %r4, s; add.u32 %r5, %r4, %r3; st.shared.u32 [%r5], %r1; xor.b32 %r6, %r3, 128; add.u32 %r6, %r4, %r6;\n"
            "bar.sync 0; ld.shared.u32 %r7, [%r6];")},
    {"missing second barrier", "race", 719,
     KERNEL("mov.u32 %r4, s; add.u32 %r5, %r4, %r3; st.shared.u32 [%r5], %r1; xor.b32 %r6, %r3, 128; add.u32 %r6, %r4, %r6;\n"
            "bar.sync 0; ld.shared.u32 %r7, [%r6]; st.shared.u32 [%r5], %r7;")},
    {"second barrier in place", NULL, 0,
     KERNEL("mov.u32 %r4, s; add.u32 %r5, %r4, %r3; st.shared.u32 [%r5], %r1; xor.b32 %r6, %r3, 128; add.u32 %r6, %r4, %r6;\n"
            "bar.sync 0; ld.shared.u32 %r7, [%r6]; bar.sync 0; st.shared.u32 [%r5], %r7;")},
    {"two warps write one word", "race", 719, KERNEL("st.shared.u32 [s], %r1;")},
    {"atomics on one word", NULL, 0,
     KERNEL("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0; red.shared.add.u32 [s], 1;")},
    {"a guess that a compare-and-swap verifies", NULL, 0,
     KERNEL("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s+4], 0; bar.sync 0; mov.u64 %rd5, s; cvta.shared.u64 %rd5, %rd5;\n"
            "add.s64 %rd6, %rd5, 4; ld.u32 %r4, [%rd5+4]; AGAIN: add.u32 %r5, %r4, 1; atom.cas.b32 %r6, [%rd6], %r4, %r5;\n"
            "setp.ne.u32 %p1, %r6, %r4; mov.u32 %r4, %r6; @%p1 bra AGAIN;")},
    {"the same of a shared variable", NULL, 0,
     KERNEL("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0; ld.shared.u32 %r4, [s]; mov.u32 %r7, s;\n"
            "AGAIN: add.u32 %r5, %r4, 1; atom.shared.cas.b32 %r6, [%r7], %r4, %r5; setp.ne.u32 %p1, %r6, %r4;\n"
            "mov.u32 %r4, %r6; @%p1 bra AGAIN;")},
    {"a plain read beside a compare-and-swap", "race", 719,
     KERNEL("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.v2.u32 [s], {%r1, %r1}; bar.sync 0; mov.u32 %r5, s;\n"
            "AGAIN: add.u32 %r6, %r4, 1; atom.shared.cas.b32 %r7, [%r5], %r4, %r6; setp.ne.u32 %p1, %r7, %r4;\n"
            "mov.u32 %r4, %r7; @%p1 bra AGAIN; ld.shared.u32 %r8, [%r5]; st.global.u32 [%rd4], %r8;")},
    {"a vector of atomics", NULL, 0,
     KERNEL_FOR(HEAD_90, "setp.eq.u32 %p1, %r1, 0; mov.f32 %f1, 0f3F800000; @%p1 st.global.v2.f32 [%rd2], {%f1, %f1}; bar.sync 0;\n"
            "atom.global.add.v2.f32 {%f2, %f3}, [%rd2], {%f1, %f1}; setp.neu.f32 %p2, %f2, %f3; @%p2 trap;\n"
            "bar.sync 0; ld.global.f32 %f4, [%rd2+4]; setp.neu.f32 %p2, %f4, 0f42820000; @%p2 trap;")},
    {"a vector of atomics at half its alignment", "misaligned", 716,
     KERNEL_FOR(HEAD_90, "mov.f32 %f1, 0f3F800000; red.global.add.v2.f32 [%rd1+4], {%f1, %f1};")},
    {"barrier in half a warp", "divergent-barrier", 719, KERNEL("setp.lt.u32 %p1, %r2, 16; @%p1 bar.sync 0;")},
    {"barrier under a branch", "divergent-barrier", 719,
     KERNEL("setp.lt.u32 %p1, %r2, 16; @%p1 bra SKIP; bar.sync 0; SKIP: st.global.u32 [%rd4], %r1;")},
    {"barrier after early exit", NULL, 0, KERNEL("setp.lt.u32 %p1, %r2, 16; @%p1 ret; bar.sync 0; st.global.u32 [%rd4], %r1;")},
    {"two barriers, one per warp", "deadlock", 719,
     KERNEL("setp.lt.u32 %p1, %r1, 32; @%p1 bra.uni ONE; bar.sync 1; bra.uni OUT; ONE: bar.sync 2; OUT:")},
    {"producer and consumer", NULL, 0,
     KERNEL("setp.lt.u32 %p1, %r1, 32; mov.u32 %r4, s; add.u32 %r5, %r4, %r3; @%p1 bra.uni ONE;\n"
            "bar.sync 1, 64; add.u32 %r5, %r5, -128; ld.shared.u32 %r6, [%r5]; bra.uni OUT;\n"
            "ONE: st.shared.u32 [%r5], %r1; bar.arrive 1, 64; OUT:")},
    {"barrier that too few reach", "deadlock", 719, KERNEL("setp.lt.u32 %p1, %r1, 32; @!%p1 ret; bar.sync 1, 64;")},
    {"shuffle without its lanes", "missing-lanes", 719,
     KERNEL("setp.lt.u32 %p1, %r2, 8; @%p1 bra SKIP; shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1; SKIP: st.global.u32 [%rd4], %r1;")},
    {"shuffle with its lanes", NULL, 0,
     KERNEL("setp.lt.u32 %p1, %r2, 8; @%p1 bra SKIP; shfl.sync.bfly.b32 %r4, %r1, 1, 31, 0xffffff00; SKIP: st.global.u32 [%rd4], %r1;")},
    {"tiles with sets of their own", NULL, 0,
     KERNEL("setp.lt.u32 %p1, %r2, 7; selp.b32 %r5, 0x7f, 0xffffff80, %p1; selp.b32 %r8, 21, 475, %p1;\n"
            "redux.sync.add.u32 %r4, %r2, %r5; setp.ne.u32 %p2, %r4, %r8; @%p2 trap;\n"
            "bar.warp.sync %r5; match.any.sync.b32 %r4, 1, %r5; setp.ne.u32 %p2, %r4, %r5; @%p2 trap;\n"
            "vote.sync.ballot.b32 %r4, !%p2, %r5; setp.ne.u32 %p2, %r4, %r5; @%p2 trap;\n"
            "shfl.sync.idx.b32 %r4, %r2, %r2, 31, %r5; setp.ne.u32 %p2, %r4, %r2; @%p2 trap;")},
    {"a set that names lanes of another", "missing-lanes", 719,
     KERNEL("setp.lt.u32 %p1, %r2, 7; selp.b32 %r5, 0x7f, 0xffffffc0, %p1; redux.sync.add.u32 %r4, %r2, %r5;")},
    {"trap", "trap", 719, KERNEL("setp.eq.u32 %p1, %r1, 33; @%p1 trap;")},
    {"no trap", NULL, 0, KERNEL("setp.eq.u32 %p1, %r1, 64; @%p1 trap;")},
    {"endless loop", "step-limit", 702, KERNEL("AGAIN: add.u32 %r4, %r4, 1; bra AGAIN;")},
    {"bounded loop", NULL, 0, KERNEL("mov.u32 %r4, 0; AGAIN: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 1000; @%p1 bra AGAIN;")},
};

static void run_case(const Case *c, const char *path) {
    uint32_t in[THREADS];
    char kinds[2048];
    for (uint32_t i = 0; i < THREADS; i++) in[i] = i;
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    CUfunction f = load_kernel(c->text, "k");
    CUdeviceptr pi = upload(in, sizeof in), po = upload(NULL, sizeof in);
    const CUresult r = launch1(f, 1, THREADS, (void *[]){&pi, &po});
    read_kinds(path, kinds, sizeof kinds);
    const bool as_said = c->kind ? strstr(kinds, c->kind) == kinds : kinds[0] == '\0';
    if (r != c->result || !as_said) fail_msg("%s: result %d, findings: %s", c->name, r, kinds);
    assert_int_equal(cu.cuCtxSynchronize(), c->result); /* a failure stays with its context */
    cu.cuMemFree_v2(pi);
    cu.cuMemFree_v2(po);
    cu.cuCtxDestroy_v2(cu.context);
}

static void kernels(void **state) {
    (void)state;
    char path[64] = "/tmp/ptxsim_checks_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    remove(path);
    setenv("PTXSIM_REPORT", path, 1);
    setenv("PTXSIM_MAX_STEPS", "100000", 1);
    for (int seed = 0; seed < 3; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("PTXSIM_SEED", text, 1);
        for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) run_case(&CASES[k], path);
    }
    unsetenv("PTXSIM_SEED");
    unsetenv("PTXSIM_REPORT");
    unsetenv("PTXSIM_MAX_STEPS");
}

static void checks_can_be_disabled(void **state) {
    (void)state;
    const uint64_t before = findings();
    CUfunction f = load_kernel(KERNEL("ld.global.u32 %r4, [%rd4];"), "k");
    CUdeviceptr p = upload(NULL, 4 * THREADS);
    setenv("PTXSIM_CHECKS", "-uninitialised", 1);
    assert_int_equal(launch1(f, 1, THREADS, (void *[]){&p, &p}), CUDA_SUCCESS);
    unsetenv("PTXSIM_CHECKS");
    assert_int_equal(findings(), before);
    cu.cuMemFree_v2(p);
}

static void leaks_and_double_frees(void **state) {
    (void)state;
    CUdeviceptr p = upload(NULL, 100), q = upload(NULL, 10);
    const uint64_t before = findings();
    assert_int_equal(cu.cuMemFree_v2(p), CUDA_SUCCESS);
    assert_int_equal(findings(), before);
    assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(findings(), before + 1);
    assert_int_equal(cu.cuMemFree_v2(q + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(findings(), before + 2);
    cu.cuCtxDestroy_v2(cu.context);
    assert_int_equal(findings(), before + 3); /* q */
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
}

static void copies_stay_inside(void **state) {
    (void)state;
    char data[64] = {0};
    CUdeviceptr p = upload(data, sizeof data);
    assert_int_equal(cu.cuMemcpyHtoD_v2(p + 1, data, 64), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyDtoH_v2(data, p + 1, 63), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyDtoH_v2(data, p + 2, 63), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemsetD32_v2(p + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemsetD32_v2(p + 4, 0, 15), CUDA_SUCCESS);
    cu.cuMemFree_v2(p);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    driver_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels), RUN(checks_can_be_disabled), RUN(leaks_and_double_frees),
                                       RUN(copies_stay_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
