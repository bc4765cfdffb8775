/* Conversions, rounding, saturation and odd operands: one instruction per lane of data, against values worked out by
 * hand or by the host's own arithmetic. */
#include "ptxsim_driver.h"
#include <fenv.h>
#include <math.h>
#include <stdbool.h>

/* Runs `body` on 64-bit words: %rd5, %r5 (low half), %h5 (low quarter), %f5, %d5 hold the input; the result is %rd6. */
static void run_on(const char *head, const char *body, const uint64_t *in, uint64_t *out, int n) {
    char text[2048];
    snprintf(text, sizeof text,
             "%s.entry k(.param .u64 in, .param .u64 out)\n{\n"
                      ".reg .b64 %%rd<9>; .reg .b32 %%r<9>; .reg .b16 %%h<9>; .reg .f32 %%f<9>; .reg .f64 %%d<9>; .reg .pred %%p<3>;\n"
                      "ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; mov.u32 %%r1, %%tid.x;\n"
                      "mad.wide.u32 %%rd3, %%r1, 8, %%rd1; mad.wide.u32 %%rd4, %%r1, 8, %%rd2; ld.global.u64 %%rd5, [%%rd3];\n"
                      "mov.b64 {%%r5, %%r6}, %%rd5; mov.b32 {%%h5, %%h6}, %%r5; mov.b32 %%f5, %%r5; mov.b32 %%f6, %%r6; mov.b64 %%d5, %%rd5;\n"
                      "mov.u64 %%rd6, 0; mov.u32 %%r7, 0; mov.u32 %%r8, 0; mov.b32 {%%h7, %%h8}, %%r7;\n"
                      "%s\nst.global.u64 [%%rd4], %%rd6;\nret;\n}\n",
             head, body);
    CUfunction f = load_kernel(text, "k");
    CUdeviceptr pi = upload(in, (size_t)n * 8), po = upload(NULL, (size_t)n * 8);
    assert_int_equal(launch1(f, 1, (unsigned)n, (void *[]){&pi, &po}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(out, po, (size_t)n * 8);
    cu.cuMemFree_v2(pi);
    cu.cuMemFree_v2(po);
}

static void run(const char *body, const uint64_t *in, uint64_t *out, int n) { run_on(PTX_HEAD, body, in, out, n); }

typedef struct Known { const char *body; uint64_t in, want; } Known;
static const Known KNOWN[] = {
    /* f32 -> integer: rounding modes, clamping, NaN */
    {"cvt.rni.s32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0x40200000, 2},          /* 2.5 */
    {"cvt.rzi.s32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0xc0200000, 0xfffffffe}, /* -2.5 */
    {"cvt.rmi.s32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0xc0200000, 0xfffffffd},
    {"cvt.rpi.s32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0x40200000, 3},
    {"cvt.rzi.s32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0x7f800000, 0x7fffffff}, /* infinity */
    {"cvt.rzi.s32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0xff800000, 0x80000000},
    {"cvt.rzi.s32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0x7fc00000, 0},
    {"cvt.rzi.u32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0xbf800000, 0},
    {"cvt.rzi.u8.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0x44000000, 255}, /* 512 */
    {"cvt.rzi.s8.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0xc4000000, 0xffffff80},
    {"cvt.rzi.s64.f32 %rd6, %f5;", 0x5f800000, 0x7fffffffffffffff},
    /* integer -> f32: ties and directions at 2^24 + 1 and 2^24 + 3 */
    {"cvt.rn.f32.u32 %f7, %r5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x1000001, 0x4b800000},
    {"cvt.rn.f32.u32 %f7, %r5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x1000003, 0x4b800002},
    {"cvt.rz.f32.u32 %f7, %r5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x1000003, 0x4b800001},
    {"cvt.rp.f32.u32 %f7, %r5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x1000001, 0x4b800001},
    {"cvt.rm.f32.s32 %f7, %r5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0xfeffffff, 0xcb800001},
    {"cvt.rn.f32.u64 %f7, %rd5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0xffffffffffffffff, 0x5f800000},
    {"cvt.rz.f32.u64 %f7, %rd5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0xffffffffffffffff, 0x5f7fffff},
    {"cvt.rn.f64.u64 %d7, %rd5; mov.b64 %rd6, %d7;", 0x20000000000001, 0x4340000000000000},
    /* f32 -> f16: ties, subnormals, overflow, NaN */
    {"cvt.rn.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x3f801000, 0x3c00}, /* 1 + 2^-11 */
    {"cvt.rn.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x3f803000, 0x3c02}, /* 1 + 3 * 2^-11 */
    {"cvt.rz.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x3f803000, 0x3c01},
    {"cvt.rn.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x477ff000, 0x7c00}, /* 65520 */
    {"cvt.rn.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x477fefff, 0x7bff},
    {"cvt.rz.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x7f7fffff, 0x7bff},
    {"cvt.rn.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x33000000, 0x0000}, /* 2^-25: a tie to zero */
    {"cvt.rn.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x33000001, 0x0001},
    {"cvt.rn.f16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x7fc00001, 0x7fff},
    {"cvt.f32.f16 %f7, %h5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x0001, 0x33800000},
    {"cvt.f32.f16 %f7, %h5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0xfbff, 0xc77fe000},
    {"cvt.rn.bf16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x3f808000, 0x3f80},
    {"cvt.rn.bf16.f32 %h7, %f5; cvt.u64.u16 %rd6, %h7;", 0x3f818000, 0x3f82},
    {"cvt.rna.tf32.f32 %r7, %f5; cvt.u64.u32 %rd6, %r7;", 0x3f801000, 0x3f802000},
    {"cvt.rn.f16x2.f32 %r7, %f5, %f6; cvt.u64.u32 %rd6, %r7;", 0x400000003f800000, 0x3c004000},
    {"cvt.rn.f32.f64 %f7, %d5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x3ff0000010000000, 0x3f800000},
    {"cvt.rp.f32.f64 %f7, %d5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x3ff0000010000000, 0x3f800001},
    {"cvt.sat.f32.f32 %f7, %f5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x40000000, 0x3f800000},
    {"cvt.rni.f32.f32 %f7, %f5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x40600000, 0x40800000}, /* 3.5 */
    /* integers: sign, width, saturation */
    {"cvt.s32.s8 %r7, %r5; cvt.u64.u32 %rd6, %r7;", 0x80, 0xffffff80},
    {"cvt.u32.u8 %r7, %r5; cvt.u64.u32 %rd6, %r7;", 0x1ff, 0xff},
    {"cvt.sat.u8.s32 %r7, %r5; cvt.u64.u32 %rd6, %r7;", 0xffffff00, 0},
    {"cvt.sat.s8.s32 %r7, %r5; cvt.u64.u32 %rd6, %r7;", 1000, 127},
    {"cvt.sat.s16.u32 %h7, %r5; cvt.u64.u16 %rd6, %h7;", 0xffffffff, 0x7fff},
    {"cvt.s64.s32 %rd6, %r5;", 0x80000000, 0xffffffff80000000},
    /* flushing, min and max, saturation of arithmetic */
    {"add.ftz.f32 %f7, %f5, 0f00000000; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x80000001, 0x00000000},
    {"mul.ftz.f32 %f7, %f5, 0f3F000000; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x00800000, 0},
    {"mul.f32 %f7, %f5, 0f3F000000; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x00800000, 0x00400000},
    {"max.f32 %f7, %f5, 0f00000000; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x7fc00000, 0},
    {"max.NaN.f32 %f7, %f5, 0f00000000; mov.b32 %r7, %f7; and.b32 %r7, %r7, 0x7fc00000; cvt.u64.u32 %rd6, %r7;", 0x7fc00000, 0x7fc00000},
    {"max.f32 %f7, %f5, 0f00000000; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x80000000, 0},
    {"min.f32 %f7, %f5, 0f00000000; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x80000000, 0x80000000},
    {"add.sat.f32 %f7, %f5, %f5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x3f400000, 0x3f800000},
    {"add.sat.s32 %r7, %r5, %r5; cvt.u64.u32 %rd6, %r7;", 0x60000000, 0x7fffffff},
    {"add.rp.f32 %f7, %f5, 0f00000001; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x3f800000, 0x3f800001},
    {"div.rz.f32 %f7, 0f3F800000, %f5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x40400000, 0x3eaaaaaa},
    {"div.rn.f32 %f7, 0f3F800000, %f5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x40400000, 0x3eaaaaab},
    {"fma.rn.f32 %f7, %f5, %f5, 0fBF800000; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x3f800003, 0x35400002}, /* unfused: ...00 */
    {"add.f16 %h7, %h5, %h6; cvt.u64.u16 %rd6, %h7;", 0x10003c00, 0x3c00}, /* 1 + 2^-11: a tie */
    {"fma.rn.f16x2 %r7, %r5, %r5, %r5; cvt.u64.u32 %rd6, %r7;", 0x40003c00, 0x46004000},
    /* wide and high products, division, bits */
    {"mul.hi.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0xfffffffe80000000, 1},
    {"mul.wide.s32 %rd6, %r5, %r6;", 0xffffffff7fffffff, 0xffffffff80000001},
    {"mul.hi.u64 %rd6, %rd5, %rd5;", 0xffffffffffffffff, 0xfffffffffffffffe},
    {"div.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x00000002fffffff9, 0xfffffffd}, /* -7 / 2 */
    {"rem.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x00000002fffffff9, 0xffffffff},
    {"div.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0xffffffff80000000, 0x80000000},
    {"shl.b32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000002000000001, 0},
    {"shr.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000002080000000, 0xffffffff},
    {"bfe.s32 %r7, %r5, 4, 8; cvt.u64.u32 %rd6, %r7;", 0xf80, 0xfffffff8},
    {"bfe.u64 %rd6, %rd5, 60, 8;", 0xa000000000000000, 0xa},
    {"bfi.b32 %r7, %r6, %r5, 8, 8; cvt.u64.u32 %rd6, %r7;", 0x000001abffffffff, 0xffffabff},
    {"prmt.b32 %r7, %r5, %r6, 0xf170; cvt.u64.u32 %rd6, %r7;", 0x8070605004030201, 0xff028001},
    {"shf.l.wrap.b32 %r7, %r5, %r6, 8; cvt.u64.u32 %rd6, %r7;", 0x1122334455667788, 0x22334455},
    {"shf.r.clamp.b32 %r7, %r5, %r6, 40; cvt.u64.u32 %rd6, %r7;", 0x1122334455667788, 0x11223344},
    {"lop3.b32 %r7, %r5, %r6, 0xff, 0xca; cvt.u64.u32 %rd6, %r7;", 0x123456780000ffff, 0x5678},
    {"clz.b32 %r7, %r5; cvt.u64.u32 %rd6, %r7;", 0, 32},
    {"popc.b64 %r7, %rd5; cvt.u64.u32 %rd6, %r7;", 0xf0f0, 8},
    {"brev.b32 %r7, %r5; cvt.u64.u32 %rd6, %r7;", 1, 0x80000000},
    {"bfind.s32 %r7, %r5; cvt.u64.u32 %rd6, %r7;", 0xffffffff, 0xffffffff},
    {"add.cc.u32 %r7, %r5, %r5; addc.u32 %r8, %r6, 0; mov.b64 %rd6, {%r7, %r8};", 0x00000001ffffffff, 0x00000002fffffffe},
    {"sub.cc.u32 %r7, %r5, 1; subc.u32 %r8, %r6, 0; mov.b64 %rd6, {%r7, %r8};", 0x0000000100000000, 0xffffffff},
    {"mad.lo.cc.u32 %r7, %r5, %r6, %r5; madc.hi.u32 %r8, %r5, %r6, 0; mov.b64 %rd6, {%r7, %r8};", 0x7fffffffffffffff, 0x7fffffff80000000}, /* a b + a */
    {"mad.hi.cc.s32 %r7, %r5, %r6, 5; madc.lo.cc.s32 %r8, 3, 4, -1; mov.b64 %rd6, {%r7, %r8};", 0x00000002ffffffff, 0x0000000c00000004}, /* -2 >> 32 is -1 */
    {"mad.lo.cc.u64 %rd7, %rd5, 2, 1; madc.hi.cc.u64 %rd8, %rd5, 2, -1; addc.u32 %r7, 0, 0; cvt.u64.u32 %rd6, %r7; shl.b64 %rd8, %rd8, 8; or.b64 %rd6, %rd6, %rd8;", 0x8000000000000003, 1},
    {"mad.hi.sat.s32 %r7, %r5, %r6, 0x7fffffff; cvt.u64.u32 %rd6, %r7;", 0x4000000040000000, 0x7fffffff},
    {"mad.hi.s32 %r7, %r5, %r6, 0x7fffffff; cvt.u64.u32 %rd6, %r7;", 0x4000000040000000, 0x8fffffff},
    {"mad.hi.sat.s32 %r7, %r5, %r6, 0x80000000; cvt.u64.u32 %rd6, %r7;", 0xc000000040000000, 0x80000000},
    {"mad24.hi.sat.s32 %r7, %r5, %r6, 0x7fffffff; cvt.u64.u32 %rd6, %r7;", 0x0010000000001000, 0x7fffffff},
    {"dp4a.u32.u32 %r7, %r5, %r6, 1; cvt.u64.u32 %rd6, %r7;", 0x02020202ff020304, 529}, /* 2 (255 + 2 + 3 + 4) + 1 */
    {"dp4a.s32.u32 %r7, %r5, %r6, 1; cvt.u64.u32 %rd6, %r7;", 0x02020202ff020304, 17},
    {"dp4a.u32.s32 %r7, %r5, %r6, 0; cvt.u64.u32 %rd6, %r7;", 0xff000080ff000001, 0xfffffe81}, /* -255 - 128 */
    {"dp2a.lo.s32.u32 %r7, %r5, %r6, 0; cvt.u64.u32 %rd6, %r7;", 0x0203ff05ffff0010, 0xffffff51}, /* 16 * 5 - 255 */
    {"dp2a.hi.u32.s32 %r7, %r5, %r6, 7; cvt.u64.u32 %rd6, %r7;", 0xff03ff05ffff0010, 0xffff0038}, /* 16 * 3 - 65535 + 7 */
    {"bmsk.clamp.b32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000000200000001, 6},
    {"bmsk.clamp.b32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000002000000004, 0xfffffff0},
    {"bmsk.clamp.b32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000000100000020, 0},
    {"bmsk.wrap.b32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000002100000024, 0x10},
    {"bmsk.wrap.b32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000002000000004, 0},
    {"bmsk.wrap.b32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000001f0000001e, 0xc0000000},
    {"szext.clamp.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x00000004000000f8, 0xfffffff8},
    {"szext.clamp.u32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x00000004000000f8, 8},
    {"szext.clamp.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000002112345678, 0x12345678},
    {"szext.wrap.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0000002112345679, 0xffffffff},
    {"szext.wrap.u32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x00000020ffffffff, 0},
    {"setp.lt.f16x2 %p1|%p2, %r5, %r6; selp.u32 %r7, 1, 0, %p1; selp.u32 %r8, 2, 0, %p2; add.u32 %r7, %r7, %r8; cvt.u64.u32 %rd6, %r7;", 0x3c004000bc003c00, 3}, /* 1 < 2, -1 < 1 */
    {"setp.lt.f16x2 %p1|%p2, %r5, %r6; selp.u32 %r7, 1, 0, %p1; selp.u32 %r8, 2, 0, %p2; add.u32 %r7, %r7, %r8; cvt.u64.u32 %rd6, %r7;", 0x3c003c003c00bc00, 1},
    {"setp.ltu.f16x2 %p1|%p2, %r5, %r6; selp.u32 %r7, 1, 0, %p1; selp.u32 %r8, 2, 0, %p2; add.u32 %r7, %r7, %r8; cvt.u64.u32 %rd6, %r7;", 0x3c003c007e003c00, 2},
    {"setp.gt.or.f16x2 %p1|%p2, %r5, %r6, !%p0; selp.u32 %r7, 1, 0, %p1; selp.u32 %r8, 2, 0, %p2; add.u32 %r7, %r7, %r8; cvt.u64.u32 %rd6, %r7;", 0x3c003c003c00bc00, 3},
    {"set.gt.u32.f16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x3c003c004000bc00, 0xffff0000},
    {"set.ge.f16x2.f16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x3c003c00bc003c00, 0x00003c00},
    {"set.eq.u16.f16 %h7, %h5, %h6; cvt.u64.u16 %rd6, %h7;", 0x80000000, 0xffff}, /* 0 and -0 */
    {"set.eq.f16.f16 %h7, %h5, %h6; cvt.u64.u16 %rd6, %h7;", 0x7e007e00, 0},
    {"set.eq.s32.f16 %r7, %h5, %h6; cvt.u64.u32 %rd6, %r7;", 0x3c003c00, 0xffffffff},
    {"set.eq.ftz.u16.f16 %h7, %h5, %h6; cvt.u64.u16 %rd6, %h7;", 0x00010000, 0xffff},
    {"setp.ltu.f32 %p1, %f5, 0f00000000; selp.u64 %rd6, 1, 0, %p1;", 0x7fc00000, 1},
    {"setp.ne.f32 %p1, %f5, %f5; selp.u64 %rd6, 1, 0, %p1;", 0x7fc00000, 0},
    {"setp.lt.xor.s32 %p1|%p2, %r5, 0, %p0; selp.u64 %rd6, 1, 0, %p2;", 5, 1},
    {"slct.u64.f32 %rd6, 3, 4, %f5;", 0x80000000, 3},
    {"set.gt.u32.s32 %r7, %r5, 3; cvt.u64.u32 %rd6, %r7;", 4, 0xffffffff},
    {"testp.subnormal.f32 %p1, %f5; selp.u64 %rd6, 1, 0, %p1;", 1, 1},
};

static void check_known(const char *head, const Known *k) {
    uint64_t out = 0;
    run_on(head, k->body, &k->in, &out, 1);
    if (out != k->want)
        fail_msg("%s of 0x%llx: 0x%llx instead of 0x%llx", k->body, (unsigned long long)k->in, (unsigned long long)out,
                 (unsigned long long)k->want);
}

/* Of sm_90. */
static const Known KNOWN90[] = {
    {"add.u16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x000100010001ffff, 0x00020000},
    {"min.u16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0001ffff80008000, 0x00018000},
    {"min.s16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0001ffff80008000, 0x80008000},
    {"max.u16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0001ffff80008000, 0x8000ffff},
    {"max.s16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0001ffff80008000, 0x0001ffff},
    {"max.relu.s16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x0001ffff80008000, 0x00010000},
    {"min.relu.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x00000001ffffffff, 0},
    {"set.lt.bf16.s32 %h7, %r5, %r6; cvt.u64.u16 %rd6, %h7;", 0x00000001ffffffff, 0x3f80},
    {"set.lt.bf16x2.bf16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x3f804000bf803f80, 0x3f803f80},
    {"set.lt.s32.bf16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x3f803f80bf803f80, 0xffff0000},
    {"min.xorsign.abs.f32 %f7, %f5, %f6; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0xc00000003f800000, 0xbf800000}, /* 1 and -2 */
    {"max.xorsign.abs.f32 %f7, %f5, %f6; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0xc0000000bf800000, 0x40000000},
    {"min.NaN.xorsign.abs.f32 %f7, %f5, %f6; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", 0x7fc00000bf800000, 0x7fffffff},
    {"max.xorsign.abs.f16x2 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x3c00c000bc003c00, 0xbc00c000},
    /* .e4m3x2, .e5m2x2: bounds, NaN, ties, subnormals, signs */
    {"cvt.rn.satfinite.e4m3x2.f32 %h7, %f5, %f6; cvt.u64.u16 %rd6, %h7;", 0x3f80000044000000, 0x7e38}, /* 512, 1 */
    {"cvt.rn.satfinite.e4m3x2.f32 %h7, %f5, %f6; cvt.u64.u16 %rd6, %h7;", 0xbf8000007fc00000, 0x7fb8},
    {"cvt.rn.satfinite.e4m3x2.f32 %h7, %f5, %f6; cvt.u64.u16 %rd6, %h7;", 0x3f9800003f880000, 0x383a}, /* 1 + 1/16, 1 + 3/16 */
    {"cvt.rn.satfinite.e4m3x2.f32 %h7, %f5, %f6; cvt.u64.u16 %rd6, %h7;", 0x3a8000003b000000, 0x0100}, /* 2^-9, 2^-10 */
    {"cvt.rn.satfinite.e4m3x2.f32 %h7, %f5, %f6; cvt.u64.u16 %rd6, %h7;", 0x3c7000003ff80000, 0x4008}, /* carry to 2 and to 2^-6 */
    {"cvt.rn.satfinite.e5m2x2.f32 %h7, %f5, %f6; cvt.u64.u16 %rd6, %h7;", 0x3f800000ff800000, 0xfb3c},
    {"cvt.rn.satfinite.relu.e5m2x2.f32 %h7, %f5, %f6; cvt.u64.u16 %rd6, %h7;", 0x3f800000ff800000, 0x003c},
    {"cvt.rn.satfinite.e4m3x2.f16x2 %h7, %r5; cvt.u64.u16 %rd6, %h7;", 0xc0003c00, 0xc038},
    {"cvt.rn.f16x2.e4m3x2 %r7, %h5; cvt.u64.u32 %rd6, %r7;", 0x7eb8, 0x5f00bc00},
    {"cvt.rn.f16x2.e4m3x2 %r7, %h5; cvt.u64.u32 %rd6, %r7;", 0x7f01, 0x7fff1800},
    {"cvt.rn.relu.f16x2.e5m2x2 %r7, %h5; cvt.u64.u32 %rd6, %r7;", 0xbc7c, 0x00007c00},
    {"max.relu.s32 %r7, %r5, %r6; cvt.u64.u32 %rd6, %r7;", 0x00000005ffffffff, 5},
};

static void known_values(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof KNOWN / sizeof *KNOWN; k++) check_known(PTX_HEAD, &KNOWN[k]);
    for (size_t k = 0; k < sizeof KNOWN90 / sizeof *KNOWN90; k++)
        check_known(".version 8.1\n.target sm_90\n.address_size 64\n", &KNOWN90[k]);
}

/* Random doubles near f32 values, in every direction, against the host's own conversion. */
static void narrowing_agrees_with_the_host(void **state) {
    (void)state;
    static const struct { const char *body; int mode; } MODES[] = {
        {"cvt.rn.f32.f64 %f7, %d5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", FE_TONEAREST},
        {"cvt.rz.f32.f64 %f7, %d5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", FE_TOWARDZERO},
        {"cvt.rm.f32.f64 %f7, %d5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", FE_DOWNWARD},
        {"cvt.rp.f32.f64 %f7, %d5; mov.b32 %r7, %f7; cvt.u64.u32 %rd6, %r7;", FE_UPWARD}};
    enum { N = 1024 };
    uint64_t in[N], out[N], s = 88172645463325252u;
    for (int i = 0; i < N; i++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        const uint64_t exponent = 1023 - 152 + s % 290; /* from below the subnormals of f32 to above its range */
        in[i] = (s & UINT64_C(0x800fffffe0000000)) | exponent << 52 | (i % 3 == 0 ? UINT64_C(0x10000000) : s % 5);
    }
    for (size_t m = 0; m < 4; m++) {
        run(MODES[m].body, in, out, N);
        fesetround(MODES[m].mode);
        bool same = true;
        for (int i = 0; i < N && same; i++) {
            double d;
            memcpy(&d, &in[i], sizeof d);
            volatile float f = (float)d;
            uint32_t bits;
            memcpy(&bits, (const void *)&f, sizeof bits);
            same = bits == out[i];
        }
        fesetround(FE_TONEAREST);
        assert_true(same);
    }
}

static void functions_are_close(void **state) {
    (void)state;
    static const struct { const char *body; double (*f)(double); } TABLE[] = {
        {"ex2.approx.f32 %f7, %f5;", exp2}, {"lg2.approx.f32 %f7, %f5;", log2}, {"sin.approx.f32 %f7, %f5;", sin},
        {"cos.approx.f32 %f7, %f5;", cos},  {"sqrt.rn.f32 %f7, %f5;", sqrt},    {"tanh.approx.f32 %f7, %f5;", tanh}};
    enum { N = 32 };
    uint64_t in[N], out[N];
    for (int i = 0; i < N; i++) {
        const float x = 0.07f * (float)(i + 1);
        in[i] = 0;
        memcpy(&in[i], &x, sizeof x);
    }
    for (size_t k = 0; k < sizeof TABLE / sizeof *TABLE; k++) {
        char body[128];
        snprintf(body, sizeof body, "%s mov.b32 %%r7, %%f7; cvt.u64.u32 %%rd6, %%r7;", TABLE[k].body);
        run(body, in, out, N);
        for (int i = 0; i < N; i++) {
            float x, y;
            memcpy(&x, &in[i], sizeof x);
            memcpy(&y, &out[i], sizeof y);
            assert_true(fabs(y - TABLE[k].f(x)) <= 1e-7 * fmax(1, fabs(TABLE[k].f(x))));
        }
    }
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {RUN(known_values), RUN(narrowing_agrees_with_the_host), RUN(functions_are_close)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
