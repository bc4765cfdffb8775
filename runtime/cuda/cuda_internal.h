/* Shared by the files of this folder. */
#ifndef FUSEC_CUDA_INTERNAL_H
#define FUSEC_CUDA_INTERNAL_H
#include "runtime/cuda/fusec_cuda.h"

/* ---- cuda_driver.c -------------------------------------------------------------------------------------------- */
fusec_status fusec_cuda_open(fusec_cuda *c, const char *library);
void fusec_cuda_say(fusec_cuda *c, const char *text); /* appends to the log what fits */
void fusec_cuda_say_number(fusec_cuda *c, int64_t n);
int fusec_cuda_has(fusec_cuda *c, int present, const char *symbol); /* else the log says that the driver is too old */
/* FUSEC_OK if result is CUDA_SUCCESS; else the matching status, with `what` and the driver's words in the log. */
fusec_status fusec_cuda_check(fusec_cuda *c, int result, const char *what);
/* Every public call is between these: the log is emptied, the model's context is current. */
fusec_status fusec_cuda_enter(fusec_cuda *c);
void fusec_cuda_leave(fusec_cuda *c);

/* ---- cuda_module.c ---------------------------------------------------------------------------------------------- */
fusec_status fusec_cuda_load_module(fusec_cuda *c, const fusec_cuda_image *image);
fusec_status fusec_cuda_find_kernels(fusec_cuda *c); /* after fusec_cuda_allocate */

/* ---- cuda_device.c ---------------------------------------------------------------------------------------------- */
fusec_status fusec_cuda_allocate(fusec_cuda *c);
uint64_t fusec_cuda_address(const fusec_cuda *c, const fusec_arg *a);
uint64_t fusec_cuda_round(uint64_t bytes); /* up to FUSEC_CUDA_ALIGN */

/* ---- cuda_graph.c ------------------------------------------------------------------------------------------------ */
enum { FUSEC_CUDA_MAX_ARGS = 255, FUSEC_CUDA_MAP_BYTES = 128, FUSEC_CUDA_MAP_ALIGN = 64 };
/* Parameters of one launch; `node` points into the other members. */
typedef struct fusec_cuda_args {
    fusec_cu_node node;
    union fusec_cu_cluster_value cluster; /* dim[0] is 1 where there are no clusters */
    uint64_t address[FUSEC_CUDA_MAX_ARGS];
    int32_t sym[FUSEC_CUDA_MAX_SYMS + FUSEC_MAX_CONSTANTS];
    void *pointer[FUSEC_CUDA_MAX_ARGS + FUSEC_CUDA_MAX_SYMS + FUSEC_MAX_CONSTANTS + FUSEC_MAX_MAPS];
    char maps[FUSEC_MAX_MAPS * FUSEC_CUDA_MAP_BYTES + FUSEC_CUDA_MAP_ALIGN]; /* tensor maps, from an aligned place on */
} fusec_cuda_args;
/* node.grid_x is 0 where an extent leaves no program.  FUSEC_E_ARGUMENT: more programs than a grid takes;
 * FUSEC_E_DRIVER: the driver knows no tensor maps, or refuses one. */
fusec_status fusec_cuda_prepare(fusec_cuda *c, const fusec_launch *l, const int32_t *syms, fusec_cuda_args *args);
/* On the model's stream. */
fusec_status fusec_cuda_launch(fusec_cuda *c, const fusec_cuda_args *args);

/* ---- cuda_tensor_map.c --------------------------------------------------------------------------------------------- */
/* Encodes kernel k's maps into args->maps and points args->pointer[from..] at them; syms as in args->sym. */
fusec_status fusec_cuda_encode_maps(fusec_cuda *c, const fusec_kernel *k, fusec_cuda_args *args, uint32_t from);
int fusec_cuda_needed(const fusec_launch *l, uint64_t wanted);
/* The graph of the entry for these outputs and extents, kept, updated or made; NULL: there is nothing to launch. */
fusec_status fusec_cuda_graph_for(fusec_cuda *c, int entry, uint64_t wanted, const int32_t *syms, void **exec);
void fusec_cuda_graph_free(fusec_cuda *c, fusec_cuda_graph *g);

#endif
