/* cp.async, its groups, and mbarrier objects: known answers by hand from the PTX ISA, wrong kernels and their twins. */
#include "ptxsim_pairs.h"

/* 64 threads; %r1 thread, %r2 its word's offset, %r3 the address of its word in s, %rd3 and %rd4 its words of in and
 * out */
#define KERNEL(body)                                                                                                 \
    HEAD_90                                                                                                          \
        ".entry k(.param .u64 in, .param .u64 out)\n{\n"                                                             \
        ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>;\n"                                                   \
        ".shared .align 16 .b8 s[2048]; .shared .align 8 .b64 bar[4];\n"                                             \
        "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;\n"             \
        "mov.u32 %r3, s; add.u32 %r3, %r3, %r2; mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;\n" \
        "setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32;\n" body "\nret;\n}\n"

enum { THREADS = 64 };
static uint32_t words[1024];
static const Setting SETTING = {1, THREADS, words, sizeof words, sizeof words};

static void fill(void) {
    for (uint32_t k = 0; k < 1024; k++) words[k] = 0x01010101 * (k & 127) + 0x80000000;
}

/* ---- known answers ---------------------------------------------------------------------------------------- */
/* Sizes 16, 8, 4; a source of 6 of 8 bytes and of 0 of 4; an ignored source: the rest are zeros. */
static void check_sizes(const void *out) {
    const uint32_t *y = out;
    uint8_t want[64] = {0};
    const uint8_t *bytes = (const uint8_t *)words;
    memcpy(want, bytes, 16);
    memcpy(want + 16, bytes + 16, 8);
    memcpy(want + 24, bytes + 24, 4);
    memcpy(want + 32, bytes + 32, 6);
    assert_memory_equal(y, want, 64);
}

static void sizes_and_zero_fill(void **state) {
    (void)state;
    each_landing(
        KERNEL(
            "@!%p1 bra OUT; mov.u32 %r4, s; mov.u32 %r5, 6; mov.u32 %r6, 0;\n"
            "cp.async.cg.shared.global.L2::128B [%r4], [%rd1], 16;\n"
            "cp.async.ca.shared::cta.global [%r4+16], [%rd1+16], 8;\n"
            "cp.async.ca.shared.global [s+24], [%rd1+24], 4; cp.async.ca.shared.global [%r4+28], [%rd1+28], 4, %r6;\n"
            "cp.async.ca.shared.global.L2::cache_hint [%r4+32], [%rd1+32], 8, %r5, %rd1;\n"
            "cp.async.ca.shared.global [%r4+40], [%rd1+40], 8, %p1; cp.async.cg.shared.global [%r4+48], [%rd1+48], 16, "
            "0;\n"
            "cp.async.commit_group; cp.async.wait_group 0;\n"
            "mov.u32 %r7, 0; LOOP: add.u32 %r8, %r4, %r7; ld.shared.u32 %r9, [%r8]; cvt.u64.u32 %rd5, %r7;\n"
            "add.u64 %rd5, %rd5, %rd2; st.global.u32 [%rd5], %r9; add.u32 %r7, %r7, 4; setp.lt.u32 %p3, %r7, 64;\n"
            "@%p3 bra LOOP; OUT:"),
        &SETTING, check_sizes);
}

/* mbarrier: count 5; noComplete arrivals of 2 and 1 saw 5 and 3 pending; phases; arrive_drop lowers the next phase. */
static void check_phases(const void *out) {
    static const uint32_t WANT[] = {5, 3, 0, 1, 0, 1, 1, 0};
    assert_memory_equal(out, WANT, sizeof WANT);
}

static void phases_and_counts(void **state) {
    (void)state;
    each_landing(
        KERNEL(
            "@!%p1 bra OUT; mbarrier.init.shared::cta.b64 [bar], 5;\n"
            "mbarrier.arrive.noComplete.shared.b64 %rd5, [bar], 2; mbarrier.pending_count.b64 %r4, %rd5; st.global.u32 "
            "[%rd2], %r4;\n"
            "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd6, [bar], 1; mbarrier.pending_count.b64 %r4, "
            "%rd6;\n"
            "st.global.u32 [%rd2+4], %r4;\n"
            "mbarrier.test_wait.shared.b64 %p3, [bar], %rd6; selp.u32 %r4, 1, 0, %p3; st.global.u32 [%rd2+8], %r4;\n"
            /* one arrives, one arrives for good: the phase ends, the next expects 4 */
            "mbarrier.arrive.shared.b64 _, [bar]; mbarrier.arrive_drop.shared.b64 %rd7, [bar];\n"
            "mbarrier.test_wait.shared.b64 %p3, [bar], %rd7; selp.u32 %r4, 1, 0, %p3; st.global.u32 [%rd2+12], %r4;\n"
            "mbarrier.test_wait.parity.shared.b64 %p3, [bar], 1; selp.u32 %r4, 1, 0, %p3; st.global.u32 [%rd2+16], "
            "%r4;\n"
            "mbarrier.test_wait.parity.acquire.cta.shared.b64 %p3, [bar], 0; selp.u32 %r4, 1, 0, %p3; st.global.u32 "
            "[%rd2+20], %r4;\n"
            /* 4 arrivals and 32 bytes end phase 1 */
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32; mbarrier.arrive.release.cluster.shared::cta.b64 "
            "_, [bar], 3;\n"
            "mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 20; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], "
            "4;\n"
            "mbarrier.complete_tx.shared.b64 [bar], 16;\n"
            "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 1, 100; selp.u32 %r4, 1, 0, %p3; st.global.u32 [%rd2+24], "
            "%r4;\n"
            "mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0; selp.u32 %r4, 1, 0, %p3; st.global.u32 [%rd2+28], "
            "%r4;\n"
            "mbarrier.inval.shared.b64 [bar]; OUT:"),
        &SETTING, check_phases);
}

/* Four stages of 32 words, 8 tiles, two groups in flight: out[t*32+i] = in[t*32+i] of the lower warp. */
static void check_ring(const void *out) { assert_memory_equal(out, words, 8 * 128); }

#define RING(left)                                                                                                    \
    "@!%p2 bra OUT; mov.u32 %r4, 0;\n"                                                                                \
    "FIRST: shl.b32 %r5, %r4, 7; add.u32 %r6, %r3, %r5; cvt.u64.u32 %rd5, %r5; add.u64 %rd5, %rd5, %rd3;\n"           \
    "cp.async.ca.shared.global [%r6], [%rd5], 4; cp.async.commit_group; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, "  \
    "3;\n"                                                                                                            \
    "@%p3 bra FIRST; mov.u32 %r4, 0;\n"                                                                               \
    "LOOP: cp.async.wait_group " left ";\n"                                                                           \
    "and.b32 %r5, %r4, 3; shl.b32 %r5, %r5, 7; add.u32 %r6, %r3, %r5; ld.shared.u32 %r7, [%r6];\n"                    \
    "shl.b32 %r8, %r4, 7; cvt.u64.u32 %rd6, %r8; add.u64 %rd6, %rd6, %rd4; st.global.u32 [%rd6], %r7;\n"              \
    "add.u32 %r9, %r4, 3; setp.lt.u32 %p4, %r9, 8; and.b32 %r10, %r9, 3; shl.b32 %r10, %r10, 7; add.u32 %r11, %r3, "  \
    "%r10;\n"                                                                                                         \
    "shl.b32 %r12, %r9, 7; cvt.u64.u32 %rd7, %r12; add.u64 %rd7, %rd7, %rd3;\n"                                       \
    "@%p4 cp.async.ca.shared.global [%r11], [%rd7], 4; cp.async.commit_group; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, " \
    "%r4, 8;\n"                                                                                                       \
    "@%p3 bra LOOP; OUT:"

static void ring_of_groups(void **state) {
    (void)state;
    each_landing(KERNEL(RING("2")), &SETTING, check_ring);
}

/* ---- wrong kernels and their twins ------------------------------------------------------------------------ */
#define COPY "cp.async.ca.shared.global [%r3], [%rd3], 4;\n"
#define LOAD "ld.shared.u32 %r7, [%r3]; st.global.u32 [%rd4], %r7;\n"
#define OTHER "xor.b32 %r6, %r3, 128; ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd4], %r7;\n"
#define INIT(n) "@%p1 mbarrier.init.shared.b64 [bar], " n "; bar.sync 0;\n"
#define WAIT(parity) "W: mbarrier.try_wait.parity.shared.b64 %p3, [bar], " parity "; @!%p3 bra W;\n"

static const Pair COPIES[] = {
    {"read without a wait", "race", KERNEL(COPY "cp.async.commit_group;\n" LOAD "cp.async.wait_all;")},
    {"read after the wait", NULL, KERNEL(COPY "cp.async.commit_group; cp.async.wait_group 0;\n" LOAD)},
    {"wait before the commit", "race", KERNEL(COPY "cp.async.wait_group 0;\n" LOAD "cp.async.wait_all;")},
    {"wait_all commits", NULL, KERNEL(COPY "cp.async.wait_all;\n" LOAD)},
    {"one group too many left", "race",
     KERNEL(COPY "cp.async.commit_group; cp.async.wait_group 1;\n" LOAD "cp.async.wait_all;")},
    {"an empty group counts", NULL,
     KERNEL(COPY "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;\n" LOAD)},
    {"the wait is the thread's own", "race", KERNEL(COPY "cp.async.wait_all;\n" OTHER)},
    {"wait, then barrier", NULL, KERNEL(COPY "cp.async.wait_all; bar.sync 0;\n" OTHER)},
    {"barrier, then wait", "race", KERNEL(COPY "bar.sync 0; cp.async.wait_all;\n" OTHER)},
    {"lanes of a warp without bar.warp.sync", "race",
     KERNEL(COPY "cp.async.wait_all; xor.b32 %r6, %r3, 4; ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd4], %r7;")},
    {"lanes of a warp with it", NULL,
     KERNEL(COPY "cp.async.wait_all; bar.warp.sync -1; xor.b32 %r6, %r3, 4; ld.shared.u32 %r7, [%r6]; st.global.u32 "
                 "[%rd4], %r7;")},
    {"never waited for", "missing-wait", KERNEL(COPY "cp.async.commit_group;")},
    {"never committed", "missing-wait", KERNEL(COPY)},
    {"destination written meanwhile", "race", KERNEL(COPY "st.shared.u32 [%r3], %r1; cp.async.wait_all;")},
    {"destination written afterwards", NULL, KERNEL(COPY "cp.async.wait_all; st.shared.u32 [%r3], %r1;")},
    {"destination read before, unordered", "race",
     KERNEL("st.shared.u32 [%r3], %r1; bar.sync 0;\n" OTHER COPY "cp.async.wait_all;")},
    {"destination read before, ordered", NULL,
     KERNEL("st.shared.u32 [%r3], %r1; bar.sync 0;\n" OTHER "bar.sync 0;\n" COPY "cp.async.wait_all;")},
    {"source written meanwhile", "race", KERNEL(COPY "st.global.u32 [%rd3], %r1; cp.async.wait_all;")},
    {"source written afterwards", NULL, KERNEL(COPY "cp.async.wait_all; st.global.u32 [%rd3], %r1;")},
    {"stage overwritten too early", "race", KERNEL(RING("3") "cp.async.wait_all;")},
    {"stage overwritten in time", NULL, KERNEL(RING("2") "cp.async.wait_all;")},
    {"source out of bounds", "out-of-bounds",
     KERNEL("cp.async.ca.shared.global [%r3], [%rd3+3968], 4; cp.async.wait_all;")},
    {"source beyond the end ignored", NULL,
     KERNEL("cp.async.ca.shared.global [%r3], [%rd3+3968], 4, 0; cp.async.wait_all;")},
    {"misaligned destination", "misaligned",
     KERNEL("@%p1 cp.async.cg.shared.global [s+8], [%rd1], 16; cp.async.wait_all;")},
    {"aligned destination", NULL, KERNEL("@%p1 cp.async.cg.shared.global [s+16], [%rd1], 16; cp.async.wait_all;")},
    {"more source than copy", "bad-copy",
     KERNEL("mov.u32 %r4, 8; cp.async.ca.shared.global [%r3], [%rd3], 4, %r4; cp.async.wait_all;")},
    {"uninitialised source", "uninitialised", KERNEL("cp.async.ca.shared.global [%r3], [%rd4], 4; cp.async.wait_all;")},
};

static const Pair OBJECTS[] = {
    {"use before init", "mbarrier", KERNEL("@%p1 mbarrier.arrive.shared.b64 _, [bar];")},
    {"init not ordered before use", "mbarrier",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 64; mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0"))},
    {"init, barrier, use", NULL, KERNEL(INIT("64") "mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0"))},
    {"initialised twice", "mbarrier",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.init.shared.b64 [bar], 2;")},
    {"invalidated between", NULL,
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.inval.shared.b64 [bar]; @%p1 "
            "mbarrier.init.shared.b64 [bar], 2;")},
    {"count 0", "mbarrier", KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 0;")},
    {"count 2^20", "mbarrier", KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1048576;")},
    {"count 2^20 - 1", NULL, KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1048575;")},
    {"misaligned object", "mbarrier", KERNEL("@%p1 mbarrier.init.shared.b64 [bar+4], 1;")},
    {"too many arrivals", "mbarrier", KERNEL(INIT("32") "mbarrier.arrive.shared.b64 _, [bar], 2;")},
    {"tx-count out of range", "mbarrier", KERNEL(INIT("64") "mbarrier.expect_tx.shared.b64 [bar], 1048575;")},
    {"noComplete completes", "mbarrier",
     KERNEL(
         "@!%p1 bra OUT; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 _, [bar], 1; OUT:")},
    {"too few arrivals", "deadlock", KERNEL(INIT("65") "mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0"))},
    {"bytes that never come", "deadlock",
     KERNEL(INIT("64") "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;\n" WAIT("0"))},
    {"too few arrivals, polled", "deadlock",
     KERNEL(INIT("65") "mbarrier.arrive.shared.b64 _, [bar]; W: mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0; "
                       "@!%p3 bra W;")},
    {"enough, polled", NULL,
     KERNEL(INIT("64") "mbarrier.arrive.shared.b64 _, [bar]; W: mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0; "
                       "@!%p3 bra W;")},
    {"exchange through an mbarrier", NULL,
     KERNEL(INIT("64") "st.shared.u32 [%r3], %r1; mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0") OTHER)},
    {"wrong parity", "race",
     KERNEL(INIT("64") "st.shared.u32 [%r3], %r1; mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("1") OTHER)},
    {"result of try_wait ignored", "race",
     KERNEL(INIT("64") "st.shared.u32 [%r3], %r1; mbarrier.arrive.shared.b64 _, [bar];\n"
                       "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n" OTHER)},
    {"relaxed arrival", "race",
     KERNEL(INIT("64") "st.shared.u32 [%r3], %r1; mbarrier.arrive.relaxed.cta.shared.b64 _, [bar];\n" WAIT("0") OTHER)},
    {"relaxed wait", "race",
     KERNEL(INIT("64") "st.shared.u32 [%r3], %r1; mbarrier.arrive.shared.b64 _, [bar];\n"
                       "W: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p3, [bar], 0; @!%p3 bra W;\n" OTHER)},
    {"an arrival before the last phase was seen", "mbarrier",
     KERNEL(INIT("1") "@%p1 mbarrier.arrive.shared.b64 _, [bar]; @%p1 mbarrier.arrive.shared.b64 _, [bar];")},
    {"a state two phases old", "mbarrier",
     KERNEL("@!%p1 bra OUT; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 %rd5, [bar];\n"
            "mbarrier.test_wait.shared.b64 %p3, [bar], %rd5; mbarrier.arrive.shared.b64 %rd6, [bar];\n"
            "mbarrier.test_wait.shared.b64 %p3, [bar], %rd6; mbarrier.test_wait.shared.b64 %p3, [bar], %rd5; OUT:")},
    {"invalidated in the middle", "mbarrier",
     KERNEL("@!%p1 bra OUT; mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 _, [bar]; "
            "mbarrier.inval.shared.b64 [bar]; OUT:")},
    {"invalidated while another warp waits", "mbarrier",
     KERNEL(INIT("2") "@%p2 bra OTHER;\n" WAIT("0") "OTHER: @!%p1 bra OUT; mbarrier.arrive.shared.b64 _, [bar];\n"
                      "mov.u32 %r4, 0; L: add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 2000; @%p4 bra L;\n"
                      "mbarrier.inval.shared.b64 [bar]; OUT:")},
    {"generic write to an object", "mbarrier",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 st.shared.u32 [bar+4], 0;")},
    {"generic read of an object", "mbarrier",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 ld.shared.u64 %rd5, [bar];")},
    {"written after inval", NULL,
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.inval.shared.b64 [bar]; @%p1 st.shared.u32 [bar+4], "
            "0;")},
    {"copies counted by the object", NULL,
     KERNEL(INIT("64") COPY
            "cp.async.mbarrier.arrive.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0") OTHER)},
    {"copies counted without .noinc", NULL,
     KERNEL(INIT("128") COPY
            "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0") OTHER)},
    {".noinc that init does not count", "any",
     KERNEL(INIT("64") COPY
            "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0"))},
    {"copies not counted by the object", "race",
     KERNEL(INIT("64") COPY "mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0") OTHER "cp.async.wait_all;")},
    {"copies counted, nobody waits", "missing-wait",
     KERNEL(INIT("64") COPY "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];")},
};

static void copies(void **state) {
    (void)state;
    run_pairs(COPIES, sizeof COPIES / sizeof *COPIES, &SETTING);
}

static void objects(void **state) {
    (void)state;
    run_pairs(OBJECTS, sizeof OBJECTS / sizeof *OBJECTS, &SETTING);
}

/* ---- what the parser refuses ------------------------------------------------------------------------------ */
static void refused(void **state) {
    (void)state;
    static const char *const BODIES[] = {"cp.async.ca.shared.global [%r3], [%rd3], 12;",
                                         "cp.async.cg.shared.global [%r3], [%rd3], 8;",
                                         "cp.async.ca.global.shared [%rd3], [%r3], 4;",
                                         "cp.async.ca.shared.global.L2::512B [%r3], [%rd3], 4;",
                                         "cp.async.wait_group %r1;",
                                         "cp.async.wait_group;",
                                         "cp.async.commit;",
                                         "mbarrier.init.shared::cluster.b64 [bar], 1;",
                                         "mbarrier.init.shared.b32 [bar], 1;",
                                         "mbarrier.arrive.release.shared.b64 _, [bar];",
                                         "mbarrier.arrive.shared::cluster.b64 %rd5, [bar];",
                                         "mbarrier.test_wait.parity.shared::cluster.b64 %p3, [bar], 0;",
                                         "mbarrier.test_wait.release.cta.shared.b64 %p3, [bar], %rd5;",
                                         "mbarrier.arrive.expect_tx.noComplete.shared.b64 _, [bar], 1;",
                                         "fence.proxy.generic;",
                                         "fence.mbarrier_init.release.cta;",
                                         "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0, 1, 2;"};
    for (size_t k = 0; k < sizeof BODIES / sizeof *BODIES; k++) refuse(KERNEL("HOLE"), BODIES[k]);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    driver_open();
    fill();
    const struct CMUnitTest tests[] = {RUN(sizes_and_zero_fill), RUN(phases_and_counts),
                                       RUN(ring_of_groups),      RUN(refused),
                                       cmocka_unit_test(copies), cmocka_unit_test(objects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
