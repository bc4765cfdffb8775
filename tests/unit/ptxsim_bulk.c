/* Bulk and tensor copies: known answers by hand from the PTX ISA's tables, wrong kernels and their twins. */
#include "ptxsim_pairs.h"
#include "tools/ptxsim/exec/tensor_map.h"

/* 64 threads; thread 0 (%p1) issues the copies; %r3 the thread's word of s, %rd3 and %rd4 its words of in and out */
#define KERNEL(body)                                                                                                 \
    HEAD_90                                                                                                          \
        ".entry k(.param .u64 in, .param .u64 out)\n{\n"                                                             \
        ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .b16 %h<4>;\n"                                  \
        ".shared .align 1024 .b8 s[4096]; .shared .align 8 .b64 bar[4];\n"                                           \
        "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;\n"             \
        "mov.u32 %r3, s; add.u32 %r3, %r3, %r2; mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;\n" \
        "setp.eq.u32 %p1, %r1, 0;\n" body "\nret;\n}\n"

enum { THREADS = 64 };
static uint32_t words[1024];
static const Setting SETTING = {1, THREADS, words, sizeof words, sizeof words};

static void fill(void) {
    for (uint32_t k = 0; k < 1024; k++) words[k] = k * 2654435761u;
}

#define INIT "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
#define EXPECT(n) "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], " n ";\n"
#define BULK "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
#define COPY "@%p1 " BULK "[s], [%rd1], 256, [bar];\n"
#define WAIT(parity) "{ W: mbarrier.try_wait.parity.shared.b64 %p3, [bar], " parity "; @!%p3 bra W; }\n"
#define LOAD "ld.shared.u32 %r7, [%r3]; st.global.u32 [%rd4], %r7;\n"
#define FILL "st.shared.u32 [%r3], %r1;\n"
#define FENCE "fence.proxy.async.shared::cta;\n"
#define STORE "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 256; @%p1 cp.async.bulk.commit_group;\n"
#define DONE "@%p1 cp.async.bulk.wait_group 0;\n"

/* ---- known answers ---------------------------------------------------------------------------------------- */
static void check_there_and_back(const void *out) {
    uint32_t want[64];
    for (uint32_t k = 0; k < 64; k++) want[k] = words[k] + k;
    assert_memory_equal(out, want, sizeof want);
}

static void there_and_back(void **state) {
    (void)state;
    each_landing(KERNEL(INIT EXPECT("256") COPY WAIT(
                     "0") "ld.shared.u32 %r7, [%r3]; add.u32 %r7, %r7, %r1; st.shared.u32 [%r3], %r7;\n" FENCE
                          "bar.sync 0;\n" STORE DONE),
                 &SETTING, check_there_and_back);
}

/* Two phases of one object, two copies in each; the second overwrites the first's place. */
static void check_phases(const void *out) { assert_memory_equal(out, words + 64, 256); }

static void two_phases(void **state) {
    (void)state;
    each_landing(KERNEL(INIT EXPECT("512") COPY
                        "@%p1 " BULK
                        "[s+256], [%rd1+512], 256, [bar];\n" WAIT("0") "ld.shared.u32 %r8, [%r3]; bar.sync 0;\n" EXPECT(
                            "256") "@%p1 " BULK "[s], [%rd1+256], 256, [bar];\n" WAIT("1") LOAD),
                 &SETTING, check_phases);
}

/* Reductions: 4 elements of 4 bytes a thread pair of instructions; old values 10, 10, 10, 10; sources 3, 12, -1, 10. */
static void check_reductions(const void *out) {
    static const uint32_t WANT[8][4] = {
        {13, 22, 9, 20}, {3, 10, UINT32_MAX, 10}, {10, 12, 10, 10},         {0, 11, 11, 0},
        {3, 9, 9, 9},    {2, 8, 10, 10},          {11, 14, UINT32_MAX, 10}, {9, 6, ~10u, 0}};
    assert_memory_equal(out, WANT, sizeof WANT);
}

#define REDUCE(op, at) "cp.reduce.async.bulk.global.shared::cta.bulk_group." op " [%rd2+" at "], [s], 16;\n"
static void reductions(void **state) {
    (void)state;
    each_landing(
        KERNEL("@!%p1 bra OUT; mov.u32 %r4, 3; mov.u32 %r5, 12; mov.u32 %r6, -1; mov.u32 %r7, 10;\n"
               "st.shared.v4.u32 [s], {%r4, %r5, %r6, %r7}; mov.u32 %r8, 0; mov.u64 %rd5, %rd2;\n"
               "L: st.global.v4.u32 [%rd5], {%r7, %r7, %r7, %r7}; add.u64 %rd5, %rd5, 16; add.u32 %r8, %r8, 1;\n"
               "setp.lt.u32 %p3, %r8, 8; @%p3 bra L; fence.proxy.async;\n" REDUCE("add.u32", "0")
                   REDUCE("min.s32", "16") REDUCE("max.s32", "32") REDUCE("inc.u32", "48") REDUCE("dec.u32", "64")
                       REDUCE("and.b32", "80") REDUCE("or.b32", "96")
                           REDUCE("xor.b32", "112") "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; OUT:"),
        &SETTING, check_reductions);
}

/* f16 1.5 + 2.25, bf16 max(1, -2), f64 0.5 + 0.25, f32: a subnormal sum flushes to zero */
static void check_floats(const void *out) {
    const uint8_t *y = out;
    uint16_t half[8];
    double d[2];
    float f[4];
    memcpy(half, y, 16);
    for (int k = 0; k < 8; k++) assert_int_equal(half[k], 0x4380); /* 3.75 */
    memcpy(half, y + 16, 16);
    for (int k = 0; k < 8; k++) assert_int_equal(half[k], 0x3f80); /* 1 */
    memcpy(d, y + 32, 16);
    assert_true(d[0] == 0.75 && d[1] == 0.75);
    memcpy(f, y + 48, 16);
    assert_true(f[0] == 0 && f[3] == 0);
}

#define SPREAD(r, at, bits) "mov.u32 %r4, " bits "; st." r ".v4.u32 [" at "], {%r4, %r4, %r4, %r4};\n"
static void float_reductions(void **state) {
    (void)state;
    each_landing(
        KERNEL(
            "@!%p1 bra OUT;\n" SPREAD("global", "%rd2", "0x3e003e00") SPREAD("shared", "s", "0x40804080")
                SPREAD("global", "%rd2+16", "0x3f803f80") SPREAD(
                    "shared", "s+16",
                    "0xc000c000") "mov.u64 %rd5, 0x3fe0000000000000; mov.u64 %rd6, 0x3fd0000000000000; "
                                  "st.global.v2.u64 [%rd2+32], {%rd5, %rd5};\n"
                                  "st.shared.v2.u64 [s+32], {%rd6, %rd6};\n" SPREAD("global", "%rd2+48", "0x00000003")
                                      SPREAD(
                                          "shared", "s+48",
                                          "0x00000005") "fence.proxy.async; "
                                                        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz."
                                                        "f16 [%rd2], [s], 16;\n"
                                                        "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.bf16 "
                                                        "[%rd2+16], [s+16], 16;\n"
                                                        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64 "
                                                        "[%rd2+32], [s+32], 16;\n"
                                                        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
                                                        "[%rd2+48], [s+48], 16;\n"
                                                        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; OUT:"),
        &SETTING, check_floats);
}

/* .cp_mask: of every 16 bytes the first 8 only */
static void check_mask(const void *out) {
    uint8_t want[32];
    memset(want, 0xee, sizeof want);
    memcpy(want, words, 8);
    memcpy(want + 16, words + 4, 8);
    assert_memory_equal(out, want, sizeof want);
}

static void byte_mask(void **state) {
    (void)state;
    each_landing(KERNEL(INIT EXPECT("256")
                            COPY WAIT("0") "mov.b16 %h1, 0x00ff;\n"
                                           "@%p1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd2], [s], 32, "
                                           "%h1; @%p1 cp.async.bulk.commit_group;\n" DONE),
                 &SETTING, check_mask);
}

/* ---- wrong kernels and their twins ------------------------------------------------------------------------ */
static const Pair LOADS[] = {
    {"in order", NULL, KERNEL(INIT EXPECT("256") COPY WAIT("0") LOAD)},
    {"read without a wait", "race", KERNEL(INIT EXPECT("256") COPY LOAD WAIT("0"))},
    {"wrong parity", "any", KERNEL(INIT EXPECT("256") COPY WAIT("1") LOAD WAIT("0"))},
    {"too many bytes expected", "deadlock", KERNEL(INIT EXPECT("260") COPY WAIT("0") LOAD)},
    {"too few bytes expected", "deadlock", KERNEL(INIT EXPECT("128") COPY WAIT("0") LOAD)},
    {"expect_tx missing", "any", KERNEL(INIT COPY "@%p1 mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("0") LOAD)},
    {"arrival missing", "deadlock",
     KERNEL(INIT "@%p1 mbarrier.expect_tx.shared.b64 [bar], 256;\n" COPY WAIT("0") LOAD)},
    {"expected after the copy", NULL, KERNEL(INIT COPY EXPECT("256") WAIT("0") LOAD)},
    {"no fence after the initialisation", "mbarrier-init-fence",
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;\n" EXPECT("256") COPY WAIT("0") LOAD)},
    {"a proxy fence after the initialisation", NULL,
     KERNEL("@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.proxy.async; bar.sync 0;\n" EXPECT("256") COPY WAIT("0")
                LOAD)},
    {"object not initialised", "mbarrier", KERNEL(COPY)},
    {"nobody waits", "missing-wait", KERNEL(INIT EXPECT("256") COPY)},
    {"stage overwritten too early", "any",
     KERNEL(INIT EXPECT("256") COPY WAIT("0") LOAD EXPECT("256") "@%p1 " BULK "[s], [%rd1+256], 256, [bar];\n" WAIT("1")
                LOAD)},
    {"stage overwritten after a barrier", NULL,
     KERNEL(INIT EXPECT("256") COPY WAIT("0") LOAD
            "bar.sync 0;\n" EXPECT("256") "@%p1 " BULK "[s], [%rd1+256], 256, [bar];\n" WAIT("1") LOAD)},
    {"generic write before, without a proxy fence", "race",
     KERNEL(INIT FILL "bar.sync 0;\n" EXPECT("256") COPY WAIT("0") LOAD)},
    {"generic write before, fenced", NULL, KERNEL(INIT FILL FENCE "bar.sync 0;\n" EXPECT("256") COPY WAIT("0") LOAD)},
    {"generic write while in flight", "race", KERNEL(INIT EXPECT("256") COPY FILL WAIT("0"))},
    {"source written while in flight", "race",
     KERNEL(INIT EXPECT("256") COPY "st.global.u32 [%rd3], %r1;\n" WAIT("0"))},
    {"source written after the wait", NULL, KERNEL(INIT EXPECT("256") COPY WAIT("0") "st.global.u32 [%rd3], %r1;\n")},
    {"two copies to one place", "race", KERNEL(INIT EXPECT("512") COPY COPY WAIT("0"))},
    {"two copies to two places", NULL,
     KERNEL(INIT EXPECT("512") COPY "@%p1 " BULK "[s+256], [%rd1], 256, [bar];\n" WAIT("0"))},
    {"size of 8", "bad-copy", KERNEL(INIT "@%p1 " BULK "[s], [%rd1], 8, [bar];\n")},
    {"destination at 8", "misaligned", KERNEL(INIT "@%p1 " BULK "[s+8], [%rd1], 16, [bar];\n")},
    {"source at 8", "misaligned", KERNEL(INIT "@%p1 " BULK "[s], [%rd1+8], 16, [bar];\n")},
    {"source beyond the end", "out-of-bounds", KERNEL(INIT "@%p1 " BULK "[s], [%rd1+4080], 32, [bar];\n")},
    {"destination beyond the end", "out-of-bounds", KERNEL(INIT "@%p1 " BULK "[s+4080], [%rd1], 64, [bar];\n")},
    {"uninitialised source", "uninitialised",
     KERNEL(INIT EXPECT("256") "@%p1 " BULK "[s], [%rd2], 256, [bar];\n" WAIT("0"))},
    {"copy over the object", "mbarrier",
     KERNEL(INIT EXPECT("16") "@%p1 " BULK "[bar], [%rd1], 16, [bar];\n" WAIT("0"))},
    {"multicast beyond the cluster", "cluster",
     KERNEL(INIT EXPECT("256") "mov.b16 %h1, 2; @%p1 "
                               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                               "[s], [%rd1], 256, [bar], %h1;\n")},
};

static const Pair STORES[] = {
    {"in order", NULL, KERNEL(FILL FENCE "bar.sync 0;\n" STORE DONE)},
    {"no fence between the proxies", "race", KERNEL(FILL "bar.sync 0;\n" STORE DONE)},
    {"fence on the wrong side of the barrier, by the issuer", NULL,
     KERNEL(FILL "bar.sync 0; @%p1 fence.proxy.async;\n" STORE DONE)},
    {"no barrier", "race", KERNEL(FILL FENCE STORE DONE)},
    {"no wait at the end", "missing-wait", KERNEL(FILL FENCE "bar.sync 0;\n" STORE)},
    {"no commit", "missing-wait",
     KERNEL(FILL FENCE "bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 256;\n" DONE)},
    {"waits for the reads only", NULL,
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE "@%p1 cp.async.bulk.wait_group.read 0;\n")},
    {"source overwritten before wait_group.read", "race",
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE "st.shared.u32 [%r3], 5;\n" DONE)},
    {"source overwritten after wait_group.read", NULL,
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE
                       "@%p1 cp.async.bulk.wait_group.read 0; bar.sync 0; st.shared.u32 [%r3], 5;\n" DONE)},
    {"source overwritten by others, no barrier after the wait", "race",
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE "@%p1 cp.async.bulk.wait_group.read 0; st.shared.u32 [%r3], 5;\n" DONE)},
    {"destination read after wait_group.read", "race",
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE
                       "@%p1 cp.async.bulk.wait_group.read 0; @%p1 ld.global.u32 %r7, [%rd2];\n" DONE)},
    {"destination read after wait_group", NULL,
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE DONE "@%p1 ld.global.u32 %r7, [%rd2];\n")},
    {"destination read by others, no barrier", "race",
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE DONE "ld.global.u32 %r7, [%rd4];\n")},
    {"destination read by others after a barrier", NULL,
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE DONE "bar.sync 0; ld.global.u32 %r7, [%rd4];\n")},
    {"one group left", "race",
     KERNEL(FILL FENCE "bar.sync 0;\n" STORE
                       "@%p1 cp.async.bulk.wait_group.read 1; bar.sync 0; st.shared.u32 [%r3], 5;\n" DONE)},
    {"source never written", "uninitialised", KERNEL(STORE DONE)},
    {"misaligned destination", "misaligned",
     KERNEL(FILL FENCE "bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2+4], [s], 16;\n")},
    {"two reductions into one place", NULL,
     KERNEL("st.global.u32 [%rd4], 0;\n" FILL
            "fence.proxy.async; bar.sync 0; and.b32 %r5, %r1, 31; setp.eq.u32 %p4, %r5, 0;\n"
            "@%p4 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [s], 256; @%p4 "
            "cp.async.bulk.commit_group; @%p4 cp.async.bulk.wait_group 0;")},
    {"two stores into one place", "race",
     KERNEL(FILL "st.shared.u32 [%r3+256], 7; fence.proxy.async; bar.sync 0; and.b32 %r5, %r1, 31; setp.eq.u32 %p4, %r5, 0;\n"
                 "mov.u32 %r6, s; mad.lo.u32 %r6, %r1, 8, %r6;\n"
                 "@%p4 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r6], 256; @%p4 cp.async.bulk.commit_group; "
                 "@%p4 cp.async.bulk.wait_group 0;")},
    {"two stores of the same into one place", "same-value",
     KERNEL(FILL "fence.proxy.async; bar.sync 0; and.b32 %r5, %r1, 31; setp.eq.u32 %p4, %r5, 0;\n"
                 "@%p4 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 256; @%p4 cp.async.bulk.commit_group; "
                 "@%p4 cp.async.bulk.wait_group 0;")},
};

static void loads(void **state) {
    (void)state;
    run_pairs(LOADS, sizeof LOADS / sizeof *LOADS, &SETTING);
}

static void stores(void **state) {
    (void)state;
    run_pairs(STORES, sizeof STORES / sizeof *STORES, &SETTING);
}

static void refused(void **state) {
    (void)state;
    static const char *const BODIES[] = {
        "cp.async.bulk.shared::cluster.global [s], [%rd1], 16, [bar];",
        "cp.async.bulk.global.global.bulk_group [%rd2], [%rd1], 16;",
        "cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [s], [s], 16, [bar];",
        "cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes [%rd2], [s], 16, [bar];",
        "cp.async.bulk.global.shared::cta.bulk_group.multicast::cluster [%rd2], [s], 16, %h1;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd2], [s], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32 [%rd2], [s], 16;",
        "cp.async.bulk.wait_group.write 0;",
        "cp.async.bulk.tensor.6d.global.shared::cta.bulk_group [%rd1, {%r1}], [s];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1}], [s];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [s], [%rd1, {%r1, %r1}], "
        "[bar], {};",
        "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1], [s];",
        "ld.shared.u32 %r4, [s, {%r1}];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [s], [%rd1, {%r1, "
        "%r1}], [bar];"};
    for (size_t k = 0; k < sizeof BODIES / sizeof *BODIES; k++) refuse(KERNEL("HOLE"), BODIES[k]);
}

/* ---- tensors ---------------------------------------------------------------------------------------------- */
enum { TENSOR_BYTES = 32768, BOX_BYTES = 4096 };
static uint8_t tensor[TENSOR_BYTES];

typedef struct Box {
    TensorMap map;
    int32_t at[5];
    uint16_t offset[3];
    uint32_t bytes;
} Box;

/* From row to row of the box in shared memory. */
static uint32_t pitch_of(const TensorMap *m, uint32_t row) {
    const uint32_t span = (uint32_t)tensor_swizzle_bytes((TensorSwizzle)m->swizzle);
    return m->swizzle != SWIZZLE_NONE && row < span ? span : row;
}
static uint32_t row_of(const TensorMap *m) {
    return (uint32_t)tensor_type_bytes((TensorType)m->type) * (m->im2col ? m->channels : m->box[0]);
}
static uint32_t shared_of(const Box *b) {
    const uint32_t row = row_of(&b->map);
    return row ? b->bytes / row * pitch_of(&b->map, row) : b->bytes;
}

/* Loads a box at `at` and writes all of s to out; with `store`, fills s from out and stores it to the tensor. */
static void tensor_text(char *text, size_t room, const Box *b, const char *operation) {
    const int rank = b->map.rank;
    char at[128] = "", offset[96] = "";
    for (int d = 0; d < rank; d++) snprintf(at + strlen(at), sizeof at - strlen(at), "%s%d", d ? ", " : "", b->at[d]);
    for (int d = 0; b->map.im2col && d < rank - 2; d++)
        snprintf(offset + strlen(offset), sizeof offset - strlen(offset), "%s%u", d ? ", " : ", {", b->offset[d]);
    if (*offset) strcat(offset, "}");
    const char *mode = b->map.im2col ? ".im2col" : "";
    char copy[512];
    if (!operation)
        snprintf(copy, sizeof copy,
                 "mbarrier.arrive.expect_tx.shared.b64 _, [bar], %u;\n"
                 "cp.async.bulk.tensor.%dd.shared::cluster.global%s.mbarrier::complete_tx::bytes [s], [%%rd1, {%s}], "
                 "[bar]%s;",
                 b->bytes, rank, mode, at, offset);
    else
        snprintf(copy, sizeof copy,
                 "fence.proxy.async; %s.async.bulk.tensor.%dd.global.shared::cta%s%s.bulk_group [%%rd1, {%s}], [s];\n"
                 "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
                 *operation ? "cp.reduce" : "cp", rank, operation, b->map.im2col ? ".im2col_no_offs" : ".tile", at);
    snprintf(
        text, room,
        HEAD_90
        ".entry k(.param .align 64 .b8 map[128], .param .u64 out)\n{\n"
        ".reg .b32 %%r<9>; .reg .b64 %%rd<9>; .reg .pred %%p<4>; .shared .align 1024 .b8 s[%d]; .shared .align 8 .b64 "
        "bar;\n"
        "mov.b64 %%rd1, map; cvta.param.u64 %%rd1, %%rd1; ld.param.u64 %%rd2, [out]; mov.u32 %%r1, s; mov.u32 %%r2, "
        "0;\n%s\n"
        "mbarrier.init.shared.b64 [bar], 1; fence.proxy.async;\n%s\n%s\n"
        "L: ld.shared.u32 %%r3, [%%r1]; st.global.u32 [%%rd2], %%r3; add.u32 %%r1, %%r1, 4; add.u64 %%rd2, %%rd2, 4;\n"
        "add.u32 %%r2, %%r2, 4; setp.lt.u32 %%p2, %%r2, %u; @%%p2 bra L; ret;\n}\n",
        BOX_BYTES,
        operation
            ? "F: ld.global.u32 %r3, [%rd2]; st.shared.u32 [%r1], %r3; add.u32 %r1, %r1, 4; add.u64 %rd2, %rd2, 4;\n"
              "add.u32 %r2, %r2, 4; setp.lt.u32 %p2, %r2, 4096; @%p2 bra F; mov.u32 %r1, s; mov.u32 %r2, 0; "
              "ld.param.u64 %rd2, [out];"
            : "",
        copy, operation ? "" : "W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;",
        operation ? 4 : shared_of(b));
}

/* Runs under one landing; the tensor's bytes and the box afterwards. */
static void run_tensor(const Box *b, const char *operation, const char *landing, uint8_t *box, uint8_t *all) {
    char text[4096];
    Box here = *b;
    setenv("PTXSIM_LANDING", landing, 1);
    CUdeviceptr p = upload(tensor, TENSOR_BYTES), out = upload(box, BOX_BYTES);
    here.map.address = p + b->map.address;
    tensor_text(text, sizeof text, &here, operation);
    assert_int_equal(
        cu.cuLaunchKernel(load_kernel(text, "k"), 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&here.map, &out}, NULL),
        CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(box, out, BOX_BYTES);
    cu.cuMemcpyDtoH_v2(all, p, TENSOR_BYTES);
    cu.cuMemFree_v2(p);
    cu.cuMemFree_v2(out);
    unsetenv("PTXSIM_LANDING");
}

/* "Swizzling Modes": which 16-byte unit of a line of 128 bytes stands at each place, line after line. */
static const uint8_t SWIZZLES[4][8][9] = {
    {"01234567", "01234567", "01234567", "01234567", "01234567", "01234567", "01234567", "01234567"},
    {"01234567", "01234567", "01234567", "01234567", "01234567", "01234567", "01234567", "01234567"},
    {"01234567", "10325476", "23016745", "32107654", "01234567", "10325476", "23016745", "32107654"},
    {"01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"}};
static const uint8_t SWIZZLE_32[2][9] = {"01234567", "10325476"};

static int unit_at(int swizzle, int line, int place) {
    return (swizzle == SWIZZLE_32B ? SWIZZLE_32[line & 1][place] : SWIZZLES[swizzle][line & 7][place]) - '0';
}

/* The shared memory that a box in order becomes; what no byte of the box is in stays as it is. */
static void swizzle_box(const TensorMap *m, const uint8_t *box, uint8_t *shared) {
    const uint32_t row = row_of(m), pitch = pitch_of(m, row);
    for (uint32_t at = 0; at < BOX_BYTES; at += 16) {
        const uint32_t from = at / 128 * 128 + (uint32_t)unit_at(m->swizzle, (int)(at / 128), (int)(at / 16 % 8)) * 16;
        if (from % pitch < row) memcpy(shared + at, box + from / pitch * row + from % pitch, 16);
    }
}

/* Element by element, from the definition of tiled mode. */
static uint32_t tile_box(const Box *b, uint8_t *box, bool store) {
    const TensorMap *m = &b->map;
    const int size = tensor_type_bytes((TensorType)m->type);
    uint32_t extent[5], n = 1;
    for (int d = 0; d < 5; d++)
        n *= extent[d] = d < m->rank ? (m->box[d] + m->element_stride[d] - 1u) / m->element_stride[d] : 1;
    for (uint32_t e = 0; e < n; e++) {
        uint32_t rest = e;
        int64_t where = (int64_t)m->address;
        bool inside = true;
        for (int d = 0; d < m->rank; d++) {
            const int64_t index = b->at[d] + (int64_t)(rest % extent[d]) * m->element_stride[d];
            rest /= extent[d];
            inside &= index >= 0 && index < (int64_t)m->dim[d];
            where += index * (int64_t)(d ? m->stride[d - 1] : (uint64_t)size);
        }
        uint8_t *to = box + e * (uint32_t)size;
        static const uint8_t NAN_16[2] = {0xf7, 0x7f};
        if (inside) store ? memcpy(tensor + where, to, (size_t)size) : memcpy(to, tensor + where, (size_t)size);
        else if (!store && m->fill == FILL_NAN) memcpy(to, NAN_16, (size_t)size);
        else if (!store) memset(to, 0, (size_t)size);
    }
    return n * (uint32_t)size;
}

#define ONES {1, 1, 1, 1, 1}
#define MAP(...) {.magic = TENSOR_MAP_MAGIC, .element_stride = ONES, __VA_ARGS__}
static const Box BOXES[] = {
    {MAP(.type = TENSOR_UINT8, .rank = 1, .dim = {1000}, .box = {64}), {48}, {0}, 0},
    {MAP(.type = TENSOR_UINT8, .rank = 1, .dim = {1000}, .box = {64}), {-16}, {0}, 0},
    {MAP(.type = TENSOR_FLOAT32, .rank = 2, .dim = {10, 7}, .stride = {48}, .box = {4, 3}), {4, 1}, {0}, 0},
    {MAP(.type = TENSOR_FLOAT32, .rank = 2, .dim = {10, 7}, .stride = {48}, .box = {8, 4}), {4, 5}, {0}, 0},
    {MAP(.type = TENSOR_FLOAT32, .rank = 2, .dim = {10, 7}, .stride = {48}, .box = {8, 4}), {-4, -2}, {0}, 0},
    {MAP(.type = TENSOR_FLOAT32, .rank = 2, .dim = {10, 7}, .stride = {48}, .box = {8, 4}), {40, 2}, {0}, 0},
    {MAP(.type = TENSOR_FLOAT16, .rank = 2, .fill = FILL_NAN, .dim = {20, 9}, .stride = {64}, .box = {8, 4}),
     {16, 7},
     {0},
     0},
    {MAP(.type = TENSOR_INT64, .rank = 3, .address = 64, .dim = {6, 5, 4}, .stride = {48, 256}, .box = {2, 3, 2}),
     {4, 3, 3},
     {0},
     0},
    {MAP(.type = TENSOR_UINT16, .rank = 4, .dim = {16, 3, 4, 5}, .stride = {32, 96, 384}, .box = {8, 2, 2, 2}),
     {8, 2, -1, 4},
     {0},
     0},
    {MAP(.type = TENSOR_UINT32, .rank = 5, .dim = {8, 3, 2, 3, 4}, .stride = {32, 96, 192, 576},
         .box = {4, 2, 2, 1, 2}),
     {4, 1, 1, 2, 3},
     {0},
     0},
    {{.magic = TENSOR_MAP_MAGIC,
      .type = TENSOR_FLOAT16,
      .rank = 2,
      .element_stride = {1, 3, 1, 1, 1},
      .dim = {16, 20},
      .stride = {32},
      .box = {16, 7}},
     {0, 4},
     {0},
     0},
    {MAP(.type = TENSOR_FLOAT16, .rank = 2, .swizzle = SWIZZLE_32B, .dim = {64, 40}, .stride = {128}, .box = {16, 16}),
     {16, 3},
     {0},
     0},
    {MAP(.type = TENSOR_FLOAT16, .rank = 2, .swizzle = SWIZZLE_64B, .dim = {64, 40}, .stride = {128}, .box = {32, 16}),
     {16, 30},
     {0},
     0},
    {MAP(.type = TENSOR_FLOAT16, .rank = 2, .swizzle = SWIZZLE_128B, .dim = {64, 40}, .stride = {128}, .box = {64, 16}),
     {0, 8},
     {0},
     0},
    {MAP(.type = TENSOR_FLOAT32, .rank = 3, .swizzle = SWIZZLE_128B, .dim = {40, 9, 3}, .stride = {160, 1440},
         .box = {32, 4, 2}),
     {16, 6, 1},
     {0},
     0},
    /* rows narrower than the span of the swizzle, which are a span apart in shared memory */
    {MAP(.type = TENSOR_FLOAT16, .rank = 2, .swizzle = SWIZZLE_32B, .dim = {64, 40}, .stride = {128}, .box = {8, 16}),
     {8, 3},
     {0},
     0},
    {MAP(.type = TENSOR_FLOAT32, .rank = 2, .swizzle = SWIZZLE_64B, .dim = {64, 40}, .stride = {256}, .box = {4, 16}),
     {8, 30},
     {0},
     0},
    {MAP(.type = TENSOR_FLOAT16, .rank = 2, .swizzle = SWIZZLE_128B, .dim = {64, 40}, .stride = {128}, .box = {48, 16}),
     {32, 8},
     {0},
     0},
};
static const char *const LANDINGS[] = {"late", "early", "random"};

static void tiles_loaded(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof BOXES / sizeof *BOXES; k++)
        for (int l = 0; l < 3; l++) {
            static uint8_t box[BOX_BYTES], want[BOX_BYTES], got[BOX_BYTES], all[TENSOR_BYTES];
            Box b = BOXES[k];
            b.bytes = tile_box(&b, box, false);
            run_tensor(&b, NULL, LANDINGS[l], got, all);
            memcpy(want, got, sizeof want);
            swizzle_box(&b.map, box, want);
            if (memcmp(got, want, shared_of(&b)) != 0) fail_msg("box %zu, landing %s", k, LANDINGS[l]);
        }
}

static bool begins_before(const Box *b) {
    for (int d = 0; d < b->map.rank; d++)
        if (b->at[d] < 0) return true;
    return false;
}

static void tiles_stored(void **state) {
    (void)state;
    static uint8_t before[TENSOR_BYTES], box[BOX_BYTES], shared[BOX_BYTES], all[TENSOR_BYTES];
    memcpy(before, tensor, sizeof before);
    for (size_t k = 0; k < sizeof BOXES / sizeof *BOXES; k++) {
        if (begins_before(&BOXES[k])) continue;
        for (size_t n = 0; n < BOX_BYTES; n++) box[n] = (uint8_t)(n * 7 + k);
        swizzle_box(&BOXES[k].map, box, shared);
        run_tensor(&BOXES[k], "", LANDINGS[k % 3], shared, all);
        tile_box(&BOXES[k], box, true); /* the same, into `tensor` */
        if (memcmp(all, tensor, TENSOR_BYTES) != 0) fail_msg("box %zu", k);
        memcpy(tensor, before, sizeof before);
    }
}

static void tiles_added(void **state) {
    (void)state;
    static uint8_t all[TENSOR_BYTES], shared[BOX_BYTES];
    const Box b = {
        MAP(.type = TENSOR_UINT32, .rank = 2, .dim = {10, 7}, .stride = {48}, .box = {8, 4}), {4, 5}, {0}, 0};
    for (uint32_t n = 0; n < BOX_BYTES / 4; n++) memcpy(shared + 4 * n, &(uint32_t){n + 1}, 4);
    run_tensor(&b, ".add", "late", shared, all);
    for (int64_t y = 0; y < 7; y++)
        for (int64_t x = 0; x < 12; x++) {
            uint32_t was, is;
            memcpy(&was, tensor + y * 48 + x * 4, 4);
            memcpy(&is, all + y * 48 + x * 4, 4);
            const bool inside = y >= 5 && x >= 4 && x < 10;
            assert_int_equal(is, was + (inside ? (uint32_t)((y - 5) * 8 + x - 4 + 1) : 0));
        }
}

/* ---- im2col ----------------------------------------------------------------------------------------------- */
/* NWC, W of 8, corners -1 and -1: the window is -1 .. 6.  From 5 on with stride 2: 5, then the next image from -1. */
static void im2col_by_hand(void **state) {
    (void)state;
    static uint8_t got[BOX_BYTES], all[TENSOR_BYTES];
    static const int W[] = {5, -1, 1, 3, 5, -1, 1, 3}, N[] = {0, 1, 1, 1, 1, 2, 2, 2};
    Box b = {MAP(.type = TENSOR_UINT32, .rank = 3, .im2col = 1, .dim = {8, 8, 2}, .stride = {32, 256}, .lower = {-1},
                 .upper = {-1}, .channels = 4, .pixels = 8),
             {4, 5, 0},
             {0},
             8 * 16};
    b.map.element_stride[1] = 2;
    for (int offset = 0; offset < 2; offset++) {
        b.offset[0] = (uint16_t)offset;
        run_tensor(&b, NULL, "late", got, all);
        for (int p = 0; p < 8; p++) {
            uint8_t want[16] = {0};
            const int w = W[p] + offset;
            if (w >= 0 && w < 8 && N[p] < 2) memcpy(want, tensor + N[p] * 256 + w * 32 + 16, 16);
            if (memcmp(got + p * 16, want, 16) != 0) fail_msg("offset %d, pixel %d", offset, p);
        }
    }
}

/* Examples 1 and 2 of "im2col mode", with 8 channels and 2 images: 9 x 14 pixels, from (7, 7, 4, 0). */
static void im2col_examples(void **state) {
    (void)state;
    static uint8_t got[BOX_BYTES], all[TENSOR_BYTES];
    static const int LOWER[] = {-1, 0}, UPPER[] = {-1, -2}, OFFSET[] = {0, 2};
    for (int k = 0; k < 2; k++) {
        const int width = 9 + UPPER[k] - LOWER[k], height = 14 + UPPER[k] - LOWER[k];
        const int16_t lower = (int16_t)LOWER[k], upper = (int16_t)UPPER[k];
        const uint16_t offset = (uint16_t)OFFSET[k];
        const int start_w = k ? 6 : 7; /* within the smaller box of example 2 */
        const Box b = {MAP(.type = TENSOR_UINT16, .rank = 4, .im2col = 1, .dim = {16, 9, 14, 2},
                           .stride = {32, 288, 4032}, .lower = {lower, lower}, .upper = {upper, upper}, .channels = 8,
                           .pixels = 64),
                       {8, start_w, 4, 0},
                       {offset, offset},
                       64 * 16};
        run_tensor(&b, NULL, LANDINGS[k], got, all);
        for (int p = 0; p < 64; p++) {
            const int linear = (4 - LOWER[k]) * width + start_w - LOWER[k] + p;
            const int w = linear % width + LOWER[k] + OFFSET[k], h = linear / width % height + LOWER[k] + OFFSET[k];
            const int n = linear / width / height;
            uint8_t want[16] = {0};
            if (w >= 0 && w < 9 && h >= 0 && h < 14 && n < 2)
                memcpy(want, tensor + n * 4032 + h * 288 + w * 32 + 16, 16);
            if (memcmp(got + p * 16, want, 16) != 0) fail_msg("example %d, pixel %d", k + 1, p);
        }
    }
}

/* ---- wrong tensor copies ---------------------------------------------------------------------------------- */
static void tensor_faults(void **state) {
    (void)state;
    static const struct { const char *what; Box box; const char *operation; CUresult result;
    } WRONG[] = {
        {"no map", {{.rank = 2}, {0}, {0}, 16}, NULL, CUDA_ERROR_LAUNCH_FAILED},
        {"a box beyond the allocation",
         {MAP(.type = TENSOR_UINT32, .rank = 2, .dim = {8, 2000}, .stride = {32}, .box = {8, 4}), {0, 1022}, {0}, 128},
         NULL,
         CUDA_ERROR_ILLEGAL_ADDRESS},
        {"too few bytes expected",
         {MAP(.type = TENSOR_UINT32, .rank = 2, .dim = {8, 20}, .stride = {32}, .box = {8, 4}), {0, 19}, {0}, 32},
         NULL,
         CUDA_ERROR_LAUNCH_FAILED},
        {"an innermost coordinate of 8 bytes",
         {MAP(.type = TENSOR_UINT32, .rank = 2, .dim = {8, 20}, .stride = {32}, .box = {4, 4}), {2, 1}, {0}, 64},
         NULL,
         CUDA_ERROR_LAUNCH_FAILED},
        {"a store that begins before the tensor",
         {MAP(.type = TENSOR_UINT32, .rank = 2, .dim = {8, 20}, .stride = {32}, .box = {4, 4}), {0, -1}, {0}, 64},
         "",
         CUDA_ERROR_LAUNCH_FAILED},
        {"a reduction that begins before the tensor",
         {MAP(.type = TENSOR_UINT32, .rank = 2, .dim = {8, 20}, .stride = {32}, .box = {4, 4}), {-4, 1}, {0}, 64},
         ".add",
         CUDA_ERROR_LAUNCH_FAILED},
        {"start outside the im2col box",
         {MAP(.type = TENSOR_UINT32, .rank = 3, .im2col = 1, .dim = {8, 8, 2}, .stride = {32, 256}, .channels = 4,
              .pixels = 8),
          {0, 8, 0},
          {0},
          128},
         NULL,
         CUDA_ERROR_LAUNCH_FAILED},
        {"a reduction that does not exist",
         {MAP(.type = TENSOR_FLOAT32, .rank = 1, .dim = {64}, .box = {4}), {0}, {0}, 16},
         ".inc",
         CUDA_ERROR_LAUNCH_FAILED},
    };
    for (size_t k = 0; k < sizeof WRONG / sizeof *WRONG; k++) {
        char text[4096];
        uint8_t zero[BOX_BYTES] = {0};
        assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
        Box here = WRONG[k].box;
        CUdeviceptr p = upload(tensor, TENSOR_BYTES), out = upload(zero, BOX_BYTES);
        here.map.address += p;
        tensor_text(text, sizeof text, &here, WRONG[k].operation);
        const CUresult r =
            cu.cuLaunchKernel(load_kernel(text, "k"), 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&here.map, &out}, NULL);
        if (r != WRONG[k].result) fail_msg("%s: %d", WRONG[k].what, r);
        cu.cuMemFree_v2(p);
        cu.cuMemFree_v2(out);
        cu.cuCtxDestroy_v2(cu.context);
    }
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    driver_open();
    fill();
    for (uint32_t k = 0; k < TENSOR_BYTES; k++) tensor[k] = (uint8_t)(k * 2654435761u >> 13);
    const struct CMUnitTest tests[] = {
        RUN(there_and_back),     RUN(two_phases),         RUN(reductions),        RUN(float_reductions),
        RUN(byte_mask),          RUN(refused),            RUN(tiles_loaded),      RUN(tiles_stored),
        RUN(tiles_added),        RUN(im2col_by_hand),     RUN(im2col_examples),   cmocka_unit_test(loads),
        cmocka_unit_test(stores), cmocka_unit_test(tensor_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
