/* Order between accesses: kernels whose threads are not ordered must be reported as races, under every schedule; their
 * twins, which differ by the missing order alone, must not. */
#include "ptxsim_driver.h"
#include <stdbool.h>
#include <unistd.h>

/* `in`: 4096 words, 0 1 2...; `out`: 4096 words nobody wrote; `flag`: 16 words of 0.  %r1 thread, %r2 lane, %r3 warp,
 * %r4 block, %r5 s + 4 * thread, %rd4 out + 4 * (thread + block * threads), %rd5 in + the same. */
#define HEAD(target, extra)                                                                                            \
    ".version 8.0\n.target " target "\n.address_size 64\n"                                                             \
    ".entry k(.param .u64 in, .param .u64 out, .param .u64 flag) " extra "\n{\n"                                       \
    ".reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .pred %p<8>; .reg .b16 %h<4>; .reg .f32 %f<4>;\n"                       \
    ".shared .align 16 .b32 s[1024];\n"                                                                                \
    "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [flag]; mov.u32 %r1, %tid.x;\n"             \
    "mov.u32 %r2, %laneid; shr.u32 %r3, %r1, 5; mov.u32 %r4, %ctaid.x; shl.b32 %r5, %r1, 2; mov.u32 %r6, s;\n"         \
    "add.u32 %r5, %r5, %r6; mov.u32 %r7, %ntid.x; mad.lo.u32 %r8, %r4, %r7, %r1; mad.wide.u32 %rd4, %r8, 4, %rd2;\n"   \
    "mad.wide.u32 %rd5, %r8, 4, %rd1; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r2, 0;\n"
#define KERNEL(body) HEAD("sm_80", "") body "\nret;\n}\n"
#define CLUSTER(body) HEAD("sm_90", ".reqnctapercluster 2, 1, 1") body "\nret;\n}\n"

typedef struct Pair {
    const char *name;
    unsigned grid, block;
    const char *wrong, *right;
} Pair;

/* ---- within a warp ---------------------------------------------------------------------------------------- */
#define NEIGHBOUR "xor.b32 %r9, %r1, 1; shl.b32 %r9, %r9, 2; add.u32 %r9, %r9, %r6;\n"
#define EXCHANGE(sync) KERNEL(NEIGHBOUR "st.shared.u32 [%r5], %r1;" sync "ld.shared.u32 %r10, [%r9];")
#define REUSE(sync)                                                                                \
    KERNEL(NEIGHBOUR "st.shared.u32 [%r5], %r1; bar.warp.sync -1; ld.shared.u32 %r10, [%r9];" sync \
                     "st.shared.u32 [%r5], %r10;")
#define SCATTERED(sync)                                                                                                \
    KERNEL("mad.lo.u32 %r9, %r1, 36, %r6; st.shared.u32 [%r9], %r1;" sync                                              \
           "sub.u32 %r10, 31, %r1; mad.lo.u32 %r10, %r10, 36, %r6; ld.shared.u32 %r11, [%r10];")
/* Neighbours exchange, each in one of two sets of lanes. */
#define TILES(even, odd)                                                                                               \
    KERNEL(NEIGHBOUR "mov.u32 %r12, %lanemask_eq; and.b32 %r11, %r12, " even ";\n"       \
                     "setp.ne.u32 %p3, %r11, 0; selp.b32 %r13, " even ", " odd ", %p3;\n"                              \
                     "st.shared.u32 [%r5], %r1; bar.warp.sync %r13; ld.shared.u32 %r10, [%r9];")
/* Lane 0 writes, lane 3 reads; lanes 0 and 1 synchronise, then those in `second`, then lanes 2 and 3. */
#define CHAIN(first, second)                                                                                           \
    KERNEL("setp.lt.u32 %p3, %r1, 2; setp.eq.u32 %p4, %r1, 0; setp.eq.u32 %p5, %r1, 3; @%p4 st.shared.u32 [s], %r1;\n" \
           "mov.u32 %r11, %lanemask_eq; and.b32 %r12, %r11, " second "; setp.ne.u32 %p6, %r12, 0;\n"                   \
           "and.b32 %r12, %r11, 0xc; setp.ne.u32 %p7, %r12, 0;\n"                                                      \
           "@%p3 bar.warp.sync " first "; @%p6 bar.warp.sync " second "; @%p7 bar.warp.sync 0xc;\n"                    \
           "@%p5 ld.shared.u32 %r10, [s];")
/* Lanes 0 to 15 read a word, lane 0 overwrites it after a barrier with `set`. */
#define SHARED_READ(set)                                                                                               \
    KERNEL("setp.lt.u32 %p3, %r1, 16; mov.u32 %r11, %lanemask_eq; and.b32 %r12, %r11, " set "; setp.ne.u32 %p4, %r12, 0;\n" \
           "@%p0 st.shared.u32 [s], 1; bar.warp.sync -1; @%p3 ld.shared.u32 %r10, [s]; @%p4 bar.warp.sync " set ";\n"   \
           "@%p0 st.shared.u32 [s], 2;")
/* More rounds than are remembered one by one. */
#define MANY(some, others)                                                                                             \
    KERNEL(NEIGHBOUR "mov.u32 %r12, %lanemask_eq; and.b32 %r11, %r12, " some "; setp.ne.u32 %p3, %r11, 0;\n"           \
                     "selp.b32 %r13, " some ", " others ", %p3; mov.u32 %r14, 0;\n"                                    \
                     "AGAIN: st.shared.u32 [%r5], %r14; bar.warp.sync %r13; ld.shared.u32 %r10, [%r9]; bar.warp.sync %r13;\n" \
                     "add.u32 %r14, %r14, 1; setp.lt.u32 %p4, %r14, 40; @%p4 bra AGAIN;")
/* The warp is converged: the order of its instructions orders the two, and the launch succeeds. */
static const Pair CONVERGED_PAIRS[] = {
    {"lanes exchange", 1, 32, EXCHANGE(""), EXCHANGE("bar.warp.sync -1;")},
    {"lanes exchange, scattered", 1, 32, SCATTERED(""), SCATTERED("bar.warp.sync -1;")},
    {"lanes reuse what others read", 1, 32, REUSE(""), REUSE("bar.warp.sync -1;")},
    {"lanes exchange in tiles", 1, 32, TILES("0x55555555", "0xaaaaaaaa"), TILES("0x0f0f0f0f", "0xf0f0f0f0")},
    {"lanes hand over from tile to tile", 1, 32, CHAIN("0x3", "0xc"), CHAIN("0x3", "0x6")},
    {"lanes overwrite what a tile read", 1, 32, SHARED_READ("0xfffffff0"), SHARED_READ("0x0000ffff")},
    {"many tiles in turn", 1, 32, MANY("0x55555555", "0xaaaaaaaa"), MANY("0x33333333", "0xcccccccc")},
    {"lanes exchange through global memory", 1, 32, KERNEL("st.global.u32 [%rd4], %r1; ld.global.u32 %r9, [%rd2];"),
     KERNEL("st.global.u32 [%rd4], %r1; bar.warp.sync -1; ld.global.u32 %r9, [%rd2];")},
    {"one lane's arm overwrites what all have read", 1, 32,
     KERNEL("@%p0 st.shared.u32 [s], 3; bar.warp.sync -1; ld.shared.u32 %r10, [s]; @!%p0 bra OUT; st.shared.u32 [s], 4; OUT:"),
     KERNEL("@%p0 st.shared.u32 [s], 3; bar.warp.sync -1; ld.shared.u32 %r10, [s]; bar.warp.sync -1; @!%p0 bra OUT;\n"
            "st.shared.u32 [s], 4; OUT:")},
};
static const Pair WARP_PAIRS[] = {
    {"lanes in two arms", 1, 32,
     KERNEL("@%p0 st.shared.u32 [s], 3; bar.warp.sync -1; @%p0 bra PUT; ld.shared.u32 %r10, [s]; bra OUT;\n"
            "PUT: st.shared.u32 [s], 4; OUT:"),
     KERNEL("@%p0 st.shared.u32 [s], 3; bar.warp.sync -1; @%p0 bra PUT; ld.shared.u32 %r10, [s]; bra OUT;\n"
            "PUT: ld.shared.u32 %r10, [s]; OUT:")},
    {"one store, several values", 1, 32, KERNEL("st.shared.u32 [s], %r1;"), KERNEL("st.shared.u32 [s], %r7;")},
    {"one store, pairs of lanes", 1, 32,
     KERNEL("shr.u32 %r9, %r1, 1; mad.lo.u32 %r10, %r9, 4, %r6; st.shared.u32 [%r10], %r1;"),
     KERNEL("shr.u32 %r9, %r1, 1; mad.lo.u32 %r10, %r9, 4, %r6; st.shared.u32 [%r10], %r9;")},
    {"one store of vectors that overlap in a word", 1, 32,
     KERNEL("and.b32 %r9, %r1, 30; mad.lo.u32 %r10, %r9, 8, %r6; st.shared.v2.u32 [%r10], {%r9, %r1};"),
     KERNEL("and.b32 %r9, %r1, 30; mad.lo.u32 %r10, %r9, 8, %r6; st.shared.v2.u32 [%r10], {%r9, %r9};")},
};

/* ---- within a block --------------------------------------------------------------------------------------- */
#define OTHER_WARP "xor.b32 %r9, %r1, 32; shl.b32 %r9, %r9, 2; add.u32 %r9, %r9, %r6;\n"
#define ACROSS(sync) KERNEL(OTHER_WARP "st.shared.u32 [%r5], %r1;" sync "ld.shared.u32 %r10, [%r9];")
#define COLUMN(sync)                                                                                                   \
    KERNEL("st.shared.u32 [%r5], %r1;" sync "shl.b32 %r9, %r2, 3; add.u32 %r9, %r9, %r3; shl.b32 %r9, %r9, 2;\n"       \
           "add.u32 %r9, %r9, %r6; ld.shared.u32 %r10, [%r9];")
#define HALF_READ(where, sync)                                                                                \
    KERNEL("st.shared.u32 [%r5], %r1; bar.sync 0; @!%p2 bra OUT; @%p1 bra WRITE; ld.shared.u16 %h1, [s" where \
           "];\n" sync "bra OUT; WRITE: mov.b16 %h2, 7; st.shared.u16 [s+2], %h2; OUT:")
#define BYTES_OF(first) KERNEL("@!%p2 bra OUT; mad.lo.u32 %r9, %r3, " first ", %r6; cvt.u16.u32 %h1, %r1;\n" \
                               "st.shared.u8 [%r9], %h1; OUT:")
/* Warp 0 fills, warp 1 reads; %r12 counts rounds.  `full` and `empty`: what orders them, of each side. */
#define RING(put_wait, put_done, get_wait, get_done)                                                                   \
    KERNEL("mov.u32 %r12, 0; mad.lo.u32 %r9, %r2, 4, %r6; @!%p1 bra GET;\n"                                            \
           "PUT: " put_wait "st.shared.u32 [%r9], %r12;" put_done "add.u32 %r12, %r12, 1; setp.lt.u32 %p3, %r12, 3;\n" \
           "@%p3 bra PUT; " put_wait "bra OUT;\n"                                                                      \
           "GET: " get_wait "ld.shared.u32 %r10, [%r9];" get_done "add.u32 %r12, %r12, 1; setp.lt.u32 %p3, %r12, 3;\n" \
           "@%p3 bra GET;\nOUT:")
#define FLAG_IN_SHARED(store, load)                                                                                    \
    KERNEL("@%p0 st.shared.u32 [s+256], 0; bar.sync 0; @!%p2 bra OUT; @!%p1 bra GET; st.shared.u32 [s], 5;\n" store    \
           "bra OUT; GET: " load "setp.eq.u32 %p3, %r10, 0; @%p3 bra GET; ld.shared.u32 %r11, [s]; OUT:")
static const Pair BLOCK_PAIRS[] = {
    {"warps exchange", 1, 64, ACROSS(""), ACROSS("bar.sync 0;")},
    {"warps exchange after a barrier of each warp", 1, 64, ACROSS("bar.warp.sync -1;"), ACROSS("barrier.sync 0;")},
    {"columns over warps", 1, 256, COLUMN("bar.warp.sync -1;"), COLUMN("bar.sync 0;")},
    {"barriers of two pairs of warps", 1, 128,
     KERNEL("st.shared.u32 [%r5], %r1; shr.u32 %r9, %r3, 1; add.u32 %r9, %r9, 1; bar.sync %r9, 64;\n"
            "xor.b32 %r10, %r1, 64; shl.b32 %r10, %r10, 2; add.u32 %r10, %r10, %r6; ld.shared.u32 %r11, [%r10];"),
     KERNEL("st.shared.u32 [%r5], %r1; shr.u32 %r9, %r3, 1; add.u32 %r9, %r9, 1; bar.sync %r9, 64;\n"
            "xor.b32 %r10, %r1, 32; shl.b32 %r10, %r10, 2; add.u32 %r10, %r10, %r6; ld.shared.u32 %r11, [%r10];")},
    {"who only arrives has not waited", 1, 64,
     KERNEL("mad.lo.u32 %r9, %r2, 4, %r6; @%p1 bra PUT; bar.arrive 1, 64; ld.shared.u32 %r10, [%r9]; bra OUT;\n"
            "PUT: st.shared.u32 [%r9], %r1; bar.sync 1, 64; OUT:"),
     KERNEL("mad.lo.u32 %r9, %r2, 4, %r6; @%p1 bra PUT; bar.sync 1, 64; ld.shared.u32 %r10, [%r9]; bra OUT;\n"
            "PUT: st.shared.u32 [%r9], %r1; bar.arrive 1, 64; OUT:")},
    {"a ring without the empty barrier", 1, 64, RING("", "bar.sync 1, 64;", "bar.sync 1, 64;", ""),
     RING("bar.sync 2, 64;", "bar.arrive 1, 64;", "bar.arrive 2, 64; bar.sync 1, 64;",
          "setp.eq.u32 %p4, %r12, 2;\n@%p4 bar.arrive 2, 64;")},
    {"a half read, the other half written", 1, 64, HALF_READ("+2", ""), HALF_READ("", "")},
    {"bytes of one word", 1, 64, BYTES_OF("0"), BYTES_OF("1")},
    {"two warps write one global word", 1, 64, KERNEL("@%p2 st.global.u32 [%rd2], %r1;"),
     KERNEL("@%p0 st.global.u32 [%rd2], %r1;")},
    {"a flag in shared memory, relaxed", 1, 64,
     FLAG_IN_SHARED("st.relaxed.cta.shared.u32 [s+256], 1;", "ld.relaxed.cta.shared.u32 %r10, [s+256];"),
     FLAG_IN_SHARED("st.release.cta.shared.u32 [s+256], 1;", "ld.acquire.cta.shared.u32 %r10, [s+256];")},
    {"a flag in shared memory, fenced on one side", 1, 64,
     FLAG_IN_SHARED("st.relaxed.cta.shared.u32 [s+256], 1;",
                    "ld.relaxed.cta.shared.u32 %r10, [s+256]; fence.acq_rel.cta;"),
     FLAG_IN_SHARED("fence.acq_rel.cta; st.relaxed.cta.shared.u32 [s+256], 1;",
                    "ld.relaxed.cta.shared.u32 %r10, [s+256]; fence.acq_rel.cta;")},
    {"a volatile flag", 1, 64,
     FLAG_IN_SHARED("st.volatile.shared.u32 [s+256], 1;", "ld.volatile.shared.u32 %r10, [s+256];"),
     FLAG_IN_SHARED("membar.cta; st.volatile.shared.u32 [s+256], 1;",
                    "ld.volatile.shared.u32 %r10, [s+256]; membar.cta;")},
    {"a flag that is a plain word", 1, 64,
     FLAG_IN_SHARED("st.shared.u32 [s+256], 1;", "ld.acquire.cta.shared.u32 %r10, [s+256];"),
     FLAG_IN_SHARED("atom.release.cta.shared.exch.b32 %r13, [s+256], 1;",
                    "atom.acquire.cta.shared.or.b32 %r10, [s+256], 0;")},
    {"a plain read beside atomics", 1, 64,
     KERNEL("@%p0 st.shared.u32 [s], 0; bar.sync 0; red.shared.add.u32 [s], 1; ld.shared.u32 %r9, [s];"),
     KERNEL("@%p0 st.shared.u32 [s], 0; bar.sync 0; red.shared.add.u32 [s], 1; bar.sync 0; ld.shared.u32 %r9, [s];")},
};

/* ---- between blocks --------------------------------------------------------------------------------------- */
#define GLOBAL_HALF(of) \
    KERNEL("@!%p0 bra OUT; mad.wide.u32 %rd6, %r4, " of ", %rd2; mov.b16 %h1, 7; st.global.u16 [%rd6], %h1; OUT:")
static const Pair GRID_PAIRS[] = {
    {"blocks write one word", 4, 32, KERNEL("@%p0 st.global.u32 [%rd2], %r4;"), KERNEL("st.global.u32 [%rd4], %r4;")},
    {"blocks write halves of a word", 2, 32, GLOBAL_HALF("0"), GLOBAL_HALF("2")},
    {"a block reads what another writes", 4, 64,
     KERNEL("ld.global.u32 %r9, [%rd5+4]; st.global.u32 [%rd5], %r9;"),
     KERNEL("ld.global.u32 %r9, [%rd5]; st.global.u32 [%rd5], %r9;")},
    {"a block writes what all read", 40, 32,
     KERNEL("ld.global.u32 %r9, [%rd1]; setp.eq.u32 %p3, %r4, 7; and.pred %p3, %p3, %p0; bar.warp.sync -1;\n"
            "@%p3 st.global.u32 [%rd1], %r9;"),
     KERNEL("ld.global.u32 %r9, [%rd1]; setp.eq.u32 %p3, %r4, 7; and.pred %p3, %p3, %p0; bar.warp.sync -1;\n"
            "@%p3 st.global.u32 [%rd2], %r9;")},
};

/* Each block leaves its part; the last one, by a counter, sums the parts of all. */
#define LAST_BLOCK(before, barrier, count, after)                                                                      \
    KERNEL("st.global.u32 [%rd4], %r8;" before barrier "@%p0 " count " @%p0 st.shared.u32 [s], %r9; bar.sync 0;\n"     \
           "ld.shared.u32 %r10, [s]; mov.u32 %r11, %nctaid.x; sub.u32 %r11, %r11, 1; setp.ne.u32 %p3, %r10, %r11;\n"   \
           "@%p3 ret; " after "mov.u32 %r12, 0;\n"                                                                     \
           "SUM: mad.lo.u32 %r13, %r12, %r7, %r1; mad.wide.u32 %rd6, %r13, 4, %rd2; ld.global.u32 %r14, [%rd6];\n"     \
           "add.u32 %r12, %r12, 1; setp.le.u32 %p4, %r12, %r11; @%p4 bra SUM;")
#define COUNT "atom.global.add.u32 %r9, [%rd3], 1;"
#define COUNT_ORDERED "atom.acq_rel.gpu.global.add.u32 %r9, [%rd3], 1;"
/* Block 0 leaves a word and raises a flag that block 1 waits for. */
#define FLAG(put, get)                                                                                                 \
    KERNEL("setp.ne.u32 %p3, %r4, 0; @!%p0 ret; @%p3 bra GET; st.global.u32 [%rd2], 5;" put "ret;\n"                   \
           "GET: " get "setp.eq.u32 %p4, %r9, 0; @%p4 bra GET; ld.global.u32 %r10, [%rd2]; st.global.u32 [%rd4], %r10;")
/* All blocks write, meet at a counter, and read what the next block wrote. */
#define GRID_BARRIER(arrive, wait)                                                                                     \
    KERNEL("st.global.u32 [%rd4], %r8; bar.sync 0; mov.u32 %r11, %nctaid.x; @!%p0 bra MET;" arrive                     \
           "POLL: " wait "setp.lt.u32 %p3, %r9, %r11; @%p3 bra POLL;\n"                                                \
           "MET: bar.sync 0; add.u32 %r10, %r4, 1; rem.u32 %r10, %r10, %r11; mad.lo.u32 %r10, %r10, %r7, %r1;\n"       \
           "mad.wide.u32 %rd6, %r10, 4, %rd2; ld.global.u32 %r12, [%rd6];")
static const Pair ORDER_PAIRS[] = {
    {"last block without a fence", 4, 64, LAST_BLOCK("", "bar.sync 0;", COUNT, "membar.gl;"),
     LAST_BLOCK("membar.gl;", "bar.sync 0;", COUNT, "membar.gl;")},
    {"last block without the barrier before", 4, 64, LAST_BLOCK("membar.gl;", "", COUNT, "membar.gl;"),
     LAST_BLOCK("membar.gl;", "barrier.sync 0;", COUNT, "membar.gl;")},
    {"last block that does not fence", 4, 64, LAST_BLOCK("membar.gl;", "bar.sync 0;", COUNT, ""),
     LAST_BLOCK("membar.gl;", "bar.sync 0;", COUNT, "fence.acq_rel.gpu;")},
    {"last block by a relaxed count", 4, 64, LAST_BLOCK("", "bar.sync 0;", COUNT, ""),
     LAST_BLOCK("", "bar.sync 0;", COUNT_ORDERED, "")},
    {"last block by a count of narrow scope", 4, 64,
     LAST_BLOCK("", "bar.sync 0;", "atom.acq_rel.cta.global.add.u32 %r9, [%rd3], 1;", ""),
     LAST_BLOCK("", "bar.sync 0;", "atom.acq_rel.sys.global.add.u32 %r9, [%rd3], 1;", "")},
    {"last block with fences of narrow scope", 4, 64, LAST_BLOCK("membar.cta;", "bar.sync 0;", COUNT, "membar.cta;"),
     LAST_BLOCK("membar.sys;", "bar.sync 0;", COUNT, "membar.sys;")},
    {"flag released and acquired", 2, 32,
     FLAG("st.release.gpu.global.u32 [%rd3], 1;", "ld.relaxed.gpu.global.u32 %r9, [%rd3];"),
     FLAG("st.release.gpu.global.u32 [%rd3], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd3];")},
    {"flag not released", 2, 32, FLAG("st.relaxed.gpu.global.u32 [%rd3], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd3];"),
     FLAG("red.release.gpu.global.add.u32 [%rd3], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd3];")},
    {"flag of a block's scope", 2, 32,
     FLAG("st.release.cta.global.u32 [%rd3], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd3];"),
     FLAG("st.release.sys.global.u32 [%rd3], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd3];")},
    {"flag overwritten after its release", 2, 32,
     FLAG("st.release.gpu.global.u32 [%rd3], 0; st.relaxed.gpu.global.u32 [%rd3], 1;",
          "ld.acquire.gpu.global.u32 %r9, [%rd3];"),
     FLAG("st.release.gpu.global.u32 [%rd3], 0; red.relaxed.gpu.global.add.u32 [%rd3], 1;",
          "ld.acquire.gpu.global.u32 %r9, [%rd3];")},
    {"grid barrier", 5, 64,
     GRID_BARRIER("red.relaxed.gpu.global.add.u32 [%rd3], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd3];"),
     GRID_BARRIER("red.release.gpu.global.add.u32 [%rd3], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd3];")},
    {"grid barrier with fences", 5, 64,
     GRID_BARRIER("red.global.add.u32 [%rd3], 1;", "ld.volatile.global.u32 %r9, [%rd3]; membar.gl;"),
     GRID_BARRIER("membar.gl; red.global.add.u32 [%rd3], 1;", "ld.volatile.global.u32 %r9, [%rd3]; membar.gl;")},
    {"sums by atomics from all blocks", 8, 64,
     KERNEL("cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%rd1], %f1; ld.global.f32 %f2, [%rd1];"),
     KERNEL("cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%rd1], %f1;")},
};

/* ---- blocks of a cluster ---------------------------------------------------------------------------------- */
#define REMOTE(sync)                                                                                                   \
    CLUSTER("st.shared.u32 [%r5], %r1;" sync "mov.u32 %r9, %cluster_ctarank; xor.b32 %r9, %r9, 1;\n"                   \
            "mapa.shared::cluster.u32 %r10, %r5, %r9; ld.shared::cluster.u32 %r11, [%r10];\n"                          \
            "barrier.cluster.arrive; barrier.cluster.wait;")
static const Pair CLUSTER_PAIRS[] = {
    {"distributed shared memory", 4, 64, REMOTE("bar.sync 0;"),
     REMOTE("barrier.cluster.arrive; barrier.cluster.wait;")},
    {"arrival that releases nothing", 2, 64, REMOTE("barrier.cluster.arrive.relaxed; barrier.cluster.wait;"),
     REMOTE("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;")},
};

/* ---- running ---------------------------------------------------------------------------------------------- */
enum { WORDS = 4096 };
static char report_path[64];

/* The findings, which are forgotten: their kinds with a blank after each, and all of the text. */
static void read_report(char *kinds, char *text, size_t room) {
    FILE *f = fopen(report_path, "r");
    char line[1024];
    kinds[0] = text[0] = '\0';
    while (f && fgets(line, sizeof line, f)) {
        const char *stop = strchr(line, '\t');
        snprintf(text + strlen(text), room - strlen(text), "%s", line);
        snprintf(kinds + strlen(kinds), room - strlen(kinds), "%.*s ", (int)(stop - line - 5), line + 5);
    }
    if (f) fclose(f);
    remove(report_path);
}

static CUresult run_kernel(const char *ptx, unsigned grid, unsigned block) {
    static uint32_t in[WORDS];
    const uint32_t zero[16] = {0};
    for (uint32_t i = 0; i < WORDS; i++) in[i] = i;
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    CUfunction f = load_kernel(ptx, "k");
    CUdeviceptr a = upload(in, sizeof in), b = upload(NULL, sizeof in), c = upload(zero, sizeof zero);
    launch1(f, grid, block, (void *[]){&a, &b, &c});
    const CUresult r = cu.cuCtxSynchronize();
    cu.cuMemFree_v2(a), cu.cuMemFree_v2(b), cu.cuMemFree_v2(c);
    return r;
}

/* Of the wrong side: what is found, and what becomes of the launch. */
typedef struct Finding {
    const char *kind; /* and a blank */
    CUresult status;
} Finding;
static const Finding RACE = {"race ", 719}, BY_CODE = {"warp-synchronous ", CUDA_SUCCESS};

static void one_side(const Pair *p, const Finding *want, bool wrong, int seed) {
    char kinds[4096], text[4096];
    const CUresult r = run_kernel(wrong ? p->wrong : p->right, p->grid, p->block);
    read_report(kinds, text, sizeof kinds);
    const bool as_said = wrong ? strstr(kinds, want->kind) != NULL && r == want->status : kinds[0] == '\0' && r == CUDA_SUCCESS;
    if (!as_said)
        fail_msg("%s, %s, seed %d: result %d, findings: %s", p->name, wrong ? "wrong" : "right", seed, r, text);
    cu.cuCtxDestroy_v2(cu.context);
    read_report(kinds, text, sizeof kinds); /* a failed context's leaks */
}

static void run_pairs(const Pair *pairs, size_t count, const Finding *want) {
    for (int seed = 0; seed < 4; seed++) {
        char number[16];
        snprintf(number, sizeof number, "%d", seed);
        setenv("PTXSIM_SEED", number, 1);
        for (size_t k = 0; k < count; k++) {
            one_side(&pairs[k], want, true, seed);
            one_side(&pairs[k], want, false, seed);
        }
    }
    unsetenv("PTXSIM_SEED");
}

#define PAIRS(list) sizeof list / sizeof *list
static void within_warps(void **state) { (void)state, run_pairs(WARP_PAIRS, PAIRS(WARP_PAIRS), &RACE); }
static void in_converged_warps(void **state) { (void)state, run_pairs(CONVERGED_PAIRS, PAIRS(CONVERGED_PAIRS), &BY_CODE); }
static void within_blocks(void **state) { (void)state, run_pairs(BLOCK_PAIRS, PAIRS(BLOCK_PAIRS), &RACE); }
static void between_blocks(void **state) { (void)state, run_pairs(GRID_PAIRS, PAIRS(GRID_PAIRS), &RACE); }
static void through_memory(void **state) { (void)state, run_pairs(ORDER_PAIRS, PAIRS(ORDER_PAIRS), &RACE); }
static void within_clusters(void **state) { (void)state, run_pairs(CLUSTER_PAIRS, PAIRS(CLUSTER_PAIRS), &RACE); }

/* What a finding says: the thread, the address, and who made the other access. */
static void findings_name_both_sides(void **state) {
    (void)state;
    char kinds[4096], text[4096];
    run_kernel(KERNEL("mad.lo.u32 %r9, %r2, 4, %r6; @%p1 st.shared.u32 [%r9], %r1; @!%p1 ld.shared.u32 %r10, [%r9];"),
               1, 64);
    read_report(kinds, text, sizeof kinds);
    assert_non_null(strstr(text, "thread=32,0,0\taddress=0x0\tbytes=4"));
    assert_non_null(strstr(text, "read of shared memory that warp 0 lane 0 wrote"));
    cu.cuCtxDestroy_v2(cu.context);
    read_report(kinds, text, sizeof kinds);
    run_kernel(GRID_PAIRS[0].wrong, 4, 32);
    read_report(kinds, text, sizeof kinds);
    assert_non_null(strstr(text, "block=1,0,0\tthread=0,0,0"));
    assert_non_null(strstr(text, "write of global memory that block (0,0,0) wrote in the same launch (line "));
    cu.cuCtxDestroy_v2(cu.context);
    read_report(kinds, text, sizeof kinds);
}

/* An access that begins inside an allocation and ends outside is of that one, however near the next lies. */
static void bounds_name_the_allocation(void **state) {
    (void)state;
    char kinds[4096], text[4096], want[64];
    const uint32_t zero[25] = {0};
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    CUfunction f = load_kernel(KERNEL("@%p0 ld.global.v2.u32 {%r9, %r10}, [%rd1+96];"), "k");
    CUdeviceptr first = upload(zero, sizeof zero), next = upload(zero, sizeof zero);
    launch1(f, 1, 32, (void *[]){&first, &next, &next});
    assert_int_equal(cu.cuCtxSynchronize(), 700);
    snprintf(want, sizeof want, "96 bytes after the start of allocation 0x%llx of 100 bytes", (unsigned long long)first);
    read_report(kinds, text, sizeof kinds);
    if (!strstr(text, want)) fail_msg("not '%s': %s", want, text);
    cu.cuCtxDestroy_v2(cu.context);
    read_report(kinds, text, sizeof kinds);
}

/* The text of the findings does not depend on how many cores run the blocks, nor on their timing. */
static void findings_repeat(void **state) {
    (void)state;
    char first[4096] = "", kinds[4096], text[4096];
    setenv("PTXSIM_SEED", "9", 1);
    for (int run = 0; run < 6; run++) {
        setenv("PTXSIM_THREADS", run % 2 ? "4" : "1", 1);
        run_kernel(GRID_PAIRS[3].wrong, 40, 32);
        read_report(kinds, text, sizeof kinds);
        if (!run) strcpy(first, text);
        assert_string_equal(first, text);
        cu.cuCtxDestroy_v2(cu.context);
        read_report(kinds, text, sizeof kinds);
    }
    unsetenv("PTXSIM_THREADS");
    unsetenv("PTXSIM_SEED");
}

/* What one launch wrote, whole words or single bytes, the next may read. */
static void written_stays_written(void **state) {
    (void)state;
    const char *half = KERNEL("mad.wide.u32 %rd6, %r8, 4, %rd2; mov.b16 %h1, 1; st.global.u16 [%rd6], %h1;");
    const char *rest = KERNEL("mad.wide.u32 %rd6, %r8, 4, %rd2; mov.b16 %h1, 1; st.global.u16 [%rd6+2], %h1;");
    const char *read = KERNEL("ld.global.u32 %r9, [%rd4];");
    char kinds[4096], text[4096];
    for (int complete = 0; complete < 2; complete++) {
        assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
        CUdeviceptr a = upload(NULL, 4096), b = upload(NULL, 4096);
        void *params[] = {&a, &b, &a};
        assert_int_equal(launch1(load_kernel(half, "k"), 4, 64, params), CUDA_SUCCESS);
        if (complete) assert_int_equal(launch1(load_kernel(rest, "k"), 4, 64, params), CUDA_SUCCESS);
        launch1(load_kernel(read, "k"), 4, 64, params);
        assert_int_equal(cu.cuCtxSynchronize(), complete ? CUDA_SUCCESS : 719);
        cu.cuMemFree_v2(a), cu.cuMemFree_v2(b);
        read_report(kinds, text, sizeof kinds);
        assert_string_equal(kinds, complete ? "" : "uninitialised ");
        cu.cuCtxDestroy_v2(cu.context);
        read_report(kinds, text, sizeof kinds);
    }
}

int main(void) {
    strcpy(report_path, "/tmp/ptxsim_races_XXXXXX");
    const int fd = mkstemp(report_path);
    if (fd < 0) return 1;
    close(fd);
    remove(report_path);
    setenv("PTXSIM_REPORT", report_path, 1);
    setenv("PTXSIM_MAX_STEPS", "1000000", 1);
    driver_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_warps), cmocka_unit_test(in_converged_warps),    cmocka_unit_test(within_blocks),
        cmocka_unit_test(between_blocks),  cmocka_unit_test(through_memory),
        cmocka_unit_test(within_clusters), cmocka_unit_test(findings_name_both_sides),
        cmocka_unit_test(bounds_name_the_allocation), cmocka_unit_test(findings_repeat), cmocka_unit_test(written_stays_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
