#include "bench/gpu/calibrate/job.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *p, size_t bytes) {
    void *q = realloc(p, bytes);
    if (q) return q;
    fputs("fusec_gpu_calibrate: out of memory\n", stderr);
    exit(3);
}

void text_add(Text *t, const char *format, ...) {
    for (;;) {
        va_list list;
        va_start(list, format);
        const int n = vsnprintf(t->data ? t->data + t->length : NULL, t->room - t->length, format, list);
        va_end(list);
        if (n < 0) return;
        if (t->data && t->length + (size_t)n < t->room) {
            t->length += (size_t)n;
            return;
        }
        t->room = (t->room + (size_t)n) * 2 + 4096;
        t->data = grown(t->data, t->room);
    }
}

void text_free(Text *t) {
    free(t->data);
    *t = (Text){0};
}

/* ---- numbers --------------------------------------------------------------------------------------------- */
static const struct {
    const char *name;
    int bits, exponent, mantissa; /* of a floating type */
} ELEMENT[ELEMENTS] = {
    [U16] = {"u16", 16, 0, 0},   [U32] = {"u32", 32, 0, 0},   [U64] = {"u64", 64, 0, 0},    [S32] = {"s32", 32, 0, 0},
    [F16] = {"f16", 16, 5, 10},  [BF16] = {"bf16", 16, 8, 7}, [TF32] = {"tf32", 32, 8, 23}, [F32] = {"f32", 32, 8, 23},
    [F64] = {"f64", 64, 11, 52}, [E4M3] = {"e4m3", 8, 4, 3},  [E5M2] = {"e5m2", 8, 5, 2},   [S8] = {"s8", 8, 0, 0},
    [U8] = {"u8", 8, 0, 0},      [S4] = {"s4", 4, 0, 0},      [U4] = {"u4", 4, 0, 0}};

const char *element_name(Element e) { return ELEMENT[e].name; }
int element_bits(Element e) { return ELEMENT[e].bits; }
bool element_is_float(Element e) { return ELEMENT[e].exponent; }

Element element_named(const char *name) {
    Element e = 0;
    while (e < ELEMENTS && strcmp(name, ELEMENT[e].name)) e++;
    return e;
}

static uint64_t low(int bits) { return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1; }

bool element_is_nan(Element e, uint64_t bits) {
    if (!element_is_float(e)) return false;
    const uint64_t magnitude = bits & low(ELEMENT[e].bits - 1);
    if (e == E4M3) return magnitude == 0x7f;
    return magnitude > low(ELEMENT[e].exponent) << ELEMENT[e].mantissa;
}

double element_value(Element e, uint64_t bits) {
    const int m = ELEMENT[e].mantissa, bias = (1 << (ELEMENT[e].exponent - 1)) - 1;
    const uint64_t exponent = bits >> m & low(ELEMENT[e].exponent), digits = bits & low(m);
    double v;
    if (element_is_nan(e, bits))
        v = (double)NAN;
    else if (e != E4M3 && exponent == low(ELEMENT[e].exponent))
        v = (double)INFINITY;
    else if (exponent)
        v = ldexp((double)(digits | UINT64_C(1) << m), (int)exponent - bias - m);
    else
        v = ldexp((double)digits, 1 - bias - m);
    return bits >> (ELEMENT[e].bits - 1) & 1 ? -v : v;
}

/* Place among the representable numbers, in order; both zeros are one. */
static int64_t place(Element e, uint64_t bits) {
    const int64_t magnitude = (int64_t)(bits & low(ELEMENT[e].bits - 1));
    return bits >> (ELEMENT[e].bits - 1) & 1 ? -magnitude : magnitude;
}

uint64_t element_ulps(Element e, uint64_t a, uint64_t b) {
    const int64_t x = place(e, a), y = place(e, b);
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

uint64_t element_significant(Element e, uint64_t bits) { return e == TF32 ? bits & ~UINT64_C(0x1fff) : bits; }

uint64_t hash_word(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

uint64_t random_word(uint64_t *state) { /* splitmix64, Steele, Lea and Flood, 2014 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

const char *const draw_names[] = {"whole", "unit", "wide", "special"};

static uint64_t whole_number(Element e, uint64_t r) { /* -4 .. 4; in a 4-bit type too */
    const int m = ELEMENT[e].mantissa, v = (int)(r % 5);
    const uint64_t bias = (UINT64_C(1) << (ELEMENT[e].exponent ? ELEMENT[e].exponent - 1 : 0)) - 1;
    const uint64_t sign = (r >> 20 & 1) << (ELEMENT[e].bits - 1);
    static const int POWER[] = {0, 0, 1, 1, 2};
    if (!element_is_float(e))
        return e == U8 || e == U4 || !(r >> 20 & 1) ? (uint64_t)v : (uint64_t)-v & low(ELEMENT[e].bits);
    if (!v) return 0;
    return sign | (bias + (uint64_t)POWER[v]) << m | (v == 3 ? UINT64_C(1) << (m - 1) : 0);
}

uint64_t element_draw(Element e, Draw how, uint64_t *state) {
    const uint64_t r = random_word(state);
    if (how == DRAW_WHOLE) return whole_number(e, r);
    if (how == DRAW_SPECIAL || !element_is_float(e)) return element_significant(e, r & low(ELEMENT[e].bits));
    const int m = ELEMENT[e].mantissa;
    const int64_t bias = (1 << (ELEMENT[e].exponent - 1)) - 1, reach = bias < 24 ? bias : 24;
    const int64_t exponent = bias - (int64_t)(random_word(state) % (uint64_t)(how == DRAW_UNIT ? 4 : reach)) +
                             (how == DRAW_WIDE ? reach / 3 : 0);
    return (r >> 40 & 1) << (ELEMENT[e].bits - 1) | (uint64_t)exponent << m |
           element_significant(e, (random_word(state)) & low(m));
}

/* ---- jobs ------------------------------------------------------------------------------------------------ */
const char *const judgement_names[] = {"exact", "approx", "sum"};

Job *jobs_add(Jobs *jobs, const char *format, ...) {
    if (jobs->count == jobs->room) {
        jobs->room = jobs->room * 2 + 256;
        jobs->job = grown(jobs->job, (size_t)jobs->room * sizeof *jobs->job);
    }
    Job *j = &jobs->job[jobs->count++];
    *j = (Job){.each = 1};
    va_list list;
    va_start(list, format);
    vsnprintf(j->name, sizeof j->name, format, list);
    va_end(list);
    return j;
}

void jobs_make(Jobs *jobs) {
    jobs_of_instructions(jobs);
    jobs_of_matrices(jobs);
    jobs_of_warpgroups(jobs);
    jobs_of_copies(jobs);
}

void jobs_module(const Jobs *jobs, int first, int count, const char *version, const char *target, Text *t) {
    text_add(t, ".version %s\n.target %s\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n", version, target);
    for (int k = first; k < first + count; k++) {
        text_add(t, "// %s\n.entry k%d(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])\n{\n",
                 jobs->job[k].name, k);
        jobs->job[k].body(&jobs->job[k], t, k);
        text_add(t, "ret;\n}\n");
    }
}

void jobs_free(Jobs *jobs) {
    free(jobs->job);
    free(jobs->texts);
    *jobs = (Jobs){0};
}
