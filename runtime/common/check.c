/* Arguments of a call against the manifest. */
#include "runtime/common/fusec.h"

/* needed: by this call; ever: by any entry, so that a block that is misaligned is refused by the first call. */
static fusec_status fusec_check_region(const void *p, uint64_t given, uint64_t needed, uint64_t ever, uint32_t align) {
    if (ever && (uintptr_t)p % align != 0) return FUSEC_E_ARGUMENT;
    if (needed == 0) return FUSEC_OK;
    if (!p) return FUSEC_E_ARGUMENT;
    return given >= needed ? FUSEC_OK : FUSEC_E_MEMORY;
}

static fusec_status fusec_check_memory(const fusec_manifest *m, int entry, const fusec_memory *memory) {
    const uint64_t grads = m->entry[FUSEC_GRAD].present ? m->grad_bytes : 0;
    uint64_t arena = 0;
    fusec_status s = fusec_check_region(memory->params, memory->param_bytes, m->param_bytes, m->param_bytes, m->align);
    for (int e = 0; e < FUSEC_ENTRIES; e++) arena |= m->entry[e].present ? m->entry[e].arena_bytes : 0;
    if (s == FUSEC_OK)
        s = fusec_check_region(memory->states, memory->state_bytes, m->state_bytes, m->state_bytes, m->align);
    if (s == FUSEC_OK)
        s = fusec_check_region(memory->grads, memory->grad_bytes, entry == FUSEC_GRAD ? grads : 0, grads, m->align);
    if (s == FUSEC_OK)
        s = fusec_check_region(memory->arena, memory->arena_bytes, m->entry[entry].arena_bytes, arena, m->align);
    return s;
}

/* The extent of dimension d under the symbols' values. */
static int64_t fusec_extent(const fusec_tensor *t, int d, const int32_t *syms) {
    if (t->sym[d] < 0) return t->dim[d];
    return (int64_t)t->scale[d] * syms[t->sym[d]] + t->shift[d];
}

FUSEC_WEAK int fusec_all(const fusec_tensor *t, const void *data, const int32_t *syms,
                         int (*row)(const fusec_tensor *t, const void *data, int64_t first, int64_t n)) {
    int32_t at[FUSEC_MAX_RANK] = {0};
    const int last = t->rank - 1;
    const int64_t n = last < 0 ? 1 : fusec_extent(t, last, syms);
    for (int d = 0; d <= last; d++)
        if (fusec_extent(t, d, syms) <= 0) return 1;
    for (;;) {
        int64_t first = 0;
        int d = last - 1;
        for (int k = 0; k <= last; k++) first = first * t->dim[k] + at[k];
        if (!row(t, data, first, n)) return 0;
        while (d >= 0 && ++at[d] >= fusec_extent(t, d, syms)) at[d--] = 0;
        if (d < 0) return 1;
    }
}

static int fusec_row_in_range(const fusec_tensor *t, const void *data, int64_t first, int64_t n) {
    const int32_t *values = (const int32_t *)data + first;
    for (int64_t i = 0; i < n; i++)
        if (values[i] < t->lo || values[i] >= t->hi) return 0;
    return 1;
}

/* Each tensor that is given is aligned as its elements need. */
static int fusec_aligned(const fusec_tensor *t, uint32_t n, const void *const *data) {
    static const uint8_t bytes[] = {[FUSEC_BOOL] = 1, [FUSEC_I32] = 4, [FUSEC_F32] = 4, [FUSEC_F16] = 2, [FUSEC_BF16] = 2};
    for (uint32_t i = 0; data && i < n; i++)
        if ((uintptr_t)data[i] % bytes[t[i].dtype] != 0) return 0;
    return 1;
}

/* Every input and output that a launch of this call touches must be there. */
static fusec_status fusec_check_launch(const fusec_manifest *m, const fusec_launch *l, const void *const *inputs,
                                       void *const *outputs) {
    for (uint32_t i = 0; i < m->kernels[l->kernel].n_args; i++) {
        const fusec_arg *a = &m->args[l->first_arg + i];
        if (a->region == FUSEC_R_INPUT && !(inputs && inputs[a->index])) return FUSEC_E_ARGUMENT;
        if (a->region == FUSEC_R_OUTPUT && !a->scratch && !(outputs && outputs[a->index])) return FUSEC_E_ARGUMENT;
    }
    return FUSEC_OK;
}

/* A step without lines is of all of them. */
static uint64_t fusec_wanted(const fusec_manifest *m, int entry, int lines, void *const *outputs) {
    uint64_t wanted = 0;
    for (uint32_t i = 0; outputs && i < m->n_outputs && i < FUSEC_OUTPUT_BITS(entry, m->n_lines); i++)
        if (outputs[i]) wanted |= (uint64_t)1 << i;
    for (uint32_t l = 0; entry == FUSEC_STEP && l < m->n_lines; l++)
        if (lines == 0 || (lines >> l & 1)) wanted |= FUSEC_WANTED_LINE(l);
    return wanted;
}

FUSEC_WEAK fusec_status fusec_check(const fusec_manifest *m, int entry, const fusec_memory *memory,
                                    const void *const *inputs, void *const *outputs, const int32_t *syms,
                                    uint64_t *wanted) {
    const int lines = entry < 0 ? 0 : entry >> 16;
    fusec_status s;
    *wanted = 0;
    if (lines && (FUSEC_ENTRY(entry) != FUSEC_STEP || lines >> m->n_lines)) return FUSEC_E_ARGUMENT;
    entry -= lines << 16;
    if (!memory || entry < 0 || entry >= FUSEC_ENTRIES || (m->n_syms && !syms)) return FUSEC_E_ARGUMENT;
    if (!m->entry[entry].present) return FUSEC_E_UNSUPPORTED;
    s = fusec_check_memory(m, entry, memory);
    if (s != FUSEC_OK) return s;
    for (uint32_t i = 0; i < m->n_syms; i++)
        if (syms[i] < 1 || syms[i] > m->syms[i].bound) return FUSEC_E_ARGUMENT;
    if (!fusec_aligned(m->inputs, m->n_inputs, inputs) ||
        !fusec_aligned(m->outputs, m->n_outputs, (const void *const *)outputs))
        return FUSEC_E_ARGUMENT;
    *wanted = fusec_wanted(m, entry, lines, outputs);
    for (uint32_t i = 0; i < m->entry[entry].n_launches; i++) {
        const fusec_launch *l = &m->launches[m->entry[entry].first_launch + i];
        if (l->wanted_by != FUSEC_ALWAYS && !(l->wanted_by & *wanted)) continue;
        s = fusec_check_launch(m, l, inputs, outputs);
        if (s != FUSEC_OK) return s;
    }
    for (uint32_t i = 0; inputs && entry != FUSEC_INIT && entry != FUSEC_DERIVE && i < m->n_inputs; i++)
        if (inputs[i] && m->inputs[i].lo < m->inputs[i].hi && m->inputs[i].dtype == FUSEC_I32 &&
            !fusec_all(&m->inputs[i], inputs[i], syms, fusec_row_in_range))
            return FUSEC_E_RANGE;
    return FUSEC_OK;
}
