/* A value over memory that its kernel reads: a parameter's update, or what is read last. */
#ifndef FUSEC_PASSES_IN_PLACE_H
#define FUSEC_PASSES_IN_PLACE_H
#include "passes/algebra/access.h"
#include "passes/plan.h"

/* A sum over the slices of rows that the kernel walks: it reads at the rows what it sums. */
static inline bool in_place_sums_rows(const PlanKernel *k, const PlanNode *pn) { return pn->part == PART_SLICES && k->kind == KERNEL_ROW; }

/* Node pn of the kernel has that access (of what it sums, where it sums rows): is it to no other element than v is written to, if v lies
 * where what is read lies, and by the same program?  Their shapes may differ, where both are walked in row-major order. */
bool in_place_at(const PlanKernel *k, const PlanNode *pn, const Access *read, const PlanNode *v);

#endif
