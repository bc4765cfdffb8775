/* What a status means, in words. */
#include "runtime/common/fusec.h"

FUSEC_WEAK const char *fusec_status_text(fusec_status s) {
    switch (s) {
    case FUSEC_OK: return "ok";
    case FUSEC_E_ARGUMENT: return "a pointer is missing or misaligned, or an extent is past its bound";
    case FUSEC_E_MEMORY: return "a memory region is smaller than the model needs";
    case FUSEC_E_RANGE: return "an integer input is outside its declared range";
    case FUSEC_E_VERSION: return "ABI version or model differs";
    case FUSEC_E_FILE: return "a file cannot be opened, read or written";
    case FUSEC_E_FORMAT: return "a weight file is corrupt, or its tensors are not the model's";
    case FUSEC_E_DRIVER: return "the CUDA driver is absent, or a driver call failed";
    case FUSEC_E_DEVICE: return "no device of a suitable architecture";
    case FUSEC_E_SELFTEST: return "the self-test gave other numbers than the compiler";
    case FUSEC_E_UNSUPPORTED: return "this entry was not compiled in";
    case FUSEC_SKIPPED: return "the step was skipped: a gradient overflowed in f16; the loss scale was halved";
    case FUSEC_E_LOSS_SCALE:
        return "the step was skipped: a gradient overflowed in f16 at the least loss scale; use precision bf16 or f32, "
               "or a smaller learning rate";
    case FUSEC_E_NOT_FINITE: return "an input or a hyperparameter is NaN or infinite; nothing has run";
    case FUSEC_E_DIVERGED: return "an output, the loss or a gradient is NaN or infinite";
    }
    return "unknown status";
}

FUSEC_WEAK int fusec_step_ran(fusec_status s) {
    return s == FUSEC_OK || s == FUSEC_SKIPPED || s == FUSEC_E_LOSS_SCALE || s == FUSEC_E_DIVERGED;
}

FUSEC_WEAK int64_t fusec_outcome_state(const fusec_manifest *m) {
    for (uint32_t i = 0; i < m->n_states; i++)
        if (m->states[i].outcome) return (int64_t)m->states[i].offset;
    return -1;
}

FUSEC_WEAK fusec_status fusec_outcome(int32_t before, int32_t after) {
    if (before == after) return FUSEC_OK;
    if (after < before) return FUSEC_E_DIVERGED;
    return after % 2 ? FUSEC_E_LOSS_SCALE : FUSEC_SKIPPED;
}
