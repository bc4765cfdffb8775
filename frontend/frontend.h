/* Text to graphs. */
#ifndef FUSEC_FRONTEND_FRONTEND_H
#define FUSEC_FRONTEND_FRONTEND_H
#include "frontend/ast.h"
#include "frontend/diag.h"
#include "ir/graph.h"

/* Parses one file (a diag_file index); syntax errors go to `d`, with recovery at line ends, and a
 * tree of what could be read comes back (never NULL).  Limits: 16 MiB of text, nesting 200. */
Ast *ast_parse(Arena *a, Diag *d, int file);
void ast_print(FILE *f, const Ast *ast); /* s-expressions, for tests */

/* `-D NAME=VALUE` */
typedef struct Override {
    const char *name, *value;
} Override;

/* A checked program: the user's file, the files it uses, the standard library. */
typedef struct Program Program;
typedef struct FrontendOptions {
    const Override *overrides;
    int n_overrides;
    const char *model; /* which model when the file has several; NULL: the only one, or a diagnostic */
    bool check_finite; /* a step (grad: the states' updates) whose loss or gradients are not all finite changes nothing */
} FrontendOptions;

/* Reads, parses and checks names; NULL when errors were reported. `path` "-" is standard input. */
Program *program_load(Arena *a, Diag *d, const char *path, const FrontendOptions *o);
int program_models(const Program *p);
const char *program_model_name(const Program *p, int i);

/* Declares the model and lowers all its entries that exist (grad and step need `train`; infer always;
 * init always; derive where a state's initial value is computed from parameters).  Graphs contain GRADIENT and STOP_GRADIENT nodes; graphs[e] is NULL for an absent entry,
 * and has an arena of its own otherwise, which goes with `a`, or before.  All share one Model, whose tables are the same whichever entry is compiled. False on errors. */
bool program_lower(Arena *a, Diag *d, Program *p, const char *model, Graph *graphs[ENTRY_COUNT]);

#endif
