/* The NVPTX back end: a module as PTX.  Threads share tiles as ir/tile_spread.h says; one Tile IR instruction
 * becomes a fixed short sequence per register.  Every kernel takes its buffers' addresses, then the run-time
 * extents (i32) in symbol order; the grid is one-dimensional: program id = ctaid.x, last grid axis fastest. */
#ifndef FUSEC_CODEGEN_NVPTX_H
#define FUSEC_CODEGEN_NVPTX_H
#include "ir/module.h"

typedef struct NvptxOptions {
    const char *arch;  /* of targets.def: "sm_80" */
    bool unoptimised;  /* as first emitted */
} NvptxOptions;

/* false: *error is a message to be freed.  *text is malloc'd and NUL-terminated. */
bool nvptx_emit_ptx(const Module *m, const NvptxOptions *o, char **text, char **error);
bool nvptx_emit_ir_text(const Module *m, const NvptxOptions *o, char **text, char **error);

/* Fills in what only GPUs have of the manifest's kernel: threads, shared memory, clusters, how many tensor maps; and the
 * maps themselves.  In the kernel's parameters the maps come last, 128 bytes each. */
void nvptx_launch(Arena *a, const Kernel *k, fusec_kernel *out, fusec_tensor_map maps[FUSEC_MAX_MAPS]);

#endif
