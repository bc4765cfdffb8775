/* Values on which a result does not depend, although it is computed of them: shifts that cancel. */
#ifndef FUSEC_PASSES_SHIFT_H
#define FUSEC_PASSES_SHIFT_H
#include "ir/graph.h"

typedef struct Shifts Shifts;
Shifts *shifts_new(Arena *a, const Graph *g);

/* Does y stay as it is, in exact arithmetic, if a number is added to an element of m?  Then it has no derivative by m.  Softmax has none by the
 * maximum of its row (Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41,
 * 2021), nor has what attention makes of it, in any base, however it is normalized.  false: it does, or it is not known. */
bool shift_cancels(Shifts *s, const Node *m, const Node *y);

#endif
