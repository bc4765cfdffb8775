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

/* of ids 0, 1, .. 4 where each begins, and where they are; 5 and more are no rows */
FUSEC_KERNEL buckets(const int32_t *restrict x, int32_t *restrict out) {
    for (int32_t row = 0; row <= 5; row++) {
        out[row] = 0;
    }
    for (int32_t n = 0; n < 21; n++) {
        const int32_t id = x[n / 7 * 9 + n % 7];
        if (id >= 0 && id < 5) {
            out[id]++;
        }
    }
    for (int32_t row = 1; row <= 5; row++) {
        out[row] += out[row - 1];
    }
    for (int32_t n = 20; n >= 0; n--) {
        const int32_t id = x[n / 7 * 9 + n % 7];
        if (id >= 0 && id < 5) {
            out[6 + --out[id]] = n;
        }
    }
}
