#include "codegen/back_end.h"
#include "ir/memory.h"
#include <stdlib.h>

static bool code(const Module *m, const BackEndOptions *o, const char *header, void **bytes, size_t *n, char **error) {
    TextStream t;
    (void)o;
    const char *why = artifact_c99(text_open(&t), m, header);
    *bytes = text_close(&t), *n = t.n;
    if (!why) return true;
    free(*bytes);
    *error = memory_strdup(why);
    return false;
}

extern const BackEnd back_end_C99;
const BackEnd back_end_C99 = {.usual = "c99", .form = &artifact_c99_form, .code = code};
