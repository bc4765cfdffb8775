/* The NVPTX back end: a module as PTX.  Threads share tiles as ir/tile_spread.h says; one Tile IR instruction
 * becomes a fixed short sequence per register.  Every kernel takes its buffers' addresses, then the run-time
 * extents (i32) in symbol order; the grid is one-dimensional: program id = ctaid.x, last grid axis fastest. */
#ifndef FUSEC_CODEGEN_NVPTX_H
#define FUSEC_CODEGEN_NVPTX_H
#include "ir/module.h"

typedef struct NvptxOptions {
    const char *arch;  /* "sm_80", "sm_90", "sm_90a" */
    bool unoptimised;  /* as first emitted */
} NvptxOptions;

/* false: *error is a message to be freed.  *text is malloc'd and NUL-terminated. */
bool nvptx_emit_ptx(const Module *m, const NvptxOptions *o, char **text, char **error);
bool nvptx_emit_ir_text(const Module *m, const NvptxOptions *o, char **text, char **error);


#endif
