/* ldmatrix, stmatrix, movmatrix and every form of mma.sync.  Where an element of a matrix lies in the fragments is
 * written down here a second time, from the formulas of the PTX ISA ("Matrix fragments for mma.m16n8k16", ...). */
#include "ptxsim_driver.h"
#include <math.h>
#include <stdbool.h>

typedef enum Element { F16, BF16, TF32, F64, S8, U8, S4, U4, E4M3, E5M2, F32, S32 } Element;
static const struct {
    const char *text;
    int bits;
} ELEMENT[] = {[F16] = {"f16", 16},  [BF16] = {"bf16", 16}, [TF32] = {"tf32", 32}, [F64] = {"f64", 64},
               [S8] = {"s8", 8},     [U8] = {"u8", 8},      [S4] = {"s4", 4},      [U4] = {"u4", 4},
               [E4M3] = {"e4m3", 8}, [E5M2] = {"e5m2", 8},  [F32] = {"f32", 32},   [S32] = {"s32", 32}};

typedef struct Form {
    int m, n, k;
    Element d, a, b;
} Form;

static const Form FORMS[] = {
#define MMA(m, n, k, d, a, b) {m, n, k, d, a, b},
#include "bench/gpu/calibrate/mma_forms.def"
#undef MMA
};

/* ---- small integers in every format ------------------------------------------------------------------- */
static uint64_t encode(Element t, int v) { /* |v| <= 4 */
    static const uint8_t E4M3_OF[] = {0x00, 0x38, 0x40, 0x44, 0x48}, E5M2_OF[] = {0x00, 0x3c, 0x40, 0x42, 0x44};
    const float f = (float)v;
    const double d = v;
    const int a = abs(v);
    uint32_t w;
    uint64_t x;
    memcpy(&w, &f, sizeof w);
    memcpy(&x, &d, sizeof x);
    switch (t) {
    case F16: return (uint64_t)(E5M2_OF[a] | (v < 0) << 7) << 8;
    case BF16: return w >> 16;
    case TF32:
    case F32: return w;
    case F64: return x;
    case E4M3: return (uint64_t)(E4M3_OF[a] | (v < 0) << 7);
    case E5M2: return (uint64_t)(E5M2_OF[a] | (v < 0) << 7);
    case S32: return (uint32_t)v;
    case S4:
    case U4: return (uint64_t)v & 15;
    default: return (uint64_t)v & 255;
    }
}

static double decode_half(uint32_t h) {
    const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static int value(Element t, int row, int col, int salt) { /* 0..4 when unsigned, -4..4 otherwise */
    const uint32_t h = (uint32_t)(row * 131 + col * 71 + salt * 977 + 7) * 2654435761u >> 20;
    return t == U8 || t == U4 ? (int)(h % 5) : (int)(h % 9) - 4;
}

/* ---- fragments ---------------------------------------------------------------------------------------- */
/* Element i of lane l: groupID = l >> 2, threadID_in_group = l % 4.  A register holds 32 (f64: 64) bits: `e` elements
 * of consecutive columns of A.  The registers alternate between rows 0-7 and 8-15 (if m is 16), then go on along k. */
static void position_a(const Form *f, int lane, int i, int *row, int *col) {
    const int e = ELEMENT[f->a].bits == 64 ? 1 : 32 / ELEMENT[f->a].bits, r = i / e;
    *row = (lane >> 2) + (f->m == 16 && r % 2 ? 8 : 0);
    *col = lane % 4 * e + i % e + (f->m == 16 ? r / 2 : r) * 4 * e;
}
static void position_b(const Form *f, int lane, int i, int *row, int *col) {
    const int e = ELEMENT[f->b].bits == 64 ? 1 : 32 / ELEMENT[f->b].bits;
    *row = lane % 4 * e + i % e + i / e * 4 * e;
    *col = lane >> 2;
}
static void position_c(int lane, int i, int *row, int *col) {
    *row = (lane >> 2) + (i >= 2 ? 8 : 0);
    *col = lane % 4 * 2 + i % 2;
}

typedef enum Which { A, B, C } Which;
static int elements_per_lane(const Form *f, Which x) {
    return (x == A ? f->m * f->k : x == B ? f->k * f->n : f->m * f->n) / 32;
}
static Element element_of(const Form *f, Which x) { return x == A ? f->a : x == B ? f->b : f->d; }
static size_t fragment_bytes(const Form *f, Which x) {
    return (size_t)elements_per_lane(f, x) * 32 * (size_t)ELEMENT[element_of(f, x)].bits / 8;
}
static void position(const Form *f, Which x, int lane, int i, int *row, int *col) {
    if (x == A)
        position_a(f, lane, i, row, col);
    else if (x == B)
        position_b(f, lane, i, row, col);
    else
        position_c(lane, i, row, col);
}

/* Registers as memory: [register][lane], the first element of a register lowest. */
static size_t element_bit(Element t, int lane, int i) {
    const int bits = ELEMENT[t].bits, width = bits == 64 ? 64 : 32, e = width / bits;
    return ((size_t)(i / e) * 32 + (size_t)lane) * (size_t)width + (size_t)(i % e * bits);
}
static void put(uint8_t *memory, Element t, int lane, int i, uint64_t v) {
    const size_t at = element_bit(t, lane, i);
    if (ELEMENT[t].bits == 4)
        memory[at / 8] = (uint8_t)(memory[at / 8] | v << at % 8);
    else
        memcpy(memory + at / 8, &v, (size_t)ELEMENT[t].bits / 8);
}
static double get(const uint8_t *memory, Element t, int lane, int i) {
    const uint8_t *at = memory + element_bit(t, lane, i) / 8;
    float f;
    double d;
    int32_t s;
    uint16_t h;
    switch (t) {
    case F32: memcpy(&f, at, sizeof f); return f;
    case F64: memcpy(&d, at, sizeof d); return d;
    case F16: memcpy(&h, at, sizeof h); return decode_half(h);
    default: memcpy(&s, at, sizeof s); return s;
    }
}

/* ---- one kernel per form: fragments from memory, one mma, fragments to memory --------------------------- */
static int list(char *to, size_t room, const char *name, int count) {
    int n = snprintf(to, room, "{");
    for (int r = 0; r < count; r++) n += snprintf(to + n, room - (size_t)n, "%s%%%s%d", r ? "," : "", name, r);
    return n + snprintf(to + n, room - (size_t)n, "}");
}

static int moves(char *to, size_t room, bool store, const char *name, const char *type, int count, int bytes) {
    int n = 0;
    for (int r = 0; r < count; r++)
        n += store ? snprintf(to + n, room - (size_t)n, "st.global.%s [%%p%s+%d], %%%s%d;\n", type, name,
                              r * 32 * bytes, name, r)
                   : snprintf(to + n, room - (size_t)n, "ld.global.%s %%%s%d, [%%p%s+%d];\n", type, name, r, name,
                              r * 32 * bytes);
    return n;
}

/* Block x takes the x-th A and writes the x-th D. */
static void form_text(char *t, size_t room, const Form *f, const char *modifier) {
    const int wide = f->a == F64 ? 8 : 4;
    const char *type = wide == 8 ? "f64" : "b32";
    const int na = (int)(fragment_bytes(f, A) / 32) / wide, nb = (int)(fragment_bytes(f, B) / 32) / wide,
              nc = (int)(fragment_bytes(f, C) / 32) / wide;
    int n = snprintf(
        t, room,
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 a, .param .u64 b, .param .u64 c, "
        ".param .u64 d)\n{\n.reg .b64 %%p<9>, %%pa, %%pb, %%pc, %%pd; .reg .b32 %%x<4>;\n"
        ".reg .%s %%a<8>, %%b<8>, %%c<8>, %%d<8>;\n"
        "ld.param.u64 %%pa, [a]; ld.param.u64 %%pb, [b]; ld.param.u64 %%pc, [c]; ld.param.u64 %%pd, [d];\n"
        "mov.u32 %%x0, %%tid.x; mov.u32 %%x1, %%ctaid.x;\n"
        "mad.wide.u32 %%pa, %%x0, %d, %%pa; mad.wide.u32 %%pb, %%x0, %d, %%pb; mad.wide.u32 %%pc, %%x0, %d, %%pc; "
        "mad.wide.u32 %%pd, %%x0, %d, %%pd;\nmad.wide.u32 %%pa, %%x1, %d, %%pa; mad.wide.u32 %%pd, %%x1, %d, %%pd;\n",
        type, wide, wide, wide, wide, (int)fragment_bytes(f, A), (int)fragment_bytes(f, C));
    n += moves(t + n, room - (size_t)n, false, "a", type, na, wide);
    n += moves(t + n, room - (size_t)n, false, "b", type, nb, wide);
    n += moves(t + n, room - (size_t)n, false, "c", type, nc, wide);
    n += snprintf(t + n, room - (size_t)n, "mma.sync.aligned.m%dn%dk%d.row.col%s.%s.%s.%s.%s ", f->m, f->n, f->k,
                  modifier, ELEMENT[f->d].text, ELEMENT[f->a].text, ELEMENT[f->b].text, ELEMENT[f->d].text);
    n += list(t + n, room - (size_t)n, "d", nc);
    n += snprintf(t + n, room - (size_t)n, ", ");
    n += list(t + n, room - (size_t)n, "a", na);
    n += snprintf(t + n, room - (size_t)n, ", ");
    n += list(t + n, room - (size_t)n, "b", nb);
    n += snprintf(t + n, room - (size_t)n, ", ");
    n += list(t + n, room - (size_t)n, "c", nc);
    n += snprintf(t + n, room - (size_t)n, ";\n");
    n += moves(t + n, room - (size_t)n, true, "d", type, nc, wide);
    snprintf(t + n, room - (size_t)n, "ret;\n}\n");
}

static void run_form(const Form *f, const char *modifier, const void *a, int blocks, const void *b, const void *c,
                     void *d) {
    static char text[16384];
    form_text(text, sizeof text, f, modifier);
    const CUdeviceptr pa = upload(a, fragment_bytes(f, A) * (size_t)blocks), pb = upload(b, fragment_bytes(f, B)),
                      pc = upload(c, fragment_bytes(f, C)), pd = upload(NULL, fragment_bytes(f, C) * (size_t)blocks);
    const uint64_t before = findings();
    assert_int_equal(launch1(load_kernel(text, "k"), (unsigned)blocks, 32,
                             (void *[]){(void *)&pa, (void *)&pb, (void *)&pc, (void *)&pd}),
                     CUDA_SUCCESS);
    assert_int_equal(findings(), before);
    cu.cuMemcpyDtoH_v2(d, pd, fragment_bytes(f, C) * (size_t)blocks);
    cu.cuMemFree_v2(pa), cu.cuMemFree_v2(pb), cu.cuMemFree_v2(pc), cu.cuMemFree_v2(pd);
}

static void fill(const Form *f, Which x, uint8_t *memory) {
    memset(memory, 0, fragment_bytes(f, x));
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < elements_per_lane(f, x); i++) {
            int row, col;
            position(f, x, lane, i, &row, &col);
            const Element t = element_of(f, x);
            put(memory, t, lane, i, encode(t, value(t, row, col, (int)x)));
        }
}

/* Block (r, k) has A[r][k] = 1 alone: D is C, and row k of B added to row r of it.  So each place of A and B is proven.
 */
static void one_hot(const Form *f) {
    const size_t one = fragment_bytes(f, A), all = fragment_bytes(f, C);
    uint8_t *a = calloc((size_t)(f->m * f->k), one), *d = calloc((size_t)(f->m * f->k), all), b[4096], c[4096];
    fill(f, B, b);
    fill(f, C, c);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < elements_per_lane(f, A); i++) {
            int row, col;
            position_a(f, lane, i, &row, &col);
            put(a + (size_t)(row * f->k + col) * one, f->a, lane, i, encode(f->a, 1));
        }
    run_form(f, "", a, f->m * f->k, b, c, d);
    for (int block = 0; block < f->m * f->k; block++)
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < elements_per_lane(f, C); i++) {
                int row, col;
                position_c(lane, i, &row, &col);
                const int want =
                    value(f->d, row, col, C) + (row == block / f->k ? value(f->b, block % f->k, col, B) : 0);
                const double got = get(d + (size_t)block * all, f->d, lane, i);
                if (got != want)
                    fail_msg("m%dn%dk%d %s %s, A[%d][%d] = 1: D[%d][%d] is %g, not %d", f->m, f->n, f->k,
                             ELEMENT[f->d].text, ELEMENT[f->a].text, block / f->k, block % f->k, row, col, got, want);
            }
    free(a), free(d);
}

static void every_place_of_every_form(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof FORMS / sizeof *FORMS; k++) one_hot(&FORMS[k]);
}

static void products_of_full_matrices(void **state) {
    (void)state;
    for (size_t x = 0; x < sizeof FORMS / sizeof *FORMS; x++) {
        const Form *f = &FORMS[x];
        uint8_t a[4096], b[4096], c[4096], d[4096];
        fill(f, A, a), fill(f, B, b), fill(f, C, c);
        run_form(f, "", a, 1, b, c, d);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < elements_per_lane(f, C); i++) {
                int row, col;
                position_c(lane, i, &row, &col);
                double want = value(f->d, row, col, C);
                for (int k = 0; k < f->k; k++) want += value(f->a, row, k, A) * value(f->b, k, col, B);
                assert_true(get(d, f->d, lane, i) == want); /* integers below 2048: exact even in f16 */
            }
    }
}

/* ---- numerics ----------------------------------------------------------------------------------------- */
/* Row 0 of A, column 0 of B and C[0][0] as given, all else 0; D[0][0]'s bits. */
static uint32_t dot(const Form *f, const char *modifier, const uint32_t *x, const uint32_t *y, int n, uint32_t sum) {
    uint8_t a[4096] = {0}, b[4096] = {0}, c[4096] = {0}, d[4096];
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0, row, col; i < elements_per_lane(f, A); i++) {
            position_a(f, lane, i, &row, &col);
            if (!row && col < n) put(a, f->a, lane, i, x[col]);
        }
        for (int i = 0, row, col; i < elements_per_lane(f, B); i++) {
            position_b(f, lane, i, &row, &col);
            if (!col && row < n) put(b, f->b, lane, i, y[row]);
        }
    }
    put(c, f->d, 0, 0, sum);
    run_form(f, modifier, a, 1, b, c, d);
    uint32_t r = 0;
    memcpy(&r, d, ELEMENT[f->d].bits == 16 ? 2 : 4);
    return r;
}
#define DOT(form, modifier, sum, x, ...) \
    dot(&(Form)form, modifier, (uint32_t[])x, (uint32_t[])__VA_ARGS__, (int)(sizeof(uint32_t[]) x / 4), sum)
#define SET(...) \
    { __VA_ARGS__ }

static void rounding_and_range(void **state) {
    (void)state;
#define HALF SET(16, 8, 16, F32, F16, F16)
#define HALF_SUM SET(16, 8, 16, F16, F16, F16)
#define BRAIN SET(16, 8, 16, F32, BF16, BF16)
#define BYTES SET(16, 8, 32, S32, S8, S8)
    /* f16 products are exact in f32: 65504 * 65504 = 0xffc00400; the smallest subnormal 2^-24 squared is 2^-48 */
    assert_int_equal(DOT(HALF, "", 0, SET(0x7bff), SET(0x7bff)), 0x4f7fc004);
    assert_int_equal(DOT(HALF, "", 0, SET(0x0001), SET(0x0001)), 0x27800000);
    /* infinity, 0 * infinity, signed zero */
    assert_int_equal(DOT(HALF, "", 0, SET(0xfc00), SET(0x3c00)), 0xff800000);
    assert_int_equal(DOT(HALF, "", 0, SET(0x7c00), SET(0x0000)), 0x7fffffff);
    assert_int_equal(DOT(HALF, "", 0x3f800000, SET(0x7e00), SET(0x3c00)), 0x7fffffff);
    /* k ascending, each sum rounded to f32: 2^24 + 1 + 1 stays, 1 + 1 + 2^24 does not */
    assert_int_equal(DOT(BRAIN, "", 0, SET(0x4b80, 0x3f80, 0x3f80), SET(0x3f80, 0x3f80, 0x3f80)), 0x4b800000);
    assert_int_equal(DOT(BRAIN, "", 0, SET(0x3f80, 0x3f80, 0x4b80), SET(0x3f80, 0x3f80, 0x3f80)), 0x4b800001);
    /* f16 accumulators: rounded once, at the end: 2048 + 1 is 2048 (to even), 2048 + 3 is 2052, 2048 + 1 + 1 is 2050 */
    assert_int_equal(DOT(HALF_SUM, "", 0x6800, SET(0x3c00), SET(0x3c00)), 0x6800);
    assert_int_equal(DOT(HALF_SUM, "", 0x6800, SET(0x4200), SET(0x3c00)), 0x6802);
    assert_int_equal(DOT(HALF_SUM, "", 0x6800, SET(0x3c00, 0x3c00), SET(0x3c00, 0x3c00)), 0x6801);
    assert_int_equal(DOT(HALF_SUM, "", 0x7bff, SET(0x7bff), SET(0x3c00)), 0x7c00);
    assert_int_equal(DOT(HALF_SUM, "", 0, SET(0x0001), SET(0x3800)), 0x0000); /* half the smallest subnormal: a tie */
    assert_int_equal(DOT(HALF_SUM, "", 0, SET(0x0003), SET(0x3800)), 0x0002);
    /* tf32: the 13 low bits of the operands do not count */
    assert_int_equal(DOT(SET(16, 8, 8, F32, TF32, TF32), "", 0, SET(0x3f801fff), SET(0x3f800000)), 0x3f800000);
    assert_int_equal(DOT(SET(16, 8, 8, F32, TF32, TF32), "", 0, SET(0x3f802000), SET(0x3f800000)), 0x3f802000);
    /* e4m3: 448 the largest, 2^-9 the smallest, 0x7f a NaN; e5m2: 57344 and infinity */
    assert_int_equal(DOT(SET(16, 8, 32, F32, E4M3, E4M3), "", 0, SET(0x7e, 0x01), SET(0x38, 0x38)), 0x43e00040);
    assert_int_equal(DOT(SET(16, 8, 32, F32, E4M3, E4M3), "", 0, SET(0x7f), SET(0x38)), 0x7fffffff);
    assert_int_equal(DOT(SET(16, 8, 32, F32, E5M2, E4M3), "", 0, SET(0x7b), SET(0x38)), 0x47600000);
    assert_int_equal(DOT(SET(16, 8, 32, F32, E5M2, E5M2), "", 0, SET(0x7c), SET(0xbc)), 0xff800000);
    /* integers wrap or clamp */
    assert_int_equal(DOT(BYTES, "", 0x7fffffff, SET(1), SET(1)), 0x80000000);
    assert_int_equal(DOT(BYTES, ".satfinite", 0x7fffffff, SET(1), SET(1)), 0x7fffffff);
    assert_int_equal(DOT(BYTES, ".satfinite", 0x80000000, SET(0x80, 1), SET(1, 1)), 0x80000000);
    assert_int_equal(DOT(BYTES, ".satfinite", 0x80000000, SET(0x80, 1), SET(0xff, 1)), 0x80000081);
    assert_int_equal(DOT(BYTES, "", 0, SET(0x80), SET(0x80)), 16384);
    assert_int_equal(DOT(SET(8, 8, 32, S32, S4, U4), "", 0, SET(8), SET(15)), (uint32_t)-120);
}

static void every_level_gives_the_same_bits(void **state) {
    (void)state;
    static const char *const LEVEL[] = {"baseline", "v3", "v4"};
    const Form *f = &(Form){16, 8, 16, F32, F16, F16};
    uint8_t a[1024], b[1024], c[1024], d[3][1024];
    uint32_t s = 12345;
    for (int k = 0; k < 1024; k++)
        a[k] = (uint8_t)((s = s * 1664525 + 1013904223) >> 24), b[k] = (uint8_t)(s >> 16), c[k] = (uint8_t)(s >> 8);
    for (int x = 0; x < 3; x++) {
        setenv("PTXSIM_ISA", LEVEL[x], 1);
        run_form(f, "", a, 1, b, c, d[x]);
    }
    unsetenv("PTXSIM_ISA");
    assert_memory_equal(d[0], d[1], 512);
    assert_memory_equal(d[0], d[2], 512);
}

/* ---- moves of matrices -------------------------------------------------------------------------------- */
#define MOVE_HEAD                                                                                                  \
    ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{\n"               \
    ".reg .b64 %p<9>; .reg .b32 %r<20>; .reg .pred %q<3>; .shared .align 16 .b8 s[512]; .shared .align 16 .b8 "    \
    "t[512];\n"                                                                                                    \
    "ld.param.u64 %p0, [in]; ld.param.u64 %p1, [out]; mov.u32 %r0, %tid.x; mad.wide.u32 %p2, %r0, 16, %p0; "       \
    "mad.wide.u32 %p3, %r0, 16, %p1; shl.b32 %r1, %r0, 4; mov.u32 %r2, s; add.u32 %r2, %r2, %r1; mov.u32 %r3, t; " \
    "add.u32 %r3, %r3, %r1; cvt.u64.u32 %p4, %r2; cvta.shared.u64 %p4, %p4;\n"                                     \
    "ld.global.v4.b32 {%r4,%r5,%r6,%r7}, [%p2]; st.shared.v4.b32 [%r2], {%r4,%r5,%r6,%r7}; bar.warp.sync -1;\n"
#define MOVE_TAIL "\nst.global.v4.b32 [%p3], {%r8,%r9,%r10,%r11}; ret;\n}\n"

/* `in`: 4 matrices of 8 rows of 8 numbers, 256 m + 16 r + c; `out`: 4 words of each lane. */
static void move(const char *text, uint16_t out[32][8]) {
    uint16_t in[4][8][8];
    for (int m = 0; m < 4; m++)
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++) in[m][r][c] = (uint16_t)(256 * m + 16 * r + c);
    const uint64_t before = findings();
    CUdeviceptr pi = upload(in, sizeof in), po = upload(NULL, sizeof in);
    assert_int_equal(launch1(load_kernel(text, "k"), 1, 32, (void *[]){&pi, &po}), CUDA_SUCCESS);
    assert_int_equal(findings(), before);
    cu.cuMemcpyDtoH_v2(out, po, sizeof in);
    cu.cuMemFree_v2(pi), cu.cuMemFree_v2(po);
}

/* Lane l holds of matrix m row l / 4, columns 2 (l % 4) and the next; transposed, of that column. */
static void expect_fragments(uint16_t out[32][8], int tiles, bool transposed) {
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < tiles; m++)
            for (int i = 0; i < 2; i++) {
                const int row = l / 4, col = 2 * (l % 4) + i;
                assert_int_equal(out[l][2 * m + i], 256 * m + (transposed ? 16 * col + row : 16 * row + col));
            }
}

static void loads_of_matrices(void **state) {
    (void)state;
    uint16_t out[32][8];
    move(MOVE_HEAD "mov.b32 %r9, 0; mov.b32 %r10, 0; mov.b32 %r11, 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, "
                   "[%r2];" MOVE_TAIL,
         out);
    expect_fragments(out, 1, false);
    move(MOVE_HEAD
         "mov.b32 %r10, 0; mov.b32 %r11, 0; ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r8,%r9}, [%r2];" MOVE_TAIL,
         out);
    expect_fragments(out, 2, true);
    move(MOVE_HEAD "ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%r8,%r9,%r10,%r11}, [%r2];" MOVE_TAIL, out);
    expect_fragments(out, 4, false);
    move(MOVE_HEAD "ldmatrix.sync.aligned.m8n8.x4.trans.b16 {%r8,%r9,%r10,%r11}, [%p4];" MOVE_TAIL, out);
    expect_fragments(out, 4, true);
    /* lanes 8 and up give no address of an .x1: these are wild */
    move(MOVE_HEAD
         "mov.b32 %r9, 0; mov.b32 %r10, 0; mov.b32 %r11, 0; setp.gt.u32 %q1, %r0, 7; @%q1 mov.u32 %r2, 99999;\n"
         "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r2];" MOVE_TAIL,
         out);
    expect_fragments(out, 1, false);
}

#define STORE(text) MOVE_HEAD text "bar.warp.sync -1; ld.shared.v4.b32 {%r8,%r9,%r10,%r11}, [%r3];" MOVE_TAIL
static void stores_of_matrices(void **state) {
    (void)state;
    uint16_t out[32][8]; /* lane l: row l % 8 of matrix l / 8 */
    static const char *const TEXT[] = {
        STORE("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r2];"
              "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r4,%r5,%r6,%r7};"),
        STORE("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r2];"
              "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r3], {%r4,%r5,%r6,%r7};"),
        STORE("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r2]; "
              "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r4;"
              "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r5; movmatrix.sync.aligned.m8n8.trans.b16 %r6, %r6;"
              "movmatrix.sync.aligned.m8n8.trans.b16 %r7, %r7; stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], "
              "{%r4,%r5,%r6,%r7};")};
    for (int x = 0; x < 3; x++) {
        move(TEXT[x], out);
        for (int l = 0; l < 32; l++)
            for (int c = 0; c < 8; c++)
                assert_int_equal(out[l][c], 256 * (l / 8) + (x ? 16 * c + l % 8 : 16 * (l % 8) + c));
    }
}

/* ---- wrong kernels ------------------------------------------------------------------------------------ */
typedef struct Wrong {
    const char *name;
    CUresult result;
    const char *text;
} Wrong;

static const Wrong WRONG[] = {
    {"row not aligned to 16 bytes", 716,
     MOVE_HEAD "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r2+8];" MOVE_TAIL},
    {"row aligned", 0,
     MOVE_HEAD "setp.lt.u32 %q1, %r0, 31; @!%q1 sub.u32 %r2, %r2, 16; ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
               "{%r8,%r9,%r10,%r11}, [%r2+16];" MOVE_TAIL},
    {"row past the end", 700,
     MOVE_HEAD "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8,%r9,%r10,%r11}, [%r2+1024];" MOVE_TAIL},
    {"row of a matrix in global memory", 700,
     MOVE_HEAD "ldmatrix.sync.aligned.m8n8.x4.b16 {%r8,%r9,%r10,%r11}, [%p2];" MOVE_TAIL},
    {"row never written", 719,
     MOVE_HEAD "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8,%r9,%r10,%r11}, [%r3];" MOVE_TAIL},
    {"half a warp loads a matrix", 719,
     MOVE_HEAD "setp.lt.u32 %q1, %r0, 16; @%q1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r2];" MOVE_TAIL},
    {"half a warp multiplies", 719,
     MOVE_HEAD "setp.lt.u32 %q1, %r0, 16; @%q1 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r8,%r9,%r10,%r11}, "
               "{%r4,%r5,%r6,%r7}, {%r4,%r5}, {%r4,%r5,%r6,%r7};" MOVE_TAIL},
    {"a whole warp multiplies", 0,
     MOVE_HEAD "setp.lt.u32 %q1, %r0, 32; @%q1 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r8,%r9,%r10,%r11}, "
               "{%r4,%r5,%r6,%r7}, {%r4,%r5}, {%r4,%r5,%r6,%r7};" MOVE_TAIL},
};

static void wrong_kernels(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof WRONG / sizeof *WRONG; k++) {
        uint32_t in[128] = {0};
        assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
        CUdeviceptr pi = upload(in, sizeof in), po = upload(NULL, sizeof in);
        launch1(load_kernel(WRONG[k].text, "k"), 1, 32, (void *[]){&pi, &po});
        const CUresult r = cu.cuCtxSynchronize();
        if (r != WRONG[k].result) fail_msg("%s: %d instead of %d", WRONG[k].name, r, WRONG[k].result);
        cu.cuCtxDestroy_v2(cu.context);
    }
}

static void what_does_not_exist(void **state) {
    (void)state;
    static const char *const TEXT[] = {
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r8,%r9,%r10,%r11}, {%r4,%r5,%r6,%r7}, {%r4,%r5}, "
        "{%r4,%r5,%r6,%r7};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%r8,%r9,%r10,%r11}, {%r4,%r5,%r6,%r7}, {%r4,%r5}, "
        "{%r4,%r5,%r6,%r7};",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {%r8,%r9}, {%r4,%r5,%r6,%r7}, {%r4,%r5}, {%r4,%r5};",
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {%r8,%r9,%r10,%r11}, {%r4,%r5,%r6,%r7}, {%r4,%r5}, "
        "{%r4,%r5,%r6,%r7};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r8,%r9,%r10}, {%r4,%r5,%r6,%r7}, {%r4,%r5}, "
        "{%r4,%r5,%r6,%r7};",
        "mma.sync.m16n8k16.row.col.f32.f16.f16.f32 {%r8,%r9,%r10,%r11}, {%r4,%r5,%r6,%r7}, {%r4,%r5}, "
        "{%r4,%r5,%r6,%r7};",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {%r8,%r9,%r10,%r11}, {%r4,%r5,%r6,%r7}, "
        "{%r4,%r5}, {%r4,%r5,%r6,%r7};",
        "ldmatrix.sync.aligned.m8n8.shared.b16 {%r8}, [%r2];",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r8,%r9}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r8}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r8}, [%p2];",
        "movmatrix.sync.aligned.m8n8.b16 %r4, %r4;",
        ".reg .e4m3 %z;",
    };
    for (size_t k = 0; k < sizeof TEXT / sizeof *TEXT; k++) {
        char text[4096];
        CUmodule module;
        snprintf(text, sizeof text, "%s%s%s", MOVE_HEAD, TEXT[k], MOVE_TAIL);
        if (cu.cuModuleLoadData(&module, text) != CUDA_ERROR_INVALID_PTX) fail_msg("accepted: %s", TEXT[k]);
    }
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    setenv("PTXSIM_DEVICE", "sm_90", 0);
    driver_open();
    const struct CMUnitTest tests[] = {RUN(every_place_of_every_form),  RUN(products_of_full_matrices),
                                       RUN(rounding_and_range),         RUN(every_level_gives_the_same_bits),
                                       RUN(loads_of_matrices),          RUN(stores_of_matrices),
                                       cmocka_unit_test(wrong_kernels), RUN(what_does_not_exist)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
