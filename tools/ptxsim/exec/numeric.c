#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/ptx/parse.h"
#include <math.h>
#include <string.h>

typedef struct Format { int exponent_bits, mantissa_bits, shift; } Format;
static const Format FORMATS[T_COUNT] = {
    [T_F16] = {5, 10, 0}, [T_BF16] = {8, 7, 0}, [T_F32] = {8, 23, 0}, [T_TF32] = {8, 10, 13}, [T_F64] = {11, 52, 0}};

double float_decode(PtxType t, uint64_t bits) {
    if (t == T_F64) {
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    if (t != T_F16) { /* BF16 and TF32 are F32 cut short */
        const uint32_t b = t == T_BF16 ? (uint32_t)bits << 16 : (uint32_t)bits;
        float f;
        memcpy(&f, &b, sizeof f);
        return f;
    }
    const int e = (int)(bits >> 10 & 31);
    const double m = (double)(bits & 1023);
    const double v = e == 31 ? (m != 0 ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return bits & 0x8000 ? -v : v;
}

static bool round_up(int round, bool negative, bool odd, uint64_t rest, uint64_t half) {
    switch (round) {
    case ROUND_RZ: return false;
    case ROUND_RM: return negative && rest;
    case ROUND_RP: return !negative && rest;
    case ROUND_RNA: return rest >= half && rest;
    default: return rest > half || (rest == half && rest && odd);
    }
}

static bool overflow_to_infinity(int round, bool negative) {
    return round != ROUND_RZ && !(round == ROUND_RM && !negative) && !(round == ROUND_RP && negative);
}

uint64_t float_encode_scaled(PtxType t, bool negative, uint64_t m, int exponent, int round) {
    const Format f = FORMATS[t];
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    const uint64_t infinity = ((UINT64_C(1) << f.exponent_bits) - 1) << f.mantissa_bits;
    const uint64_t sign = (uint64_t)negative << (f.exponent_bits + f.mantissa_bits);
    if (!m) return sign << f.shift;
    const int zeros = __builtin_clzll(m);
    m <<= zeros;
    const int e = exponent - zeros + 63; /* value = m / 2^63 * 2^e, 1 <= m / 2^63 < 2 */
    const int below = e < 1 - bias ? 1 - bias - e : 0;
    const int drop = 63 - f.mantissa_bits + below;
    uint64_t kept = drop < 64 ? m >> drop : 0;
    const uint64_t rest = drop < 64 ? m << (64 - drop) : drop == 64 ? m : 1; /* left-aligned remainder */
    if (round_up(round, negative, kept & 1, rest, UINT64_C(1) << 63)) kept++;
    uint64_t bits = below ? kept : ((uint64_t)(e + bias - 1) << f.mantissa_bits) + kept;
    if (e > bias || bits >= infinity) bits = overflow_to_infinity(round, negative) ? infinity : infinity - 1;
    return (sign | bits) << f.shift;
}

uint64_t float_encode(PtxType t, double v, int round) {
    const Format f = FORMATS[t];
    const int width = 1 + f.exponent_bits + f.mantissa_bits;
    const uint64_t infinity = ((UINT64_C(1) << f.exponent_bits) - 1) << f.mantissa_bits;
    const uint64_t sign = signbit(v) ? UINT64_C(1) << (width - 1) : 0;
    if (isnan(v)) return (((UINT64_C(1) << (width - 1)) - 1) << f.shift) | (f.shift ? (UINT64_C(1) << f.shift) - 1 : 0);
    if (isinf(v)) return (infinity | sign) << f.shift;
    int exponent;
    const double m = frexp(fabs(v), &exponent);
    return float_encode_scaled(t, signbit(v), (uint64_t)ldexp(m, 53), exponent - 53, round);
}

double add_to_odd(double a, double b) {
    const double s = a + b;
    if (!isfinite(s)) return s;
    const double t = s - a, error = (a - (s - t)) + (b - t); /* Knuth's two-sum: s + error is exact */
    if (error == 0) return s;
    uint64_t bits;
    memcpy(&bits, &s, sizeof s);
    if (bits & 1) return s;
    bits += (error > 0) == (s > 0) ? 1 : UINT64_MAX; /* towards the error, whose side has an odd neighbour */
    double r;
    memcpy(&r, &bits, sizeof r);
    return r;
}

double round_integral(double v, int round) {
    switch (round) {
    case ROUND_RZI:
    case ROUND_RZ: return trunc(v);
    case ROUND_RMI:
    case ROUND_RM: return floor(v);
    case ROUND_RPI:
    case ROUND_RP: return ceil(v);
    default: return nearbyint(v); /* the host rounds to nearest even here */
    }
}
