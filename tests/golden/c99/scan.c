/* Compile with -ffp-contract=off (gcc contracts by default) and FLT_EVAL_METHOD 0: then the results are
 * the same bits on every machine. */
#include <stdbool.h>
#include <stdint.h>

/* Not inlined: a call takes the stack of one kernel, not of all. */
#if defined(__GNUC__)
#define FUSEC_KERNEL static __attribute__((noinline)) void
#else
#define FUSEC_KERNEL static void
#endif

#define FUSEC_INF fusec_float(0x7f800000u)
#define FUSEC_NAN fusec_float(0x7fc00000u)

/* reversed prefix sum: the loop counts up, the index down */
FUSEC_KERNEL reverse_scan(const float *restrict x, float *restrict y, int32_t S) {
    for (int32_t m = 0; m < 4; m++) {
        float v2 = 0.0f;
        for (int32_t i = 0; i < S; i++) {
            const float v5 = v2 + x[(int32_t)(9u * (uint32_t)m - (uint32_t)i + (uint32_t)S - 1u)];
            y[(int32_t)(9u * (uint32_t)m - (uint32_t)i + (uint32_t)S - 1u)] = v5;
            v2 = v5;
        }
        (void)v2;
    }
}
