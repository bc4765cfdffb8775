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

/* NaN if either is; of equals the first */
static float fusec_max(float a, float b) { return a != a ? a : b != b ? b : a >= b ? a : b; }

static float fusec_exp(float x) {
    const float t0 = (89.0f < x) ? 89.0f : x;
    const float t1 = (t0 < -104.0f) ? -104.0f : t0;
    const float t2 = (t1 * 1.442695f) + 12583166.0f;
    const float t3 = t2 - 12583166.0f;
    const float t4 = t3 * 0.00021219444f + (t3 * -0.6933594f + t1);
    const float t5 = (0.00019875691f * t4 + 0.0013981999f) * t4 + 0.008333452f;
    const float t6 = ((t5 * t4 + 0.041665796f) * t4 + 0.16666666f) * t4 + 0.5f;
    const float t7 = (t1 * 0.7213475f) + 12583039.0f;
    const float t8 = ((t6 * (t4 * t4) + t4) + 1.0f) * fusec_float(fusec_bits(t7) << 23u);
    const float t9 = fusec_float((fusec_bits(t2) - fusec_bits(t7)) << 23u);
    return t8 * t9;
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
