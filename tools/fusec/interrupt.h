/* SIGINT, SIGTERM, SIGHUP, SIGPIPE and the like: the process ends by them at once, wherever it is, and leaves no
 * temporary file; but while outputs change places it ends behind that, and training ends between two steps. */
#ifndef FUSEC_TOOLS_INTERRUPT_H
#define FUSEC_TOOLS_INTERRUPT_H
#include <stdbool.h>
#include <sys/types.h>

/* From here on; signals that are ignored stay so. */
void interrupt_handle(void);

/* Short spells in which what is on the disk is between two states. Not nested. */
void interrupt_defer(void);
void interrupt_resume(void);

/* From here on the first signal is only noted, a second one ends the process. */
void interrupt_hold(void);
bool interrupt_pending(void);

/* A process group that is ended with this process; 0: none. */
void interrupt_child(pid_t group);

#endif
