/* What the PTX reader refuses, each with its place; and text damaged at random, which must never crash it. */
#include "ptxsim_driver.h"

static CUresult load_text(const char *text, char log[256]) {
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)256};
    CUmodule m;
    log[0] = '\0';
    const CUresult r = cu.cuModuleLoadDataEx(&m, text, 2, options, values);
    if (!r) cu.cuModuleUnload(m);
    return r;
}

#define BODY(text) PTX_HEAD ".entry k(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<3>; .reg .f32 %f<3>;\n" text "\n}\n"

static const struct { const char *text, *message; } REFUSED[] = {
    {"", "line 1:1: no .version"},
    {".version 8.0\n.target sm_80\n.adress_size 64\n", "line 3:1: unknown directive '.adress_size'"},
    {".version 8.0\n.target sm_100\n", "line 2:9: target sm_100 is newer than the device, sm_90"},
    {".version 8.0\n.target sm_80a\n", "line 2:9: target sm_80a runs on sm_80 only"},
    {".version 8.0\n.target sm_80\n.address_size 32\n", "line 3:15: only 64-bit addresses"},
    {".target sm_80\n.entry k() { ret; }", ".version and .target must come before"},
    {BODY("frobnicate.b32 %r1, %r2;"), "line 7:1: unknown instruction 'frobnicate'"},
    {BODY("add.frob.s32 %r1, %r2, %r3;"), "line 7:4: unknown modifier '.frob' of 'add'"},
    {BODY("add.v2.s32 %r1, %r2, %r3;"), "line 7:4: '.v2' does not belong to 'add'"},
    {BODY("add.s32 %r1, %r9, %r3;"), "line 7:14: unknown register '%r9'"},
    {BODY("add.s32 %r1, %rd2, %r3;"), "line 7:14: '%rd2' is a .b64 register where .s32 is expected"},
    {BODY("add.s32 %r1, %r2;"), "line 7:1: 'add' takes 3 operands, not 2"},
    {BODY("add.s32 5, %r2, %r3;"), "line 7:9: expected a register for the result"},
    {BODY("add.f32 %f1, %f2, 1;"), "an integer where .f32 is expected"},
    {BODY("add.pred %p1, %p2, %p1;"), "'add' does not exist for .pred"},
    {BODY("add.s32 %r1, %r2, %r3"), "expected ',' before '}'"},
    {BODY("bra NOWHERE;"), "line 7:5: unknown label 'NOWHERE'"},
    {BODY("{ A: bra A; } bra A;"), "unknown label 'A'"},
    {BODY("A: A: ret;"), "'A' is defined twice"},
    {BODY("@%r1 ret;"), "'%r1' is no predicate register"},
    {BODY("setp.s32 %p1, %r1, %r2;"), "'setp' needs a comparison"},
    {BODY("setp.equ.s32 %p1, %r1, %r2;"), "an unordered comparison of .s32"},
    {BODY("setp.lo.f32 %p1, %f1, %f2;"), ".lo, .ls, .hi and .hs compare unsigned integers, not .f32"},
    {BODY("set.hs.u32.s32 %r1, %r2, %r3;"), ".lo, .ls, .hi and .hs compare unsigned integers, not .s32"},
    {BODY("setp.hi.b32 %p1, %r1, %r2;"), ".lo, .ls, .hi and .hs compare unsigned integers, not .b32"},
    {BODY("fence.proxy.async.shared;"), "line 7:18: unknown or misplaced modifier '.shared'"},
    {BODY("mul.s32 %r1, %r2, %r3;"), "'mul' of integers needs .lo, .hi or .wide"},
    {BODY("cvt.u32.f32 %r1, %f1;"), "needs a rounding mode"},
    {BODY("cvt.rn.u32.f32 %r1, %f1;"), "takes .rni, .rzi, .rmi or .rpi"},
    {BODY("ld.global.v4.f32 {%f1, %f2}, [%rd1];"), "'ld' expects 4 elements"},
    {BODY("ld.global.v4.f64 {%rd1, %rd2, %rd1, %rd2}, [%rd1];"), "more than 16 bytes"},
    {BODY("ld.shared.b32 %r1, [p];"), "'p' lies in another state space"},
    {BODY("st.param.b32 [p], %r1;"), "a store into read-only memory"},
    {BODY("atom.global.and.f32 %f1, [%rd1], %f2;"), "'atom' does not exist for .f32"},
    {BODY("bar.arrive 0;"), "malformed barrier"},
    {BODY("shfl.bfly.b32 %r1, %r2, 1, 31;"), "shfl.sync takes"},
    {BODY("call nobody, ();"), "unknown function 'nobody'"},
    {BODY("call %rd1, ();"), "line 7:6: only direct calls of functions of this module are supported, none through a register"},
    {BODY("P: .callprototype _ ();"), "line 7:4: unknown directive '.callprototype' in a function"},
    {BODY("mov.u64 %rd1, k;"), "line 7:15: addresses of functions are not supported"},
    {PTX_HEAD ".func f() { ret; }\n.global .u64 t[1] = {f};", "line 5:22: 'f' cannot initialise a .u64: addresses of functions"},
    {BODY("mov.b32 %r1, 0x123456789abcdef01;"), "integer constant exceeds 64 bits"},
    {BODY("mov.f32 %f1, 0f3F80;"), "a hexadecimal float has 8"},
    {BODY("/* never closed"), "a comment is never closed"},
    {BODY(".shared .b32 s[2000000];\nmov.u32 %r1, s;"), "more than 1 MiB of shared memory"},
    {BODY(".weird .b32 x;"), "unknown directive '.weird' in a function"},
    {BODY("mov.u32 %r1, #;"), "a character that PTX does not use"},
    {PTX_HEAD ".entry k() { ret; }\n.entry k() { ret; }", "line 5:8: 'k' is defined twice"},
    {PTX_HEAD ".entry k() { ret;", "before the end of the text"},
    {PTX_HEAD ".global .b32 x[2] = {1, 2, 3};", "more initial values than 'x' holds"},
    {PTX_HEAD ".global .b32 x[];", "'x' has no size"},
    {PTX_HEAD ".func f();\n.entry k() { call f; ret; }", "line 5:19: call of 'f', which has no body"},
};

static void refused_with_a_place(void **state) {
    (void)state;
    char log[256];
    setenv("PTXSIM_DEVICE", "sm_90", 1);
    for (size_t k = 0; k < sizeof REFUSED / sizeof *REFUSED; k++) {
        const CUresult r = load_text(REFUSED[k].text, log);
        if (r != CUDA_ERROR_INVALID_PTX || !strstr(log, REFUSED[k].message))
            fail_msg("%d, \"%s\" instead of \"%s\" for:\n%s", r, log, REFUSED[k].message, REFUSED[k].text);
    }
}

static void device_bounds_the_target(void **state) {
    (void)state;
    char log[256];
    setenv("PTXSIM_DEVICE", "sm_80", 1);
    assert_int_equal(load_text(".version 8.0\n.target sm_90\n", log), CUDA_ERROR_INVALID_PTX);
    assert_int_equal(load_text(".version 8.0\n.target sm_80\n", log), CUDA_SUCCESS);
    setenv("PTXSIM_DEVICE", "sm_90", 1);
    assert_int_equal(load_text(".version 8.0\n.target sm_90\n", log), CUDA_SUCCESS);
    assert_int_equal(load_text(".version 8.0\n.target sm_90a\n", log), CUDA_SUCCESS);
    unsetenv("PTXSIM_DEVICE");
}

static void binaries_are_refused(void **state) {
    (void)state;
    CUmodule m;
    assert_int_equal(cu.cuModuleLoadData(&m, "\x7f" "ELF\2\1\1"), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

/* ---- damaged text ------------------------------------------------------------------------------------- */
static const char SEED_TEXT[] = PTX_HEAD
    ".global .b8 a[4] = {1, 2, 3};\n.global .align 8 .u64 table[2] = {generic(a), 5};\n.const .f32 c = 0f3F800000;\n"
    ".extern .shared .align 16 .b8 dyn[];\n.shared .b32 s[16];\n"
    ".func (.param .b32 r) f(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; st.param.b32 [r], %r1; ret; }\n"
    ".visible .entry k(.param .u64 .ptr .global .align 4 p, .param .align 8 .b8 q[16]) .maxntid 64, 1, 1\n{\n"
    ".reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<4>; .reg .f32 %f<9>; .reg .b16 %h<3>; .local .b8 l[8];\n"
    "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %clock; mov.b64 {%r3, %r4}, %rd1; mov.b64 %rd2, {%r3, %r4};\n"
    "setp.lt.and.f32 %p1|%p2, %f1, 0f40000000, !%p3; @!%p1 bra.uni L; selp.b32 %r5, %r1, -7, %p2;\n"
    "{ .reg .pred p; .param .b32 x; .param .b32 y; setp.eq.s32 p, %r1, 1; st.param.b32 [x], %r1; call.uni (y), f, (x);\n"
    "@p ld.global.v4.f32 {%f1, %f2, %f3, _}, [%rd1+16]; }\n"
    "cvt.rn.f16.f32 %h1, %f1; cvt.rzi.s32.f32 %r6, %f2; fma.rn.ftz.f32 %f4, %f1, %f2, %f3; div.rz.f32 %f5, %f4, %f1;\n"
    "lop3.b32 %r7, %r1, %r2, %r3, 0x96; bfe.u32 %r7, %r1, 3, 5; prmt.b32 %r7, %r1, %r2, 0x5410; shf.l.wrap.b32 %r7, %r1, %r2, 9;\n"
    "atom.shared.cas.b32 %r7, [s+4], 1, 2; red.relaxed.gpu.global.add.f32 [%rd1], 0f3F800000; bar.sync 1, 64; bar.red.popc.u32 %r7, 0, %p1;\n"
    "shfl.sync.bfly.b32 %r7|%p1, %r1, 1, 31, -1; vote.sync.ballot.b32 %r7, %p1, -1; activemask.b32 %r7; membar.gl;\n"
    "T: .branchtargets L, M;\nbrx.idx %r1, T;\nM: .loc 1 2 3\n.pragma \"nounroll\";\nL: exit;\n}\n";

static uint32_t random_bits(uint32_t *s) {
    *s = *s * 1664525u + 1013904223u;
    return *s >> 8;
}

/* Bytes replaced, pieces cut, doubled or moved. */
static void damage(char *text, size_t *n, size_t room, uint32_t *seed) {
    const size_t at = random_bits(seed) % *n, from = random_bits(seed) % *n;
    size_t piece = random_bits(seed) % 24;
    static const char BYTES[] = "{}[]();,.:%@!|<>+-0123456789abfx_ \n\"/*$";
    switch (random_bits(seed) % 4) {
    case 0: text[at] = BYTES[random_bits(seed) % (sizeof BYTES - 1)]; break;
    case 1:
        if (at + piece > *n) piece = *n - at;
        memmove(text + at, text + at + piece, *n - at - piece + 1);
        *n -= piece;
        break;
    case 2:
        if (from + piece > *n || *n + piece >= room) break;
        memmove(text + at + piece, text + at, *n - at + 1);
        memmove(text + at, text + (from > at ? from + piece : from), piece);
        *n += piece;
        break;
    default:
        if (from + piece <= *n && at + piece <= *n) memmove(text + at, text + from, piece);
        break;
    }
    if (!*n) memcpy(text, " ", *n + 1), *n = 1;
    text[*n] = '\0';
}

static void damaged_text_never_crashes(void **state) {
    (void)state;
    char log[256];
    static char text[2 * sizeof SEED_TEXT];
    uint32_t seed = 12345;
    int refused = 0;
    if (load_text(SEED_TEXT, log)) fail_msg("%s", log);
    for (int round = 0; round < 3000; round++) {
        size_t n = sizeof SEED_TEXT - 1;
        memcpy(text, SEED_TEXT, sizeof SEED_TEXT);
        for (uint32_t k = 1 + random_bits(&seed) % 3; k; k--) damage(text, &n, sizeof text, &seed);
        const CUresult r = load_text(text, log);
        assert_true(r == CUDA_SUCCESS || r == CUDA_ERROR_INVALID_PTX);
        assert_true((r == CUDA_ERROR_INVALID_PTX) == (strstr(log, "line ") != NULL));
        refused += r != CUDA_SUCCESS;
    }
    assert_in_range(refused, 1000, 2999);
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    char log[256];
    enum { DEEP = 100000 };
    static char text[DEEP + 256];
    static const char *const HEADS[] = {PTX_HEAD ".entry k() {", PTX_HEAD ".global .b32 x[4] = ",
                                        PTX_HEAD ".entry k() { .reg .b32 %r<2>; mov.b32 %r1, "};
    for (size_t k = 0; k < 3; k++) {
        strcpy(text, HEADS[k]);
        const size_t n = strlen(text);
        memset(text + n, '{', DEEP);
        text[n + DEEP] = '\0';
        assert_int_equal(load_text(text, log), CUDA_ERROR_INVALID_PTX);
    }
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {RUN(refused_with_a_place),       RUN(device_bounds_the_target),
                                       RUN(binaries_are_refused),       RUN(deep_nesting_is_refused),
                                       RUN(damaged_text_never_crashes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
