/* fusec run: a module, its memory, and what runs it.
 *
 * run.c        opens all of it          run_once.c   one call on given numbers
 * run_memory.c regions, calls           run_train.c  steps over data, evaluation
 * run_weights.c parameters and states from and to files
 * run_inputs.c the inputs of a call from a file
 * run_extents.c run-time extents, tensors at their bounds
 * run_wants.c  outputs that are computed */
#ifndef FUSEC_TOOLS_RUN_H
#define FUSEC_TOOLS_RUN_H
#include "tools/fusec/array.h"
#include "tools/fusec/cli.h"
#include "tools/fusec/executor.h"

typedef struct Run {
    Arena *arena;
    const Options *o;
    Session session;
    Module *m;
    const ExecutorKind *kind;
    void *executor;
    fusec_memory memory; /* exactly the module's bytes */
    float *hypers;
    int32_t *syms;
    void **inputs, **outputs; /* at the bounds; NULL where not used */
    uint32_t seed;
    int64_t step; /* steps done */
    int status;   /* of the command, if it fails */
    uint32_t *turn; /* lines of the steps, by turns; n_turns of them, 0: all lines in every step */
    int n_turns;
    bool *wanted; /* entry infer, by output */
    bool *reads;  /* entry infer: output o depends on input i at [o * inputs + i] */
} Run;

/* "fusec: error: ..." on stderr; always false. */
bool run_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What failed is how the command was written. */
static inline bool run_usage(Run *r, bool said) {
    r->status = EXIT_USAGE;
    return said;
}

/* Compiles what run_call() will be asked for; init is always there.  False after messages. */
bool run_open(Run *r, Arena *a, const Options *o, const bool entries[ENTRY_COUNT]);
void run_close(Run *r);
bool run_extent_given(const Run *r, int sym); /* by --extent */

/* Parameters, states, gradients if `grads`; an arena for the largest of `entries`. */
bool run_allocate(Run *r, const bool entries[ENTRY_COUNT]);
void run_free(Run *r);
void *run_block(Run *r,
                int64_t bytes); /* zeroed, aligned as the module asks, freed by the caller; NULL after a message */
/* Parameters and states by entry init, which has an arena of its own for the time. */
bool run_init(Run *r);
/* After parameters were written here: states whose initial values are computed from them, by entry derive. */
bool run_derive(Run *r);
/* One call; step counts from 1.  Inputs and outputs as they are in r. */
bool run_call(Run *r, Entry e, int64_t step, bool accumulate);
bool run_upload(Run *r);   /* after parameters or states were written here */
bool run_download(Run *r); /* before they are read here */
bool run_print_loss_scale(Run *r); /* after steps of a model that has one; downloads */

/* Whether entry e needs input i for the outputs that are not NULL. */
bool run_needs_input(const Run *r, Entry e, int input);
/* ---- run_wants.c ------------------------------------------------------------------------------------------- */
/* Cuts the infer graph down to the outputs wanted, and sets r->wanted and r->reads. */
bool wants_apply(Run *r, Graph *infer);

/* ---- run_weights.c ----------------------------------------------------------------------------------------- */
/* Parameters by path and `state/PATH`.  whole: every parameter must be there, and every state unless there is none
 * at all; otherwise what is missing stays as it is.  Unknown and misshapen tensors are errors that name them. */
bool weights_load(Run *r, const Arrays *file, const char *path, bool whole);
/* The files in their order (paths may be NULL), after run_init.  A state that none of them has begins anew, from the
 * parameters that they gave. */
typedef struct WeightsFile {
    const char *path;
    bool whole;
} WeightsFile;
bool weights_start(Run *r, const WeightsFile *files, int n);
void weights_list(Run *r, const char *param_prefix, Arrays *out); /* prefix "" or "param/"; then `state/PATH` */
/* Safetensors with a CRC-32 of the data, `metadata` as for safetensors_write. */
bool weights_save(Run *r, const char *path, const char *const *metadata);
bool weights_read(Run *r, const char *path, Arrays *out, uint8_t **bytes, size_t *n); /* checks the CRC */

/* ---- run_inputs.c ------------------------------------------------------------------------------------------- */
/* --inputs FILE into r->inputs; given[i]: it has input i.  Extents as its shapes or --extent have them: seen[s] says which, as for
 * extents_match. */
bool run_inputs(Run *r, bool *given, const char **seen);

/* ---- run_extents.c ------------------------------------------------------------------------------------------ */
/* Works the symbols out of shapes: `shape` belongs to a tensor of run-time shape `rank`, `dim`.  seen[s] names what
 * gave symbol s its value (NULL: nothing yet).  False with a message when they do not fit. */
bool extents_match(Run *r, const ModuleTensor *t, int rank, const int64_t *dim, const char **seen);
int64_t extents_at(const Run *r, Shape s, int64_t *dim); /* the run-time extents; returns the number of elements */
/* Between dense run-time extents and the layout at the bounds. */
void extents_expand(const Run *r, const ModuleTensor *t, const void *dense, void *bound);
void extents_gather(const Run *r, const ModuleTensor *t, const void *bound, void *dense);

/* The names of tensors, to be quoted in messages: "a, b, c and 5 more". */
char *names_text(Arena *a, const char *const *names, int n);
/* " (did you mean x?)" or "". */
const char *names_hint(Arena *a, const char *word, const char *const *names, int n);

int run_once(Run *r); /* after run_open */
int run_train(Run *r);

#endif
