/* How far a run has come: a bar that redraws itself on a terminal, nothing elsewhere. */
#ifndef FUSEC_TOOLS_PROGRESS_H
#define FUSEC_TOOLS_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct Progress {
    bool shown;           /* a terminal, and not --quiet */
    int64_t first, total; /* steps before this run; at its end */
    double start, drawn;  /* seconds */
} Progress;

double progress_now(void); /* monotonic, seconds */
void progress_start(Progress *p, bool quiet, int64_t first, int64_t total);
/* At most ten times a second. `what`: "epoch 3/20", `value`: "loss 0.1234". */
void progress_draw(Progress *p, int64_t done, const char *what, const char *value);
void progress_clear(Progress *p);                       /* before other output */
double progress_speed(const Progress *p, int64_t done); /* steps per second since the start */

#endif
