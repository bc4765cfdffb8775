/* What a back end makes of a module.  Each is described in its own folder (back_end.c there); back_ends.c lists them by targets.def.
 *
 * Functions that may be NULL: the back end has no such thing.  false: *error is a message to be freed. */
#ifndef FUSEC_CODEGEN_BACK_END_H
#define FUSEC_CODEGEN_BACK_END_H
#include "codegen/artifact/artifact.h"

typedef struct BackEndOptions {
    const Target *target;
    const char *arch, *triple; /* what --arch and --triple say; NULL: nothing */
} BackEndOptions;

typedef struct BackEnd {
    const char *usual;        /* the target that is meant where none is named */
    const ArtifactForm *form; /* of MODEL.h, which goes with the code */
    /* Writes into the Tile IR what the back end decides.  May be NULL. */
    bool (*schedule)(Module *m, const BackEndOptions *o, char **error);
    /* LLVM IR, malloc'd.  May be NULL. */
    bool (*ir_text)(const Module *m, const BackEndOptions *o, char **text, char **error);
    /* The file of Device.suffix, beside `header` ("model.h"); malloc'd, and text ends with a NUL that *n does not count. */
    bool (*code)(const Module *m, const BackEndOptions *o, const char *header, void **bytes, size_t *n, char **error);
    /* MODEL.c that runs the code, which is in the file named `code`, or in MODEL.c itself where `embedded` is its text.  Returns NULL, or
     * why the module does not fit.  May be NULL. */
    const char *(*launcher)(FILE *f, const Module *m, const char *header, const char *code, const char *embedded);
    /* The program, called as `assembler -arch=TARGET -o OUT IN`, that makes files of this suffix of the code.  Both may be NULL. */
    const char *assembler, *assembled;
} BackEnd;

extern const BackEnd *const back_ends[]; /* by Target.backend */

#endif
