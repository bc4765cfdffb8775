#include "codegen/back_end.h"
#include "codegen/nvptx/nvptx.h"
#include <string.h>

static bool ir_text(const Module *m, const BackEndOptions *o, char **text, char **error) {
    return nvptx_emit_ir_text(m, &(NvptxOptions){.arch = o->target->name}, text, error);
}

static bool code(const Module *m, const BackEndOptions *o, const char *header, void **bytes, size_t *n, char **error) {
    char *text;
    (void)header;
    if (!nvptx_emit_ptx(m, &(NvptxOptions){.arch = o->target->name}, &text, error)) return false;
    *bytes = text, *n = strlen(text);
    return true;
}

extern const BackEnd back_end_NVPTX;
const BackEnd back_end_NVPTX = {.usual = "sm_90",
                                .form = &artifact_cuda_form,
                                .ir_text = ir_text,
                                .code = code,
                                .launcher = artifact_cuda,
                                .assembler = "ptxas",
                                .assembled = ".cubin"};
