/* What PTX says of caches: policies, priorities, prefetches, discard, .mmio, and accesses of 128 bits.  Which combinations
 * exist is what ptxas 13.0 accepts for sm_90a, which also takes .b128 registers for narrower values and constants of
 * .b128. */
#include "ptxsim_pairs.h"

#define HEAD                                                                                                         \
    ".version 8.5\n.target sm_90a\n.address_size 64\n.const .align 64 .b8 table[128];\n"                               \
    ".entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b128 %q<4>; .reg .b64 %rd<9>; .reg .b32 %r<9>;\n"             \
    ".reg .f32 %f<9>; .reg .pred %p<4>; .shared .align 128 .b8 s[256]; .local .align 16 .b8 l[64];\n"                  \
    "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.b64 %rd3, 7; mov.u32 %r1, %tid.x;\n"
#define KERNEL(body) HEAD body "\nret;\n}\n"

static const char *const ACCEPTED[] = {
    "ld.global.L1::no_allocate.L2::cache_hint.L2::128B.b32 %r2, [%rd1], %rd3;",
    "ld.global.ca.L2::cache_hint.b32 %r2, [%rd1], %rd3;",
    "ld.L2::cache_hint.b32 %r2, [%rd1], 5;",
    "ld.L1::evict_last.b32 %r2, [%rd1];",
    "ld.volatile.global.L2::64B.b32 %r2, [%rd1];",
    "ld.relaxed.gpu.global.L1::evict_last.L2::cache_hint.L2::64B.b32 %r2, [%rd1], %rd3;",
    "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1], %rd3;",
    "ld.global.cs.L2::128B.b32 %r2, [%rd1];",
    "ld.shared.ca.b32 %r2, [s];",
    "st.global.L1::evict_last.L2::cache_hint.b32 [%rd1], %r1, %rd3;",
    "st.global.wt.L2::cache_hint.b32 [%rd1], %r1, %rd3;",
    "st.relaxed.gpu.global.L1::no_allocate.L2::cache_hint.b32 [%rd1], %r1, %rd3;",
    "st.shared.wb.b32 [s], %r1;",
    "ld.mmio.relaxed.sys.global.u32 %r2, [%rd1]; st.mmio.relaxed.sys.u32 [%rd1], %r2;",
    "ld.b128 %q1, [%rd1]; st.shared.b128 [s], %q1; ld.local.b128 %q1, [l]; ld.const.b128 %q2, [table];",
    "ld.acquire.sys.global.b128 %q1, [%rd1]; st.release.gpu.global.b128 [%rd1], %q1; mov.b128 %q1, %q2;",
    "ld.weak.global.L1::no_allocate.L2::cache_hint.b128 %q1, [%rd1], %rd3; mov.b128 {%rd3, %rd4}, %q1;",
    "atom.shared.cas.b128 %q1, [s], %q2, %q3; atom.relaxed.gpu.global.exch.b128 %q1, [%rd1], %q2;",
    "atom.global.add.L2::cache_hint.u32 %r2, [%rd1], %r1, %rd3; red.add.L2::cache_hint.u32 [%rd1], %r1, %rd3;",
    "red.relaxed.gpu.global.add.L2::cache_hint.v4.f32 [%rd1], {%f1,%f2,%f3,%f4}, %rd3;",
    "atom.global.add.L2::cache_hint.v2.f32 {%f5,%f6}, [%rd1], {%f1,%f2}, %rd3;",
    "cp.async.cg.shared.global.L2::cache_hint.L2::128B [s], [%rd1], 16, %rd3;",
    "prefetch.global.L1 [%rd1]; prefetch.L2 [%rd1]; prefetch.local.L2 [l]; prefetchu.L1 [%rd1];",
    "prefetch.global.L2::evict_last [%rd1]; prefetch.L2::evict_normal [%rd1];",
    "prefetch.tensormap [%rd1]; prefetch.param.tensormap [in]; prefetch.const.tensormap [table];",
    "applypriority.global.L2::evict_normal [%rd1], 128; discard.global.L2 [%rd1], 128; discard.L2 [%rd1], 128;",
    "createpolicy.fractional.L2::evict_last.b64 %rd3; createpolicy.fractional.L2::evict_last.b64 %rd3, 1.0;",
    "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd3, %f1;",
    "createpolicy.range.L2::evict_last.L2::evict_first.b64 %rd3, [%rd1], 0x100000, 0x200000;",
    "createpolicy.range.global.L2::evict_last.b64 %rd3, [%rd1], %r1, %r2; createpolicy.cvt.L2.b64 %rd3, %rd4;",
};

static const char HOLE[] = HEAD "HOLE\nret;\n}\n";
static const char *const REFUSED[] = {
    "ld.global.ca.L1::evict_last.b32 %r2, [%rd1];",
    "ld.global.L1::evict_first.L1::evict_last.b32 %r2, [%rd1];",
    "ld.global.L2::evict_last.b32 %r2, [%rd1];",
    "ld.global.wb.b32 %r2, [%rd1];",
    "ld.shared.L2::cache_hint.b32 %r2, [s], %rd3;",
    "ld.shared.L2::128B.b32 %r2, [s];",
    "ld.local.L1::evict_last.b32 %r2, [l];",
    "ld.const.L1::evict_last.b32 %r2, [table];",
    "ld.global.L2::cache_hint.b32 %r2, [%rd1];",
    "ld.global.b32 %r2, [%rd1], %rd3;",
    "ld.global.L2::cache_hint.b32 %r2, [%rd1], %r1;",
    "ld.volatile.global.L1::evict_last.b32 %r2, [%rd1];",
    "ld.volatile.global.ca.b32 %r2, [%rd1];",
    "ld.relaxed.gpu.global.ca.b32 %r2, [%rd1];",
    "ld.nc.b32 %r2, [%rd1];",
    "ld.global.nc.relaxed.gpu.b32 %r2, [%rd1];",
    "st.global.L2::128B.b32 [%rd1], %r1;",
    "st.global.ca.b32 [%rd1], %r1;",
    "st.volatile.global.L1::no_allocate.b32 [%rd1], %r1;",
    "st.shared.L1::no_allocate.b32 [s], %r1;",
    "ld.mmio.relaxed.gpu.global.u32 %r2, [%rd1];",
    "ld.mmio.sys.global.u32 %r2, [%rd1];",
    "ld.mmio.relaxed.sys.shared.u32 %r2, [s];",
    "ld.mmio.relaxed.sys.global.v2.u32 {%r2,%r3}, [%rd1];",
    "ld.mmio.relaxed.sys.global.L1::no_allocate.u32 %r2, [%rd1];",
    "ld.global.v2.b128 {%q1,%q2}, [%rd1];",
    "ld.global.b32 %q1, [%rd1];",
    "st.global.b128 [%rd1], 5;",
    "mov.b128 %q1, {%r1, %r2, %r3, %r4};",
    "selp.b128 %q1, %q2, %q3, %p1;",
    "add.b128 %q1, %q2, %q3;",
    "atom.global.add.b128 %q1, [%rd1], %q2;",
    "atom.global.cas.L2::cache_hint.b32 %r2, [%rd1], %r1, %r3, %rd3;",
    "atom.global.add.u32 %r2, [%rd1], %r1, %rd3;",
    "atom.shared.add.L2::cache_hint.u32 %r2, [s], %r1, %rd3;",
    "prefetch.shared.L1 [s];",
    "prefetch.global.L1::evict_last [%rd1];",
    "prefetch.global [%rd1];",
    "prefetch.global.tensormap [%rd1];",
    "prefetch.local.L2::evict_last [l];",
    "prefetchu.L2 [%rd1];",
    "applypriority.global.L2::evict_last [%rd1], 128;",
    "applypriority.global.L2::evict_normal [%rd1], 64;",
    "discard.global.L1 [%rd1], 128;",
    "discard.global.L2 [%rd1], %r1;",
    "createpolicy.fractional.L2::evict_last.L2::evict_last.b64 %rd3, 0.5;",
    "createpolicy.fractional.L2::evict_last.b64 %rd3, 0.0;",
    "createpolicy.fractional.L2::evict_last.b64 %rd3, 1.5;",
    "createpolicy.range.L2::evict_last.b64 %rd3, [%rd1], 0x200000, 0x100000;",
    "createpolicy.range.L2::evict_last.b64 %rd3, [%rd1], %rd3, %rd4;",
    "createpolicy.cvt.L1.b64 %rd3, %rd4;",
};

static void forms(void **state) {
    (void)state;
    char text[4096];
    assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
    for (size_t k = 0; k < sizeof ACCEPTED / sizeof *ACCEPTED; k++) {
        snprintf(text, sizeof text, "%s%s\nret;\n}\n", HEAD, ACCEPTED[k]);
        load_kernel(text, "k");
    }
    for (size_t k = 0; k < sizeof REFUSED / sizeof *REFUSED; k++) refuse(HOLE, REFUSED[k]);
    cu.cuCtxDestroy_v2(cu.context);
}

/* `in`: 1024 words, 0 1 2...; `out`: 1024 words nobody wrote. */
#define OWN_LINE "mad.wide.u32 %rd5, %r1, 128, %rd1; "
static const Pair PAIRS[] = {
    {"discarded, then read", "uninitialised", KERNEL(OWN_LINE "discard.global.L2 [%rd5], 128; ld.global.u32 %r2, [%rd5+124];")},
    {"discarded, then written", NULL,
     KERNEL(OWN_LINE "discard.global.L2 [%rd5], 128; st.global.u32 [%rd5+124], %r1; ld.global.u32 %r2, [%rd5+124];")},
    {"discarded after the read", NULL, KERNEL(OWN_LINE "ld.global.u32 %r2, [%rd5]; discard.L2 [%rd5], 128;")},
    {"discarded under another's read", "warp-synchronous",
     KERNEL("mov.b64 %rd5, %rd1; ld.global.u32 %r2, [%rd5]; setp.eq.u32 %p1, %r1, 0; @%p1 discard.global.L2 [%rd5], 128;")},
    {"discarded past the end", "out-of-bounds", KERNEL("add.u64 %rd5, %rd1, 4096; discard.global.L2 [%rd5], 128;")},
    {"half a line discarded", "misaligned", KERNEL("add.u64 %rd5, %rd1, 64; discard.global.L2 [%rd5], 128;")},
    {"priority of shared memory", "out-of-bounds",
     KERNEL("mov.u32 %r2, s; cvt.u64.u32 %rd5, %r2; cvta.shared.u64 %rd5, %rd5; applypriority.L2::evict_normal [%rd5], 128;")},
    {"priority of a line", NULL, KERNEL("applypriority.L2::evict_normal [%rd1], 128;")},
    {"128 bits there and back", NULL,
     KERNEL("mul.wide.u32 %rd5, %r1, 16; add.u64 %rd6, %rd1, %rd5; ld.global.b128 %q1, [%rd6]; mov.b128 {%rd3, %rd4}, %q1;\n"
            "mov.b64 {%r2, %r3}, %rd3; mov.b64 {%r4, %r5}, %rd4; shl.b32 %r6, %r1, 2; setp.ne.u32 %p1, %r2, %r6; @%p1 trap;\n"
            "add.u32 %r6, %r6, 3; setp.ne.u32 %p1, %r5, %r6; @%p1 trap; mov.b128 %q2, {%rd4, %rd3}; add.u64 %rd6, %rd2, %rd5;\n"
            "st.global.b128 [%rd6], %q2; ld.global.u32 %r2, [%rd6]; setp.ne.u32 %p1, %r2, %r4; @%p1 trap;\n"
            "atom.global.exch.b128 %q3, [%rd6], %q1; mov.b128 {%rd7, %rd8}, %q3; setp.ne.u64 %p1, %rd7, %rd4; @%p1 trap;\n"
            "atom.global.cas.b128 %q3, [%rd6], %q2, %q2; atom.global.cas.b128 %q3, [%rd6], %q1, %q2; ld.global.b128 %q3, [%rd6];\n"
            "mov.b128 {%rd7, %rd8}, %q3; setp.ne.u64 %p1, %rd8, %rd3; @%p1 trap;")},
    {"128 bits at 8", "misaligned", KERNEL("ld.global.b128 %q1, [%rd1+8];")},
    {"128 bits half written", "uninitialised", KERNEL("st.global.u64 [%rd2], %rd3; ld.global.b128 %q1, [%rd2];")},
    {"flag by .mmio", NULL, KERNEL("st.mmio.relaxed.sys.global.u32 [%rd2], 1; ld.mmio.relaxed.sys.global.u32 %r2, [%rd2];")},
};

static void effects(void **state) {
    (void)state;
    uint32_t in[1024];
    for (uint32_t k = 0; k < 1024; k++) in[k] = k;
    run_pairs(PAIRS, sizeof PAIRS / sizeof *PAIRS, &(Setting){1, 32, in, sizeof in, sizeof in});
}

/* What one launch discards, the next may not read. */
static void discarded_stays_so(void **state) {
    (void)state;
    uint32_t in[64] = {0};
    for (int both = 0; both < 2; both++) {
        assert_int_equal(cu.cuCtxCreate_v2(&cu.context, 0, 0), CUDA_SUCCESS);
        CUdeviceptr p = upload(in, sizeof in);
        if (both)
            assert_int_equal(launch1(load_kernel(KERNEL("discard.global.L2 [%rd1+128], 128;"), "k"), 1, 1, (void *[]){&p, &p}),
                             CUDA_SUCCESS);
        const CUresult r = launch1(load_kernel(KERNEL("ld.global.u32 %r2, [%rd1+128];"), "k"), 1, 1, (void *[]){&p, &p});
        assert_int_equal(r, both ? 719 : CUDA_SUCCESS);
        cu.cuMemFree_v2(p);
        cu.cuCtxDestroy_v2(cu.context);
    }
}

int main(void) {
    driver_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(effects), cmocka_unit_test(discarded_stays_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
