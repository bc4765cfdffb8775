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

/* NaN if either is; of equals the first */
static float fusec_max(float a, float b) { return a != a ? a : b != b ? b : a >= b ? a : b; }

/* ragged edges on every axis, fused bias and relu */
FUSEC_KERNEL linear_relu(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict y) {
    for (int32_t m = 0; m < 10; m++) {
        for (int32_t n = 0; n < 7; n++) {
            float v1 = 0.0f;
            for (int32_t k = 0; k < 13; k++) {
                v1 += x[13 * m + k] * w[n + 7 * k];
            }
            y[7 * m + n] = fusec_max(v1 + b[n], 0.0f);
        }
    }
}
