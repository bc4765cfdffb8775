/* Kernels that would get the same Tile IR, found before it is written: the layers of a deep model are built once. */
#ifndef FUSEC_PASSES_SAME_KERNEL_H
#define FUSEC_PASSES_SAME_KERNEL_H
#include "passes/pass.h"

typedef struct KernelFinder KernelFinder;

KernelFinder *kernel_finder(Arena *a, const Plan *p);
/* An earlier kernel that kernel k equals up to which tensors it works on and which random streams it draws; then
 * k's launch constants are set.  -1: none; k is remembered. */
int kernel_find_same(KernelFinder *f, int k);
/* Two kernels, before they have Tile IR: equal up to tensors, streams as well. */
bool kernels_equal(KernelFinder *f, int a, int b);
uint64_t kernel_hash(KernelFinder *f, int k); /* the same for equal ones */

#endif
