/* Kernels for the fake driver: a module's own, run by the Tile IR interpreter. */
#ifndef FUSEC_TESTS_FAKE_KERNELS_H
#define FUSEC_TESTS_FAKE_KERNELS_H
#include "ir/module.h"
#include "tests/support/fake_cuda.h"

/* For fake.kernels, ended by a NULL name; in the arena.  A launch over another grid than the kernel's counts as misuse,
 * one that the interpreter refuses fails the test. */
FakeKernel *fake_kernels(Arena *a, const Module *m);

#endif
