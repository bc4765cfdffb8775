/* What other compilers emit and ours does not: scalars in braces, grid-wide barriers through %envreg1 and 2, tensor
 * maps made from zeros, vprintf and __assertfail; and habits of theirs that are findings of their own kinds, which
 * PTXSIM_CHECKS makes errors, reports or nothing. */
#include "ptxsim_pairs.h"

enum { THREADS = 64 };
static uint32_t words[256];

#define HEAD                                                                                                         \
    HEAD_90                                                                                                          \
        ".entry k(.param .u64 in, .param .u64 out)\n{\n"                                                             \
        ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .b16 %h<4>;\n"                                  \
        ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar;\n"                                               \
        "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;\n"             \
        "mov.u32 %r3, s; add.u32 %r3, %r3, %r2; mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;\n" \
        "setp.eq.u32 %p1, %r1, 0;\n"
#define KERNEL(body) HEAD body "\nret;\n}\n"

static void make_words(void) {
    for (uint32_t k = 0; k < 256; k++) words[k] = 1000 + 7 * k;
}

/* ---- scalars in braces ------------------------------------------------------------------------------------ */
static void check_doubled(const void *out) {
    for (uint32_t k = 0; k < THREADS; k++) assert_int_equal(((const uint32_t *)out)[k], 2 * words[k]);
}

static void braces(void **state) {
    (void)state;
    const Setting s = {1, THREADS, words, sizeof words, 4 * THREADS};
    each_landing(
        KERNEL("ld.global.b32 { %r4 }, [ %rd3 + 0 ]; mov.b32 %r5, {%r4}; mov.b32 {%r6}, %r5; add.u32 %r6, %r6, %r4;\n"
               "st.global.b32 [ %rd4 + 0 ], { %r6 };"),
        &s, check_doubled);
    each_landing(
        KERNEL("ld.global.b32 {%r4}, [%rd3]; @%p1 st.global.b32 [%rd4], { 2000 }; @!%p1 add.u32 %r4, %r4, %r4;\n"
               "@!%p1 st.global.b32 [%rd4], {%r4};"),
        &s, check_doubled);
}

static void wrong_braces(void **state) {
    (void)state;
    static const char *const FORMS[] = {"ld.global.b32 { %r1, %r2 }, [%rd1];",
                                        "ld.global.b32 { }, [%rd1];",
                                        "ld.global.b32 { _ }, [%rd1];",
                                        "ld.global.b32 %r1, { [%rd1] };",
                                        "ld.global.b32 { { %r1 } }, [%rd1];",
                                        "add.s32 { %r1 }, %r2, %r3;",
                                        "add.s32 %r1, {%r2}, %r3;",
                                        "mov.u32 %r1, {%r2};",
                                        "atom.global.add.u32 %r1, [%rd1], {%r2};",
                                        "red.global.add.u32 [%rd1], {%r2};",
                                        "st.global.b32 [%rd1], { %r1 }, 3;",
                                        "shfl.sync.idx.b32 {%r1}, %r2, 0, 31, -1;",
                                        "mov.b32 %r1, %envreg32;",
                                        "st.global.b32 [%rd1], { %r1;"};
    for (size_t k = 0; k < sizeof FORMS / sizeof *FORMS; k++) refuse(HEAD "HOLE\nret;\n}\n", FORMS[k]);
}

/* ---- kinds and their levels ------------------------------------------------------------------------------- */
#define TWO_STORES(value) "mov.b32 %r4, " value "; st.shared.b32 [s], %r4; bar.sync 0;"
#define PARITY(p)                                                                                                    \
    "@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p1 mbarrier.arrive.shared.b64 %rd5, [bar]; bar.sync 0;\n" \
    "mov.b32 %r4, " p "; W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r4; @!%p2 bra W;"
#define INIT_COPY(fence)                                                                               \
    "@%p1 mbarrier.init.shared.b64 [bar], 1; " fence                                                   \
    " bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"                           \
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 64, [bar];\n" \
    "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;"
#define COPY_STORE(wait, fence)                                                                             \
    "cp.async.ca.shared.global [%r3], [%rd3], 4; " wait " " fence " bar.sync 0;\n"                          \
    "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 256; @%p1 cp.async.bulk.commit_group;\n" \
    "@%p1 cp.async.bulk.wait_group 0;"
#define VECTORS(last) "mov.b32 %r4, 3; mov.b32 %r5, " last "; st.global.v2.b32 [%rd2], {%r4, %r5};"

static const Pair HABITS[] = {
    {"several warps store the same", "same-value", KERNEL(TWO_STORES("5"))},
    {"several warps store other values", "race", KERNEL(TWO_STORES("%warpid"))},
    {"lanes of a warp store other values", "race", KERNEL(TWO_STORES("%laneid"))},
    {"the same, through a generic address", "same-value",
     KERNEL("mov.u64 %rd5, s; cvta.shared.u64 %rd5, %rd5; mov.b32 %r4, 9; st.b32 [%rd5], %r4;")},
    {"the same into global memory", "same-value", KERNEL(VECTORS("4"))},
    {"half the same into global memory", "race", KERNEL(VECTORS("%warpid"))},
    {"the same byte", "same-value", KERNEL("mov.u16 %h1, 3; st.shared.u8 [s+1], %h1;")},
    {"matrices of the same", "same-value",
     KERNEL("and.b32 %r5, %r1, 7; shl.b32 %r5, %r5, 4; mov.u32 %r6, s; add.u32 %r6, %r6, %r5; mov.b32 %r7, 3;\n"
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r7};")},
    {"matrices of other values", "race",
     KERNEL("and.b32 %r5, %r1, 7; shl.b32 %r5, %r5, 4; mov.u32 %r6, s; add.u32 %r6, %r6, %r5; mov.b32 %r7, %warpid;\n"
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r7};")},
    {"rows of one matrix at one place", "race",
     KERNEL("setp.lt.u32 %p2, %r1, 32; @!%p2 ret; mov.u32 %r6, s;\n"
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r1};")},
    {"a read beside a store of the same", "race",
     KERNEL("setp.lt.u32 %p2, %r1, 32; @%p2 st.shared.b32 [s], 1; @!%p2 ld.shared.b32 %r5, [s];")},
    {"a barrier between", NULL,
     KERNEL("@%p1 st.shared.b32 [s], 1; bar.sync 0; setp.eq.u32 %p2, %r1, 40; @%p2 st.shared.b32 [s], 1;")},
    {"a barrier in both arms", NULL,
     KERNEL("setp.lt.u32 %p2, %r1, 11; @%p2 st.shared.b32 [%r3], %r1; @%p2 bra LOW; st.shared.b32 [%r3], %r2; barrier.sync 0;\n"
            "bra DONE;\nLOW: barrier.sync 0;\nDONE: xor.b32 %r4, %r2, 252; mov.u32 %r5, s; add.u32 %r4, %r4, %r5;\n"
            "ld.shared.b32 %r6, [%r4];")},
    {"a parity of -1", "mbarrier-parity", KERNEL(PARITY("-2"))},
    {"a parity of 0", NULL, KERNEL(PARITY("0"))},
    {"no fence after mbarrier.init", "mbarrier-init-fence", KERNEL(INIT_COPY(""))},
    {"an object initialised again", "mbarrier-reuse",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;\n" PARITY("0"))},
    {"an object initialised again in a phase", "mbarrier ",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 2; @%p1 mbarrier.arrive.shared.b64 %rd5, [bar]; @%p1 "
            "mbarrier.init.shared.b64 [bar], 1;")},
    {"an object stored over at rest", "mbarrier-reuse",
     KERNEL(PARITY("0") " bar.sync 0; @%p1 st.shared.b64 [bar], %rd5; bar.sync 0; ld.shared.b64 %rd6, [bar];")},
    {"an object stored over in a phase", "mbarrier ",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 2; @%p1 mbarrier.arrive.shared.b64 %rd5, [bar]; @%p1 st.shared.b64 "
            "[bar], %rd5;")},
    {"an object stored over before its phase is seen", "mbarrier ",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.arrive.shared.b64 %rd5, [bar]; @%p1 st.shared.b64 "
            "[bar], %rd5;")},
    {"an object used after it was stored over", "mbarrier ",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 st.shared.b64 [bar], 0; @%p1 mbarrier.arrive.shared.b64 "
            "%rd5, [bar];")},
    {"cp.async and a bulk store without a fence", "cp-async-fence", KERNEL(COPY_STORE("cp.async.wait_all;", ""))},
    {"cp.async and a bulk store with a fence", NULL,
     KERNEL(COPY_STORE("cp.async.wait_all;", "fence.proxy.async.shared::cta;"))},
    {"cp.async and a bulk store without a wait", "race", KERNEL(COPY_STORE("", "fence.proxy.async.shared::cta;"))},
    {"a fence after mbarrier.init", NULL, KERNEL(INIT_COPY("@%p1 fence.mbarrier_init.release.cluster;"))},
};

static void habits(void **state) {
    (void)state;
    const Setting s = {1, THREADS, words, sizeof words, 4 * THREADS};
    cu.cuCtxDestroy_v2(cu.context);
    run_pairs(HABITS, sizeof HABITS / sizeof *HABITS, &s);
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
}

/* A launch under PTXSIM_CHECKS: its result, and how many findings there are. */
static void under(const char *checks, const char *body, CUresult result, uint64_t found) {
    CUcontext c;
    const uint64_t before = findings();
    if (checks) setenv("PTXSIM_CHECKS", checks, 1);
    assert_int_equal(cu.cuCtxCreate_v2(&c, 0, 0), CUDA_SUCCESS);
    CUdeviceptr p = upload(words, sizeof words);
    const CUresult r = launch1(load_kernel(body, "k"), 1, THREADS, (void *[]){&p, &p});
    const uint64_t now = findings();
    cu.cuMemFree_v2(p);
    cu.cuCtxDestroy_v2(c);
    unsetenv("PTXSIM_CHECKS");
    if (r != result || now != before + found)
        fail_msg("%s: result %d, %d findings", checks ? checks : "-", r, (int)(now - before));
}

static void levels(void **state) {
    (void)state;
    const char *same = KERNEL(TWO_STORES("5")), *race = KERNEL(TWO_STORES("%warpid"));
    under(NULL, same, CUDA_SUCCESS, 1);
    under("", same, CUDA_SUCCESS, 1);
    under("same-value=error", same, 719, 1);
    under("same-value=off", same, CUDA_SUCCESS, 0);
    under("-same-value", same, CUDA_SUCCESS, 0);
    under("all=error", same, 719, 1);
    under("all=error,same-value=report", same, CUDA_SUCCESS, 1);
    under("same-value=report,all=off", same, CUDA_SUCCESS, 0);
    under(NULL, race, 719, 1);
    under("race=report", race, CUDA_SUCCESS, 1);
    under("race=error", race, 719, 1);
    under("-race,-leak", race, CUDA_SUCCESS, 0);
    under("race=loud,rice=off,-,=off,race", race, 719, 1); /* mistakes are left out */
    under("same-value=error", KERNEL(PARITY("-2")), CUDA_SUCCESS, 1);
    under("mbarrier-parity=error", KERNEL(PARITY("-2")), 719, 1);
    under("mbarrier-init-fence=error", KERNEL(INIT_COPY("")), 719, 1);
}

/* ---- grid-wide barriers ----------------------------------------------------------------------------------- */
/* As cooperative_groups::this_grid().sync() is compiled: block 0 brings what is missing to bit 31. */
#define GRID_SYNC                                                                                                      \
    "mov.u32 %r10, %envreg1; mov.u32 %r11, %envreg2; mov.b64 %rd10, {%r11, %r10}; setp.eq.u64 %p3, %rd10, 0;\n"        \
    "@%p3 trap; bar.sync 0; @!%p1 bra JOIN; mov.u32 %r12, %ctaid.x; mov.u32 %r13, %nctaid.x; sub.u32 %r13, "           \
    "0x80000001, %r13;\n"                                                                                              \
    "setp.eq.u32 %p4, %r12, 0; selp.b32 %r13, %r13, 1, %p4; atom.add.release.gpu.u32 %r14, [%rd10+4], %r13;\n"         \
    "AGAIN: ld.acquire.gpu.u32 %r15, [%rd10+4]; xor.b32 %r15, %r15, %r14; setp.ge.s32 %p4, %r15, 0; @%p4 bra AGAIN;\n" \
    "JOIN: bar.sync 0;\n"

static const char *const NEIGHBOURS = KERNEL(
    "mov.u32 %r4, %ctaid.x; mov.u32 %r6, %nctaid.x; mad.lo.u32 %r5, %r4, 64, %r1; mad.wide.u32 %rd5, %r5, 4, %rd2;\n"
    "st.global.u32 [%rd5], %r5;\n" GRID_SYNC
    "add.u32 %r7, %r4, 1; rem.u32 %r7, %r7, %r6; mad.lo.u32 %r7, %r7, 64, %r1;\n"
    "mad.wide.u32 %rd6, %r7, 4, %rd2; ld.global.u32 %r8, [%rd6]; mad.wide.u32 %rd7, %r5, 4, %rd1; st.global.u32 "
    "[%rd7], %r8;");

static void grid_barrier(void **state) {
    (void)state;
    enum { BLOCKS = 5 };
    uint32_t got[BLOCKS * THREADS];
    const uint64_t before = findings();
    CUdeviceptr a = upload(NULL, sizeof got), b = upload(NULL, sizeof got);
    for (int again = 0; again < 2; again++) {
        CUfunction f = load_kernel(NEIGHBOURS, "k");
        assert_int_equal(cu.cuLaunchCooperativeKernel(f, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, (void *[]){&a, &b}),
                         CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyDtoH_v2(got, a, sizeof got), CUDA_SUCCESS);
        for (uint32_t k = 0; k < BLOCKS * THREADS; k++) assert_int_equal(got[k], (k + THREADS) % (BLOCKS * THREADS));
    }
    assert_int_equal(findings(), before);
    assert_int_equal(launch1(load_kernel(NEIGHBOURS, "k"), BLOCKS, THREADS, (void *[]){&a, &b}),
                     719); /* not cooperative */
    cu.cuMemFree_v2(a), cu.cuMemFree_v2(b);
}

/* ---- tensor maps from zeros ------------------------------------------------------------------------------- */
#define SET(field, type, value) "@%p1 tensormap.replace.tile." field ".shared::cta.b1024." type " [s+512], " value ";\n"
#define ZEROS "setp.lt.u32 %p2, %r1, 32; mov.b32 %r4, 0; @%p2 st.shared.b32 [%r3+512], { %r4 }; bar.warp.sync -1;\n"
#define FIELDS                                                                                \
    SET("global_address", "b64", "%rd1")                                                      \
    SET("rank", "b32", "0x1") SET("box_dim", "b32", "0x0, 8") SET("box_dim", "b32", "0x1, 2") \
        SET("global_dim", "b32", "0x0, 16") SET("global_stride", "b64", "0x0, %rd8")          \
            SET("element_stride", "b32", "0x0, 1") SET("element_stride", "b32", "0x1, 1")     \
                SET("elemtype", "b32", "0x7")
#define LOAD_BOX                                                                                                     \
    "@!%p2 bra SKIP; bar.warp.sync -1;\n"                                                                            \
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [s+512], 128;\n" \
    "SKIP: @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;\n"          \
    "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128; mov.u32 %r5, 4; mov.u32 %r6, 1;\n"                      \
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"                                                      \
    "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd2, {%r5, %r6}], "     \
    "[bar];\n"                                                                                                       \
    "W: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra W;\n"                                           \
    "setp.lt.u32 %p3, %r1, 16; @%p3 ld.shared.u32 %r7, [%r3]; @%p3 st.global.u32 [%rd4+512], %r7;"
#define FROM_ZEROS(rest) KERNEL("mov.u64 %rd8, 64;\n" ZEROS FIELDS rest LOAD_BOX)

static void check_box(const void *out) {
    const uint32_t *got = (const uint32_t *)out + 128;
    for (uint32_t k = 0; k < 16; k++) assert_int_equal(got[k], words[(1 + k / 8) * 16 + 4 + k % 8]);
}

static const Pair MAPS[] = {
    {"every field replaced", NULL, FROM_ZEROS(SET("global_dim", "b32", "0x1, 4"))},
    {"a dimension missing", "bad-copy", FROM_ZEROS("")},
    {"not zeros", "bad-copy",
     KERNEL(
         "setp.lt.u32 %p2, %r1, 32; @%p2 st.shared.b32 [%r3+512], %r1; bar.warp.sync -1;\n" SET("rank", "b32", "0x1"))},
};

static void maps_from_zeros(void **state) {
    (void)state;
    const Setting s = {1, THREADS, words, sizeof words, 1024};
    each_landing(MAPS[0].text, &s, check_box);
    cu.cuCtxDestroy_v2(cu.context);
    run_pairs(MAPS, sizeof MAPS / sizeof *MAPS, &s);
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
}

/* ---- vprintf and __assertfail ----------------------------------------------------------------------------- */
#define TEXT(name, bytes, list) ".global .align 1 .b8 " name "[" bytes "] = {" list "};\n"
/* "%d %5.2f %s %llx%%\n", "ab" */
#define PRINT_HEAD                                                                                                 \
    HEAD_90 ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);\n" TEXT(       \
        "format", "20", "37, 100, 32, 37, 53, 46, 50, 102, 32, 37, 115, 32, 37, 108, 108, 120, 37, 37, 10, 0")     \
        TEXT("word", "3", "97, 98, 0") ".entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %r<9>; .reg .b64 " \
                                       "%rd<9>; .local .align 8 .b8 list[32];\n"
#define PRINT                                                                                                          \
    PRINT_HEAD                                                                                                         \
        "ld.param.u64 %rd4, [out]; mov.u32 %r1, %tid.x; st.local.u32 [list], %r1; mov.b64 %rd1, 0d3FF8000000000000;\n" \
        "st.local.u64 [list+8], %rd1; mov.u64 %rd2, word; cvta.global.u64 %rd2, %rd2; st.local.u64 [list+16], %rd2;\n" \
        "mov.u64 %rd3, 0x123456789a; st.local.u64 [list+24], %rd3;\n"                                                  \
        "{ .param .b64 a; .param .b64 b; .param .b32 r; mov.u64 %rd5, format; cvta.global.u64 %rd5, %rd5;\n"           \
        "st.param.b64 [a], %rd5; mov.u64 %rd6, list; cvta.local.u64 %rd6, %rd6; st.param.b64 [b], %rd6;\n"             \
        "call.uni (r), vprintf, (a, b); ld.param.b32 %r2, [r]; }\n"                                                    \
        "mad.wide.u32 %rd7, %r1, 4, %rd4; st.global.u32 [%rd7], %r2; ret;\n}\n"

static void prints(void **state) {
    (void)state;
    char path[64] = "/tmp/ptxsim_print_XXXXXX", got[256] = "";
    uint32_t taken[3];
    CUdeviceptr p = upload(words, sizeof words);
    CUfunction f = load_kernel(PRINT, "k");
    const int fd = mkstemp(path), old = dup(1);
    assert_true(fd >= 0 && old >= 0);
    fflush(stdout);
    dup2(fd, 1);
    const CUresult r = launch1(f, 1, 3, (void *[]){&p, &p});
    fflush(stdout);
    dup2(old, 1);
    close(old);
    assert_int_equal(r, CUDA_SUCCESS);
    assert_true(pread(fd, got, sizeof got - 1, 0) > 0);
    close(fd);
    remove(path);
    assert_string_equal(got, "0  1.50 ab 123456789a%\n1  1.50 ab 123456789a%\n2  1.50 ab 123456789a%\n");
    assert_int_equal(cu.cuMemcpyDtoH_v2(taken, p, sizeof taken), CUDA_SUCCESS);
    for (int k = 0; k < 3; k++) assert_int_equal(taken[k], 4);
    cu.cuMemFree_v2(p);
}

#define FAIL_HEAD(parameters)                                                                                       \
    HEAD_90 ".extern .func __assertfail(" parameters                                                                \
            ") .noreturn;\n" TEXT("text", "2", "120, 0") ".entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 " \
                                                         "%r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n"
#define FIVE ".param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e"
#define FAIL(parameters)                                                                                     \
    FAIL_HEAD(parameters)                                                                                    \
    "ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 2; @%p1 bra FINE;\n"               \
    "mov.u64 %rd1, text; cvta.global.u64 %rd1, %rd1;\n"                                                      \
    "{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd1;\n" \
    "st.param.b64 [b], %rd1; st.param.b32 [c], 12; st.param.b64 [d], %rd1; st.param.b64 [e], 1;\n"           \
    "call.uni __assertfail, (a, b, c, d, e); }\n"                                                            \
    "FINE: mad.wide.u32 %rd3, %r1, 4, %rd2; st.global.u32 [%rd3], 77; ret;\n}\n"

static void assertions(void **state) {
    (void)state;
    uint32_t got[THREADS];
    under(NULL, FAIL(FIVE), CUDA_ERROR_ASSERT, 1);
    under("assertion=report", FAIL(FIVE), CUDA_SUCCESS, 1);
    under("-assertion", FAIL(FIVE), CUDA_SUCCESS, 0);
    setenv("PTXSIM_CHECKS", "-assertion", 1);
    CUdeviceptr p = upload(NULL, sizeof got);
    assert_int_equal(launch1(load_kernel(FAIL(FIVE), "k"), 1, THREADS, (void *[]){&p, &p}), CUDA_SUCCESS);
    unsetenv("PTXSIM_CHECKS");
    assert_int_equal(cu.cuMemcpyDtoH_v2(got, p, sizeof got), CUDA_SUCCESS);
    for (int k = 0; k < THREADS; k++) assert_int_equal(got[k], 77); /* the thread goes on */
    cu.cuMemFree_v2(p);
}

/* What has no body, and other parameters than the device's function has: the line of the call. */
static void wrong_calls(void **state) {
    (void)state;
    static const char *const CALLS[] = {"call.uni (r), vprintf, (a);", "call.uni vprintf, (a, b);",
                                        "call.uni (r), printf, (a, b);", "call.uni (r), puts, (a, b);"};
    for (size_t k = 0; k < sizeof CALLS / sizeof *CALLS; k++)
        refuse(HEAD_90 ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);\n"
                       ".extern .func (.param .b32 result) puts(.param .b64 format, .param .b64 arguments);\n"
                       ".entry k()\n{\n{ .param .b64 a; .param .b64 b; .param .b32 r;\nHOLE\n}\nret;\n}\n",
               CALLS[k]);
    refuse(HEAD_90 ".extern .func (.param .b32 result) vprintf(.param .b64 format);\n"
                   ".entry k()\n{\n{ .param .b64 a; .param .b32 r;\nHOLE\n}\nret;\n}\n",
           "call.uni (r), vprintf, (a);");
}

/* A prototype and what follows it, which calls in between rely on. */
static void prototypes(void **state) {
    (void)state;
    static const char *const LATER[] = {
        ".func f(.param .b32 a) { ret; }", ".func f() { ret; }", ".func (.param .b32 r) f(.param .b64 a) { ret; }",
        ".extern .func f(.param .b64 a, .param .b64 b);", ".func f(.param .align 8 .b8 a[60000]) { ret; }"};
    for (size_t k = 0; k < sizeof LATER / sizeof *LATER; k++)
        refuse(HEAD_90 ".func f(.param .b64 a);\n.entry k()\n{\n{ .param .b64 a; call.uni f, (a); }\nret;\n}\nHOLE\n", LATER[k]);
}

int main(void) {
    driver_open();
    make_words();
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {RUN(braces), RUN(wrong_braces), RUN(habits),
                                       RUN(levels), RUN(grid_barrier), RUN(maps_from_zeros),
                                       RUN(prints), RUN(assertions),   RUN(wrong_calls),     RUN(prototypes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
