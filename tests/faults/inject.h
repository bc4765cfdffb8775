/* What the library that makes calls fail (inject.c, loaded by LD_PRELOAD) shares with the test that drives it: a mapped
 * file whose name is in FAULT_PLAN. */
#ifndef FUSEC_TESTS_INJECT_H
#define FUSEC_TESTS_INJECT_H
#include <stdatomic.h>

typedef enum { FAULT_MEMORY, FAULT_FILES, FAULT_KINDS } FaultKind;

typedef struct FaultPlan {
    FaultKind kind;
    long first, last;               /* which calls of that kind fail, counted from 1; 0: none */
    atomic_long calls[FAULT_KINDS]; /* so far */
    atomic_long failed;
    char where[32]; /* the function that failed first */
} FaultPlan;

#endif
