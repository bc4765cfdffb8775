/* The self-test: inputs by a rule, entry init, entry grad (infer where there is no grad), sums of the results against
 * those that the compiler has found with the same code. */
#include "runtime/common/fusec.h"

static uint64_t fusec_selftest_round(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* Pointers and extents stand in front of the tensors. */
static uint64_t fusec_selftest_head(const fusec_manifest *m) {
    return fusec_selftest_round(8 * ((uint64_t)m->n_inputs + m->n_outputs) + 4 * (uint64_t)m->n_syms, m->align);
}

FUSEC_WEAK uint64_t fusec_selftest_bytes(const fusec_manifest *m) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->n_inputs; i++) bytes += fusec_selftest_round(m->inputs[i].bytes, m->align);
    for (uint32_t i = 0; i < m->n_outputs; i++) bytes += fusec_selftest_round(m->outputs[i].bytes, m->align);
    return fusec_selftest_head(m) + (bytes > FUSEC_SELFTEST_PART ? bytes : FUSEC_SELFTEST_PART);
}

/* ---- inputs ------------------------------------------------------------------------------------------------- */
/* Philox4x32-10, its first word (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
static uint32_t fusec_selftest_bits(uint32_t seed, uint32_t tensor, uint64_t element) {
    uint32_t c0 = (uint32_t)element, c1 = (uint32_t)(element >> 32), c2 = 0, c3 = 0, key0 = seed, key1 = tensor;
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c0;
}

static uint32_t fusec_selftest_from_float(float x) {
    union {
        float f;
        uint32_t u;
    } v;
    v.f = x;
    return v.u;
}

static float fusec_selftest_to_float(uint32_t u) {
    union {
        float f;
        uint32_t u;
    } v;
    v.u = u;
    return v.f;
}

/* A multiple of 1/128 in [-1, 1): every floating dtype has it. */
static float fusec_selftest_coarse(uint32_t bits) { return (float)((int32_t)(bits >> 24) - 128) / 128; }

/* Such a number in f16. */
static uint16_t fusec_selftest_half(float x) {
    const uint32_t u = fusec_selftest_from_float(x);
    return x == 0 ? 0 : (uint16_t)((u >> 16 & 0x8000) | ((u >> 13 & 0x3fc00) - (112 << 10)) | (u >> 13 & 0x3ff));
}

static void fusec_selftest_element(const fusec_tensor *t, void *data, uint64_t i, uint32_t bits) {
    const uint64_t values = t->lo < t->hi ? (uint64_t)t->hi - (uint64_t)t->lo : 2;
    switch (t->dtype) {
    case FUSEC_BOOL: ((uint8_t *)data)[i] = (uint8_t)(bits >> 31); break;
    case FUSEC_I32:
        ((int32_t *)data)[i] = (int32_t)((t->lo < t->hi ? t->lo : 0) + (int64_t)(((uint64_t)bits * values) >> 32));
        break;
    case FUSEC_F16: ((uint16_t *)data)[i] = fusec_selftest_half(fusec_selftest_coarse(bits)); break;
    case FUSEC_BF16:
        ((uint16_t *)data)[i] = (uint16_t)(fusec_selftest_from_float(fusec_selftest_coarse(bits)) >> 16);
        break;
    default: ((float *)data)[i] = (float)((int32_t)(bits >> 8) - 0x800000) / 0x800000; break;
    }
}

static uint64_t fusec_selftest_count(const fusec_tensor *t) {
    uint64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= (uint64_t)t->dim[d];
    return n;
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */
/* Running sums, with what rounding has taken from each. */
typedef struct fusec_selftest_sums {
    float sum, magnitude, lost, lost_magnitude;
} fusec_selftest_sums;

static void fusec_selftest_add(float *sum, float *lost, float x) {
    const float y = x - *lost, next = *sum + y;
    *lost = (next - *sum) - y;
    *sum = next;
}

static float fusec_selftest_value(const fusec_tensor *t, const void *data, uint64_t i) {
    uint32_t half, magnitude;
    switch (t->dtype) {
    case FUSEC_BOOL: return ((const uint8_t *)data)[i];
    case FUSEC_I32: return (float)((const int32_t *)data)[i];
    case FUSEC_BF16: return fusec_selftest_to_float((uint32_t)((const uint16_t *)data)[i] << 16);
    case FUSEC_F16:
        half = ((const uint16_t *)data)[i];
        magnitude = half & 0x7fff;
        if (magnitude < 0x400) return (half & 0x8000 ? -1.0f : 1.0f) * (float)magnitude / 16777216;
        return fusec_selftest_to_float((half & 0x8000) << 16 | (magnitude < 0x7c00 ? (magnitude << 13) + (112u << 23)
                                                                                   : 0x7f800000u | magnitude << 13));
    default: return ((const float *)data)[i];
    }
}

/* Elements [first, first + n), which lie at `data`; weights 1 .. 8 tell a permutation. */
static void fusec_selftest_sum(const fusec_tensor *t, const void *data, uint64_t first, uint64_t n,
                               fusec_selftest_sums *s) {
    for (uint64_t i = 0; i < n; i++) {
        const float weight = (float)(((uint32_t)(first + i) * 0x9E3779B1u >> 29) + 1);
        const float x = fusec_selftest_value(t, data, i) * weight;
        fusec_selftest_add(&s->sum, &s->lost, x);
        fusec_selftest_add(&s->magnitude, &s->lost_magnitude, x < 0 ? -x : x);
    }
}

/* NaN is near nothing. */
static int fusec_selftest_near(float x, float y, float slack) { return x - y <= slack && y - x <= slack; }

static fusec_status fusec_selftest_compare(const fusec_manifest *m, uint32_t i, const fusec_selftest_sums *s,
                                           fusec_sum *found) {
    if (found) {
        found[i].sum = s->sum;
        found[i].magnitude = s->magnitude;
        return FUSEC_OK;
    }
    const fusec_sum *e = &m->selftest[i];
    if (e->slack < 0) return FUSEC_OK;
    return fusec_selftest_near(s->sum, e->sum, e->slack) && fusec_selftest_near(s->magnitude, e->magnitude, e->slack)
               ? FUSEC_OK
               : FUSEC_E_SELFTEST;
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */
static char *fusec_selftest_place(char **at, const fusec_manifest *m, const fusec_tensor *t) {
    char *here = *at;
    *at += fusec_selftest_round(t->bytes, m->align);
    return here;
}

static fusec_status fusec_selftest_outputs(const fusec_manifest *m, void *const *outputs, fusec_sum *found) {
    fusec_status s = FUSEC_OK;
    for (uint32_t i = 0; i < m->n_outputs && s == FUSEC_OK; i++) {
        fusec_selftest_sums sums = {0, 0, 0, 0};
        fusec_selftest_sum(&m->outputs[i], outputs[i], 0, fusec_selftest_count(&m->outputs[i]), &sums);
        s = fusec_selftest_compare(m, i, &sums, found);
    }
    return s;
}

/* Gradient g, read part by part. */
static fusec_status fusec_selftest_gradient(const fusec_manifest *m, const fusec_selftest_calls *c, uint32_t g,
                                            char *part, fusec_sum *found) {
    const fusec_tensor *t = &m->grads[g];
    const uint64_t n = fusec_selftest_count(t), size = n ? t->bytes / n : 1, most = FUSEC_SELFTEST_PART / size;
    fusec_selftest_sums sums = {0, 0, 0, 0};
    for (uint64_t at = 0; at < n; at += most) {
        const uint64_t count = n - at < most ? n - at : most;
        const fusec_status s = c->read(c->user, t->offset + at * size, part, count * size);
        if (s != FUSEC_OK) return s;
        fusec_selftest_sum(t, part, at, count, &sums);
    }
    return fusec_selftest_compare(m, m->n_outputs + g, &sums, found);
}

static fusec_status fusec_selftest_run(const fusec_manifest *m, const fusec_selftest_calls *c, void *scratch,
                                       fusec_sum *found) {
    const int entry = m->entry[FUSEC_GRAD].present ? FUSEC_GRAD : FUSEC_INFER;
    const void **inputs = (const void **)scratch;
    void **outputs = (void **)((char *)scratch + 8 * (uint64_t)m->n_inputs);
    int32_t *syms = (int32_t *)((char *)outputs + 8 * (uint64_t)m->n_outputs);
    char *tensors = (char *)scratch + fusec_selftest_head(m), *at = tensors;
    fusec_status s = FUSEC_OK;
    for (uint32_t i = 0; i < m->n_syms; i++) syms[i] = m->syms[i].bound;
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        const fusec_tensor *t = &m->inputs[i];
        char *data = fusec_selftest_place(&at, m, t);
        inputs[i] = data;
        for (uint64_t e = 0; e < fusec_selftest_count(t); e++)
            fusec_selftest_element(t, data, e, fusec_selftest_bits(FUSEC_SELFTEST_SEED, i, e));
    }
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        outputs[i] = fusec_selftest_place(&at, m, &m->outputs[i]);
        for (uint64_t b = 0; b < m->outputs[i].bytes; b++) ((char *)outputs[i])[b] = 0;
    }
    if (m->entry[FUSEC_INIT].present) s = c->run(c->user, FUSEC_INIT, inputs, outputs, FUSEC_SELFTEST_SEED, syms);
    if (s == FUSEC_OK) s = c->run(c->user, entry, inputs, outputs, FUSEC_SELFTEST_SEED, syms);
    if (s == FUSEC_SKIPPED || s == FUSEC_E_DIVERGED) s = FUSEC_OK; /* gradients that overflow are not compared */
    if (s == FUSEC_OK) s = fusec_selftest_outputs(m, outputs, found);
    for (uint32_t g = 0; entry == FUSEC_GRAD && g < m->n_grads && s == FUSEC_OK; g++)
        s = fusec_selftest_gradient(m, c, g, tensors, found);
    return s;
}

FUSEC_WEAK fusec_status fusec_selftest(const fusec_manifest *m, const fusec_selftest_calls *c, uint32_t seed,
                                       void *scratch, fusec_sum *found) {
    fusec_status s, again = FUSEC_OK;
    if (!m || !c || !scratch || (uintptr_t)scratch % m->align != 0) return FUSEC_E_ARGUMENT;
    if ((!m->selftest && !found) || (!m->entry[FUSEC_GRAD].present && !m->entry[FUSEC_INFER].present))
        return FUSEC_E_UNSUPPORTED;
    s = fusec_selftest_run(m, c, scratch, found);
    if (m->entry[FUSEC_INIT].present) {
        const int32_t *syms = (const int32_t *)((char *)scratch + 8 * ((uint64_t)m->n_inputs + m->n_outputs));
        again = c->run(c->user, FUSEC_INIT, (const void *const *)scratch, 0, seed, syms);
    }
    return s != FUSEC_OK ? s : again;
}
