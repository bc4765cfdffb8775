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

static uint32_t fusec_bits(float x) {
    union { float f; uint32_t u; } both;
    both.f = x;
    return both.u;
}

static float fusec_float(uint32_t u) {
    union { float f; uint32_t u; } both;
    both.u = u;
    return both.f;
}

/* u >> n with the sign bit entering, 0 <= n < 32 */
static uint32_t fusec_sar(uint32_t u, uint32_t n) { return (u >> n) | ((0u - (u >> 31)) & ~(0xffffffffu >> n)); }

/* NaN if either is; of equals the first */
static float fusec_max(float a, float b) { return a != a ? a : b != b ? b : a >= b ? a : b; }

static float fusec_exp(float x) {
    const float t0 = (x < -104.0f) ? -104.0f : ((89.0f < x) ? 89.0f : x);
    const float t1 = (t0 * 1.442695f) + 12582912.0f;
    const float t2 = t1 - 12582912.0f;
    const float t3 = t2 * 0.00021219444f + (t2 * -0.6933594f + t0);
    const float t4 = (0.00019875691f * t3 + 0.0013981999f) * t3 + 0.008333452f;
    const float t5 = ((t4 * t3 + 0.041665796f) * t3 + 0.16666666f) * t3 + 0.5f;
    const uint32_t i6 = fusec_bits(t1) - 0x4b400000u;
    const uint32_t i7 = fusec_sar(i6, 1u);
    const float t8 = ((t5 * (t3 * t3) + t3) + 1.0f) * fusec_float((i7 + 127u) << 23u);
    return t8 * fusec_float(((i6 - i7) + 127u) << 23u);
}

/* three passes over the columns; scheduled for threads */
FUSEC_KERNEL softmax_loop(const float *restrict x, float *restrict y, int32_t S) {
    for (int32_t m = 0; m < 9; m++) {
        float v1 = -FUSEC_INF;
        for (int32_t c = 0; c < S; c++) {
            v1 = fusec_max(v1, x[12 * m + c]);
        }
        float v7 = 0.0f;
        for (int32_t c = 0; c < S; c++) {
            v7 += fusec_exp(x[12 * m + c] - v1);
        }
        for (int32_t c = 0; c < S; c++) {
            y[12 * m + c] = fusec_exp(x[12 * m + c] - v1) / v7;
        }
    }
}
