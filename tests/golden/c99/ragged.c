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

/* sums of rows of which each has as many terms as it says */
FUSEC_KERNEL ragged(const float *restrict x, const int32_t *restrict n, float *restrict out) {
    for (int32_t i = 0; i < 4; i++) {
        const int32_t v1 = n[i];
        float v4 = 0.0f;
        int32_t k_from = (int32_t)(1);
        k_from = k_from < 0 ? 0 : k_from;
        int32_t k_to = (int32_t)(v1);
        k_to = k_to < 9 ? k_to : 9;
        for (int32_t k = k_from; k < k_to; k++) {
            v4 += k < v1 && k >= 1 ? x[9 * i + k] : 0.0f;
        }
        out[i] = v4;
    }
}
