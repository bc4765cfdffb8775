/* What LLVM does when it cannot go on: a message and an exit status, as everywhere, instead of an abort. */
#ifndef FUSEC_CODEGEN_LLVM_FAILURES_H
#define FUSEC_CODEGEN_LLVM_FAILURES_H

/* Out of memory in LLVM or in C++ ends as memory_exhausted() does; a fatal error of LLVM after its message with exit
 * status 1, and `clean` (or NULL) before, as for memory_before_end.  May be called before any constructor has run. */
void llvm_failures_end(void (*clean)(void));

#endif
