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

/* one program per row walks the ids; tiles without a hit are skipped */
FUSEC_KERNEL scatter_add(const float *restrict u, const int32_t *restrict ids, float *restrict out, int32_t N) {
    for (int32_t r = 0; r < 4; r++) {
        float v3[3];
        for (int32_t c = 0; c < 3; c++) {
            v3[c] = 0.0f;
        }
        for (int32_t n = 0; n < N; n++) {
            if (ids[n] == r) {
                for (int32_t c = 0; c < 3; c++) {
                    v3[c] += u[3 * n + c];
                }
            }
        }
        for (int32_t c = 0; c < 3; c++) {
            out[3 * r + c] = v3[c];
        }
    }
}
