/* Checked host code: it says what it is about to touch (HostCheck in host.h).  For tests. */
#ifndef FUSEC_CODEGEN_HOST_CHECKED_H
#define FUSEC_CODEGEN_HOST_CHECKED_H
#include "codegen/host/host.h"
#include "codegen/llvm/emit.h"

/* To every function of the module, as it was emitted: not yet optimised.  False with *error, which is to be freed: it
 * holds an instruction that nothing here knows the memory of. */
bool checked_instrument(const Emit *e, const HostCheck *check, char **error);

#endif
