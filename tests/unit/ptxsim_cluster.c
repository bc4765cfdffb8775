/* Clusters: ranks, distributed shared memory, barrier.cluster, multicast; elect.sync; setmaxnreg. */
#include "ptxsim_pairs.h"

/* Clusters of 2 blocks of 32 threads: %r1 thread, %r2 rank, %r3 the thread's word of s, %r4 the same in the other
 * block, %r5 s in the other block, %r6 the other rank; %rd4 the thread's word of out, by block */
#define KERNEL(body)                                                                                                   \
    HEAD_90 ".entry k(.param .u64 in, .param .u64 out)\n.reqnctapercluster 2, 1, 1\n{\n"                               \
            ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .b16 %h<4>;\n"                                \
            ".shared .align 128 .b8 s[512]; .shared .align 8 .b64 bar[2];\n"                                           \
            "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank;\n" \
            "shl.b32 %r7, %r1, 2; mov.u32 %r3, s; add.u32 %r3, %r3, %r7; xor.b32 %r6, %r2, 1;\n"                       \
            "mapa.shared::cluster.u32 %r4, %r3, %r6; mapa.shared::cluster.u32 %r5, s, %r6;\n"                          \
            "mov.u32 %r8, %ctaid.x; mad.lo.u32 %r8, %r8, 32, %r1; mad.wide.u32 %rd4, %r8, 4, %rd2;\n"                  \
            "mad.wide.u32 %rd3, %r8, 4, %rd1; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0;\n" body "\nret;\n}\n"

enum { THREADS = 32 };
static uint32_t words[256];
static const Setting SETTING = {4, THREADS, words, sizeof words, sizeof words};

#define SYNC "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
#define PUT "mad.lo.u32 %r9, %r2, 100, %r1; st.shared.u32 [%r3], %r9;\n"
#define GET "ld.shared::cluster.u32 %r10, [%r4]; st.global.u32 [%rd4], %r10;\n"

/* ---- known answers ---------------------------------------------------------------------------------------- */
/* Grid of 4: clusters 0 and 1; each block reads what the other of its cluster wrote. */
static void check_exchange(const void *out) {
    const uint32_t *y = out;
    for (uint32_t b = 0; b < 4; b++)
        for (uint32_t t = 0; t < 32; t++) assert_int_equal(y[b * 32 + t], ((b & 1) ^ 1) * 100 + t);
}

static void exchange(void **state) {
    (void)state;
    each_landing(KERNEL(PUT SYNC GET SYNC), &SETTING, check_exchange);
    /* the same by generic addresses */
    each_landing(KERNEL(PUT SYNC "cvt.u64.u32 %rd5, %r3; cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd6, %rd5, %r6;\n"
                        "ld.u32 %r10, [%rd6]; st.global.u32 [%rd4], %r10;\n" SYNC), &SETTING, check_exchange);
    /* bulk copies between the shared memories, which the mbarrier of the other block counts */
    each_landing(
        KERNEL(PUT
               "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; fence.proxy.async;\n"
               "bar.sync 0; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n"
               "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; mapa.shared::cluster.u32 %r9, bar, %r6; "
               "add.u32 %r10, %r5, 256;\n"
               "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [s], 128, [%r9];\n"
               "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W;\n"
               "ld.shared.u32 %r10, [%r3+256]; st.global.u32 [%rd4], %r10;\n" SYNC),
        &SETTING, check_exchange);
    /* st.async, each thread its word */
    each_landing(
        KERNEL("mad.lo.u32 %r9, %r2, 100, %r1; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;\n" SYNC
               "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; mapa.shared::cluster.u32 %r11, bar, %r6;\n"
               "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r4], %r9, [%r11];\n"
               "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W;\n"
               "ld.shared.u32 %r10, [%r3]; st.global.u32 [%rd4], %r10;\n" SYNC),
        &SETTING, check_exchange);
}

/* ranks and sizes as special registers, getctarank of both addresses */
static void check_ranks(const void *out) {
    const uint32_t *y = out;
    for (uint32_t b = 0; b < 4; b++) {
        const uint32_t want[12] = {b & 1, 2, b / 2, 2, b & 1, 0, 2, 1, 1, b & 1, (b & 1) ^ 1, 0};
        assert_memory_equal(y + b * 32, want, sizeof want);
    }
}

#define SPECIAL(at, name) "mov.u32 %r9, " name "; st.global.u32 [%rd4+" at "], %r9;\n"
static void ranks(void **state) {
    (void)state;
    each_landing(
        KERNEL("@!%p1 bra OUT;\n" SPECIAL("0", "%cluster_ctarank") SPECIAL("4", "%cluster_nctarank") SPECIAL(
            "8", "%clusterid.x") SPECIAL("12", "%nclusterid.x") SPECIAL("16", "%cluster_ctaid.x")
                   SPECIAL("20", "%cluster_ctaid.y") SPECIAL("24", "%cluster_nctaid.x") SPECIAL(
                       "28",
                       "%cluster_nctaid.z") "mov.pred %p4, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p4; "
                                            "st.global.u32 [%rd4+32], %r9;\n"
                                            "getctarank.shared::cluster.u32 %r9, s; st.global.u32 [%rd4+36], %r9;\n"
                                            "getctarank.shared::cluster.u32 %r9, %r4; st.global.u32 [%rd4+40], %r9;\n"
                                            /* the own block's cluster address is its shared::cta address */
                                            "mapa.shared::cluster.u32 %r9, s, %r2; mov.u32 %r10, s; sub.u32 %r9, %r9, "
                                            "%r10; st.global.u32 [%rd4+44], %r9; OUT:"),
        &SETTING, check_ranks);
}

/* Each block multicasts half of 256 bytes to both; every object expects the whole. */
static void check_multicast(const void *out) {
    const uint32_t *y = out;
    for (uint32_t b = 0; b < 4; b++)
        for (uint32_t t = 0; t < 32; t++) assert_int_equal(y[b * 32 + t], words[t] + words[t + 32]);
}

#define MULTICAST(mask)                                                                                               \
    "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster;\n" SYNC                        \
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; shl.b32 %r9, %r2, 7; cvt.u64.u32 %rd5, %r9; add.u64 "   \
    "%rd5, %rd5, %rd1;\n"                                                                                             \
    "mov.u32 %r10, s; add.u32 %r10, %r10, %r9; mov.b16 %h1, " mask ";\n"                                              \
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r10], [%rd5], 128, " \
    "[bar], %h1;\n"                                                                                                   \
    "W: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra W;\n"                                            \
    "ld.shared.u32 %r11, [%r3]; ld.shared.u32 %r12, [%r3+128]; add.u32 %r11, %r11, %r12; st.global.u32 [%rd4], "      \
    "%r11;\n"

static void multicast(void **state) {
    (void)state;
    each_landing(KERNEL(MULTICAST("3") SYNC), &SETTING, check_multicast);
}

/* red.async and remote arrivals: rank 0 sums 0 .. 31 of both blocks, waits for 64 remote arrivals */
static void check_remote(const void *out) {
    const uint32_t *y = out;
    for (uint32_t c = 0; c < 2; c++) {
        assert_int_equal(y[c * 64], 2 * 496);
        assert_int_equal(y[c * 64 + 1], 0); /* the leader of elect.sync */
    }
}

static void remote_reductions(void **state) {
    (void)state;
    each_landing(
        KERNEL(
            "@%p1 st.shared.u32 [s], 0; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.init.shared.b64 [bar+8], "
            "64;\n" SYNC "setp.eq.and.u32 %p4, %r1, 0, %p2; @%p4 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
            "mapa.shared::cluster.u32 %r9, s, 0; mapa.shared::cluster.u32 %r10, bar, 0;\n"
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r9], %r1, [%r10];\n"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10+8];\n"
            "@!%p2 bra END; W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0; @!%p3 bra W;\n"
            "V: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar+8], 0; @!%p3 bra V;\n"
            "elect.sync %r12|%p5, -1; @%p5 ld.shared.u32 %r11, [s]; @%p5 st.global.u32 [%rd4], %r11; @%p5 "
            "st.global.u32 [%rd4+4], %r12;\n"
            "END:\n" SYNC),
        &SETTING, check_remote);
}

/* ---- wrong kernels and their twins ------------------------------------------------------------------------ */
static const Pair CLUSTERS[] = {
    {"exchange", NULL, KERNEL(PUT SYNC GET SYNC)},
    {"no barrier of the cluster", "race", KERNEL(PUT "bar.sync 0;\n" GET SYNC)},
    {"relaxed arrival", "race",
     KERNEL(PUT "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n" GET SYNC)},
    {"relaxed arrival after a fence", NULL,
     KERNEL(PUT
            "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n" GET SYNC)},
    {"the other block has exited", "out-of-bounds",
     KERNEL(PUT SYNC "@%p2 bra L; ret; L: mov.u32 %r11, 0; M: add.u32 %r11, %r11, 1; setp.lt.u32 %p4, %r11, 2000; @%p4 "
                     "bra M;\n" GET)},
    {"wait without an arrival", "cluster", KERNEL("barrier.cluster.wait;")},
    {"two arrivals", "cluster", KERNEL("barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;")},
    {"one block arrives", "deadlock",
     KERNEL("@!%p2 bra HERE;\n" SYNC
            "bra OUT; HERE: W: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 1; @!%p3 bra W;\n"
            "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 bra X; X: V: mbarrier.try_wait.parity.shared.b64 %p3, [bar], "
            "0; @!%p3 bra V; OUT:")},
    {"one block exits", NULL, KERNEL("@%p2 bra ON; ret; ON:\n" SYNC)},
    {"half a warp at an aligned barrier", "divergent-barrier",
     KERNEL("setp.lt.u32 %p4, %r1, 16; @%p4 barrier.cluster.arrive.aligned; @!%p4 barrier.cluster.arrive.aligned; "
            "barrier.cluster.wait;")},
    {"rank beyond the cluster", "cluster", KERNEL("mapa.shared::cluster.u32 %r9, s, 2;")},
    {"remote address beyond the block", "out-of-bounds", KERNEL(SYNC "ld.shared::cluster.u32 %r9, [%r5+1024];\n" SYNC)},
    {"multicast to both", NULL, KERNEL(MULTICAST("3") SYNC)},
    {"multicast to one", "deadlock", KERNEL(MULTICAST("1") SYNC)},
    {"remote object not known to be initialised", "any",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 32; bar.sync 0; mapa.shared::cluster.u32 %r9, bar, %r6;\n"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9]; W: mbarrier.try_wait.parity.shared.b64 %p3, "
            "[bar], 0; @!%p3 bra W;\n" SYNC)},
    {"remote object, the cluster in step", NULL,
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 32; @%p1 fence.mbarrier_init.release.cluster;\n"
            "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; mapa.shared::cluster.u32 %r9, bar, "
            "%r6;\n"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9]; W: mbarrier.try_wait.parity.shared.b64 %p3, "
            "[bar], 0; @!%p3 bra W;\n" SYNC)},
    {"a wait on another block's object", "mbarrier",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1;\n" SYNC "cvt.u64.u32 %rd5, %r5; cvta.shared.u64 %rd5, %rd5;\n"
            "mbarrier.test_wait.parity.b64 %p3, [%rd5+512], 1;\n" SYNC)},
    {"copy between shared memories to the own block", "bad-copy",
     KERNEL(PUT
            "@%p1 mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; bar.sync 0;\n"
            "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s+256], [s], 16, [bar];")},
    {"members missing at elect.sync", "missing-lanes",
     KERNEL("setp.lt.u32 %p4, %r1, 8; @%p4 bra OUT; elect.sync _|%p5, -1; OUT:")},
};

#define REGISTERS(body)                                                                                                \
    HEAD_90 ".entry k(.param .u64 in, .param .u64 out)\n.maxntid 384, 1, 1\n.minnctapersm 1\n{\n"                      \
            ".reg .b32 %r<4>; .reg .pred %p<4>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128;\n" body "\nret;\n}\n"
#define ENTRY(directives, body) \
    HEAD_90 ".entry k(.param .u64 in, .param .u64 out)\n" directives "\n{\n" body "\nret;\n}\n"
static const Setting WARPGROUPS = {1, 384, words, sizeof words, sizeof words};

/* 384 threads start with 168 each: 128 * 24 released let 2 * 128 threads take 232 (40 + 2 * 232 = 504 = 3 * 168). */
static const Pair POOLS[] = {
    {"released, then taken", NULL,
     REGISTERS(
         "@%p1 bra DEC; setmaxnreg.inc.sync.aligned.u32 232; bra OUT; DEC: setmaxnreg.dec.sync.aligned.u32 40; OUT:")},
    {"more than was released", "deadlock",
     REGISTERS(
         "@%p1 bra DEC; setmaxnreg.inc.sync.aligned.u32 240; bra OUT; DEC: setmaxnreg.dec.sync.aligned.u32 40; OUT:")},
    {"nothing released", "deadlock", REGISTERS("@%p1 bra OUT; setmaxnreg.inc.sync.aligned.u32 232; OUT:")},
    {"dec to more", "registers", REGISTERS("setmaxnreg.dec.sync.aligned.u32 232;")},
    {"inc to less", "registers",
     REGISTERS("setmaxnreg.inc.sync.aligned.u32 40; setp.eq.u32 %p3, %r1, 999; @%p3 setmaxnreg.dec.sync.aligned.u32 160;")},
    {"entry with what the largest asks for", NULL, REGISTERS("setmaxnreg.inc.sync.aligned.u32 40;")},
    {"a part of a warpgroup", "registers",
     REGISTERS("setp.lt.u32 %p2, %r1, 64; @%p2 setmaxnreg.dec.sync.aligned.u32 40;")},
    {"no register count at entry", "setmaxnreg-dropped", ENTRY("", "setmaxnreg.dec.sync.aligned.u32 40;")},
    {"a limit of threads alone", "setmaxnreg-dropped", ENTRY(".maxntid 384", "setmaxnreg.inc.sync.aligned.u32 240;")},
    {"blocks without a limit of threads", "setmaxnreg-dropped",
     ENTRY(".minnctapersm 1", "setmaxnreg.inc.sync.aligned.u32 240;")},
    {"more than a thread can have, said by .maxnreg", NULL,
     ENTRY(".maxnreg 256", "setmaxnreg.inc.sync.aligned.u32 256; setmaxnreg.dec.sync.aligned.u32 24;")},
    {"a limit that is no multiple of 8", NULL,
     ENTRY(".maxnreg 165", "setmaxnreg.inc.sync.aligned.u32 168; setmaxnreg.dec.sync.aligned.u32 24;")},
    {"what the bounds leave, up to the most", NULL,
     ENTRY(".maxntid 256 .minnctapersm 1", "setmaxnreg.inc.sync.aligned.u32 256; setmaxnreg.dec.sync.aligned.u32 24;")},
    {"dependent grids", NULL, REGISTERS("griddepcontrol.wait; griddepcontrol.launch_dependents;")},
};

static void clusters(void **state) {
    (void)state;
    run_pairs(CLUSTERS, sizeof CLUSTERS / sizeof *CLUSTERS, &SETTING);
}

static void register_pools(void **state) {
    (void)state;
    run_pairs(POOLS, sizeof POOLS / sizeof *POOLS, &WARPGROUPS);
}

static void refused(void **state) {
    (void)state;
    static const char *const BODIES[] = {
        "setmaxnreg.dec.sync.aligned.u32 20;",
        "setmaxnreg.dec.sync.aligned.u32 44;",
        "setmaxnreg.dec.sync.aligned.u32 264;",
        "setmaxnreg.dec.aligned.sync.u32 40;",
        "mapa.shared::cta.u32 %r9, s, 0;",
        "mapa.u32 %r9, %r9, 0;",
        "getctarank.shared::cluster.f32 %r9, s;",
        "barrier.cluster.sync;",
        "barrier.cluster.wait.release;",
        "elect.sync %r9, -1;",
        "griddepcontrol.launch;",
        "st.async.shared::cta.mbarrier::complete_tx::bytes.u32 [s], %r1, [bar];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.f32 [s], %r1, [bar];"};
    for (size_t k = 0; k < sizeof BODIES / sizeof *BODIES; k++) refuse(KERNEL("HOLE"), BODIES[k]);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    driver_open();
    for (uint32_t k = 0; k < 256; k++) words[k] = k * 2654435761u;
    const struct CMUnitTest tests[] = {RUN(exchange), RUN(ranks), RUN(multicast), RUN(remote_reductions), RUN(refused),
                                       cmocka_unit_test(clusters), cmocka_unit_test(register_pools)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
