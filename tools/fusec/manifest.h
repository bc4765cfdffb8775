/* A module's manifest as the runtimes read it, in this process. */
#ifndef FUSEC_TOOLS_MANIFEST_H
#define FUSEC_TOOLS_MANIFEST_H
#include "ir/module.h"

/* In a; points into m. NULL if a kernel's grid does not fit a fusec_kernel. */
const fusec_manifest *manifest_of(Arena *a, const Module *m);

#endif
