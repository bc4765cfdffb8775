/* Training and evaluation over data; the parts of run_train.c. */
#ifndef FUSEC_TOOLS_TRAIN_H
#define FUSEC_TOOLS_TRAIN_H
#include "tools/fusec/data.h"
#include "tools/fusec/interrupt.h"
#include "tools/fusec/progress.h"

/* Of a scalar output over rows. */
typedef struct ScalarMean {
    double sum; /* times rows */
    int64_t rows;
} ScalarMean;

typedef struct Training {
    Run *r;
    Data data;
    int64_t first, last;           /* rows trained on */
    int64_t test_first, test_last; /* tested on, if has_test */
    bool has_test;
    int64_t epoch, at;     /* where the run is: rows of this epoch already seen */
    int64_t epochs, steps; /* where it ends: whichever comes first */
    int64_t *order;        /* of this epoch */
    ScalarMean *mean;      /* per output, since the last report */
    int64_t rows_seen;
    double saved; /* when, in seconds */
    Progress progress;
} Training;

/* ---- train_state.c: a run on disk ---------------------------------------------------------------------------- */
bool train_save(Training *t, const char *path);   /* parameters, states, step, position */
bool train_resume(Training *t, const char *path); /* after run_init */

/* ---- evaluate.c -------------------------------------------------------------------------------------------------- */
/* Entry infer over rows [first, last): prints the means of scalar outputs and, if asked, the accuracy; with `outputs`
 * writes them and every output that has the batch dimension, row by row. */
bool evaluate(Run *r, const Data *d, int64_t first, int64_t last, const char *title, const char *outputs);

/* "loss 0.1234  error 0.5" of the scalar outputs that have rows. */
char *scalars_text(Arena *a, const Run *r, const ScalarMean *mean);
bool is_scalar(const ModuleTensor *t);

#endif
