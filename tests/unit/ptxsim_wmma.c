/* wmma.load, wmma.mma and wmma.store: what one lane holds is the simulator's own affair, the products are not. */
#include "ptxsim_driver.h"
#include <math.h>
#include <stdbool.h>

typedef struct Form {
    int m, n, k;
    const char *d, *a;
    int bits_d, bits_a;
    int count_d, count_a, count_b; /* registers of fragments, as the PTX ISA has them */
} Form;
static const Form FORMS[] = {
    {16, 16, 16, "f32", "f16", 32, 16, 8, 8, 8}, {32, 8, 16, "f32", "f16", 32, 16, 8, 8, 8},
    {8, 32, 16, "f32", "f16", 32, 16, 8, 8, 8},  {16, 16, 16, "f16", "f16", 16, 16, 4, 8, 8},
    {32, 8, 16, "f16", "f16", 16, 16, 4, 8, 8},  {16, 16, 16, "f32", "bf16", 32, 16, 8, 4, 4},
    {32, 8, 16, "f32", "bf16", 32, 16, 8, 8, 2}, {8, 32, 16, "f32", "bf16", 32, 16, 8, 2, 8},
    {16, 16, 8, "f32", "tf32", 32, 32, 8, 4, 4}, {16, 16, 16, "s32", "s8", 32, 8, 8, 2, 2},
    {32, 8, 16, "s32", "u8", 32, 8, 8, 4, 1},    {8, 32, 16, "s32", "s8", 32, 8, 8, 1, 4},
    {8, 8, 4, "f64", "f64", 64, 64, 2, 1, 1},
};

static int value(int row, int col, int salt) {
    return (int)((uint32_t)(row * 131 + col * 71 + salt * 977) * 2654435761u >> 20) % 5;
}

static void put(uint8_t *to, const char *type, int v) { /* 0 .. 4 */
    static const uint16_t HALF[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
    const float f = (float)v;
    const double d = v;
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    const uint16_t brain = (uint16_t)(w >> 16);
    if (!strcmp(type, "f16"))
        memcpy(to, &HALF[v], 2);
    else if (!strcmp(type, "bf16"))
        memcpy(to, &brain, 2);
    else if (!strcmp(type, "f64"))
        memcpy(to, &d, 8);
    else if (!strcmp(type, "s32"))
        memcpy(to, &v, 4);
    else if (strstr(type, "8"))
        *to = (uint8_t)v;
    else
        memcpy(to, &f, 4);
}
static double get(const uint8_t *at, const char *type) {
    float f;
    double d;
    int32_t s;
    uint16_t h;
    if (!strcmp(type, "f16")) return memcpy(&h, at, 2), h ? ldexp(1024 + (h & 1023), (h >> 10) - 25) : 0;
    if (!strcmp(type, "f64")) return memcpy(&d, at, 8), d;
    if (!strcmp(type, "s32")) return memcpy(&s, at, 4), s;
    return memcpy(&f, at, 4), f;
}

/* A matrix in memory with a stride of 48 elements between rows (columns). */
enum { STRIDE = 48, BYTES = STRIDE * 32 * 8 };
static size_t place(int row, int col, bool column, int bits) {
    return (size_t)(column ? col * STRIDE + row : row * STRIDE + col) * (size_t)bits / 8;
}
static void fill(uint8_t *to, const char *type, int bits, int rows, int cols, bool column, int salt) {
    memset(to, 0, BYTES);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) put(to + place(r, c, column, bits), type, value(r, c, salt));
}

static int list(char *t, size_t room, const char *name, int count) {
    int n = snprintf(t, room, "{");
    for (int k = 0; k < count; k++) n += snprintf(t + n, room - (size_t)n, "%s%%%s%d", k ? "," : "", name, k);
    return n + snprintf(t + n, room - (size_t)n, "}");
}

static void kernel_text(char *t, size_t room, const Form *f, const bool column[4]) {
    static const char *const LAYOUT[] = {"row", "col"};
    const char *wide = f->bits_a == 64 ? "f64" : "b32";
    char a[256], b[256], c[256], d[256], types[64];
    const bool halves = !strcmp(f->a, "f16");
    const char *sum = f->bits_d == 16 ? "b32" : f->d;
    list(a, sizeof a, "a", f->count_a), list(b, sizeof b, "b", f->count_b), list(c, sizeof c, "c", f->count_d),
        list(d, sizeof d, "d", f->count_d);
    snprintf(types, sizeof types, halves ? "%s.%s" : "%s.%s.%s.%s", f->d, halves ? f->d : f->a, f->a, f->d);
    snprintf(t, room,
             ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a, .param .u64 b, .param .u64 c, "
             ".param .u64 d)\n{\n"
             ".reg .b64 %%p<4>; .reg .b32 %%s; .reg .%s %%a<8>, %%b<8>; .reg .%s %%c<8>, %%d<8>;\n"
             "ld.param.u64 %%p0, [a]; ld.param.u64 %%p1, [b]; ld.param.u64 %%p2, [c]; ld.param.u64 %%p3, [d]; mov.u32 "
             "%%s, %d;\n"
             "wmma.load.a.sync.aligned.%s.m%dn%dk%d.global.%s %s, [%%p0], %%s;\n"
             "wmma.load.b.sync.aligned.%s.m%dn%dk%d.%s %s, [%%p1], %%s;\n"
             "wmma.load.c.sync.aligned.%s.m%dn%dk%d.global.%s %s, [%%p2], %%s;\n"
             "wmma.mma.sync.aligned.%s.%s.m%dn%dk%d.%s %s, %s, %s, %s;\n"
             "wmma.store.d.sync.aligned.%s.m%dn%dk%d.global.%s [%%p3], %s, %%s;\nret;\n}\n",
             wide, sum, STRIDE, LAYOUT[column[0]], f->m, f->n, f->k, f->a, a, LAYOUT[column[1]], f->m, f->n, f->k, f->a,
             b, LAYOUT[column[2]], f->m, f->n, f->k, f->d, c, LAYOUT[column[0]], LAYOUT[column[1]], f->m, f->n, f->k,
             types, d, a, b, c, LAYOUT[column[3]], f->m, f->n, f->k, f->d, d);
}

static void run_form(const Form *f, int layouts) {
    static uint8_t a[BYTES], b[BYTES], c[BYTES], d[BYTES];
    static char text[8192];
    const bool column[4] = {layouts & 1, layouts >> 1 & 1, layouts >> 2 & 1, layouts >> 3 & 1};
    kernel_text(text, sizeof text, f, column);
    fill(a, f->a, f->bits_a, f->m, f->k, column[0], 1);
    fill(b, f->a, f->bits_a, f->k, f->n, column[1], 2);
    fill(c, f->d, f->bits_d, f->m, f->n, column[2], 3);
    const uint64_t before = findings();
    CUdeviceptr pa = upload(a, BYTES), pb = upload(b, BYTES), pc = upload(c, BYTES), pd = upload(d, BYTES);
    assert_int_equal(launch1(load_kernel(text, "k"), 1, 32, (void *[]){&pa, &pb, &pc, &pd}), CUDA_SUCCESS);
    assert_int_equal(findings(), before);
    cu.cuMemcpyDtoH_v2(d, pd, BYTES);
    cu.cuMemFree_v2(pa), cu.cuMemFree_v2(pb), cu.cuMemFree_v2(pc), cu.cuMemFree_v2(pd);
    for (int row = 0; row < f->m; row++)
        for (int col = 0; col < f->n; col++) {
            int want = value(row, col, 3);
            for (int k = 0; k < f->k; k++) want += value(row, k, 1) * value(k, col, 2);
            const double got = get(d + place(row, col, column[3], f->bits_d), f->d);
            if (got != want)
                fail_msg("m%dn%dk%d %s, layouts %d: [%d][%d] is %g, not %d", f->m, f->n, f->k, f->a, layouts, row, col,
                         got, want);
        }
}

static void every_form(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof FORMS / sizeof *FORMS; k++)
        for (int layouts = 0; layouts < 16; layouts++) run_form(&FORMS[k], layouts);
}

#define HEAD                                                                                                        \
    ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a)\n{\n.reg .b64 %p<4>; .reg .b32 %a<8>, " \
    "%s, %x<3>; "                                                                                                   \
    ".reg .pred %q; ld.param.u64 %p0, [a]; mov.u32 %s, 16; mov.u32 %x0, %tid.x;\n"
#define LOAD \
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%p0], %s;\nret;\n}\n"

static void wrong_kernels(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        CUresult result;
    } WRONG[] = {
        {"right", HEAD LOAD, 0},
        {"start not aligned", HEAD "add.u64 %p0, %p0, 16;\n" LOAD, 716},
        {"start aligned, but the last row is past the end", HEAD "add.u64 %p0, %p0, 96;\n" LOAD, 700},
        {"rows not aligned", HEAD "mov.u32 %s, 12;\n" LOAD, 716},
        {"rows past the end", HEAD "mov.u32 %s, 24;\n" LOAD, 700},
        {"lanes disagree", HEAD "setp.eq.u32 %q, %x0, 9; @%q add.u64 %p0, %p0, 32;\n" LOAD, 719},
        {"half a warp", HEAD "setp.lt.u32 %q, %x0, 16; @%q " LOAD, 719},
    };
    for (size_t k = 0; k < sizeof WRONG / sizeof *WRONG; k++) {
        uint8_t in[576] = {0};
        assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
        CUdeviceptr p = upload(in, sizeof in);
        launch1(load_kernel(WRONG[k].text, "k"), 1, 32, (void *[]){&p});
        const CUresult r = cu.cuCtxSynchronize();
        if (r != WRONG[k].result) fail_msg("%s: %d instead of %d", WRONG[k].name, r, WRONG[k].result);
        cu.cuMemFree_v2(p);
        cu.cuCtxDestroy_v2(cu.context);
    }
}

static void what_does_not_exist(void **state) {
    (void)state;
    static const char *const TEXT[] = {
        "wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%p0], %s;",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0,%a1,%a2,%a3}, [%p0], %s;",
        "wmma.load.d.sync.aligned.row.m16n16k16.global.f32 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%p0], %s;",
        "wmma.load.a.sync.aligned.m16n16k16.global.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%p0], %s;",
        "wmma.load.a.sync.aligned.row.m16n16k16.local.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%p0], %s;",
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.f16.f32 {%a0}, {%a0}, {%a0}, {%a0};",
    };
    CUmodule module;
    for (size_t k = 0; k < sizeof TEXT / sizeof *TEXT; k++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s\nret;\n}\n", HEAD, TEXT[k]);
        if (cu.cuModuleLoadData(&module, text) != CUDA_ERROR_INVALID_PTX) fail_msg("accepted: %s", TEXT[k]);
    }
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    driver_open();
    const struct CMUnitTest tests[] = {RUN(every_form), cmocka_unit_test(wrong_kernels), RUN(what_does_not_exist)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
