/* Floating-point formats of 16 to 64 bits: exact decoding to double, correctly rounded encoding. */
#pragma once
#include "tools/ptxsim/ptx/ptx.h"

/* The double of an encoding in F16, BF16, F32 or F64; exact. */
double float_decode(PtxType, uint64_t bits);
/* (-1)^negative * magnitude * 2^exponent, rounded once by ROUND_* (0 means RN); overflow goes to infinity or to the
 * largest value, as the mode says.  Formats: F16, BF16, TF32 (in 32 bits), F32, F64. */
uint64_t float_encode_scaled(PtxType, bool negative, uint64_t magnitude, int exponent, int round);
/* The same of a double, with zeros, infinities, and NaNs made canonical (all ones but the sign). */
uint64_t float_encode(PtxType, double, int round);
/* a + b rounded to odd: rounding it again to a format of at most 51 bits gives the correctly rounded sum. */
double add_to_odd(double a, double b);
/* To an integral value by ROUND_RNI .. ROUND_RPI (or RN .. RP). */
double round_integral(double, int round);
