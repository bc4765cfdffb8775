/* Hand-written PTX on the software GPU, through the driver API, against plain C. */
#include "ptxsim_driver.h"
#include <math.h>

static const char VECTOR_ADD[] = PTX_HEAD
    ".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<11>;\n"
    "  ld.param.u64 %rd1, [a];\n  ld.param.u64 %rd2, [b];\n  ld.param.u64 %rd3, [c];\n  ld.param.u32 %r2, [n];\n"
    "  mov.u32 %r3, %ctaid.x;\n  mov.u32 %r4, %ntid.x;\n  mov.u32 %r5, %tid.x;\n"
    "  mad.lo.s32 %r1, %r3, %r4, %r5;\n"
    "  setp.ge.s32 %p1, %r1, %r2;\n"
    "  @%p1 bra $L__BB0_2;\n"
    "  cvta.to.global.u64 %rd4, %rd1;\n  mul.wide.s32 %rd5, %r1, 4;\n  add.s64 %rd6, %rd4, %rd5;\n"
    "  cvta.to.global.u64 %rd7, %rd2;\n  add.s64 %rd8, %rd7, %rd5;\n"
    "  ld.global.f32 %f1, [%rd8];\n  ld.global.nc.f32 %f2, [%rd6];\n  add.rn.f32 %f3, %f2, %f1;\n"
    "  cvta.to.global.u64 %rd9, %rd3;\n  add.s64 %rd10, %rd9, %rd5;\n"
    "  st.global.f32 [%rd10], %f3;\n"
    "$L__BB0_2:\n  ret;\n}\n";

static void vector_add(void **state) {
    (void)state;
    enum { N = 1000 };
    float a[N], b[N], c[N];
    int n = N;
    for (int i = 0; i < N; i++) a[i] = (float)i * 0.5f, b[i] = 100.0f - (float)i;
    CUdeviceptr pa = upload(a, sizeof a), pb = upload(b, sizeof b), pc = upload(NULL, sizeof c);
    CUfunction f = load_kernel(VECTOR_ADD, "vadd");
    assert_int_equal(launch1(f, 8, 128, (void *[]){&pa, &pb, &pc, &n}), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyDtoH_v2(c, pc, sizeof c), CUDA_SUCCESS);
    for (int i = 0; i < N; i++) assert_true(c[i] == a[i] + b[i]);
    cu.cuMemFree_v2(pa);
    cu.cuMemFree_v2(pb);
    cu.cuMemFree_v2(pc);
}

/* Sums 256 numbers of a block by shuffles within warps and shared memory between them. */
static const char REDUCTION[] = PTX_HEAD
    ".shared .align 4 .b8 part[32];\n"
    ".entry total(.param .u64 in, .param .u64 out) .maxntid 256, 1, 1\n{\n"
    "  .reg .pred %p<6>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<8>;\n"
    "  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\n"
    "  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;\n"
    "  mad.wide.u32 %rd3, %r3, 4, %rd1; ld.global.f32 %f1, [%rd3];\n"
    "  mov.b32 %r4, 16;\n"
    "LOOP:\n"
    "  mov.b32 %r5, %f1; shfl.sync.bfly.b32 %r6|%p1, %r5, %r4, 31, -1; mov.b32 %f2, %r6;\n"
    "  add.f32 %f1, %f1, %f2; shr.u32 %r4, %r4, 1; setp.ne.s32 %p2, %r4, 0; @%p2 bra LOOP;\n"
    "  and.b32 %r7, %r1, 31; shr.u32 %r8, %r1, 5; setp.ne.s32 %p3, %r7, 0;\n"
    "  mov.u32 %r9, part; shl.b32 %r10, %r8, 2; add.s32 %r11, %r9, %r10;\n"
    "  @!%p3 st.shared.f32 [%r11], %f1;\n"
    "  bar.sync 0;\n"
    "  setp.ne.s32 %p4, %r1, 0; @%p4 bra DONE;\n"
    "  ld.shared.v4.f32 {%f3, %f4, %f5, %f6}, [part]; ld.shared.v4.f32 {%f7, %f8, %f9, %f10}, [part+16];\n"
    "  add.f32 %f3, %f3, %f4; add.f32 %f3, %f3, %f5; add.f32 %f3, %f3, %f6; add.f32 %f3, %f3, %f7;\n"
    "  add.f32 %f3, %f3, %f8; add.f32 %f3, %f3, %f9; add.f32 %f3, %f3, %f10;\n"
    "  mad.wide.u32 %rd4, %r2, 4, %rd2; st.global.f32 [%rd4], %f3;\n"
    "DONE:\n  ret;\n}\n";

static void reduction(void **state) {
    (void)state;
    enum { BLOCKS = 5, N = BLOCKS * 256 };
    float in[N], out[BLOCKS];
    for (int i = 0; i < N; i++) in[i] = (float)((i * 37) % 101);
    CUdeviceptr pi = upload(in, sizeof in), po = upload(NULL, sizeof out);
    CUfunction f = load_kernel(REDUCTION, "total");
    for (int seed = 0; seed < 4; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("PTXSIM_SEED", text, 1);
        assert_int_equal(launch1(f, BLOCKS, 256, (void *[]){&pi, &po}), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyDtoH_v2(out, po, sizeof out), CUDA_SUCCESS);
        for (int b = 0; b < BLOCKS; b++) {
            float want = 0;
            for (int i = 0; i < 256; i++) want += in[b * 256 + i];
            assert_true(out[b] == want);
        }
    }
    unsetenv("PTXSIM_SEED");
    assert_int_equal(launch1(f, 1, 512, (void *[]){&pi, &po}), CUDA_ERROR_INVALID_VALUE); /* .maxntid */
    cu.cuMemFree_v2(pi);
    cu.cuMemFree_v2(po);
}

/* Collatz steps: every lane leaves the loop at its own time; a nested branch inside; two ways out. */
static const char DIVERGENCE[] = PTX_HEAD
    ".entry collatz(.param .u64 out, .param .u32 limit)\n{\n"
    "  .reg .pred %p<6>; .reg .b32 %r<12>; .reg .b64 %rd<4>;\n"
    "  ld.param.u64 %rd1, [out]; ld.param.u32 %r9, [limit];\n"
    "  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;\n"
    "  mad.wide.u32 %rd2, %r4, 4, %rd1; add.u32 %r5, %r4, 1; mov.u32 %r6, 0;\n"
    "LOOP: setp.eq.u32 %p1, %r5, 1; @%p1 bra OUT;\n"
    "  and.b32 %r7, %r5, 1; setp.eq.u32 %p2, %r7, 0; @%p2 bra EVEN;\n"
    "  mad.lo.u32 %r5, %r5, 3, 1; bra.uni NEXT;\n"
    "EVEN: shr.u32 %r5, %r5, 1;\n"
    "NEXT: add.u32 %r6, %r6, 1; setp.gt.u32 %p3, %r6, %r9; @!%p3 bra LOOP;\n"
    "  mov.u32 %r6, 0xffffffff;\n"
    "OUT: activemask.b32 %r10; setp.ne.u32 %p4, %r10, -1; @%p4 trap;\n"
    "  st.global.u32 [%rd2], %r6; ret;\n}\n";

static void divergence(void **state) {
    (void)state;
    enum { N = 256 };
    uint32_t out[N], limit = 60;
    CUdeviceptr po = upload(NULL, sizeof out);
    CUfunction f = load_kernel(DIVERGENCE, "collatz");
    assert_int_equal(launch1(f, 4, 64, (void *[]){&po, &limit}), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyDtoH_v2(out, po, sizeof out), CUDA_SUCCESS);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t v = i + 1, steps = 0;
        while (v != 1 && steps <= limit) v = v % 2 ? 3 * v + 1 : v / 2, steps++;
        if (steps > limit) steps = UINT32_MAX;
        assert_int_equal(out[i], steps);
    }
    cu.cuMemFree_v2(po);
}

static const char ATOMICS[] = PTX_HEAD
    ".global .align 4 .u32 counter = 7;\n"
    ".entry count(.param .u64 out)\n{\n"
    "  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<3>; .shared .align 8 .u32 local_count[2];\n"
    "  .reg .pred %p<3>;\n"
    "  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0;\n"
    "  @!%p1 st.shared.u32 [local_count], 0;\n  bar.sync 0;\n"
    "  atom.shared.add.u32 %r2, [local_count], 1;\n  red.global.add.u32 [counter], 2;\n"
    "  atom.global.max.s32 %r3, [%rd1], %r1;\n  atom.global.inc.u32 %r4, [%rd1+4], 9;\n"
    "  atom.global.add.f32 %f1, [%rd1+8], 0f3F800000;\n  atom.global.cas.b32 %r5, [%rd1+12], 5, 6;\n"
    "  atom.add.acq_rel.gpu.global.u32 %r8, [%rd1+16], 1;\n"
    "  bar.sync 0;\n  @%p1 ret;\n  ld.shared.u32 %r6, [local_count];\n  red.global.add.u32 [%rd1+20], %r6;\n  ret;\n}\n";

static void atomics(void **state) {
    (void)state;
    const uint32_t zero[6] = {(uint32_t)-5, 0, 0, 5, 0, 0};
    uint32_t out[6], counter;
    float sum;
    size_t bytes;
    CUdeviceptr po = upload(zero, sizeof zero), pc;
    CUmodule m;
    CUfunction f;
    assert_int_equal(cu.cuModuleLoadData(&m, ATOMICS), CUDA_SUCCESS);
    assert_int_equal(cu.cuModuleGetFunction(&f, m, "count"), CUDA_SUCCESS);
    assert_int_equal(cu.cuModuleGetGlobal_v2(&pc, &bytes, m, "counter"), CUDA_SUCCESS);
    assert_int_equal(bytes, 4);
    assert_int_equal(launch1(f, 3, 96, (void *[]){&po}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(out, po, sizeof out);
    cu.cuMemcpyDtoH_v2(&counter, pc, sizeof counter);
    memcpy(&sum, &out[2], sizeof sum);
    assert_int_equal(counter, 7 + 2 * 288);
    assert_int_equal(out[0], 95);
    assert_int_equal(out[1], 288 % 10);
    assert_true(sum == 288.0f);
    assert_int_equal(out[3], 6);
    assert_int_equal(out[4], 288);
    assert_int_equal(out[5], 288);
    cu.cuMemFree_v2(po);
}

/* A call of a device function with divergent recursion, and a vector in local memory. */
static const char CALLS[] = PTX_HEAD
    ".func (.param .b32 result) fib(.param .b32 n)\n{\n"
    "  .reg .pred %p<2>; .reg .b32 %r<8>;\n"
    "  ld.param.u32 %r1, [n]; setp.lt.u32 %p1, %r1, 2; @%p1 bra SMALL;\n"
    "  sub.u32 %r2, %r1, 1; sub.u32 %r3, %r1, 2;\n"
    "  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r2; call.uni (y), fib, (x); ld.param.b32 %r4, [y]; }\n"
    "  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r3; call.uni (y), fib, (x); ld.param.b32 %r5, [y]; }\n"
    "  add.u32 %r6, %r4, %r5; st.param.b32 [result], %r6; ret;\n"
    "SMALL: st.param.b32 [result], %r1; ret;\n}\n"
    ".entry run(.param .u64 out)\n{\n"
    "  .local .align 8 .b8 box[16]; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
    "  mov.u32 %r1, %tid.x; rem.u32 %r2, %r1, 11; mov.u64 %rd1, box; cvta.local.u64 %rd2, %rd1;\n"
    "  { .param .b32 x; .param .b32 y; st.param.b32 [x+0], %r2; call.uni (y), fib, (x); ld.param.b32 %r3, [y+0]; }\n"
    "  st.local.v2.u32 [%rd1+8], {%r3, %r1}; ld.v2.u32 {%r4, %r5}, [%rd2+8]; sub.u32 %r6, %r4, %r5;\n"
    "  ld.param.u64 %rd3, [out]; mad.wide.u32 %rd4, %r1, 4, %rd3; st.global.u32 [%rd4], %r6; ret;\n}\n";

static void calls(void **state) {
    (void)state;
    static const int32_t FIB[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55};
    int32_t out[40];
    CUdeviceptr po = upload(NULL, sizeof out);
    CUfunction f = load_kernel(CALLS, "run");
    assert_int_equal(launch1(f, 1, 40, (void *[]){&po}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(out, po, sizeof out);
    for (int i = 0; i < 40; i++) assert_int_equal(out[i], FIB[i % 11] - i);
    cu.cuMemFree_v2(po);
}

/* Dynamic shared memory, predicated vector loads, inline-assembly scopes with equal local names, brx. */
static const char SCOPES[] = PTX_HEAD
    ".extern .shared .align 16 .b8 dyn[];\n"
    ".visible .entry scopes(.param .u64 .ptr .global .align 16 in, .param .u64 out, .param .u32 n)\n.minnctapersm 1\n{\n"
    "  .reg .b32 %r<10>; .reg .b64 %rd<6>; .reg .f32 %f<10>; .reg .pred %p<3>;\n"
    "  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x;\n"
    "  mad.wide.u32 %rd3, %r1, 16, %rd1; setp.lt.u32 %p1, %r1, %r9; selp.b32 %r8, 1, 0, %p1;\n"
    "  // begin inline asm\n"
    "  { .reg .pred p; setp.ne.s32 p, %r8, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n"
    "    @p ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3]; }\n"
    "  { .reg .pred p; setp.ne.s32 p, %r8, 0; @!p bra skip; add.f32 %f1, %f1, 0f3F800000; skip: }\n"
    "  { .reg .pred p; setp.ne.s32 p, %r8, 1; @!p bra skip; add.f32 %f1, %f1, 0fC0000000; skip: }\n"
    "  // end inline asm\n"
    "  add.f32 %f5, %f1, %f2; add.f32 %f6, %f3, %f4; add.f32 %f7, %f5, %f6;\n"
    "  shl.b32 %r2, %r1, 2; mov.u32 %r3, dyn; add.u32 %r4, %r3, %r2; st.shared.f32 [%r4], %f7; bar.sync 0;\n"
    "  xor.b32 %r5, %r2, 4; add.u32 %r6, %r3, %r5; ld.shared.f32 %f8, [%r6];\n"
    "  and.b32 %r7, %r1, 3;\n"
    "TABLE: .branchtargets A, B, B, C;\n"
    "  brx.idx %r7, TABLE;\n"
    "A: add.f32 %f8, %f8, 0f41200000; bra JOIN;\n"
    "B: add.f32 %f8, %f8, 0f41A00000; bra JOIN;\n"
    "C: neg.f32 %f8, %f8;\n"
    "JOIN: mad.wide.u32 %rd4, %r1, 4, %rd2; st.global.f32 [%rd4], %f8;\n  ret;\n}\n";

static void scopes(void **state) {
    (void)state;
    enum { THREADS = 64, N = 50 };
    float in[N * 4], out[THREADS], sum[THREADS];
    uint32_t n = N;
    for (int i = 0; i < N * 4; i++) in[i] = (float)i;
    CUdeviceptr pi = upload(in, sizeof in), po = upload(NULL, sizeof out);
    CUfunction f = load_kernel(SCOPES, "scopes");
    void *params[] = {&pi, &po, &n};
    assert_int_equal(cu.cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, THREADS * 4, NULL, params, NULL), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(out, po, sizeof out);
    for (int i = 0; i < THREADS; i++)
        sum[i] = i < N ? in[4 * i] + 1 + in[4 * i + 1] + (in[4 * i + 2] + in[4 * i + 3]) : -2;
    for (int i = 0; i < THREADS; i++) {
        const float v = sum[i ^ 1];
        assert_true(out[i] == (i % 4 == 0 ? v + 10 : i % 4 == 3 ? -v : v + 20));
    }
    assert_int_equal(cu.cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, 60000, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000), CUDA_SUCCESS);
    assert_int_equal(cu.cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, 60000, NULL, params, NULL), CUDA_SUCCESS);
    cu.cuMemFree_v2(pi);
    cu.cuMemFree_v2(po);
}

/* Half of the threads leave before the barrier, and blocks wait for each other through global memory. */
static const char HANDOVER[] = PTX_HEAD
    ".entry chain(.param .u64 state)\n{\n"
    "  .reg .b32 %r<8>; .reg .b64 %rd<3>; .reg .pred %p<4>;\n"
    "  mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 40; @%p1 ret;\n"
    "  ld.param.u64 %rd1, [state]; mov.u32 %r2, %ctaid.x; mov.u32 %r5, %nctaid.x; sub.u32 %r5, %r5, 1; sub.u32 %r6, %r5, %r2;\n"
    "  setp.ne.u32 %p2, %r1, 0; @%p2 bra WAITED;\n"
    "SPIN: ld.acquire.gpu.global.u32 %r3, [%rd1]; setp.ne.u32 %p3, %r3, %r6; @%p3 bra SPIN;\n"
    "WAITED: bar.sync 0;\n"
    "  @!%p2 ld.global.u32 %r4, [%rd1+4];\n  @!%p2 mad.lo.u32 %r4, %r4, 3, %r2;\n  @!%p2 st.global.u32 [%rd1+4], %r4;\n"
    "  membar.gl;\n"
    "  @!%p2 add.u32 %r6, %r6, 1;\n  @!%p2 st.release.gpu.global.u32 [%rd1], %r6;\n  ret;\n}\n";

static void handover(void **state) {
    (void)state;
    enum { BLOCKS = 6 };
    const uint32_t start[2] = {0, 1};
    uint32_t out[2], want = 1;
    CUdeviceptr p = upload(start, sizeof start);
    CUfunction f = load_kernel(HANDOVER, "chain");
    assert_int_equal(launch1(f, BLOCKS, 64, (void *[]){&p}), CUDA_SUCCESS);
    cu.cuMemcpyDtoH_v2(out, p, sizeof out);
    for (uint32_t b = BLOCKS; b-- > 0;) want = want * 3 + b;
    assert_int_equal(out[0], BLOCKS);
    assert_int_equal(out[1], want);
    cu.cuMemFree_v2(p);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)
    const struct CMUnitTest tests[] = {RUN(vector_add), RUN(reduction), RUN(divergence), RUN(atomics),
                                       RUN(calls),      RUN(scopes),    RUN(handover)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
