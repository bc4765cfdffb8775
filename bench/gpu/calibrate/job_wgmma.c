/* wgmma: shared memory is full of drawn elements, so that any layout reads some, and a wrong one reads others. */
#include "bench/gpu/calibrate/job.h"
#include "bench/gpu/calibrate/wgmma_operand.h"
#include <string.h>

enum { M = 64, THREADS = 128, SHARED = 49152, B_AT = 16384, A_REGISTERS = 4 };
/* The input: the image of shared memory, A's registers, D's registers up to JOB_MEMORY. */
enum {
    IMAGE = SHARED,
    A_AT = IMAGE,
    D_AT = IMAGE + A_REGISTERS * THREADS * 4,
    MOST_D = (JOB_MEMORY - D_AT) / (THREADS * 4)
};

/* form */
enum { N, D, A, B, DRAW, LEFT, LEFT_MN, LEFT_ADVANCE, RIGHT, RIGHT_MN, REGISTERS, FRESH, SIGN_A, SIGN_B, SATFINITE };

static int bytes_of(const Job *j) { return element_bits((Element)j->form[A]) / 8; }
static int registers_of(const Job *j) { return j->form[D] == F16 ? j->form[N] / 4 : j->form[N] / 2; }

static void multiply(const Job *j, Text *t) {
    const int *f = j->form, halves = bytes_of(j) == 2;
    text_add(t, "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%dk%d%s.%s.%s.%s ", f[N], 32 / bytes_of(j),
             f[SATFINITE] ? ".satfinite" : "", element_name((Element)f[D]), element_name((Element)f[A]),
             element_name((Element)f[B]));
    for (int r = 0; r < registers_of(j); r++) text_add(t, "%s%%d%d", r ? "," : "{", r);
    text_add(t, "}, %s, %%e1, %%q1", f[REGISTERS] ? "{%a0,%a1,%a2,%a3}" : "%e0");
    if (f[D] != S32) text_add(t, ", %d, %d", f[SIGN_A], f[SIGN_B]);
    if (halves && !f[REGISTERS]) text_add(t, ", %d", f[LEFT_MN]);
    if (halves) text_add(t, ", %d", f[RIGHT_MN]);
    text_add(t, ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
}

/* D starts as the input's registers; those that have no room there start at zero. */
static void body(const Job *j, Text *t, int label) {
    const int *f = j->form, nd = registers_of(j);
    const char *sum = f[D] == F32 ? "f32" : "b32";
    const Side left = {f[LEFT], f[LEFT_MN], f[LEFT_ADVANCE]}, right = {f[RIGHT], f[RIGHT_MN], f[LEFT_ADVANCE]};
    text_add(t,
             ".reg .b64 %%p<4>, %%e<2>, %%base; .reg .b32 %%x<8>, %%a<4>; .reg .%s %%d<128>; .reg .pred %%q<3>;\n"
             "ld.param.u64 %%p0, [in]; ld.param.u64 %%p2, [out]; mov.u32 %%x0, %%tid.x; mad.wide.u32 %%p1, %%x0, 4, "
             "%%p0; mad.wide.u32 %%p2, %%x0, 4, %%p2;\nshl.b32 %%x1, %%x0, 4; mov.u32 %%x2, s; cvt.u64.u32 %%base, "
             "%%x2; shr.u64 %%base, %%base, 4; add.u32 %%x2, %%x2, %%x1; mad.wide.u32 %%p0, %%x0, 16, %%p0;\n"
             "mov.u32 %%x3, 0;\nCOPY%d: ld.global.v4.b32 {%%x4,%%x5,%%x6,%%x7}, [%%p0]; st.shared.v4.b32 [%%x2], "
             "{%%x4,%%x5,%%x6,%%x7};\nadd.u64 %%p0, %%p0, 2048; add.u32 %%x2, %%x2, 2048; add.u32 %%x3, %%x3, 2048; "
             "setp.lt.u32 %%q0, %%x3, %d; @%%q0 bra COPY%d;\nfence.proxy.async; bar.sync 0;\n",
             sum, label, IMAGE, label);
    text_add(t, "add.u64 %%e0, %%base, %lld; add.u64 %%e1, %%base, %lld;\n",
             (long long)descriptor(&left, M, bytes_of(j), 0), (long long)descriptor(&right, f[N], bytes_of(j), B_AT));
    for (int r = 0; f[REGISTERS] && r < A_REGISTERS; r++)
        text_add(t, "ld.global.b32 %%a%d, [%%p1+%d];\n", r, A_AT + r * THREADS * 4);
    for (int r = 0; r < nd; r++)
        if (r < MOST_D)
            text_add(t, "ld.global.%s %%d%d, [%%p1+%d];\n", sum, r, D_AT + r * THREADS * 4);
        else
            text_add(t, "mov.%s %%d%d, %s;\n", sum, r, f[D] == F32 ? "0f00000000" : "0");
    text_add(t, "setp.%s.u32 %%q1, %%x0, %d;\n", f[FRESH] ? "ge" : "lt", THREADS);
    multiply(j, t);
    for (int r = 0; r < nd; r++) text_add(t, "st.global.%s [%%p2+%d], %%d%d;\n", sum, r * THREADS * 4, r);
}

static void draw(uint8_t *to, Element e, Draw how, size_t bytes, uint64_t *state) {
    const size_t one = (size_t)element_bits(e) / 8;
    for (size_t n = 0; n < bytes; n += one) {
        const uint64_t w = element_draw(e, how, state);
        memcpy(to + n, &w, one);
    }
}

static void fill(const Job *j, uint8_t *in, uint8_t *out) {
    const Draw how = (Draw)j->form[DRAW];
    uint64_t state = (uint64_t)(j->form[A] * 64 + j->form[B]);
    (void)out;
    draw(in, (Element)j->form[A], how, B_AT, &state);
    draw(in + B_AT, (Element)j->form[B], how, IMAGE - B_AT, &state);
    draw(in + A_AT, (Element)j->form[A], how, A_REGISTERS * THREADS * 4, &state);
    draw(in + D_AT, (Element)j->form[D], how, JOB_MEMORY - D_AT, &state);
}

typedef struct Types {
    Element d, a, b;
} Types;
static const Types TYPES[] = {{F32, F16, F16},   {F16, F16, F16},   {F32, BF16, BF16}, {F32, TF32, TF32},
                              {F32, E4M3, E4M3}, {F32, E4M3, E5M2}, {F32, E5M2, E4M3}, {F32, E5M2, E5M2},
                              {F16, E4M3, E4M3}, {F16, E4M3, E5M2}, {F16, E5M2, E4M3}, {F16, E5M2, E5M2},
                              {S32, S8, S8},     {S32, U8, U8},     {S32, S8, U8},     {S32, U8, S8}};

static Job *add(Jobs *jobs, int n, const Types *y, Draw how, Side left, Side right, bool registers, const char *more) {
    Job *j = jobs_add(jobs, "wgmma.m64n%dk%d.%s.%s.%s/%s%d%s%d.%s%d%s%s", n, 256 / element_bits(y->a),
                      element_name(y->d), element_name(y->a), element_name(y->b),
                      registers       ? "registers"
                      : left.mn_major ? "mn"
                                      : "k",
                      registers ? 0 : left.swizzle, left.advance ? "+" : ".", left.advance, right.mn_major ? "mn" : "k",
                      right.swizzle, more, draw_names[how]);
    j->judgement = how == DRAW_WHOLE || y->d == S32 ? EXACT : SUM;
    j->element = y->d == S32 ? U32 : y->d;
    j->each = y->d == F16 ? 2 : 1;
    j->record = 4;
    j->in_bytes = JOB_MEMORY;
    j->out_bytes = (uint32_t)(M * n * element_bits(y->d) / 8);
    j->blocks = 1;
    j->threads = THREADS;
    j->shared = SHARED;
    j->body = body;
    j->fill = fill;
    const int form[16] = {[N] = n,
                          [D] = (int)y->d,
                          [A] = (int)y->a,
                          [B] = (int)y->b,
                          [DRAW] = (int)how,
                          [LEFT] = left.swizzle,
                          [LEFT_MN] = left.mn_major,
                          [LEFT_ADVANCE] = left.advance,
                          [RIGHT] = right.swizzle,
                          [RIGHT_MN] = right.mn_major,
                          [REGISTERS] = registers,
                          [SIGN_A] = 1,
                          [SIGN_B] = 1};
    memcpy(j->form, form, sizeof form);
    return j;
}

static const Side WIDE = {.swizzle = 128};

static void add_types(Jobs *jobs) {
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (int registers = 0; registers < 2; registers++) {
            const bool integer = TYPES[k].d == S32;
            for (Draw how = integer ? DRAW_SPECIAL : DRAW_WHOLE; how <= DRAW_SPECIAL; how++)
                add(jobs, 32, &TYPES[k], how, WIDE, WIDE, registers, ".");
            if (integer)
                add(jobs, 32, &TYPES[k], DRAW_SPECIAL, WIDE, WIDE, registers, ".satfinite.")->form[SATFINITE] = 1;
        }
}

static void add_layouts(Jobs *jobs) {
    static const int SWIZZLE[] = {16, 32, 64, 128};
    for (int l = 0; l < 4; l++)
        for (int r = 0; r < 4; r++)
            for (int major = 0; major < 4; major++)
                for (int n = 8; n <= 136; n += 128)
                    add(jobs, n, &TYPES[0], DRAW_WHOLE, (Side){SWIZZLE[l], major & 1, 0},
                        (Side){SWIZZLE[r], major >> 1, 0}, false, ".");
    for (int step = 32; step < 128; step += 32)
        for (size_t k = 2; k < 5; k++)
            add(jobs, 64, &TYPES[k], DRAW_WHOLE, (Side){128, false, step}, (Side){128, false, step}, false, ".");
    add(jobs, 40, &TYPES[4], DRAW_WHOLE, (Side){64, false, 32}, (Side){64, false, 32}, false, ".");
}

static void add_scales(Jobs *jobs) {
    static const char *const NAME[] = {".",    ".fresh.",    ".-a.",    ".-a.fresh.",
                                       ".-b.", ".-b.fresh.", ".-a.-b.", ".-a.-b.fresh."};
    for (int x = 1; x < 8; x++)
        for (int k = 0; k < 2; k++) {
            Job *j = add(jobs, 16, &TYPES[k], DRAW_WHOLE, WIDE, WIDE, k, NAME[x]);
            j->form[FRESH] = x & 1;
            j->form[SIGN_A] = x & 2 ? -1 : 1;
            j->form[SIGN_B] = x & 4 ? -1 : 1;
        }
}

void jobs_of_warpgroups(Jobs *jobs) {
    add_types(jobs);
    for (int n = 8; n <= 256; n += 8)
        if (n != 32) add(jobs, n, &TYPES[2], DRAW_WHOLE, WIDE, WIDE, false, ".");
    add_layouts(jobs);
    add_scales(jobs);
}
