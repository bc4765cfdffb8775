/* What a launch has to bring, for the manifest. */
#include "codegen/nvptx/hopper_layout.h"
#include "codegen/nvptx/nvptx.h"

static fusec_tensor_map map_of(const TensorMap *m) {
    fusec_tensor_map out = {.offset = (uint64_t)m->offset,
                            .swizzle = (uint16_t)m->swizzle,
                            .buffer = (uint8_t)m->buffer,
                            .rank = (uint8_t)m->rank,
                            .type = (uint8_t)m->type};
    for (int d = 0; d < m->rank; d++) {
        const Dim x = m->dim[d].extent;
        out.extent[d] = dim_is_fixed(x) ? (struct fusec_map_dim){NO_SYM, 0, (int32_t)x.bound}
                                        : (struct fusec_map_dim){x.sym, (int32_t)x.scale, (int32_t)x.offset};
        out.box[d] = (uint16_t)m->box[d];
        if (d) out.stride[d - 1] = (uint64_t)m->dim[d].stride;
    }
    out.windows = (uint8_t)m->windows;
    for (int w = 0; w < m->windows; w++)
        out.window[w] = (struct fusec_map_window){(int16_t)m->window[w].lower, (int16_t)m->window[w].upper, (uint8_t)m->window[w].step};
    return out;
}

/* Where the clustered axis stands among the grid's. */
static int grid_place(const Kernel *k, int axis) {
    int n = 0;
    for (int x = 0; x < axis; x++) n += k->axes.at[x].kind == AXIS_GRID;
    return n;
}

void nvptx_launch(Arena *a, const Kernel *k, fusec_kernel *out, fusec_tensor_map maps[FUSEC_MAX_MAPS]) {
    const int axis = kernel_cluster_axis(k);
    HopperLayout l;
    out->threads = (uint32_t)kernel_block_threads(k);
    out->persistent = k->persistent;
    out->dependent = k->dependent;
    if (axis >= 0) {
        out->cluster = (uint8_t)k->axes.at[axis].cluster;
        out->cluster_axis = (uint8_t)grid_place(k, axis);
    }
    out->shared_bytes = (uint32_t)kernel_shared_bytes(k);
    if (!hopper_wanted(k) || hopper_layout(a, k, &l)) return;
    out->shared_bytes = (uint32_t)l.bytes;
    for (int i = 0; i < l.n_maps; i++)
        for (int n = l.first[i]; n < l.first[i + 1]; n++) {
            maps[n] = map_of(&l.map[i]);
            maps[n].buffer = (uint8_t)(l.map[i].buffer + n - l.first[i]);
        }
    out->n_maps = (uint8_t)l.first[l.n_maps];
}
