/* Files and directories that must not outlive the process, however it ends. */
#ifndef FUSEC_TOOLS_TEMPORARY_H
#define FUSEC_TOOLS_TEMPORARY_H
#include <stdbool.h>

/* A new file by mkstemp, or directory by mkdtemp, which replaces the XXXXXX at the end of `path`; -1, false: errno says
 * why.  Removed when the process ends by memory_exhausted, a fatal error of LLVM or a signal. */
int temporary_file(char *path);
bool temporary_directory(char *path);
/* A path that is going to be made in a temporary directory; false: there are too many, or the path is too long. */
bool temporary_add(const char *path);
/* It is gone, or has become what it was made for. */
void temporary_drop(const char *path);
void temporary_remove(const char *path); /* and dropped */

/* The last first; may be called in a signal handler. */
void temporaries_remove(void);

#endif
