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

/* 3x3, stride 2, padded by one: the mask is computed from the indices */
FUSEC_KERNEL conv(const float *restrict x, const float *restrict k, float *restrict y) {
    for (int32_t p = 0; p < 24; p++) {
        float v5 = 0.0f;
        for (int32_t r = 0; r < 3; r++) {
            for (int32_t s = 0; s < 3; s++) {
                const int32_t v8 = r + 2 * ((p / 3) % 4) - 1;
                const int32_t v9 = s + 2 * (p % 3) - 1;
                const float v17 = v8 >= 0 && v8 < 7 && v9 >= 0 && v9 < 6 ? x[6 * r + s + 42 * (p / 12) + 2 * (p % 3)
                        + 12 * ((p / 3) % 4) - 7] : 0.0f;
                v5 += v17 * k[3 * r + s];
            }
        }
        y[p] = v5;
    }
}
