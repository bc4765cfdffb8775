/* Inside the front end: a loaded program.  Functions and values are separate name spaces, and the
 * user's definitions hide the library's in user code only. */
#ifndef FUSEC_FRONTEND_PROGRAM_H
#define FUSEC_FRONTEND_PROGRAM_H
#include "frontend/frontend.h"
#include "frontend/names.h"
#include "frontend/value.h"

enum { MAX_CALL_DEPTH = 100 }; /* calls inside calls; deeper is refused */

/* A `dim` or `let`: evaluated when first used in a model. */
typedef enum { GLOBAL_UNSEEN, GLOBAL_BUSY, GLOBAL_DONE } GlobalState;
typedef struct Global {
    const Top *top;
    const char *override; /* text of -D NAME=, or NULL */
    GlobalState state;
    Value value;
} Global;

struct Program {
    Arena *arena;
    Diag *diag;
    const char *wanted;              /* FrontendOptions.model */
    bool check_finite;               /* FrontendOptions.check_finite */
    NameMap functions[2], values[2]; /* [library]: Top *, Global * */
    VEC(Top *) tops;                 /* every definition, library first */
    VEC(Top *) models;
};

static inline bool loc_in_library(const Diag *d, SrcLoc loc) {
    return loc.file >= 0 && loc.file < diag_files(d) && diag_source(d, loc.file)->library;
}
/* What NAME means where `from_library` code says it; NULL when it is no such thing. */
const Top *program_function(const Program *p, const char *name, bool from_library);
Global *program_value(const Program *p, const char *name, bool from_library);
bool is_predeclared(const char *name); /* training step inf none all */

/* check.c: names, arity, recursion, where statements may stand; reports into p->diag. */
void check_program(Program *p);

#endif
