#include "passes/kernel/matrix_factor.h"
#include "ir/tile_stage.h"
#include "ir/tile_tensor_map.h"

enum { WIDEST = 16 /* bytes of an access */ };

/* Neighbours along the axis that all loads behind the value have together in memory; WIDEST: it loads nothing there. */
static int run_elements(const Kernel *k, const Inst *const *def, int value, int axis) {
    const Inst *i = def[value];
    int run = WIDEST;
    if (!i || !tile_type_has(&i->type, axis)) return run;
    if (i->kind == TI_LOAD) {
        const int bytes = load_run_bytes(k, def, i, axis);
        return bytes ? bytes / dtype_bytes(i->type.dtype) : 1;
    }
    for (int n = 0; n < i->n_in && i->kind == TI_ELEMENT; n++) {
        const int in = run_elements(k, def, i->in[n], axis);
        if (in < run) run = in;
    }
    return run;
}

/* Neighbours along the axis are neighbours in memory, aligned or not, in every load behind the value. */
static bool contiguous_along(const Kernel *k, const Inst *const *def, int value, int axis) {
    const Inst *i = def[value];
    if (!i || !tile_type_has(&i->type, axis)) return true;
    if (i->kind == TI_LOAD) {
        int64_t coef = 0;
        for (int d = 0; d < i->n_index; d++)
            if (!index_affine_in(k, i->index[d], axis, &coef) || coef != (d == i->n_index - 1)) return false;
    }
    for (int n = 0; n < i->n_in && i->kind == TI_ELEMENT; n++)
        if (!contiguous_along(k, def, i->in[n], axis)) return false;
    return true;
}

bool factor_along_sum(const Kernel *k, const Inst *const *def, int value, int across, int sum) {
    const int along = run_elements(k, def, value, sum), other = run_elements(k, def, value, across);
    return along > other || (along == other && (contiguous_along(k, def, value, sum) || !contiguous_along(k, def, value, across)));
}

int factor_swizzle(const Kernel *k, int minor, int bytes) {
    const int64_t row = (int64_t)k->axes.at[minor].step * bytes;
    return row % 128 == 0 ? 128 : row % 64 == 0 ? 64 : row % 32 == 0 ? 32 : 0;
}

static bool is_copy(const Kernel *k, const Inst *stage) {
    const Inst *load = copied_load(k, stage->in[0]);
    return load && load->kind == TI_LOAD && (!load->n_in || load->value == 0);
}

void factor_place(const Kernel *k, const Inst *const *def, Inst *stage, int minor, int swizzle) {
    const int bytes = dtype_bytes(stage->type.dtype), run = run_elements(k, def, stage->in[0], minor) * bytes;
    stage->minor = minor + 1;
    stage->swizzle = swizzle;
    stage->bytes = run > WIDEST ? WIDEST : run < bytes ? bytes : run;
    stage->by = stage->bytes >= 4 && is_copy(k, stage) ? BY_ASYNC : BY_THREADS;
}

Inst *factor_stage(const Block *b, int value) {
    for (int n = 0; n < b->n; n++)
        if (b->at[n]->result == value && b->at[n]->kind == TI_STAGE) return b->at[n];
    return NULL;
}
