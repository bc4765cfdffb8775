/* What work costs before a target is chosen: the rewrites of jacobian_gemm weigh arithmetic against memory with it. */
#ifndef FUSEC_PASSES_CONTRACT_COST_H
#define FUSEC_PASSES_CONTRACT_COST_H
#include <stdbool.h>

/* In floating-point operations.  A byte from memory takes about as long as eight of them where arithmetic is most expensive
 * (f32 on one core of a server: targets.def) and a hundred on Tensor Cores; the lower rate keeps what pays everywhere. */
enum { FLOPS_PER_BYTE = 8 };
static inline double work_cost(double flops, double bytes) { return flops + FLOPS_PER_BYTE * bytes; }

/* By enough to be worth another order of rounding. */
static inline bool work_is_less(double a, double b) { return a < 0.9 * b; }

#endif
