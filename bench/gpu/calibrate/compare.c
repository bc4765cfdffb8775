/* Differences between two devices, instruction by instruction. */
#include "bench/gpu/calibrate/vectors.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- what is allowed ------------------------------------------------------------------------------------- */
/* Errors that the PTX ISA states for an approximation, as exponents of 2: relative, and absolute ("Floating Point
 * Instructions", "Half Precision Floating Point Instructions"; of .full and .approx division 2 ULP).  Each device may
 * err by as much, so that they may differ by twice that. */
static const struct {
    const char *begins;
    double relative, absolute; /* 0: none */
} ALLOWED[] = {
    {"div.approx.f32", -22, -127}, /* 0 where the divisor is beyond 2^126 */
    {"div.", -22, 0},
    {"rcp.approx.ftz.f64", -20, 0},
    {"rcp.", -22.5, 0},
    {"sqrt.", -22.5, 0},
    {"rsqrt.approx.ftz.f64", -20, 0},
    {"rsqrt.approx.f64", -20, 0},
    {"rsqrt.", -22.4, 0},
    {"ex2.approx.f16", -9.9, -24},
    {"ex2.approx.ftz.bf16", -7, 0},
    {"ex2.", -22, 0},
    {"lg2.", -22, -22},
    {"sin.", 0, -20.5},
    {"cos.", 0, -20.5},
    {"tanh.approx.f32", -11, 0},
    {"tanh.approx.f16", 0, -10.987},
    {"tanh.approx.bf16", 0, -8},
};

/* Of a sum, relative to the largest result of the operation: the rounding of the result, and what a tensor core may
 * drop when it aligns the products; for 8-bit floating-point it keeps about 14 bits. */
static double allowed_of_sum(const Vector *v) {
    if (v->element == F64) return 0x1p-48;
    if (v->element == F16) return 0x1p-8;
    return strstr(v->name, "e4m3") || strstr(v->name, "e5m2") ? 0x1p-10 : 0x1p-18;
}

static double power(double exponent) { return exponent < 0 ? exp2(exponent) : 0; }

static double allowed_of_approximation(const Vector *v, double want) {
    for (size_t k = 0; k < sizeof ALLOWED / sizeof *ALLOWED; k++)
        if (!strncmp(v->name, ALLOWED[k].begins, strlen(ALLOWED[k].begins)))
            return 2 * (power(ALLOWED[k].relative) * fabs(want) + power(ALLOWED[k].absolute));
    return 0;
}

/* ---- one instruction --------------------------------------------------------------------------------------- */
typedef struct Distance {
    double largest, relative; /* of the difference; that over what it is measured by */
    uint64_t ulps;
    int at, beyond, kinds; /* value; how many are beyond what is allowed; how many differ in being finite */
} Distance;

static double scale_of(const Vector *v) {
    double scale = 0;
    for (int k = 0; k < v->values; k++) {
        const double x = element_value(v->element, v->value[k]);
        if (isfinite(x) && fabs(x) > scale) scale = fabs(x);
    }
    return scale;
}

static Distance distance(const Vector *have, const Vector *want) {
    const bool sum = want->judgement == SUM, any_bits = sum && strstr(want->name, "special");
    const double scale = sum ? scale_of(want) : 0;
    const double smallest = element_value(want->element, 1);
    Distance d = {.at = -1};
    for (int k = 0; k < want->values; k++) {
        const double x = element_value(want->element, have->value[k]), y = element_value(want->element, want->value[k]);
        if (isnan(x) && isnan(y)) continue;
        if (!isfinite(x) || !isfinite(y)) {
            if (x == y) continue;
            /* Partial sums in another order overflow elsewhere: infinities of either sign, or their difference. */
            if (any_bits && !isfinite(x) && !isfinite(y)) continue;
            d.kinds++;
            if (d.at < 0) d.at = k;
            continue;
        }
        const double far = fabs(x - y),
                     allowed = sum ? allowed_of_sum(want) * scale : allowed_of_approximation(want, y);
        const double relative = sum ? (scale > 0 ? far / scale : 0) : y != 0 ? far / fabs(y) : 0;
        const uint64_t ulps = element_ulps(want->element, have->value[k], want->value[k]);
        if (far > allowed + 2 * smallest) d.beyond++;
        if (far > d.largest) d.largest = far;
        if (relative > d.relative) d.relative = relative;
        if (ulps > d.ulps) d.ulps = ulps, d.at = k;
    }
    return d;
}

static bool inexact_beyond(const Vector *have, const Vector *want) {
    const Distance d = distance(have, want);
    return d.beyond || d.kinds;
}

bool vectors_differ(const Vector *have, const Vector *want) {
    if (have->outcome != OUTCOME_DONE || want->outcome != OUTCOME_DONE || have->hash == want->hash) return false;
    if (have->values != want->values || have->element != want->element) return true;
    return want->judgement == EXACT || !element_is_float(want->element) || inexact_beyond(have, want);
}

static void print_exact(const Vector *have, const Vector *want, const Job *j, FILE *f) {
    int groups = 0;
    for (int g = 0; g < GROUPS; g++) groups += have->group[g] != want->group[g];
    fprintf(f, "%-44s exact   %d of %d groups differ (", want->name, groups, GROUPS);
    for (int g = 0, n = 0; g < GROUPS; g++)
        if (have->group[g] != want->group[g]) fprintf(f, "%s%d", n++ ? " " : "", g);
    fputc(')', f);
    for (int k = 0; k < want->values && k < have->values; k++)
        if (have->value[k] != want->value[k]) {
            fprintf(f, "; result %u: %0*" PRIx64 ", not %0*" PRIx64, value_place(j, k), element_bits(want->element) / 4,
                    have->value[k], element_bits(want->element) / 4, want->value[k]);
            break;
        }
    fputc('\n', f);
}

static void print_distance(const Vector *have, const Vector *want, const Job *j, FILE *f) {
    const Distance d = distance(have, want);
    const bool sum = want->judgement == SUM;
    fprintf(f, "%-44s %-7s ", want->name, judgement_names[want->judgement]);
    if (!sum) fprintf(f, "%" PRIu64 " ULP, ", d.ulps);
    fprintf(f, "%.3g %s, %.3g absolute", d.relative, sum ? "of the largest" : "relative", d.largest);
    if (d.at >= 0)
        fprintf(f, "; result %u: %.9g, not %.9g", value_place(j, d.at), element_value(want->element, have->value[d.at]),
                element_value(want->element, want->value[d.at]));
    if (d.beyond || d.kinds) fprintf(f, "; %d BEYOND what is allowed, %d not finite in one only", d.beyond, d.kinds);
    fputc('\n', f);
}

/* ---- all of them --------------------------------------------------------------------------------------------- */
typedef struct Tally {
    int compared, same, differ, within, nans, missing, here, there;
} Tally;

static void compare_one(const Vector *have, const Vector *want, const Job *j, Tally *t, FILE *f) {
    if (!want) t->missing++;
    if (!want || have->outcome == OUTCOME_NONE || want->outcome == OUTCOME_NONE) return;
    if (have->outcome != OUTCOME_DONE || want->outcome != OUTCOME_DONE) {
        if (have->outcome == want->outcome) return;
        t->here += have->outcome != OUTCOME_DONE;
        t->there += want->outcome != OUTCOME_DONE;
        fprintf(f, "%-44s runs %s only: %s\n", have->name, have->outcome == OUTCOME_DONE ? "here" : "there",
                have->outcome == OUTCOME_DONE ? want->why : have->why);
        return;
    }
    t->compared++;
    if (have->hash == want->hash) {
        t->same++;
        if (have->bits == want->bits) return;
        t->nans++;
        fprintf(f, "%-44s %-7s the same but for the bits of NaNs%s\n", have->name, judgement_names[want->judgement],
                want->element == TF32 ? ", or the low bits of tf32" : "");
        return;
    }
    const bool differ = vectors_differ(have, want);
    t->differ += differ;
    t->within += !differ;
    if (want->judgement == EXACT || !element_is_float(want->element) || have->element != want->element)
        print_exact(have, want, j, f);
    else
        print_distance(have, want, j, f);
}

const Vector *vectors_find(const Vectors *all, const char *name) {
    for (int k = 0; k < all->count; k++)
        if (!strcmp(all->vector[k].name, name)) return &all->vector[k];
    return NULL;
}

int vectors_compare(const Vectors *have, const Vectors *want, const Jobs *jobs, FILE *f) {
    Tally t = {0};
    fprintf(f, "# %s sm_%d%d driver %d, against %s sm_%d%d driver %d\n", have->device.name, have->device.major,
            have->device.minor, have->device.driver, want->device.name, want->device.major, want->device.minor,
            want->device.driver);
    for (int k = 0; k < have->count; k++)
        compare_one(&have->vector[k], vectors_find(want, have->vector[k].name), &jobs->job[k], &t, f);
    fprintf(f, "compared: %d; the same: %d (%d but for NaNs); within what is allowed: %d; different: %d\n", t.compared,
            t.same, t.nans, t.within, t.differ);
    if (t.here || t.there) fprintf(f, "not run: %d here that run there, %d there that run here\n", t.here, t.there);
    if (t.missing) fprintf(f, "without a vector to compare with: %d\n", t.missing);
    return t.differ;
}
