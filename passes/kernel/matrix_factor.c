#include "passes/kernel/matrix_factor.h"
#include "ir/tile_stage.h"
#include "ir/tile_tensor_map.h"

enum { WIDEST = 16 /* bytes of an access */, SECTOR = 32 /* bytes */, FRAGMENT_COLUMNS = 8 };

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

/* ---- what is read and written element by element ------------------------------------------------------------------- */
static int run_along(const Kernel *k, const Inst *const *def, const Inst *access, int axis) { return axis < 0 ? 0 : load_run_bytes(k, def, access, axis); }

bool whole_sectors(const Kernel *k, const Inst *const *def, const Inst *access, int row, int column) {
    const int bytes = dtype_bytes(k->buffers.at[access->buffer].dtype);
    const bool rows = run_along(k, def, access, column) >= 2 * bytes, columns = run_along(k, def, access, row) >= 2 * bytes;
    return bytes * FRAGMENT_COLUMNS >= SECTOR && (rows || columns);
}

int access_axis(const Kernel *k, const Inst *const *def, const Inst *access, int row, int column) {
    return run_along(k, def, access, row) > run_along(k, def, access, column) ? row : column;
}

/* A stage of `value`, as instruction `at` of the block. */
static Inst *insert_stage(Kernel *k, Block *b, int at, int value) {
    Builder builder = {.k = k, .block = b};
    tile_stage(&builder, value, SPACE_SHARED);
    Inst *stage = vec_last(*b);
    for (int n = b->n - 1; n > at; n--) b->at[n] = b->at[n - 1];
    b->at[at] = stage;
    return stage;
}

static void replace_uses(const Kernel *k, const Block *b, int from, int value, int by) {
    for (int n = from; n < b->n; n++) {
        Inst *i = b->at[n];
        for (int x = 0; x < i->n_in; x++)
            if (i->in[x] == value) i->in[x] = by;
        for (int c = 0; c < i->n_carry; c++)
            if (i->init[c] == value) i->init[c] = by;
        replace_uses(k, &i->body, 0, value, by);
    }
}

Inst *load_staged(Kernel *k, Block *b, int at) {
    const int loaded = b->at[at]->result;
    Inst *stage = insert_stage(k, b, at + 1, loaded);
    replace_uses(k, b, at + 2, loaded, stage->result);
    return stage;
}

bool store_staged(Kernel *k, const Inst *const *def, Block *b, int at, int row, int column) {
    Inst *store = b->at[at];
    if (store->n_in != 1 || whole_sectors(k, def, store, row, column)) return false;
    const int minor = access_axis(k, def, store, row, column), run = run_along(k, def, store, minor);
    if (!run) return false;
    Inst *stage = insert_stage(k, b, at, store->in[0]);
    stage->minor = minor + 1;
    stage->swizzle = factor_swizzle(k, minor, dtype_bytes(k->buffers.at[store->buffer].dtype));
    store->in[0] = stage->result;
    store->by = BY_THREADS;
    store->bytes = run;
    return true;
}
