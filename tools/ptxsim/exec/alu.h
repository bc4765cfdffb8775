/* What the arithmetic files share.  Each is compiled once per instruction-set level (tools/CMakeLists.txt defines
 * ALU_LEVEL), its loops over 32 lanes become vectors of that level, and alu.c picks a level when a module is decoded.
 * All levels give the same bits: nothing is contracted or reordered, and NaN results are canonical. */
#pragma once
#define ALU_JOIN2(name, level) name##_##level
#define ALU_JOIN(name, level) ALU_JOIN2(name, level)
#define ALU(name) ALU_JOIN(name, ALU_LEVEL)
/* Names of the other files of the same level. */
#define exec_rounded ALU(exec_rounded)
#define exec_flush ALU(exec_flush)
#define exec_saturate ALU(exec_saturate)
#define exec_relu ALU(exec_relu)
#define exec_carry ALU(exec_carry)
#define exec_add_sat ALU(exec_add_sat)
#define exec_mad_carry ALU(exec_mad_carry)
#define exec_mad_sat ALU(exec_mad_sat)
#define exec_dot ALU(exec_dot)
#define exec_lop3 ALU(exec_lop3)
#define exec_predicate_logic ALU(exec_predicate_logic)
#define exec_testp ALU(exec_testp)
#define exec_slct ALU(exec_slct)
#define exec_convert_pack ALU(exec_convert_pack)
#define exec_to_eight ALU(exec_to_eight)
#define exec_from_eight ALU(exec_from_eight)
#define exec_pack ALU(exec_pack)
#define exec_unpack ALU(exec_unpack)
#define exec_shuffle ALU(exec_shuffle)
#define exec_load ALU(exec_load)
#define exec_store ALU(exec_store)
#define arith_handler ALU(arith_handler)
#define int_handler ALU(int_handler)
#define float_handler ALU(float_handler)
#define half_handler ALU(half_handler)
#define mul_handler ALU(mul_handler)
#define compare_handler ALU(compare_handler)
#define xorsign_handler ALU(xorsign_handler)
#define move_handler ALU(move_handler)
#define select_handler ALU(select_handler)
#define convert_handler ALU(convert_handler)
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/ptx/parse.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* A loop over the lanes whose iterations are independent: a result may be one of the sources, never overlap it. */
#if defined(__clang__)
#define LANES _Pragma("clang loop vectorize(assume_safety)") for (int l = 0; l < WARP; l++)
#else
#define LANES _Pragma("GCC ivdep") for (int l = 0; l < WARP; l++)
#endif

static inline const void *source_lanes(const Warp *w, const Operand *o) {
    return __builtin_assume_aligned(lane_in(w, o), 64);
}
static inline void *result_lanes(const Warp *w, const Operand *o) {
    return __builtin_assume_aligned(lane_out(w, o), 64);
}

/* Lane l of `d` becomes EXPR where `mask` has it; TAKE declares what EXPR reads of a lane. */
#define PUT_LANES(D, TAKE, EXPR)                     \
    D *d = result_lanes(w, &i->d);                   \
    if (mask == UINT32_MAX) {                        \
        LANES {                                      \
            TAKE;                                    \
            d[l] = (D)(EXPR);                        \
        }                                            \
    } else {                                         \
        LANES {                                      \
            TAKE;                                    \
            d[l] = mask >> l & 1 ? (D)(EXPR) : d[l]; \
        }                                            \
    }
#define UNARY(NAME, D, A, EXPR)                               \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) { \
        const A *a = source_lanes(w, &i->a);                  \
        PUT_LANES(D, const A x = a[l], EXPR)                  \
    }
#define BINARY(NAME, D, A, B, EXPR)                            \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {  \
        const A *a = source_lanes(w, &i->a);                   \
        const B *b = source_lanes(w, &i->b);                   \
        PUT_LANES(D, const A x = a[l]; const B y = b[l], EXPR) \
    }
#define TERNARY(NAME, D, A, B, C, EXPR)                                          \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                    \
        const A *a = source_lanes(w, &i->a);                                     \
        const B *b = source_lanes(w, &i->b);                                     \
        const C *c = source_lanes(w, &i->c);                                     \
        PUT_LANES(D, const A x = a[l]; const B y = b[l]; const C z = c[l], EXPR) \
    }

/* Bit l of the result: the sign bit of word[l]. */
static inline uint32_t lane_signs(const int32_t word[WARP]) {
#if defined(__AVX512DQ__)
    const uint32_t low = _cvtmask16_u32(_mm512_movepi32_mask(_mm512_loadu_si512(word)));
    return low | _cvtmask16_u32(_mm512_movepi32_mask(_mm512_loadu_si512(word + 16))) << 16;
#elif defined(__SSE2__)
    uint32_t v = 0;
    for (int k = 0; k < WARP / 4; k++)
        v |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(word + 4 * k)))) << 4 * k;
    return v;
#else
    uint32_t v = 0;
    for (int l = 0; l < WARP; l++) v |= (uint32_t)word[l] >> 31 << l;
    return v;
#endif
}
