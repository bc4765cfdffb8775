/* Tensor maps: views of a launch's buffers, encoded by the driver for these addresses and extents.  Rules: CUDA Driver
 * API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col. */
#include "runtime/cuda/cuda_internal.h"

/* CUtensorMapSwizzle */
static int cuda_swizzle(uint32_t bytes) { return bytes == 32 ? 1 : bytes == 64 ? 2 : bytes == 128 ? 3 : 0; }

static fusec_status cuda_encode_window(fusec_cuda *c, const fusec_tensor_map *t, void *address, const uint64_t *dims,
                                       void *map) {
    int lower[FUSEC_MAP_RANK] = {0}, upper[FUSEC_MAP_RANK] = {0};
    uint32_t steps[FUSEC_MAP_RANK] = {1, 1, 1, 1, 1};
    for (uint32_t w = 0; w < t->windows; w++) {
        lower[w] = t->window[w].lower;
        upper[w] = t->window[w].upper;
        steps[w + 1] = t->window[w].step;
    }
    if (!fusec_cuda_has(c, c->driver.cuTensorMapEncodeIm2col != NULL, "cuTensorMapEncodeIm2col")) return FUSEC_E_DRIVER;
    return fusec_cuda_check(c,
                            c->driver.cuTensorMapEncodeIm2col(map, t->type, t->rank, address, dims, t->stride, lower, upper,
                                                              t->box[0], t->box[1], steps, 0, cuda_swizzle(t->swizzle),
                                                              FUSEC_CU_L2_PROMOTION_256B, 0),
                            "cuTensorMapEncodeIm2col");
}

static fusec_status cuda_encode(fusec_cuda *c, const fusec_tensor_map *t, const fusec_cuda_args *args, void *map) {
    uint64_t dims[FUSEC_MAP_RANK];
    uint32_t box[FUSEC_MAP_RANK], steps[FUSEC_MAP_RANK];
    void *address = (void *)(uintptr_t)(args->address[t->buffer] + t->offset);
    for (uint32_t d = 0; d < t->rank; d++) {
        const struct fusec_map_dim *x = &t->extent[d];
        const int64_t extent = (x->sym < 0 ? 0 : (int64_t)x->scale * args->sym[x->sym]) + x->shift;
        dims[d] = extent > 0 ? (uint64_t)extent : 1; /* a map of nothing, which nobody uses */
        box[d] = t->box[d];
        steps[d] = 1;
    }
    if (t->windows) return cuda_encode_window(c, t, address, dims, map);
    return fusec_cuda_check(c,
                            c->driver.cuTensorMapEncodeTiled(map, t->type, t->rank, address, dims, t->stride, box, steps, 0,
                                                             cuda_swizzle(t->swizzle), FUSEC_CU_L2_PROMOTION_256B, 0),
                            "cuTensorMapEncodeTiled");
}

FUSEC_WEAK fusec_status fusec_cuda_encode_maps(fusec_cuda *c, const fusec_kernel *k, fusec_cuda_args *args,
                                               uint32_t from) {
    char *at =
        args->maps + (FUSEC_CUDA_MAP_ALIGN - (uintptr_t)args->maps % FUSEC_CUDA_MAP_ALIGN) % FUSEC_CUDA_MAP_ALIGN;
    fusec_status s = FUSEC_OK;
    if (!fusec_cuda_has(c, c->driver.cuTensorMapEncodeTiled != NULL, "cuTensorMapEncodeTiled")) s = FUSEC_E_DRIVER;
    for (uint32_t i = 0; i < k->n_maps && s == FUSEC_OK; i++, at += FUSEC_CUDA_MAP_BYTES) {
        s = cuda_encode(c, &c->manifest->maps[k->first_map + i], args, at);
        args->pointer[from + i] = at;
    }
    if (s == FUSEC_OK) return s;
    fusec_cuda_say(c, "kernel ");
    fusec_cuda_say(c, k->name);
    fusec_cuda_say(c, "\n");
    return s;
}
