/* Copies that transpose a tensor; see transpose.c. */
#ifndef FUSEC_CODEGEN_HOST_TRANSPOSE_H
#define FUSEC_CODEGEN_HOST_TRANSPOSE_H
#include "codegen/host/nest.h"

/* Emits the nest if it is such a copy, of which blocks fill vectors both ways; false: it is to be emitted as any. */
bool transpose_emit(KernelEmit *ke, const TileType *axes, int n, Sink *sinks);

#endif
