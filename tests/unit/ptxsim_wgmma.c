/* wgmma: shapes, types, layouts of operands in shared memory.  Layouts and fragments are
 * written down here a second time, from the text and figures of the PTX ISA ("Shared Memory Matrix Layout", "Register
 * Fragments" of wgmma.mma_async): the swizzles by which chunk of 16 bytes sits where in a line of 128 bytes. */
#include "ptxsim_driver.h"
#include "bench/gpu/calibrate/wgmma_operand.h"
#include <math.h>
#include <stdbool.h>

typedef enum Element { F16, BF16, TF32, E4M3, E5M2, S8, U8, F32, S32 } Element;
static const struct {
    const char *text;
    int bytes;
} ELEMENT[] = {
    [F16] = {"f16", 2}, [BF16] = {"bf16", 2}, [TF32] = {"tf32", 4}, [E4M3] = {"e4m3", 1}, [E5M2] = {"e5m2", 1},
    [S8] = {"s8", 1},   [U8] = {"u8", 1},     [F32] = {"f32", 4},   [S32] = {"s32", 4}};

enum { THREADS = 128, M = 64, B_AT = 16384, SHARED = 49152 };

typedef struct Case {
    int n;
    Element d, a, b;
    Side left, right;
    bool registers; /* A from registers */
    bool fresh;     /* scale-d false */
    int sign_a, sign_b;
} Case;

static int depth(const Case *c) { return 32 / ELEMENT[c->a].bytes; }

/* ---- small integers in every format ------------------------------------------------------------------- */
static uint32_t encode(Element t, int v) { /* |v| <= 4 */
    static const uint8_t E4M3_OF[] = {0x00, 0x38, 0x40, 0x44, 0x48}, E5M2_OF[] = {0x00, 0x3c, 0x40, 0x42, 0x44};
    const float f = (float)v;
    const int a = abs(v);
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    switch (t) {
    case F16: return (uint32_t)(E5M2_OF[a] | (v < 0) << 7) << 8;
    case BF16: return w >> 16;
    case E4M3: return (uint32_t)(E4M3_OF[a] | (v < 0) << 7);
    case E5M2: return (uint32_t)(E5M2_OF[a] | (v < 0) << 7);
    case TF32:
    case F32: return w;
    default: return (uint32_t)v;
    }
}

static double decode_half(uint32_t h) {
    const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static int value(Element t, int row, int col, int salt) {
    const uint32_t h = (uint32_t)(row * 131 + col * 71 + salt * 977 + 7) * 2654435761u >> 20;
    return t == U8 ? (int)(h % 5) : (int)(h % 9) - 4;
}

/* ---- layouts ------------------------------------------------------------------------------------------ */
/* Lines of 128 bytes hold 128 / swizzle rows of the pattern.  Chunk c of row r sits where chunk c ^ x would, x being
 * the line's number in the pattern: of 2 lines (32 bytes), 4 (64 bytes), 8 (128 bytes). */
static int chunk_in_row(int swizzle, int row, int chunk) {
    const int line = row * swizzle / 128, pattern = swizzle / 16;
    return chunk ^ line % pattern;
}

/* Where element (row, k) lies. */
static int place(const Side *s, int rows, int bytes, int row, int k) {
    const int stride = stride_of(s, rows, bytes), leading = leading_of(s, rows);
    if (!s->mn_major) {
        const int at = k * bytes + s->advance, r = row % 8;
        if (s->swizzle == 16) return row / 8 * stride + at / 16 * leading + r * 16 + at % 16;
        return row / 8 * stride + r * s->swizzle + chunk_in_row(s->swizzle, r, at / 16) * 16 + at % 16;
    }
    const int wide = s->swizzle / bytes, q = row % wide * bytes, r = k % 8;
    if (s->swizzle == 16) return row / 8 * stride + k / 8 * leading + r * 16 + q;
    return row / wide * leading + k / 8 * stride + r * s->swizzle + chunk_in_row(s->swizzle, r, q / 16) * 16 + q % 16;
}

/* ---- fragments ---------------------------------------------------------------------------------------- */
/* Register i of thread t: rows 16 (t / 32) .. of the warp; within, as mma.sync.m16n8: lane = 4 row + ... */
static int row_of(int t, int i) {
    return t / 32 * 16 + t % 32 / 4 + (i / 2 % 2) * 8;
} /* element i of the accumulators */
static int col_of(int t, int i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }

static void fill_a_registers(const Case *c,
                             uint32_t out[4][THREADS]) { /* register r: rows +8 for odd r, K half r / 2 */
    const int bytes = ELEMENT[c->a].bytes, e = 4 / bytes;
    for (int r = 0; r < 4; r++)
        for (int t = 0; t < THREADS; t++) {
            out[r][t] = 0;
            for (int x = 0; x < e; x++) {
                const int row = t / 32 * 16 + t % 32 / 4 + r % 2 * 8, k = r / 2 * 4 * e + t % 4 * e + x;
                const uint32_t v = encode(c->a, value(c->a, row, k, 1));
                out[r][t] |= (bytes == 4 ? v : v & ((1u << 8 * bytes) - 1)) << 8 * bytes * x;
            }
        }
}

/* ---- the kernel --------------------------------------------------------------------------------------- */
static int registers_of(const Case *c) { return c->d == F16 ? c->n / 4 : c->n / 2; }

static void kernel_text(char *t, size_t room, const Case *c) {
    const int nd = registers_of(c);
    const bool halves = ELEMENT[c->a].bytes == 2, integer = c->d == S32;
    int n =
        snprintf(t, room,
                 ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n"
                 ".entry k(.param .u64 image, .param .u64 a, .param .u64 d, .param .u64 da, .param .u64 db)\n{\n"
                 ".reg .b64 %%p<8>, %%e<2>; .reg .b32 %%x<8>, %%a<4>; .reg .%s %%d<128>; .reg .pred %%q<3>;\n"
                 "ld.param.u64 %%p0, [image]; ld.param.u64 %%p1, [a]; ld.param.u64 %%p2, [d]; ld.param.u64 %%e0, [da]; "
                 "ld.param.u64 %%e1, [db];\nmov.u32 %%x0, %%tid.x; mad.wide.u32 %%p1, %%x0, 4, %%p1; mad.wide.u32 "
                 "%%p2, %%x0, 4, %%p2;\n"
                 "shl.b32 %%x1, %%x0, 4; mov.u32 %%x2, s; add.u32 %%x2, %%x2, %%x1; cvt.u64.u32 %%p3, %%x1; add.u64 "
                 "%%p0, %%p0, %%p3;\n"
                 "mov.u32 %%x3, 0;\nCOPY: ld.global.v4.b32 {%%x4,%%x5,%%x6,%%x7}, [%%p0]; st.shared.v4.b32 [%%x2], "
                 "{%%x4,%%x5,%%x6,%%x7};\n"
                 "add.u64 %%p0, %%p0, 2048; add.u32 %%x2, %%x2, 2048; add.u32 %%x3, %%x3, 2048; setp.lt.u32 %%q0, "
                 "%%x3, %d; @%%q0 bra COPY;\n"
                 "fence.proxy.async; bar.sync 0;\n",
                 c->d == F32 ? "f32" : "b32", SHARED);
    for (int r = 0; c->registers && r < 4; r++)
        n += snprintf(t + n, room - (size_t)n, "ld.global.b32 %%a%d, [%%p1+%d];\n", r, r * THREADS * 4);
    for (int r = 0; r < nd; r++)
        n += snprintf(t + n, room - (size_t)n, "ld.global.%s %%d%d, [%%p2+%d];\n", c->d == F32 ? "f32" : "b32", r,
                      r * THREADS * 4);
    n += snprintf(
        t + n, room - (size_t)n,
        "setp.%s.u32 %%q1, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {",
        c->fresh ? "ne" : "eq", c->n, depth(c), ELEMENT[c->d].text, ELEMENT[c->a].text, ELEMENT[c->b].text);
    for (int r = 0; r < nd; r++) n += snprintf(t + n, room - (size_t)n, "%s%%d%d", r ? "," : "", r);
    n += snprintf(t + n, room - (size_t)n, "}, %s, %%e1, %%q1", c->registers ? "{%a0,%a1,%a2,%a3}" : "%e0");
    if (!integer) n += snprintf(t + n, room - (size_t)n, ", %d, %d", c->sign_a, c->sign_b);
    if (halves && !c->registers) n += snprintf(t + n, room - (size_t)n, ", %d", c->left.mn_major);
    if (halves) n += snprintf(t + n, room - (size_t)n, ", %d", c->right.mn_major);
    n += snprintf(t + n, room - (size_t)n, ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
    for (int r = 0; r < nd; r++)
        n += snprintf(t + n, room - (size_t)n, "st.global.%s [%%p2+%d], %%d%d;\n", c->d == F32 ? "f32" : "b32",
                      r * THREADS * 4, r);
    snprintf(t + n, room - (size_t)n, "ret;\n}\n");
}

static int start_value(const Case *c, int row, int col) { return value(c->d == S32 ? S8 : F16, row, col, 3); }

static void fill_image(const Case *c, uint8_t *image) {
    const int eb = ELEMENT[c->a].bytes;
    memset(image, 0x55, SHARED);
    for (int k = 0; k < depth(c); k++) {
        for (int row = 0; row < M; row++) {
            const uint32_t v = encode(c->a, value(c->a, row, k, 1));
            memcpy(image + place(&c->left, M, eb, row, k), &v, (size_t)eb);
        }
        for (int col = 0; col < c->n; col++) {
            const uint32_t v = encode(c->b, value(c->b, col, k, 2));
            memcpy(image + B_AT + place(&c->right, c->n, eb, col, k), &v, (size_t)eb);
        }
    }
}

static void fill_sums(const Case *c, uint32_t (*d)[THREADS]) {
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < c->n / 2; i++) {
            const uint32_t v = encode(c->d, start_value(c, row_of(t, i), col_of(t, i)));
            if (c->d == F16)
                d[i / 2][t] = (i % 2 ? d[i / 2][t] : 0) | v << 16 * (i % 2);
            else
                d[i][t] = v;
        }
}

static double sum_at(const Case *c, uint32_t (*d)[THREADS], int t, int i) {
    float f;
    if (c->d == F16) return decode_half(d[i / 2][t] >> 16 * (i % 2) & 0xffff);
    if (c->d == S32) return (int32_t)d[i][t];
    memcpy(&f, &d[i][t], sizeof f);
    return f;
}

static void run_case(const Case *c, const char *name) {
    static uint8_t image[SHARED];
    static uint32_t d[128][THREADS], a[4][THREADS];
    static char text[32768];
    uint64_t da = descriptor(&c->left, M, ELEMENT[c->a].bytes, 0),
             db = descriptor(&c->right, c->n, ELEMENT[c->b].bytes, B_AT);
    kernel_text(text, sizeof text, c);
    fill_image(c, image);
    fill_sums(c, d);
    fill_a_registers(c, a);
    const uint64_t before = findings();
    CUdeviceptr pi = upload(image, sizeof image), pa = upload(a, sizeof a), pd = upload(d, sizeof d);
    CUfunction f = load_kernel(text, "k");
    assert_int_equal(
        cu.cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, SHARED, NULL, (void *[]){&pi, &pa, &pd, &da, &db}, NULL),
        CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyDtoH_v2(d, pd, sizeof d), CUDA_SUCCESS);
    if (findings() != before) fail_msg("%s: a finding", name);
    cu.cuMemFree_v2(pi), cu.cuMemFree_v2(pa), cu.cuMemFree_v2(pd);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < c->n / 2; i++) {
            const int row = row_of(t, i), col = col_of(t, i);
            double want = 0;
            for (int k = 0; k < depth(c); k++) want += value(c->a, row, k, 1) * value(c->b, col, k, 2);
            if (c->d != S32) want *= c->sign_a * c->sign_b;
            want += c->fresh ? 0 : start_value(c, row, col);
            if (sum_at(c, d, t, i) != want)
                fail_msg("%s, n %d, swizzle %d %d: D[%d][%d] is %g, not %g", name, c->n, c->left.swizzle,
                         c->right.swizzle, row, col, sum_at(c, d, t, i), want);
        }
}

/* ---- values ------------------------------------------------------------------------------------------- */
#define PLAIN .left = {.swizzle = 128}, .right = {.swizzle = 128}, .sign_a = 1, .sign_b = 1
static void every_type(void **state) {
    (void)state;
    static const struct {
        Element d, a, b;
    } TYPES[] = {{F32, F16, F16},   {F16, F16, F16},   {F32, BF16, BF16}, {F32, TF32, TF32}, {F32, E4M3, E4M3},
                 {F32, E4M3, E5M2}, {F32, E5M2, E4M3}, {F16, E5M2, E5M2}, {F16, E4M3, E5M2}, {S32, S8, S8},
                 {S32, U8, U8},     {S32, S8, U8},     {S32, U8, S8}};
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (int n = 8; n <= 256; n += n == 32 ? 32 : n == 8 || n == 64 ? 16 : 48 + 8 * (n == 24)) {
            if (TYPES[k].d == S32 && n > 32 && n % 16) continue;
            Case c = {.n = n, .d = TYPES[k].d, .a = TYPES[k].a, .b = TYPES[k].b, PLAIN};
            run_case(&c, "type");
            c.registers = true;
            run_case(&c, "type, A from registers");
        }
}

static void every_n(void **state) {
    (void)state;
    for (int n = 8; n <= 256; n += 8) {
        const Case c = {.n = n, .d = F32, .a = BF16, .b = BF16, PLAIN};
        run_case(&c, "n");
    }
}

static void every_layout(void **state) {
    (void)state;
    static const int SWIZZLE[] = {16, 32, 64, 128};
    for (int l = 0; l < 4; l++)
        for (int r = 0; r < 4; r++)
            for (int major = 0; major < 4; major++)
                for (int n = 8; n <= 136; n += 64) {
                    Case c = {.n = n, .d = F32, .a = F16, .b = F16, PLAIN};
                    c.left = (Side){.swizzle = SWIZZLE[l], .mn_major = major & 1};
                    c.right = (Side){.swizzle = SWIZZLE[r], .mn_major = major >> 1};
                    run_case(&c, "layout");
                }
}

/* K steps within a swizzled row: the descriptor's start advances by 32 bytes, the pattern stays. */
static void steps_along_k(void **state) {
    (void)state;
    for (int step = 32; step < 128; step += 32) {
        Case c = {.n = 64, .d = F32, .a = BF16, .b = BF16, PLAIN};
        c.left.advance = c.right.advance = step;
        run_case(&c, "step");
    }
    Case c = {.n = 40, .d = F32, .a = E4M3, .b = E4M3, PLAIN};
    c.left = c.right = (Side){.swizzle = 64, .advance = 32};
    run_case(&c, "step");
}

static void scales(void **state) {
    (void)state;
    for (int x = 0; x < 8; x++) {
        Case c = {.n = 16, .d = F32, .a = F16, .b = F16, PLAIN};
        c.fresh = x & 1;
        c.sign_a = x & 2 ? -1 : 1;
        c.sign_b = x & 4 ? -1 : 1;
        run_case(&c, "scale");
        c.d = F16;
        c.registers = true;
        run_case(&c, "scale");
    }
}

/* A wrong swizzle is no fault that can be seen but in the values. */
static void a_wrong_swizzle_shows_in_the_values(void **state) {
    (void)state;
    static uint8_t image[SHARED];
    static uint32_t d[128][THREADS], a[4][THREADS], right[128][THREADS];
    static char text[32768];
    const Case c = {.n = 64, .d = F32, .a = F16, .b = F16, PLAIN};
    kernel_text(text, sizeof text, &c);
    fill_image(&c, image);
    CUfunction f = load_kernel(text, "k");
    uint64_t da = descriptor(&c.left, M, 2, 0), db = descriptor(&c.right, c.n, 2, B_AT);
    for (int mode = 1; mode <= 3; mode++) {
        fill_sums(&c, d);
        db = (db & ~(UINT64_C(3) << 62)) | (uint64_t)mode << 62;
        CUdeviceptr pi = upload(image, sizeof image), pa = upload(a, sizeof a), pd = upload(d, sizeof d);
        assert_int_equal(
            cu.cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, SHARED, NULL, (void *[]){&pi, &pa, &pd, &da, &db}, NULL),
            CUDA_SUCCESS);
        cu.cuMemcpyDtoH_v2(mode == 1 ? right : d, pd, sizeof d);
        if (mode != 1) assert_memory_not_equal(d, right, sizeof d);
        cu.cuMemFree_v2(pi), cu.cuMemFree_v2(pa), cu.cuMemFree_v2(pd);
    }
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    setenv("PTXSIM_DEVICE", "sm_90", 0);
    driver_open();
    const struct CMUnitTest tests[] = {RUN(every_type),    RUN(every_n), RUN(every_layout),
                                       RUN(steps_along_k), RUN(scales),  RUN(a_wrong_swizzle_shows_in_the_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
