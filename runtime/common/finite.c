/* check_finite: what goes into a call, and what comes out of it.  By the bits: no compiler flag may take it away. */
#include "runtime/common/fusec.h"

/* Infinities and NaNs have an exponent of ones alone. */
static int fusec_finite_single(float x) {
    union {
        float f;
        uint32_t u;
    } v;
    v.f = x;
    return (v.u & 0x7f800000u) != 0x7f800000u;
}

static int fusec_finite_half(uint16_t x, uint16_t exponent) { return (x & exponent) != exponent; }

static int fusec_row_finite(const fusec_tensor *t, const void *data, int64_t first, int64_t n) {
    int ok = 1;
    for (int64_t i = first; i < first + n && ok; i++) {
        switch (t->dtype) {
        case FUSEC_F16: ok = fusec_finite_half(((const uint16_t *)data)[i], 0x7c00); break;
        case FUSEC_BF16: ok = fusec_finite_half(((const uint16_t *)data)[i], 0x7f80); break;
        default: ok = fusec_finite_single(((const float *)data)[i]); break;
        }
    }
    return ok;
}

static int fusec_finite(const fusec_tensor *t, const void *data, const int32_t *syms) {
    return t->dtype == FUSEC_BOOL || t->dtype == FUSEC_I32 || !data || fusec_all(t, data, syms, fusec_row_finite);
}

FUSEC_WEAK fusec_status fusec_check_inputs(const fusec_manifest *m, const void *const *inputs, const float *hypers,
                                           const int32_t *syms) {
    for (uint32_t i = 0; inputs && i < m->n_inputs; i++)
        if (!fusec_finite(&m->inputs[i], inputs[i], syms)) return FUSEC_E_NOT_FINITE;
    for (uint32_t i = 0; hypers && i < m->n_hypers; i++)
        if (!fusec_finite_single(hypers[i])) return FUSEC_E_NOT_FINITE;
    return FUSEC_OK;
}

FUSEC_WEAK fusec_status fusec_check_results(const fusec_manifest *m, int entry, const void *grads,
                                            void *const *outputs, const int32_t *syms) {
    for (uint32_t i = 0; outputs && i < m->n_outputs; i++)
        if (!fusec_finite(&m->outputs[i], outputs[i], syms)) return FUSEC_E_DIVERGED;
    for (uint32_t i = 0; entry == FUSEC_GRAD && grads && i < m->n_grads; i++)
        if (!fusec_finite(&m->grads[i], (const char *)grads + m->grads[i].offset, syms)) return FUSEC_E_DIVERGED;
    return FUSEC_OK;
}
