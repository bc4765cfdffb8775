/* Between values.c, which finds what is kept and what is evaluated together, and values_storage.c. */
#ifndef FUSEC_CODEGEN_SCHEDULE_VALUES_INTERNAL_H
#define FUSEC_CODEGEN_SCHEDULE_VALUES_INTERNAL_H
#include "codegen/schedule/values.h"

TileType only_nontrivial(const Kernel *k, TileType t);
bool same_axes(TileType a, TileType b);
/* The position after which nothing evaluates or reads x. */
int last_use(const Values *v, int x);
/* Is x read where root is evaluated? */
bool reads_value(Values *v, int root, int x);

/* Which axes accesses are contiguous along: asked before anything is kept. */
void values_count_votes(Values *v);
Storage storage_make(const Values *v, const TileType *type, const Inst *dot); /* dot: whose result it is, or NULL */
int64_t storage_bytes(const Storage *s);
void values_keep(Values *v, int x);
/* Chains of updates in one place; needs uses and what is required to be kept. */
void values_share(Values *v);

#endif
