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

FUSEC_KERNEL embedding(const float *restrict table, const int32_t *restrict ids, float *restrict y) {
    for (int32_t t = 0; t < 7; t++) {
        for (int32_t c = 0; c < 5; c++) {
            y[5 * t + c] = table[c + 8 * ids[t]];
        }
    }
}
