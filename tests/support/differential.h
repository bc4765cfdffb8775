/* Random programs against their float64 evaluation: the set, one program on one back end, and what to print when they
 * disagree. */
#ifndef FUSEC_TESTS_DIFFERENTIAL_H
#define FUSEC_TESTS_DIFFERENTIAL_H
#include "tests/support/directed_graph.h"

typedef struct TrialTally {
    int results; /* compared, or skipped */
    int skipped; /* trial_run says why */
} TrialTally;

/* A program and how it is compiled. */
typedef struct Trial {
    int number;   /* in its set */
    Graph *graph; /* as generated; what float64 evaluates */
    CheckpointMode checkpoint;
    Placing placing;
    bool disabled[PASS_COUNT]; /* -fno-PASS */
    int max_tile;      /* 0: the target's; otherwise tiny tiles: rows are walked in chunks, every axis has edges */
    TrialTally *tally; /* of its set */
} Trial;

/* The programs of a run, in order.  Seven of ten are directed (directed_graph.h), the others drawn by random_graph:
 * larger shapes, deeper expressions.  Entries infer, grad and step come in turn; bounded dims, empty extents,
 * recomputation, tiny tiles, the subset of passes and low precision (low_precision.h) are drawn by number.  Model NUMBER is called p<NUMBER>.  Graphs
 * live in `a` of each call. */
typedef struct TrialSet {
    Arena *arena;
    int programs, made;
    uint64_t seed;
    DirectedSet *directed;
    TrialTally tally;
    Coverage *coverage; /* graphs are counted as they are made, rules as trial_compile is told */
} TrialSet;
TrialSet *trial_set(int programs, uint64_t seed);
void trial_set_free(TrialSet *s);
Trial trial_next(TrialSet *s, Arena *a);

/* NULL with *why: the compiler refused the program with a diagnostic (a bounded dim that would have to be merged),
 * which is no disagreement; an internal error is one, and is the program's result in trial_run.  `fired` as PassContext
 * has it. The graph that is compiled went through its text form. */
Module *trial_compile(Arena *a, const Trial *t, const char *target, uint32_t *fired, const char **why);

typedef enum { TRIAL_AGREES, TRIAL_REFUSED, TRIAL_DIFFERS } TrialResult;

/* How a back end runs a compiled program. */
typedef struct TrialTarget {
    const char *name, *target;
    TestRun run;
    /* NULL, or whether this module need not run, because one that is equal has; the program agrees then. */
    bool (*stands)(void *user, Arena *a, const Module *m);
    void *user;
} TrialTarget;

/* Compiles and runs it on data drawn by its number and compares the results; DIFFERS with *why.  Data under which a
 * jump (floor, a comparison, a cast to an integer, ...) lies within rounding of its edge are drawn again, as are those that
 * low precision makes vague; a result for which no draw avoids that is skipped. */
TrialResult trial_run(Arena *a, const Trial *t, const TrialTarget *b, uint32_t *fired, const char **why);

/* The program's options as `fusec` has them, and its text. */
void trial_print(FILE *f, const Trial *t);

/* Whether a program still shows the fault; *why in a. */
typedef bool TrialFault(void *user, Arena *a, const Trial *t, const char **why);
/* A program in `a` as small as can be found that still shows it: fewer results, nodes, passes left out, smaller
 * extents. */
Trial trial_shrink(Arena *a, const Trial *t, TrialFault *fault, void *user);

#endif
