/* Speed of the matrix instructions of the software GPU: bf16 products with f32 sums, operands in shared memory. */
#include "bench/ptxsim.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Blocks of TILE_M by TILE_N, TILE_K of the inner dimension at a time: lines of 128 bytes, swizzled. */
enum {
    M = 256,
    N = 512,
    K = 2048,
    TILE_M = 128,
    TILE_N = 256,
    TILE_K = 64,
    LINE = 128,
    A_BYTES = TILE_M * LINE,
    B_BYTES = TILE_N * LINE
};

#define HEAD(target, version) ".version " version "\n.target " target "\n.address_size 64\n"

/* Thread t copies chunk t % 8 of lines t / 8, 32 further, ... of both tiles; A is [M, K], B is [N, K]. */
static void prologue(Text *t, const char *head) {
    put(t,
        "%s.entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n.reqntid %d, 1, 1\n{\n"
        ".reg .pred %%p<4>; .reg .b32 %%r<60>; .reg .f32 %%d<128>; .reg .b64 %%rd<40>; .reg .b32 %%v<4>;\n"
        ".shared .align 1024 .b8 tiles[%d];\n",
        head, THREADS, A_BYTES + B_BYTES);
    put(t,
        "ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [b]; ld.param.u64 %%rd3, [c]; mov.u32 %%r0, %%tid.x;\n"
        "mov.u32 %%r1, %%ctaid.y; mov.u32 %%r2, %%ctaid.x; shr.u32 %%r3, %%r0, 3; and.b32 %%r4, %%r0, 7;\n"
        "mad.lo.u32 %%r5, %%r1, %d, %%r3; mul.lo.u32 %%r5, %%r5, %d; shl.b32 %%r6, %%r4, 4; add.u32 %%r5, %%r5, %%r6;\n"
        "cvt.u64.u32 %%rd4, %%r5; add.u64 %%rd4, %%rd4, %%rd1;\n"
        "mad.lo.u32 %%r5, %%r2, %d, %%r3; mul.lo.u32 %%r5, %%r5, %d; add.u32 %%r5, %%r5, %%r6;\n"
        "cvt.u64.u32 %%rd5, %%r5; add.u64 %%rd5, %%rd5, %%rd2;\n"
        "and.b32 %%r7, %%r3, 7; xor.b32 %%r7, %%r7, %%r4; shl.b32 %%r7, %%r7, 4; shl.b32 %%r8, %%r3, 7;\n"
        "mov.u32 %%r9, tiles; add.u32 %%r10, %%r9, %%r8; add.u32 %%r10, %%r10, %%r7; shr.u32 %%r11, %%r0, 5;\n"
        "and.b32 %%r12, %%r0, 31; shr.u32 %%r13, %%r12, 2; and.b32 %%r14, %%r12, 3;\n",
        TILE_M, 2 * K, TILE_N, 2 * K);
}

static void fetch(Text *t) {
    for (int j = 0; j < (TILE_M + TILE_N) / 32; j++) {
        const int of_b = j >= TILE_M / 32, line = (of_b ? j - TILE_M / 32 : j) * 32;
        put(t,
            "ld.global.v4.b32 {%%v0,%%v1,%%v2,%%v3}, [%%rd%d+%d]; st.shared.v4.b32 [%%r10+%d], "
            "{%%v0,%%v1,%%v2,%%v3};\n",
            of_b ? 5 : 4, line * 2 * K, line * LINE + (of_b ? A_BYTES : 0));
    }
    put(t, "add.u64 %%rd4, %%rd4, %d; add.u64 %%rd5, %%rd5, %d;\n", LINE, LINE);
}

static void repeat(Text *t) {
    put(t, "bar.sync 0; add.u32 %%r20, %%r20, 1; setp.lt.u32 %%p2, %%r20, %d; @%%p2 bra LOOP;\n", K / TILE_K);
}

/* A lane has, of every 8 columns, two neighbours in row r21 and in row r21 + 8; columns from r22. */
static void epilogue(Text *t, int columns) {
    put(t,
        "mad.lo.u32 %%r23, %%r1, %d, %%r21; mul.lo.u32 %%r23, %%r23, %d; mad.lo.u32 %%r24, %%r2, %d, %%r22;\n"
        "add.u32 %%r23, %%r23, %%r24; shl.b32 %%r25, %%r14, 1; add.u32 %%r23, %%r23, %%r25; mad.wide.u32 %%rd6, %%r23, "
        "4, %%rd3;\n",
        TILE_M, N, TILE_N);
    for (int j = 0; j < columns / 8; j++)
        for (int half = 0; half < 2; half++)
            put(t, "st.global.v2.f32 [%%rd6+%d], {%%d%d, %%d%d};\n", j * 32 + half * 8 * N * 4, 4 * j + 2 * half,
                4 * j + 2 * half + 1);
    put(t, "ret;\n}\n");
}

/* Two warpgroups with 64 rows each; four wgmma of m64n256k16 a turn.  A turn's tiles come by bulk copies: in global
 * memory they already lie as in shared memory, tile after tile. */
static char *wgmma_kernel(void) {
    Text t = {0};
    put(&t,
        HEAD(
            "sm_90a",
            "8.0") ".extern .shared .align 1024 .b8 tiles[];\n"
                   ".entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n.reqntid %d, 1, 1\n{\n"
                   ".reg .pred %%p<5>; .reg .b32 %%r<60>; .reg .f32 %%d<128>; .reg .b64 %%rd<40>;\n.shared .align 8 "
                   ".b64 full;\n"
                   "ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [b]; ld.param.u64 %%rd3, [c]; mov.u32 %%r0, %%tid.x;\n"
                   "mov.u32 %%r1, %%ctaid.y; mov.u32 %%r2, %%ctaid.x; shr.u32 %%r11, %%r0, 5; and.b32 %%r12, %%r0, 31; "
                   "shr.u32 %%r13, %%r12, 2; "
                   "and.b32 %%r14, %%r12, 3;\nmov.u32 %%r9, tiles; mad.wide.u32 %%rd4, %%r1, %d, %%rd1; mad.wide.u32 "
                   "%%rd5, %%r2, %d, %%rd2;\n"
                   "setp.eq.u32 %%p3, %%r0, 0; @%%p3 mbarrier.init.shared.b64 [full], 1; fence.proxy.async; bar.sync "
                   "0;\n",
        THREADS, TILE_M * K * 2, TILE_N * K * 2);
    put(&t,
        "shr.u32 %%r15, %%r0, 7; shl.b32 %%r16, %%r15, 13; add.u32 %%r16, %%r16, %%r9; shr.u32 %%r16, %%r16, 4;\n"
        "cvt.u64.u32 %%rd10, %%r16; or.b64 %%rd10, %%rd10, 0x4000004000010000; add.u32 %%r17, %%r9, %d; shr.u32 %%r18, "
        "%%r17, 4;\n"
        "cvt.u64.u32 %%rd11, %%r18; or.b64 %%rd11, %%rd11, 0x4000004000010000; mov.u32 %%r20, 0;\n"
        "setp.eq.u32 %%p0, 0, 0;\nLOOP:\n@!%%p3 bra WAIT;\n",
        A_BYTES);
    put(&t,
        "mbarrier.arrive.expect_tx.shared.b64 _, [full], %d;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%r9], [%%rd4], %d, [full];\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%r17], [%%rd5], %d, [full];\n"
        "add.u64 %%rd4, %%rd4, %d; add.u64 %%rd5, %%rd5, %d;\n",
        A_BYTES + B_BYTES, A_BYTES, B_BYTES, A_BYTES, B_BYTES);
    put(&t, "WAIT:\nand.b32 %%r19, %%r20, 1;\nAGAIN: mbarrier.try_wait.parity.shared.b64 %%p4, [full], %%r19; @!%%p4 "
            "bra AGAIN;\n"
            "setp.ne.u32 %%p1, %%r20, 0; wgmma.fence.sync.aligned;\n");
    for (int k = 0; k < TILE_K / 16; k++) {
        put(&t,
            "add.u64 %%rd12, %%rd10, %d; add.u64 %%rd13, %%rd11, %d;\n"
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {",
            2 * k, 2 * k);
        for (int r = 0; r < 128; r++) put(&t, "%s%%d%d", r ? "," : "", r);
        put(&t, "}, %%rd12, %%rd13, %%p%d, 1, 1, 0, 0;\n", k ? 0 : 1);
    }
    put(&t, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
    repeat(&t);
    put(&t, "shl.b32 %%r21, %%r11, 4; add.u32 %%r21, %%r21, %%r13; mov.u32 %%r22, 0;\n");
    epilogue(&t, TILE_N);
    return t.data;
}

static void mma_step(Text *t, int k) {
    /* rows of A by lane % 16, of B by lane % 8 and lane / 16; the chunk along K by lane / 16, (lane / 8) % 2 */
    put(t,
        "xor.b32 %%r40, %%r30, %d; add.u32 %%r40, %%r40, %%r31; ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%%r50,%%r51,%%r52,%%r53}, [%%r40];\n",
        k * 32);
    put(t, "xor.b32 %%r41, %%r32, %d; add.u32 %%r41, %%r41, %%r33;\n", k * 32);
    for (int j = 0; j < 16; j += 2) {
        put(t, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r54,%%r55,%%r56,%%r57}, [%%r41+%d];\n", j * 8 * LINE);
        for (int x = 0; x < 2; x++) {
            const int d = 4 * (j + x);
            put(t,
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%%d%d,%%d%d,%%d%d,%%d%d}, "
                "{%%r50,%%r51,%%r52,%%r53}, "
                "{%%r%d,%%r%d}, {%%d%d,%%d%d,%%d%d,%%d%d};\n",
                d, d + 1, d + 2, d + 3, 54 + 2 * x, 55 + 2 * x, d, d + 1, d + 2, d + 3);
        }
    }
}

/* Warp w: rows 16 w of the block's 128, columns 0-127; blocks of 128 columns are the grid's, so half of B's tile. */
static char *mma_kernel(void) {
    Text t = {0};
    prologue(&t, HEAD("sm_80", "8.0"));
    put(&t,
        "and.b32 %%r34, %%r12, 15; shl.b32 %%r35, %%r11, 4; add.u32 %%r35, %%r35, %%r34; shl.b32 %%r31, %%r35, 7; "
        "add.u32 %%r31, %%r31, %%r9;\n"
        "shr.u32 %%r36, %%r12, 4; and.b32 %%r37, %%r35, 7; xor.b32 %%r30, %%r36, %%r37; shl.b32 %%r30, %%r30, 4;\n"
        "and.b32 %%r38, %%r12, 7; shl.b32 %%r39, %%r36, 3; add.u32 %%r39, %%r39, %%r38; shl.b32 %%r33, %%r39, 7; "
        "add.u32 %%r33, %%r33, %%r9; "
        "add.u32 %%r33, %%r33, %d;\nshr.u32 %%r42, %%r12, 3; and.b32 %%r42, %%r42, 1; xor.b32 %%r32, %%r42, %%r38; "
        "shl.b32 %%r32, %%r32, 4;\n"
        "mov.u32 %%r20, 0;\n",
        A_BYTES);
    for (int r = 0; r < 128; r++) put(&t, "mov.f32 %%d%d, 0f00000000;\n", r);
    put(&t, "LOOP:\n");
    fetch(&t);
    put(&t, "bar.sync 0;\n");
    for (int k = 0; k < TILE_K / 16; k++) mma_step(&t, k);
    repeat(&t);
    put(&t, "shl.b32 %%r21, %%r11, 4; add.u32 %%r21, %%r21, %%r13; mov.u32 %%r22, 0;\n");
    epilogue(&t, 128);
    return t.data;
}

static uint16_t entry(uint32_t k) { /* small integers: every product and sum is exact */
    const float f = (float)((int)(k * 2654435761u >> 20) % 9 - 4);
    union {
        float f;
        uint32_t bits;
    } x = {f};
    return (uint16_t)(x.bits >> 16);
}
static float number(uint16_t h) {
    union {
        uint32_t bits;
        float f;
    } x = {(uint32_t)h << 16};
    return x.f;
}

/* Of every tile's TILE_N columns the first `columns` are there. */
static void verify(const char *name, const uint16_t *a, const uint16_t *b, const float *c, int columns) {
    for (int i = 0; i < M; i++)
        for (int j = i % 5; j < N; j += 5) {
            float want = 0;
            if (j % TILE_N >= columns) continue;
            for (int k = 0; k < K; k++) want += number(a[i * K + k]) * number(b[j * K + k]);
            if (c[i * N + j] != want)
                fail("%s: [%d, %d] is %g, not %g", name, i, j, (double)c[i * N + j], (double)want);
        }
}

/* Tile after tile along K, each as it lies in shared memory: lines swizzled over 128 bytes. */
static void tile(uint16_t *to, const uint16_t *from, int rows, int tile_rows) {
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < K; k++) {
            const int line = r % tile_rows, chunk = (k % TILE_K / 8) ^ (line % 8);
            to[(r / tile_rows * K / TILE_K + k / TILE_K) * tile_rows * TILE_K + line * TILE_K + chunk * 8 + k % 8] =
                from[r * K + k];
        }
}

static void product(const char *name, char *text, int columns, bool tiled) {
    static uint16_t a[M * K], b[N * K], tiled_a[M * K], tiled_b[N * K];
    static float c[M * N];
    for (uint32_t k = 0; k < M * K; k++) a[k] = entry(k);
    for (uint32_t k = 0; k < N * K; k++) b[k] = entry(k + M * K);
    CUmodule module;
    CUfunction f = load(&module, text, "k");
    const unsigned shared = tiled ? A_BYTES + B_BYTES : 0;
    if (tiled)
        must(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared),
             "cuFuncSetAttribute");
    tile(tiled_a, a, M, TILE_M);
    tile(tiled_b, b, N, TILE_N);
    CUdeviceptr pa = upload(tiled ? tiled_a : a, sizeof a), pb = upload(tiled ? tiled_b : b, sizeof b),
                pc = upload(c, sizeof c);
    const Figures r = measure(f, N / TILE_N, M / TILE_M, shared, (void *[]){&pa, &pb, &pc});
    must(cu.cuMemcpyDtoH_v2(c, pc, sizeof c), "cuMemcpyDtoH");
    verify(name, a, b, c, columns);
    printf("ptxsim.%s.gflops_per_core\t%.2f\tGFLOP/s\n", name, 2e-9 * M * N * K * columns / TILE_N / r.seconds);
    cu.cuMemFree_v2(pa);
    cu.cuMemFree_v2(pb);
    cu.cuMemFree_v2(pc);
    cu.cuModuleUnload(module);
    free(text);
}

void matrix_instructions(void) {
    product("wgmma", wgmma_kernel(), TILE_N, true);
    product("mma", mma_kernel(), 128, false);
}
